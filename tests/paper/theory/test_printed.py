"""Where the printed formulas hold, and where they do not."""

import pytest
import torch
from torch import Tensor

from paper.theory import gradients, models, printed
from paper.theory.models import GELU, LINEAR, RELU, Activation, Gcn, Transformer
from paper.theory.record import relative_error
from tests.paper.theory.drawing import each_activation, normal

seeds = pytest.mark.parametrize("seed", [0, 1, 2])

EXACT, WRONG = 1e-12, 0.05


def draw(seed: int, sizes: tuple[int, int, int, int], sigma: Activation) -> Transformer:
    S, d, p, h = sizes
    weights = normal(seed, (S, d), (d, p), (d, p), (d, h), (h,))
    return Transformer(*weights, sigma=sigma, scale=d**-0.5)


def query_error(net: Transformer, **reading: bool) -> float:
    return relative_error(
        printed.eq8_query_weights(net, **reading), gradients.transformer_query_weights(net)
    )


def key_error(net: Transformer, **reading: bool) -> float:
    return relative_error(
        printed.eq9_key_weights(net, **reading), gradients.transformer_key_weights(net)
    )


@each_activation
@pytest.mark.parametrize("sizes", [(7, 5, 3, 4), (16, 8, 8, 12), (7, 5, 1, 1)], ids=str)
def test_eq6_holds(sizes, sigma: Activation, seed: int) -> None:
    net = draw(seed, sizes, sigma)
    pairs = (
        (printed.eq6_output_weights(net), gradients.transformer_output_weights(net)),
        (printed.eq6_value_weights(net), gradients.transformer_value_weights(net)),
    )
    for value, truth in pairs:
        assert relative_error(value, truth) < EXACT


@each_activation
def test_eq7_holds_for_one_hop_then_none(sigma: Activation, seed: int) -> None:
    net = Gcn(*normal(seed, (7, 7), (7, 5), (5, 4), (4,)), sigma, (1,), (0,))
    to_w, to_W_1 = gradients.gcn_output_weights(net), gradients.gcn_hidden_weights(net)
    assert relative_error(printed.eq7_output_weights(net), to_w) < EXACT
    assert relative_error(printed.eq7_hidden_weights(net), to_W_1) < EXACT


@each_activation
def test_eq7_misses_a_hop_when_both_layers_have_one(sigma: Activation, seed: int) -> None:
    """E7: the appendix prints Eq. 7 for "only the A¹ term"."""
    net = Gcn(*normal(seed, (7, 7), (7, 5), (5, 4), (4,)), sigma, (1,), (1,))
    to_w, to_W_1 = gradients.gcn_output_weights(net), gradients.gcn_hidden_weights(net)
    printed_w, printed_W_1 = printed.eq7_output_weights(net), printed.eq7_hidden_weights(net)
    assert relative_error(printed_w, to_w) > WRONG
    assert relative_error(printed_W_1, to_W_1) > WRONG
    assert relative_error(net.A @ printed_w, to_w) < EXACT
    assert relative_error(torch.einsum("js,sci->jci", net.A, printed_W_1), to_W_1) < EXACT


