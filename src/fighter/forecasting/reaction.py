"""Split the difference of forecasts after several versions of a table, in double precision.

The forecast is frozen at the first version: an affine map of past values and covariates, whose
graphs, norms, gates, weights and shares are numbers. What this map makes of a version is the effect
of what was changed; the rest is how the model reacts, which is split by what is no longer held.
"""

import copy
from collections.abc import Sequence
from functools import cached_property
from itertools import combinations
from math import factorial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._typing import Float
from ..data import Panel, Scaler
from ..data.bounds import clamp_finished, clamp_to_bounds
from ..explain import KINDS, Frozen
from ..models import ForecastNet
from ..models.attribution import Attribution
from ..models.autoregression import MEMORY
from ..models.local import BESIDE
from ..models.vector import VectorAttribution
from ..models.zero_shot import load_network, look_back, tell
from .alone import is_linked
from .covariates import Applied
from .explain import FrozenPretrained
from .fitted import SERIES_AT_ONCE, Fitted
from .history import positions

UNTRAINED = ("smoothing", "pretrained network", "vector autoregression")

Point = Float[Tensor, "horizon series"]
Each = tuple[Tensor, ...]  # one of each forecast in UNTRAINED
Version = tuple[Panel, np.ndarray]
"""A panel, and the covariates known ahead of the horizon after it ``[H, N, F]``."""


class Split(NamedTuple):
    """Two forecasts in the units of the table, and the parts of their difference, ``[H, N]``."""

    before: np.ndarray
    after: np.ndarray
    effects: list[np.ndarray]  # of the step from each version to the next
    reactions: dict[str, np.ndarray]


def split_versions(fitted: Fitted, versions: Sequence[Version]) -> Split:
    """Split the difference between the forecasts after the first and the last version.

    Series that do not see each other are taken some at a time.
    """
    series = versions[0][0].n_series
    if not fitted.apart or series <= SERIES_AT_ONCE:
        return _split(fitted, versions)
    splits = [
        _split(fitted, [(panel.take(some), known[:, some]) for panel, known in versions])
        for some in np.split(np.arange(series), range(SERIES_AT_ONCE, series, SERIES_AT_ONCE))
    ]
    names = list(dict.fromkeys(name for split in splits for name in split.reactions))
    return Split(
        np.concatenate([s.before for s in splits], 1),
        np.concatenate([s.after for s in splits], 1),
        [np.concatenate(parts, 1) for parts in zip(*(s.effects for s in splits), strict=True)],
        {
            name: np.concatenate(
                [s.reactions.get(name, np.zeros_like(s.before)) for s in splits], 1
            )
            for name in names
        },
    )


@torch.no_grad()
def _split(fitted: Fitted, versions: Sequence[Version]) -> Split:
    network = copy.deepcopy(fitted.network).double()
    start = _Forecast(fitted, network, *versions[0])
    # The scales of new series are those of the first version, as everything that is frozen.
    steps = [_Forecast(fitted, network, *v, scaler=start.scaler) for v in versions[1:]]
    end = steps[-1] if steps else start
    if end.new_scale:
        end = _Forecast(fitted, network, *versions[-1])
    share, own = start.share, 1 - start.share
    effects, before = [], start
    for after in steps:
        effects.append(share * start.follow(before, after))
        for weight, moved in zip(start.weights, start.follow_alone(before, after), strict=True):
            effects[-1] = effects[-1] + own * weight * moved
        before = after
    reactions = {name: share * part for name, part in start.react(before, end).items()}
    direct = start.follow_alone(start, before)
    for name, weight, moved, first, last in zip(
        UNTRAINED, start.weights, direct, start.alone, end.alone,
        strict=True,
    ):  # fmt: skip
        reactions[name] = own * weight * (last - first - moved)
    reactions["shares"] = end.mixed() - end.mixed(start)
    reactions["bounds"] = (end.point - end.mixed()) - (start.point - start.mixed())
    places = positions(versions[0][0].ids, start.ids)

    def shown(x: Tensor) -> np.ndarray:
        return x.expand_as(start.point)[:, places].cpu().numpy()

    return Split(
        shown(start.point),
        shown(end.point),
        [shown(x) for x in effects],
        {name: shown(x) for name, x in reactions.items()},
    )


