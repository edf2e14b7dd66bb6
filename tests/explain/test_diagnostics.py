import json
import math

import pytest
import torch

from fighter.explain import LazyDiagnostics, diagnose, hop_parts
from fighter.explain.diagnostics import spectral_gap
from fighter.nn import FighterLayer, TransformerEncoder
from fighter.nn.adjacency import Adjacency

B, S, D = 3, 7, 6


class FixedGraph(Adjacency):
    """An adjacency that returns a given graph."""

    def __init__(self, a):
        super().__init__()
        self.heads, self.a = 1, a

    def hop(self, x, **options):
        raise NotImplementedError

    def graph(self, x, *, mask=None, causal=False):
        return self.a.to(x).expand(len(x), 1, -1, -1)


def double(module):
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return module.double().eval()


def inputs():
    return torch.randn(B, S, D, dtype=torch.float64)


def norm(m):
    return math.sqrt(sum(float(v) ** 2 for row in m for v in row))


@torch.no_grad()
def literal(layer, x):
    """Compute every number by its definition, one example, head and hop at a time."""
    rows = {}
    for b in range(len(x)):
        t = layer.norm(x)[b]
        for h in range(layer.heads):
            a = layer.graph(x)[b, h]
            columns = slice(h * layer.head_width, (h + 1) * layer.head_width)
            seen = [torch.linalg.matrix_power(a, p) @ t for p in layer.powers]
            sent = [m @ layer.weight(i)[:, columns] for i, m in enumerate(seen)]
            y = sum(sent)
            moduli = sorted(abs(v) for v in torch.linalg.eigvals(a).tolist())
            for i, p in enumerate(layer.powers):
                ap = torch.linalg.matrix_power(a, p)
                entropies = [-sum(float(v) * math.log(v) for v in r if v > 0) for r in ap]
                pairs = [(j, s) for j in range(len(ap)) for s in range(len(ap))]
                row = {
                    "spectral_gap": 1 - moduli[-2],
                    "dispersion": norm(seen[i] - seen[i].mean(0)) / norm(t - t.mean(0)),
                    "norm_share": norm(sent[i]) / sum(map(norm, sent)),
                    "signed_share": float((sent[i] * y).sum() / (y * y).sum()),
                    "entropy": sum(entropies) / len(ap) / math.log(len(ap)),
                    "effective_sources": sum(map(math.exp, entropies)) / len(ap),
                    "mean_lag": sum(abs(j - s) * float(ap[j, s]) for j, s in pairs) / len(ap),
                }
                if i + 1 < len(layer.powers):
                    one, two = (m - m.mean(0) for m in seen[i : i + 2])
                    row["redundancy"] = float((one * two).sum()) / (norm(one) * norm(two))
                rows.setdefault((h, p), []).append(row)
    return {
        at: {name: sum(row[name] for row in some) / len(some) for name in some[0]}
        for at, some in rows.items()
    }


