"""Informer (Zhou et al., 2021): sparse attention and distilling between encoder blocks.

Full attention is spent on the queries that need it, u = factor · ln S of them; for all others A is
taken to be uniform, so that they get the mean of the values. The measure M of their Eq. 4 chooses
the queries, estimated from a sample of the keys as in their Algorithm 1 (one sample for all queries
of a window). Distilling is their Eq. 5. It lies between blocks, so one layer has none. The decoder
attends to itself sparsely and causally, and to the encoder's output in full.

Where this departs from the paper:

- the sample of keys is random in training and fixed otherwise, so that a forecast can be repeated;
- only keys that a query may look at count in its M;
- with a causal rule the other queries get the mean of the values so far, where the authors' code
  has their sum, so that rows of A sum to 1;
- LayerNorm comes before each part, as in :mod:`~fighter.models.seq2seq`, where more is listed;
- distilling normalises each step by itself (LayerNorm) and not over the batch (BatchNorm), which
  would make the windows of a batch depend on each other in training.
"""

from dataclasses import dataclass
from math import ceil, log
from typing import Any

import torch
from torch import Tensor, nn

from .._typing import Bool, Float, Int
from ..hops import Hop, attention_hop
from ..nn._checks import Heads, Nodes
from .base import Task, check_factor
from .seq2seq import DecoderBlock, EncoderBlock, EncoderDecoder, EncoderDecoderConfig

Padding = Bool[Tensor, "batch nodes"] | None


def sample_size(factor: float, nodes: int) -> int:
    """Return u = ⌈factor · ln S⌉, limited to 1 … S."""
    return min(max(ceil(factor * log(nodes)), 1), nodes)


def prob_sparse_hop(
    q: Heads,
    k: Heads,
    mask: Padding = None,
    causal: bool = False,
    *,
    width: int | None = None,
    factor: float = 5.0,
    random: bool = False,
) -> Hop:
    """Return b ↦ A b for b of a width (default: that of q), A as attention is sparse.

    .. code-block:: text

        M(q, K) = max over j (q kⱼ/√d) - mean over j (q kⱼ/√d)      j in a sample of u keys

    A query of zeros has a uniform A, so the other queries are set to zero and fused attention takes
    all of them at once: up to some thousand nodes that is faster than to pick out the chosen ones.
    With a causal rule values come from the past alone, but which queries are chosen depends on
    all of them, as in the authors' code.
    """
    u = sample_size(factor, q.shape[2])
    measure = _measure(q, k, mask, causal, _sample_keys(q, mask, u, random))
    uniform = torch.ones_like(measure, dtype=torch.bool)
    uniform = uniform.scatter_(2, measure.topk(u).indices, False)
    q = q.masked_fill(uniform[..., None], 0)
    return attention_hop(q, k, width=width or q.shape[-1], mask=mask, causal=causal)


def _sample_keys(q: Heads, mask: Padding, u: int, random: bool) -> Int[Tensor, "batch {u}"]:
    """Return the places of u keys; keys that are not padding come first."""
    batch, nodes = q.shape[0], q.shape[2]
    if random:
        rank = torch.rand(batch, nodes, device=q.device)
    else:  # Knuth's multiplicative hash, 40503 ≈ 2¹⁶ · 0.618, spreads the largest ranks evenly
        rank = (torch.arange(nodes, device=q.device) * 40503 % 65536).float().expand(batch, -1)
    return (rank if mask is None else rank.masked_fill(~mask, -1)).topk(u).indices


@torch.no_grad()
def _measure(
    q: Heads, k: Heads, mask: Padding, causal: bool, sample: Int[Tensor, "batch u"]
) -> Float[Tensor, "batch heads nodes"]:
    """Return M of every query, times √d; queries in the padding or without keys get the lowest."""
    index = sample[:, None, :, None].expand(-1, k.shape[1], -1, k.shape[-1])
    scores = q @ k.gather(2, index).transpose(-1, -2)  # [B, heads, S, u]
    dtype = torch.promote_types(scores.dtype, torch.float32)
    lowest = torch.finfo(scores.dtype).min
    if causal:
        later = sample[:, None, None] > torch.arange(q.shape[2], device=q.device)[:, None]
        mean = scores.masked_fill(later, 0).sum(-1, dtype=dtype) / (~later).sum(-1).clamp(min=1)
        measure = scores.masked_fill(later, lowest).amax(-1) - mean
    else:
        measure = scores.amax(-1) - scores.mean(-1, dtype=dtype)
    # A key in the padding is sampled only if fewer than u nodes count; then all are chosen.
    return measure if mask is None else measure.masked_fill(~mask[:, None], lowest)


class ProbSparse(nn.Module):
    """:func:`prob_sparse_hop` as a module, with keys sampled at random while training."""

    def __init__(self, factor: float = 5.0):
        super().__init__()
        self.factor = check_factor(factor)

    def forward(self, q: Heads, k: Heads, mask: Padding = None, causal: bool = False) -> Hop:
        """Return the hop."""
        return prob_sparse_hop(q, k, mask, causal, factor=self.factor, random=self.training)


class InformerBlock(EncoderBlock):
    """X ← X + ProbSparse attention(norm(X)), X ← X + FFN(norm(X))."""

    def __init__(self, width: int, *, factor: float = 5.0, **options: Any):
        super().__init__(width, hop=ProbSparse(factor), **options)


class Distil(nn.Module):
    """X ← max-pool(ELU(norm(conv(X)))) over three steps each: half as many nodes, S to ⌈S/2⌉."""

    def __init__(self, width: int):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 3, padding=1, padding_mode="circular")
        self.norm = nn.LayerNorm(width)
        self.pool = nn.Sequential(nn.ELU(), nn.MaxPool1d(3, stride=2, padding=1))

    def forward(self, x: Nodes) -> Float[Tensor, "batch half width"]:
        """Halve the number of nodes."""
        x = self.norm(self.conv(x.transpose(1, 2)).transpose(1, 2))
        return self.pool(x.transpose(1, 2)).transpose(1, 2)


class InformerNet(EncoderDecoder):
    """Sparse attention in encoder and decoder, half the steps after each encoder block."""

    def __init__(self, task: Task, config: "Informer"):
        width, block, factor = config.width, config.block, config.factor
        depth = config.decoder_layers
        encoder: list[nn.Module] = []
        for i in range(config.layers):
            if i and config.distil:
                encoder.append(Distil(width))
            encoder.append(InformerBlock(width, factor=factor, **block))
        decoder = [DecoderBlock(width, hop=ProbSparse(factor), **block) for _ in range(depth)]
        super().__init__(task, config, encoder, decoder)


@dataclass(frozen=True, kw_only=True)
class Informer(EncoderDecoderConfig):
    """Informer (Zhou et al., 2021): sparse attention and distilling.

    Args:
        factor: c in u = c · ln S, the number of queries that get full attention (default: 5.0).
        distil: halve the steps between encoder blocks (default: True).
    """

    name, column, network = "informer", "Informer", InformerNet

    factor: float = 5.0
    distil: bool = True
