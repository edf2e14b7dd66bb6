"""Score the links that models see between series against known graphs of causes.

    python -m benchmarks.graphs --models pretrained graph correlation var

A model is a function of the values ``[time, series]`` (see ``METHODS``) that says how strongly each
series drives each other one, and after how many steps. Those of ``FITTED`` read it off a forecaster
with default settings, one for each seed; those of ``PEERS`` run in ``.graph-venv``, and are skipped
where it is not there. The truth comes from the public graphs of the zoo and from systems that the
generator of the pretrained network has planted. Links of a series to itself are not scored.
"""

import argparse
import hashlib
import json
import math
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from benchmarks.zoo.store import ROOT, ZOO
from fighter import Forecaster
from fighter.benchmark.provenance import provenance
from fighter.errors import DataWarning
from fighter.models.pretrained import PATCH
from fighter.models.zero_shot import load_network, look_back, paths, tell
from paper.studies.attributions import (
    forecast_parts,
    integrated_gradients,
    layer_graphs,
    rollout,
)
from paper.studies.planted import auroc, precision
from pretraining import generator

RESULTS = ROOT / "results" / "graphs.json"
WINDOWS, ROWS = 4, 256  # that forecasts are explained in, and how far they look back
LAGS = 10  # that baselines try
PEER_SECONDS = 120  # that a method of another library may take
SOME, PATH = 24, 16  # windows, and steps of the path, of other attributions
RIDGE = 10.0  # penalty of the regression, on values of deviation 1
SYSTEMS, LONGEST = 12, 48  # planted ones, and their longest lag


class Strengths(NamedTuple):
    """How strongly each series drives each other one, ``[source, target]``."""

    strength: np.ndarray
    lag: np.ndarray | None = None  # steps; None if the method tells none


class Truth(NamedTuple):
    """A table and its links."""

    name: str
    values: np.ndarray  # [time, series]
    links: np.ndarray  # bool [source, target]
    lags: np.ndarray  # [source, target], 0 where none is known
    longest: int  # lag that methods look for


# ---- methods ------------------------------------------------------------------------------


def windows(values: np.ndarray) -> Iterator[np.ndarray]:
    """Yield look-backs that are evenly spread and end as late as at the last row."""
    first = min(ROWS, len(values))
    for end in np.unique(np.linspace(first, len(values), WINDOWS).astype(int)):
        yield values[end - first : end]


def explained(values: np.ndarray, model: str) -> Strengths:
    """Sum the absolute parts that explanations of the next step give to the values of a series."""
    count = values.shape[1]
    total = np.zeros((min(ROWS, len(values)), count, count))
    for rows in windows(values):
        table = pd.DataFrame(rows, columns=[f"s{i}" for i in range(count)])
        table.insert(0, "ds", np.arange(len(rows)))
        forecaster = Forecaster(1, model=model, freq=1, verbose=False, device="cpu")
        for target, graph in enumerate(forecaster.explain_all(table, steps=[1])):
            assert graph.target == f"s{target}"
            total[-len(graph.past) :, :, target] += np.abs(graph.sources.sum(0))
    lags = len(total) - total.argmax(0)
    return Strengths(total.sum(0), lags)


def graph_weights(values: np.ndarray) -> Strengths:
    """Average the weights of the graphs over series: over layers, heads, patches and windows."""
    network, kept = load_network(), []

    def keep(layer: Any, inputs: tuple[Tensor, Tensor]) -> None:
        kept.append(layer.graph(inputs[0], mask=inputs[1]).mean((0, 1)))

    hooks = [layer.register_forward_pre_hook(keep) for layer in network.over_series]
    try:
        for rows in windows(values):
            seen = torch.ones(rows.shape, dtype=torch.bool)
            back = look_back(torch.tensor(rows), seen, 0, linked=True)
            with torch.no_grad():
                paths(network, back.z[None], back.known[None], tell(()), 1)
    finally:
        for hook in hooks:
            hook.remove()
    return Strengths(torch.stack(kept).mean(0).T.double().numpy())


def correlation(values: np.ndarray, longest: int) -> Strengths:
    """Take the largest absolute correlation with earlier values."""
    z = standardise(values)
    each = [np.abs(z[:-lag].T @ z[lag:]) / (len(z) - lag) for lag in range(1, longest + 1)]
    every = np.stack(each)
    return Strengths(every.max(0), 1 + every.argmax(0))


