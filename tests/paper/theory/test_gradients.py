"""Each closed form against autograd, on inputs drawn here."""

import pytest
import torch
from torch import Tensor
from torch.func import grad, jacrev

from paper.theory import gradients, models
from paper.theory.models import ACTIVATIONS, Activation
from tests.paper.theory.drawing import assert_equal, normal

SEEDS = (0, 1, 2)
SIZES = ((7, 5, 3, 4), (6, 1, 1, 1), (4, 6, 1, 3))  # nodes, width, key, hidden
activations = pytest.mark.parametrize("sigma", ACTIVATIONS, ids=lambda sigma: sigma.name)
seeds = pytest.mark.parametrize("seed", SEEDS)


@activations
def test_slope_is_the_derivative(sigma: Activation) -> None:
    (u,) = normal(0, (50,))
    assert_equal(sigma.slope(u), grad(lambda v: sigma.value(v).sum())(u))


@seeds
@activations
@pytest.mark.parametrize(
    ("powers_1", "powers_2"), [((0, 1, 2), (0, 1)), ((1,), (0,)), ((1,), (1,)), ((0,), (0, 2, 3))]
)
def test_gcn(
    sigma: Activation, powers_1: tuple[int, ...], powers_2: tuple[int, ...], seed: int
) -> None:
    n, d, _, h = SIZES[0]
    shapes = (n, n), (n, d), (len(powers_1) * d, h), (len(powers_2) * h,)
    A, X, W_1, w = normal(seed, *shapes)
    net = (A, X, W_1, w, sigma, powers_1, powers_2)
    to_w = jacrev(lambda v: models.gcn(A, X, W_1, v, *net[4:]))(w)
    to_W_1 = jacrev(lambda v: models.gcn(A, X, v, w, *net[4:]))(W_1)
    assert_equal(gradients.gcn_output_weights(*net), to_w)
    assert_equal(gradients.gcn_hidden_weights(*net), to_W_1)


TRANSFORMER = (
    (gradients.transformer_query_weights, 1),
    (gradients.transformer_key_weights, 2),
    (gradients.transformer_value_weights, 3),
    (gradients.transformer_output_weights, 4),
)


@seeds
@activations
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("closed_form", "argument"), TRANSFORMER, ids=lambda at: str(at)[:40])
def test_transformer(closed_form, argument: int, size, sigma: Activation, seed: int) -> None:
    S, d, p, h = size
    weights = normal(seed, (S, d), (d, p), (d, p), (d, h), (h,))
    scale = d**-0.5

    def output(value: Tensor) -> Tensor:
        return models.transformer(
            *weights[:argument], value, *weights[argument + 1 :], sigma, scale
        )

    truth = jacrev(output)(weights[argument])
    assert_equal(closed_form(*weights, sigma, scale), truth)


layers = pytest.mark.parametrize("kappa", [1, 2, 3, 5])
masks = pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])


def draw_layer(seed: int, kappa: int) -> list[Tensor]:
    S, d, p, h = SIZES[0]
    return normal(seed, (S, d), (d, p), (d, p), (kappa, d, h))


@seeds
@layers
@masks
@activations
def test_layer_gradients(kappa: int, causal: bool, sigma: Activation, seed: int) -> None:
    weights = draw_layer(seed, kappa)
    S, h = len(weights[0]), weights[3].shape[-1]
    (C,) = normal(seed + 100, (S, h))
    mask = models.causal_mask(S) if causal else None

    def loss(X: Tensor, W_Q: Tensor, W_K: Tensor, W: Tensor) -> Tensor:
        return (C * sigma.value(models.layer(X, W_Q, W_K, W, 0.4, mask))).sum()

    G = C * sigma.slope(models.layer(*weights, 0.4, mask))
    closed = gradients.layer_gradients(*weights, G, 0.4, mask)
    for value, truth in zip(closed, grad(loss, argnums=(0, 1, 2, 3))(*weights), strict=True):
        assert_equal(value, truth)


@seeds
@layers
@masks
@activations
def test_layer_jacobians(kappa: int, causal: bool, sigma: Activation, seed: int) -> None:
    weights = draw_layer(seed, kappa)
    S, h = len(weights[0]), weights[3].shape[-1]
    (w,) = normal(seed + 100, (h,))
    mask = models.causal_mask(S) if causal else None

    def output(X: Tensor, W_Q: Tensor, W_K: Tensor, W: Tensor) -> Tensor:
        return sigma.value(models.layer(X, W_Q, W_K, W, 0.4, mask)) @ w

    closed = gradients.layer_jacobians(*weights, w, sigma, 0.4, mask)
    for value, truth in zip(closed, jacrev(output, argnums=(1, 2, 3))(*weights), strict=True):
        assert_equal(value, truth)


@seeds
@layers
def test_adjacency_gradient_and_its_softmax_shift(kappa: int, seed: int) -> None:
    X, W_Q, W_K, W = draw_layer(seed, kappa)
    (G,) = normal(seed + 100, (len(X), W.shape[-1]))
    A = models.softmax_adjacency(X @ W_Q, X @ W_K, 0.4)
    truth = grad(lambda edges: (G * models.multi_hop(edges, X, W)).sum())(A)
    assert_equal(gradients.adjacency_gradient(A, X, W, G), truth)
    shift = (A * truth).sum(-1)
    torch.testing.assert_close(
        gradients.softmax_shift(A, X, W, G), shift, rtol=1e-11, atol=1e-11 * (1 + A.abs().max())
    )


def test_two_hops_with_no_self_term_are_the_transformer() -> None:
    X, W_Q, W_K, W = draw_layer(0, 2)
    W[0] = 0
    (w,) = normal(7, (W.shape[-1],))
    net = (X, W_Q, W_K, W[1], w, models.GELU, 0.4)
    closed = gradients.layer_jacobians(X, W_Q, W_K, W, w, models.GELU, 0.4)
    assert_equal(closed.W_Q, gradients.transformer_query_weights(*net))
    assert_equal(closed.W_K, gradients.transformer_key_weights(*net))
    assert_equal(closed.W[:, 1], gradients.transformer_value_weights(*net))


def test_from_three_hops_a_node_moves_the_attention_of_the_others() -> None:
    """With κ=2 row j of ∂f/∂W_Q is a multiple of X_j; with κ=3 it leaves that line."""
    ranks: list[int] = []
    for kappa in (2, 3):
        X, W_Q, W_K, W = draw_layer(0, kappa)
        (w,) = normal(7, (W.shape[-1],))
        closed = gradients.layer_jacobians(X, W_Q, W_K, W, w, models.GELU, 0.4)
        ranks.append(int(torch.linalg.matrix_rank(closed.W_Q[0])))
    assert ranks == [1, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_is_kept(dtype: torch.dtype) -> None:
    X, W_Q, W_K, W = (weights.to(dtype) for weights in draw_layer(0, 3))
    w = torch.ones(W.shape[-1], dtype=dtype)
    G = torch.ones(len(X), W.shape[-1], dtype=dtype)
    found = [
        *gradients.layer_gradients(X, W_Q, W_K, W, G, 0.4),
        *gradients.layer_jacobians(X, W_Q, W_K, W, w, models.RELU, 0.4),
        gradients.transformer_query_weights(X, W_Q, W_K, W[0], w, models.GELU, 0.4),
    ]
    assert {value.dtype for value in found} == {dtype}
