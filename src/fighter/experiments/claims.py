"""The paper's claims, and what the results say of each."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from . import paper
from .runs import Record
from .table1 import NAIVE
from .tables import by, mean, number, pair, spread

Results = Mapping[str, Sequence[Record]]  # experiment -> rows
YES, NO, PARTLY, UNTESTED = "reproduced", "not reproduced", "partly", "cannot be tested"
FIVE = tuple(paper.ACCURACY)


class Verdict(NamedTuple):
    """A claim of the paper and how it stands."""

    claim: str
    verdict: str
    evidence: str


def judge(results: Results) -> list[Verdict]:
    """Every claim, in the paper's order; one whose experiment was not run is left out."""
    found = []
    for experiment, claim in CLAIMS:
        if experiment in results:
            found.append(claim(results[experiment]))
    return found


def _gradients(rows: Sequence[Record]) -> Verdict:
    result = rows[0]["result"]
    worst = max(max(result["difference"][name]) for name in ("value", "output"))
    update = sum(result["update"]["adamw"]) / len(result["update"]["adamw"])
    lag = sum(result["cosine"]["value"]["lag"]) / len(result["cosine"]["value"]["lag"])
    share = 100 * sum(result["attention_share"]) / len(result["attention_share"])
    printed = result["printed"]
    key = sum(printed["key"]) / len(printed["key"])
    query = sum(printed["query"]) / len(printed["query"])
    return Verdict(
        "In the backward pass value and feed-forward weights are updated as those of a GCN.",
        PARTLY,
        f"As gradients of W_V W₁ and W₂ on the current graph: exactly (they differ by {worst:.0e} "
        "at most along the run). As training goes: the two factors are stepped apart, so the "
        f"product moves in another direction than a GCN's one matrix (cosine {update:.2f} with "
        f"AdamW); on a fixed lag graph the gradients are others (cosine {lag:.2f}). {share:.0f} % "
        "of the gradient's norm goes to W_Q and W_K, for which a GCN has nothing; the printed "
        f"formulas for these have cosines {query:.2f} and {key:.2f} with the exact gradients.",
    )


def _cells(rows: Sequence[Record], variant: str = "standard") -> dict:
    chosen = [row for row in rows if row["variant"] == variant]
    return {
        cell: by([r for r in chosen if (r["data"], r["horizon"]) == cell], "model")
        for cell in dict.fromkeys((r["data"], r["horizon"]) for r in chosen)
    }


def _best(rows: Sequence[Record]) -> Verdict:
    wins, told = 0, []
    cells = _cells(rows)
    for (data, horizon), models in cells.items():
        errors = {name: mean(models[name], "standard_mse") for name in FIVE}
        best = min(errors, key=errors.__getitem__)
        wins += best.startswith("Fighter")
        place = sorted(errors.values()).index(errors["Fighter κ=3"]) + 1
        told.append(f"{data}-{horizon}: Fighter is number {place} of 5, best {best}")
    verdict = YES if wins == len(cells) else PARTLY if wins else NO
    return Verdict("Fighter has the lowest errors of the five models.", verdict, "; ".join(told))


def _reduction(rows: Sequence[Record]) -> Verdict:
    told, gains = [], []
    for (data, horizon), models in _cells(rows).items():
        ours, theirs = (mean(models[n], "standard_mse") for n in ("Fighter κ=3", "Transformer"))
        gains.append(1 - ours / theirs)
        told.append(f"{data}-{horizon} {100 * gains[-1]:+.1f} %")
    return Verdict(
        "Fighter's MSE is 89 to 99 % below the Transformer's.",
        YES if min(gains) > 0.85 else NO,
        "Reduction in the same units, from the same pipeline: " + ", ".join(told) + ".",
    )


