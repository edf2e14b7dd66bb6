"""Fused attention can go wrong silently in many ways; none of them happens here."""

import subprocess
import sys

import pytest
import torch

from benchmarks.operator import saved_tensors
from fighter.hops import multi_hop
from fighter.hops.attention import attention_hop
from fighter.nn import FighterLayer
from tests.hops.oracle import draw, literal, masks

NODES = 2048


def pair_tensors(function):
    """Return the tensors kept for backward that have one number for every pair of nodes."""
    return [t for t in saved_tensors(function) if t.nbytes >= NODES * NODES]


@pytest.mark.parametrize("kind", ["none", "padding"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("query", "width"), [(16, 16), (8, 16), (16, 8), (5, 7)])
def test_no_matrix_of_nodes_by_nodes_is_kept_for_backward(kind, causal, query, width):
    q, k, blocks = draw(1, 2, NODES, query, width, 3, dtype=torch.float32)
    mask = masks(kind, 1, 2, NODES)
    assert not pair_tensors(
        lambda: multi_hop(q, k, blocks, mask=mask, causal=causal, backend="sdpa")
    )


def test_a_mask_of_pairs_is_kept_once_for_all_hops():
    q, k, blocks = draw(1, 2, NODES, 16, 16, 4, dtype=torch.float32)
    mask = torch.ones(1, 1, NODES, NODES, dtype=torch.bool).tril()
    kept = pair_tensors(lambda: multi_hop(q, k, blocks, mask=mask, backend="sdpa"))
    assert len(kept) == 1
    assert kept[0].shape == (1, 1, NODES, NODES)


def test_a_stored_graph_is_detected():
    q, k, blocks = draw(1, 2, NODES, 16, 16, 2, dtype=torch.float32)
    assert pair_tensors(lambda: multi_hop(q, k, blocks, backend="stored"))


def test_auto_uses_fused_attention_at_this_size():
    q, k, blocks = draw(1, 2, NODES, 16, 16, 3, dtype=torch.float32)
    assert not pair_tensors(lambda: multi_hop(q, k, blocks))


@pytest.mark.slow
def test_a_layer_of_8192_nodes_keeps_at_most_125_mb():
    layer = FighterLayer(512, kappa=3, heads=8, bias=False, activation="identity")
    x = torch.randn(1, 8192, 512, requires_grad=True)
    parameters = {p.data_ptr() for p in layer.parameters()}
    kept = saved_tensors(lambda: layer(x))
    total = sum(t.nbytes for t in kept if t.address not in parameters)
    assert total <= 125e6, f"{total / 1e6:.1f} MB"


def test_the_scale_ignores_the_padding_of_the_width():
    q, k, blocks = draw(query=3, width=11, grad=False)
    for scale in (None, 0.2, 3.0):
        truth = literal(q, k, blocks, range(3), scale=scale)
        torch.testing.assert_close(multi_hop(q, k, blocks, scale=scale, backend="sdpa"), truth)


def test_the_graph_has_no_dropout():
    layer = FighterLayer(8, kappa=4, heads=2, dropout=0.5).train()
    hop = layer.adjacency.hop(torch.randn(3, 30, 8), width=1)
    ones = torch.ones(3, 2, 30, 1)
    torch.testing.assert_close(hop(hop(ones)), ones)


@pytest.mark.parametrize("backend", ["stored", "reference"])
def test_a_stored_graph_has_second_derivatives(backend):
    q, k, blocks = draw(1, 1, 4, 2, 2, 3)
    assert torch.autograd.gradgradcheck(
        lambda q, k, *b: multi_hop(q, k, b, backend=backend), (q, k, *blocks)
    )


def test_a_learned_mask_gets_a_gradient():
    q, k, blocks = draw()
    mask = torch.zeros(1, 2, 9, 9, dtype=torch.float64, requires_grad=True)
    (got,) = torch.autograd.grad(multi_hop(q, k, blocks, mask=mask).square().sum(), mask)
    (wanted,) = torch.autograd.grad(literal(q, k, blocks, range(3), mask=mask).square().sum(), mask)
    torch.testing.assert_close(got, wanted)


COMPILED = """
import torch
from fighter.nn import FighterLayer
layer = FighterLayer(16, kappa=3, heads=2, norm=True, residual=True)
compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
for nodes, causal in [(12, False), (200, False), (200, True)]:
    x, mask = torch.randn(2, nodes, 16), torch.arange(nodes) < torch.tensor([[nodes], [nodes - 3]])
    torch.testing.assert_close(compiled(x, mask, causal), layer(x, mask, causal))
"""


@pytest.mark.slow
def test_a_compiled_layer_is_one_graph_and_equals_the_eager_one():
    # In its own process, because the compiler cannot trace the shape checks of the tests.
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_all_backends_give_the_same_hop():
    q, k, blocks = draw(grad=False)
    hops = [attention_hop(q, k, width=4, backend=backend) for backend in ("sdpa", "auto", "stored")]
    for hop in hops[1:]:
        torch.testing.assert_close(hop(blocks[0]), hops[0](blocks[0]))
