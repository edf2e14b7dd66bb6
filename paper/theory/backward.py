"""Backward identities: every closed-form gradient against autograd, the paper's beside it."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.func import grad, jacrev

from . import gradients, models, paper
from .models import ACTIVATIONS, GELU, LINEAR, RELU, Activation
from .oracles import (
    Gcn,
    Transformer,
    draw_gcn,
    draw_layer,
    draw_transformer,
    gcn_jacobian,
    layer_gradient,
    layer_jacobian,
    transformer_jacobian,
)
from .record import Draw, Identity, Pair, measure

# --- GCN -----------------------------------------------------------------------------------------

KAPPA_1, KAPPA_2 = 3, 2


def gcn_output_weights(draw: Draw) -> Identity:
    """∂f/∂W⁽²⁾ of the multi-hop GCN."""
    nets = list(_multi_hop_gcns(draw))
    truths = [gcn_jacobian(net, "w") for net in nets]
    corrected = [gradients.gcn_output_weights(*net) for net in nets]
    printed = [
        paper.appendix_gcn_output_weights(*net[:5], kappa_1=KAPPA_1, kappa_2=KAPPA_2)
        for net in nets
    ]
    return _measure(
        "GCN gradient, W⁽²⁾", "App. A.3: A^[κ] blkdiag(σ(·))", corrected, truths, printed
    )


def gcn_hidden_weights(draw: Draw) -> Identity:
    """∂f/∂W⁽¹⁾ of the multi-hop GCN."""
    nets = list(_multi_hop_gcns(draw))
    truths = [gcn_jacobian(net, "W_1") for net in nets]
    corrected = [gradients.gcn_hidden_weights(*net) for net in nets]
    printed = [
        paper.appendix_gcn_hidden_weights(*net[:5], kappa_1=KAPPA_1, kappa_2=KAPPA_2)
        for net in nets
    ]
    return _measure(
        "GCN gradient, W⁽¹⁾", "App. A.3, σ' read as a diagonal", corrected, truths, printed
    )


def gcn_single_hop(draw: Draw) -> Identity:
    """A¹ in layer one, A⁰ in layer two: Eq. 7 as Section 4.2 states it."""
    return _single_hop(draw, (0,), "GCN gradients, A¹ then A⁰", "Eq. 7")


def gcn_single_hop_twice(draw: Draw) -> Identity:
    """A¹ in both layers, where the appendix prints Eq. 7 again: an A is missing in front."""
    return _single_hop(
        draw, (1,), "GCN gradients, A¹ in both layers", "App. A.3 prints Eq. 7 again"
    )


def _single_hop(draw: Draw, powers_2: tuple[int, ...], name: str, says: str) -> Identity:
    nets = [draw_gcn(draw, sigma, (1,), powers_2) for sigma in ACTIVATIONS]
    truths = [gcn_jacobian(net, weights) for net in nets for weights in ("w", "W_1")]
    corrected: list[Tensor] = []
    printed: list[Tensor] = []
    for net in nets:
        A, X, W_1, w, sigma = net[:5]
        corrected += [gradients.gcn_output_weights(*net), gradients.gcn_hidden_weights(*net)]
        printed += [
            paper.eq7_output_weights(A, X, W_1, sigma),
            paper.eq7_hidden_weights(A, X, W_1, w, sigma),
        ]
    return _measure(name, says, corrected, truths, printed)


def relu_shortcut(draw: Draw) -> Identity:
    """Euler: the Jacobian J of σ(M W_(:,i)) satisfies J W_(:,i) = σ(M W_(:,i)) for ReLU.

    The paper drops W: diag(σ'(M W_(:,i))) M = σ(M).
    """
    net = draw_gcn(draw, RELU, tuple(range(KAPPA_1)), (0,))
    M = models.hop_features(net.A, net.X, net.powers_1)
    corrected: list[Pair] = []
    printed: list[Pair] = []
    for column in net.W_1.T:
        jacobian = jacrev(lambda value: torch.relu(M @ value))(column)
        corrected.append((jacobian @ column, torch.relu(M @ column)))
        printed.append((paper.appendix_relu_shortcut(M), jacobian))
    says = "App. A.3: σ' M = σ(M), weights dropped"
    return measure("ReLU: σ' M W⁽¹⁾ᵢ = σ(M W⁽¹⁾ᵢ)", says, corrected, printed)


def _multi_hop_gcns(draw: Draw) -> Iterator[Gcn]:
    for sigma in ACTIVATIONS:
        yield draw_gcn(draw, sigma, tuple(range(KAPPA_1)), tuple(range(KAPPA_2)))


# --- Transformer ---------------------------------------------------------------------------------


def transformer_output_weights(draw: Draw) -> Identity:
    """∂f/∂W⁽²⁾ of the two-layer Transformer (Eq. 6)."""
    nets = _transformers(draw)
    truths = [transformer_jacobian(net, "w") for net in nets]
    corrected = [gradients.transformer_output_weights(*net) for net in nets]
    printed = [paper.eq6_output_weights(*net) for net in nets]
    return _measure("Transformer gradient, W⁽²⁾", "Eq. 6", corrected, truths, printed)


def transformer_value_weights(draw: Draw) -> Identity:
    """∂f/∂W_V⁽¹˒¹⁾ of the two-layer Transformer (Eq. 6)."""
    nets = _transformers(draw)
    truths = [transformer_jacobian(net, "V") for net in nets]
    corrected = [gradients.transformer_value_weights(*net) for net in nets]
    printed = [paper.eq6_value_weights(*net) for net in nets]
    return _measure(
        "Transformer gradient, W_V", "Eq. 6, σ' read as a diagonal", corrected, truths, printed
    )


def transformer_query_softmax(draw: Draw) -> Identity:
    """∂f/∂W_Q: Eq. 8 takes the softmax of one rank-one term; its gate is read in place."""
    nets = _transformers(draw)
    truths = [transformer_jacobian(net, "W_Q") for net in nets]
    corrected = [gradients.transformer_query_weights(*net) for net in nets]
    printed = [paper.eq8_query_weights(*net) for net in nets]
    says = "Eq. 8: softmax of one rank-one term"
    return _measure("Transformer gradient, W_Q", says, corrected, truths, printed)


def transformer_query_gate(draw: Draw) -> Identity:
    """∂f/∂W_Q: Eq. 8 with the full softmax, σ'_j as one number in front of the row."""
    nets = _transformers(draw)
    truths = [transformer_jacobian(net, "W_Q") for net in nets]
    corrected = [gradients.transformer_query_weights(*net) for net in nets]
    printed = [
        paper.eq8_query_weights(*net, gate_in_place=False, full_softmax=True) for net in nets
    ]
    says = "Eq. 8: one gate σ'ⱼ in front of the row"
    return _measure("Transformer gradient, W_Q: place of σ'", says, corrected, truths, printed)


def transformer_key(draw: Draw) -> Identity:
    """∂f/∂W_K: Eq. 9 swaps the node with its sources; gate read in place."""
    nets = _transformers(draw)
    truths = [transformer_jacobian(net, "W_K") for net in nets]
    corrected = [gradients.transformer_key_weights(*net) for net in nets]
    printed = [paper.eq9_key_weights(*net) for net in nets]
    says = "Eq. 9: τ Xⱼ Cov(Qᵢ, g); is τ Qⱼᵢ Cov(X, g)"
    return _measure("Transformer gradient, W_K", says, corrected, truths, printed)


def covariance_reading(draw: Draw) -> Identity:
    """ω_ji = Cov_{s∼a_j}(K_si, g_js): the mean of the product minus the product of means."""
    pairs: list[Pair] = []
    for net in _transformers(draw):
        X, W_Q, W_K, V, w, sigma, scale = net
        Q, K = X @ W_Q, X @ W_K
        A = models.softmax_adjacency(Q, K, scale)
        g = gradients.usefulness(A, X, V, w, sigma)
        mean_g = (A * g).sum(-1, keepdim=True)
        omega = (A * g) @ K - mean_g * (A @ K)
        spread = (A * g) @ X - mean_g * (A @ X)
        to_Q = scale * X[:, :, None] * omega[:, None, :]
        to_K = scale * spread[:, :, None] * Q[:, None, :]
        pairs.append((to_Q, transformer_jacobian(net, "W_Q")))
        pairs.append((to_K, transformer_jacobian(net, "W_K")))
    return measure("W_Q and W_K gradients as covariances", "a scalar ωⱼ, left uninterpreted", pairs)


def _transformers(draw: Draw) -> list[Transformer]:
    return [draw_transformer(draw, sigma) for sigma in ACTIVATIONS]


# --- multi-hop layer -----------------------------------------------------------------------------


def layer_input(draw: Draw) -> Identity:
    """∂L/∂X of a Fighter layer."""
    return _layer_identity(draw, "X", "Fighter gradient, X")


def layer_query(draw: Draw) -> Identity:
    """∂L/∂W_Q of a Fighter layer."""
    return _layer_identity(draw, "W_Q", "Fighter gradient, W_Q")


def layer_key(draw: Draw) -> Identity:
    """∂L/∂W_K of a Fighter layer."""
    return _layer_identity(draw, "W_K", "Fighter gradient, W_K")


def layer_hop_weights(draw: Draw) -> Identity:
    """∂L/∂W_i of a Fighter layer."""
    return _layer_identity(draw, "W", "Fighter gradient, all Wᵢ")


def _layer_identity(draw: Draw, name: str, title: str) -> Identity:
    pairs: list[Pair] = []
    for kappa, sigma, causal in _layer_cases():
        at = draw_layer(draw, kappa, causal=causal)
        C = draw.features(draw.nodes, draw.hidden)
        G = C * sigma.slope(models.layer(*at))
        X, W_Q, W_K, W, scale, mask = at
        closed = gradients.layer_gradients(X, W_Q, W_K, W, G, scale, mask)
        pairs.append((getattr(closed, name), layer_gradient(at, sigma, C, name)))
    return measure(f"{title}, κ=2,3,5", "nothing for κ>2", pairs)


def layer_adjacency(draw: Draw) -> Identity:
    """∂L/∂A = Σ_i R_i B_{i+1}ᵀ = Σ_{i≥1} Σ_{m<i} (Aᵀ)ᵐ G W_iᵀ (A^{i−1−m} X)ᵀ, δ without S × S."""
    pairs: list[Pair] = []
    for kappa, _, causal in _layer_cases():
        X, W_Q, W_K, W, scale, mask = draw_layer(draw, kappa, causal=causal)
        G = draw.features(draw.nodes, draw.hidden)
        A = models.softmax_adjacency(X @ W_Q, X @ W_K, scale, mask)
        truth = grad(_edge_loss(X, W, G))(A)
        pairs.append((gradients.adjacency_gradient(A, X, W, G), truth))
        pairs.append((_double_sum(A, X, W, G), truth))
        pairs.append((gradients.softmax_shift(A, X, W, G), (A * truth).sum(-1)))
    return measure("Fighter gradient, A and its softmax shift", "nothing for κ>2", pairs)


def layer_per_node(draw: Draw) -> Identity:
    """Row j of ∂f/∂W_Q, ∂f/∂W_K, ∂f/∂W_i for f = σ(Y) w: Eqs. 8 and 9 for any κ."""
    pairs: list[Pair] = []
    for kappa, sigma, causal in _layer_cases():
        at = draw_layer(draw, kappa, causal=causal)
        w = draw.features(draw.hidden)
        X, W_Q, W_K, W, scale, mask = at
        closed = gradients.layer_jacobians(X, W_Q, W_K, W, w, sigma, scale, mask)
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
    """κ, σ and whether a causal mask is on."""
    yield from ((2, LINEAR, False), (3, RELU, False), (3, GELU, True), (5, RELU, True))


def _measure(
    name: str, says: str, corrected: list[Tensor], truths: list[Tensor], printed: list[Tensor]
) -> Identity:
    pair = zip(corrected, truths, strict=True), zip(printed, truths, strict=True)
    return measure(name, says, *pair)