@pytest.mark.parametrize(
    "options",
    [
        {"kappa": 4, "heads": 2},
        {"powers": (0, 2, 3), "norm": True, "residual": True},
        {"kappa": 3, "heads": 3, "mix_heads": True, "adjacency": "static", "nodes": S},
    ],
)
def test_every_number_matches_its_definition(options):
    layer, x = double(FighterLayer(D, **options)), inputs()
    table = diagnose(layer, x).table()
    expected = literal(layer, x)
    assert {(row["head"], row["power"]) for row in table} == set(expected)
    for row in table:
        for name, value in expected[row["head"], row["power"]].items():
            assert row[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name


def test_shares_add_up_to_one_and_hop_0_has_dispersion_one():
    numbers = diagnose(double(FighterLayer(D, kappa=5, heads=2, norm=True)), inputs())
    ones = torch.ones(2, dtype=torch.float64)
    torch.testing.assert_close(numbers.signed_share.sum(1), ones, rtol=0, atol=1e-14)
    torch.testing.assert_close(numbers.norm_share.sum(1), ones, rtol=0, atol=1e-14)
    torch.testing.assert_close(numbers.dispersion[:, 0], ones)


def test_a_graph_of_self_loops():
    numbers = diagnose(double(FighterLayer(D, adjacency=FixedGraph(torch.eye(S)))), inputs())
    assert numbers.spectral_gap.abs().max() < 1e-12
    assert (numbers.entropy == 0).all()
    assert (numbers.effective_sources == 1).all()
    assert (numbers.mean_lag == 0).all()
    torch.testing.assert_close(numbers.dispersion, torch.ones_like(numbers.dispersion))
    torch.testing.assert_close(numbers.redundancy[0, :2], torch.ones(2, dtype=torch.float64))


def test_a_uniform_graph():
    uniform = torch.full((S, S), 1 / S, dtype=torch.float64)
    numbers = diagnose(double(FighterLayer(D, adjacency=FixedGraph(uniform))), inputs())
    assert numbers.spectral_gap.item() == pytest.approx(1)
    assert numbers.entropy[0, 1:].tolist() == pytest.approx([1, 1])
    assert numbers.effective_sources[0, 1:].tolist() == pytest.approx([S, S])
    assert numbers.dispersion[0, 1:].max() < 1e-12
    assert numbers.redundancy[0].isnan().all()  # from hop 1 on, nodes do not differ
    lag = sum(abs(j - s) for j in range(S) for s in range(S)) / S**2
    assert numbers.mean_lag[0, 1:].tolist() == pytest.approx([lag, lag])


def test_what_all_nodes_have_in_common_does_not_make_hops_alike():
    ring = FixedGraph(torch.eye(S).roll(1, 0))
    x, far = inputs(), 1000 * torch.randn(D, dtype=torch.float64)
    layer = double(FighterLayer(D, adjacency=ring))
    numbers, moved = diagnose(layer, x), diagnose(layer, x + far)
    torch.testing.assert_close(moved.redundancy, numbers.redundancy, equal_nan=True)
    assert moved.redundancy[0, 0] < 0.9


def test_series_have_no_mean_lag():
    parts = hop_parts(double(FighterLayer(D)), inputs())
    table = LazyDiagnostics(parts, ordered=False).diagnostics.table()
    assert {row["mean_lag"] for row in table} == {None}
    assert None not in {row["mean_lag"] for row in LazyDiagnostics(parts).diagnostics.table()}


def test_a_cyclic_shift_has_no_gap_and_its_lag_grows_with_the_hop():
    """On a ring λ₂ is a root of unity, so hops never mix."""
    numbers = diagnose(
        double(FighterLayer(D, adjacency=FixedGraph(torch.eye(S).roll(1, 0)))), inputs()
    )
    assert numbers.spectral_gap.abs().item() < 1e-12
    assert numbers.effective_sources.tolist() == [[1, 1, 1]]
    lags = [0, (S - 1 + S - 1) / S, (2 * (S - 2) + 2 * (S - 2)) / S]
    assert numbers.mean_lag[0].tolist() == pytest.approx(lags)


def test_the_gap_of_a_causal_graph_follows_from_its_diagonal():
    layer, x = double(FighterLayer(D)), inputs()
    diagonal = layer.graph(x, causal=True).diagonal(dim1=-2, dim2=-1)
    expected = (1 - diagonal[..., 1:].amax(-1)).mean(0)
    torch.testing.assert_close(diagnose(layer, x, causal=True).spectral_gap, expected)


def test_padding_is_not_counted():
    layer, x = double(FighterLayer(D, heads=2, norm=True)), inputs()
    mask = (torch.arange(S) < 4).expand(B, S)
    padded = diagnose(layer, x.masked_fill(~mask[..., None], float("nan")), mask).table()
    for row, alone in zip(padded, diagnose(layer, x[:, :4]).table(), strict=True):
        assert row == pytest.approx(alone)


def test_a_transformer_block_has_one_hop():
    block = double(TransformerEncoder([D, D, D], heads=2, norm=True, residual=True).layers[0])
    x = inputs()
    numbers = diagnose(block, x)
    assert numbers.powers == (1,)
    torch.testing.assert_close(numbers.signed_share, torch.ones(2, 1, dtype=torch.float64))
    torch.testing.assert_close(numbers.spectral_gap, spectral_gap(block.graph(x)).mean(0))
    t = block.norm1(x)
    spread = [(block.graph(x) @ t[:, None]).var(-2, correction=0), t.var(1, correction=0)]
    expected = (spread[0].sum(-1) / spread[1].sum(-1, keepdim=True)).sqrt().mean(0)
    torch.testing.assert_close(numbers.dispersion[:, 0], expected)


def test_a_table_is_valid_json_even_where_numbers_are_undefined():
    rows = diagnose(FighterLayer(D, kappa=1), torch.ones(2, S, D)).table()
    (row,) = json.loads(json.dumps(rows, allow_nan=False))
    assert row["dispersion"] is None  # equal nodes have no spread
    assert row["redundancy"] is None
    assert row["signed_share"] == pytest.approx(1)
