"""The network of a whole table, aggregated from the exact explanations of many windows."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..data import Batch, Panel, Windows
from ..errors import FighterError, check_count
from ..explain.links import Links, count_hops, own_parts, split_windows
from ..explain.network import Network, resample
from ..models import Pretrained
from ..models.autoregression import MEMORY
from .alone import is_linked
from .explain import LocalParts
from .fitted import Fitted, first_scored_row
from .vector_links import LinksFound, VectorLinks, compare_with_truth, mix_links

WINDOWS = 200  # that are explained by default
CELLS = 1_000_000  # series in all windows, times targets: about a minute on one core
MOST_STEPS = 8  # of each window
FEW_WINDOWS = 10  # below which resamples are too alike
FEWEST = 4  # windows that are explained by default, however many series there are
MOST_SERIES = 1000
AT_ONCE = 32  # windows that are split together
HOP_WINDOWS = 8  # that hops are counted in
PRETRAINED_CELLS = 240  # forecasts of the pretrained network that are explained by default
PROFILE_CELLS = 50_000_000  # of the profiles over lags that are held at once
PRIOR = 10.0  # imaginary windows in which parts were exactly right
STRIDE = 0.6180339887  # steps of the horizon are taken in an even, mixed order


def find_network(fitted: Fitted, panel: Panel, windows: int | None = None) -> Network:
    """Aggregate the explanations of windows that are evenly spread over a panel.

    Each window is explained at some steps of the horizon; together they take all steps alike.

    Args:
        fitted: the model.
        panel: the rows to explain; only windows whose targets are in it count.
        windows: number of windows (default: 200, or fewer for many series).
    """
    if windows is not None:
        check_count("windows", windows)
    plan = fitted.plan
    served = fitted.served(panel)
    count = served.n_series
    if count > MOST_SERIES:
        reason = f"there are {count:,} series, and a network takes at most {MOST_SERIES:,}"
        raise FighterError(f"{reason}: fit and explain some of them", argument="df")
    notes = tuple(_notes(fitted, count))
    about = {"ids": served.ids, "notes": notes, "freq": panel.freq, "axis": panel.axis}
    about["like"] = panel.like
    local = fitted.blend is not None and isinstance(plan.model, Pretrained)
    if (local or not plan.trained) and notes:
        return _alone(**about)
    first = first_row(fitted, served)
    most = WINDOWS if windows is None else windows
    if windows is None:
        enough = PRETRAINED_CELLS // count if local else CELLS // count**2
        most = min(most, max(enough, FEWEST))
    ends = np.arange(first, served.length - plan.horizon + 1)
    ends = ends[np.unique(np.linspace(0, len(ends) - 1, most).astype(int))]
    times = min(plan.horizon, MOST_STEPS, max(CELLS // (len(ends) * count**2), 1))
    times = 1 if local else times
    steps = (np.arange(len(ends) * times) * STRIDE % 1 * plan.horizon).astype(int)
    steps = steps.reshape(times, -1)
    sums = _Sums(len(ends), count, plan.horizon)
    hops = np.full((count, count), np.nan)
    if local:
        sums.add_pretrained(fitted, served, ends, steps[0])
    else:
        every, _, start_step = fitted.scored_windows(panel)
        chosen = _select(every, ends - plan.lookback)
        sums.add_windows(fitted, chosen, start_step, steps, served)
        if plan.trained:
            few = np.unique(np.linspace(0, len(ends) - 1, HOP_WINDOWS).astype(int))
            chosen = _select(every, (ends - plan.lookback)[few])
            hops = _hops(fitted, chosen, start_step, steps[0, few])
    if len(ends) < FEW_WINDOWS:
        few = f"{len(ends)} window{'s' * (len(ends) > 1)}"
        about["notes"] = (*notes, f"With {few}, stability says little: pass more windows.")
    strength, stability, deviation = resample(sums.product, sums.square, prior=PRIOR)
    share = sums.share / len(ends)
    share += np.diag(1 - share.sum(0))  # the rest of the mixture is the series' own past
    return Network(
        strength=strength,
        share=share,
        lag=sums.lag,
        sign=sums.sign,
        hops=hops,
        stability=stability,
        deviation=deviation,
        windows=len(ends),
        **about,
    )


def first_row(fitted: Fitted, panel: Panel) -> int:
    """Return the first row that a forecast is explained after; refuse too few rows."""
    plan = fitted.plan
    least = plan.lookback + plan.horizon
    if panel.length < least:
        asked = f"{plan.lookback} to look back at and {plan.horizon} to compare with"
        reason = f"there are {panel.length} rows, needs at least {least} ({asked})"
        kept = "the model keeps only the end of its training table"
        raise FighterError(f"{reason}; {kept}: pass a longer table", argument="df")
    return first_scored_row(panel, plan, None)


def _select(windows: Windows, starts: np.ndarray) -> Windows:
    return replace(windows, starts=torch.from_numpy(starts).to(windows.device))


class _Sums:
    """What is added up over windows; matrices are ``[source, target]``."""

    def __init__(self, windows: int, series: int, horizon: int):
        shape = (windows, series, series)
        self.product, self.square = (np.zeros(shape, np.float32) for _ in range(2))
        self.share = np.zeros(shape[1:])
        self.lag, self.sign = (np.zeros(shape[1:], int) for _ in range(2))
        self.horizon = horizon

    def add_windows(
        self, fitted: Fitted, windows: Windows, start_step: int, steps: np.ndarray, panel: Panel
    ) -> None:
        """Add windows of the network and the vector autoregression, some targets at a time."""
        blend, count = fitted.blend_of(panel.ids), panel.n_series
        linear = None
        if blend is not None and blend.vector.any():
            linear = VectorLinks(fitted, panel, (windows.starts + windows.lookback).tolist())
        reach = (linear.reach if linear else windows.lookback) + self.horizon - 1
        some = max(PROFILE_CELLS // (reach * count), 1)
        for begin in range(0, count, some):
            targets = range(begin, min(begin + some, count))
            pull = np.zeros((count, len(targets), reach), np.float32)
            for at in range(0, len(windows), AT_ONCE):
                rows = slice(at, at + AT_ONCE)
                batch = windows.gather(torch.arange(len(windows), device=windows.device)[rows])
                share = torch.ones(len(batch.start), count, dtype=torch.float64)
                if blend is not None:
                    share = blend.shares(batch)[:, 0, :, 0].double().cpu()
                for own in steps[:, rows]:
                    found, weight = _network_links(fitted, batch, start_step, own, targets), share
                    if linear is not None:
                        assert blend is not None
                        places = range(at, at + len(own))
                        rest = (1 - share) * blend.vector.double() * linear.made(places)[:, None]
                        others, weight = linear.split(batch, places, own, targets), share + rest
                        part = rest / torch.where(weight > 0, weight, 1.0)
                        found = mix_links(found, others, part) if fitted.plan.trained else others
                    for links, miss, seen in found:
                        i = links.target
                        self._add(rows, links, miss, seen, weight[:, i].numpy() / len(steps))
                        _add_by_lag(pull[:, i - begin], links, own)
            self._find_lags(targets, pull)
        self.product /= len(steps)
        self.square /= len(steps)

    def add_pretrained(
        self, fitted: Fitted, panel: Panel, ends: np.ndarray, steps: np.ndarray
    ) -> None:
        """Add the forecasts of the pretrained network after some rows."""
        pull = None
        for row, (end, step) in enumerate(zip(ends.tolist(), steps.tolist(), strict=True)):
            local, scale = _local_parts(fitted, panel, end)
            assert local.blend is not None
            z = torch.from_numpy(np.nan_to_num(local.past - local.levels) / scale)[None]
            if pull is None:
                shape = (panel.n_series, panel.n_series, z.shape[1] + self.horizon - 1)
                pull = np.zeros(shape, np.float32)
            for i in range(panel.n_series):
                forecast, _, parts = local.split_pretrained(i, step + 1)
                links = Links(i, torch.from_numpy(parts / scale[i])[None], z)
                seen = panel.observed[end + step, i]
                miss = (panel.values[end + step, i] - forecast) / scale[i] if seen else 0.0
                weight = local.blend.zero_shot[i : i + 1].double().numpy()
                rows = slice(row, row + 1)
                self._add(rows, links, np.array([miss]), np.array([seen]), weight)
                _add_by_lag(pull[:, i], links, np.array([step]))
        assert pull is not None
        self._find_lags(range(panel.n_series), pull)

    def _add(
        self, rows: slice, links: Links, miss: np.ndarray, seen: np.ndarray, weight: np.ndarray
    ) -> None:
        """Add some windows of one target; numbers are ``[windows]``.

        Args:
            rows: which windows.
            links: their parts.
            miss: true value less the forecast.
            seen: whether there is a true value.
            weight: share of this forecast in the mixture, divided by how often a window counts.
        """
        own = links.target
        net = links.parts.sum(1).double().cpu().numpy()
        self.product[rows, :, own] += net * (net + miss[:, None]) * seen[:, None]
        self.square[rows, :, own] += net**2 * seen[:, None]
        size = links.parts.abs().sum(1).double().cpu().numpy()
        whole = size.sum(1)
        weight = np.where(whole > 0, weight, 0.0)
        share = (weight / np.where(whole > 0, whole, 1.0))[:, None] * size
        self.share[:, own] += share.sum(0)

    def _find_lags(self, targets: range, pull: np.ndarray) -> None:
        """Find the lag that counts most in all windows together."""
        place = np.abs(pull).argmax(2)
        most = np.take_along_axis(pull, place[..., None], 2)[..., 0]
        self.lag[:, targets] = np.where(most != 0, 1 + place, 0)
        self.sign[:, targets] = np.sign(most)


def _add_by_lag(pull: np.ndarray, links: Links, steps: np.ndarray) -> None:
    """Add the product of each part and its value by lag, ``[N, lags]``, the nearest first.

    Its sign is that of the slope, and its size that of the slope times the value squared.
    """
    products = (links.parts * links.z).cpu().numpy()
    for step in np.unique(steps):
        by_lag = products[steps == step].sum(0)[::-1].T
        pull[:, step : step + by_lag.shape[1]] += by_lag


def _network_links(
    fitted: Fitted, batch: Batch, start_step: int, steps: np.ndarray, targets: range
) -> Iterator[LinksFound]:
    """Yield the links of the network to each target, its errors, and where these are known."""
    network, position = fitted.network, batch.start + start_step
    step = torch.from_numpy(steps).to(position.device)
    with torch.no_grad():
        rows = torch.arange(len(step), device=step.device)
        forecast = network(batch, position)[rows, step, :, 0]
    miss, seen = compare_with_truth(forecast, batch, steps)
    split = own_parts if network.core.series_apart else split_windows
    for links in split(network, batch, position, step, targets):
        yield links, miss[:, links.target], seen[:, links.target]


def _hops(fitted: Fitted, windows: Windows, start_step: int, steps: np.ndarray) -> np.ndarray:
    """Return the mean number of edges walked in a few windows; NaN if the model has no graph."""
    count = windows.values.shape[1]
    if not fitted.network.core.nodes:
        return np.full((count, count), np.nan)
    batch = windows.gather(torch.arange(len(windows), device=windows.device))
    step = torch.from_numpy(steps).to(windows.device)
    position = batch.start + start_step
    found = count_hops(fitted.network, batch, position, step, range(count))
    return np.stack([each.cpu().double().numpy() for each in found], 1)


def _local_parts(fitted: Fitted, panel: Panel, end: int) -> tuple[LocalParts, np.ndarray]:
    """Return what splits the forecasts after a row without the network, and scales of series."""
    horizon, until = fitted.plan.horizon, panel.slice(None, end)
    known = np.full((horizon, panel.n_series, panel.future.shape[2]), np.nan)
    whole, scaler, windows = fitted.window_after(until, known)
    batch = windows.gather(windows.starts.new_zeros(1))
    last = len(whole.times) - horizon
    looked = slice(last - fitted.plan.lookback, last)
    rows = min(panel.length, MEMORY)
    return LocalParts(fitted, until, whole, looked, batch, rows), scaler.scale


def _alone(*, ids: tuple, **about: Any) -> Network:
    """Return the network of forecasts that each look at one series: there are no links."""
    nothing, own = np.zeros((len(ids), len(ids))), np.eye(len(ids))
    whole, unknown = nothing.astype(int), np.where(own, np.nan, 0.0)
    return Network(
        ids=ids, strength=unknown, share=own, lag=whole, sign=whole, hops=nothing,
        stability=nothing, deviation=nothing, windows=0, **about,
    )  # fmt: skip


def _notes(fitted: Fitted, count: int) -> list[str]:
    """Say why there are no links, or why they do not count."""
    plan, blend, core = fitted.plan, fitted.blend, fitted.network.core
    none = "so no link between series can exist"
    if count == 1:
        return ["There is only one series, so there are no links."]
    if blend is not None and isinstance(plan.model, Pretrained):
        if not bool(blend.zero_shot.any()):
            return [f"By their errors, the forecasts are smoothing alone, {none}."]
        if not is_linked(plan, count):
            return [f"The pretrained network forecasts so many series one by one, {none}."]
        return []
    vector = blend is not None and bool(blend.vector.any())
    if not plan.trained and vector:
        return []
    if blend is not None and not plan.trained:
        return [
            "The table is too short to train the network: the forecasts are smoothing and the "
            f"pretrained network, which look at each series alone, {none}."
        ]
    if core.series_apart:
        return [
            f"{plan.model.column} forecasts each series by itself, {none}; Fighter with series as "
            "nodes and iTransformer let series see each other."
        ]
    if blend is not None and not vector and not bool(blend.share.any()):
        return [
            "By their errors, the forecasts take nothing from the network: the links are those "
            "that it sees, and their share is 0."
        ]
    return []
