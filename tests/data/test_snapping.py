"""Time stamps that are not quite regular."""

import numpy as np
import pandas as pd
import pytest

from fighter.data import future_values, to_panel
from fighter.errors import FighterError

START = pd.Timestamp("2024-01-01")


def table(times, name="a", **columns) -> pd.DataFrame:
    """Return a series whose values count its rows."""
    times = pd.DatetimeIndex(times)
    return pd.DataFrame(
        {"unique_id": name, "ds": times, "y": np.arange(len(times), dtype=float), **columns}
    )


def minutes(*apart: float, repeat: int = 1) -> pd.DatetimeIndex:
    """Return stamps that are so many minutes apart."""
    return START + pd.to_timedelta(np.cumsum([0, *apart * repeat]), unit="min")


def jittered(step: str, rows: int, by: str, start=START, seed: int = 0) -> pd.DatetimeIndex:
    noise = np.random.default_rng(seed).uniform(-1, 1, rows) * pd.Timedelta(by)
    return pd.date_range(start, periods=rows, freq=step) + pd.to_timedelta(noise)


def moved(panel) -> str:
    (note,) = [str(note) for note in panel.data_notes if note.kind == "shifted"]
    return note


@pytest.mark.parametrize("freq", [None, "30min"])
def test_stamps_27_and_33_minutes_apart_are_half_hours(freq):
    panel = to_panel(table(minutes(27, 33, repeat=30)), freq=freq)
    assert str(panel.freq) == "30min"
    assert (
        panel.times.tolist()
        == pd.date_range(START, periods=61, freq="30min").as_unit("ns").asi8.tolist()
    )
    assert panel.values[:, 0].tolist() == list(range(61))
    assert moved(panel).startswith(
        "30 of 61 time stamps moved to the nearest step of 30min, by at most 3 minutes "
        "(first: 2024-01-01 00:27:00 of 'a' in row 1)"
    )
    assert panel.snapped


@pytest.mark.parametrize("freq", [None, "5min"])
def test_the_last_of_two_stamps_of_one_step_is_kept(freq):
    """After 4 + 1 + 5 minutes, the phase is the old one, and one step has two rows."""
    panel = to_panel(table(minutes(*[5] * 40, 4, 1, *[5] * 40)), freq=freq)
    assert str(panel.freq) == "5min"
    assert (panel.length, panel.observed.all()) == (82, True)
    assert panel.values[40:43, 0].tolist() == [40, 42, 43]
    assert "; 1 row left out, because a later one falls on the same step" in moved(panel)


def test_rows_of_equal_stamps_are_still_compared():
    times = minutes(27, 33, repeat=30)
    double = pd.concat([table(times), table(times[[7]]).assign(y=7.0)])
    assert [note.kind for note in to_panel(double).data_notes] == ["shifted", "duplicates"]
    with pytest.raises(FighterError) as error:
        to_panel(double.assign(y=lambda t: np.arange(len(t))))
    assert error.value.argument == "id_col"


@pytest.mark.parametrize(
    ("step", "by", "start"),
    [
        ("1h", "20min", "2024-01-01"),
        ("1h", "3min", "2024-01-01 00:20"),
        ("15min", "40s", "2024-01-01"),
        ("10s", "900ms", "2024-01-01"),
        ("D", "3h", "2024-01-01 09:00"),
        ("D", "8h", "2024-01-01 15:00"),
        ("W", "5h", "2024-01-07 12:00"),
    ],
)
def test_jitter_is_removed(step, by, start):
    exact = pd.date_range(start, periods=200, freq=step).as_unit("ns")
    panel = to_panel(table(jittered(step, 200, by, start)))
    assert np.abs(panel.times - exact.asi8).max() <= pd.Timedelta(by).value
    assert np.ptp(np.diff(panel.times)) == 0
    assert panel.values[:, 0].tolist() == list(range(200))
    if by != "8h":  # too wide to tell the hour
        assert panel.times.tolist() == exact.asi8.tolist()


def test_series_may_have_their_own_jitter_and_gaps():
    parts = [jittered("1h", 300, "10min", seed=seed) for seed in range(3)]
    long = pd.concat([table(part, name) for part, name in zip(parts, "abc", strict=True)])
    long = long.sample(frac=0.9, random_state=0)
    panel = to_panel(long)
    assert (str(panel.freq), int(panel.observed.sum())) == ("h", len(long))
    where = panel.observed.all(axis=1)
    order = [panel.ids.index(name) for name in "abc"]
    assert np.ptp(panel.values[:, order][where], axis=1).max() == 0


def test_business_days_with_seconds_are_business_days():
    days = pd.bdate_range(START, periods=200) + pd.Timedelta("16h")
    seconds = pd.to_timedelta(np.random.default_rng(0).integers(0, 90, 200), unit="s")
    panel = to_panel(table(days + seconds))
    assert (str(panel.freq), panel.length) == ("B", 200)
    assert panel.times[0] == pd.Timestamp("2024-01-01 16:00").value


