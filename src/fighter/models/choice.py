"""Which experts run, in which order, and the error that is usual of each."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .._typing import Bool, Float
from .autoregression import Kind, make_kinds
from .smoothing import Expert, make_experts, prior_error

EARLY = 6  # experts without a season that are run in any case

Prior = Float[Tensor, "experts"]


@dataclass(frozen=True)
class Choice:
    """The experts that run: those on values, then those on logarithms, then the others.

    Args:
        experts: smoothing of the values.
        kinds: autoregressions of the values.
        log_experts: smoothing of the logarithms.
        log_kinds: autoregressions of the logarithms.
        others: number of the others, which are medians and TSB.
        prior: usual error of each expert, in units of the median expert.
        usable: which experts may have a weight. Those on values that may not are run all the same
            if those on logarithms may, because all on values are compared with their median.
    """

    experts: Sequence[Expert]
    kinds: Sequence[Kind]
    log_experts: Sequence[Expert]
    log_kinds: Sequence[Kind]
    others: int
    prior: Prior
    usable: Bool[Tensor, "experts"]

    @classmethod
    def make(cls, seasons: Sequence[int], others: int, prior: Prior | None) -> "Choice":
        """Choose the experts whose prior is finite; without a prior, all."""
        experts, kinds = make_experts(seasons), make_kinds(seasons)
        usual = [prior_error(expert) for expert in experts]
        usual += [0.85 if kind.difference else 0.9 for kind in kinds]
        # A trend in logarithms grows without limit: it needs a season to prove itself on.
        steady = [e.season > 1 or not (e.trend or e.drift) for e in experts]
        steady += [kind.difference != 1 or bool(seasons) for kind in kinds]
        count = len(usual)
        usable = torch.tensor([True] * count + steady + [True] * others)
        if prior is None:
            prior = torch.tensor([*usual, *usual, *[1.0] * others], dtype=torch.float64)
        kept = prior.isfinite()
        on_logs = kept[count : 2 * count]
        on_values = kept[:count] | on_logs
        if not kept.all():
            every = torch.cat([on_values, on_logs, torch.ones(others, dtype=torch.bool)])
            usable, prior, kept = usable[every], prior[every], kept[every]
            prior = prior / prior[kept].median()  # of those that may have a weight

        def some(of: Sequence, mask: Tensor) -> list:
            return [each for each, keep in zip(of, mask.tolist(), strict=True) if keep]

        first = len(experts)
        return cls(
            some(experts, on_values[:first]),
            some(kinds, on_values[first:]),
            some(experts, on_logs[:first]),
            some(kinds, on_logs[first:]),
            others,
            prior,
            usable & kept,
        )

    @property
    def linear(self) -> Bool[Tensor, "experts"]:
        """Tell which experts are autoregressions."""
        sizes = [len(each) for each in (self.experts, self.kinds, self.log_experts, self.log_kinds)]
        flags = [False] * sizes[0] + [True] * sizes[1] + [False] * sizes[2] + [True] * sizes[3]
        return torch.tensor(flags + [False] * self.others)


def keep_best(
    prior: Prior, usable: Bool[Tensor, "experts"], seasons: Sequence[int], most: int
) -> Prior:
    """Return the prior with an infinite error for all but the ``most`` best experts.

    Some that need no season are kept in any case, and so are medians and TSB, which cost little.
    """
    experts, prior = make_experts(seasons), prior.clone()
    both = 2 * (len(experts) + len(make_kinds(seasons)))
    some, usable = prior[:both], usable[:both]
    early = torch.zeros_like(usable)  # those that need no season forecast from the first rows on
    early[: sum(expert.season == 1 for expert in experts)] = True
    some[~(_lowest(some, usable, most) | _lowest(some, early, EARLY))] = torch.inf
    return prior


def _lowest(prior: Prior, among: Bool[Tensor, "experts"], count: int) -> Bool[Tensor, "experts"]:
    """Tell which experts have the ``count`` lowest errors among some."""
    ranked = torch.where(among, prior, torch.inf).sort().values
    return among & (prior <= ranked[min(count, len(ranked)) - 1])
