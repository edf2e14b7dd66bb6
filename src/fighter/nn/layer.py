"""The Fighter layer, Y = σ(Σᵢ AⁱXWᵢ)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .._typing import Float
from ..errors import FighterError, check_count
from ..hops import Backend, Hop, check_backend, check_powers, horner
from ._checks import (
    Graph,
    Heads,
    Nodes,
    check_heads,
    check_nodes,
    join_heads,
    make_activation,
    split_heads,
)
from .adjacency import Adjacency, Sizes, make_adjacency
from .members import check_members, layer_norm, linear


class FighterLayer(nn.Module):
    """One multi-hop graph convolution on the graph that the layer draws.

    .. code-block:: text

        T = [norm](X)                                 X: [batch, nodes, width]
        U = concat over heads( Σᵢ Aⁱ T Wᵢ ) [O] + b    A from T, one graph per head
        Y = [X +] σ(U) [W₂]                           parts in brackets are optional

    With one head and no options it is the paper's layer. ``kappa=k`` means the powers 0 … k-1, so
    κ=1 is a perceptron on each node by itself (and has no graph), κ=2 is attention plus a self
    term, and κ=3 is the first with a second hop.

    Example:
        >>> import torch
        >>> from fighter.nn import FighterLayer
        >>> layer = FighterLayer(64, kappa=3, heads=4, norm=True, residual=True)
        >>> x = torch.randn(2, 96, 64)
        >>> layer(x).shape, layer.graph(x).shape
        (torch.Size([2, 96, 64]), torch.Size([2, 4, 96, 96]))

    Args:
        width: width of an input node.
        out_width: width of an output node (default: ``width``).
        kappa: number of blocks κ, the powers 0 … κ-1 of A (default: 3).
        powers: powers of A in rising order, instead of ``kappa``; ``(1,)`` is plain attention.
        heads: graphs side by side; each writes ``out_width / heads`` columns (default: 1).
        adjacency: ``"dynamic"`` (the default), ``"cosine"`` (normalised queries and keys),
            ``"static"``, ``"lazy"`` (static, and half of every node stays where it is),
            ``"mixed"``, or any :class:`~fighter.nn.Adjacency`.
        nodes: number of nodes, needed by an adjacency that is learned for a fixed set of nodes.
        norm: apply LayerNorm to the input (default: False).
        residual: add the input to the output; needs ``out_width == width`` (default: False).
        mix_heads: use the projection O, so that every output sees every head (default: False).
        value_width: width of all heads together before O (default: ``out_width``).
        project: use the projection W₂ after σ (default: False). With a residual it is not
            redundant: without it a ReLU layer can only increase its input.
        activation: σ by name (relu, gelu, silu, identity) or an elementwise module (default: gelu).
        dropout: dropout of the output, before the residual (default: 0). There is none on A, which
            stays row-stochastic.
        bias: use b and a bias of the queries (default: True). More would be redundant: A1 = 1.
        members: layers side by side in this one (default: 1). Each has its share of the columns and
            of the heads and does not see the others.
        backend: see :func:`fighter.multi_hop`.
    """

    def __init__(
        self,
        width: int,
        out_width: int | None = None,
        *,
        kappa: int = 3,
        powers: Sequence[int] | None = None,
        heads: int = 1,
        adjacency: str | Adjacency = "dynamic",
        nodes: int | None = None,
        norm: bool = False,
        residual: bool = False,
        mix_heads: bool = False,
        value_width: int | None = None,
        project: bool = False,
        activation: str | nn.Module = "gelu",
        dropout: float = 0.0,
        bias: bool = True,
        members: int = 1,
        backend: Backend = "auto",
    ):
        super().__init__()
        out_width = width if out_width is None else out_width
        check_backend(backend)
        value_width = out_width if value_width is None else value_width
        check_heads(value_width, heads, "out_width" if value_width == out_width else "value_width")
        if value_width != out_width and not mix_heads:
            rule = "only a layer that mixes heads may do that"
            reason = f"differs from out_width {out_width}: {rule}"
            raise FighterError(reason, argument="value_width", value=value_width)
        if residual and out_width != width:
            reason = f"a residual needs the input width {width}"
            raise FighterError(reason, argument="out_width", value=out_width)
        check_members(members, width=width, out_width=out_width, heads=heads)
        self.width, self.heads, self.head_width = width, heads, value_width // heads
        self.members, self.residual = members, residual
        self.backend: Backend = backend
        self.powers = check_powers(range(check_count("kappa", kappa)) if powers is None else powers)
        self.adjacency: Adjacency | None = None
        if self.powers != (0,):
            sizes = Sizes(width, heads, nodes, value_width, members)
            made = isinstance(adjacency, Adjacency)
            self.adjacency = adjacency if made else make_adjacency(adjacency, sizes)
            if self.adjacency.heads != heads:
                reason = f"the adjacency has {self.adjacency.heads} heads: needs the same number"
                raise FighterError(reason, argument="heads", value=heads)
        self.norm = layer_norm(width, members) if norm else nn.Identity()
        columns = len(self.powers) * value_width
        self.values = linear(width, columns, members, bias=False)  # [W₀ | W₁ | …] of each member
        self.mix = nn.Identity()
        if mix_heads:
            self.mix = linear(value_width, out_width, members, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_width)) if bias else None
        self.activation = make_activation(activation)
        self.project = linear(out_width, out_width, members) if project else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None, causal: bool = False) -> Nodes:
        """Map to ``[batch, nodes, out_width]``; masks are those of :func:`fighter.multi_hop`."""
        x = check_nodes(x, self.width, self.heads, mask, causal)
        t = self.norm(x)
        u = self.mix(join_heads(horner(self._hop(t, mask, causal), self.blocks(t), self.powers)))
        u = u if self.bias is None else u + self.bias
        y = self.dropout(self.project(self.activation(u)))
        return x + y if self.residual else y

    def blocks(self, t: Nodes) -> list[Heads]:
        """Return T Wᵢ for each power."""
        values = self.values(t).unflatten(-1, (self.members, len(self.powers), -1))
        blocks = list(values.unbind(-2))
        # Only the last block is kept for backward; as a view it would keep all the others too.
        blocks[-1] = blocks[-1].clone()
        return [split_heads(block.flatten(-2), self.heads) for block in blocks]

    def weight(self, block: int) -> Float[Tensor, "width value_width"]:
        """Return Wᵢ of one block; with one member it is a view of the parameter."""
        weight = self.values.weight
        if self.members == 1:
            return weight.unflatten(0, (len(self.powers), -1))[block].T
        return torch.block_diag(*weight.unflatten(-1, (len(self.powers), -1))[..., block, :])

    @torch.no_grad()
    def graph(
        self, x: Tensor, *, power: int = 1, mask: Tensor | None = None, causal: bool = False
    ) -> Graph:
        """Return A^power as this layer draws it for ``x``; with κ=1 it has none, and A is I."""
        check_powers((power,))
        t = self.norm(check_nodes(x, self.width, self.heads, mask, causal))
        if self.adjacency is None or power == 0:
            eye = torch.eye(t.shape[1], dtype=t.dtype, device=t.device)
            return eye.expand(t.shape[0], self.heads, -1, -1)
        return torch.linalg.matrix_power(self.adjacency.graph(t, mask=mask, causal=causal), power)

    def _hop(self, t: Nodes, mask: Tensor | None, causal: bool) -> Hop:
        if self.adjacency is None:
            return lambda b: b  # never called: the only power is 0
        return self.adjacency.hop(
            t, width=self.head_width, mask=mask, causal=causal, backend=self.backend
        )

    def extra_repr(self) -> str:
        """Return powers and heads, for ``print(layer)``."""
        members = f", members={self.members}" if self.members > 1 else ""
        return f"powers={self.powers}, heads={self.heads}, residual={self.residual}{members}"
