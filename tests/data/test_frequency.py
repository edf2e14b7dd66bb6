import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fighter.data.frequency import DAY, HOUR, Frequency
from fighter.errors import FighterError

ALIASES = [
    "s", "10min", "15min", "h", "4h", "D", "2D", "W",
    "MS", "ME", "2MS", "QS", "QE", "YS", "YE", "B", "BMS", "BME", "BQS", "BQE",
]  # fmt: skip


def stamps(alias: str, n: int, start: str = "2019-12-28") -> np.ndarray:
    return pd.date_range(start, periods=n, freq=alias).as_unit("ns").asi8.copy()


@pytest.mark.parametrize("alias", ALIASES)
def test_the_grid_agrees_with_pandas(alias):
    times = stamps(alias, 200)
    freq = Frequency.parse(alias)
    np.testing.assert_array_equal(freq.range(times[0], 200), times)
    np.testing.assert_array_equal(freq.future(times[99], 100), times[100:])
    np.testing.assert_array_equal(freq.positions(times[::-1], times[0]), np.arange(200)[::-1])
    assert Frequency.parse(str(freq)) == freq


@pytest.mark.parametrize("alias", ALIASES)
@settings(max_examples=30)
@given(missing=st.sets(st.integers(1, 98), max_size=12), twice=st.integers(0, 86))
def test_the_frequency_is_inferred_despite_gaps_repeats_and_disorder(alias, missing, twice):
    times = np.delete(stamps(alias, 100), sorted(missing))
    times = np.append(times, times[twice])
    np.random.default_rng(0).shuffle(times)
    assert str(Frequency.infer(times)) == alias


