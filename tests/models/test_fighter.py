import pytest
import torch

from fighter.errors import FighterError
from fighter.models import Fighter, Task, build_core

from ..contract.test_models import SMALL

TASK = Task(lookback=20, horizon=4, series=3, outputs=2, context=2)
PAST, CONTEXT = torch.randn(2, 20, 3), torch.randn(2, 2)


@pytest.mark.parametrize("nodes", ["series", "patch", "time"])
def test_plain_layers_are_the_formula_of_the_paper(nodes):
    core = build_core("fighter", TASK, **SMALL, nodes=nodes, adjacency="dynamic", plain=True).eval()
    (layer,) = core.encoder.layers
    assert {name.split(".")[0] for name, _ in layer.named_parameters()} == {"adjacency", "values"}
    x = core.node_features(PAST, CONTEXT)
    heads = [
        layer.graph(x, power=i) @ (x @ layer.weight(i)).unflatten(-1, (2, -1)).transpose(1, 2)
        for i in range(3)
    ]
    wanted = torch.nn.functional.gelu(sum(heads).transpose(1, 2).flatten(2))
    torch.testing.assert_close(core.encoder(x), wanted)


@pytest.mark.parametrize("lookback", [3, 16, 20, 24])
def test_the_last_patch_ends_with_the_lookback_and_the_first_value_fills_up(lookback):
    config = Fighter(**SMALL, nodes="patch", adjacency="cosine", patch=8, stride=6)
    core = config.build(Task(lookback, 2, 1))
    (patches,) = core._patches(torch.arange(float(lookback)).reshape(1, -1, 1))
    assert len(patches) == len(core.position)
    assert patches[-1].tolist() == list(range(lookback))[-8:]
    starts = [max(lookback - min(8, lookback) - 6 * i, 0) for i in reversed(range(len(patches)))]
    assert [patch[0].item() for patch in patches] == starts


def test_the_adjacency_decides_whether_series_can_change():
    for adjacency, series_specific in [("lazy", True), ("mixed", True), ("cosine", False)]:
        core = Fighter(**SMALL, adjacency=adjacency).build(TASK)
        assert core.series_specific == series_specific
    assert Fighter(**SMALL, nodes="time", adjacency="cosine").build(TASK).series_specific
    assert not Fighter(**SMALL, nodes="patch", adjacency="lazy").build(TASK).series_specific


def test_without_a_forecaster_there_are_fallbacks_for_open_options():
    core = Fighter().build(TASK)
    (layer,) = core.encoder.layers
    assert (layer.width, layer.dropout.p, layer.adjacency.stay, core.members) == (512, 0.1, 0.5, 1)
    assert Fighter(dropout=0.0).build(TASK).dropout.p == 0.0


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"nodes": "words"}, "nodes"),
        ({"adjacency": "fixed"}, "adjacency"),
        ({"powers": (2, 1)}, "powers"),
        ({"members": 2, "nodes": "patch"}, "members"),
        ({"members": 0}, "members"),
        ({"width": 20}, "heads"),
        ({"patch": 0}, "patch"),
        ({"stride": 0}, "stride"),
        ({"plain": "yes"}, "plain"),
    ],
)
def test_errors_name_the_argument(options, argument):
    with pytest.raises(FighterError, match=rf"^{argument}\b"):
        Fighter(**options)


def test_powers_replace_kappa():
    assert Fighter(powers=[0, 2]).powers == (0, 2)
    (layer,) = build_core("fighter", TASK, **SMALL, powers=[0, 2]).encoder.layers
    assert layer.powers == (0, 2)
