"""Reformer as a forecaster: hashed attention over the past and the steps to come.

Attention among the nodes that a random hash puts together, and layers that can be undone.

After Reformer (Kitaev, Kaiser and Levskaya, 2020): :func:`lsh_attention` is its hashed attention
with shared queries and keys, in several rounds and with the correction for what more than one
round finds; :class:`ReformerBlock` is its reversible layer.
"""

from collections.abc import Iterable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._typing import Bool, Float
from ..errors import FighterError
from ..hops import attention_hop, describe
from ..nn._checks import check_heads, check_nodes, join_heads, make_activation, project, split_heads
from .base import Core, Task

HIDDEN = -1e30  # the logit of a node that is not seen: exp() is exactly 0
ITSELF = -3e4  # that of a node for itself, for where nothing else counts; half precision has it too
COLUMNS = 64  # of a rotation: twice as many buckets at most, however long the sequence
STORE_UP_TO = 1024  # nodes: so few are attended to all at once, the graph stored


def lsh_attention(
    qk: Float[Tensor, "batch heads nodes query"],
    v: Float[Tensor, "batch heads nodes value"],
    rotations: Float[Tensor, "*heads rounds query columns"],
    *,
    bucket_size: int,
    mask: Bool[Tensor, "batch nodes"] | None = None,
) -> Float[Tensor, "batch heads nodes value"]:
    """oᵢ = Σⱼ softmax(qᵢ·kⱼ/√d) vⱼ over the j that hashing finds for i; k = q/|q|.

    .. code-block:: text

        h(q)   = argmax [qR ; -qR]            the bucket of q, R a random rotation
        Pᵢ⁽ʳ⁾  = { j : h(qⱼ) = h(qᵢ), j in the chunk of i or the one before }
                                              chunks of 2·bucket_size, sorted by bucket
        z⁽ʳ⁾   = logsumexp of qᵢ·kⱼ/√d - log Nᵢⱼ over Pᵢ⁽ʳ⁾,   o⁽ʳ⁾ their softmax, times v
        oᵢ     = Σᵣ exp(z⁽ʳ⁾ - z) o⁽ʳ⁾         z the logsumexp over the rounds r

    Nᵢⱼ is the number of rounds that find j for i, so that the rounds together are the softmax over
    the union of the Pᵢ⁽ʳ⁾. A node sees itself only where it sees nobody else.

    There are twice as many buckets as chunks, or as many as ``rotations`` has columns for. One
    chunk has one bucket, and the result is full attention. The chunk before the first is the last.
    Up to ``STORE_UP_TO`` nodes the softmax over the union is taken as it stands, over all pairs
    with those hidden that no round finds; sorting is for sequences of more.
    Nodes that ``mask`` hides, and zeros that fill the last chunk, have a bucket of their own.

    Args:
        qk: queries, and keys before they get length 1.
        v: values.
        rotations: R for each round, the same for all heads or one each.
        bucket_size: nodes in a bucket, on average.
        mask: True at the nodes that count.

    """
    nodes, chunk = qk.shape[2], 2 * bucket_size
    chunks = -(-nodes // chunk)
    if mask is not None:
        hidden = ~mask[:, None, :, None]
        qk, v = qk.masked_fill(hidden, 0), v.masked_fill(hidden, 0)
    missing = chunks * chunk - nodes
    bucket = _buckets(qk, rotations, chunks, mask, missing)  # [B, heads, rounds, S]
    if missing:
        qk, v = F.pad(qk, (0, 0, 0, missing)), F.pad(v, (0, 0, 0, missing))
    if nodes <= STORE_UP_TO:
        width = qk.shape[-1]
        k = F.rms_norm(qk, (width,), eps=1e-12).to(qk.dtype)  # q/|q| · √d
        pairs = _pairs(bucket, chunks, qk.dtype)
        # Which pairs count is stored as it is, so the graph may be too. (Fused attention with this
        # mask made NaN of a training on an H200; why was not found.)
        hop = attention_hop(qk, k, width=v.shape[-1], mask=pairs, scale=1 / width, backend="stored")
        return hop(v)[:, :, :nodes]
    order = bucket.argsort(dim=-1, stable=True)
    place = order.argsort(-1)

    def sort(x: Tensor) -> Tensor:
        """``[B, heads, 1|rounds, S, w]`` to ``[B, heads, rounds, chunks, chunk, w]``."""
        return torch.take_along_dim(x, order[..., None], 3).unflatten(3, (chunks, chunk))

    q = sort(qk[:, :, None])
    k = F.normalize(q, dim=-1, eps=1e-6)  # a query of zeros has a gradient too
    logits = q.shape[-1] ** -0.5 * (q @ _seen(k).transpose(-1, -2))
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    at, bucket = place // chunk, bucket.long()
    here, next_ = bucket * chunks + at, bucket * chunks + (at + 1) % chunks
    found = torch.zeros_like(logits)  # N
    for r in range(bucket.shape[2]):
        mine, theirs = (sort(x[:, :, r : r + 1, :, None])[..., 0] for x in (here, next_))
        found += _meet(mine, mine) | _meet(mine, theirs)
    logits = logits - found.clamp(min=1).log()
    own, position = sort(bucket[..., None])[..., 0], order.unflatten(3, (chunks, chunk))
    logits = logits.masked_fill(~_meet(own, own), HIDDEN)
    logits = logits.masked_fill(_meet(position, position), ITSELF)

    z = logits.logsumexp(-1, keepdim=True)
    o = (logits - z).exp().to(v.dtype) @ _seen(sort(v[:, :, None]))
    o, z = (torch.take_along_dim(x.flatten(3, 4), place[..., None], 3) for x in (o, z))
    return (z.softmax(2) * o).sum(2)[:, :, :nodes].to(v.dtype)


def _seen(x: Tensor) -> Tensor:
    """A chunk and the one before: of ``[B, heads, rounds, chunks, chunk, …]`` the fifth, twice."""
    return torch.cat([x, x.roll(1, 3)], 4) if x.shape[3] > 1 else x


def _meet(x: Tensor, other: Tensor) -> Tensor:
    """Where xᵢ is the other's j, for each node i of a chunk and each j that it may see."""
    return x[..., None] == _seen(other)[..., None, :]


@torch.no_grad()
def _pairs(bucket: Tensor, chunks: int, dtype: torch.dtype) -> Tensor:
    """What is added to the logits of all pairs, ``[B, heads, S, S]``: 0 where any round finds one.

    A pair of two buckets is written to the diagonal, which gets its own value in the end.
    """
    nodes = bucket.shape[-1]
    own, order = (x.unflatten(-1, (chunks, -1)) for x in bucket.sort(stable=True))
    i, j = order[..., None], _seen(order)[..., None, :]
    found = i * nodes + torch.where(_meet(own, own), j, i)
    pairs = torch.full((*bucket.shape[:2], nodes**2), -torch.inf, dtype=dtype, device=bucket.device)
    pairs = pairs.scatter_(2, found.flatten(2), 0).unflatten(2, (nodes, nodes))
    pairs.diagonal(dim1=2, dim2=3).fill_(ITSELF)
    return pairs


@torch.no_grad()
def _buckets(
    qk: Tensor, rotations: Tensor, chunks: int, mask: Tensor | None, missing: int
) -> Tensor:
    """The bucket of each node in each round ``[B, heads, rounds, S + missing]``; one chunk has one.

    The last of all is for the nodes that do not count.
    """
    columns = min(chunks, rotations.shape[-1])
    flat = rotations[..., :columns].transpose(-1, -2).flatten(-3, -2)  # [heads, rounds·columns, d]
    with torch.autocast(qk.device.type, enabled=False):  # a hash of few digits is another hash
        turned = flat @ qk.to(flat.dtype).mT
    turned = turned.unflatten(2, (-1, columns))  # [B, heads, rounds, columns, S]
    (most, first), (least, second) = turned.max(3), turned.min(3)
    bucket = torch.where(most >= -least, first, second + columns)  # argmax [qR ; -qR]
    bucket = torch.zeros_like(bucket) if chunks == 1 else bucket
    if mask is not None:
        bucket = bucket.masked_fill(~mask[:, None, None], 2 * columns)
    return F.pad(bucket, (0, missing), value=2 * columns).to(torch.int16)  # quicker to sort


class LSHAttention(nn.Module):
    """Heads of :func:`lsh_attention` between projections.

    In training the rotations are drawn anew at every call; in evaluation they are always the same,
    so that a forecast can be repeated.
    """

    rotations: Tensor

    def __init__(self, width: int, heads: int, bucket_size: int, rounds: int):
        super().__init__()
        check_heads(width, heads)
        if bucket_size < 1 or rounds < 1:
            raise FighterError(
                f"bucket_size={bucket_size}, rounds={rounds}: both need to be at least 1"
            )
        self.heads, self.bucket_size = heads, bucket_size
        self.qk = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width)
        draw = torch.Generator().manual_seed(0)  # not from the seed of the weights: never saved
        fixed = torch.randn(heads, rounds, width // heads, COLUMNS, generator=draw)
        self.register_buffer("rotations", fixed, persistent=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """``[batch, nodes, width]`` to the same."""
        qk, v = (split_heads(part, self.heads) for part in project(x, self.qk, self.value))
        rotations = torch.randn_like(self.rotations) if self.training else self.rotations
        o = lsh_attention(qk, v, rotations, bucket_size=self.bucket_size, mask=mask)
        return self.out(join_heads(o))


class ReformerBlock(nn.Module):
    """Y₁ = X₁ + attention(norm(X₂)), Y₂ = X₂ + ffn(norm(Y₁)), which ``inverse`` undoes.

    By itself a block starts from X₁ = X₂ = X and ends with the mean of Y₁ and Y₂;
    :class:`ReformerEncoder` carries the pair from block to block.

    The paper forgets the activations and gets them back from the output when gradients are asked
    for. Here torch keeps them: values and gradients are those of the reversible layer, memory is
    not saved. (To get them back, dropout and the rotations of each layer would have to be drawn
    again, the very same ones.)

    Example:
        >>> import torch
        >>> from fighter.models.reformer import ReformerBlock
        >>> block = ReformerBlock(64, heads=4, hidden_width=128, dropout=0.1)
        >>> block(torch.randn(2, 96, 64)).shape
        torch.Size([2, 96, 64])

    Args:
        width: width of a node.
        heads: number of attention heads.
        hidden_width: width inside the feed-forward network.
        dropout: after attention and after the feed-forward network.
        bucket_size: nodes in a bucket, on average.
        rounds: how often nodes are hashed; more find more of the nodes that matter.
        activation: as in :class:`~fighter.nn.FighterLayer`.

    """

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        hidden_width: int,
        dropout: float,
        bucket_size: int = 16,
        rounds: int = 4,
        activation: str | nn.Module = "gelu",
    ):
        super().__init__()
        self.width, self.heads = width, heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = LSHAttention(width, heads, bucket_size, rounds)
        self.ffn1 = nn.Linear(width, hidden_width)
        self.ffn2 = nn.Linear(hidden_width, width)
        self.activation = make_activation(activation)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """``[batch, nodes, width]`` to the same; ``mask`` is key padding ``[batch, nodes]``."""
        x = check_padding(x, self.width, self.heads, mask)
        y1, y2 = self.pair(x, x, mask)
        return (y1 + y2) / 2

    def pair(self, x1: Tensor, x2: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(X₁, X₂) to (Y₁, Y₂)."""
        y1 = x1 + self._attend(x2, mask)
        return y1, x2 + self._feed(y1)

    def inverse(self, y1: Tensor, y2: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(Y₁, Y₂) to (X₁, X₂), in evaluation: in training, chance would have to repeat itself."""
        x2 = y2 - self._feed(y1)
        return y1 - self._attend(x2, mask), x2

    def _attend(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.dropout(self.attention(self.norm1(x), mask))

    def _feed(self, x: Tensor) -> Tensor:
        return self.dropout(self.ffn2(self.activation(self.ffn1(self.norm2(x)))))


class ReformerEncoder(nn.Module):
    """``layers`` reversible blocks in a row on the pair (X, X), then the mean of the two."""

    def __init__(
        self,
        width: int,
        layers: int,
        *,
        heads: int,
        hidden_width: int,
        dropout: float,
        bucket_size: int = 16,
        rounds: int = 4,
    ):
        super().__init__()
        self.width, self.heads = width, heads
        self.layers = nn.ModuleList(
            ReformerBlock(
                width,
                heads=heads,
                hidden_width=hidden_width,
                dropout=dropout,
                bucket_size=bucket_size,
                rounds=rounds,
            )
            for _ in range(layers)
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """``[batch, nodes, width]`` to the same; ``mask`` is key padding ``[batch, nodes]``."""
        x1 = x2 = check_padding(x, self.width, self.heads, mask)
        for block in cast(Iterable[ReformerBlock], self.layers):
            x1, x2 = block.pair(x1, x2, mask)
        return (x1 + x2) / 2


def check_padding(x: Tensor, width: int, heads: int, mask: Tensor | None) -> Tensor:
    """As ``check_nodes``; which pairs may see each other is up to the hash, not to a mask."""
    if mask is not None and mask.ndim != 2:
        raise FighterError(f"mask is {describe(mask)}: needs key padding, a bool [batch, nodes]")
    return check_nodes(x, width, heads, mask, causal=False)


class Reformer(Core):
    """An encoder over look-back and horizon together, the horizon's values 0 on the way in.

    Hashed attention and reversible layers are those of Kitaev et al. (2020), see
    :class:`~fighter.nn.ReformerBlock`. Reformer was made for text, and has no forecast of its own:
    the encoder over placeholders, of which the last positions are read, is how the forecasting
    literature compares with it. Its two streams end in their mean, a norm and a linear map. The
    positions are learned and added; Reformer's factor into two axes, for sequences much longer.

    Args:
        task: sizes.
        width, heads, layers, dropout: of the encoder.
        hidden_width: inside the feed-forward network; ``4 * width`` unless given.
        bucket_size, rounds: of the hash.
    """

    series_specific = True
    alternative = 'model="fighter" with adjacency="cosine"'

    def __init__(
        self,
        task: Task,
        width: int = 128,
        heads: int = 8,
        layers: int = 1,
        dropout: float = 0.1,
        hidden_width: int | None = None,
        bucket_size: int = 4,
        rounds: int = 4,
    ):
        super().__init__()
        self.task = task
        self.embed = nn.Linear(task.series, width)
        self.position = nn.Parameter(0.02 * torch.randn(task.lookback + task.horizon, width))
        self.context = nn.Linear(task.context, width, bias=False) if task.context else None
        self.encoder = ReformerEncoder(
            width,
            layers,
            heads=heads,
            hidden_width=hidden_width or 4 * width,
            dropout=dropout,
            bucket_size=bucket_size,
            rounds=rounds,
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, task.series * task.outputs)

    def forward(self, past: Tensor, context: Tensor | None = None) -> Tensor:
        """``[batch, lookback, series]`` to ``[batch, horizon, series, outputs]``."""
        task = self.task
        x = self.embed(F.pad(past, (0, 0, 0, task.horizon))) + self.position  # [B, L + H, width]
        if self.context is not None and context is not None:
            x = x + self.context(context)[:, None]
        y = self.encoder(x)[:, task.lookback :]
        return self.head(self.norm(y)).unflatten(-1, (task.series, task.outputs))
