"""The models equal torch's own; the shapes the paper prints do not fit."""

import pytest
import torch
import torch.nn.functional as F

from paper.theory import models, printed
from paper.theory.models import GELU, RELU, FighterLayer, Gcn, Layer
from tests.paper.theory.drawing import assert_equal, normal


@pytest.mark.parametrize("causal", [False, True])
def test_one_hop_is_torch_attention(causal: bool) -> None:
    X, W_Q, W_K, W_1 = normal(0, (7, 5), (5, 3), (5, 3), (5, 4))
    mask = models.causal_mask(7) if causal else None
    W = torch.stack([torch.zeros_like(W_1), W_1])
    Q, K, V = X @ W_Q, X @ W_K, X @ W_1
    theirs = F.scaled_dot_product_attention(
        Q[None], K[None], V[None], attn_mask=mask, scale=0.3
    ).squeeze(0)
    assert_equal(models.layer(Layer(X, W_Q, W_K, W, 0.3, mask)), theirs)


def test_hop_features_are_the_block_product() -> None:
    A, X = normal(0, (6, 6), (6, 4))
    literal = models.hop_stack(A, 3) @ models.block_diagonal(X, 3)
    assert_equal(models.hop_features(A, X, range(3)), literal)


def test_weights_of_the_printed_shape_do_not_fit() -> None:
    """E1: with W of d rows the product of Eqs. 1 and 10 exists for κ=1 only."""
    A, X, W = normal(0, (6, 6), (6, 4), (4, 5))
    assert (models.hop_stack(A, 1) @ models.block_diagonal(X, 1) @ W).shape == (6, 5)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        _ = models.hop_stack(A, 3) @ models.block_diagonal(X, 3) @ W


def test_gcn_jacobians_have_a_row_per_node() -> None:
    """E2: n rows where the under-braces of the appendix say one."""
    n, d, h = 6, 4, 5
    net = Gcn(*normal(0, (n, n), (n, d), (3 * d, h), (2 * h,)), RELU, range(3), range(2))
    assert printed.appendix_gcn_output_weights(net).shape == (n, 2 * h)
    assert printed.appendix_gcn_hidden_weights(net)[:, :, 0].shape == (n, 3 * d)


def draw_fighter(kappas: tuple[int, ...], width: int = 4) -> list[FighterLayer]:
    layers: list[FighterLayer] = []
    for seed, kappa in enumerate(kappas):
        W_Q, W_K, W = normal(seed, (width, 3), (width, 3), (kappa, width, width))
        layers.append(FighterLayer(W_Q, W_K, W, W.new_zeros(3), W.new_zeros(width)))
    return layers


def test_algorithm_1_runs_without_attention_only() -> None:
    """E9, E10: its last line takes powers of an S × κS matrix."""
    (X,) = normal(9, (6, 4))
    mlp = draw_fighter((1, 1, 1))
    assert_equal(printed.algorithm_1(X, mlp, GELU, 0.5), models.fighter(X, mlp, GELU, 0.5))
    for kappas in ((3, 3, 3), (2, 2, 1)):
        with pytest.raises(RuntimeError, match="square"):
            printed.algorithm_1(X, draw_fighter(kappas), GELU, 0.5)


def test_algorithm_1_adds_a_replica_of_another_shape() -> None:
    """E12: the last optional line adds κS × κd to S × d."""
    (X,) = normal(0, (6, 4))
    assert models.block_diagonal(X, 3).shape == (18, 12)


def test_algorithm_1_skip_never_sees_its_input() -> None:
    """E11: slope 2 where ReLU is open, 1 where it is shut, whatever X was."""
    X, U = normal(0, (6, 4), (6, 4))
    open_, shut = 2 * U.clamp(min=0), U.clamp(max=0)
    assert_equal(printed.algorithm_1_skip(X, U, RELU), open_ + shut)


def test_powers_need_a_square_graph() -> None:
    """E19: cross-attention (more keys than queries) has no second hop."""
    Q, K = normal(0, (5, 3), (8, 3))
    cross = (Q @ K.T).softmax(-1)
    with pytest.raises(RuntimeError, match="square"):
        torch.linalg.matrix_power(cross, 2)


def test_layer_is_linear_in_x_for_a_fixed_graph_only() -> None:
    """E19: double the input, and only with A held fixed does the output double."""
    at = Layer(*normal(0, (7, 5), (5, 3), (5, 3), (3, 5, 4)), scale=0.3)
    once = models.layer(at)
    assert_equal(models.multi_hop(at.attention, 2 * at.X, at.W), 2 * once)
    assert (models.layer(at._replace(X=2 * at.X)) - 2 * once).abs().max() > 0.1
