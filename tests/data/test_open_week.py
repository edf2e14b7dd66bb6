import numpy as np
import pandas as pd
import pytest

from fighter.data import Frequency, to_panel
from fighter.data.open_week import DAY, MINUTE, WEEKDAYS, OpenWeek
from fighter.errors import FighterError


def nanoseconds(times: pd.DatetimeIndex) -> np.ndarray:
    return times.tz_localize(None).as_unit("ns").asi8.copy()


def days(n: int, closed: tuple[int, ...], start: str = "2020-01-01") -> pd.DatetimeIndex:
    """Return ``n`` days, of which those of the ``closed`` weekdays (Monday is 0) are left out."""
    every = pd.date_range(start, periods=2 * n + 14)
    return every[~np.isin(every.day_of_week, closed)][:n]


def trading_hours(start: str, end: str) -> pd.DatetimeIndex:
    """Return steps of five minutes from 09:30 to 15:55 on working days."""
    every = pd.date_range(start, end, freq="5min")
    minutes = every.hour * 60 + every.minute
    return every[(every.day_of_week < 5) & (minutes >= 570) & (minutes < 960)]


@pytest.mark.parametrize(
    "alias",
    ["D[Mon-Sat]", "D[Mon-Thu,Sun]", "5min[Mon-Fri 09:30-15:55]", "30min[Mon-Sun 08:00-16:30]",
     "h[Mon-Fri 09:00-17:00; Sat 09:00-12:00]", "h[Mon-Fri 09:00-11:00 13:00-17:00]",
     "6h[Mon,Wed 06:00-18:00]"],
)  # fmt: skip
def test_hours_are_written_as_text_that_can_be_read(alias):
    freq = Frequency.parse(alias)
    assert str(freq) == alias
    assert Frequency.parse(str(freq)) == freq


@pytest.mark.parametrize(
    "alias",
    ["D[]", "D[Mo]", "D[Fri-Mon]", "7h[Mon-Fri]", "W[Mon]", "MS[Mon]", "s[Mon]", "h[Mon 9-17]",
     "h[Mon 25:00-26:00]"],
)  # fmt: skip
def test_other_hours_are_refused(alias):
    with pytest.raises(FighterError) as error:
        Frequency.parse(alias)
    assert (error.value.argument, error.value.value) == ("freq", alias)


def test_monday_to_friday_are_business_days():
    assert str(Frequency.parse("D[Mon-Fri]")) == "B"
    assert Frequency.parse("B").week == WEEKDAYS


@pytest.mark.parametrize(
    "alias", ["B", "2B", "D[Mon-Sat]", "5min[Mon-Fri 09:30-15:55]", "h[Sat 09:00-12:00]"]
)
def test_stamps_and_their_positions_agree(alias):
    freq = Frequency.parse(alias)
    start = int(freq.range(nanoseconds(pd.DatetimeIndex(["2024-01-03 00:02"]))[0], 1)[0])
    times = freq.range(start, 500)
    assert (np.diff(times) > 0).all()
    assert freq.week.is_open(times).all()
    np.testing.assert_array_equal(freq.positions(times, start), np.arange(500))
    np.testing.assert_array_equal(freq.range(start, 20, first=-20)[0], freq.range(start, 1, -20)[0])
    np.testing.assert_array_equal(freq.future(int(times[99]), 100), times[100:200])


def test_no_open_step_is_skipped():
    times = trading_hours("2024-01-01", "2024-03-01")
    freq = Frequency.parse("5min[Mon-Fri 09:30-15:55]")
    np.testing.assert_array_equal(freq.range(nanoseconds(times)[0], len(times)), nanoseconds(times))


@pytest.mark.parametrize(
    ("times", "alias", "season"),
    [
        (days(200, (6,)), "D[Mon-Sat]", (6,)),
        (days(200, (4, 5)), "D[Mon-Thu,Sun]", (5,)),
        (days(200, (5, 6)), "B", (5,)),
        (days(200, ()), "D", (7, 365)),
        (days(200, (0, 2, 4, 5, 6)), "D[Tue,Thu]", (2,)),
        (days(200, (1, 3, 5, 6)), "D[Mon,Wed,Fri]", (3,)),
        (pd.date_range("2020", periods=200, freq="2D").delete([7, 30]), "2D", ()),
        (days(20, (6,)), "D", (7, 365)),  # three weeks are too few
        (trading_hours("2024-01-01", "2024-01-18 23:55"), "5min[Mon-Fri 09:30-15:55]", (78, 390)),
        (trading_hours("2024-01-01", "2024-01-05 23:55"), "5min", (288, 2016)),  # one week
    ],
)
def test_closed_days_and_hours_are_inferred(times, alias, season):
    freq = Frequency.infer(nanoseconds(times))
    assert (str(freq), freq.season) == (alias, season)


