"""The models the paper reasons about, written as it writes them: clear first, no batch, no heads.

Shapes are those of the paper: S nodes (time steps), features of width d, keys of width p, hidden
units h. A model of which gradients are taken is a tuple of its input and its weights, so that each
formula about it takes one argument. ``scale`` is the paper's d^{-1/2}, written τ in the formulas;
``mask`` is True where attention is allowed.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fighter._typing import Bool, Float


class Activation(NamedTuple):
    """σ and its derivative σ', both elementwise."""

    name: str
    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


def _gelu_slope(u: Tensor) -> Tensor:
    density = torch.exp(-u.square() / 2) / (2 * torch.pi) ** 0.5
    return torch.special.ndtr(u) + u * density


RELU = Activation("ReLU", torch.relu, lambda u: (u > 0).to(u.dtype))
GELU = Activation("GELU", torch.nn.functional.gelu, _gelu_slope)
LINEAR = Activation("identity", lambda u: u, torch.ones_like)
ACTIVATIONS = (RELU, GELU, LINEAR)


# --- graphs and hops -----------------------------------------------------------------------------


def softmax_adjacency(
    Q: Float[Tensor, "nodes key"],
    K: Float[Tensor, "nodes key"],
    scale: float,
    mask: Bool[Tensor, "nodes nodes"] | None = None,
) -> Float[Tensor, "nodes nodes"]:
    """Return the attention matrix A = smx(τ Q Kᵀ), a row-stochastic adjacency matrix."""
    logits = scale * Q @ K.T
    if mask is not None:
        logits = logits.masked_fill(~mask, float("-inf"))
    return logits.softmax(-1)


def causal_mask(nodes: int) -> Bool[Tensor, "nodes nodes"]:
    """Return the mask that is True on and below the diagonal: no node looks ahead."""
    return torch.ones(nodes, nodes, dtype=torch.bool).tril()


def hop_stack(A: Tensor, kappa: int) -> Float[Tensor, "nodes stacked"]:
    """Return A^[κ] = [I, A, …, A^{κ−1}], S × κS (below Eq. 1)."""
    return torch.cat([torch.linalg.matrix_power(A, i) for i in range(kappa)], dim=1)


def block_diagonal(X: Float[Tensor, "nodes width"], kappa: int) -> Float[Tensor, "rows columns"]:
    """Return blkdiag(X; κ), κS × κd."""
    return torch.block_diag(*[X] * kappa)


def hop_features(
    A: Float[Tensor, "nodes nodes"], X: Float[Tensor, "nodes width"], powers: Sequence[int]
) -> Float[Tensor, "nodes features"]:
    """Return Aⁱ X for every i in ``powers``, side by side.

    Powers 0…κ−1 give A^[κ] blkdiag(X; κ).
    """
    return torch.cat([torch.linalg.matrix_power(A, i) @ X for i in powers], dim=1)


def multi_hop(
    A: Float[Tensor, "nodes nodes"],
    X: Float[Tensor, "nodes width"],
    W: Float[Tensor, "kappa width out"],
) -> Float[Tensor, "nodes out"]:
    """Return Y = Σᵢ Aⁱ X Wᵢ, i = 0…κ−1, with the powers formed literally."""
    Y = X @ W[0]
    for i in range(1, len(W)):
        Y = Y + torch.linalg.matrix_power(A, i) @ X @ W[i]
    return Y


# --- models of which gradients are taken ---------------------------------------------------------


class Gcn(NamedTuple):
    """A multi-hop GCN of two layers on a given graph A, with one output per node.

    ``W_1`` has d rows for each power in ``powers_1``; ``w`` has h numbers for each in ``powers_2``.
    """

    A: Float[Tensor, "nodes nodes"]
    X: Float[Tensor, "nodes width"]
    W_1: Float[Tensor, "features hidden"]
    w: Float[Tensor, " outputs"]
    sigma: Activation
    powers_1: Sequence[int]
    powers_2: Sequence[int]


def gcn(net: Gcn) -> Float[Tensor, " nodes"]:
    """Return f = A^[κ₂] blkdiag(σ(A^[κ₁] blkdiag(X; κ₁) W⁽¹⁾); κ₂) w."""
    hidden = net.sigma.value(hop_features(net.A, net.X, net.powers_1) @ net.W_1)
    return hop_features(net.A, hidden, net.powers_2) @ net.w


