import sys

import numpy as np
import pytest

from fighter.errors import FighterError
from fighter.plotting.forecasts import MOST_SERIES, Track, draw, save_figure


def track(name: str = "a", *, stamps: bool = True) -> Track:
    hours = np.arange(60)
    times = (
        np.datetime64("2024-01-01", "ns") + hours * np.timedelta64(3600, "s") if stamps else hours
    )
    wave = 100 + np.sin(hours / 4)
    band = {level: (wave[48:] - level / 80, wave[48:] + level / 80) for level in (80, 95)}
    return Track(name, times[:48], wave[:48], times[48:], wave[48:] + 0.1, band, wave[48:])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 20])
def test_one_picture_a_series_and_one_legend(count, tmp_path):
    figure = draw([track(str(i)) for i in range(count)], title="Load")
    shown = [axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()]
    assert shown == [str(i) for i in range(count)]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["observed", "95 %", "80 %", "forecast"]
    save_figure(figure, tmp_path / "f.png")
    assert [path.name for path in tmp_path.iterdir()] == ["f.png"]


def test_integers_on_the_time_axis(tmp_path):
    save_figure(draw([track(stamps=False)]), tmp_path / "f.svg")
    assert (tmp_path / "f.svg").stat().st_size > 0


def test_too_many_series_are_cut_and_that_is_said():
    figure = draw([track(str(i)) for i in range(MOST_SERIES + 1)])
    assert len(figure.axes) == MOST_SERIES
    assert f"the first {MOST_SERIES} of {MOST_SERIES + 1}" in figure.get_suptitle()


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(FighterError, match=r"fighter\[plot\]"):
        draw([track()])