def regression(values: np.ndarray, longest: int) -> Strengths:
    """Sum the absolute coefficients of a ridge regression on the last values of all series."""
    x = values - values.mean(0)
    rows, count = x.shape
    past = np.hstack([x[longest - lag : rows - lag] for lag in range(1, longest + 1)])
    penalty = RIDGE * x.var() * np.eye(past.shape[1])
    weights = np.linalg.solve(past.T @ past + penalty, past.T @ x[longest:])
    every = np.abs(weights).reshape(longest, count, count)
    return Strengths(every.sum(0), 1 + every.argmax(0))


def least_squares(values: np.ndarray, longest: int) -> Strengths:
    """Sum the absolute coefficients of a regression without a penalty."""
    x = values - values.mean(0)
    rows, count = x.shape
    past = np.hstack([x[longest - lag : rows - lag] for lag in range(1, longest + 1)])
    weights = np.linalg.lstsq(past, x[longest:], rcond=None)[0]
    every = np.abs(weights).reshape(longest, count, count)
    return Strengths(every.sum(0), 1 + every.argmax(0))


# ---- a fitted forecaster ------------------------------------------------------------------


class Forecasters:
    """Forecasters with default settings that forecast the next step, fitted when asked for.

    ``keep`` is a folder where they are saved, and found by the next call.
    """

    def __init__(self, keep: Path | None = None):
        self.keep, self.last = keep, ("", None)

    def fit(self, values: np.ndarray, seed: int) -> Forecaster:
        """Return the forecaster of a table."""
        key = f"{hashlib.sha256(values.tobytes()).hexdigest()[:16]}-{seed}"
        if self.last[0] != key:
            folder = self.keep and self.keep / key
            if folder and folder.exists():
                model = Forecaster.load(folder)
            else:
                table = pd.DataFrame(values, columns=[f"s{i}" for i in range(values.shape[1])])
                table.insert(0, "ds", np.arange(len(values)))
                settings = {"seed": seed, "freq": 1, "verbose": False, "device": "cpu"}
                model = Forecaster(1, **settings).fit(table)
                if folder:
                    model.save(folder)
            self.last = key, model
        assert self.last[1] is not None
        return self.last[1]


def from_network(model: Forecaster) -> Strengths:
    """Read the strengths and lags off ``network()``."""
    found = model.network()
    return Strengths(found.strength, found.lag)


def from_shares(model: Forecaster) -> Strengths:
    """Read the shares off ``network()``: what forecasts are made of, borne out or not."""
    found = model.network()
    return Strengths(found.share, found.lag)


def from_gradients(model: Forecaster) -> Strengths:
    """Sum the absolute integrated gradients of some windows."""
    every, _, start_step = model.fitted.scored_windows(model.fitted.context)
    some = every.thin(SOME)
    batch = some.gather(torch.arange(len(some)))
    z, forecast = forecast_parts(model.fitted.network, batch, batch.start + start_step)
    count = z.shape[2]
    sizes = torch.stack(
        [integrated_gradients(lambda x, i=i: forecast(x)[:, 0, i, 0], z, PATH).abs().mean(0)
         for i in range(count)], 2
    ).double().numpy()  # [time, source, target]  # fmt: skip
    return Strengths(sizes.sum(0), len(sizes) - sizes.argmax(0))


def from_attention(model: Forecaster) -> Strengths:
    """Average the graphs over series, layer by layer, in some windows."""
    every, _, start_step = model.fitted.scored_windows(model.fitted.context)
    some = every.thin(SOME)
    batch, network = some.gather(torch.arange(len(some))), model.fitted.network
    graphs = layer_graphs(network, lambda: network(batch, batch.start + start_step))
    return Strengths(rollout(graphs).mean(0).T.double().numpy())


FITTED: dict[str, Callable[[Forecaster], Strengths]] = {
    "fighter": from_network,
    "share": from_shares,
    "integrated gradients": from_gradients,
    "attention": from_attention,
}

# ---- other libraries ----------------------------------------------------------------------

PEERS = ("pcmci", "varlingam")
PEER_PYTHON = ROOT / ".graph-venv" / "bin" / "python"


def of_peer(name: str, values: np.ndarray) -> Strengths | None:
    """Run a method of another library; None if it is not installed or takes too long."""
    if not PEER_PYTHON.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        np.save(place / "in.npy", standardise(values))
        script = Path(__file__).with_name("graph_peers.py")
        command = [PEER_PYTHON, "-P", script, name, place / "in.npy", place / "out.npz"]
        try:
            subprocess.run(command, check=True, timeout=PEER_SECONDS, capture_output=True)
        except subprocess.TimeoutExpired:
            return None
        found = np.load(place / "out.npz")
        return Strengths(found["strength"], found["lag"])


