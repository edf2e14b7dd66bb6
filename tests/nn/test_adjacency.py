import pytest
import torch

from fighter import FighterError
from fighter.nn import DynamicAdjacency, FighterLayer, MixedAdjacency, StaticAdjacency
from fighter.nn.adjacency import KINDS, make_adjacency

PADDING = torch.arange(7) < torch.tensor([[7], [5]])


def build(kind):
    adjacency = make_adjacency(kind, width=6, heads=2, nodes=7).double()
    if kind == "mixed":  # away from the symmetric start
        torch.nn.init.normal_(adjacency.gate)
    return adjacency


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mask", [None, PADDING])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("backend", ["stored", "sdpa"])
def test_a_hop_is_the_graph_times_the_features(kind, mask, causal, backend):
    adjacency, x = build(kind), torch.randn(2, 7, 6, dtype=torch.float64)
    b = torch.randn(2, 2, 7, 5, dtype=torch.float64)
    graph = adjacency.graph(x, mask=mask, causal=causal)
    assert graph.shape == (2, 2, 7, 7)
    torch.testing.assert_close(graph.sum(-1), torch.ones(2, 2, 7, dtype=torch.float64))
    assert (graph >= 0).all()
    hop = adjacency.hop(x, width=5, mask=mask, causal=causal, backend=backend)
    torch.testing.assert_close(hop(b), graph @ b, rtol=1e-11, atol=1e-12)
    if mask is not None:
        assert (graph[1, :, :, 5:] == 0).all()
    if causal:
        assert (graph.triu(1) == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_of_a_graph_learns(kind):
    layer = FighterLayer(6, kappa=3, heads=2, adjacency=kind, nodes=7)
    layer(torch.randn(2, 7, 6)).square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_a_static_graph_is_the_normalised_softplus_for_any_input():
    adjacency = StaticAdjacency(nodes=7, heads=2)
    weights = torch.nn.functional.softplus(10 * adjacency.logits)
    wanted = weights / weights.sum(-1, keepdim=True)
    for _ in range(2):
        torch.testing.assert_close(adjacency.graph(torch.randn(3, 7, 6))[2], wanted)


def test_half_of_a_lazy_graph_stays():
    lazy = make_adjacency("lazy", 6, 2, nodes=7)
    plain = StaticAdjacency(nodes=7, heads=2)
    plain.load_state_dict(lazy.state_dict())
    x = torch.randn(3, 7, 6)
    torch.testing.assert_close(lazy.graph(x), (torch.eye(7) + plain.graph(x)) / 2)


def test_normalised_queries_bound_the_logits_and_keep_hops_apart():
    x = torch.randn(1, 64, 512)

    def dispersion(adjacency):
        """How much of the features' variation over nodes is left after two hops."""
        a = adjacency.graph(x)
        moved = a @ a @ x[:, None]
        return (moved - moved.mean(-2, keepdim=True)).norm() / (x - x.mean(-2)).norm()

    plain, cosine = DynamicAdjacency(512, 8), DynamicAdjacency(512, 8, normalise=True)
    assert dispersion(cosine) > dispersion(plain)
    graph = cosine.graph(x)
    assert (graph.amax(-1) / graph.amin(-1)).log().max() <= 16 + 1e-4  # logits within ±8


def test_a_mixed_graph_lies_between_its_parts():
    dynamic, static = DynamicAdjacency(6, 2), StaticAdjacency(7, 2)
    mixed, x = MixedAdjacency(dynamic, static), torch.randn(1, 7, 6)
    for gate, part in [(50.0, static), (-50.0, dynamic)]:
        torch.nn.init.constant_(mixed.gate, gate)
        torch.testing.assert_close(mixed.graph(x), part.graph(x))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DynamicAdjacency(10, heads=3), "heads=3 does not divide query_width=10"),
        (lambda: DynamicAdjacency(8, 2, normalise=True, scale=1.0), "temperature is learned"),
        (lambda: StaticAdjacency(0), "nodes=0"),
        (lambda: StaticAdjacency(5, stay=1), "stay=1: needs a share"),
        (lambda: make_adjacency("static", 8, 2), "needs nodes="),
        (
            lambda: make_adjacency("fixed", 8, 2),
            "needs one of dynamic, cosine, static, lazy, mixed",
        ),
        (lambda: MixedAdjacency(DynamicAdjacency(8, 2), StaticAdjacency(5, 4)), "2 heads.*4"),
        (
            lambda: FighterLayer(8, adjacency=StaticAdjacency(5))(torch.randn(1, 6, 8)),
            "x has 6 nodes, this static graph was made for 5",
        ),
        (lambda: FighterLayer(8, heads=4, adjacency=StaticAdjacency(5, 2)), "2 heads.*heads=4"),
    ],
)
def test_misuse_is_explained(make, message):
    with pytest.raises(FighterError, match=message):
        make()
