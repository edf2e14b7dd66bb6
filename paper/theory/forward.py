"""Forward identities: which models compute the same, before any gradient is taken."""

from math import comb

import torch
from torch import Tensor

from . import gradients, models, printed
from .models import ACTIVATIONS, Layer
from .record import Draw, Identity, Pair, measure

KAPPA = 3  # the paper's setting, and the first κ with a hop of hops


def reorganised_transformer(draw: Draw) -> Identity:
    """Check σ(A X W_V W₁) W₂ = σ(A X (W_V W₁)) W₂, layer by layer (Eq. 4)."""
    pairs: list[Pair] = []
    for sigma in ACTIVATIONS:
        X = draw.features(draw.nodes, draw.width)
        layers = draw.encoder_layers(3, biases=False)
        W_last = draw.weights(draw.hidden, draw.key)
        truth = models.encoder(X, layers, W_last, sigma, draw.scale)
        for at in layers:
            A = models.softmax_adjacency(X @ at.W_Q, X @ at.W_K, draw.scale)
            X = sigma.value(A @ X @ (at.W_V @ at.W_1)) @ at.W_2
        pairs.append((X @ W_last, truth))
    return measure("Transformer, reorganised", "Eq. 4: V and FFN fuse into one W", pairs, pairs)


def transformer_is_fighter(draw: Draw) -> Identity:
    """Check that Fighter with κ = 2, W₀ = 0 and W₂ moved into the next layer is the Transformer."""
    pairs = _conversions(draw, biases=False)
    says = "W_FFN2 is subsumed by the next layer"
    return measure("Transformer = Fighter, κ=2 and W₀=0", says, pairs, pairs)


def transformer_with_biases_is_fighter(draw: Draw) -> Identity:
    """Check the same with biases: b₂ becomes a query bias and an output bias of the next layer."""
    pairs = _conversions(draw, biases=True)
    return measure("the same with all biases", "nothing: biases omitted for simplicity", pairs)


def _conversions(draw: Draw, *, biases: bool) -> list[Pair]:
    pairs: list[Pair] = []
    for sigma in ACTIVATIONS:
        X = draw.features(draw.nodes, draw.width)
        layers = draw.encoder_layers(3, biases=biases)
        W_last = draw.weights(draw.hidden, draw.key)
        converted = models.fighter_from_encoder(layers, W_last)
        truth = models.encoder(X, layers, W_last, sigma, draw.scale)
        pairs.append((models.fighter(X, converted, sigma, draw.scale), truth))
    return pairs


def key_bias_is_dead(draw: Draw) -> Identity:
    """Check that a key bias changes nothing: it shifts each row of logits by a constant.

    smx(τ Q (K + 1bᵀ)ᵀ) = smx(τ Q Kᵀ).
    """
    Q, K = (draw.features(draw.nodes, draw.key) for _ in range(2))
    shifted = models.softmax_adjacency(Q, K + draw.features(draw.key), draw.scale)
    pairs = [(shifted, models.softmax_adjacency(Q, K, draw.scale))]
    return measure("a key bias changes nothing", "nothing", pairs)


def hop_biases_act_by_their_sum(draw: Draw) -> Identity:
    """Check Σᵢ Aⁱ (X Wᵢ + 1 bᵢᵀ) = Σᵢ Aⁱ X Wᵢ + 1 (Σᵢ bᵢ)ᵀ, which follows from A 1 = 1."""
    A, X, W = _layer_inputs(draw)
    biases = draw.features(KAPPA, draw.hidden)
    hops = [
        torch.linalg.matrix_power(A, i) @ (X @ W[i] + biases[i].expand(draw.nodes, -1))
        for i in range(KAPPA)
    ]
    pairs = [(models.multi_hop(A, X, W) + biases.sum(0), sum(hops, torch.zeros_like(hops[0])))]
    return measure("hop biases act only by their sum", "nothing", pairs)