METHODS: dict[str, Callable[[np.ndarray, int], Strengths]] = {
    "pretrained": lambda values, _: explained(values, "pretrained"),
    "graph": lambda values, _: graph_weights(values),
    "correlation": correlation,
    "var": regression,
    "ols": least_squares,
}
NAMES = (*METHODS, *FITTED, *PEERS)


def strengths(
    name: str,
    values: np.ndarray,
    longest: int = LAGS,
    seed: int = 0,
    forecasters: Forecasters | None = None,
) -> Strengths | None:
    """Return what a method finds in a table; lags up to ``longest`` are looked for."""
    if name in METHODS:
        return METHODS[name](values, longest)
    if name in PEERS:
        return of_peer(name, values)
    return FITTED[name]((forecasters or Forecasters()).fit(values, seed))


def standardise(values: np.ndarray) -> np.ndarray:
    """Bring each series to mean 0 and deviation 1."""
    size = values.std(0)
    return (values - values.mean(0)) / np.where(size > 0, size, 1.0)


# ---- truth --------------------------------------------------------------------------------


def public(folder: Path) -> Iterator[Truth]:
    """Yield the graphs of the zoo."""
    for entry in json.loads((folder / "zoo.json").read_text(encoding="utf-8"))["graphs"]:
        table = pd.read_parquet(folder / entry["file"]).drop(columns="ds")
        names, edges = [*table], pd.read_csv(folder / entry["truth"])
        links, lags = np.zeros((2, len(names), len(names)), int)
        for source, target, lag in edges.itertuples(index=False):
            place = names.index(source), names.index(target)
            links[place], lags[place] = 1, 0 if math.isnan(lag) else int(lag)
        values = table.interpolate(limit_direction="both").to_numpy(np.float64)
        yield Truth(entry["name"], values, links > 0, lags, LAGS)


class _Draws(TorchFunctionMode):
    """Keeps the random numbers that a function draws, in order, by the name of their kind."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: dict[str, list[Tensor]] = {"rand": [], "randint": [], "randn": []}

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if (name := getattr(func, "__name__", "")) in self.drawn:
            self.drawn[name].append(made)
        return made


def planted(seed: int = 0) -> list[Truth]:
    """Draw systems with the generator of the pretrained network, and read off their links."""
    kept: list[tuple[Tensor, dict[str, list[Tensor]]]] = []
    link = generator.link

    def recorded(x: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        with _Draws() as draws:
            made = link(x, device)
        kept.append((made[0], draws.drawn))
        return made

    torch.manual_seed(seed)
    groups = 10 * SYSTEMS
    with patch.object(generator, "link", recorded):
        generator.draw(groups, 1024 // PATCH, 2, torch.device("cpu"))
    ((x, drawn),) = kept
    found = [group for group in range(groups) if drawn["rand"][0][group] < generator.LINKED[0]]
    return [_read_off(x[g, :, :1024].T.double().numpy(), drawn, g) for g in found[:SYSTEMS]]


def _read_off(values: np.ndarray, drawn: dict[str, list[Tensor]], group: int) -> Truth:
    """Follow the random numbers of :func:`pretraining.generator.link` in one group.

    Of each series but the first, they are its own size and twice a source, a lag and whether there
    is a link; at last the order of the series.
    """
    count = values.shape[1]
    parents = iter(int(each[group]) for each in drawn["randint"][::2])
    numbers = iter(each[group] for each in drawn["rand"][1:])
    links, lags = np.zeros((2, count, count), int)
    for target in range(1, count):
        next(numbers)
        for _ in range(2):
            source, lag = next(parents), math.floor(math.exp(float(next(numbers)) * math.log(48)))
            if float(next(numbers)) < 0.6:
                links[source, target] = 1
                lags[source, target] = max(lag, 1)
    order = next(numbers).argsort().numpy()
    links, lags = (each[np.ix_(order, order)] for each in (links, lags))
    return Truth(f"planted {group}", values, links > 0, lags, LONGEST)


# ---- scores -------------------------------------------------------------------------------


def score(found: Strengths, truth: Truth) -> dict[str, float]:
    """Return how well the true links stand out among all pairs of two series."""
    pairs = ~np.eye(len(truth.links), dtype=bool)
    values, links = (torch.from_numpy(each[pairs]) for each in (found.strength, truth.links))
    scores = {
        "AUROC": auroc(values, links),
        "AUPRC": average_precision(values, links),
        "precision@k": precision(values, links),
        "share of links": float(links.double().mean()),
    }
    known = pairs & truth.links & (truth.lags > 0)
    if found.lag is not None and known.any():
        wrong = np.abs(found.lag - truth.lags)[known]
        scores |= {"lag error": float(wrong.mean()), "lag exact": float((wrong == 0).mean())}
    return scores


def average_precision(value: Tensor, truth: Tensor) -> float:
    """Return the area under precision over recall; items that tie are taken together."""
    levels, place = value.unique(return_inverse=True)
    hits, count = (torch.zeros(len(levels), dtype=torch.float64) for _ in range(2))
    hits.index_add_(0, place, truth.double())
    count.index_add_(0, place, torch.ones(len(value), dtype=torch.float64))
    hits, count = hits.flip(0), count.flip(0)
    return float((hits.cumsum(0) / count.cumsum(0) * hits).sum() / hits.sum())


def mean(rows: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each score over the tables that have it."""
    names = dict.fromkeys(name for row in rows for name in row)
    each = {name: [row[name] for row in rows if name in row] for name in names}
    return {name: round(float(np.mean(values)), 4) for name, values in each.items()}


