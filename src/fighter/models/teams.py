"""Groups of experts that run over the same series, and the errors of their forecasts.

The experts on the values, those on the logarithms, and the others (medians, TSB) are one
:class:`Team` each. A block of rows at a time, a team forecasts, and its earlier forecasts are
compared with the values that have come in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import isnan

import torch
from torch import Tensor

from .._typing import Bool, Float, Int
from .autoregression import Autoregressions
from .demand import Intermittent
from .medians import Medians, median
from .smoothing import Smoothers
from .weighing import SHIFT_HALF_LIFE, Sums
from .widths import HALF_LIFE

LARGEST_LOG = 600.0

Group = Smoothers | Autoregressions | Medians | Intermittent
Block = Float[Tensor, "rows experts series"]


@dataclass
class Errors:
    """Errors of one step at the rows of a block.

    Args:
        which: the experts of a team that have any.
        size: their errors, NaN where they are unknown.
        usual: errors of the median expert beside them, once :meth:`compare` has been called.
        known: 1 where an error counts, else 0; None if all of them count.
    """

    which: Int[Tensor, "some"]
    size: Float[Tensor, "rows some series"]
    usual: Tensor | None = None
    known: Tensor | None = None

    def middle(self) -> Float[Tensor, "rows series"]:
        """Return the median over the experts; if that is 0, their mean, because most are exact."""
        if not len(self.which):
            return self.size.new_full((len(self.size), self.size.shape[2]), torch.nan)
        found = median(self.size)
        if (found == 0).any():
            found = torch.where(found == 0, self.size.nanmean(1), found)
        return found

    def compare(self, middle: Float[Tensor, "rows series"]) -> None:
        """Set the errors of the median expert; where these are NaN, no error counts."""
        self.usual = middle
        if isnan(float(middle.sum())) or isnan(float(self.size.sum())):
            unknown = self.size.isnan() | middle.isnan()[:, None]
            self.known = (~unknown).to(self.size)
            self.usual = self.known * middle.nan_to_num()[:, None]
            self.size.masked_fill_(unknown, 0.0)


class Team:
    """Experts over some series, a block of rows at a time.

    Args:
        groups: the experts, and how many each group has.
        anchors: steps at which errors are measured.
        columns: the series that they run over.
        series: number of all series.
        units: their units, if the experts run on logarithms of the values.
    """

    def __init__(
        self,
        groups: Sequence[tuple[Group, int]],
        anchors: Sequence[int],
        columns: Int[Tensor, "some"],
        series: int,
        units: Float[Tensor, "some"] | None = None,
    ):
        self.groups = [group for group, _ in groups]
        self.bounds = [*pairwise(accumulate((size for _, size in groups), initial=0))]
        self.size = sum(size for _, size in groups)
        self.anchors, self.columns, self.units = anchors, columns, units
        self.all = len(columns) == series
        self.sums = Sums.zeros(len(anchors), self.size, len(columns))
        # Forecasts made before a block of the rows in it, for each anchor and group.
        self.pending: list[list[Block | None]] = [[None] * len(groups) for _ in anchors]
        self.ready: list[Bool[Tensor, "rows experts series"]] = []

    def advance(self, end: int) -> None:
        """Read the rows up to ``end``."""
        for group in self.groups:
            group.advance(end)
        self.ready = [group.ready() for group in self.groups]

    def at(self, x: Float[Tensor, "rows every"]) -> Float[Tensor, "rows series"]:
        """Return the columns of the team."""
        return x if self.all else x[..., self.columns]

    def errors(self, i: int, x: Float[Tensor, "rows every"], *, squared: bool) -> Errors:
        """Return the errors at the rows of the last block, whose values are ``x``."""
        x, h, rows, parts, which = self.at(x), self.anchors[i], len(x), [], []
        for g, group in enumerate(self.groups):
            old, new = self.pending[i][g], None
            if self.ready[g].any():
                new = self.to_values(group.path(h))
                if not self.ready[g].all():
                    new.masked_fill_(~self.ready[g], torch.nan)
            if old is None and new is None:
                continue
            first, last = self.bounds[g]
            nothing = x.new_full((1, 1, 1), torch.nan)
            shape = (last - first, x.shape[1])
            made = torch.cat(
                [
                    nothing.expand(h, *shape) if old is None else old,
                    nothing.expand(rows, *shape) if new is None else new,
                ]
            )
            self.pending[i][g] = made[-h:].clone() if new is not None or rows < h else None
            parts.append(made[:rows])
            which.append(torch.arange(first, last))
        if not parts:
            return Errors(torch.arange(0), x.new_zeros(rows, 0, x.shape[1]))
        size = torch.cat(parts, 1) if len(parts) > 1 else parts[0].clone()
        size.sub_(x[:, None])
        return Errors(torch.cat(which), size.square_() if squared else size.abs_())

    def add(self, errors: Sequence[Errors], rows: slice) -> None:
        """Add errors at some rows of the block to the sums; there are some for each anchor."""
        for i, each in enumerate(errors):
            for half_life, into in (
                (HALF_LIFE, [part[i] for part in self.sums[:3]]),
                (SHIFT_HALF_LIFE, [*self.sums.late] if i == 0 else []),
            ):
                if into:
                    _add_discounted(into, each, rows, half_life, self.anchors[i] ** -0.5)

    def paths(self, t: int) -> Float[Tensor, "experts horizon series"]:
        """Forecast all steps after row t of the last block."""
        return self.to_values(torch.cat([group.paths(t) for group in self.groups]))

    def ready_at(self, row: int) -> Bool[Tensor, "experts series"]:
        """Tell which experts can forecast after a row of the last block."""
        return torch.cat([ready[row] for ready in self.ready])

    def spread(self, part: Tensor, series: int) -> Tensor:
        """Return an array of the team's columns as one of all series, with zeros for the rest."""
        if self.all:
            return part
        whole = part.new_zeros(*part.shape[:-1], series)
        whole[..., self.columns] = part
        return whole

    def to_values(self, made: Tensor) -> Tensor:
        """Return forecasts in the units of the values, in place."""
        if self.units is None:
            return made
        return made.clamp_(max=LARGEST_LOG).exp_().div_(self.units)


def _add_discounted(
    into: Sequence[Tensor], errors: Errors, rows: slice, half_life: float, share: float
) -> None:
    """Add rows to sums of errors, usual errors and (if it is among them) counts, in place.

    After ``half_life`` rows an entry counts half.
    """
    count = rows.stop - rows.start
    weight = 0.5 ** (torch.arange(count, -1, -1, dtype=torch.float64) / half_life)
    for sums in into:
        sums *= weight[0]
    if not len(errors.which) or errors.usual is None:
        return
    weight = weight[1:] * share
    known = weight.sum() if errors.known is None else errors.known[rows]
    for sums, part in zip(into, (errors.size[rows], errors.usual[rows], known), strict=False):
        added = torch.tensordot(weight, part, 1) if part.ndim else part
        if len(errors.which) == len(sums):
            sums += added
        else:
            sums[errors.which] += added
