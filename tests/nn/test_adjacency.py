import sys

import pytest
import torch

from fighter import FighterError
from fighter.data.windows import Batch
from fighter.hops import explicit_hop
from fighter.models import Fighter, ForecastNet, Task
from fighter.nn import (
    Adjacency,
    CosineAdjacency,
    DynamicAdjacency,
    FighterLayer,
    LazyAdjacency,
    MixedAdjacency,
    StaticAdjacency,
)
from fighter.nn import adjacency as adjacency_folder
from fighter.nn.adjacency import KINDS, Sizes, find_adjacency, make_adjacency

from ..pairs import pairs

PADDING = torch.arange(7) < torch.tensor([[7], [5]])
SIZES = Sizes(width=6, heads=2, nodes=7)


def build(kind):
    adjacency = make_adjacency(kind, SIZES).double()
    if kind == "mixed":  # away from the symmetric start
        torch.nn.init.normal_(adjacency.gate)
    return adjacency


@pytest.mark.parametrize("kind", KINDS)
@pairs(padded=[False, True], causal=[False, True], backend=["stored", "sdpa"])
def test_a_hop_is_the_graph_times_the_features(kind, padded, causal, backend):
    adjacency, x = build(kind), torch.randn(2, 7, 6, dtype=torch.float64)
    b = torch.randn(2, 2, 7, 5, dtype=torch.float64)
    mask = PADDING if padded else None
    graph = adjacency.graph(x, mask=mask, causal=causal)
    assert graph.shape == (2, 2, 7, 7)
    torch.testing.assert_close(graph.sum(-1), torch.ones(2, 2, 7, dtype=torch.float64))
    assert (graph >= 0).all()
    hop = adjacency.hop(x, width=5, mask=mask, causal=causal, backend=backend)
    torch.testing.assert_close(hop(b), graph @ b, rtol=1e-11, atol=1e-12)
    if padded:
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
    expected = weights / weights.sum(-1, keepdim=True)
    for _ in range(2):
        torch.testing.assert_close(adjacency.graph(torch.randn(3, 7, 6))[2], expected)


def test_half_of_a_lazy_graph_stays():
    lazy, static = LazyAdjacency(nodes=7, heads=2), StaticAdjacency(nodes=7, heads=2)
    static.load_state_dict(lazy.state_dict())
    x = torch.randn(3, 7, 6)
    torch.testing.assert_close(lazy.graph(x), (torch.eye(7) + static.graph(x)) / 2)


def test_cosine_bounds_the_logits_and_keeps_hops_different():
    x = torch.randn(1, 64, 512)

    def dispersion(adjacency):
        """Return how much of the features' variation over nodes is left after two hops."""
        a = adjacency.graph(x)
        moved = a @ a @ x[:, None]
        return (moved - moved.mean(-2, keepdim=True)).norm() / (x - x.mean(-2)).norm()

    plain, cosine = DynamicAdjacency(512, 8), CosineAdjacency(512, 8)
    assert dispersion(cosine) > dispersion(plain)
    graph = cosine.graph(x)
    assert (graph.amax(-1) / graph.amin(-1)).log().max() <= 16 + 1e-4  # logits within ±8


def test_a_mixed_graph_lies_between_its_parts():
    dynamic, static = DynamicAdjacency(6, 2), StaticAdjacency(7, 2)
    mixed, x = MixedAdjacency(dynamic, static), torch.randn(1, 7, 6)
    for gate, part in [(50.0, static), (-50.0, dynamic)]:
        torch.nn.init.constant_(mixed.gate, gate)
        torch.testing.assert_close(mixed.graph(x), part.graph(x))


def test_each_kind_says_whether_it_is_learned_for_its_nodes():
    assert {kind: found.node_specific for kind, found in KINDS.items()} == {
        "dynamic": False, "cosine": False, "static": True, "lazy": True, "mixed": True,
    }  # fmt: skip