def test_the_frequency_is_inferred_within_each_series():
    """Two hourly series half an hour apart are hourly, but do not share a grid."""
    one = stamps("h", 10)
    times, series = np.concatenate([one, one + HOUR // 2]), np.repeat([0, 1], 10)
    freq = Frequency.infer(times, series)
    assert str(freq) == "h"
    with pytest.raises(FighterError, match="10 of 20 time stamps") as error:
        freq.positions(times, freq.start(times))
    assert (error.value.argument, error.value.value) == ("freq", "h")


def test_weekdays_are_recognised_only_over_a_weekend():
    week = stamps("D", 5, "2024-01-01")
    assert str(Frequency.infer(week)) == "D"
    assert str(Frequency.infer(stamps("B", 8, "2024-01-01"))) == "B"


def test_months_may_begin_on_any_day():
    times = np.array(["2024-01-15", "2024-02-15", "2024-03-15"], "M8[ns]").astype(np.int64)
    freq = Frequency.infer(times)
    assert str(freq) == "MS"
    assert freq.show(freq.future(times[-1], 1)[0]) == "2024-04-15"
    # A month-end alias keeps the first of the month if the data have it.
    first = stamps("MS", 4, "2024-01-01")
    np.testing.assert_array_equal(Frequency.parse("M").range(first[0], 4), first)


@pytest.mark.parametrize(("day", "first"), [(30, 0), (30, 1), (29, 0), (29, 1)])
def test_a_late_day_of_the_month_is_kept(day, first):
    months = pd.date_range("2010-01-01", periods=40, freq="MS")
    times = [t.replace(day=min(day, t.days_in_month)) for t in months[first:]]
    numbers = pd.DatetimeIndex(times).as_unit("ns").asi8.copy()
    freq = Frequency.infer(numbers[:20])
    assert str(freq) == f"MS-{day}"
    assert Frequency.parse(str(freq)) == freq
    np.testing.assert_array_equal(freq.range(numbers[0], len(numbers)), numbers)
    np.testing.assert_array_equal(freq.future(numbers[0], 10), numbers[1:11])


@pytest.mark.parametrize(
    ("alias", "last"),
    [("YS", "2260-01-01"), ("D", "2262-04-01"), ("B", "2262-04-01"), ("h", "2262-04-11"),
     (1, None)],
)  # fmt: skip
def test_a_forecast_past_the_last_stamp_is_refused(alias, last):
    last = 2**63 - 3 if last is None else int(pd.Timestamp(last).as_unit("ns").value)
    with pytest.raises(FighterError) as error:
        Frequency.parse(alias).future(last, 30)
    assert error.value.argument == "horizon"


@pytest.mark.parametrize("alias", ["YS", "D", "B", "h", 1])
def test_stamps_before_the_first_do_not_wrap(alias):
    first = -(2**63) + 40 if alias == 1 else int(pd.Timestamp("1678-01-02").as_unit("ns").value)
    times = Frequency.parse(alias).range(first, 500_000, first=-499_999)
    assert (np.diff(times) >= 0).all()


def test_an_integer_axis():
    freq = Frequency.infer(np.array([0, 5, 10, 20, 25]), integer=True)
    assert str(freq) == "5"
    np.testing.assert_array_equal(freq.future(25, 2), [30, 35])
    assert freq.season == ()
    assert freq.calendar(np.arange(3)).shape == (3, 0)


def test_an_unclear_frequency_is_described():
    times = np.array([0, 1, 3, 7, 12, 20]) * DAY
    with pytest.raises(
        FighterError, match=r"D \(1 times\), 2D \(1 times\), .*8D \(1 times\);"
    ) as error:
        Frequency.infer(times)
    assert error.value.argument == "freq"
    with pytest.raises(FighterError, match=r"two different time stamps \(1 in all\)") as error:
        Frequency.infer(times[:1])
    assert error.value.argument == "freq"


def test_a_stray_first_stamp_is_named():
    times = np.append(stamps("h", 50, "2024-01-02"), stamps("h", 1, "2024-01-01 00:07")[0])
    freq = Frequency.parse("h")
    with pytest.raises(FighterError, match=r"1 of 51 .* 2024-01-01 00:07;"):
        freq.positions(times, freq.start(times))


@pytest.mark.parametrize(
    ("alias", "season"),
    [
        ("10min", (144, 1008)),
        ("15min", (96, 672)),
        ("h", (24, 168)),
        ("D", (7, 365)),
        ("W", (52,)),
        ("MS", (12,)),
        ("QE", (4,)),
        ("YS", ()),
        ("B", (5,)),
        (1, ()),
        ("7h", (24,)),
        ("3D", ()),
    ],
)
def test_natural_periods(alias, season):
    assert Frequency.parse(alias).season == season


@pytest.mark.parametrize(
    ("spelling", "alias"),
    [
        ("H", "h"),
        ("T", "min"),
        ("30T", "30min"),
        ("M", "ME"),
        ("A", "YE"),
        ("W-SUN", "W"),
        ("60min", "h"),
        ("Q-DEC", "QE"),
        ("7D", "W"),
        ("5", "5"),
        (3, "3"),
    ],
)
def test_other_spellings_are_understood(spelling, alias):
    assert str(Frequency.parse(spelling)) == alias


@pytest.mark.parametrize(
    "alias",
    ["", "x", "0h", "-1h", 0, True, "1.5h", "C", "MSE", "9" * 20 + "D", "9" * 19 + "D",
     2**63],
)  # fmt: skip
def test_an_unknown_alias_is_refused(alias):
    with pytest.raises(FighterError) as error:
        Frequency.parse(alias)
    assert (error.value.argument, error.value.value) == ("freq", alias)


@pytest.mark.parametrize(
    ("alias", "steps", "words"),
    [("h", 24, "1 day"), ("h", 25, "25 hours"), ("10min", 6, "1 hour"), ("10min", 7, "70 minutes"),
     ("D", 14, "2 weeks"), ("s", 1, "1 second"), ("ms", 1, "0.001 seconds"), ("MS", 1, "1 month"),
     ("QS", 2, "6 months"), ("B", 3, "3 weekdays"), (5, 2, "2 steps")],
)  # fmt: skip
def test_a_span_in_words(alias, steps, words):
    assert Frequency.parse(alias).span(steps) == words


@pytest.mark.parametrize(
    ("alias", "units"),
    [
        ("10min", ["time_of_day", "day_of_week", "day_of_year"]),
        ("D", ["day_of_week", "day_of_year"]),
        ("B", ["day_of_week", "day_of_year"]),
        ("W", ["day_of_year"]),
        ("MS", ["day_of_year"]),
        ("YS", []),
    ],
)
def test_calendar_features_by_frequency(alias, units):
    freq, times = Frequency.parse(alias), stamps(alias, 200)
    features = freq.calendar(times)
    assert freq.calendar_names == tuple(f"{u}_{w}" for u in units for w in ("sin", "cos"))
    assert features.shape == (200, 2 * len(units))
    for i in range(0, features.shape[1], 2):
        np.testing.assert_allclose((features[:, i : i + 2] ** 2).sum(axis=1), 1)


def test_calendar_features_at_noon_on_a_monday():
    noon = np.array(["2024-01-01 12:00"], "M8[ns]").astype(np.int64)
    features = Frequency.parse("h").calendar(noon)[0]
    np.testing.assert_allclose(features[:4], [0, -1, 0, 1], atol=1e-12)