@pytest.mark.parametrize(
    ("last", "holidays", "lost"),
    [
        ("2024-01-12", [], 0.0),  # one weekend
        ("2024-01-19", ["2024-01-05", "2024-01-16"], 0.1),
        ("2024-03-29", ["2024-01-01", "2024-02-12", "2024-03-29"], 0.2),
    ],
)
def test_opening_hours_are_found_despite_holidays_and_missing_rows(last, holidays, lost):
    times = trading_hours("2024-01-01", f"{last} 23:55")
    times = times[~times.normalize().isin(pd.DatetimeIndex(holidays))]
    times = times[np.random.default_rng(0).random(len(times)) >= lost]
    freq = Frequency.infer(nanoseconds(times))
    assert (str(freq), freq.season) == ("5min[Mon-Fri 09:30-15:55]", (78, 390))


def test_a_quiet_weekend_of_a_sensor_is_a_gap():
    times = pd.date_range("2024-01-01", "2024-01-14 23:55", freq="5min")
    assert str(Frequency.infer(nanoseconds(times[times.day_of_week < 5]))) == "5min"


def test_open_steps_are_named_if_all_are_asked_for():
    times = trading_hours("2024-01-01", "2024-02-01")
    table = pd.DataFrame({"ds": times, "y": np.arange(len(times), dtype=float)})
    panel = to_panel(table, freq="5min")
    assert (str(panel.freq), panel.freq.season) == ("5min", (288, 2016))
    closed = [str(note) for note in panel.data_notes if note.kind == "closed"]
    assert len(closed) == 1
    assert "pass the frequency 5min[Mon-Fri 09:30-15:55]" in closed[0]
    assert to_panel(table, freq="5min", scheme=panel.scheme).data_notes[0].kind == "gaps"


def test_hours_may_differ_between_days():
    every = pd.date_range("2024-01-01", "2024-03-31 23:00", freq="h")
    week = (every.day_of_week < 5) & (every.hour >= 9) & (every.hour < 18)
    times = every[week | ((every.day_of_week == 5) & (every.hour >= 9) & (every.hour < 13))]
    freq = Frequency.infer(nanoseconds(times))
    assert str(freq) == "h[Mon-Fri 09:00-17:00; Sat 09:00-12:00]"
    assert freq.season == (5 * 9 + 4,)
    assert "time_of_day_sin" in freq.calendar_names
    assert freq.span(3) == "3 open steps"


def test_random_gaps_close_nothing():
    rng = np.random.default_rng(0)
    for freq, n in (("D", 400), ("h", 3000)):
        every = pd.date_range("2024-01-01", periods=n, freq=freq)
        for kept in (0.5, 0.8, 0.97):
            times = nanoseconds(every[rng.random(n) < kept])
            assert OpenWeek.infer(times, None, 60 * MINUTE if freq == "h" else DAY) is None


def test_a_shop_that_opened_on_sundays_lately_is_open():
    times = days(600, (6,))
    sundays = pd.date_range(times[-1] - pd.Timedelta(days=27), times[-1], freq="W")
    assert str(Frequency.infer(nanoseconds(times.union(sundays)))) == "D"


@pytest.mark.parametrize("freq", [None, "B"])
def test_a_few_weekend_rows_are_left_out_with_a_note(freq):
    business = days(300, (5, 6))
    saturday = pd.Timestamp("2020-06-06")
    times = business.append(pd.DatetimeIndex([saturday])).sort_values()
    panel = to_panel(pd.DataFrame({"ds": times, "y": np.arange(301.0)}), freq=freq)
    assert str(panel.freq) == "B"
    assert panel.length == 300
    (note,) = panel.data_notes
    assert note.kind == "closed"
    assert "2020-06-06 in row" in str(note)
    np.testing.assert_array_equal(
        panel.values[:, 0], np.delete(np.arange(301), times.get_loc(saturday))
    )


