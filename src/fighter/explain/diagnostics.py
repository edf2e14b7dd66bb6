"""Measure what each hop of a layer does at a given input, in a few numbers."""

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property

import torch
from torch import Tensor

from ..hops import recursion
from .layer import HopParts, Layer, Mask, hop_parts


@dataclass(frozen=True, eq=False)
class HopDiagnostics:
    """Numbers per head and hop, ``[heads, hops]``, averaged over examples; NaN where undefined.

    Hᵢ = AⁱT is what hop i sees (T is the layer's input after its norm), Mᵢ = AⁱTWᵢ is what it
    sends, and Y = Σᵢ Mᵢ, all for one head, before heads are mixed and a bias is added. C subtracts
    the mean over nodes. Norms and products run over all nodes and columns.
    """

    powers: tuple[int, ...]
    spectral_gap: Tensor
    """[heads]: 1 - |λ₂(A)| = 1 - ρ(CA). Small: hops stay distinct; near 1: all from A² on agree."""
    dispersion: Tensor
    """‖C Hᵢ‖ / ‖C T‖. Below 0.05 all nodes see the same row."""
    norm_share: Tensor
    """‖Mᵢ‖ / Σₘ ‖Mₘ‖, the size of a hop, whether or not other hops cancel it."""
    signed_share: Tensor
    """⟨Mᵢ, Y⟩ / ‖Y‖². The hops add up to 1; a negative one cancels others."""
    entropy: Tensor
    """-Σₛ Aⁱⱼₛ ln Aⁱⱼₛ / ln S, mean over nodes j. 0: one source; 1: all sources equal."""
    effective_sources: Tensor
    """exp(-Σₛ Aⁱⱼₛ ln Aⁱⱼₛ), mean over nodes j: how many nodes a node attends to."""
    mean_lag: Tensor
    """Σₛ |j-s| Aⁱⱼₛ, mean over nodes j: how far away these are, if nodes are ordered in time."""
    redundancy: Tensor
    """cos(C Hᵢ, C Hᵢ₊₁), with the next power of the layer; NaN for the last."""

    def table(self) -> list[dict[str, int | float | None]]:
        """Return one row per head and hop; None where a number is undefined."""
        names = [field.name for field in fields(self)[2:]]
        return [
            {"head": head, "power": power, "spectral_gap": _number(self.spectral_gap[head])}
            | {name: _number(getattr(self, name)[head, hop]) for name in names}
            for head in range(len(self.spectral_gap))
            for hop, power in enumerate(self.powers)
        ]


@dataclass(frozen=True, eq=False)
class LazyDiagnostics:
    """Diagnostics that are computed on first use, because they cost more than a trace."""

    parts: HopParts
    ordered: bool = True  # nodes follow each other in time; there is no mean lag otherwise

    @cached_property
    def diagnostics(self) -> HopDiagnostics:
        """Return the result of :func:`measure`."""
        found = measure(self.parts)
        nowhere = torch.full_like(found.mean_lag, math.nan)
        return found if self.ordered else replace(found, mean_lag=nowhere)


@torch.no_grad()
def diagnose(layer: Layer, x: Tensor, mask: Mask = None, causal: bool = False) -> HopDiagnostics:
    """Measure the hops of a Fighter layer, or of a Transformer block's attention, at ``x``.

    This stores every Aⁱ and computes the eigenvalues of A, which costs S³ per example and head.

    Example:
        >>> import torch
        >>> from fighter.nn import FighterLayer
        >>> from fighter.explain import diagnose
        >>> hops = diagnose(FighterLayer(8, kappa=3, heads=2), torch.randn(4, 9, 8))
        >>> hops.dispersion.shape, len(hops.table())
        (torch.Size([2, 3]), 6)
    """
    padding = mask if mask is not None and mask.ndim == 2 else None
    return measure(hop_parts(layer, x, mask, causal), padding)


