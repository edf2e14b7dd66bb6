"""Where the printed formulas hold, and where they do not."""

import pytest
import torch
from torch import Tensor

from paper.theory import gradients, models, paper
from paper.theory.models import ACTIVATIONS, GELU, LINEAR, RELU, Activation
from paper.theory.record import relative_error
from tests.paper.theory.drawing import normal

seeds = pytest.mark.parametrize("seed", [0, 1, 2])
activations = pytest.mark.parametrize("sigma", ACTIVATIONS, ids=lambda sigma: sigma.name)

EXACT, WRONG = 1e-12, 0.05


def net(seed: int, sizes: tuple[int, int, int, int], sigma: Activation) -> tuple:
    S, d, p, h = sizes
    return (*normal(seed, (S, d), (d, p), (d, p), (d, h), (h,)), sigma, d**-0.5)


def query_error(at: tuple, **reading: bool) -> float:
    return relative_error(
        paper.eq8_query_weights(*at, **reading), gradients.transformer_query_weights(*at)
    )


def key_error(at: tuple, **reading: bool) -> float:
    return relative_error(
        paper.eq9_key_weights(*at, **reading), gradients.transformer_key_weights(*at)
    )


@seeds
@activations
@pytest.mark.parametrize("sizes", [(7, 5, 3, 4), (16, 8, 8, 12), (7, 5, 1, 1)], ids=str)
def test_eq6_holds(sizes, sigma: Activation, seed: int) -> None:
    at = net(seed, sizes, sigma)
    pairs = (
        (paper.eq6_output_weights(*at), gradients.transformer_output_weights(*at)),
        (paper.eq6_value_weights(*at), gradients.transformer_value_weights(*at)),
    )
    for printed, exact in pairs:
        assert relative_error(printed, exact) < EXACT


@seeds
@activations
def test_eq7_holds_for_one_hop_then_none(sigma: Activation, seed: int) -> None:
    A, X, W_1, w = normal(seed, (7, 7), (7, 5), (5, 4), (4,))
    at = (A, X, W_1, w, sigma, (1,), (0,))
    to_w, to_W_1 = gradients.gcn_output_weights(*at), gradients.gcn_hidden_weights(*at)
    assert relative_error(paper.eq7_output_weights(A, X, W_1, sigma), to_w) < EXACT
    assert relative_error(paper.eq7_hidden_weights(A, X, W_1, w, sigma), to_W_1) < EXACT


@seeds
@activations
def test_eq7_misses_a_hop_when_both_layers_have_one(sigma: Activation, seed: int) -> None:
    """E7: the appendix prints Eq. 7 for "only the A¹ term"."""
    A, X, W_1, w = normal(seed, (7, 7), (7, 5), (5, 4), (4,))
    at = (A, X, W_1, w, sigma, (1,), (1,))
    to_w, to_W_1 = gradients.gcn_output_weights(*at), gradients.gcn_hidden_weights(*at)
    printed_w = paper.eq7_output_weights(A, X, W_1, sigma)
    printed_W_1 = paper.eq7_hidden_weights(A, X, W_1, w, sigma)
    assert relative_error(printed_w, to_w) > WRONG
    assert relative_error(printed_W_1, to_W_1) > WRONG
    assert relative_error(A @ printed_w, to_w) < EXACT
    assert relative_error(torch.einsum("js,sci->jci", A, printed_W_1), to_W_1) < EXACT


@seeds
@activations
def test_multi_hop_gcn_gradients_hold(sigma: Activation, seed: int) -> None:
    A, X, W_1, w = normal(seed, (7, 7), (7, 5), (15, 4), (8,))
    exact, printed = (A, X, W_1, w, sigma, range(3), range(2)), (A, X, W_1, w, sigma, 3, 2)
    pairs = (
        (paper.appendix_gcn_output_weights(*printed), gradients.gcn_output_weights(*exact)),
        (paper.appendix_gcn_hidden_weights(*printed), gradients.gcn_hidden_weights(*exact)),
    )
    for value, truth in pairs:
        assert relative_error(value, truth) < EXACT


def relu_truth(M: Tensor, column: Tensor) -> Tensor:
    return torch.func.jacrev(lambda value: torch.relu(M @ value))(column)


