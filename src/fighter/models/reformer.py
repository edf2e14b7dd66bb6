"""Reformer (Kitaev et al., 2020): hashed attention and reversible layers.

Where this departs from the paper:

- Reformer was made for text and has no forecast of its own. As the forecasting literature does, the
  encoder runs over look-back and horizon together, with zeros for the values of the horizon, and
  the forecast is read from the last positions;
- the two streams end in their mean, a norm and a linear map;
- positions are learned and added; the paper's factor into two axes, for much longer sequences;
- the paper discards activations and recomputes them from the output in the backward pass. Here
  torch keeps them: values and gradients are those of the reversible layer, but no memory is saved.
  (To recompute them, the same dropout and rotations would have to be drawn again in each layer.)
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._typing import Bool, Float, Int
from ..errors import check_count
from ..hops import Hop, attention_hop
from ..nn._checks import Nodes, check_heads, check_padding, join_heads, make_activation, split_heads
from ..nn.further import further_hops
from ..nn.transformer import project
from .base import Context, Core, HopConfig, Outputs, Past, Task
from .embedding import add_context, context_map

HIDDEN = -1e30  # logit of a node that is not seen: exp() is exactly 0
ITSELF = -3e4  # logit of a node for itself, which counts only if it sees no other; fits float16
COLUMNS = 64  # columns of a rotation: twice as many buckets at most, however long the sequence
STORE_UP_TO = 1024  # largest number of nodes for which the graph is stored and not sorted

Queries = Float[Tensor, "batch heads nodes query"]
Rotations = Float[Tensor, "*heads rounds query columns"]
Values = Float[Tensor, "batch heads nodes value"]
Padding = Bool[Tensor, "batch nodes"] | None
Pairs = Float[Tensor, "batch heads all_nodes all_nodes"]
Buckets = Int[Tensor, "batch heads rounds all_nodes"]


def lsh_hop(qk: Queries, rotations: Rotations, *, bucket_size: int, mask: Padding = None) -> Hop:
    """Return v ↦ o = A v, oᵢ = Σⱼ softmax(qᵢ·kⱼ/√d) vⱼ over the j that hashing finds for i.

    Keys are k = q/|q|.

    .. code-block:: text

        h(q)   = argmax [qR ; -qR]            the bucket of q, R a random rotation
        Pᵢ⁽ʳ⁾  = { j : h(qⱼ) = h(qᵢ), j in the chunk of i or the one before }
                                              chunks of 2·bucket_size, sorted by bucket
        z⁽ʳ⁾   = logsumexp of qᵢ·kⱼ/√d - log Nᵢⱼ over Pᵢ⁽ʳ⁾,   o⁽ʳ⁾ their softmax, times v
        oᵢ     = Σᵣ exp(z⁽ʳ⁾ - z) o⁽ʳ⁾         z the logsumexp over the rounds r

    Nᵢⱼ is the number of rounds that find j for i, so that the rounds together are the softmax over
    the union of the Pᵢ⁽ʳ⁾. A node sees itself only where it sees nobody else.

    There are twice as many buckets as chunks, limited by the columns of ``rotations``. A single
    chunk has one bucket, and the result is full attention. The chunk before the first is the last.
    Up to ``STORE_UP_TO`` nodes the softmax is computed over all pairs, with those hidden that no
    round finds; longer sequences are sorted. Nodes that ``mask`` hides, and zeros that fill the
    last chunk, have a bucket of their own. ``rotations`` are R for each round, the same for all
    heads or one each; ``bucket_size`` is the average number of nodes in a bucket.
    """
    nodes, chunk = qk.shape[2], 2 * bucket_size
    chunks = -(-nodes // chunk)
    hidden = None if mask is None else ~mask[:, None, :, None]
    qk = qk if hidden is None else qk.masked_fill(hidden, 0)
    missing = chunks * chunk - nodes
    bucket = _buckets(qk, rotations, chunks, mask, missing)  # [B, heads, rounds, S]
    qk = F.pad(qk, (0, 0, 0, missing)) if missing else qk

    def fill(v: Values) -> Tensor:
        """Set hidden nodes to zero, and append zeros that fill the last chunk."""
        v = v if hidden is None else v.masked_fill(hidden, 0)
        return F.pad(v, (0, 0, 0, missing)) if missing else v

    if nodes <= STORE_UP_TO:
        width = qk.shape[-1]
        k = F.rms_norm(qk, (width,), eps=1e-12).to(qk.dtype)  # q/|q| · √d
        pairs = _pairs(bucket, chunks, qk.dtype)
        # The mask over pairs is stored anyway, so the graph may be too. (Fused attention with this
        # mask led to NaN in training on an H200, for an unknown reason.)
        stored = attention_hop(qk, k, width=width, mask=pairs, scale=1 / width, backend="stored")
        return lambda v: stored(fill(v))[:, :, :nodes]
    order = bucket.argsort(dim=-1, stable=True)
    place = order.argsort(-1)

    def sort(x: Tensor) -> Tensor:
        """Sort ``[B, heads, 1|rounds, S, w]`` into ``[B, heads, rounds, chunks, chunk, w]``."""
        return torch.take_along_dim(x, order[..., None], 3).unflatten(3, (chunks, chunk))

    q = sort(qk[:, :, None])
    k = F.normalize(q, dim=-1, eps=1e-6)  # so that a query of zeros has a gradient too
    logits = q.shape[-1] ** -0.5 * (q @ _seen(k).transpose(-1, -2))
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    at, bucket = place // chunk, bucket.long()
    here, next_ = bucket * chunks + at, bucket * chunks + (at + 1) % chunks
    rounds = torch.zeros_like(logits)  # N
    for r in range(bucket.shape[2]):
        mine, theirs = (sort(x[:, :, r : r + 1, :, None])[..., 0] for x in (here, next_))
        rounds += _meet(mine, mine) | _meet(mine, theirs)
    logits = logits - rounds.clamp(min=1).log()
    own, position = sort(bucket[..., None])[..., 0], order.unflatten(3, (chunks, chunk))
    logits = logits.masked_fill(~_meet(own, own), HIDDEN)
    logits = logits.masked_fill(_meet(position, position), ITSELF)

    z = logits.logsumexp(-1, keepdim=True)
    graph = (logits - z).exp()

    def unsort(x: Tensor) -> Tensor:
        return torch.take_along_dim(x.flatten(3, 4), place[..., None], 3)

    shares = unsort(z).softmax(2)

    def hop(v: Values) -> Values:
        o = unsort(graph.to(v.dtype) @ _seen(sort(fill(v)[:, :, None])))
        return (shares * o).sum(2)[:, :, :nodes].to(v.dtype)

    return hop


def _seen(x: Tensor) -> Tensor:
    """Append the chunk before to each chunk of ``[B, heads, rounds, chunks, chunk, …]``."""
    return torch.cat([x, x.roll(1, 3)], 4) if x.shape[3] > 1 else x


def _meet(x: Tensor, other: Tensor) -> Tensor:
    """Return whether xᵢ equals otherⱼ, for each node i of a chunk and each j that it may see."""
    return x[..., None] == _seen(other)[..., None, :]


@torch.no_grad()
def _pairs(bucket: Buckets, chunks: int, dtype: torch.dtype) -> Pairs:
    """Return what is added to the logits of all pairs: 0 where any round finds the pair."""
    nodes = bucket.shape[-1]
    own, order = (x.unflatten(-1, (chunks, -1)) for x in bucket.sort(stable=True))
    i, j = order[..., None], _seen(order)[..., None, :]
    place = i * nodes + torch.where(_meet(own, own), j, i)  # the diagonal is overwritten below
    pairs = torch.full((*bucket.shape[:2], nodes**2), -torch.inf, dtype=dtype, device=bucket.device)
    pairs = pairs.scatter_(2, place.flatten(2), 0).unflatten(2, (nodes, nodes))
    pairs.diagonal(dim1=2, dim2=3).fill_(ITSELF)
    return pairs


@torch.no_grad()
def _buckets(qk: Queries, rotations: Rotations, chunks: int, mask: Padding, more: int) -> Buckets:
    """Return the bucket of each node per round; hidden and ``more`` nodes get the last."""
    columns = min(chunks, rotations.shape[-1])
    flat = rotations[..., :columns].transpose(-1, -2).flatten(-3, -2)  # [heads, rounds·columns, d]
    with torch.autocast(qk.device.type, enabled=False):  # a hash in low precision differs
        turned = flat @ qk.to(flat.dtype).mT
    turned = turned.unflatten(2, (-1, columns))  # [B, heads, rounds, columns, S]
    (most, first), (least, second) = turned.max(3), turned.min(3)
    bucket = torch.where(most >= -least, first, second + columns)  # argmax [qR ; -qR]
    bucket = torch.zeros_like(bucket) if chunks == 1 else bucket
    if mask is not None:
        bucket = bucket.masked_fill(~mask[:, None, None], 2 * columns)
    return F.pad(bucket, (0, more), value=2 * columns).to(torch.int16)  # faster to sort


class LSHAttention(nn.Module):
    """Heads of :func:`lsh_hop` between projections, with new rotations while training.

    With κ above 2 there are further hops over the same graph.
    """

    rotations: Tensor

    def __init__(self, width: int, heads: int, bucket_size: int, rounds: int, kappa: int = 2):
        super().__init__()
        check_heads(width, heads)
        check_count("rounds", rounds)
        self.heads, self.bucket_size = heads, check_count("bucket_size", bucket_size)
        self.qk, self.value = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.out = nn.Linear(width, width)
        draw = torch.Generator().manual_seed(0)  # not the weights' seed: rotations are not saved
        fixed = torch.empty(heads, rounds, width // heads, COLUMNS).normal_(generator=draw)
        self.register_buffer("rotations", fixed, persistent=False)
        self.hops = further_hops(width, width, kappa, heads)

    def forward(self, x: Nodes, mask: Padding = None) -> Nodes:
        """Attend."""
        qk, v = (split_heads(part, self.heads) for part in project(x, self.qk, self.value))
        rotations = torch.randn_like(self.rotations) if self.training else self.rotations
        hop = lsh_hop(qk, rotations, bucket_size=self.bucket_size, mask=mask)
        return self.out(join_heads(hop(v) if self.hops is None else self.hops(hop, x, v)))


class ReformerBlock(nn.Module):
    """Y₁ = X₁ + attention(norm(X₂)), Y₂ = X₂ + ffn(norm(Y₁)), which ``inverse`` undoes.

    By itself a block starts from X₁ = X₂ = X and returns the mean of Y₁ and Y₂;
    :class:`ReformerEncoder` carries the pair from block to block. Nodes are hashed ``rounds`` times
    into buckets of ``bucket_size`` nodes on average; more rounds find more relevant pairs.
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
        kappa: int = 2,
    ):
        super().__init__()
        self.width = width
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = LSHAttention(width, heads, bucket_size, rounds, kappa)
        self.ffn1, self.ffn2 = nn.Linear(width, hidden_width), nn.Linear(hidden_width, width)
        self.activation = make_activation(activation)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Nodes:
        """Map ``[batch, nodes, width]`` to the same shape; ``mask`` is key padding."""
        x = check_padding(x, self.width, mask)
        y1, y2 = self.pair(x, x, mask)
        return (y1 + y2) / 2

    def pair(self, x1: Nodes, x2: Nodes, mask: Tensor | None = None) -> tuple[Nodes, Nodes]:
        """Map (X₁, X₂) to (Y₁, Y₂)."""
        y1 = x1 + self._attend(x2, mask)
        return y1, x2 + self._feed(y1)

    def inverse(self, y1: Nodes, y2: Nodes, mask: Tensor | None = None) -> tuple[Nodes, Nodes]:
        """Map (Y₁, Y₂) back to (X₁, X₂), in evaluation mode only: training is random."""
        x2 = y2 - self._feed(y1)
        return y1 - self._attend(x2, mask), x2

    def _attend(self, x: Nodes, mask: Tensor | None) -> Nodes:
        return self.dropout(self.attention(self.norm1(x), mask))

    def _feed(self, x: Nodes) -> Nodes:
        return self.dropout(self.ffn2(self.activation(self.ffn1(self.norm2(x)))))


