"""The theme that all pictures share: colours, light and dark, panels, heat maps, legends."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files import atomic_write
from ..errors import FighterError, needs_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

PICTURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".webp", ".eps", ".ps", ".tif", ".tiff")
HIGHEST = 99.8  # percentile of the entries at which a colour scale ends


@dataclass(frozen=True)
class Theme:
    """Colours of a picture; ``up`` and ``down`` are safe for colour-blind readers."""

    ink: str
    faint: str
    ground: str
    accent: str
    up: str
    down: str
    shades: tuple[float, float]  # range of a colour map that stands out from the ground

    @classmethod
    def follow(cls, dark: bool | None = None) -> "Theme":
        """Return the light or the dark theme; None follows the ground of matplotlib's style."""
        if dark is not None:
            return DARK if dark else LIGHT
        with needs_package("matplotlib"):
            from matplotlib import rcParams
            from matplotlib.colors import to_hex, to_rgba
        *colour, alpha = to_rgba(rcParams["figure.facecolor"])
        # A transparent ground usually lies on a white page.
        red, green, blue = (alpha * channel + 1 - alpha for channel in colour)
        theme = DARK if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else LIGHT
        return replace(theme, ground=to_hex((red, green, blue)))

    def panels(
        self,
        rows: int,
        columns: int,
        width: float,
        height: float,
        *,
        left: float = 0,
        below: float = 0.4,
        **more: Any,
    ) -> "tuple[Figure, np.ndarray]":
        """Return a figure and its axes ``[rows, columns]``; sizes are of one panel, in inches."""
        with needs_package("matplotlib"):
            from matplotlib.figure import Figure
        if not rows or not columns:
            raise FighterError("there is nothing to draw: pass at least one series or graph")
        size = (width * columns + left, height * rows + below)
        figure = Figure(figsize=size, layout="constrained", facecolor=self.ground)
        grid = figure.subplots(rows, columns, squeeze=False, **more)
        for axes in grid.ravel():
            axes.set_facecolor("none")
            axes.grid(False)  # even if the style asks for one: ticks are enough
        return figure, grid

    def tidy(self, axes: "Axes", title: str = "") -> None:
        """Give axes two thin spines, small ticks and a title on the left."""
        axes.set_title(title, **self.title())
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(self.faint)
        axes.tick_params(labelsize=7.5, labelcolor=self.ink, color=self.faint, which="both")

    def title(self) -> dict[str, Any]:
        """Return the keyword arguments that style the title of a panel."""
        return {"fontsize": 8.5, "color": self.ink, "loc": "left"}

    def time_axis(self, axes: "Axes") -> None:
        """Label a time axis with a few short dates."""
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(minticks=3, maxticks=6)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        axes.xaxis.get_offset_text().set(size=7.5, color=self.ink)

    def legend(
        self, figure: "Figure", axes: "Axes", columns: int, where: str = "lower center"
    ) -> None:
        """Add one legend to the figure, for what is drawn in ``axes``."""
        style = {"frameon": False, "fontsize": 8, "labelcolor": self.ink}
        place: dict[str, Any] = {"loc": f"outside {where}", "ncols": columns}
        figure.legend(*axes.get_legend_handles_labels(), **place, **style)

    def heatmap(self, axes: "Axes", graph: np.ndarray, **colours: Any) -> "AxesImage":
        """Draw a graph as a heat map; its rows are targets, its columns sources."""
        image = axes.imshow(graph, interpolation="nearest", **colours)
        ticks = [*range(0, len(graph) - 8, 16), len(graph) - 1]
        axes.set(xticks=ticks, yticks=ticks)
        axes.tick_params(labelsize=6.5, labelcolor=self.ink, color=self.faint, length=2)
        axes.spines[:].set_color(self.faint)
        return image

    def signed(self) -> Any:
        """Return a colour map from ``down`` over the ground to ``up``."""
        from matplotlib import colormaps
        from matplotlib.colors import LinearSegmentedColormap

        if self.shades == LIGHT.shades:
            return colormaps["RdBu_r"]
        return LinearSegmentedColormap.from_list("signed", [self.down, self.ground, self.up])

    def steps(self, count: int) -> np.ndarray:
        """Return ``count`` colours of visibly increasing lightness."""
        from matplotlib import colormaps

        return colormaps["plasma"](np.linspace(*self.shades, max(count, 2)))[:count]

    def bar(
        self, figure: "Figure", image: "AxesImage | None", panels: np.ndarray, label: str, side: str
    ) -> None:
        """Draw the colour bar that ``panels`` share."""
        if image is None:
            return
        where = {"location": side, "shrink": 0.6, "aspect": 30, "pad": 0.02}
        bar = figure.colorbar(image, ax=panels.ravel().tolist(), extend="both", **where)
        low, high = image.get_clim()
        bar.minorticks_off()
        if low < 0:  # a signed scale spans too many decades to label them all
            names = [f"{low:.1g}", "", "0", "", f"{high:.1g}"]
            bar.set_ticks([low, low / 10, 0, high / 10, high], labels=names)
        else:  # a scale of less than a decade has no ticks of its own
            ticks = np.geomspace(low, high, 4).tolist()
            bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks])
        bar.set_label(label, fontsize=8, color=self.ink)
        bar.ax.tick_params(labelsize=7, labelcolor=self.ink, color=self.faint, which="both")
        bar.outline.set_visible(False)


