from dataclasses import replace

import numpy as np
import pytest
import torch

from fighter.explain import THRESHOLDS, describe_forecast, describe_graph, describe_layer
from fighter.explain.findings import describe_briefly

from .graphs import FixedDiagnostics, neutral_diagnostics, random_graph, random_layer

POWERS = (0, 1, 2, 3)


def describe(powers=POWERS, ordered=True, **numbers) -> list[str]:
    """Describe a layer of 8 nodes whose parts have one sign; ``numbers``: name → hop → value."""
    diagnostics = neutral_diagnostics(2, powers)
    for name, by_hop in numbers.items():
        values = getattr(diagnostics, name).clone()
        for hop, value in by_hop.items():
            values[:, powers.index(hop)] = value
        diagnostics = replace(diagnostics, **{name: values})
    layer = random_layer(tuple("abcdefgh"), 2, powers)
    layer = replace(layer, lazy_diagnostics=FixedDiagnostics(diagnostics))
    return describe_layer(layer, ordered=ordered)


def describe_near(count, lag):
    diagnostics = replace(neutral_diagnostics(1, (0, 1)), mean_lag=torch.tensor([[0.0, lag]]))
    layer = random_layer(tuple(map(str, range(count))), 1, (0, 1))
    return describe_layer(replace(layer, lazy_diagnostics=FixedDiagnostics(diagnostics)))


def test_near_means_nearer_than_in_an_even_graph():
    lag = 8 / 9  # 3 nodes with equal weights: (0 + 1 + 2 + 1 + 0 + 1 + 2 + 1 + 0) / 9
    assert describe_near(3, lag) == []
    assert describe_near(3, 0.51 * lag) == []
    assert len(describe_near(3, 0.49 * lag)) == 1
    assert describe_near(2, 0.5) == []
    assert len(describe_near(20, 0.9)) == 1


def test_what_rounding_leaves_of_zero_is_zero():
    (sentence,) = describe(mean_lag={2: 2.6e-14})
    assert sentence == "Hop 2 reaches only nearby nodes (mean lag 0)."


def test_nothing_is_said_within_the_thresholds():
    assert describe() == []