def test_opening_hours_are_found_after_snapping():
    hours = pd.date_range(START, periods=24 * 60, freq="h")
    hours = hours[(hours.hour >= 8) & (hours.hour < 18)]
    noise = pd.to_timedelta(np.random.default_rng(0).integers(-900, 900, len(hours)), unit="s")
    times = (hours + noise).to_series()
    times.iloc[[0, 300]] -= pd.Timedelta("20min")  # before half past seven
    panel = to_panel(table(times.array))
    assert str(panel.freq) == "h[Mon-Sun 08:00-17:00]"
    assert panel.freq.season == (10, 70)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC"])
def test_opening_hours_with_jitter_follow_the_local_clock(zone):
    hours = pd.date_range("2024-02-01", periods=24 * 120, freq="h")
    hours = hours[(hours.hour >= 8) & (hours.hour < 18)]
    times = hours + pd.to_timedelta(np.arange(len(hours)) % 7, unit="s")
    panel = to_panel(table(times.tz_localize(zone)))
    assert str(panel.freq) == "h[Mon-Sun 08:00-17:00]"
    assert [note.kind for note in panel.data_notes].count("shifted") == 1
    assert panel.observed.all()


def test_regular_tables_are_read_as_they_are():
    for times in (minutes(*[60] * 100), minutes(*[60] * 50, 180, *[60] * 50)):
        panel = to_panel(table(times + pd.Timedelta("7min")))
        assert not panel.snapped
        assert panel.times[0] == (START + pd.Timedelta("7min")).value


@pytest.mark.parametrize(
    ("times", "freq"),
    [
        (minutes(*[15] * 100), "h"),
        (minutes(*[70] * 100), "h"),
        (minutes(*[50] * 100), "h"),
        (minutes(*[90] * 100), "h"),
        (minutes(*[60] * 100), "D"),
        (minutes(*[60] * 100), "7min"),
        (minutes(27, 33, repeat=50), "h"),
        (minutes(27, 33, repeat=50), "20min"),
        (minutes(*np.random.default_rng(0).exponential(60, 300)), None),
        (minutes(*np.random.default_rng(0).exponential(60, 300)), "h"),
        (minutes(*np.random.default_rng(0).uniform(1, 300, 300)), None),
    ],
)
def test_stamps_at_another_frequency_are_refused(times, freq):
    with pytest.raises(FighterError) as error:
        to_panel(table(times), freq=freq)
    assert error.value.argument == "freq"


def test_the_frequency_to_pass_is_named():
    """One row in ten shares a step with another, too many to leave out unasked."""
    times = jittered("30min", 500, "18min")
    with pytest.raises(FighterError, match=r"pass freq='30min' .* leaves out \d+ rows of 500"):
        to_panel(table(times))
    assert str(to_panel(table(times), freq="30min").freq) == "30min"
    unusual = jittered("7min", 200, "30s")
    with pytest.raises(FighterError, match="pass freq='7min'"):
        to_panel(table(unusual))
    assert to_panel(table(unusual), freq="7min").observed.all()


def test_a_later_table_is_moved_to_the_grid_of_the_first():
    first = to_panel(table(jittered("1h", 200, "5min", "2024-01-01 00:20")))
    assert first.scheme.phase == pd.Timedelta("20min").value
    for stamp, step in (("2024-01-09 08:44", "08:20"), ("2024-01-09 08:56", "09:20")):
        later = to_panel(table([stamp]), scheme=first.scheme)
        assert later.times.tolist() == [pd.Timestamp(f"2024-01-09 {step}").value]


def test_rows_after_an_exact_table_may_be_off_slightly():
    first = to_panel(table(pd.date_range(START, periods=100, freq="h")))
    later = to_panel(table(["2024-01-05 04:00:13", "2024-01-05 05:01"]), scheme=first.scheme)
    assert later.times[0] == pd.Timestamp("2024-01-05 04:00").value
    assert "by at most 1 minute" in moved(later)
    far = to_panel(table(["2024-01-05 04:20", "2024-01-05 05:20"]), scheme=first.scheme)
    assert far.times[0] == pd.Timestamp("2024-01-05 04:20").value  # refused when it is joined


def test_future_covariates_are_moved_too():
    times = minutes(27, 33, repeat=30)
    panel = to_panel(table(times, x=1.0), future=["x"])
    ahead = table([times[-1] + pd.Timedelta(f"{m}min") for m in (28, 61, 95)]).assign(x=[2, 3, 4])
    assert future_values(panel, ahead, 3)[:, 0, 0].tolist() == [2, 3, 4]
