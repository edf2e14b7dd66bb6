from dataclasses import replace

import numpy as np
import pytest
import torch

from fighter.explain import THRESHOLDS, read, read_layer
from fighter.explain.findings import read_forecast

from .graphs import Known, layer, made_up, numbers

POWERS = (0, 1, 2, 3)


def with_numbers(powers=POWERS, ordered=True, **more) -> list[str]:
    """What is said of a layer of 8 nodes whose parts all pull one way."""
    made = layer(tuple("abcdefgh"), 2, powers)
    quiet = numbers(2, powers)
    for name, hops in more.items():
        values = getattr(quiet, name).clone()
        for hop, value in hops.items():
            values[:, powers.index(hop)] = value
        quiet = replace(quiet, **{name: values})
    return read_layer(replace(made, measured=Known(quiet)), ordered=ordered)


def test_of_what_is_in_order_nothing_is_said():
    assert with_numbers() == []


SAID = {
    "dispersion": "Hop 2 is one row for all nodes (dispersion ",
    "entropy": "Hop 2 listens to all nodes alike (entropy ",
    "effective_sources": "Hop 2 listens to nearly one node (effective sources ",
    "mean_lag": "Hop 2 stays close by (mean lag ",
    "norm_share": "Hop 2 says next to nothing (share of the norm ",
    "signed_share": "Hop 2 cancels what the others say (signed share ",
}


@pytest.mark.parametrize("name", SAID)
def test_each_side_of_each_limit(name):
    limit = THRESHOLDS[name].limit
    beyond, within = (
        (limit + 0.01, limit - 0.01) if THRESHOLDS[name].above else (limit - 0.01, limit + 0.01)
    )
    assert with_numbers(**{name: {2: within}}) == []
    (sentence,) = with_numbers(**{name: {2: beyond}})
    assert sentence == f"{SAID[name]}{beyond:.2g})."


def test_a_hop_is_spoken_of_only_if_it_holds_in_every_head():
    assert with_numbers(dispersion={2: torch.tensor([0.01, 0.06])}) == []
    (sentence,) = with_numbers(dispersion={2: torch.tensor([0.01, 0.04])})
    assert sentence.endswith("(dispersion 0.04).")


def test_several_hops_are_one_sentence():
    (sentence,) = with_numbers(dispersion={2: 0.03, 3: 0.001})
    assert sentence == "Hops 2 and 3 are one row for all nodes (dispersion 0.03, 0.001)."
    (sentence,) = with_numbers(entropy={1: 0.96, 2: 0.97, 3: 0.98})
    assert sentence.startswith("Hops 1, 2 and 3 listen to all nodes alike")


def test_the_identity_has_one_source_and_no_lag_which_is_not_worth_saying():
    assert with_numbers(effective_sources={0: 1.0}, mean_lag={0: 0.0}, dispersion={0: 0.0}) == []


def test_series_stand_in_no_order():
    assert with_numbers(mean_lag={1: 0.1}, ordered=False) == []
    graph = made_up(nodes="series", lookback=6)
    close = replace(numbers(), mean_lag=torch.zeros(2, 3))
    graph = replace(graph, layers=(replace(graph.layers[0], measured=Known(close)),))
    assert not [said for said in read(graph) if "close by" in said]
    in_time = replace(graph, layers=(replace(graph.layers[0], nodes=("1", "2", "3")),))
    assert [said for said in read(in_time) if "close by" in said]


@pytest.mark.parametrize(
    ("likeness", "expected"),
    [
        ({0: 0.98, 1: 0.98, 2: 0.98}, []),
        ({2: 0.992}, ["Hop 3 repeats hop 2 (likeness 0.992): κ=3 would do."]),
        ({1: 0.995, 2: 0.992}, ["Hops 2 and 3 repeat hop 1 (likeness 0.992): κ=2 would do."]),
        ({0: 0.999, 1: 1, 2: 1}, ["Hops 1, 2 and 3 repeat hop 0 (likeness 0.999): κ=1 would do."]),
        ({0: 0.995}, ["Hop 1 repeats hop 0 (likeness 0.995)."]),
        (
            {0: 0.995, 2: 0.991},
            [
                "Hop 1 repeats hop 0 (likeness 0.995).",
                "Hop 3 repeats hop 2 (likeness 0.991): κ=3 would do.",
            ],
        ),
    ],
)
def test_hops_that_repeat_others(likeness, expected):
    assert with_numbers(redundancy=likeness) == expected


def test_kappa_is_not_spoken_of_where_powers_are_chosen():
    (sentence,) = with_numbers(powers=(0, 2, 5), redundancy={2: 0.999})
    assert sentence == "Hop 5 repeats hop 2 (likeness 0.999)."


def test_a_graph_that_mixes_at_once():
    made = layer(tuple("abcd"), 1, (0, 1, 2))

    def said(gap, powers=(0, 1, 2)):
        found = replace(numbers(1, powers), spectral_gap=torch.tensor([gap]))
        return read_layer(replace(made, powers=powers, measured=Known(found)))

    assert said(0.89) == []
    assert said(0.97) == ["The graph mixes in one step (gap 0.97): later hops have little to add."]
    assert said(0.97, (0, 1)) == []  # there are no later hops


def test_one_node_has_nobody_to_listen_to():
    (sentence,) = read_layer(layer(("a",), 2, (0, 1, 2)))
    assert sentence == "There is one node, and no other to listen to."


@pytest.mark.parametrize(("parts", "times"), [((6, -4.9), None), ((6, -5.0), "11 times")])
def test_parts_that_cancel(parts, times):
    made = replace(layer(tuple("ab"), 1, (1,)), measured=Known(numbers(1, (1,))))
    edges = np.zeros((1, 1, 2, 2))
    edges[0, 0, 0] = parts
    said = read_layer(replace(made, parts=edges))
    assert said == ([f"Parts cancel: Σ|parts| is {times} what they add up to."] if times else [])


def test_parts_that_cancel_altogether_are_no_division_by_zero():
    sources = np.zeros((1, 4, 3))
    sources[0, 0, :2] = 1, -1
    assert "without end" in read_forecast(replace(made_up(lookback=4), sources=sources))[0]
    assert read_forecast(replace(made_up(lookback=4), sources=0 * sources)) == []


def test_one_value_few_values_and_all_values():
    def said(*sizes):
        sources = np.zeros((1, 10, 2))
        sources[0, : len(sizes), 0] = sizes
        return read_forecast(replace(made_up(2, 10), sources=sources))

    assert said(3.0) == ["Nearly one past value alone counts (1 effective sources)."]
    # By hand: shares p, 1 - p give exp(-p ln p - (1-p) ln(1-p)) = 1.5 at p = 0.860.
    assert said(0.87, 0.13)[0] == "Nearly one past value alone counts (1.5 effective sources)."
    assert "alone" not in " ".join(said(0.85, 0.15))
    assert said(8, 4, *[0.1] * 8) == []  # 2.6 of 10
    assert said(*[1] * 9) == []  # so few are seen at a glance
    assert said(*[1] * 10) == ["No past values stand out: as if 10 of 10 counted alike."]


def test_a_summary_tells_what_is_said_of_the_forecast():
    sources = np.zeros((1, 4, 3))
    sources[0, 0, :2] = 1, -0.9
    text = replace(made_up(lookback=4), sources=sources).summary()
    assert "Parts cancel: Σ|parts| is 19 times" in text
