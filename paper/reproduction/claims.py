"""The paper's claims, and whether the results support them."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from fighter.benchmark.result import by, mean, number, pair, spread
from fighter.benchmark.runs import Record

from . import quoted
from .table1 import NAIVE

Results = Mapping[str, Sequence[Record]]  # experiment -> rows
YES, NO, PARTLY, UNTESTED = "reproduced", "not reproduced", "partly", "cannot be tested"
FIVE = tuple(quoted.ACCURACY)
FIGHTER, TRANSFORMER, BASELINES = quoted.FIGHTER, "Transformer", quoted.BASELINES
STAND_IN = {"eia_demand_hourly": "stand-in for electricity"}
NO_WEATHER = "The Weather file was not available."


class Verdict(NamedTuple):
    """A claim of the paper, the verdict on it and the evidence."""

    claim: str
    verdict: str
    evidence: str


def judge(results: Results) -> list[Verdict]:
    """Judge every claim whose experiment was run, in the paper's order."""
    return [check(results[experiment]) for experiment, check in CLAIMS if experiment in results]


def _verdict(held: Sequence[bool]) -> str:
    """Return the verdict on a claim with several parts, or about several cases."""
    return YES if all(held) else PARTLY if any(held) else NO


def _lower(ours: Sequence[Record], theirs: Sequence[Record], name: str) -> bool:
    """Return whether the mean is lower by more than the standard deviation between seeds."""
    gap = mean(theirs, name) - mean(ours, name)
    return gap > max(spread(ours, name), spread(theirs, name))


def _gradients(rows: Sequence[Record]) -> Verdict:
    result = rows[0]["result"]
    worst = max(max(result["difference"][name]) for name in ("value", "output"))
    update, lag = fmean(result["update"]["adamw"]), fmean(result["cosine"]["value"]["lag"])
    query, key = (fmean(result["printed"][name]) for name in ("query", "key"))
    share = 100 * fmean(result["attention_share"])
    return Verdict(
        "In the backward pass, value and feed-forward weights are updated like those of a GCN.",
        _verdict([worst < 1e-6, update > 0.99]),
        f"The gradients of W_V W₁ and W₂ differ by at most {worst:.0e} from those of a GCN on the "
        "current graph. AdamW updates the two factors W_V and W₁ separately: the step of their "
        f"product has a mean cosine of {update:.2f} with the step of a GCN's single matrix. The "
        f"gradient of W_V W₁ has a mean cosine of {lag:.2f} with that of a GCN on a fixed lag "
        f"graph. {share:.0f} % of the gradient's norm goes to W_Q and W_K, which a GCN does not "
        f"have; the printed formulas for these two have mean cosines of {query:.2f} and {key:.2f} "
        "with the exact gradients.",
    )


def _cells(rows: Sequence[Record], variant: str = "standard") -> dict:
    """Group the results of a variant by data set and horizon, then by model."""
    chosen = [row for row in rows if row["variant"] == variant]
    return {
        cell: by([r for r in chosen if (r["data"], r["horizon"]) == cell], "model")
        for cell in dict.fromkeys((r["data"], r["horizon"]) for r in chosen)
    }


def _best(rows: Sequence[Record]) -> Verdict:
    first, clear, parts = [], [], []
    for (data, horizon), models in _cells(rows).items():
        places = []
        for name in ("standard_mse", "standard_mae"):
            errors = {label: mean(models[label], name) for label in FIVE}
            order = sorted(errors, key=errors.__getitem__)
            places.append(order.index(FIGHTER) + 1)
            clear.append(all(_lower(models[FIGHTER], models[n], name) for n in BASELINES))
        first.append(places == [1, 1])
        parts.append(
            f"{STAND_IN.get(data, data)}-{horizon}: Fighter ranks {places[0]} of 5 by MSE and "
            f"{places[1]} of 5 by MAE"
        )
    return Verdict(
        "Fighter has the lowest errors of the five models.",
        YES if all(clear) else PARTLY if any(first) else NO,
        "; ".join(parts)
        + (". Not every lead exceeds the spread of the seeds." if all(first) > all(clear) else "."),
    )


def _reduction(rows: Sequence[Record]) -> Verdict:
    parts, gains = [], []
    for (data, horizon), models in _cells(rows).items():
        ours, theirs = (mean(models[n], "standard_mse") for n in (FIGHTER, TRANSFORMER))
        gains.append(1 - ours / theirs)
        parts.append(f"{STAND_IN.get(data, data)}-{horizon} {100 * gains[-1]:+.1f} %")
    return Verdict(
        "Fighter's MSE is 89 to 99 % below the Transformer's.",
        _verdict([gain > 0.85 for gain in gains]),
        "Reduction in the same units, from the same pipeline: " + ", ".join(parts) + ".",
    )


