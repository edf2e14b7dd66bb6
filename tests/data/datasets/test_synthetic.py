import numpy as np
import pytest

from fighter.data import grid_load, to_panel
from fighter.errors import FighterError


def lagged_t_values(grid, longest=12) -> np.ndarray:
    """Regress every zone on the past of all zones; return |t| as ``[target, lag - 1, source]``."""
    hours, zones = grid.load.shape
    phase = 2 * np.pi * np.arange(hours)[:, None] * np.arange(1, 29) / 168
    own = np.empty_like(grid.load)
    for z in range(zones):
        warmth = grid.temperature[:, z : z + 1]
        cycle = np.hstack([np.ones((hours, 1)), np.sin(phase), np.cos(phase), warmth, warmth**2])
        own[:, z] = grid.load[:, z] - cycle @ np.linalg.lstsq(cycle, grid.load[:, z], rcond=None)[0]
    past = np.hstack([own[longest - lag : hours - lag] for lag in range(1, longest + 1)])
    inverse = np.linalg.inv(past.T @ past)
    weights = inverse @ past.T @ own[longest:]
    error = (own[longest:] - past @ weights).var(axis=0)
    t_values = np.abs(weights) / np.sqrt(np.diag(inverse)[:, None] * error)
    return t_values.T.reshape(zones, longest, zones)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_regression_finds_the_links_and_no_others(seed):
    grid = grid_load(seed=seed)
    t_values = lagged_t_values(grid)
    column = {zone: i for i, zone in enumerate(grid.zones)}
    assert len(grid.links) == 5
    for link in grid.links:
        here = (column[link.target], link.lag - 1, column[link.source])
        assert t_values[here] > 20
        t_values[here] = 0
    for zone in range(6):
        t_values[zone, :, zone] = 0  # a zone may follow itself
    assert t_values.max() < 5


@pytest.mark.parametrize("zones", [1, 2, 12])
def test_links_form_a_tree(zones):
    grid = grid_load(hours=200, zones=zones, seed=3)
    assert len(grid.zones) == len(set(grid.zones)) == zones
    parents = {link.target: link.source for link in grid.links}
    assert len(parents) == len(grid.links) == zones - 1
    for zone in grid.zones:
        seen = {zone}
        while zone in parents:
            zone = parents[zone]
            assert zone not in seen
            seen.add(zone)
    assert all(1 <= link.lag <= 12 and 0.4 <= link.weight <= 0.6 for link in grid.links)


def test_the_load_is_plausible_and_reproducible():
    grid = grid_load()
    assert grid.load.shape == grid.temperature.shape == (4368, 6)
    assert grid.load.min() > 500
    assert grid.load.max() < 9000
    np.testing.assert_array_equal(grid.load, grid_load().load)
    assert not np.array_equal(grid.load, grid_load(seed=1).load)
    # Other machines and versions must give these numbers too.
    np.testing.assert_allclose(grid.load[[0, 1000, -1], 0], [1857.0, 2110.9, 1711.8], atol=0.11)
    assert str(grid.links[0]) == "Link(source='west', target='east', lag=9, weight=0.532)"


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_the_table_becomes_a_panel(backend):
    grid = grid_load(hours=100)
    panel = to_panel(grid.frame(backend), future=["temperature"])
    assert panel.ids == grid.zones
    assert str(panel.freq) == "h"
    assert panel.data_notes == ()
    np.testing.assert_array_equal(panel.values, grid.load)
    np.testing.assert_array_equal(panel.future[..., 0], grid.temperature)


@pytest.mark.parametrize("argument", ["hours", "zones"])
def test_an_empty_grid_is_refused(argument):
    with pytest.raises(FighterError) as error:
        grid_load(**{argument: 0})
    assert error.value.argument == argument