class Transformer(NamedTuple):
    """A Transformer of two layers, with one output per node; V = W_V⁽¹˒¹⁾ (Eq. 5)."""

    X: Float[Tensor, "nodes width"]
    W_Q: Float[Tensor, "width key"]
    W_K: Float[Tensor, "width key"]
    V: Float[Tensor, "width hidden"]
    w: Float[Tensor, " hidden"]
    sigma: Activation
    scale: float

    @property
    def attention(self) -> Float[Tensor, "nodes nodes"]:
        """The graph A = smx(τ X W_Q (X W_K)ᵀ)."""
        return softmax_adjacency(self.X @ self.W_Q, self.X @ self.W_K, self.scale)


def transformer(net: Transformer) -> Float[Tensor, " nodes"]:
    """Return f = σ(A X V) w."""
    return net.sigma.value(net.attention @ net.X @ net.V) @ net.w


class Layer(NamedTuple):
    """One Fighter layer before σ, and its input (Eq. 10)."""

    X: Float[Tensor, "nodes width"]
    W_Q: Float[Tensor, "width key"]
    W_K: Float[Tensor, "width key"]
    W: Float[Tensor, "kappa width out"]
    scale: float
    mask: Bool[Tensor, "nodes nodes"] | None = None

    @property
    def attention(self) -> Float[Tensor, "nodes nodes"]:
        """The graph A = smx(τ X W_Q (X W_K)ᵀ)."""
        return softmax_adjacency(self.X @ self.W_Q, self.X @ self.W_K, self.scale, self.mask)


def layer(at: Layer) -> Float[Tensor, "nodes out"]:
    """Return Y = Σᵢ Aⁱ X Wᵢ."""
    return multi_hop(at.attention, at.X, at.W)


# --- stacks of layers ----------------------------------------------------------------------------


class EncoderLayer(NamedTuple):
    """The weights of one Transformer encoder layer (Eq. 3)."""

    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_1: Tensor
    b_1: Tensor
    W_2: Tensor
    b_2: Tensor


def encoder(
    X: Float[Tensor, "nodes width"],
    layers: Sequence[EncoderLayer],
    W_last: Tensor,
    sigma: Activation,
    scale: float,
) -> Float[Tensor, "nodes out"]:
    """Return the output of a Transformer encoder (Eq. 3).

    In each layer attention, then σ(X_Att W₁ + b₁) W₂ + b₂; last X W⁽ᴸ⁾.
    """
    for at in layers:
        attended = softmax_adjacency(X @ at.W_Q, X @ at.W_K, scale) @ (X @ at.W_V)
        X = sigma.value(attended @ at.W_1 + at.b_1) @ at.W_2 + at.b_2
    return X @ W_last


class FighterLayer(NamedTuple):
    """The weights of one Fighter layer; W holds κ blocks, the biases are at most these two."""

    W_Q: Tensor
    W_K: Tensor
    W: Tensor
    query_bias: Tensor
    bias: Tensor


def fighter(
    X: Float[Tensor, "nodes width"],
    layers: Sequence[FighterLayer],
    sigma: Activation,
    scale: float,
) -> Float[Tensor, "nodes out"]:
    """Return the output of a Fighter stack (Eq. 10).

    X⁽ˡ⁾ = σ(Σᵢ Aⁱ X⁽ˡ⁻¹⁾ Wᵢ + b), the last layer without σ.
    """
    for depth, at in enumerate(layers, start=1):
        A = softmax_adjacency(X @ at.W_Q + at.query_bias, X @ at.W_K, scale)
        Y = multi_hop(A, X, at.W) + at.bias
        X = Y if depth == len(layers) else sigma.value(Y)
    return X


def fighter_from_encoder(layers: Sequence[EncoderLayer], W_last: Tensor) -> list[FighterLayer]:
    """Convert a Transformer encoder into the Fighter stack that computes the same.

    W⁽ˡ⁾ = [0; P_l W_V W₁], W_Q ← P_l W_Q, W_K ← P_l W_K, where P₁ = I and P_{l+1} = W₂⁽ˡ⁾.

    Hidden layers get κ = 2, the last one κ = 1. What b₂ adds before the next layer becomes a query
    bias and an output bias there: as a key bias it would cancel in the softmax, and behind A it
    passes unchanged because the rows of A sum to one.
    """
    P = torch.eye(len(layers[0].W_Q), dtype=W_last.dtype, device=W_last.device)
    shift = W_last.new_zeros(len(P))
    converted: list[FighterLayer] = []
    for at in layers:
        fused = at.W_V @ at.W_1
        W = torch.stack([torch.zeros_like(P @ fused), P @ fused])
        bias = shift @ fused + at.b_1
        converted.append(FighterLayer(P @ at.W_Q, P @ at.W_K, W, shift @ at.W_Q, bias))
        P, shift = at.W_2, at.b_2
    unused = W_last.new_zeros(len(P), 1)
    last = FighterLayer(unused, unused, (P @ W_last)[None], unused[0], shift @ W_last)
    return [*converted, last]
