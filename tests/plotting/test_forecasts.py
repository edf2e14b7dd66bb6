import sys

import numpy as np
import pytest

from fighter.data.frequency import Frequency
from fighter.data.panel import Panel
from fighter.data.time_axis import TimeAxis
from fighter.errors import FighterError
from fighter.plotting.forecasts import MOST_SERIES, Track, draw, save_figure, tracks


def track(name: str = "a", *, stamps: bool = True) -> Track:
    hours = np.arange(60)
    times = (
        np.datetime64("2024-01-01", "ns") + hours * np.timedelta64(3600, "s") if stamps else hours
    )
    wave = 100 + np.sin(hours / 4)
    band = {level: (wave[48:] - level / 80, wave[48:] + level / 80) for level in (80, 95)}
    return Track(name, times[:48], wave[:48], times[48:], wave[48:] + 0.1, band, wave[48:])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, pytest.param(20, marks=pytest.mark.slow)])
def test_each_series_has_a_panel_and_all_share_a_legend(count, tmp_path):
    figure = draw([track(str(i)) for i in range(count)], title="Load")
    shown = [axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()]
    assert shown == [str(i) for i in range(count)]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["observed", "95 %", "80 %", "forecast"]
    save_figure(figure, tmp_path / "f.png")
    assert [path.name for path in tmp_path.iterdir()] == ["f.png"]


def test_integers_on_the_time_axis_can_be_drawn(tmp_path):
    save_figure(draw([track(stamps=False)]), tmp_path / "f.svg")
    assert (tmp_path / "f.svg").stat().st_size > 0


def test_the_title_says_how_many_series_are_shown():
    figure = draw([track(str(i)) for i in range(MOST_SERIES + 1)])
    assert len(figure.axes) == MOST_SERIES
    assert f"the first {MOST_SERIES} of {MOST_SERIES + 1}" in figure.get_suptitle()


def panel(kind: str) -> Panel:
    """Two series of 100 steps; the second ends 10 steps earlier and misses a value."""
    freq = Frequency.parse("h") if kind == "datetime" else Frequency.parse(1)
    times = freq.future(0, 100)
    values, observed = np.arange(200.0).reshape(100, 2), np.ones((100, 2), bool)
    observed[90:, 1] = observed[80, 1] = False
    ends = np.array([100, 90])
    return Panel(("a", "b"), times, values, observed, freq, TimeAxis(kind=kind), ends=ends)


@pytest.mark.parametrize(("kind", "horizon"), [("datetime", 20), ("integer", 4)])
def test_tracks_join_forecasts_with_the_end_of_the_history(kind, horizon):
    history, rows = panel(kind), max(3 * horizon, 48)
    last = [history.times[89], history.times[99]]
    times = np.stack([history.freq.future(int(time), horizon) for time in last], 1)
    point = np.arange(2.0 * horizon).reshape(horizon, 2)
    bands = {80.0: (point - 1, point + 1)}
    b, a = tracks(["b", "a"], times, point, bands, history, truth=point + 2)
    assert (b.name, a.name) == ("b", "a")
    assert len(b.past) == len(a.past) == rows
    assert a.past.tolist() == history.values[100 - rows :, 0].tolist()
    assert np.isnan(b.past).tolist() == [row == 80 for row in range(90 - rows, 90)]
    stamps = times.astype("M8[ns]") if kind == "datetime" else times
    assert b.times.dtype == b.past_times.dtype == stamps.dtype
    assert b.past_times[-1] == history.times[89:90].astype(stamps.dtype)[0]
    for k, track in enumerate((b, a)):
        assert track.times.tolist() == stamps[:, k].tolist()
        assert track.forecast.tolist() == point[:, k].tolist()
        assert [end.tolist() for end in track.bands[80.0]] == [
            (point[:, k] + side).tolist() for side in (-1, 1)
        ]
        assert track.truth.tolist() == (point[:, k] + 2).tolist()
    (short,) = tracks(["a"], times[:, 1:], point[:, 1:], {}, history)
    assert short.truth is None
    draw([a, b, short])


def test_a_short_history_is_shown_whole():
    history = panel("integer")
    point = np.zeros((50, 1))
    (track,) = tracks(["b"], np.arange(90, 140)[:, None], point, {}, history)
    assert len(track.past) == 90


def test_drawing_nothing_is_an_error():
    with pytest.raises(FighterError, match="nothing to draw"):
        draw([])


def test_a_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(FighterError, match="pip install matplotlib"):
        draw([track()])