class _Forecast:
    """The forecasts after a panel: of the network, of the others, and both mixed."""

    def __init__(
        self,
        fitted: Fitted,
        network: ForecastNet,
        panel: Panel,
        known: np.ndarray,
        scaler: Scaler | None = None,
    ):
        plan, preprocessing = fitted.plan, fitted.preprocessing
        whole, own, windows = fitted.window_after(panel, known)
        self.fitted, self.ids, self.scaler = fitted, whole.ids, scaler or own
        self.new_scale = scaler is not None and not (
            np.array_equal(own.scale, scaler.scale) and np.array_equal(own.shift, scaler.shift)
        )
        if scaler is not None:
            last = slice(len(whole.times) - plan.horizon, None)
            windows = preprocessing.windows(whole, plan, fitted.device, scaler, last)
        self.served = fitted.served_with(panel, known)
        batch = windows.gather(windows.starts.new_zeros(1))
        batch = batch._replace(
            **{
                name: x.double()
                for name, x in batch._asdict().items()
                if x is not None and x.is_floating_point()
            }
        )
        self.scale, self.shift = (
            torch.from_numpy(x).double() for x in (self.scaler.scale, self.scaler.shift)
        )
        blend = fitted.blend_of(whole.ids)
        self.share = torch.ones(whole.n_series, dtype=torch.float64)
        if blend is not None:
            self.share = blend.shares(batch)[0, 0, :, 0].cpu().double()
        self.inputs = {
            name: x
            for name in ("past", "future_covariates", "past_covariates")
            if (x := getattr(batch, name)) is not None
        }
        if batch.past_observed is not None:  # a missing value counts as the mean of the look-back
            seen = batch.past_observed
            mean = (batch.past * seen).sum(1, keepdim=True) / seen.sum(1, keepdim=True).clamp(min=1)
            self.inputs["past"] = torch.where(seen, batch.past, mean)
        self.batch, self.blend = batch, blend
        self.position, self.network = batch.start + preprocessing.start_step(whole), network
        self._offsets: dict[_Forecast, Each] = {}

    @cached_property
    def frozen(self) -> Frozen | None:
        """The network held as it is at this version; None if it has no share."""
        if not self.share.any():
            return None

        def function(*inputs: Tensor) -> Tensor:
            now = self.batch._replace(**dict(zip(self.inputs, inputs, strict=True)))
            return self.network(now, self.position)[0, ..., 0]

        return Frozen(function, *self.inputs.values())

    @cached_property
    def net(self) -> Point:
        """The forecast of the network."""
        if self.frozen is None:
            return torch.zeros(self.fitted.plan.horizon, len(self.ids), dtype=torch.float64)
        return self._in_units(self.frozen.output)

    @cached_property
    def point(self) -> Point:
        """The finished forecast."""
        y = self._scaled(self.mixed())
        if self.blend is not None:  # the network is held within the bounds before it is mixed
            net = self._scaled(self.net)
            excess = clamp_to_bounds(net, self.batch) - net
            y = clamp_to_bounds(y + self.share[:, None].to(y.device) * excess, self.batch)
        return self._in_units(clamp_finished(y, self.batch)[0, ..., 0])

    @cached_property
    def applied(self) -> Applied | None:
        """The effects of covariates that smoothing and the pretrained network do without."""
        if self.blend is None:
            return None
        first = self.fitted.preprocessing.start_step(self.served)
        return self.fitted.applied(self.blend, self.served, self.scaler, first)

    @property
    def without_effects(self) -> Panel:
        """The table that these two look back at."""
        return self.served if self.applied is None else self.applied.panel

    @property
    def weights(self) -> Each:
        """The shares of the forecasts of ``UNTRAINED`` in the rest ``[N]``."""
        return self._alone[0]

    @property
    def alone(self) -> Each:
        """These forecasts."""
        return self._alone[1]

    def mixed(self, other: "_Forecast | None" = None) -> Point:
        """Return the mixture of all forecasts, with the shares of ``other`` if it is given."""
        other = other or self
        alone = sum(w * x for w, x in zip(other.weights, self.alone, strict=True))
        return other.share * self.net + (1 - other.share) * alone

    def follow(self, before: "_Forecast", after: "_Forecast") -> Point:
        """Return how the frozen network's forecast changes from one version to another."""
        if self.frozen is None:
            return torch.zeros_like(self.net)
        one, other = (self.frozen(*version.inputs.values()) for version in (before, after))
        return self.scale * (other - one).cpu()

    def follow_alone(self, before: "_Forecast", after: "_Forecast") -> Each:
        """Return how the forecasts of ``UNTRAINED`` change, frozen."""
        if not (self.share < 1).any():
            return (torch.zeros_like(self.net),) * len(UNTRAINED)
        starts, ends = self._offset(before, self), self._offset(after, before)
        return tuple(
            torch.where(self._known, after.restore(held + end) - before.restore(held + start), 0.0)
            for held, start, end in zip(self._plain, starts, ends, strict=True)
        )

    def _offset(self, version: "_Forecast", before: "_Forecast") -> Each:
        """Return how far these frozen forecasts are from those of this version.

        The maps are linear, so what a later version changes is added to the offset of the one
        ``before`` it: each series that changed is followed once.
        """
        if version is self:
            return (torch.zeros_like(self.net),) * len(UNTRAINED)
        if version not in self._offsets:
            change = version.recent(self._levels) - before.recent(self._levels)
            moved = (follow(change) for follow in (self._smooth, self._guess, self._regress))
            start = self._offset(before, self)
            self._offsets[version] = tuple(a + b for a, b in zip(start, moved, strict=True))
        return self._offsets[version]

    def recent(self, levels: np.ndarray) -> Tensor:
        """Return the values that smoothing looks back at, with ``levels`` in missing places."""
        panel, rows = self.without_effects, slice(-MEMORY, None)
        return torch.from_numpy(np.where(panel.observed[rows], panel.values[rows], levels))

    def restore(self, point: Point) -> Point:
        """Return the effects of covariates to forecasts that were made without them."""
        if self.applied is None:
            return point
        ahead = slice(self.served.length, self.served.length + len(point))
        total, closed = self.applied.total[ahead], self.applied.closed[ahead]
        point = point * total.exp() if self.applied.effects.log else point + total
        return torch.where(closed, 0.0, point)

    def _smooth(self, change: Tensor) -> Point:
        """Return what frozen smoothing makes of a change of past values ``[time, series]``."""
        moved = torch.zeros_like(self.net)
        for series in torch.nonzero(change.any(0))[:, 0].tolist():
            if self.weights[0][series] and self._attribution.observed[:, series].any():
                level = float(self._levels[series])
                slopes = self._attribution.split(series, level).slopes
                moved[:, series] = slopes @ change[-slopes.shape[1] :, series]
        return moved

    def _guess(self, change: Tensor) -> Point:
        """Return the same of the frozen pretrained network."""
        moved, plan = torch.zeros_like(self.net), self.fitted.plan
        linked = is_linked(plan, self.served.n_series)
        for series in torch.nonzero(change.any(0))[:, 0].tolist():
            if not self.weights[1].any() or not (linked or self.weights[1][series]):
                continue
            if not self._attribution.observed[:, series].any():
                continue
            key = 0 if linked else series
            if key not in self._pretrained:
                known = self._attribution.values, self._attribution.observed
                tuned, told = self.fitted.tuned, tell(self._attribution.seasons)
                means = self.blend is not None and self.blend.means
                network = load_network() if tuned is None else copy.deepcopy(tuned).cpu()
                self._pretrained[key] = FrozenPretrained(
                    network, look_back(*known, series, linked), self._levels,
                    told, plan.horizon, means,
                )  # fmt: skip
            some = self._pretrained[key]
            places, steps = some.seen.series, some.seen.z.shape[1]
            own = change.new_zeros(len(places), steps)
            recent = change[-steps:, places].T
            own[:, steps - recent.shape[1] :] = recent
            moved[:, places] = some.response(own).T
            if linked:
                break
        return moved

    def _regress(self, change: Tensor) -> Point:
        """Return the same of the vector autoregression, whose weights are held."""
        moved = torch.zeros_like(self.net)
        if not self.weights[2].any() or not change.any():
            return moved
        of = self._attribution
        vector = VectorAttribution(of.values, of.observed, of.seasons, of.horizon)
        for step in range(len(moved)):
            slopes = vector.slopes(step + 1)
            moved[step] = torch.einsum("rst,rs->t", slopes, change[-len(slopes) :])
        return moved

    def react(self, last: "_Forecast", end: "_Forecast") -> dict[str, Point]:
        """Split what else changes in the network, by what is no longer held constant.

        Each kind of coefficient has its mean share over all orders in which they may change.
        """
        if self.frozen is None:
            return {}
        if last.frozen is None:  # it lost its share: the shares say so
            return {"scale and gaps": end.net - self.net - self.follow(self, last)}
        inputs = [*last.inputs.values()]
        value: dict[tuple[str, ...], Tensor] = {
            kinds: self.scale * self.frozen.mixed(last.frozen, kinds, *inputs).cpu()
            for count in range(len(KINDS) + 1)
            for kinds in combinations(KINDS, count)
        }
        parts = {kind: torch.zeros_like(self.net) for kind in KINDS}
        for kinds, before in value.items():
            for kind in set(KINDS) - set(kinds):
                more = tuple(k for k in KINDS if k in (*kinds, kind))
                orders = factorial(len(kinds)) * factorial(len(KINDS) - len(kinds) - 1)
                parts[kind] += orders / factorial(len(KINDS)) * (value[more] - before)
        parts["scale and gaps"] = end.net - self.shift - value[KINDS]
        return parts

    @cached_property
    def _alone(self) -> tuple[Each, Each]:
        blend, many = self.blend, len(UNTRAINED)
        if blend is None:
            weights = torch.zeros(len(self.ids), dtype=torch.float64)
            return (weights,) * many, (torch.zeros_like(self.net),) * many
        panel = self.without_effects
        rows = torch.tensor([panel.length])
        found = self.fitted.untrained(blend).forecast(panel, rows, wait=False)
        known, smoothed = found.known[0], blend.smoothing(found)[0]
        weights, plain = [known.new_ones(known.shape, dtype=torch.float64)], [smoothed]
        for name in BESIDE:  # in the order in which a blend mixes them
            outputs = found.beside.get(name)
            own = smoothed if outputs is None else outputs[0, ..., 0]
            use = known & own.isfinite().all(0) & (outputs is not None)
            share = torch.where(use, getattr(blend, name).double(), 0.0)
            weights = [*(weight * (1 - share) for weight in weights), share]
            plain.append(torch.where(use, own, smoothed))
        recent = panel.slice(max(panel.length - MEMORY, 0), None)
        self._attribution = Attribution(
            torch.from_numpy(np.ascontiguousarray(recent.values)),
            torch.from_numpy(np.ascontiguousarray(recent.observed)),
            blend.seasons,
            self.fitted.plan.horizon,
            blend.mean_prior if blend.means else blend.prior,
            squared=blend.means,
        )
        look = slice(-self.fitted.plan.lookback, None)
        seen = self.served.observed[look]
        means = (self.served.values[look] * seen).sum(0) / np.maximum(seen.sum(0), 1)
        self._levels = np.where(seen.any(0), means, self.scaler.shift)
        self._pretrained: dict[int, FrozenPretrained] = {}
        self._plain, self._known = tuple(plain), known
        alone = (torch.where(known, self.restore(x), self.shift) for x in plain)
        return tuple(weights), tuple(alone)

    def _scaled(self, y: Point) -> Tensor:
        return ((y - self.shift) / self.scale)[None, ..., None].to(self.fitted.device)

    def _in_units(self, y: Tensor) -> Point:
        return y.cpu().double() * self.scale + self.shift
