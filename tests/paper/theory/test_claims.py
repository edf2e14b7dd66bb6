"""What holds of the claims that the paper makes in words."""

import math

import pytest
import torch

from paper.theory import models
from tests.paper.theory.drawing import normal


def mixing_rate(X: torch.Tensor, W_Q: torch.Tensor, W_K: torch.Tensor, scale: float) -> float:
    """Return |λ₂| of the attention matrix: how much of a hop survives the next."""
    A = models.softmax_adjacency(X @ W_Q, X @ W_K, scale)
    return torch.linalg.eigvals(A).abs().sort(descending=True).values[1].item()


def test_scale_by_input_width_flattens_attention() -> None:
    """E13: width 512 with heads of 64, the paper's scale against the usual one."""
    d, p, rates = 512, 64, []
    for seed in range(3):
        X, W_Q, W_K = normal(seed, (96, d), (d, p), (d, p))
        W_Q, W_K = W_Q / d**0.5, W_K / d**0.5
        rates.append([mixing_rate(X, W_Q, W_K, width**-0.5) for width in (d, p)])
    for paper, usual in rates:
        assert 0.02 < paper < 0.07
        assert 0.09 < usual < 0.20


def residual_slopes(a: float, c: float) -> tuple[float, float]:
    """Return the slopes of c (x + relu(a x)) left and right of zero, which determine it."""
    return c * (1 + min(a, 0.0)), c * (1 + max(a, 0.0))


def best_fit(left: float, right: float) -> float:
    """Return the least relative error of c (x + relu(a x)) to given slopes, over many a."""
    best = math.inf
    for exponent in torch.linspace(-4, 6, 2001).tolist():
        for a in (10**exponent, -(10**exponent)):
            l_1, r_1 = residual_slopes(a, 1.0)
            c = (l_1 * left + r_1 * right) / (l_1**2 + r_1**2)
            best = min(best, math.hypot(c * l_1 - left, c * r_1 - right))
    return best / math.hypot(left, right)


def test_a_readout_does_not_replace_the_output_projection() -> None:
    """E14: x − relu(x)/2 is 1/√10 away from every c (x + relu(a x))."""
    assert best_fit(left=1.0, right=0.5) == pytest.approx(10**-0.5, rel=1e-3)


def test_without_the_skip_the_output_projection_is_free() -> None:
    """x − relu(x) = −relu(−x) needs no skip; a vanishing readout of a steep unit comes close."""
    assert best_fit(left=1.0, right=0.0) < 1e-5


def test_layer_norm_keeps_the_output_projection() -> None:
    """E14: LN(x W₂) is not LN(x) W₂, so W₂ cannot pass into the next layer."""
    x, W_2 = normal(0, (6, 5), (5, 5))
    norm = torch.nn.functional.layer_norm
    assert (norm(x @ W_2, (5,)) - norm(x, (5,)) @ W_2).abs().max() > 0.1


def test_fused_weights_have_the_rank_of_the_factors() -> None:
    """E15: W_V W₁ cannot have more rank than the value width."""
    W_V, W_1 = normal(0, (8, 3), (3, 8))
    assert torch.linalg.matrix_rank(W_V @ W_1) == 3


def test_elementwise_powers_sharpen_where_matrix_powers_smooth() -> None:
    """E16: squared entries, normalised, raise each row's largest edge; A² lowers the columns'."""
    (logits,) = normal(0, (12, 12))
    A = logits.softmax(-1)
    sharpened = A.square() / A.square().sum(-1, keepdim=True)
    assert (sharpened.amax(1) >= A.amax(1)).all()
    assert ((A @ A).amax(0) <= A.amax(0)).all()


def row_entropy(A: torch.Tensor) -> float:
    return -torch.special.xlogy(A, A).sum(-1).mean().item()


def test_hops_spread_without_a_mask_and_sink_with_a_causal_one() -> None:
    """E16, E20: row entropy rises with the power; under a causal mask it ends at zero."""
    (logits,) = normal(0, (24, 24))
    full = logits.softmax(-1)
    causal = logits.masked_fill(~models.causal_mask(24), float("-inf")).softmax(-1)
    assert row_entropy(full @ full) > row_entropy(full)
    assert row_entropy(torch.linalg.matrix_power(causal, 64)) < 0.1 * row_entropy(causal)


def matrix_parameters(layer: models.EncoderLayer | models.FighterLayer) -> int:
    return sum(weights.numel() for weights in layer if weights.ndim > 1)


def test_parameters_per_layer() -> None:
    """E18: at equal widths a Fighter layer is the smaller one up to κ=2 only."""
    h = 8
    square, bias = torch.zeros(h, h), torch.zeros(h)
    encoder = models.EncoderLayer(square, square, square, square, bias, square, bias)
    sizes = {
        kappa: matrix_parameters(
            models.FighterLayer(square, square, torch.zeros(kappa, h, h), bias, bias)
        )
        for kappa in (2, 3, 4)
    }
    assert sizes[2] < matrix_parameters(encoder) == sizes[3] < sizes[4]