class ReformerEncoder(nn.Module):
    """Reversible blocks in a row on the pair (X, X), then the mean of the two."""

    def __init__(self, width: int, layers: int, **options: Any):
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList(ReformerBlock(width, **options) for _ in range(layers))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Nodes:
        """Map ``[batch, nodes, width]`` to the same shape; ``mask`` is key padding."""
        x1 = x2 = check_padding(x, self.width, mask)
        for block in cast(Iterable[ReformerBlock], self.layers):
            x1, x2 = block.pair(x1, x2, mask)
        return (x1 + x2) / 2


class ReformerNet(Core):
    """A Reformer encoder over look-back and horizon together."""

    series_specific = True

    def __init__(self, task: Task, config: "Reformer"):
        super().__init__(task, config)
        width, hashing = config.width, {"bucket_size": config.bucket_size, "rounds": config.rounds}
        self.embed = nn.Linear(task.series, width)
        self.position = nn.Parameter(0.02 * torch.randn(task.lookback + task.horizon, width))
        self.context = context_map(task.context, width)
        self.encoder = ReformerEncoder(width, config.layers, **config.block, **hashing)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, task.series * task.outputs)

    def forward(self, past: Past, context: Context | None = None) -> Outputs:
        """Forecast."""
        task = self.task
        x = self.embed(F.pad(past, (0, 0, 0, task.horizon))) + self.position  # [B, L + H, width]
        y = self.encoder(add_context(x, self.context, context))[:, task.lookback :]
        return self.head(self.norm(y)).unflatten(-1, (task.series, task.outputs))


@dataclass(frozen=True, kw_only=True)
class Reformer(HopConfig):
    """Reformer (Kitaev et al., 2020): hashed attention and reversible layers.

    Args:
        layers: number of blocks (default: 1).
        bucket_size: average number of nodes in a bucket of the hash (default: 4).
        rounds: how often nodes are hashed; more rounds find more relevant pairs (default: 4).
    """

    name, column, network = "reformer", "Reformer", ReformerNet

    layers: int = 1
    bucket_size: int = 4
    rounds: int = 4