@torch.no_grad()
def measure(parts: HopParts, mask: Mask = None) -> HopDiagnostics:
    """Measure hops from a layer's terms; ``mask`` is False at padding ``[batch, nodes]``."""
    x = parts.inputs
    seen = torch.ones_like(x[:, 0, :, 0]) if mask is None else mask.to(x)
    graphs = torch.stack(parts.graphs(), 2)  # [B, heads, hops, S, S]
    rows = seen[:, None, None, :, None]  # padded nodes are not counted
    features = graphs @ x[:, :, None] * rows  # Hᵢ [B, heads, hops, S, D]
    messages = graphs @ torch.stack(parts.values, 2) * rows  # Mᵢ [B, heads, hops, S, width]
    return HopDiagnostics(
        parts.powers,
        spectral_gap(parts.graph).mean(0),
        _dispersion(features, parts, rows),
        *_shares(messages),
        *_reach(graphs, seen),
        _redundancy(features, rows),
    )


@torch.no_grad()
def hop_shares(parts: HopParts, mask: Mask = None) -> Tensor:
    """Return ‖Mᵢ‖ / Σₘ ‖Mₘ‖ ``[heads, hops]`` as :func:`measure` does, by products with A alone."""
    terms = []
    for power, value in zip(parts.powers, parts.values, strict=True):
        term = recursion(lambda b: parts.graph @ b, value, (power,))[0]
        terms.append(term if mask is None else term * mask.to(term)[:, None, :, None])
    return _shares(torch.stack(terms, 2))[0]


def spectral_gap(graph: Tensor) -> Tensor:
    """Return 1 - |λ₂| = 1 - ρ(CA) of row-stochastic graphs ``[..., nodes, nodes]``."""
    centred = (graph - graph.mean(-2, keepdim=True)).double().cpu()
    return 1 - torch.linalg.eigvals(centred).abs().amax(-1).to(graph)


def _dispersion(features: Tensor, parts: HopParts, rows: Tensor) -> Tensor:
    before = _norm(_centred(parts.inputs[:, :, None], rows))
    return (_norm(_centred(features, rows)) / before).mean(0)


def _shares(messages: Tensor) -> tuple[Tensor, Tensor]:
    norms, y = _norm(messages), messages.sum(2, keepdim=True)
    signed = (messages * y).sum((-2, -1)) / y.square().sum((-2, -1))
    return (norms / norms.sum(-1, keepdim=True)).mean(0), signed.mean(0)


def _reach(graphs: Tensor, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    count = seen.sum(-1)[:, None, None]  # [B, 1, 1]
    place = torch.arange(graphs.shape[-1], device=graphs.device)
    lags = (place[:, None] - place).abs().to(graphs)

    def over_nodes(per_node: Tensor) -> Tensor:
        return (per_node * seen[:, None, None]).sum(-1) / count

    entropy = -torch.xlogy(graphs, graphs).sum(-1)  # [B, heads, hops, S]
    most = count.clamp(min=2).log()  # a single node has entropy 0 for any divisor
    nats, sources, lag = map(over_nodes, (entropy, entropy.exp(), (graphs * lags).sum(-1)))
    return (nats / most).mean(0), sources.mean(0), lag.mean(0)


def _redundancy(features: Tensor, rows: Tensor) -> Tensor:
    centred = _centred(features, rows)
    norms = _norm(centred)
    rounding = 16 * torch.finfo(norms.dtype).eps * _norm(features)
    norms = torch.where(norms > rounding, norms, math.nan)  # nodes do not differ
    products = (centred[:, :, :-1] * centred[:, :, 1:]).sum((-2, -1))
    cosines = (products / (norms[..., :-1] * norms[..., 1:])).mean(0)
    return torch.nn.functional.pad(cosines, (0, 1), value=math.nan)


def _centred(h: Tensor, rows: Tensor) -> Tensor:
    """Return C H: each column minus its mean over the nodes that are not padding."""
    return (h - (h * rows).sum(-2, keepdim=True) / rows.sum(-2, keepdim=True)) * rows


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=(-2, -1))


def _number(value: Tensor) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