# Vermilion and blue are from Okabe and Ito's palette; both are lighter on a dark ground.
LIGHT = Theme("#333333", "#d9d9d9", "#ffffff", "#1f6fb4", "#d55e00", "#0072b2", (0.05, 0.85))
DARK = Theme("#e3e3e3", "#4d4d4d", "#16181b", "#7cc0ff", "#ff8a50", "#56b4e9", (0.42, 0.97))


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Write a picture atomically; the ending of the path gives the format."""
    with atomic_write(path) as file:
        # A style may ask for another ground in files; keep that of the figure.
        figure.savefig(file, dpi=150, facecolor=figure.get_facecolor())


def log_norm(graphs: Sequence[np.ndarray]) -> Any:
    """Return one logarithmic scale for all graphs, without their few most extreme entries."""
    from matplotlib.colors import LogNorm

    entries = np.concatenate([np.ravel(graph) for graph in graphs])
    low, high = np.percentile(entries[entries > 0], [1, HIGHEST])
    return LogNorm(low, max(high, 2 * low), clip=True)


def signed_norm(edges: Sequence[np.ndarray]) -> Any:
    """Return a signed scale with two decades on each side of zero, linear in between.

    It is logarithmic because what a node sends to itself is far larger than any other edge.
    """
    from matplotlib.colors import SymLogNorm

    sizes = np.abs(np.concatenate([np.ravel(edge) for edge in edges]))
    most = max(float(np.percentile(sizes, HIGHEST)), 1e-300)
    return SymLogNorm(most / 100, vmin=-most, vmax=most, clip=True)


def dark_to_light() -> Any:
    """Return the colour map of attention weights; a weight of 0 gets the lowest colour."""
    from matplotlib import colormaps

    return colormaps["cividis"].with_extremes(bad=colormaps["cividis"](0.0))


def power_name(power: int) -> str:
    """Return the name of a power of A: I, A, A², …."""
    digits = str(power).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return {0: "I", 1: "A"}.get(power, f"A{digits}")


def label(name: Any, length: int = 28) -> str:
    """Return a name on one line of at most ``length`` letters; its dollars start no formula."""
    text = " ".join(str(name).split())
    if len(text) > length:  # leave out the middle: names often differ at their ends
        start = (length - 1) * 2 // 5
        text = f"{text[:start]}…{text[len(text) - (length - 1 - start) :]}"
    return text.replace("$", r"\$")


def labels(names: Sequence[Any], length: int = 28) -> list[str]:
    """Shorten names to ``length`` letters, or to as many more as keep them distinct."""
    longest = max((len(str(name)) for name in names), default=0)
    for letters in range(length, longest):
        if len({label(name, letters) for name in names}) == len(set(map(str, names))):
            return [label(name, letters) for name in names]
    return [label(name, max(longest, length)) for name in names]
