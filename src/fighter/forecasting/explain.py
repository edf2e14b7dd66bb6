"""Forecasts of a fitted model as graphs and as a page, in the names and units of its table."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import groupby, repeat
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..data import Batch, Panel
from ..data.bounds import clamp_finished, clamp_to_bounds, to_table_units
from ..data.columns import listing
from ..errors import FighterError, check_count
from ..explain import (
    Frozen,
    HopParts,
    LayerGraph,
    LazyDiagnostics,
    TemporalGraph,
    WindowTrace,
    trace_windows,
)
from ..explain.page import Outlook, write_page
from ..models.attribution import Attribution, Parts
from ..models.autoregression import MEMORY
from ..models.pretrained import PretrainedNet
from ..models.vector import VectorAttribution
from ..models.zero_shot import LookBack, load_network, look_back, paths, point_weights, tell
from .alone import is_linked
from .covariates import names_of
from .ends import QuantileEnds, find_output
from .fitted import Fitted, group_by_end
from .history import positions
from .preprocessing import covariate_names, groups_of

MOST_EXPLAINED = 240  # forecasts on a page by default: it is written in seconds and opens at once

Target = tuple[int, int]  # a series by position, and a step of the horizon from 1


def explain(
    fitted: Fitted,
    panel: Panel,
    targets: Sequence[Target],
    future: Any = None,
    like: Any = None,
    warn: bool = True,
    quantile: float | None = None,
) -> Iterator[TemporalGraph]:
    """Explain forecasts after a panel, one graph per target.

    Series that end together share a window, so graphs come grouped by the end of their series.
    ``quantile`` is one that the model forecasts (default: None, the point forecast). ``like`` is
    the type of table that graphs give (default: that of the panel). ``warn`` says whether to warn
    about look-backs that hold next to nothing.
    """
    for _, step in targets:
        check_step("step", step, fitted.plan.horizon)
    output = find_output(fitted.plan.quantiles, quantile)
    wanted = np.isin(np.arange(panel.n_series), [series for series, _ in targets])
    like = panel.like if like is None else like
    if warn:
        fitted.warn_if_unseen(panel, wanted)
    for until, known, ending in group_by_end(fitted.config, panel, future, wanted):
        together = [t for t in targets if ending[t[0]]]
        codes = groups_of(fitted.plan.model, until)
        if codes is not None:  # a forecast depends on its group only
            for group in dict.fromkeys(codes[series] for series, _ in together):
                own = np.flatnonzero(codes == group)
                place = {series: i for i, series in enumerate(own.tolist())}
                some = [(place[series], step) for series, step in together if series in place]
                one = until.take(own).dense(), known[:, own]
                yield from _explain_together(fitted, *one, some, like, panel.length, output)
            continue
        if not fitted.apart:
            every = until.dense()
            yield from _explain_together(fitted, every, known, together, like, panel.length, output)
            continue
        for series, some in groupby(together, key=lambda target: target[0]):
            own, steps = np.array([series]), [(0, step) for _, step in some]
            one = until.take(own).dense(), known[:, own]
            yield from _explain_together(fitted, *one, steps, like, panel.length, output)


def save_page(
    fitted: Fitted,
    panel: Panel,
    path: str | Path,
    *,
    future: Any = None,
    truth: np.ndarray | None = None,
    title: str = "",
    first: tuple[Any, int] | None = None,
    most: int = MOST_EXPLAINED,
) -> str:
    """Write a page that explains the forecasts after a panel.

    Args:
        fitted: the model.
        panel: the history.
        path: the file to write, ``.html``.
        future: a table with the future covariates, if there are any.
        truth: the true values ``[H, N]``, drawn beside the forecast (default: not drawn).
        title: title of the page.
        first: id and step of the forecast to show first.
        most: largest number of forecasts to explain; steps are left out before series.

    Returns:
        What the page holds, in a sentence.
    """
    horizon = fitted.plan.horizon
    check_count("most", most)
    _check_first(panel, horizon, first)
    series, steps = _choose_targets(panel, horizon, first, most)
    outlooks = {
        name: Outlook(track.times.astype(np.int64), track.forecast, track.bands, track.truth)
        for name, track in zip(
            panel.ids, fitted.forecast(panel, future).tracks(panel, truth), strict=True
        )
    }
    note = _describe(len(series), panel.n_series, len(steps), horizon)
    targets = [(i, step) for i in series for step in steps]
    graphs = explain(fitted, panel, targets, future, "pandas", warn=False)
    title = title or f"Where the forecasts of {fitted.plan.model.column} come from"
    write_page(graphs, path, outlooks=outlooks, title=title, note=note, first=first)
    return note


def find_series(panel: Panel, unique_id: Any) -> int:
    """Return the position of a series; a panel of one series needs no id."""
    if unique_id is None and panel.n_series == 1:
        return 0
    unique_id = tuple(unique_id) if isinstance(unique_id, list) else unique_id
    if unique_id not in panel.ids:
        reason = f"needs one of the series, {listing(panel.ids, 5)}"
        raise FighterError(reason, argument="unique_id", value=unique_id)
    return panel.ids.index(unique_id)


def check_step(argument: str, step: Any, horizon: int) -> None:
    """Refuse a step that the model does not forecast."""
    whole = isinstance(step, Integral) and not isinstance(step, bool)
    if not whole or not 1 <= int(step) <= horizon:
        raise FighterError(
            f"needs a whole number from 1 to the horizon {horizon}", argument=argument, value=step
        )


def _check_first(panel: Panel, horizon: int, first: Any) -> None:
    """Refuse a forecast to show first that is not a series and a step."""
    if first is None:
        return
    if not isinstance(first, tuple | list) or len(first) != 2:
        raise FighterError("needs the id of a series and a step", argument="first", value=first)
    if first[0] not in panel.ids:
        reason = f"there is no such series, it has {listing(panel.ids, 5)}"
        raise FighterError(reason, argument="first", value=first)
    check_step("first", first[1], horizon)


def _explain_together(
    fitted: Fitted,
    panel: Panel,
    known: np.ndarray,
    targets: Sequence[Target],
    like: Any,
    rows: int,
    output: int = 0,
) -> Iterator[TemporalGraph]:
    """Explain targets whose series all end at the end of the panel.

    ``rows`` is how many rows graphs show, if smoothing looks back that far. ``output`` is 0 for the
    point forecast, or counts the quantiles from 1.
    """
    plan, preprocessing = fitted.plan, fitted.preprocessing
    whole, scaler, windows = fitted.window_after(panel, known)
    places = positions(panel.ids, whole.ids)
    targets = [(places[series], int(step)) for series, step in targets]
    first, start_step = len(whole.times) - plan.horizon, preprocessing.start_step(whole)
    batch = windows.gather(windows.starts.new_zeros(1))
    looked = slice(first - plan.lookback, first)
    node_names = partial(_node_names, fitted, whole.times[looked], whole)
    local = LocalParts(fitted, fitted.served_with(panel, known), whole, looked, batch, rows)
    shared: list[tuple[np.ndarray, LazyDiagnostics]] = []  # the same for all targets
    cells = [(series, step - 1) for series, step in targets]
    ordered = fitted.network.core.nodes != "series"
    clamp = clamp_finished if local.blend is None else clamp_to_bounds
    traces: Iterable[WindowTrace | None] = repeat(None, len(cells))
    position, names = batch.start + start_step, covariate_names(whole)
    ends = None
    if output:
        ends = QuantileEnds(
            fitted, fitted.served_with(panel, known), windows, scaler, position, output
        )
    if not local.alone:
        mixes = None if ends is None else [ends.mix(series) for series, _ in targets]
        traces = trace_windows(fitted.network, batch, position, cells, clamp, mixes)
    for (series, step), trace in zip(targets, traces, strict=True):
        scale, shift = float(scaler.scale[series]), float(scaler.shift[series])
        share = float(local.shares[series])
        terms, forecast, layers = {"level": 0.0}, 0.0, ()
        sources = np.zeros((1, *local.past.shape))
        if trace is not None:
            terms = {name: value * scale * share for name, value in trace.terms.items()}
            terms["level"] += shift * share
            for name, part in sum_by_name(names, trace.covariates).items():
                terms[name] = terms.get(name, 0.0) + part * scale * share
            terms["bias"] = terms.pop("bias")  # last
            forecast = (trace.forecast * scale + shift) * share
            found = trace.sources.cpu().numpy() * (scale * share)
            sources = np.zeros((len(found), *local.past.shape))
            sources[:, len(local.past) - plan.lookback :] = found
            shared = shared or [
                (_weights(layer.parts), LazyDiagnostics(layer.parts, ordered))
                for layer in trace.layers
            ]
            layers = _layers(trace, shared, node_names, series, scale * share)
        if share < 1:
            rest, bias, past = local.split(series, step)
            effects = local.effects(series, step, rest)
            forecast += (1 - share) * (rest + sum(effects.values()))
            for name, value in effects.items():
                terms[name] = terms.get(name, 0.0) + (1 - share) * value
            terms["level"] += float((1 - share) * local.levels[series])
            bias = terms.get("bias", 0.0) + (1 - share) * bias
            terms |= {"bias": bias} if bias or "bias" in terms else {}
            sources = _with_hops(sources, (1 - share) * past, series, local.links)
        if ends is not None:
            for name, value in ends.terms(series, step).items():
                terms[name] = terms.get(name, 0.0) + value
                forecast += value
        # A forecast at a bound equals it to the last digit.
        held = batch.past.new_full((1, 1, whole.n_series, 1), (forecast - shift) / scale)
        held = clamp_finished(held, batch)
        if "bound" in terms or float(held[0, 0, series, 0]) != float((forecast - shift) / scale):
            exact = float(to_table_units(held, batch, scaler)[0, 0, series, 0])
            if abs(exact - forecast) > 1e-6 * max(abs(forecast), scale) or "bound" in terms:
                terms["bound"] = terms.get("bound", 0.0) + exact - forecast
                forecast = exact
        yield TemporalGraph(
            target=whole.ids[series],
            step=step,
            time=int(whole.times[first + step - 1]),
            forecast=forecast,
            terms=terms,
            ids=whole.ids,
            times=local.times,
            past=local.past,
            sources=sources,
            layers=layers,
            freq=panel.freq,
            axis=panel.axis,
            like=like,
            quantile=plan.quantiles[output - 1] if output else None,
            counted=(share == 0 or bool(layers)) and not (share < 1 and local.pretrained(series)),
        )


def _with_hops(sources: np.ndarray, past: np.ndarray, series: int, linked: bool) -> np.ndarray:
    """Add parts ``[rows, N]`` to those by hop; of ``linked`` ones, those of others took one hop."""
    if linked and len(sources) == 1:
        sources = np.concatenate([sources, np.zeros_like(sources)])
    own = np.arange(past.shape[1]) == series if linked else np.ones(past.shape[1], bool)
    sources[0][:, own] += past[:, own]
    if linked:
        sources[1][:, ~own] += past[:, ~own]
    return sources


class LocalParts:
    """The rows that a forecast looks back at, and what was taken from them without the network."""

    def __init__(
        self,
        fitted: Fitted,
        panel: Panel,
        whole: Panel,
        looked: slice,
        batch: Batch,
        rows: int,
    ):
        self.blend, self.horizon = fitted.blend_of(whole.ids), fitted.plan.horizon
        self.times = whole.times[looked]
        self.past = np.where(whole.observed[looked], whole.values[looked], np.nan)
        self.shares = np.ones(whole.n_series)
        self.alone = False
        if self.blend is None:
            return
        self.shares = self.blend.shares(batch)[0, 0, :, 0].cpu().double().numpy()
        self.alone = not bool(self.blend.share.any())
        self.panel = panel = panel.slice(max(panel.length - MEMORY, 0), None)
        scaler, first = (
            fitted.preprocessing.scaler_of(whole),
            fitted.preprocessing.start_step(panel),
        )
        self.applied = fitted.applied(self.blend, panel, scaler, first)
        self.names = names_of(panel)
        self.panel = panel if self.applied is None else self.applied.panel
        self.levels = np.where(
            np.isnan(self.past).all(0) | ~self.panel.observed.any(0),
            scaler.shift,
            np.nan_to_num(self.past).sum(0) / np.maximum((~np.isnan(self.past)).sum(0), 1),
        )
        rows = min(rows, MEMORY)
        if rows > len(self.times):  # series that ended early have as many rows as the others
            before = rows - self.panel.length
            self.times = panel.freq.range(int(self.panel.times[0]), rows, first=-before)
            past = np.where(panel.observed, panel.values, np.nan)
            self.past = np.concatenate([np.full((before, past.shape[1]), np.nan), past])
        self.attribution = Attribution(
            torch.from_numpy(np.ascontiguousarray(self.panel.values)),
            torch.from_numpy(np.ascontiguousarray(self.panel.observed)),
            self.blend.seasons,
            self.horizon,
            self.blend.mean_prior if self.blend.means else self.blend.prior,
            squared=self.blend.means,
        )
        self.found: dict[int, Parts] = {}
        self.linked = is_linked(fitted.plan, self.panel.n_series)
        self.network = load_network()
        if fitted.tuned is not None:
            self.network = copy.deepcopy(fitted.tuned).cpu()
        self.frozen: dict[int, FrozenPretrained] = {}
        self.slopes: dict[int, torch.Tensor] = {}  # of the vector autoregression, by step

    def pretrained(self, series: int) -> bool:
        """Return whether the pretrained network has a share in the forecast of a series."""
        return self.blend is not None and bool(self.blend.zero_shot[series])

    def split(self, series: int, step: int) -> tuple[float, float, np.ndarray]:
        """Return the forecast without the network, its bias, and what came from the past.

        forecast = level + bias + Σ past, where past is ``[rows, N]``.
        """
        assert self.blend is not None
        beside = (
            (float(self.blend.zero_shot[series]), self.split_pretrained),
            (self.vector_share(series), self.split_vector),
        )
        forecast, bias, past = 0.0, 0.0, np.zeros_like(self.past)
        if all(share < 1 for share, _ in beside):
            forecast, bias, past = self.split_smoothing(series, step)
        for share, split in beside:  # in the order in which a blend mixes them
            if share:
                own_forecast, own_bias, own_past = split(series, step)
                forecast = (1 - share) * forecast + share * own_forecast
                bias = (1 - share) * bias + share * own_bias
                past = (1 - share) * past + share * own_past
        return forecast, bias, past

    def vector_share(self, series: int) -> float:
        """Return the share of the vector autoregression, 0 where it forecasts nothing."""
        return float(self.blend.vector[series]) if self.blend is not None and self.links else 0.0

    @property
    def links(self) -> bool:
        """Whether the vector autoregression has a share in the forecast of any series."""
        some = self.blend is not None and bool(self.blend.vector.any())
        return some and self.vector.fit is not None

    @cached_property
    def vector(self) -> VectorAttribution:
        """The forecasts of the vector autoregression, and what they were made of."""
        of = self.attribution
        return VectorAttribution(of.values, of.observed, of.seasons, of.horizon)

    def effects(self, series: int, step: int, forecast: float) -> dict[str, float]:
        """Return what each covariate adds to the forecast without the network."""
        if self.applied is None or not self.panel.observed[:, series].any():
            return {}
        added = self.applied.split(series, self.panel.length + step - 1, forecast)
        return {f"effect of {name}": x for name, x in zip(self.names, added, strict=True) if x}

    def split_smoothing(self, series: int, step: int) -> tuple[float, float, np.ndarray]:
        """Return the same as :meth:`split` of smoothing alone."""
        if series not in self.found:
            self.found[series] = self.attribution.split(series, float(self.levels[series]))
        parts, past = self.found[series], np.zeros_like(self.past)
        own = parts.past[step - 1].numpy()
        past[len(past) - len(own) :, series] = own
        return float(parts.forecast[step - 1]), float(parts.bias[step - 1]), past

    def split_pretrained(self, series: int, step: int) -> tuple[float, float, np.ndarray]:
        """Return the same of the pretrained network alone."""
        assert self.blend is not None
        past = np.zeros_like(self.past)
        values, observed = self.attribution.values, self.attribution.observed
        if not observed[:, series].any():  # the forecast is the level
            return float(self.levels[series]), 0.0, past
        key = 0 if self.linked else series
        if key not in self.frozen:
            seen = look_back(values, observed, series, self.linked)
            told = tell(self.attribution.seasons)
            self.frozen[key] = FrozenPretrained(
                self.network, seen, self.levels, told, self.horizon, self.blend.means
            )
        frozen = self.frozen[key]
        forecast, parts = frozen.split(series, step)
        parts = parts[:, -len(past) :].T
        past[len(past) - len(parts) :, frozen.seen.series.numpy()] = parts
        return forecast, forecast - float(self.levels[series]) - float(past.sum()), past

    def split_vector(self, series: int, step: int) -> tuple[float, float, np.ndarray]:
        """Return the same of the vector autoregression alone."""
        past, level = np.zeros_like(self.past), float(self.levels[series])
        if not self.attribution.observed[:, series].any():
            return level, 0.0, past
        if step not in self.slopes:
            self.slopes[step] = self.vector.slopes(step)
        slopes, values = self.slopes[step][..., series].numpy(), self.attribution.values.numpy()
        past[len(past) - len(slopes) :] = slopes * (values - self.levels)
        forecast = float(self.vector.made[step - 1, series])
        return forecast, forecast - level - float(past.sum()), past


class FrozenPretrained:
    """The pretrained network frozen at one look-back.

    It is an affine map of the difference of each value from the level of its series.
    """

    def __init__(
        self,
        network: PretrainedNet,
        seen: LookBack,
        levels: np.ndarray,
        seasons: torch.Tensor,
        horizon: int,
        mean: bool,
    ):
        self.seen = seen
        own = torch.as_tensor(levels)[seen.series][:, None]
        shift = ((own - seen.level) / seen.unit).float()

        def forecast(x: torch.Tensor) -> torch.Tensor:
            known = seen.known[None]
            y = paths(network, (x + shift) * known, known, seasons, horizon)
            return y[0] @ point_weights(mean)

        with torch.enable_grad():
            self.x = ((seen.z - shift) * seen.known)[None].requires_grad_()
            self.map = Frozen(forecast, self.x)
        self.y = self.map.output

    @torch.no_grad()
    def response(self, change: torch.Tensor) -> torch.Tensor:
        """Return how forecasts ``[series, H]`` change with the values ``[series, time]``."""
        moved = self.map(self.x + (change / self.seen.unit * self.seen.known).float())
        return self.seen.unit * (moved - self.y).double()

    def split(self, series: int, step: int) -> tuple[float, np.ndarray]:
        """Return the forecast of a step from 1, and the part of each value ``[series, time]``."""
        place = int((self.seen.series == series).nonzero())
        total, unit = self.y[place, step - 1], self.seen.unit[place]
        (slope,) = torch.autograd.grad(total, self.x, retain_graph=True)
        parts = unit * (slope * self.x)[0].detach().double()
        return float(self.seen.level[place] + unit * total.detach()), parts.numpy()


def sum_by_name(
    names: tuple[tuple[str, ...], tuple[str, ...]], parts: tuple[torch.Tensor, torch.Tensor]
) -> dict[str, float]:
    """Return what each covariate adds, as a term."""
    terms: dict[str, float] = {}
    for own, values in zip(names, parts, strict=True):
        for name, value in zip(own, values.tolist(), strict=bool(len(values))):
            key = f"effect of {name}"
            terms[key] = terms.get(key, 0.0) + value
    return terms


def _weights(parts: HopParts) -> np.ndarray:
    """Return the powers of A, ``[sequences, heads, powers, nodes, nodes]``."""
    return np.stack([a.cpu().numpy() for a in parts.graphs()], 2)


def _layers(
    trace: WindowTrace,
    shared: list[tuple[np.ndarray, LazyDiagnostics]],
    node_names: Callable[[int], tuple[str, ...]],
    series: int,
    scale: float,
) -> tuple[LayerGraph, ...]:
    graphs = []
    for layer, (weights, diagnostics) in zip(trace.layers, shared, strict=True):
        own = series if len(weights) > 1 else 0  # one graph per series, or one for all
        graphs.append(
            LayerGraph(
                nodes=node_names(weights.shape[-1]),
                powers=layer.parts.powers,
                weights=weights[own],
                parts=layer.edges[own].double().cpu().numpy() * trace.unit * scale,
                rest=float(layer.rest) * trace.unit * scale,
                lazy_diagnostics=diagnostics,
            )
        )
    return tuple(graphs)


def _node_names(fitted: Fitted, times: np.ndarray, panel: Panel, count: int) -> tuple[str, ...]:
    """Name the nodes of the model's graph."""
    kind = fitted.network.core.nodes
    if kind == "series":
        return tuple(map(str, panel.ids))
    if kind == "time":
        return tuple(panel.freq.show(int(time)) for time in times)
    return tuple(f"patch {i + 1} of {count}" for i in range(count))


def _choose_targets(
    panel: Panel, horizon: int, first: tuple[Any, int] | None, most: int
) -> tuple[list[int], list[int]]:
    """Choose series and steps, evenly spread where not all can be explained."""
    own = [] if first is None else [panel.ids.index(first[0])]
    series = (own + [i for i in range(panel.n_series) if i not in own])[:most]
    count = min(max(most // len(series), 1), horizon)
    steps = {int(step) for step in np.linspace(1, horizon, count).round()}
    return sorted(series), sorted(steps | (set() if first is None else {first[1]}))


def _describe(series: int, all_series: int, steps: int, horizon: int) -> str:
    def some(count: int, total: int, what: str) -> str:
        if count == total:
            return f"all {total:,} {what}" if total > 1 else "the one step"
        return f"{count if count > 1 else 'one'} of {total:,} {what}"

    whose = "one series" if all_series == 1 else some(series, all_series, "series")
    return f"Explained: {some(steps, horizon, 'steps')} of {whose}."
