"""Backward identities: every closed-form gradient against autograd, the paper's beside it."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor
from torch.func import grad, jacrev

from . import gradients, models, printed
from .models import ACTIVATIONS, GELU, LINEAR, RELU, Activation, Gcn, Transformer
from .oracles import (
    draw_gcn,
    draw_layer,
    draw_transformer,
    gcn_jacobian,
    layer_gradient,
    layer_jacobian,
    transformer_jacobian,
)
from .record import Draw, Identity, Pair, measure

Net = TypeVar("Net", Gcn, Transformer)

# --- GCN -----------------------------------------------------------------------------------------

HOPS_1, HOPS_2 = (0, 1, 2), (0, 1)  # κ₁ = 3, κ₂ = 2


def gcn_output_weights(draw: Draw) -> Identity:
    """Check ∂f/∂W⁽²⁾ of the multi-hop GCN."""
    return _compare(
        "GCN gradient, W⁽²⁾",
        "App. A.3: A^[κ] blkdiag(σ(·))",
        [(net, gcn_jacobian(net, "w")) for net in _gcns(draw, HOPS_1, HOPS_2)],
        gradients.gcn_output_weights,
        printed.appendix_gcn_output_weights,
    )


def gcn_hidden_weights(draw: Draw) -> Identity:
    """Check ∂f/∂W⁽¹⁾ of the multi-hop GCN."""
    return _compare(
        "GCN gradient, W⁽¹⁾",
        "App. A.3, σ' read as a diagonal",
        [(net, gcn_jacobian(net, "W_1")) for net in _gcns(draw, HOPS_1, HOPS_2)],
        gradients.gcn_hidden_weights,
        printed.appendix_gcn_hidden_weights,
    )


def gcn_single_hop(draw: Draw) -> Identity:
    """Check both gradients for A¹ in layer one and A⁰ in layer two: Eq. 7, as in Section 4.2."""
    return _single_hop(draw, 0, "GCN gradients, A¹ then A⁰", "Eq. 7")


def gcn_single_hop_twice(draw: Draw) -> Identity:
    """Check both for A¹ in both layers: the appendix prints Eq. 7 again, without the A in front."""
    says = "App. A.3 prints Eq. 7 again"
    return _single_hop(draw, 1, "GCN gradients, A¹ in both layers", says)


def _single_hop(draw: Draw, power_2: int, name: str, says: str) -> Identity:
    forms = (
        ("w", gradients.gcn_output_weights, printed.eq7_output_weights),
        ("W_1", gradients.gcn_hidden_weights, printed.eq7_hidden_weights),
    )
    corrected: list[Pair] = []
    as_printed: list[Pair] = []
    for net in _gcns(draw, (1,), (power_2,)):
        for weights, exact, eq7 in forms:
            truth = gcn_jacobian(net, weights)
            corrected.append((exact(net), truth))
            as_printed.append((eq7(net), truth))
    return measure(name, says, corrected, as_printed)


def relu_shortcut(draw: Draw) -> Identity:
    """Check Euler's relation: the Jacobian J of σ(M W_(:,i)) has J W_(:,i) = σ(M W_(:,i)) for ReLU.

    The paper drops W: diag(σ'(M W_(:,i))) M = σ(M).
    """
    net = draw_gcn(draw, RELU, HOPS_1, (0,))
    M = models.hop_features(net.A, net.X, net.powers_1)
    corrected: list[Pair] = []
    as_printed: list[Pair] = []
    for column in net.W_1.T:
        jacobian = jacrev(lambda value: torch.relu(M @ value))(column)
        corrected.append((jacobian @ column, torch.relu(M @ column)))
        as_printed.append((printed.appendix_relu_shortcut(M), jacobian))
    says = "App. A.3: σ' M = σ(M), weights dropped"
    return measure("ReLU: σ' M W⁽¹⁾ᵢ = σ(M W⁽¹⁾ᵢ)", says, corrected, as_printed)


def _gcns(draw: Draw, powers_1: tuple[int, ...], powers_2: tuple[int, ...]) -> list[Gcn]:
    return [draw_gcn(draw, sigma, powers_1, powers_2) for sigma in ACTIVATIONS]


# --- Transformer ---------------------------------------------------------------------------------


def transformer_output_weights(draw: Draw) -> Identity:
    """Check ∂f/∂W⁽²⁾ of the two-layer Transformer (Eq. 6)."""
    return _compare(
        "Transformer gradient, W⁽²⁾",
        "Eq. 6",
        [(net, transformer_jacobian(net, "w")) for net in _transformers(draw)],
        gradients.transformer_output_weights,
        printed.eq6_output_weights,
    )


def transformer_value_weights(draw: Draw) -> Identity:
    """Check ∂f/∂W_V⁽¹˒¹⁾ of the two-layer Transformer (Eq. 6)."""
    return _compare(
        "Transformer gradient, W_V",
        "Eq. 6, σ' read as a diagonal",
        [(net, transformer_jacobian(net, "V")) for net in _transformers(draw)],
        gradients.transformer_value_weights,
        printed.eq6_value_weights,
    )


def transformer_query_softmax(draw: Draw) -> Identity:
    """Check ∂f/∂W_Q: Eq. 8 takes the softmax of one rank-one term; its gate is read in place."""
    return _compare(
        "Transformer gradient, W_Q",
        "Eq. 8: softmax of one rank-one term",
        [(net, transformer_jacobian(net, "W_Q")) for net in _transformers(draw)],
        gradients.transformer_query_weights,
        printed.eq8_query_weights,
    )


def transformer_query_gate(draw: Draw) -> Identity:
    """Check ∂f/∂W_Q: Eq. 8 with the full softmax, σ'_j as one number in front of the row."""
    return _compare(
        "Transformer gradient, W_Q: place of σ'",
        "Eq. 8: one gate σ'ⱼ in front of the row",
        [(net, transformer_jacobian(net, "W_Q")) for net in _transformers(draw)],
        gradients.transformer_query_weights,
        lambda net: printed.eq8_query_weights(net, gate_in_place=False, full_softmax=True),
    )


def transformer_key(draw: Draw) -> Identity:
    """Check ∂f/∂W_K: Eq. 9 swaps the node with its sources; its gate is read in place."""
    return _compare(
        "Transformer gradient, W_K",
        "Eq. 9: τ Xⱼ Cov(Qᵢ, g); is τ Qⱼᵢ Cov(X, g)",
        [(net, transformer_jacobian(net, "W_K")) for net in _transformers(draw)],
        gradients.transformer_key_weights,
        printed.eq9_key_weights,
    )


def covariance_reading(draw: Draw) -> Identity:
    """Check that both are covariances: the mean of the product minus the product of the means.

    ω_ji = Cov_{s∼a_j}(K_si, g_js) for W_Q, and Cov_{s∼a_j}(X_s, g_js) for W_K.
    """
    pairs: list[Pair] = []
    for net in _transformers(draw):
        X, Q, K, A = net.X, net.X @ net.W_Q, net.X @ net.W_K, net.attention
        g = gradients.usefulness(net)
        mean_g = (A * g).sum(-1, keepdim=True)
        omega = (A * g) @ K - mean_g * (A @ K)
        spread = (A * g) @ X - mean_g * (A @ X)
        to_Q = net.scale * X[:, :, None] * omega[:, None, :]
        to_K = net.scale * spread[:, :, None] * Q[:, None, :]
        pairs.append((to_Q, transformer_jacobian(net, "W_Q")))
        pairs.append((to_K, transformer_jacobian(net, "W_K")))
    return measure("W_Q and W_K gradients as covariances", "a scalar ωⱼ, left uninterpreted", pairs)


def _transformers(draw: Draw) -> list[Transformer]:
    return [draw_transformer(draw, sigma) for sigma in ACTIVATIONS]


# --- multi-hop layer -----------------------------------------------------------------------------


def layer_input(draw: Draw) -> Identity:
    """Check ∂L/∂X of a Fighter layer."""
    return _layer_identity(draw, "X", "Fighter gradient, X")


def layer_query(draw: Draw) -> Identity:
    """Check ∂L/∂W_Q of a Fighter layer."""
    return _layer_identity(draw, "W_Q", "Fighter gradient, W_Q")


def layer_key(draw: Draw) -> Identity:
    """Check ∂L/∂W_K of a Fighter layer."""
    return _layer_identity(draw, "W_K", "Fighter gradient, W_K")


def layer_hop_weights(draw: Draw) -> Identity:
    """Check ∂L/∂W_i of a Fighter layer."""
    return _layer_identity(draw, "W", "Fighter gradient, all Wᵢ")


def _layer_identity(draw: Draw, name: str, title: str) -> Identity:
    pairs: list[Pair] = []
    for kappa, sigma, causal in _layer_cases():
        at = draw_layer(draw, kappa, causal=causal)
        C = draw.features(draw.nodes, draw.hidden)
        closed = gradients.layer_gradients(at, C * sigma.slope(models.layer(at)))
        pairs.append((getattr(closed, name), layer_gradient(at, sigma, C, name)))
    return measure(f"{title}, κ=2,3,5", "nothing for κ>2", pairs)


def layer_adjacency(draw: Draw) -> Identity:
    """Check ∂L/∂A of a Fighter layer, by Horner's scheme and as a double sum, and δ without S × S.

    ∂L/∂A = Σ_i R_i B_{i+1}ᵀ = Σ_{i≥1} Σ_{m<i} (Aᵀ)ᵐ G W_iᵀ (A^{i−1−m} X)ᵀ.
    """
    pairs: list[Pair] = []
    for kappa, _, causal in _layer_cases():
        at = draw_layer(draw, kappa, causal=causal)
        A, X, W = at.attention, at.X, at.W
        G = draw.features(draw.nodes, draw.hidden)
        truth = grad(_edge_loss(X, W, G))(A)
        pairs.append((gradients.adjacency_gradient(A, X, W, G), truth))
        pairs.append((_double_sum(A, X, W, G), truth))
        pairs.append((gradients.softmax_shift(A, X, W, G), (A * truth).sum(-1)))
    return measure("Fighter gradient, A and its softmax shift", "nothing for κ>2", pairs)


def layer_per_node(draw: Draw) -> Identity:
    """Check row j of ∂f/∂W_Q, ∂f/∂W_K, ∂f/∂W_i for f = σ(Y) w: Eqs. 8 and 9 for any κ."""
    pairs: list[Pair] = []
    for kappa, sigma, causal in _layer_cases():
        at = draw_layer(draw, kappa, causal=causal)
        w = draw.features(draw.hidden)
        closed = gradients.layer_jacobians(at, w, sigma)
        pairs += [
            (value, layer_jacobian(at, sigma, w, name)) for name, value in closed._asdict().items()
        ]
    return measure("Fighter gradient, per node: W_Q, W_K, Wᵢ", "as for one hop (Eqs. 8, 9)", pairs)


def _edge_loss(X: Tensor, W: Tensor, G: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda A: (G * models.multi_hop(A, X, W)).sum()


def _double_sum(A: Tensor, X: Tensor, W: Tensor, G: Tensor) -> Tensor:
    powers = [torch.linalg.matrix_power(A, i) for i in range(len(W))]
    total = torch.zeros_like(A)
    for i in range(1, len(W)):
        for m in range(i):
            total = total + powers[m].T @ G @ W[i].T @ (powers[i - 1 - m] @ X).T
    return total


def _layer_cases() -> Iterator[tuple[int, Activation, bool]]:
    """Yield κ, σ and whether there is a causal mask."""
    yield from ((2, LINEAR, False), (3, RELU, False), (3, GELU, True), (5, RELU, True))


def _compare(
    name: str,
    says: str,
    cases: Sequence[tuple[Net, Tensor]],
    exact: Callable[[Net], Tensor],
    as_printed: Callable[[Net], Tensor],
) -> Identity:
    """Measure two closed forms of a gradient on models whose gradient autograd has given."""
    return measure(
        name,
        says,
        [(exact(net), truth) for net, truth in cases],
        [(as_printed(net), truth) for net, truth in cases],
    )