def _units(rows: Sequence[Record]) -> Verdict:
    models = _cells(rows).get(("weather", 96))
    if models is None:
        return Verdict("Fighter reaches .007 / .052 on Weather-96.", UNTESTED, "Weather is absent.")
    fighter, mean_ = models["Fighter κ=3"], models["window mean"]
    low, high = _range(models, "minmax_mse")
    close = abs(mean(fighter, "minmax_mse") - 0.007) < 0.002
    return Verdict(
        "Fighter reaches .007 / .052 on Weather-96 in standardised units, "
        "the Transformer .575 / .556.",
        NO,
        f"Standardised, Fighter has {pair(fighter, 'standard')}. In MinMax units the same "
        f"predictions have {pair(fighter, 'minmax')}"
        + (", which is the paper's number" if close else "")
        + f"; so has every model: {low:.4f} to {high:.4f}, and the mean of the window, which "
        f"learns nothing, {pair(mean_, 'minmax')}. The table most likely compares Fighter in "
        "MinMax units with baselines in standardised ones; only its authors can say.",
    )


def _range(models: Mapping[str, Sequence[Record]], name: str) -> tuple[float, float]:
    errors = [mean(results, name) for label, results in models.items() if label not in NAIVE]
    return min(errors), max(errors)


def _baselines(rows: Sequence[Record]) -> Verdict:
    told, weak = [], 0
    for (data, horizon), models in _cells(rows).items():
        if data != "weather":
            continue
        repeat = mean(models["repeat last"], "standard_mse")
        quoted = paper.FORECASTS[data, horizon]
        ours = [mean(models[name], "standard_mse") for name in FIVE if name != "Fighter κ=3"]
        weak += min(quoted[n][0] for n in FIVE if n != "Fighter κ=3") > repeat
        told.append(
            f"weather-{horizon}: repeating the last value {repeat:.3f}; the paper's baselines "
            f"{min(quoted[n][0] for n in FIVE if n != 'Fighter κ=3'):.3f} to "
            f"{max(quoted[n][0] for n in FIVE if n != 'Fighter κ=3'):.3f}, the same models here "
            f"{min(ours):.3f} to {max(ours):.3f}"
        )
    return Verdict(
        "The baselines' errors on Weather.",
        NO if weak else YES,
        "; ".join(told) + ".",
    )


def _horizon(rows: Sequence[Record]) -> Verdict:
    told, falls = [], 0
    cells = _cells(rows)
    pairs = [data for data in dict.fromkeys(d for d, _ in cells) if (data, 192) in cells]
    for data in pairs:
        short, long = (mean(cells[data, h]["Fighter κ=3"], "standard_mse") for h in (96, 192))
        falls += data != "weather" and long < short
        told.append(f"{data}: {short:.3f} at 96, {long:.3f} at 192")
    claim = "Fighter's error on Electricity falls from 96 to 192 steps."
    if not pairs:
        return Verdict(claim, UNTESTED, "One horizon only was run.")
    if "electricity" not in pairs:
        return Verdict(
            claim,
            UNTESTED,
            "The whole Electricity file was not at hand (fighter reproduce table1 --electricity "
            "electricity.csv runs it). On the stand-in and on Weather: " + "; ".join(told) + ".",
        )
    return Verdict(claim, YES if falls else NO, "; ".join(told) + ".")


def _compact(rows: Sequence[Record]) -> Verdict:
    models = next(iter(_cells(rows).values()))
    ours, theirs = (models[name][0]["parameters"] for name in ("Fighter κ=3", "Transformer"))
    return Verdict(
        "Without the redundant projections Fighter is more compact than a Transformer.",
        YES if ours < theirs else NO,
        f"{ours:,} against {theirs:,} parameters at one width, κ=3; each further hop adds a block "
        "(the sweep below has the counts).",
    )


