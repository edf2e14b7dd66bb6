"""Pictures of the difference of two forecasts."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from fighter.plotting.changes import draw
from fighter.plotting.forecasts import Track


@pytest.mark.parametrize("horizon", [1, 2])
def test_few_steps_are_drawn_and_counted_in_whole_numbers(horizon):
    times = np.arange(5, 5 + horizon)
    before, after = (
        Track("a", np.arange(5), np.ones(5), times, np.full(horizon, y)) for y in (1.0, 2.0)
    )
    figure = draw(before, after, {"price": np.ones(horizon)})
    figure.canvas.draw()
    top, below = figure.axes[:2]
    ticks = [tick for tick in below.get_xticks() if 0.6 < tick < horizon + 0.4]
    assert ticks == [float(step) for step in range(1, horizon + 1)]
    if horizon == 1:  # a line of one point is not seen
        assert [line.get_marker() for line in top.lines[1:3]] == ["o", "o"]
    plt.close(figure)