def _units(rows: Sequence[Record]) -> Verdict:
    claim = (
        "Fighter reaches .007 / .052 on Weather-96 in standardised units, "
        "the Transformer .575 / .556."
    )
    models = _cells(rows).get(("weather", 96))
    if models is None:
        return Verdict(claim, UNTESTED, NO_WEATHER)
    fighter, window = models[FIGHTER], models["window mean"]
    trained = [mean(group, "minmax_mse") for label, group in models.items() if label not in NAIVE]
    evidence = (
        f"In standardised units Fighter has {pair(fighter, 'standard')}, the Transformer "
        f"{pair(models[TRANSFORMER], 'standard')}. In MinMax units the same predictions of Fighter "
        f"have {pair(fighter, 'minmax')}; the MSE of all trained models is {min(trained):.4f} to "
        f"{max(trained):.4f}, and the mean of the window, which learns nothing, has "
        f"{pair(window, 'minmax')}"
    )
    if cleaned := _cells(rows, "clean").get(("weather", 96)):
        evidence += f" (with sentinels cleaned: {pair(cleaned[FIGHTER], 'minmax')} and "
        evidence += f"{pair(cleaned['window mean'], 'minmax')})"
    reached = _like_the_paper(fighter, "standard")
    if not reached and _like_the_paper(fighter, "minmax"):
        evidence += (
            ". The paper's numbers for Fighter have the size of MinMax errors, and those for its "
            "baselines do not; only its authors can say whether the table mixes units"
        )
    return Verdict(claim, YES if reached else NO, evidence + ".")


def _like_the_paper(results: Sequence[Record], unit: str) -> bool:
    """Return whether MSE and MAE are within a factor of 1.5 of Fighter's in the paper."""
    paper = zip(("mse", "mae"), quoted.FORECASTS["weather", 96][FIGHTER], strict=True)
    return all(2 / 3 < mean(results, f"{unit}_{name}") / error < 1.5 for name, error in paper)


def _baselines(rows: Sequence[Record]) -> Verdict:
    claim = "On Weather the four baselines have an MSE of .525 to 1.393."
    parts, held = [], []
    for (data, horizon), models in _cells(rows).items():
        if data != "weather" or (data, horizon) not in quoted.FORECASTS:
            continue
        paper = [quoted.FORECASTS[data, horizon][name][0] for name in BASELINES]
        ours = [mean(models[name], "standard_mse") for name in BASELINES]
        held += [3 / 4 < a / b < 4 / 3 for a, b in zip(ours, paper, strict=True)]
        parts.append(
            f"weather-{horizon}: {min(paper):.3f} to {max(paper):.3f} in the paper, "
            f"{min(ours):.3f} to {max(ours):.3f} for the same models here, "
            f"{mean(models['repeat last'], 'standard_mse'):.3f} for repeating the last value"
        )
    if not held:
        return Verdict(claim, UNTESTED, NO_WEATHER)
    return Verdict(claim, _verdict(held), "; ".join(parts) + ".")


def _horizon(rows: Sequence[Record]) -> Verdict:
    parts, falls = [], False
    cells = _cells(rows)
    names = dict.fromkeys(data for data, _ in cells)
    both = [data for data in names if {(data, 96), (data, 192)} <= {*cells}]
    for data in both:
        short, long = (mean(cells[data, h][FIGHTER], "standard_mse") for h in (96, 192))
        falls |= data == "electricity" and long < short
        parts.append(f"{STAND_IN.get(data, data)} {short:.3f} at 96, {long:.3f} at 192")
    claim = "Fighter's error on Electricity falls from 96 to 192 steps."
    if not both:
        return Verdict(claim, UNTESTED, "Only one horizon was run.")
    evidence = f"MSE: {'; '.join(parts)}."
    if "electricity" not in both:
        missing = (
            "The whole Electricity file was not available (`python -m paper reproduce table1 "
            "--electricity electricity.csv` runs it)."
        )
        return Verdict(claim, UNTESTED, f"{missing} {evidence}")
    return Verdict(claim, YES if falls else NO, evidence)


def _compact(rows: Sequence[Record]) -> Verdict:
    models = next(iter(_cells(rows).values()))
    ours, theirs = (models[name][0]["parameters"] for name in (FIGHTER, TRANSFORMER))
    return Verdict(
        "Without the redundant projections Fighter is more compact than a Transformer.",
        YES if ours < theirs else NO,
        f"{ours:,} against {theirs:,} parameters in all, at the same width and κ=3. The "
        "Transformer's feed-forward network is four times as wide, as is usual; each further hop "
        "of Fighter adds one matrix (the κ sweep lists the counts).",
    )


def _sweep(rows: Sequence[Record]) -> tuple[dict[int, list[Record]], list[Record]]:
    """Return the results of Fighter by κ, and those of the Transformer."""
    fighters = by([row for row in rows if row["model"] == "Fighter"], "kappa")
    return dict(sorted(fighters.items())), by(rows, "model")[TRANSFORMER]