def block_form_is_sum_of_hops(draw: Draw) -> Identity:
    """Check A^[κ] blkdiag(X; κ) W = Σᵢ Aⁱ X Wᵢ with W of κ·d rows (Eqs. 1 and 10)."""
    A, X, W = _layer_inputs(draw)
    literal = models.hop_stack(A, KAPPA) @ models.block_diagonal(X, KAPPA) @ torch.cat(list(W))
    pairs = [(models.multi_hop(A, X, W), literal)]
    return measure(
        "A^[κ] blkdiag(X;κ) W = Σ AⁱXWᵢ", "undefined: W printed as d×h, needs κd×h", pairs
    )


def horner_is_sum_of_hops(draw: Draw) -> Identity:
    """Check that B_i = X Wᵢ + A B_{i+1} gives Y = B₀ without powers of A."""
    A, X, W = _layer_inputs(draw)
    pairs = [(gradients.horner_sums(A, X, W)[0], models.multi_hop(A, X, W))]
    return measure("the same by Horner, no power formed", "nothing: powers are formed", pairs)


def conventional_gcn_is_binomial(draw: Draw) -> Identity:
    """Check (A + I)^{κ−1} X W = Σᵢ binom(κ−1, i) Aⁱ X W.

    The power is not κ, and the weights of the hops are not uniform.
    """
    A, X, W = _layer_inputs(draw)
    loops = A + torch.eye(draw.nodes, dtype=A.dtype)
    binomial = torch.stack([comb(KAPPA - 1, i) * W[0] for i in range(KAPPA)])
    uniform = W[:1].expand(KAPPA, -1, -1)
    truth, said = (
        torch.linalg.matrix_power(loops, power) @ X @ W[0] for power in (KAPPA - 1, KAPPA)
    )
    return measure(
        "(A+I)^(κ−1) XW as a flexible GCN",
        "(A+I)^κ XW: uniform weights on the κ hops",
        [(models.multi_hop(A, X, binomial), truth)],
        [(models.multi_hop(A, X, uniform), said)],
    )


def kappa_one_has_no_graph(draw: Draw) -> Identity:
    """Check that κ = 1 has no graph: Y = X W₀.

    Moving node 0 moves no other node, and W_Q, W_K get no gradient.
    """
    X = draw.features(draw.nodes, draw.width)
    W_Q, W_K = (draw.weights(draw.width, draw.key) for _ in range(2))
    W = draw.weights(1, draw.width, draw.hidden)
    moved = X.clone()
    moved[0] += draw.features(draw.width)
    at = Layer(X, W_Q, W_K, W, draw.scale)
    before, after = models.layer(at), models.layer(at._replace(X=moved))
    to = gradients.layer_gradients(at, draw.features(draw.nodes, draw.hidden))
    pairs = [
        (after[1:], before[1:]),
        (to.W_Q, torch.zeros_like(W_Q)),
        (to.W_K, torch.zeros_like(W_K)),
    ]
    return measure(
        "κ=1: nodes do not see each other", "κ=1 captures short-range dependencies", pairs
    )


def skip_connection(draw: Draw) -> Identity:
    """Check that X + σ(U) is X when the layer's weights are zero; Algorithm 1 prints σ(U) + U."""
    X = draw.features(draw.nodes, draw.width)
    U = X @ torch.zeros(draw.width, draw.width, dtype=X.dtype)
    corrected = [(X + sigma.value(U), X) for sigma in ACTIVATIONS]
    as_printed = [(printed.algorithm_1_skip(X, U, sigma), X) for sigma in ACTIVATIONS]
    says = "Alg. 1 adds U, not X: σ(U) + U"
    return measure("skip around a layer of zeros is X", says, corrected, as_printed)


def _layer_inputs(draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
    X = draw.features(draw.nodes, draw.width)
    return draw.attention(X), X, draw.weights(KAPPA, draw.width, draw.hidden)