SENTENCES = {
    "dispersion": "Hop 2 gives all nodes the same row (dispersion ",
    "entropy": "Hop 2 attends to all nodes equally (entropy ",
    "effective_sources": "Hop 2 attends to almost a single node (effective sources ",
    "mean_lag": "Hop 2 reaches only nearby nodes (mean lag ",
    "norm_share": "Hop 2 sends almost nothing (share of the norm ",
    "signed_share": "Hop 2 cancels what other hops send (signed share ",
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_sentence_is_said_on_one_side_of_its_threshold(name):
    threshold = THRESHOLDS[name]
    sign = 1 if threshold.above else -1
    within, beyond = threshold.value - 0.01 * sign, threshold.value + 0.01 * sign
    assert describe(**{name: {2: within}}) == []
    (sentence,) = describe(**{name: {2: beyond}})
    assert sentence == f"{SENTENCES[name]}{beyond:.2g})."


def test_a_hop_is_described_only_if_every_head_crosses_the_threshold():
    assert describe(dispersion={2: torch.tensor([0.01, 0.06])}) == []
    (sentence,) = describe(dispersion={2: torch.tensor([0.01, 0.04])})
    assert sentence.endswith("(dispersion 0.04).")


def test_several_hops_share_one_sentence():
    (sentence,) = describe(dispersion={2: 0.03, 3: 0.001})
    assert sentence == "Hops 2 and 3 give all nodes the same row (dispersion 0.03, 0.001)."
    (sentence,) = describe(entropy={1: 0.96, 2: 0.97, 3: 0.98})
    assert sentence.startswith("Hops 1, 2 and 3 attend to all nodes equally")


def test_the_trivial_numbers_of_hop_0_are_not_described():
    assert describe(effective_sources={0: 1.0}, mean_lag={0: 0.0}, dispersion={0: 0.0}) == []


def test_lags_between_series_are_not_described():
    assert describe(mean_lag={1: 0.1}, ordered=False) == []
    diagnostics = replace(neutral_diagnostics(), mean_lag=torch.zeros(2, 3))
    graph = random_graph(nodes="series", lookback=6)
    layer = replace(graph.layers[0], lazy_diagnostics=FixedDiagnostics(diagnostics))
    over_series = replace(graph, layers=(layer,))
    assert not [line for line in describe_graph(over_series) if "mean lag" in line]
    over_time = replace(graph, layers=(replace(layer, nodes=("1", "2", "3")),))
    assert [line for line in describe_graph(over_time) if "mean lag" in line]


@pytest.mark.parametrize(
    ("likeness", "expected"),
    [
        ({0: 0.98, 1: 0.98, 2: 0.98}, []),
        ({2: 0.992}, ["Hop 3 repeats hop 2 (likeness 0.992): κ=3 may be enough."]),
        ({1: 0.995, 2: 0.992}, ["Hops 2 and 3 repeat hop 1 (likeness 0.992): κ=2 may be enough."]),
        (
            {0: 0.999, 1: 1, 2: 1},
            ["Hops 1, 2 and 3 repeat hop 0 (likeness 0.999): κ=1 may be enough."],
        ),
        ({0: 0.995}, ["Hop 1 repeats hop 0 (likeness 0.995)."]),
        (
            {0: 0.995, 2: 0.991},
            [
                "Hop 1 repeats hop 0 (likeness 0.995).",
                "Hop 3 repeats hop 2 (likeness 0.991): κ=3 may be enough.",
            ],
        ),
    ],
)
def test_repeating_hops_are_named(likeness, expected):
    assert describe(redundancy=likeness) == expected


def test_no_kappa_is_suggested_for_chosen_powers():
    (sentence,) = describe(powers=(0, 2, 5), redundancy={2: 0.999})
    assert sentence == "Hop 5 repeats hop 2 (likeness 0.999)."


@pytest.mark.parametrize(
    ("gap", "powers", "expected"),
    [
        (0.89, (0, 1, 2), []),
        (
            0.97,
            (0, 1, 2),
            ["The graph mixes in one step (gap 0.97): later hops have little to add."],
        ),
        (0.97, (0, 1), []),  # there are no later hops
    ],
)
def test_a_graph_that_mixes_in_one_step(gap, powers, expected):
    diagnostics = replace(neutral_diagnostics(1, powers), spectral_gap=torch.tensor([gap]))
    layer = random_layer(tuple("abcd"), 1, (0, 1, 2))
    layer = replace(layer, powers=powers, lazy_diagnostics=FixedDiagnostics(diagnostics))
    assert describe_layer(layer) == expected


def test_a_single_node_has_no_other_to_attend_to():
    (sentence,) = describe_layer(random_layer(("a",), 2, (0, 1, 2)))
    assert sentence == "There is only one node, so there is no other to attend to."


@pytest.mark.parametrize(("parts", "times"), [((6, -4.9), None), ((6, -5.0), "11 times")])
def test_cancelling_parts_are_described_above_the_threshold(parts, times):
    layer = random_layer(tuple("ab"), 1, (1,))
    edges = np.zeros((1, 1, 2, 2))
    edges[0, 0, 0] = parts
    diagnostics = FixedDiagnostics(neutral_diagnostics(1, (1,)))
    lines = describe_layer(replace(layer, lazy_diagnostics=diagnostics, parts=edges))
    assert lines == ([f"Parts cancel: Σ|parts| is {times} |Σ parts|."] if times else [])


def test_parts_that_cancel_completely_do_not_divide_by_zero():
    sources = np.zeros((1, 4, 3))
    sources[0, 0, :2] = 1, -1
    graph = random_graph(lookback=4)
    assert "completely" in describe_forecast(replace(graph, sources=sources))[0]
    assert describe_forecast(replace(graph, sources=0 * sources)) == []


def test_the_spread_of_parts_over_past_values():
    def describe(*sizes):
        sources = np.zeros((1, 10, 2))
        sources[0, : len(sizes), 0] = sizes
        return describe_forecast(replace(random_graph(2, 10), sources=sources))

    assert describe(3.0) == ["A single past value dominates (1 effective sources)."]
    # By hand: shares p, 1 - p give exp(-p ln p - (1-p) ln(1-p)) = 1.5 at p = 0.860.
    assert describe(0.87, 0.13)[0] == "A single past value dominates (1.5 effective sources)."
    assert "dominates" not in " ".join(describe(0.85, 0.15))
    assert describe(8, 4, *[0.1] * 8) == []  # 2.6 of 10
    assert describe(*[1] * 9) == []  # so few are seen at a glance
    (sentence,) = describe(*[1] * 10)
    assert sentence == "No past value stands out: it is as if 10 of 10 had equal weight."


def test_a_summary_includes_what_is_said_about_the_forecast():
    sources = np.zeros((1, 4, 3))
    sources[0, 0, :2] = 1, -0.9
    text = replace(random_graph(lookback=4), sources=sources).summary()
    assert "Parts cancel: Σ|parts| is 19 times" in text


HEADLINES = {
    "Only its own past.": [[0], [1]],
    "Mostly its own last day; a adds a little.": [[0, 0.1], [0.2, 0.9]],
    "Partly its own past; a adds much.": [[0.5, 0], [0.5, 0]],
    "Hardly its own past; a adds much.": [[0, 1], [0, 0]],
    "No past value has a part.": [[0], [0]],
}


@pytest.mark.parametrize("text", HEADLINES)
def test_the_headline_says_where_most_comes_from(text):
    """The second of two series is the target; parts are those of the day before and of the last."""
    sources = np.zeros((1, 48, 2))
    for series, days in enumerate(HEADLINES[text]):
        for day, part in enumerate(days):
            sources[0, 24 * day + 5, series] = part
    graph = replace(random_graph(2, 48, ids=("a", "b")), sources=sources)
    assert describe_briefly(graph) == text


def test_the_headline_of_many_series_names_a_few():
    sources = np.zeros((1, 24, 30))
    sources[0, 3] = 1
    graph = replace(random_graph(30, 24), sources=sources)
    assert describe_briefly(graph).startswith("Only a little its own past; zone 0, zone 2 and 27")
    sources[0, 3, :] = 0.02
    sources[0, 3, 1] = 1
    assert describe_briefly(graph) == "Mostly its own past; many other series add a little each."
