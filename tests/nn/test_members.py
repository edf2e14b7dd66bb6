"""The members of a layer compute what separate layers compute."""

import pytest
import torch

from fighter.errors import FighterError
from fighter.explain import diagnose
from fighter.nn import FighterLayer
from fighter.nn.adjacency import KINDS
from fighter.nn.members import MemberLinear, MemberNorm

WIDTH, HEADS, NODES = 8, 2, 5  # of each of two members


def pair(**options) -> tuple[FighterLayer, list[FighterLayer]]:
    """Build a layer of two members, and the two as separate layers with the same weights."""
    torch.manual_seed(0)
    common = {"norm": True, "residual": True, "nodes": NODES, **options}
    both = FighterLayer(2 * WIDTH, heads=2 * HEADS, members=2, **common)
    for parameter in both.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    per_member = [FighterLayer(WIDTH, heads=HEADS, **common) for _ in range(2)]
    for number, layer in enumerate(per_member):
        state = {}
        for name, mine in layer.state_dict().items():
            value = both.state_dict()[name]
            linear = value.ndim == 3 and len(value) == 2  # [members, in, out]
            state[name] = value[number].T if linear else value.chunk(2)[number].clone()
            assert state[name].shape == mine.shape
        layer.load_state_dict(state)
    return both, per_member


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("more", [{}, {"mix_heads": True, "project": True}])
def test_members_equal_separate_layers(kind, more):
    both, per_member = pair(adjacency=kind, **more)
    x = torch.randn(3, NODES, 2 * WIDTH)
    halves = [*zip(per_member, x.chunk(2, -1), strict=True)]
    torch.testing.assert_close(both(x), torch.cat([layer(half) for layer, half in halves], -1))
    graphs = torch.cat([layer.graph(half) for layer, half in halves], 1)
    torch.testing.assert_close(both.graph(x), graphs)
    for block in range(3):
        weights = torch.block_diag(*(layer.weight(block) for layer in per_member))
        torch.testing.assert_close(both.weight(block), weights)


def test_hops_are_measured_in_each_member_separately():
    both, per_member = pair(adjacency="cosine")
    for layer in (both, *per_member):
        layer.double()  # nodes differ by little after some hops
    x = torch.randn(3, NODES, 2 * WIDTH, dtype=torch.float64)
    alone = [
        row
        for layer, half in zip(per_member, x.chunk(2, -1), strict=True)
        for row in diagnose(layer, half).table()
    ]
    for row, expected in zip(diagnose(both, x).table(), alone, strict=True):
        for name in ("dispersion", "redundancy", "norm_share", "spectral_gap"):
            assert row[name] == pytest.approx(expected[name], abs=1e-5)


def test_a_member_starts_like_a_layer():
    linear = MemberLinear(4 * 64, 4 * 64, 4)
    bound = 64**-0.5
    assert linear.weight.abs().max() <= bound
    assert linear.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)
    y = MemberNorm(12, 3)(torch.randn(5, 12)).unflatten(-1, (3, 4))
    torch.testing.assert_close(y.mean(-1), torch.zeros(5, 3), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("wrong", "shared"),
    [
        ({"members": 3}, "width 16"),
        ({"members": 3, "width": 9, "out_width": 16}, "out_width 16"),
        ({"members": 4, "heads": 2}, "heads 2"),
        ({"members": 0}, "width 16"),
    ],
)
def test_members_share_evenly(wrong, shared):
    with pytest.raises(FighterError, match=shared) as error:
        FighterLayer(**{"width": 16, "heads": 4, **wrong})
    assert error.value.argument == "members"
