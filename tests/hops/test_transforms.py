"""vmap, second derivatives and torch.export of the operator."""

import pytest
import torch
from torch.export import Dim, export
from torch.func import grad, jvp, vmap

from fighter import FighterError, multi_hop

from ..pairs import pairs

BACKENDS = ["auto", "stored", "sdpa", "reference"]


def masks(kind, nodes):
    """Return a mask for each of three batches of two."""
    match kind:
        case "padding":
            return (
                torch.arange(nodes) < torch.tensor([[nodes, 3], [nodes, nodes], [2, 4]])[..., None]
            )
        case "pairs":
            return torch.randn(3, 2, 1, nodes, nodes)
    return None


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's own, of fused attention
@pairs(backend=BACKENDS, mask=["none", "padding", "pairs"], causal=[False, True], nodes=[5, 260])
def test_vmap_maps_over_batches_with_their_masks(backend, mask, causal, nodes):
    q, mask = torch.randn(3, 2, 2, nodes, 4), masks(mask, nodes)

    def apply(q, mask=None):
        return multi_hop(q, q, [q, q, q], mask=mask, causal=causal, backend=backend)

    def slope(q, *mask):
        return grad(lambda q: apply(q, *mask).square().mean())(q)

    given = (q,) if mask is None else (q, mask)
    for function in (apply, slope):
        expected = torch.stack([function(*each) for each in zip(*given, strict=True)])
        torch.testing.assert_close(vmap(function)(*given), expected)


def twice(backend, nodes, mask):
    q = torch.randn(2, 2, nodes, 4, dtype=torch.float64, requires_grad=True)
    y = multi_hop(q, q, [q, q, q], mask=mask, backend=backend).square().sum()
    (slope,) = torch.autograd.grad(y, q, create_graph=True)
    return torch.autograd.grad(slope.square().sum(), q)[0], q, slope


@pytest.mark.parametrize("mask", ["none", "padding"])
def test_second_derivatives_agree_where_the_graph_is_stored(mask):
    mask = None if mask == "none" else masks(mask, 5)[0]
    found = []
    for backend in ("auto", "stored", "reference"):
        torch.manual_seed(0)
        found.append(twice(backend, 5, mask)[0])
    torch.testing.assert_close(found[1], found[2])
    torch.testing.assert_close(found[0], found[2])


@pytest.mark.parametrize(("backend", "nodes"), [("sdpa", 5), ("auto", 260)])
def test_fused_attention_names_the_backend_that_has_second_derivatives(backend, nodes):
    q = torch.randn(2, 2, nodes, 4, requires_grad=True)
    y = multi_hop(q, q, [q, q, q], backend=backend).square().sum()
    (slope,) = torch.autograd.grad(y, q, create_graph=True)
    slope.sum().detach()  # the gradient itself is fine
    with pytest.raises(FighterError, match="'stored'") as caught:
        slope.square().sum().backward()
    assert caught.value.argument == "backend"
    q.grad = None
    multi_hop(q, q, [q, q, q], backend=backend).sum().backward()  # q keeps no hook
    assert q.grad is not None


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # torch's own, of forward derivatives
def test_torch_func_takes_the_stored_graph_for_second_derivatives():
    q = torch.randn(1, 2, 260, 4, dtype=torch.float64)

    def total(q, backend="auto"):
        return multi_hop(q, q, [q, q], backend=backend).square().sum()

    def second(backend):
        return grad(lambda q: grad(lambda q: total(q, backend))(q).square().sum())(q)

    torch.testing.assert_close(second("auto"), second("stored"))
    torch.testing.assert_close(
        jvp(total, (q,), (q,))[1], (grad(total)(q) * q).sum(), rtol=1e-9, atol=1e-9
    )
    with pytest.raises(FighterError, match="'stored'"):
        second("sdpa")


class Hops(torch.nn.Module):
    def forward(self, q, mask):
        return multi_hop(q, q, [q, q, q], mask=mask, causal=True)


@pytest.mark.slow
def test_an_exported_operator_serves_any_number_of_nodes():
    batch, nodes = Dim("batch", min=2, max=64), Dim("nodes", min=2, max=4096)
    example = torch.randn(3, 2, 7, 4), torch.ones(3, 7, dtype=torch.bool)
    shapes = ({0: batch, 2: nodes}, {0: batch, 1: nodes})
    program = export(Hops(), example, dynamic_shapes=shapes).module()
    for count in (4, 255, 300):
        q, mask = torch.randn(2, 2, count, 4), torch.ones(2, count, dtype=torch.bool)
        mask[0, 2:] = False
        expected = Hops()(q, mask).transpose(1, 2)[mask]
        got = program(q, mask).transpose(1, 2)[mask]
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
