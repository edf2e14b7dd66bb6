"""The same operator on a GPU, where torch has other kernels and other silent fall-backs."""

import pytest
import torch

from benchmarks.operator import saved_tensors
from fighter import FighterError, multi_hop
from tests.hops.oracle import draw, literal, masks, value_and_gradients

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def on_cuda(dtype, *shape):
    q, k, blocks = draw(*shape, grad=False)
    return [t.to("cuda", dtype).requires_grad_() for t in (q, k, *blocks)]


@pytest.mark.parametrize("backend", ["stored", "sdpa", "auto"])
@pytest.mark.parametrize(("query", "width"), [(64, 64), (5, 7), (16, 40)])
@pytest.mark.parametrize("kind", ["none", "padding", "pairs", "added"])
@pytest.mark.parametrize("causal", [False, True])
def test_equals_the_formula(backend, query, width, kind, causal):
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("query", "width"), [(64, 64), (5, 7), (64, 24)])
@pytest.mark.parametrize("kind", ["none", "padding"])
@pytest.mark.parametrize("causal", [False, True])
def test_nothing_of_nodes_by_nodes_is_kept(dtype, query, width, kind, causal):
    nodes = 2048
    q, k, *blocks = on_cuda(dtype, 1, 2, nodes, query, width, 3)
    mask = masks(kind, 1, 2, nodes)
    mask = mask if mask is None else mask.cuda()
    kept = saved_tensors(lambda: multi_hop(q, k, blocks, mask=mask, causal=causal))
    assert not [t for t in kept if t.nbytes >= nodes * nodes]


def test_float64_is_stored_and_says_so():
    q, k, *blocks = on_cuda(torch.float64, 1, 2, 30, 4, 4, 3)
    assert multi_hop(q, k, blocks).dtype == torch.float64
    with pytest.raises(FighterError, match="CUDA has no fused attention in float64"):
        multi_hop(q, k, blocks, backend="sdpa")
