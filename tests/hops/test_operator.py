from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fighter.hops import adjacency, explicit_hop, hop_features, multi_hop
from tests.hops.oracle import draw, literal, masks, value_and_gradients
from tests.pairs import pairs

FAST = ["stored", "sdpa", "auto"]
KINDS = ["none", "padding", "pairs", "added"]


# Every mask, causal or not, meets every backend.
@pairs(
    backend=["reference", *FAST],
    rule=product(KINDS, [False, True]),
    shape=[(1, 4, 4), (3, 3, 8), (2, 8, 3)],
    kappa=[1, 2, 3, 5],
)
def test_values_and_gradients_equal_the_formula(backend, rule, shape, kappa):
    (kind, causal), (heads, query, width) = rule, shape
    q, k, blocks = draw(heads=heads, query=query, width=width, kappa=kappa)
    mask = masks(kind, 2, heads, 9)
    options = {"mask": mask, "causal": causal, "scale": 0.7}
    ours = value_and_gradients(
        lambda q, k, b: multi_hop(q, k, b, backend=backend, **options), q, k, blocks
    )
    truth = value_and_gradients(
        lambda q, k, b: literal(q, k, b, range(kappa), **options), q, k, blocks
    )
    for got, wanted in zip(ours, truth, strict=True):
        if got is None:  # κ=1 has no graph, hence no gradient
            assert kappa == 1
            assert wanted.abs().max() == 0
        else:
            torch.testing.assert_close(got, wanted, rtol=1e-11, atol=1e-11)


@settings(deadline=None, max_examples=40)
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    nodes=st.integers(1, 12),
    query=st.integers(1, 9),
    width=st.integers(1, 9),
    powers=st.sets(st.integers(0, 5), min_size=1).map(sorted),
    causal=st.booleans(),
    backend=st.sampled_from(FAST),
)
def test_any_shape_and_any_powers_equal_the_formula(
    batch, heads, nodes, query, width, powers, causal, backend
):
    q, k, blocks = draw(batch, heads, nodes, query, width, len(powers), grad=False)
    y = multi_hop(q, k, blocks, powers=powers, causal=causal, backend=backend)
    torch.testing.assert_close(
        y, literal(q, k, blocks, powers, causal=causal), rtol=1e-11, atol=1e-11
    )
    features = hop_features(q, k, blocks[0], powers, causal=causal, backend=backend)
    for power, feature in zip(powers, features, strict=True):
        wanted = literal(q, k, [blocks[0]], [power], causal=causal)
        torch.testing.assert_close(feature, wanted, rtol=1e-11, atol=1e-11)


def test_all_backends_give_hop_features_the_same_gradients():
    q, k, (x,) = draw(kappa=1, width=6)
    wanted = [literal(q, k, [x], [power]) for power in (0, 1, 3)]
    torch.testing.assert_close(hop_features(q, k, x, (0, 1, 3)), tuple(wanted))
    gradients = [
        torch.autograd.grad(
            sum(f.square().sum() for f in hop_features(q, k, x, (0, 1, 3), backend=backend)),
            [q, k, x],
        )
        for backend in ("reference", *FAST)
    ]
    for other in gradients[1:]:
        torch.testing.assert_close(other, gradients[0], rtol=1e-11, atol=1e-11)


@pairs(
    backend=["reference", *FAST],
    content=[1e3, 1e30, float("nan"), float("inf")],
    rule=product(["right", "left"], [False, True]),
)
def test_padding_never_reaches_a_valid_row(backend, content, rule):
    side, causal = rule
    q, k, blocks = draw(nodes=10, kappa=4)
    mask = torch.ones(2, 10, dtype=torch.bool)
    mask[1, 6:] = False
    mask = mask if side == "right" else mask.flip(1)
    hidden = ~mask[:, None, :, None].expand(2, 2, 10, 4)

    def run(fill):
        inputs = [t.detach().masked_fill(hidden, fill).requires_grad_() for t in (q, k, *blocks)]
        y = multi_hop(inputs[0], inputs[1], inputs[2:], mask=mask, causal=causal, backend=backend)
        valid = y[~hidden]
        return valid, torch.autograd.grad(valid.square().sum(), inputs)

    (clean, clean_gradients), (dirty, dirty_gradients) = run(0.5), run(content)
    assert torch.isfinite(clean).all()
    torch.testing.assert_close(dirty, clean, rtol=0, atol=0)
    for dirty_gradient, clean_gradient in zip(dirty_gradients, clean_gradients, strict=True):
        torch.testing.assert_close(dirty_gradient[~hidden], clean_gradient[~hidden])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("causal", [False, True])
def test_rows_of_the_graph_sum_to_one_and_hidden_nodes_have_no_edges(kind, causal):
    q, k, _ = draw(batch=2, nodes=12)
    mask = masks(kind, 2, 2, 12)
    a = adjacency(q, k, mask=mask, causal=causal)
    torch.testing.assert_close(a.sum(-1), torch.ones_like(a.sum(-1)))
    assert (a >= 0).all()
    if kind == "padding":
        assert (a.transpose(-1, -2)[~mask[:, None].expand(2, 2, 12)] == 0).all()
    if causal:
        assert (a.triu(1) == 0).all()


@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_coo])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_a_batch_may_share_one_stored_graph(layout, batch):
    graph, b = torch.rand(5, 5, dtype=torch.float64), torch.rand(*batch, 5, 4, dtype=torch.float64)
    stored = graph if layout == torch.strided else graph.to_sparse(layout=layout)
    torch.testing.assert_close(explicit_hop(stored)(b), graph @ b)


def test_low_precision_stays_close_to_float64():
    q, k, blocks = draw(nodes=40, query=16, width=16, kappa=4, grad=False)
    mask = masks("padding", 2, 2, 40)
    truth = multi_hop(q, k, blocks, mask=mask, causal=True, backend="reference")
    for dtype, tolerance in [(torch.float32, 1e-5), (torch.bfloat16, 5e-2), (torch.half, 5e-3)]:
        low = [t.to(dtype) for t in (q, k, *blocks)]
        y = multi_hop(low[0], low[1], low[2:], mask=mask, causal=True, backend="sdpa")
        assert y.dtype == dtype
        assert (y.double() - truth).abs().max() < tolerance * truth.abs().max()


def test_autocast_allows_mixed_dtypes():
    q, k, blocks = draw(dtype=torch.float32, nodes=20)
    truth = multi_hop(q, k, blocks)
    with torch.autocast("cpu", torch.bfloat16):
        y = multi_hop(q.bfloat16(), k, blocks, backend="sdpa")
    assert (y.float() - truth).abs().max() < 5e-2 * truth.abs().max()