def main() -> None:
    """Score the methods, print a table and write the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.graphs")
    parser.add_argument("--models", nargs="+", default=[*METHODS], choices=NAMES)
    parser.add_argument("--zoo", type=Path, default=ZOO, help="folder of the graphs")
    parser.add_argument("--sets", nargs="+", help='names, or "planted" (default: all)')
    parser.add_argument("--rows", type=int, help="take the last rows only (default: all)")
    parser.add_argument("--seeds", type=int, default=1, help="of fitted models (default: 1)")
    parser.add_argument("--keep", type=Path, help="folder to keep fitted models in")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    rows: list[dict[str, Any]] = []
    skipped, forecasters = [], Forecasters(args.keep)
    for place, truth in enumerate([*public(args.zoo), *planted()]):
        family = truth.name.split("_")[0].split(" ")[0]
        if args.sets and not {truth.name, family} & {*args.sets}:
            continue
        if args.rows:
            truth = truth._replace(values=truth.values[-args.rows :])
        made: dict[str, Strengths | None] = {}
        names = {"set": truth.name, "family": family, "half": "test" if place % 2 else "dev"}
        for unit, values in (("raw", truth.values), ("deviations", standardise(truth.values))):
            # Models of several seeds in raw units; in others the first seed shows that they agree.
            seeds = args.seeds if unit == "raw" else 1
            for seed in range(seeds):
                for model in args.models:
                    if seed and model not in FITTED:
                        continue
                    begin = time.perf_counter()
                    if model not in PEERS or unit == "raw":  # peers get deviations in any case
                        made[model] = strengths(model, values, truth.longest, seed, forecasters)
                    found = made[model]
                    if found is None:
                        skipped.append({"set": truth.name, "model": model, "unit": unit})
                        continue
                    scores = {k: round(v, 4) for k, v in score(found, truth).items()}
                    seconds = round(time.perf_counter() - begin, 2)
                    about = {**names, "model": model, "unit": unit, "seed": seed}
                    rows.append({**about, **scores, "seconds": seconds})
                    print(*(f"{value!s:>12.12}" for value in rows[-1].values()), flush=True)
    means = []
    for key in dict.fromkeys((row["family"], row["model"], row["unit"]) for row in rows):
        some = [row for row in rows if (row["family"], row["model"], row["unit"]) == key]
        numbers = [{k: v for k, v in row.items() if not isinstance(v, str)} for row in some]
        names = dict(zip(("family", "model", "unit"), key, strict=True))
        count = len({row["set"] for row in some})
        numbers = {k: v for k, v in mean(numbers).items() if k != "seed"}
        means.append({**names, "sets": count, **numbers})
    about = provenance("python -m benchmarks.graphs", "cpu")
    parts = {"means": means, "skipped": skipped, "rows": rows}
    lines = {name: ",\n".join(json.dumps(row) for row in part) for name, part in parts.items()}
    text = f'{{"provenance": {json.dumps(about)},\n'
    text += ",\n".join(f'"{name}": [\n{part}\n]' for name, part in lines.items())
    args.out.write_text(text + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
