"""Measure whether attributions find the links that were planted in the generated grid."""

from collections import defaultdict

import torch
from torch import Tensor

from fighter.data import GridLoad

from .sample import Sample

LONGEST_LAG = 12  # of the grid's links


def planted(sample: Sample, grid: GridLoad) -> dict[str, dict[str, float]]:
    """Return how well each method finds the links and lags of the grid.

    A link of lag d acts on steps 1 … d, whose source values are already observed; all of them are
    explained (12 for a zone without a source). The method "removals" removes single values, which
    asks the model itself: no attribution of the model can be expected to find more.

    - series: mean |Σ over lags of the scores| as a share of all series, averaged over steps
      ("gross": Σ over lags of the mean |score| instead). AUROC and precision at k, the number of
      links, over all pairs of two zones, against the direct links, and against indirect ones too;
    - lag: AUROC of the planted lag among all lags of the source, and whether the highest score is
      within 1 h of it;
    - cell: AUROC of (source, planted lag) among all past values of other zones;
    - use: correlation of |score| with |change by removal| over the past values of a window.
    """
    z, ids = sample.parts[0], sample.ids
    lookback, count = z.shape[1:]
    changes = sample.single_removals(LONGEST_LAG)
    net: dict[str, Tensor] = defaultdict(lambda: torch.zeros(count, count))  # rows are targets
    gross: dict[str, Tensor] = defaultdict(lambda: torch.zeros(count, count))
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    direct = torch.zeros(count, count, dtype=torch.bool)
    for link in grid.links:
        direct[ids.index(link.target), ids.index(link.source)] = True
    lags = {ids.index(link.target): link.lag for link in grid.links}
    for target in range(count):
        source, lag = int(direct[target].int().argmax()), lags.get(target)
        elsewhere = torch.arange(count) != target
        for step in range(lag or LONGEST_LAG):
            removals = changes[:, :, :, step, target].permute(2, 0, 1)
            for name, score in {**sample.scores(target, step), "removals": removals}.items():
                cells = score.abs().mean(0).cpu()  # [L, N]
                whole = score.sum(1).abs().mean(0).cpu()  # [N]
                net[name][target] += whole / whole.sum()
                gross[name][target] += cells.sum(0) / cells.sum()
                here = values[name]
                here["use"].append(float(correlation(score.abs(), removals.abs()).mean()))
                if lag is None:
                    continue
                truth = torch.zeros(lookback, count, dtype=torch.bool)
                truth[lookback - lag + step, source] = True
                profile, at = cells[:, source], truth[:, source]
                near = at | at.roll(1) | at.roll(-1)
                here["lag AUROC"].append(auroc(profile, at))
                here["lag within 1 h"].append(float(near[profile == profile.max()].float().mean()))
                here["cell AUROC"].append(auroc(cells[:, elsewhere], truth[:, elsewhere]))
        for shares in (*net.values(), *gross.values()):  # rounded, so that ties remain ties
            shares[target] = (shares[target] / (lag or LONGEST_LAG)).round(decimals=5)
    pairs = ~torch.eye(count, dtype=torch.bool)
    reach = direct.clone()
    for _ in range(count):
        reach |= (reach.float() @ direct.float()) > 0
    return {
        name: {
            "series AUROC": auroc(net[name][pairs], direct[pairs]),
            "series precision@k": precision(net[name][pairs], direct[pairs]),
            "series AUROC, indirect too": auroc(net[name][pairs], reach[pairs]),
            "series AUROC, gross": auroc(gross[name][pairs], direct[pairs]),
            "series precision@k, gross": precision(gross[name][pairs], direct[pairs]),
            **{key: sum(numbers) / len(numbers) for key, numbers in here.items()},
        }
        for name, here in values.items()
    }


def auroc(score: Tensor, truth: Tensor) -> float:
    """Return the chance that a true item scores higher than a false one; ties count half."""
    yes, no = score[truth][:, None], score[~truth]
    return float(((yes > no).double() + 0.5 * (yes == no)).mean())


def precision(score: Tensor, truth: Tensor) -> float:
    """Return the share of true items among the k highest scores, k the number of true items.

    Items that tie at the last place count by their share of true ones.
    """
    k = int(truth.sum())
    last = score.topk(k).values[-1]
    above, tied = score > last, score == last
    hits = truth[above].sum() + (k - above.sum()) * truth[tied].double().mean()
    return float(hits / k)


def correlation(a: Tensor, b: Tensor) -> Tensor:
    """Return Pearson's correlation over all axes but the first; 0 where one does not vary."""
    a, b = (x.flatten(1) - x.flatten(1).mean(1, keepdim=True) for x in (a, b))
    size = a.norm(dim=1) * b.norm(dim=1)
    return torch.where(size > 0, (a * b).sum(1) / size.clamp(min=1e-30), 0.0)
