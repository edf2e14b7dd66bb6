"""Networks as tables, graphs, words and differences."""

from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from fighter import FighterError
from fighter.explain.network import LEAST, NOTE, resample

from .networks import random_network


def changed(network, name, places, value):
    matrix = getattr(network, name).copy()
    matrix[places] = value
    return replace(network, **{name: matrix})


def test_a_table_begins_with_the_strongest_link():
    network = random_network(6)
    table = network.table()
    strength = table.strength.to_numpy()
    assert (np.diff(strength) <= 0).all()
    assert len(table) == 36
    assert len(network.table(own=False)) == 30
    assert len(network.table(top=4)) == 4
    first = table.iloc[0]
    i, j = (network.ids.index(first[end]) for end in ("source", "target"))
    assert first.strength == network.strength[i, j]
    assert first.lag == network.lag[i, j]


def test_a_graph_holds_the_stable_links():
    network = random_network(6)
    graph = network.to_networkx()
    assert isinstance(graph, nx.DiGraph)
    assert set(graph) == set(network.ids)
    stable = network.stability >= 0.5
    assert graph.number_of_edges() == stable.sum()
    for source, target, about in graph.edges(data=True):
        place = network.ids.index(source), network.ids.index(target)
        assert stable[place]
        assert about["lag"] == network.lag[place]
        assert about["strength"] == network.strength[place]
    assert network.to_networkx(top=2).number_of_edges() == 2
    assert network.to_networkx(stability=0).number_of_edges() == 30
    for name, wrong in (("stability", "x"), ("stability", 80), ("most", 0)):
        with pytest.raises(FighterError) as error:
            (network.summary if name == "most" else network.to_networkx)(**{name: wrong})
        assert error.value.argument == name


def test_a_network_does_not_differ_from_itself():
    network = random_network(8)
    table = network.compare(network)
    assert not len(table)
    assert list(table.columns) == [
        "source", "target", "change", "before", "after", "lag_before", "lag_after"
    ]  # fmt: skip


def test_changes_are_named():
    before = random_network(5)
    places = [(i, j) for i in range(5) for j in range(5) if i != j][:5]
    rows = tuple(np.array(places).T)
    before = changed(before, "stability", rows, [0.0, 1.0, 1.0, 1.0, 1.0])
    before = changed(before, "strength", rows, [0.01, 0.3, 0.3, 0.3, 0.3])
    before = changed(before, "sign", rows, 1)
    after = changed(before, "stability", rows, [1.0, 0.0, 1.0, 1.0, 1.0])
    after = changed(after, "strength", rows, [0.3, 0.01, 0.5, 0.1, 0.3])
    after = changed(after, "sign", rows, [1, 1, 1, 1, -1])
    table = after.compare(before).set_index(["source", "target"])
    names = [table.change[before.ids[i], before.ids[j]] for i, j in places]
    assert names == ["appeared", "vanished", "stronger", "weaker", "turned"]
    assert len(table) == 5
    assert table.before.iloc[0] != table.after.iloc[0]


def test_a_change_within_the_noise_is_not_told():
    before = random_network(5)
    after = replace(before, strength=before.strength + 0.02, deviation=before.deviation + 0.01)
    assert not len(after.compare(before))


def test_only_series_in_both_are_compared():
    one, other = random_network(4), random_network(4, ids=("x", "zone 2", "y", "zone 0"), seed=1)
    assert set(one.compare(other).source) <= {"zone 0", "zone 2"}
    with pytest.raises(FighterError) as caught:
        one.compare(replace(other, ids=tuple("abcd")))
    assert caught.value.argument == "other"
    with pytest.raises(FighterError) as caught:
        one.compare(one.table())
    assert caught.value.argument == "other"


def test_the_summary_names_the_strongest_links():
    network = random_network(6)
    first = network.table(top=1, own=False).iloc[0]
    lines = network.summary(most=2).splitlines()
    assert lines[1].startswith(f"{first.target} follows {first.source} by {first.lag} hours")
    assert lines[-1] == NOTE
    assert "not a cause" in NOTE
    assert str(network) == network.summary()
    none = replace(network, stability=np.zeros((6, 6)))
    assert "No link between two series is stable." in none.summary()
    assert "6 series" in repr(network)


def test_series_with_strong_links_are_neighbours():
    """Two chains whose series are mixed up."""
    network = random_network(12, links=0)
    chains = ([0, 4, 8, 2, 6, 10], [1, 5, 9, 3, 7, 11])
    places = tuple(np.array([p for c in chains for p in pairwise(c)]).T)
    network = changed(changed(network, "strength", places, 0.3), "stability", places, 1.0)
    order = network.order().tolist()
    found = order[:6], order[6:]
    for chain in chains:
        assert chain in found or chain[::-1] in found


def test_strength_is_what_was_borne_out():
    """A part that is what should have been counts whole; one that says nothing counts for less."""
    rng = np.random.default_rng(0)
    part = rng.normal(size=(200, 2, 2))
    wanted = part.copy()
    wanted[:, 1, 0] = rng.normal(size=200)  # what should have been has nothing to do with the part
    wanted[:, 0, 1] = -part[:, 0, 1]
    strength, stability, deviation = resample(part * wanted, part**2, prior=10.0)
    assert strength[0, 0] == pytest.approx(np.sqrt((part[:, 0, 0] ** 2).mean()))
    assert strength[1, 0] < 0.25
    assert strength[0, 1] == 0
    assert stability[0, 1] == 0
    assert (deviation >= 0).all()
    weak, stable, _ = resample(1e-6 * part * part, 1e-6 * part**2, prior=10.0)
    assert (weak < LEAST).all()
    assert not stable.any()


@pytest.mark.parametrize("top", [0, True, 1.5])
def test_a_number_of_rows_is_checked(top):
    with pytest.raises(FighterError) as caught:
        random_network(3).table(top=top)
    assert caught.value.argument == "top"