@each_activation
def test_multi_hop_gcn_gradients_hold(sigma: Activation, seed: int) -> None:
    net = Gcn(*normal(seed, (7, 7), (7, 5), (15, 4), (8,)), sigma, range(3), range(2))
    pairs = (
        (printed.appendix_gcn_output_weights(net), gradients.gcn_output_weights(net)),
        (printed.appendix_gcn_hidden_weights(net), gradients.gcn_hidden_weights(net)),
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
        assert relative_error(printed.appendix_relu_shortcut(M), relu_truth(M, column)) > WRONG
        assert relative_error(relu_truth(M, column) @ column, torch.relu(M @ column)) < EXACT


@seeds
def test_relu_shortcut_holds_when_nothing_is_negative(seed: int) -> None:
    A, X, W_1 = (value.abs() for value in normal(seed, (7, 7), (7, 5), (15, 4)))
    M = models.hop_features(A, X, range(3))
    for column in W_1.T:
        assert relative_error(printed.appendix_relu_shortcut(M), relu_truth(M, column)) == 0


@each_activation
def test_eq8_holds_for_one_key_and_one_hidden_unit(sigma: Activation, seed: int) -> None:
    assert query_error(draw(seed, (7, 5, 1, 1), sigma), gate_in_place=False) < EXACT


@each_activation
@pytest.mark.parametrize("sizes", [(7, 5, 3, 4), (16, 8, 8, 12), (7, 5, 2, 1)], ids=str)
def test_eq8_fails_for_more_than_one_key(sizes, sigma: Activation, seed: int) -> None:
    """E4: even with σ' in its right place; the full softmax mends it."""
    net = draw(seed, sizes, sigma)
    assert query_error(net) > WRONG
    assert query_error(net, full_softmax=True) < EXACT


@seeds
def test_eq8_holds_when_the_other_keys_are_constant(seed: int) -> None:
    """Keys that add the same to a whole row of logits cancel in the softmax."""
    net = draw(seed, (7, 5, 3, 4), GELU)
    net.W_K[:, 1:] = 0
    assert query_error(net) < EXACT


@seeds
@pytest.mark.parametrize("sigma", [RELU, GELU], ids=lambda sigma: sigma.name)
def test_eq8_gate_cannot_stand_in_front(sigma: Activation, seed: int) -> None:
    """E5: with the full softmax, no number per node in place of σ'_j gives the gradient."""
    net = draw(seed, (16, 8, 8, 12), sigma)
    exact = gradients.transformer_query_weights(net)
    in_front = printed.eq8_query_weights(net, gate_in_place=False, full_softmax=True)
    assert relative_error(in_front, exact) > WRONG
    per_node = (in_front * exact).sum((1, 2)) / in_front.square().sum((1, 2))
    assert relative_error(per_node[:, None, None] * in_front, exact) > WRONG


@seeds
def test_eq8_gate_may_stand_in_front_of_a_linear_layer(seed: int) -> None:
    net = draw(seed, (16, 8, 8, 12), LINEAR)
    assert query_error(net, gate_in_place=False, full_softmax=True) < EXACT


@each_activation
def test_eq8_gate_may_stand_in_front_of_one_hidden_unit(sigma: Activation, seed: int) -> None:
    net = draw(seed, (7, 5, 3, 1), sigma)
    assert query_error(net, gate_in_place=False, full_softmax=True) < EXACT


@each_activation
@pytest.mark.parametrize("hidden", [1, 4])
def test_eq9_holds_for_width_one_and_one_key(hidden: int, sigma: Activation, seed: int) -> None:
    assert key_error(draw(seed, (7, 1, 1, hidden), sigma)) < EXACT


@each_activation
@pytest.mark.parametrize("sizes", [(7, 2, 1, 1), (7, 2, 1, 4), (7, 5, 3, 4)], ids=str)
def test_eq9_fails_from_width_two(sizes, sigma: Activation, seed: int) -> None:
    """E6: node and sources have changed places; the full softmax does not mend it."""
    net = draw(seed, sizes, sigma)
    assert key_error(net) > WRONG
    assert key_error(net, full_softmax=True) > WRONG


def test_eq9_is_no_descent_direction_on_average() -> None:
    """E6: over 30 draws the printed W_K gradient has no cosine with the true one."""
    cosines: list[float] = []
    for seed in range(30):
        net = draw(seed, (16, 8, 8, 12), RELU)
        (c,) = normal(seed + 100, (16,))
        value, truth = (
            torch.einsum("j,jdp->dp", c, form(net)).flatten()
            for form in (printed.eq9_key_weights, gradients.transformer_key_weights)
        )
        cosines.append(torch.cosine_similarity(value, truth, dim=0).item())
    assert abs(sum(cosines) / len(cosines)) < 0.15
