"""The operator on a GPU, where torch has other kernels and other silent fallbacks."""

from itertools import product

import pytest
import torch

from benchmarks.operator import saved_tensors
from fighter import FighterError, multi_hop
from tests.hops.oracle import draw, literal, masks, value_and_gradients
from tests.pairs import pairs

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def on_cuda(dtype, *shape):
    q, k, blocks = draw(*shape, grad=False)
    return [t.to("cuda", dtype).requires_grad_() for t in (q, k, *blocks)]


@pairs(
    backend=["stored", "sdpa", "auto"],
    size=[(64, 64), (5, 7), (16, 40)],
    rule=product(["none", "padding", "pairs", "added"], [False, True]),
)
def test_values_and_gradients_equal_the_formula(backend, size, rule):
    (query, width), (kind, causal) = size, rule
    q, k, *blocks = on_cuda(torch.float32, 2, 2, 70, query, width, 4)
    mask = masks(kind, 2, 2, 70)
    mask = mask if mask is None else mask.cuda()
    ours = value_and_gradients(
        lambda q, k, b: multi_hop(q, k, b, mask=mask, causal=causal, backend=backend), q, k, blocks
    )
    q, k, *blocks = (t.detach().double().cpu().requires_grad_() for t in (q, k, *blocks))
    mask = mask if mask is None else mask.cpu()
    truth = value_and_gradients(
        lambda q, k, b: literal(q, k, b, range(4), mask=mask, causal=causal), q, k, blocks
    )
    for got, wanted in zip(ours, truth, strict=True):
        assert (got.double().cpu() - wanted).abs().max() < 2e-3 * wanted.abs().max()


@pairs(
    dtype=[torch.float32, torch.bfloat16, torch.float16],
    size=[(64, 64), (5, 7), (64, 24)],
    rule=product(["none", "padding"], [False, True]),
)
def test_no_matrix_of_nodes_by_nodes_is_kept_for_backward(dtype, size, rule):
    (query, width), (kind, causal) = size, rule
    nodes = 2048
    q, k, *blocks = on_cuda(dtype, 1, 2, nodes, query, width, 3)
    mask = masks(kind, 1, 2, nodes)
    mask = mask if mask is None else mask.cuda()
    kept = saved_tensors(lambda: multi_hop(q, k, blocks, mask=mask, causal=causal))
    assert not [t for t in kept if t.nbytes >= nodes * nodes]


def test_float64_needs_a_stored_graph():
    q, k, *blocks = on_cuda(torch.float64, 1, 2, 30, 4, 4, 3)
    assert multi_hop(q, k, blocks).dtype == torch.float64
    with pytest.raises(FighterError, match="float64") as error:
        multi_hop(q, k, blocks, backend="sdpa")
    assert error.value.argument == "backend"