@seeds
def test_relu_shortcut_fails(seed: int) -> None:
    """E3: the gate follows the sign of M W, not of M."""
    A, X, W_1 = normal(seed, (7, 7), (7, 5), (15, 4))
    M = models.hop_features(A, X, range(3))
    for column in W_1.T:
        assert relative_error(paper.appendix_relu_shortcut(M), relu_truth(M, column)) > WRONG
        assert relative_error(relu_truth(M, column) @ column, torch.relu(M @ column)) < EXACT


@seeds
def test_relu_shortcut_holds_when_nothing_is_negative(seed: int) -> None:
    A, X, W_1 = (value.abs() for value in normal(seed, (7, 7), (7, 5), (15, 4)))
    M = models.hop_features(A, X, range(3))
    for column in W_1.T:
        assert relative_error(paper.appendix_relu_shortcut(M), relu_truth(M, column)) == 0


@seeds
@activations
def test_eq8_holds_for_one_key_and_one_hidden_unit(sigma: Activation, seed: int) -> None:
    assert query_error(net(seed, (7, 5, 1, 1), sigma), gate_in_place=False) < EXACT


@seeds
@activations
@pytest.mark.parametrize("sizes", [(7, 5, 3, 4), (16, 8, 8, 12), (7, 5, 2, 1)], ids=str)
def test_eq8_fails_for_more_than_one_key(sizes, sigma: Activation, seed: int) -> None:
    """E4: even with σ' in its right place; the full softmax mends it."""
    at = net(seed, sizes, sigma)
    assert query_error(at) > WRONG
    assert query_error(at, full_softmax=True) < EXACT


@seeds
def test_eq8_holds_when_the_other_keys_are_constant(seed: int) -> None:
    """Keys that add the same to a whole row of logits cancel in the softmax."""
    at = net(seed, (7, 5, 3, 4), GELU)
    W_K = at[2].clone()
    W_K[:, 1:] = 0
    assert query_error((*at[:2], W_K, *at[3:])) < EXACT


@seeds
@pytest.mark.parametrize("sigma", [RELU, GELU], ids=lambda sigma: sigma.name)
def test_eq8_gate_cannot_stand_in_front(sigma: Activation, seed: int) -> None:
    """E5: with the full softmax, no number per node in place of σ'_j gives the gradient."""
    at = net(seed, (16, 8, 8, 12), sigma)
    exact = gradients.transformer_query_weights(*at)
    printed = paper.eq8_query_weights(*at, gate_in_place=False, full_softmax=True)
    assert relative_error(printed, exact) > WRONG
    per_node = (printed * exact).sum((1, 2)) / printed.square().sum((1, 2))
    assert relative_error(per_node[:, None, None] * printed, exact) > WRONG


@seeds
def test_eq8_gate_may_stand_in_front_of_a_linear_layer(seed: int) -> None:
    at = net(seed, (16, 8, 8, 12), LINEAR)
    assert query_error(at, gate_in_place=False, full_softmax=True) < EXACT


@seeds
@activations
def test_eq8_gate_may_stand_in_front_of_one_hidden_unit(sigma: Activation, seed: int) -> None:
    at = net(seed, (7, 5, 3, 1), sigma)
    assert query_error(at, gate_in_place=False, full_softmax=True) < EXACT


@seeds
@activations
@pytest.mark.parametrize("hidden", [1, 4])
def test_eq9_holds_for_width_one_and_one_key(hidden: int, sigma: Activation, seed: int) -> None:
    assert key_error(net(seed, (7, 1, 1, hidden), sigma)) < EXACT


@seeds
@activations
@pytest.mark.parametrize("sizes", [(7, 2, 1, 1), (7, 2, 1, 4), (7, 5, 3, 4)], ids=str)
def test_eq9_fails_from_width_two(sizes, sigma: Activation, seed: int) -> None:
    """E6: node and sources have changed places; the full softmax does not mend it."""
    at = net(seed, sizes, sigma)
    assert key_error(at) > WRONG
    assert key_error(at, full_softmax=True) > WRONG


def test_eq9_is_no_descent_direction_on_average() -> None:
    """E6: over 30 draws the printed W_K gradient has no cosine with the true one."""
    cosines: list[float] = []
    for seed in range(30):
        at = net(seed, (16, 8, 8, 12), ACTIVATIONS[0])
        (c,) = normal(seed + 100, (16,))
        printed, exact = (
            torch.einsum("j,jdp->dp", c, form(*at)).flatten()
            for form in (paper.eq9_key_weights, gradients.transformer_key_weights)
        )
        cosines.append(torch.cosine_similarity(printed, exact, dim=0).item())
    assert abs(sum(cosines) / len(cosines)) < 0.15