def _kappa(rows: Sequence[Record]) -> list[Verdict]:
    transformer = by(rows, "model")["Transformer"]
    fighters = by([r for r in rows if r.get("model") == "Fighter"], "kappa")
    errors = {kappa: mean(results, "standard_mse") for kappa, results in fighters.items()}
    line = mean(transformer, "standard_mse")
    best = min(errors, key=errors.__getitem__)
    wide = max(spread(results, "standard_mse") for results in fighters.values())
    listed = ", ".join(f"κ={k} {errors[k]:.3f}" for k in sorted(errors))
    said = f"{listed}; Transformer {number(transformer, 'standard_mse')}."
    few = all(errors[k] > line for k in (1, 2) if k in errors)
    many = all(errors[k] < line for k in errors if k > 3)
    first = Verdict(
        "On Weather κ = 1, 2 are worse than the Transformer, κ > 3 better.",
        YES if few and many else PARTLY if few or many else NO,
        said,
    )
    verdict = YES if best == 6 else NO
    second = Verdict(
        "The best κ is about 6; beyond it over-smoothing sets in.",
        verdict if len(errors) > 5 else UNTESTED,
        f"The lowest error is at κ={best}; deviation over seeds is up to {wide:.4f}. κ=1 has no "
        "attention at all, by the paper's own definition.",
    )
    return [first, second]


def _accuracy(rows: Sequence[Record]) -> Verdict:
    models = by(rows, "model")
    scores = {name: mean(models[name], "accuracy") for name in FIVE}
    best = max(scores, key=scores.__getitem__)
    gap = scores["Fighter κ=3"] - scores["Transformer"]
    wide = max(spread(models[n], "accuracy") for n in ("Fighter κ=3", "Transformer"))
    listed = ", ".join(f"{name} {number(models[name], 'accuracy')}" for name in FIVE)
    verdict = NO if gap <= 0 else YES if best.startswith("Fighter") and gap > wide else PARTLY
    return Verdict(
        "On AG News Fighter (.898) is the most accurate of the five, the Transformer has .864.",
        verdict,
        f"{listed}, on the official test file (the paper's split is not given). Fighter minus "
        f"Transformer: {100 * gap:+.2f} points.",
    )


def _loss(rows: Sequence[Record]) -> Verdict:
    models = by(rows, "model")

    def area(name: str) -> float:
        """The mean training loss over epochs: the lower, the faster it fell."""
        curves = [result["curves"]["loss"] for result in models[name]]
        return sum(map(sum, curves)) / sum(map(len, curves))

    areas = {name: area(name) for name in models if name.startswith("Fighter")}
    line = area("Transformer")
    slower = sum(value > line for value in areas.values())
    listed = ", ".join(f"{name} {value:.3f}" for name, value in areas.items())
    return Verdict(
        "On AG News Fighter's training loss falls slightly more slowly than the Transformer's.",
        YES if slower == len(areas) else PARTLY if slower else NO,
        f"Mean training loss over all epochs: {listed}; Transformer {line:.3f}.",
    )


def _maps(rows: Sequence[Record]) -> Verdict:
    last = {
        row["model"]: row["result"]["snapshots"][max(row["result"]["snapshots"], key=int)]
        for row in rows
    }
    local = {
        f"{name} A{'' if power == '1' else '^' + power}": share
        for name, seen in last.items()
        for power, share in seen["local"].items()
        if power != "0"
    }
    reach = [seen["local"][max(seen["local"], key=int)] for n, seen in last.items() if n[0] == "κ"]
    diagonal = local["Transformer A"] > 0.5
    widens = all(near > far + 0.05 for near, far in pairwise(reach[1:]))
    listed = ", ".join(f"{name} {100 * share:.0f} %" for name, share in local.items())
    return Verdict(
        "The Transformer's heat map is local (diagonal); a higher κ spreads attention further.",
        YES if diagonal and widens else PARTLY if diagonal or widens else NO,
        f"Weight within 4 of 96 steps (even weights would have 9 %): {listed}. A heat map of A "
        "does not show what is used: hops differ in what they send, see the table.",
    )


CLAIMS: list[tuple[str, Callable[[Sequence[Record]], Verdict]]] = [
    ("backward", _gradients),
    ("table1", _best),
    ("table1", _reduction),
    ("table1", _units),
    ("table1", _baselines),
    ("table1", _horizon),
    ("table1", _compact),
    ("kappa", lambda rows: _kappa(rows)[0]),
    ("kappa", lambda rows: _kappa(rows)[1]),
    ("agnews", _accuracy),
    ("agnews", _loss),
    ("heatmaps", _maps),
]
