"""The difference of two forecasts, split exactly by what changed and by how the model reacted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files import check_target
from ..data import Panel, forecast_table
from ..errors import FighterError, check_count
from ..plotting.changes import draw
from ..plotting.theme import PICTURES, save_figure
from .forecast import Forecast

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REACTIONS = {
    "attention": "the network attends to other values",
    "norms": "the network scales its input differently",
    "gates": "activations of the network open or close",
    "scale and gaps": "a value is no longer missing, or a new series has another scale",
    "smoothing": "smoothing trusts other experts",
    "pretrained network": "the pretrained network weighs values differently",
    "vector autoregression": "the vector autoregression has other weights",
    "shares": "the forecasts that are mixed have other shares",
    "later window": "the same time is fewer steps ahead, if all had come as forecast",
    "bounds": "the forecast is clamped to a bound, or no longer is",
}
"""What the model may do when its input changes, in words."""


@dataclass(frozen=True, eq=False)
class ForecastChange:
    """The difference of two forecasts: ``after - before = Σ effects + Σ reactions``.

    Args:
        before: the first forecast.
        after: the second one, of the same series and times.
        effects: what each change adds to the forecast with the model held as it was before: its
            graphs, norms, gates and shares, ``[H, N]`` by name.
        reactions: what is added because these changed as well, ``[H, N]`` by name, see
            :data:`REACTIONS`; those that are zero everywhere are left out.
        history: the table that the first forecast follows.
    """

    before: Forecast
    after: Forecast
    effects: Mapping[str, np.ndarray]
    reactions: Mapping[str, np.ndarray]
    history: Panel

    @property
    def difference(self) -> np.ndarray:
        """The second forecast minus the first, ``[H, N]``."""
        return self.after.point - self.before.point

    @property
    def parts(self) -> dict[str, np.ndarray]:
        """Effects and reactions ``[H, N]`` by name; they add up to the difference."""
        return {**self.effects, **self.reactions}

    def table(self, like: Any = None) -> Any:
        """Return one row per series and step: both forecasts, their difference, and its parts.

        Args:
            like: a table, or "pandas", "polars" or "pyarrow" (default: the type of the table that
                the forecast was made from).
        """
        sums = {"before": self.before.point, "after": self.after.point}
        return forecast_table(
            self.before.like if like is None else like,
            self.before.ids,
            self.before.times,
            {**sums, "difference": self.difference, **self.parts},
            axis=self.before.axis,
            id_cols=self.before.id_cols,
        )

    def summary(self, most: int = 5, unique_id: Any = None) -> str:
        """Say what changed the forecasts, for the series that changed most.

        Args:
            most: number of series to name (default: 5).
            unique_id: the one series to name (default: those that changed most).
        """
        check_count("most", most)
        if unique_id is not None:
            series = self._place(unique_id)
            if not self.difference[:, series].any():
                return f"The forecast of {self.before.ids[series]} does not change."
            return f"{self._sentence(series)}\n{NOTE}"
        size = np.abs(self.difference).mean(0)
        order = [i for i in np.argsort(-size, kind="stable") if size[i] > 0]
        if not order:
            return "No forecast changes."
        named = [i for i in order[:most] if size[i] > 0.01 * size[order[0]]]
        lines = [self._sentence(i) for i in named]
        if rest := len(order) - len(named):
            lines.append(f"{rest} more series change{'s' * (rest == 1)} less.")
        return "\n".join([*lines, NOTE])

    def __str__(self) -> str:
        return self.summary()

    def _sentence(self, series: int) -> str:
        """Describe one series, by means over the horizon."""
        before, after = (x.point[:, series].mean() for x in (self.before, self.after))
        means = {name: float(part[:, series].mean()) for name, part in self.parts.items()}
        gross = sum(map(abs, means.values())) or 1.0
        named = [
            f"{value:+.4g} {self._because(name)}"
            for name, value in sorted(means.items(), key=lambda item: -abs(item[1]))
            if abs(value) > 0.005 * gross
        ]
        change = f"{after - before:+.4g}, from {before:.4g} to {after:.4g}"
        head = f"{self.before.ids[series]} changes by {change} in the mean of the horizon"
        return f"{head}: {', '.join(named)}."

    def _because(self, name: str) -> str:
        if name in self.effects:
            return f"from {name}"
        return f"because {REACTIONS[name]}" if name in REACTIONS else f"from {name}"

    def plot(self, unique_id: Any = None, path: str | Path | None = None) -> "Figure":
        """Draw both forecasts of a series, and below them the parts of their difference.

        Args:
            unique_id: the series (default: the one that changes most).
            path: file to write, .png, .svg or .pdf (default: none).
        """
        ids = self.before.ids
        if unique_id is None:
            unique_id = ids[int(np.abs(self.difference).mean(0).argmax())]
        if path is not None:
            check_target(Path(path), PICTURES)
        i = self._place(unique_id)
        first, second = (x.tracks(self.history)[i] for x in (self.before, self.after))
        figure = draw(first, second, {name: part[:, i] for name, part in self.parts.items()})
        if path is not None:
            save_figure(figure, path)
        return figure

    def _place(self, unique_id: Any) -> int:
        """Return the place of a series."""
        ids = self.before.ids
        if unique_id not in ids:
            reason = f"is not among the series, such as {ids[0]!r}"
            raise FighterError(reason, argument="unique_id", value=unique_id)
        return ids.index(unique_id)


NOTE = (
    "Effects are those of the model as it was before the change; the rest is how it reacts. "
    "Both say how the model computes, not what causes what in the world."
)


def drop_zeros(parts: Mapping[str, np.ndarray], scale: np.ndarray) -> dict[str, np.ndarray]:
    """Leave out parts that only hold what rounding leaves of a zero."""
    least = 1e-12 * np.maximum(scale, 1e-300)
    return {name: part for name, part in parts.items() if (np.abs(part) > least).any()}


def name_uniquely(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Return different names: "effect of" stands before columns, " (2)" after a repeated name."""
    found: list[str] = []
    for name in names:
        first = f"effect of {name}" if name in taken else name
        tries = chain([first], (f"{first} ({number})" for number in count(2)))
        found.append(next(each for each in tries if each not in (*found, *taken)))
    return found