@pytest.fixture(params=[False, True])
def ring(request):
    """A new kind: one class and no other line. Every node looks at the next one and at itself."""

    class RingAdjacency(Adjacency, kind="ring"):
        node_specific = request.param

        def __init__(self, heads):
            super().__init__()
            self.heads = heads
            self.gate = torch.nn.Parameter(torch.zeros(heads, 1, 1))

        @classmethod
        def build(cls, sizes):
            return cls(sizes.heads)

        def hop(self, x, **options):
            return explicit_hop(self.graph(x))

        def graph(self, x, **options):
            eye, gate = torch.eye(x.shape[1]), self.gate.sigmoid()
            return (gate * eye + (1 - gate) * eye.roll(1, 1)).expand(len(x), -1, -1, -1)

    yield RingAdjacency
    del KINDS["ring"]


@pytest.mark.parametrize("nodes", ["series", "patch", "time"])
def test_a_new_kind_is_one_class(ring, nodes):
    task = Task(12, 4, 3)
    core = Fighter(adjacency="ring", nodes=nodes, width=16, heads=2, patch=4).build(task)
    assert isinstance(core.encoder.layers[0].adjacency, ring)
    node_specific = nodes == "series" and ring.node_specific
    assert core.series_specific == (nodes == "time" or node_specific)
    network, draw = ForecastNet(core), torch.Generator().manual_seed(1)
    assert (network.affine is not None) == core.series_specific
    past = torch.randn(16, 12, 3, generator=draw)
    batch = Batch(past, past[:, :4].roll(1, 2), None, None, torch.zeros(16, dtype=torch.long))
    optimiser, losses = torch.optim.Adam(network.parameters(), 0.01), []
    for _ in range(30):
        losses.append((network(batch, batch.start)[..., 0] - batch.future).square().mean())
        optimiser.zero_grad()
        losses[-1].backward()
        optimiser.step()
    assert losses[-1] < 0.5 * losses[0]
    assert core.encoder.layers[0].adjacency.gate.any()  # the graph has learned too


def test_a_file_in_the_folder_is_enough(tmp_path, monkeypatch):
    source = "from .static import StaticAdjacency\nclass Free(StaticAdjacency, kind='free'): ...\n"
    (tmp_path / "free.py").write_text(source)
    monkeypatch.setattr(adjacency_folder, "__path__", [*adjacency_folder.__path__, str(tmp_path)])
    adjacency_folder.register_all()
    try:
        assert isinstance(FighterLayer(8, adjacency="free", nodes=5).adjacency, StaticAdjacency)
    finally:
        del KINDS["free"], sys.modules["fighter.nn.adjacency.free"]


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: DynamicAdjacency(10, heads=3), "heads"),
        (lambda: DynamicAdjacency(8, scale=0.0), "scale"),
        (lambda: StaticAdjacency(0), "nodes"),
        (lambda: StaticAdjacency(5, heads=0), "heads"),
        (lambda: StaticAdjacency(5, stay=1), "stay"),
        (lambda: make_adjacency("static", Sizes(8, 2)), "nodes"),
        (lambda: make_adjacency("lazy", Sizes(8, 2)), "nodes"),
        (lambda: find_adjacency("fixed"), "adjacency"),
        (lambda: find_adjacency(3), "adjacency"),
        (lambda: MixedAdjacency(DynamicAdjacency(8, 2), StaticAdjacency(5, 4)), "static"),
        (lambda: FighterLayer(8, adjacency=StaticAdjacency(5))(torch.randn(1, 6, 8)), "x"),
        (lambda: FighterLayer(8, heads=4, adjacency=StaticAdjacency(5, 2)), "heads"),
    ],
)
def test_errors_name_the_argument(make, argument):
    with pytest.raises(FighterError, match=rf"^{argument}\b"):
        make()


def test_an_unknown_kind_is_answered_with_all_names_and_the_nearest():
    with pytest.raises(FighterError, match=r"dynamic, cosine, static, lazy, mixed.*'static'"):
        find_adjacency("statik")


def test_an_adjacency_without_build_cannot_be_made_by_name():
    with pytest.raises(NotImplementedError, match="Adjacency"):
        Adjacency.build(SIZES)