def test_scattered_weekend_rows_do_not_make_calendar_days():
    rng = np.random.default_rng(0)
    weekends = pd.date_range("2010-01-01", "2024-12-31")
    weekends = rng.choice(weekends[weekends.day_of_week >= 5], 49, replace=False)
    times = days(3865, (5, 6), "2010-01-01").union(pd.DatetimeIndex(weekends))
    panel = to_panel(pd.DataFrame({"ds": times, "y": 1.0}))
    assert str(panel.freq) == "B"
    assert panel.length == 3865


@pytest.mark.parametrize("n", [25, 60, 95, 3865])
@pytest.mark.parametrize("day", [5, 6])
@pytest.mark.parametrize("where", ["apart", "in a row"])
def test_a_rare_day_stays_closed_however_few_the_weeks(n, day, where):
    business = days(n, (5, 6), "2010-01-04")
    weekends = pd.date_range(business[5], business[-5])
    weekends = weekends[weekends.day_of_week == day]
    count = 49 if n == 3865 else 1
    rare = weekends[:: 1 if where == "in a row" else len(weekends) // count][:count]
    panel = to_panel(pd.DataFrame({"ds": business.union(rare), "y": 1.0}))
    assert (str(panel.freq), panel.length) == ("B", n)


def test_a_shop_with_four_open_sundays_a_year_is_closed_on_sundays():
    shop = days(624, (6,))
    sundays = pd.date_range("2020-02-02", periods=8, freq="91D")
    panel = to_panel(pd.DataFrame({"ds": shop.union(sundays), "y": 1.0}))
    assert (str(panel.freq), panel.length) == ("D[Mon-Sat]", 624)
    assert [note.kind for note in panel.data_notes] == ["closed", "closed"]
    assert not any(str(note).startswith("All rows") for note in panel.data_notes)


def test_a_series_with_many_rows_on_weekends_keeps_them():
    business = pd.DataFrame({"unique_id": "b", "ds": days(3000, (5, 6)), "y": 1.0})
    daily = pd.DataFrame({"unique_id": "d", "ds": days(60, (), "2022-01-01"), "y": 2.0})
    panel = to_panel(pd.concat([business, daily]))
    assert str(panel.freq) == "D"
    assert panel.observed.sum() == 3060


def test_calendar_days_are_not_business_days():
    table = pd.DataFrame({"ds": days(100, ()), "y": 1.0})
    with pytest.raises(FighterError) as error:
        to_panel(table, freq="B")
    assert (error.value.argument, error.value.value) == ("freq", "B")
    assert to_panel(table, freq="D").length == 100


def test_a_given_frequency_has_every_step():
    table = pd.DataFrame({"ds": days(200, (6,)), "y": 1.0})
    panel = to_panel(table, freq="D")
    assert str(panel.freq) == "D"
    assert panel.length > 200


def test_opening_hours_are_kept_on_the_local_clock():
    """In UTC they would move by an hour in March."""
    times = trading_hours("2024-01-01", "2024-06-18 23:55")
    table = pd.DataFrame({"ds": times.tz_localize("America/New_York"), "y": 1.0})
    panel = to_panel(table)
    assert panel.axis.wall
    assert str(panel.freq) == "5min[Mon-Fri 09:30-15:55]"
    assert panel.observed.all()
    later = to_panel(table.iloc[-100:], scheme=panel.scheme)
    np.testing.assert_array_equal(later.times, panel.times[-100:])


def test_hours_at_which_clocks_change_stay_in_utc():
    every = pd.date_range("2024-01-01", "2024-06-18", freq="h", tz="Europe/Berlin")
    times = every[every.day_of_week != 5]
    panel = to_panel(pd.DataFrame({"ds": times, "y": 1.0}))
    assert not panel.axis.wall
    assert panel.observed.sum() == len(times)


def test_rows_that_are_lost_by_chance_close_no_day():
    days = pd.date_range("1990-08-09", periods=45)
    lost = [day for day in days if day.day_name() == "Tuesday"][1:]  # one Tuesday is there
    kept = days.drop([*lost, *days[[8, 9, 20, 22, 24, 32, 36, 38]].difference(lost)])
    table = pd.DataFrame({"ds": kept, "y": range(len(kept))})
    assert str(to_panel(table).freq) == "D"
