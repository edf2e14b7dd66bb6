"""Pictures of networks, from two series to five hundred."""

import numpy as np
import pytest
from matplotlib.patches import FancyArrowPatch

from fighter import FighterError

from ..explain.networks import random_network


@pytest.mark.parametrize("series", [2, 5, 30])
@pytest.mark.parametrize("dark", [False, True])
def test_a_circle_has_an_arrow_for_each_stable_link(series, dark, tmp_path):
    network = random_network(series)
    path = tmp_path / "net.png"
    figure = network.plot(path, dark=dark)
    assert path.stat().st_size > 1000
    arrows = [a for a in figure.axes[0].get_children() if isinstance(a, FancyArrowPatch)]
    assert len(arrows) == (network.stability >= 0.5).sum()
    assert len(network.plot(top=1).axes[0].patches) == 1


@pytest.mark.parametrize("series", [31, 60])
def test_a_matrix_has_a_cell_for_each_stable_link(series):
    network = random_network(series)
    axes = network.plot(dark=False).axes[0]
    cells = axes.images[0].get_array()
    order = network.order()
    drawn = (cells < 1).any(-1)  # rows are targets
    expected = (network.stability >= 0.5)[np.ix_(order, order)].T
    np.testing.assert_array_equal(drawn, expected)


def test_five_hundred_series_are_dots():
    network = random_network(500)
    axes = network.plot(top=300).axes[0]
    assert len(axes.collections[0].get_offsets()) == 300
    assert 10 < len(axes.get_xticks()) <= 60


def test_a_network_without_links_says_so():
    figure = random_network(4, links=0).plot()
    assert "no stable link" in [text.get_text() for text in figure.axes[0].texts]


@pytest.mark.parametrize(
    ("argument", "value"), [("kind", "tree"), ("top", 0), ("stability", 2), ("path", "net.txt")]
)
def test_wrong_arguments_are_refused(argument, value):
    with pytest.raises(FighterError):
        random_network(3).plot(**{argument: value})