def _few_and_many(rows: Sequence[Record]) -> Verdict:
    fighters, transformer = _sweep(rows)
    name = "standard_mse"
    few = [_lower(transformer, fighters[k], name) for k in fighters if k < 3]
    many = [_lower(fighters[k], transformer, name) for k in fighters if k > 3]
    listed = ", ".join(f"κ={k} {number(group, name)}" for k, group in fighters.items())
    return Verdict(
        "On Weather κ = 1, 2 are worse than the Transformer, κ > 3 better.",
        _verdict([all(few), all(many)]) if few and many else UNTESTED,
        f"MSE: {listed}; Transformer {number(transformer, name)}. Only differences larger than "
        "the standard deviation between seeds count.",
    )


def _best_kappa(rows: Sequence[Record]) -> Verdict:
    fighters, _ = _sweep(rows)
    name = "standard_mse"
    best = min(fighters, key=lambda kappa: mean(fighters[kappa], name))
    last = max(fighters)
    rises = _lower(fighters[best], fighters[last], name)
    widest = max(spread(group, name) for group in fighters.values())
    return Verdict(
        "The best κ is about 6; beyond it over-smoothing sets in.",
        UNTESTED if last < 8 else NO if best not in (5, 6, 7) else YES if rises else PARTLY,
        f"The lowest MSE is at κ={best}, {number(fighters[best], name)}; at κ={last} it is "
        f"{number(fighters[last], name)}. The standard deviation between seeds is up to "
        f"{widest:.4f}. By the paper's own definition κ=1 has no attention at all.",
    )


def _accuracy(rows: Sequence[Record]) -> Verdict:
    models = by(rows, "model")
    fighter, transformer = models[FIGHTER], models[TRANSFORMER]
    gap = mean(fighter, "accuracy") - mean(transformer, "accuracy")
    wins = [_lower(models[name], fighter, "accuracy") for name in BASELINES]
    listed = ", ".join(f"{name} {number(models[name], 'accuracy')}" for name in FIVE)
    verdict = YES if all(wins) else PARTLY if gap > 0 else NO
    return Verdict(
        "On AG News Fighter (.898) is the most accurate of the five, the Transformer has .864.",
        verdict,
        f"{listed}, on the official test file (the paper does not give its split). Fighter minus "
        f"Transformer: {100 * gap:+.2f} points.",
    )


def _loss(rows: Sequence[Record]) -> Verdict:
    models = by(rows, "model")

    def area(name: str) -> float:
        """Return the mean training loss over epochs: the lower, the faster it fell."""
        curves = [result["curves"]["loss"] for result in models[name]]
        return sum(map(sum, curves)) / sum(map(len, curves))

    areas = {name: area(name) for name in models if name.startswith("Fighter")}
    line = area("Transformer")
    listed = ", ".join(f"{name} {value:.3f}" for name, value in areas.items())
    return Verdict(
        "On AG News Fighter's training loss falls slightly more slowly than the Transformer's.",
        _verdict([value > line for value in areas.values()]),
        f"Mean training loss over all epochs: {listed}; Transformer {line:.3f}.",
    )


def _maps(rows: Sequence[Record]) -> Verdict:
    last = {
        row["model"]: row["result"]["snapshots"][max(row["result"]["snapshots"], key=int)]
        for row in rows
    }
    local = {
        f"{name} A{'' if power == '1' else '^' + power}": share
        for name, snapshot in last.items()
        for power, share in snapshot["local"].items()
        if power != "0"
    }
    # The highest power of each κ, which reaches furthest; κ=1 has none.
    reach = [
        last[name]["local"][max(last[name]["local"], key=int)]
        for name in sorted(last)
        if name.startswith("κ") and name != "κ=1"
    ]
    diagonal = local["Transformer A"] > 0.5
    widens = all(near > far + 0.05 for near, far in pairwise(reach))
    listed = ", ".join(f"{name} {100 * share:.0f} %" for name, share in local.items())
    return Verdict(
        "The Transformer's heat map is local (diagonal); a higher κ spreads attention further.",
        _verdict([diagonal, widens]),
        f"Share of the weight within 4 of 96 steps (uniform weights would have 9 %): {listed}. A "
        "heat map of A does not show what is used, because hops differ in what they send (see the "
        "table).",
    )


CLAIMS: list[tuple[str, Callable[[Sequence[Record]], Verdict]]] = [
    ("backward", _gradients),
    ("table1", _best),
    ("table1", _reduction),
    ("table1", _units),
    ("table1", _baselines),
    ("table1", _horizon),
    ("table1", _compact),
    ("kappa", _few_and_many),
    ("kappa", _best_kappa),
    ("agnews", _accuracy),
    ("agnews", _loss),
    ("heatmaps", _maps),
]
