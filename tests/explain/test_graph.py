import sys
from dataclasses import replace

import pytest

from fighter import FighterError
from fighter.explain import describe_forecast

from .graphs import random_graph


def test_lags_count_from_the_forecast():
    graph = random_graph(lookback=4)
    assert graph.step == 3
    assert graph.lags.tolist() == [6, 5, 4, 3]


def test_a_summary_ends_with_what_the_parts_do_not_say():
    graph = random_graph()
    *lines, note = graph.summary().splitlines()
    assert lines == graph.sentences()
    assert lines[len(lines) - len(describe_forecast(graph)) :] == describe_forecast(graph)
    assert "without a value" in note


def test_the_bound_is_the_last_term_of_a_summary():
    graph = random_graph()
    clamped = replace(graph, terms={"level": 10.0, "bound": 0.25, "bias": 0.5})
    assert clamped.sentences()[0].endswith("bound +0.25.")


def test_a_missing_networkx_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(FighterError, match="pip install networkx"):
        random_graph().to_networkx()


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda graph: graph.edges(top=0), "top"),
        (lambda graph: graph.layer_edges(top=True), "top"),
        (lambda graph: graph.layer_edges(layer=2), "layer"),
        (lambda graph: graph.layer_edges(layer=-3), "layer"),
    ],
)
def test_errors_name_the_argument(call, argument):
    with pytest.raises(FighterError) as error:
        call(random_graph(layers=2))
    assert error.value.argument == argument
