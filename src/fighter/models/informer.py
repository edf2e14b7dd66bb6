"""Informer (Zhou et al., 2021) as a forecaster.

ProbSparse attention and distilling, after Zhou et al. (2021), "Informer".

Full attention is spent on the queries that need it, u = factor · ln S of them; for all others A is
taken to be uniform, and they get the mean of the values. Which ones is told by the measure M of
their Eq. 4, seen through a sample of the keys as in their Algorithm 1 (one sample for all queries
of a window); distilling is their Eq. 5. On purpose otherwise:

- the sample of keys is random in training and fixed otherwise, so that a forecast can be repeated;
- only keys that a query may look at count in its M;
- under a causal rule the lazy queries get the mean of the values so far, where the authors' code
  has their sum, so that rows of A add up to 1;
- LayerNorm comes before each part, as in :mod:`~fighter.models.seq2seq`;
- distilling normalises each step by itself (LayerNorm) and not over the batch (BatchNorm), which
  would make the windows of a batch depend on each other in training.
"""

from math import ceil, log

import torch
from torch import Tensor, nn

from .._typing import Bool, Float
from ..errors import FighterError
from .base import Task
from .seq2seq import DecoderBlock, EncoderBlock, EncoderDecoder, full_attention


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

    A query of zeros has a uniform A, so those that are lazy are set to zero and fused attention
    takes all of them at once: up to some thousand nodes that is quicker than to pick out the rest.
    Under a causal rule values come from the past alone, but which queries are chosen depends on
    all of them, as it does for the authors.
    """
    u = sample_size(factor, q.shape[2])
    measure = _measure(q, k, mask, causal, _sample_keys(q, mask, u, random))
    lazy = torch.ones_like(measure, dtype=torch.bool).scatter_(2, measure.topk(u).indices, False)
    return full_attention(q.masked_fill(lazy[..., None], 0), k, v, mask, causal)


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
    """M of every query, times √d; the least there is for one in the padding or that saw no key."""
    index = sample[:, None, :, None].expand(-1, k.shape[1], -1, k.shape[-1])
    scores = q @ k.gather(2, index).transpose(-1, -2)  # [B, heads, S, u]
    dtype = torch.promote_types(scores.dtype, torch.float32)
    least = torch.finfo(scores.dtype).min
    if causal:
        later = sample[:, None, None] > torch.arange(q.shape[2], device=q.device)[:, None]
        mean = scores.masked_fill(later, 0).sum(-1, dtype=dtype) / (~later).sum(-1).clamp(min=1)
        measure = scores.masked_fill(later, least).amax(-1) - mean
    else:
        measure = scores.amax(-1) - scores.mean(-1, dtype=dtype)
    # A key in the padding is sampled only where fewer than u nodes count, and all are chosen.
    return measure if mask is None else measure.masked_fill(~mask[:, None], least)


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
        width, heads, hidden_width, dropout: as in :class:`~fighter.models.seq2seq.EncoderBlock`.
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


class Informer(EncoderDecoder):
    """ProbSparse attention in encoder and decoder, half the steps after each encoder block.

    Which equations it follows, and where not, is said in :mod:`fighter.models.informer` and
    :mod:`fighter.models.seq2seq`. Distilling lies between blocks: with ``layers=1`` there is none.
    The decoder looks at itself sparsely and causally, at the encoder's output in full.

    Args:
        task: sizes.
        width, heads, dropout: of all blocks.
        layers, decoder_layers: number of blocks.
        hidden_width: inside the feed-forward networks; ``4 * width`` unless given.
        label: known steps that the decoder begins with; half the look-back unless given.
        factor: c in u = c · ln S, the number of queries that get full attention.
        distil: whether steps are halved between encoder blocks.
    """

    def __init__(
        self,
        task: Task,
        width: int = 128,
        heads: int = 8,
        layers: int = 2,
        decoder_layers: int = 1,
        dropout: float = 0.1,
        hidden_width: int | None = None,
        label: int | None = None,
        factor: float = 5.0,
        distil: bool = True,
    ):
        hidden = hidden_width or 4 * width
        encoder: list[nn.Module] = []
        for i in range(layers):
            if i and distil:
                encoder.append(Distil(width))
            encoder.append(
                InformerBlock(
                    width, heads=heads, hidden_width=hidden, dropout=dropout, factor=factor
                )
            )
        decoder = [
            DecoderBlock(
                width,
                heads=heads,
                hidden_width=hidden,
                dropout=dropout,
                attend=ProbSparse(factor),
            )
            for _ in range(decoder_layers)
        ]
        super().__init__(task, width, encoder, decoder, label)
