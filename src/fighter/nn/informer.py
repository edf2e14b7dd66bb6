"""ProbSparse attention and distilling, after Zhou et al. (2021), "Informer".

Full attention is spent on the queries that need it, u = factor · ln S of them; for all others A is
taken to be uniform, and they get the mean of the values. Which ones is told by the measure M of
their Eq. 4, seen through a sample of the keys as in their Algorithm 1 (one sample for all queries
of a window); distilling is their Eq. 5. On purpose otherwise:

- the sample of keys is random in training and fixed otherwise, so that a forecast can be repeated;
- only keys that a query may look at count in its M;
- under a causal rule the lazy queries get the mean of the values so far, where the authors' code
  has their sum, so that rows of A add up to 1;
- LayerNorm comes before each part, as in :mod:`~fighter.nn.seq2seq`;
- distilling normalises each step by itself (LayerNorm) and not over the batch (BatchNorm), which
  would make the windows of a batch depend on each other in training.
"""

from math import ceil, log

import torch
from torch import Tensor, nn

from ..errors import FighterError
from ..shapes import Bool, Float
from .seq2seq import EncoderBlock


def sample_size(factor: float, nodes: int) -> int:
    """The number u = ⌈factor · ln S⌉, from 1 to S."""
    return min(max(ceil(factor * log(nodes)), 1), nodes)


def prob_sparse_attention(
    q: Float[Tensor, "batch heads nodes head_width"],
    k: Float[Tensor, "batch heads nodes head_width"],
    v: Float[Tensor, "batch heads nodes head_width"],
    mask: Bool[Tensor, "batch nodes"] | None = None,
    causal: bool = False,
    *,
    factor: float = 5.0,
    random: bool = False,
) -> Float[Tensor, "batch heads nodes head_width"]:
    """softmax(QKᵀ/√d) V in the rows of the u queries of largest M, the mean of V in the others.

    .. code-block:: text

        M(q, K) = max over j (q kⱼ/√d) - mean over j (q kⱼ/√d)      j in a sample of u keys

    Under a causal rule values come from the past alone, but which queries are chosen depends on
    all of them, as it does for the authors.
    """
    nodes, device = q.shape[2], q.device
    u = sample_size(factor, nodes)
    place = torch.arange(nodes, device=device)
    if mask is not None:
        v = v.masked_fill(~mask[:, None, :, None], 0)
    active = _measure(q, k, mask, causal, _sample_keys(q, mask, u, random)).topk(u).indices

    chosen = q.gather(2, _along(active, q))  # [B, heads, u, d]
    logits = chosen @ k.transpose(-1, -2) * q.shape[-1] ** -0.5  # [B, heads, u, S]
    if mask is not None:  # finite, so that a sequence of padding alone is not NaN
        logits = logits.masked_fill(~mask[:, None, None], torch.finfo(logits.dtype).min)
    if causal:
        logits = logits.masked_fill(place > active[..., None], float("-inf"))
    rows = logits.softmax(-1).to(v.dtype) @ v
    lazy = _mean(v, mask, causal)
    return lazy.scatter(2, _along(active, v), rows.to(lazy.dtype)).to(v.dtype)


def _along(index: Tensor, x: Tensor) -> Tensor:
    """An index over nodes, repeated for every column of ``x``."""
    return index[..., None].expand(*index.shape, x.shape[-1])


def _sample_keys(q: Tensor, mask: Tensor | None, u: int, random: bool) -> Tensor:
    """Places of u keys, ``[batch, u]``, those that count first.

    What is not random is spread evenly: multiples of 40503 ≈ 2¹⁶ · 0.618 modulo 2¹⁶ are as far
    from each other as numbers can be (Knuth's hash), so the largest are all over the sequence.
    """
    batch, nodes = q.shape[0], q.shape[2]
    if random:
        rank = torch.rand(batch, nodes, device=q.device)
    else:
        rank = (torch.arange(nodes, device=q.device) * 40503 % 65536).float().expand(batch, -1)
    return (rank if mask is None else rank.masked_fill(~mask, -1)).topk(u).indices


@torch.no_grad()
def _measure(
    q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, sample: Tensor
) -> Float[Tensor, "batch heads nodes"]:
    """M of every query; the least there is for one in the padding, or one that saw no key."""
    index = _along(sample[:, None].expand(-1, k.shape[1], -1), k)
    scores = (q @ k.gather(2, index).transpose(-1, -2) * q.shape[-1] ** -0.5).float()
    seen = torch.ones_like(scores[:, :1], dtype=torch.bool)  # [B, 1, S, u]
    if causal:
        place = torch.arange(q.shape[2], device=q.device)
        seen = seen & (sample[:, None, None] <= place[:, None])
    if mask is not None:  # a key in the padding is sampled only where fewer than u nodes count,
        seen = seen & mask[:, None, :, None]  # and there each of them is chosen anyway
    least = torch.finfo(scores.dtype).min
    mean = scores.masked_fill(~seen, 0).sum(-1) / seen.sum(-1).clamp(min=1)
    return (scores.masked_fill(~seen, least).amax(-1) - mean).masked_fill(~seen.any(-1), least)


def _mean(v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Mean of the values that count, or of those so far; ``v`` is zero in the padding."""
    ones = v.new_ones(1, 1, v.shape[2], 1) if mask is None else mask[:, None, :, None].to(v.dtype)
    if causal:
        return v.cumsum(2) / ones.cumsum(2).clamp(min=1)
    return (v.sum(2, keepdim=True) / ones.sum(2, keepdim=True).clamp(min=1)).expand_as(v)


class ProbSparse(nn.Module):
    """:func:`prob_sparse_attention`, its keys sampled at random while training.

    Args:
        factor: c in u = c · ln S, the keys that are sampled and the queries that are chosen.
    """

    def __init__(self, factor: float = 5.0):
        super().__init__()
        if not factor > 0:
            raise FighterError(f"factor={factor!r}: needs a number above 0, such as 5")
        self.factor = factor

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """``[batch, heads, nodes, width / heads]``."""
        return prob_sparse_attention(
            q, k, v, mask, causal, factor=self.factor, random=self.training
        )


class InformerBlock(EncoderBlock):
    """X ← X + ProbSparse attention(norm(X)), X ← X + FFN(norm(X)).

    Args:
        width, heads, hidden_width, dropout: as in :class:`~fighter.nn.seq2seq.EncoderBlock`.
        factor: as in :class:`ProbSparse`.
    """

    def __init__(
        self, width: int, *, heads: int, hidden_width: int, dropout: float, factor: float = 5.0
    ):
        super().__init__(
            width,
            heads=heads,
            hidden_width=hidden_width,
            dropout=dropout,
            attend=ProbSparse(factor),
        )


class Distil(nn.Module):
    """X ← max-pool(ELU(norm(conv(X)))): half as many nodes, S to ⌈S/2⌉.

    The convolution is over three steps, the last and the first being neighbours; the pool is over
    three steps, every second one.
    """

    def __init__(self, width: int):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 3, padding=1, padding_mode="circular")
        self.norm = nn.LayerNorm(width)
        self.pool = nn.Sequential(nn.ELU(), nn.MaxPool1d(3, stride=2, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        """``[batch, nodes, width]`` to ``[batch, ⌈nodes/2⌉, width]``."""
        x = self.norm(self.conv(x.transpose(1, 2)).transpose(1, 2))
        return self.pool(x.transpose(1, 2)).transpose(1, 2)
