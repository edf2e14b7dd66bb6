import numpy as np
import pytest

from fighter import FighterError
from fighter.data import Frequency, Panel
from fighter.forecasting.autoconfig import (
    check_rows,
    choose_batch,
    choose_calendar,
    choose_cycle_before_norm,
    choose_discount,
    choose_epochs,
    choose_lookback,
    choose_period,
    choose_rate,
    choose_repeats,
    choose_size,
    choose_validation,
)


def panel(values, freq="h", observed=None):
    values = np.asarray(values, float)
    values = values[:, None] if values.ndim == 1 else values
    step = Frequency.parse(freq)
    times = step.range(1_704_067_200 * 10**9, len(values))
    seen = np.ones(values.shape, bool) if observed is None else observed
    return Panel(tuple(range(values.shape[1])), times, values, seen, step)


def weeks(count, weekly, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(168 * count)
    day = np.sin(2 * np.pi * t / 24)
    weekend = np.where((t // 24) % 7 < 5, 1.0, -1.0) if weekly else 0
    drift = np.cumsum(rng.normal(0, 0.05, len(t)))
    return day + weekend + drift + rng.normal(0, 0.3, len(t))


@pytest.mark.parametrize(("weekly", "period"), [(True, 168), (False, 24)])
def test_the_period_fits_rows_it_was_not_taken_from(weekly, period):
    assert choose_period(panel(weeks(20, weekly)), 168 * 20) == period


def test_noise_and_short_tables_have_no_period():
    noise = np.random.default_rng(0).normal(size=168 * 10)
    assert choose_period(panel(noise), len(noise)) is None
    assert choose_period(panel(weeks(20, True)), 90) is None


def test_the_period_ignores_validation_rows_and_gaps():
    values = weeks(20, True)
    changed = values.copy()
    changed[168 * 16 :] = 1e6
    observed = (np.random.default_rng(1).random(len(values)) < 0.9)[:, None]
    assert choose_period(panel(changed, observed=observed), 168 * 16) == 168


def test_the_look_back_follows_season_horizon_and_rows():
    assert choose_lookback(24, (24, 168), 5000) == 96
    assert choose_lookback(96, (24, 168), 50_000) == 192
    assert choose_lookback(720, (144,), 50_000) == 512
    assert choose_lookback(12, (12,), 60) == 16
    assert choose_lookback(6, (), 8) == 1


@pytest.mark.parametrize(
    ("rows", "wanted"), [(1000, 150), (200, 30), (130, 20), (125, 20), (115, 0)]
)
def test_validation_leaves_a_window_to_train_on(rows, wanted):
    assert choose_validation(20, rows, lookback=80) == wanted
    assert wanted == 0 or rows - wanted >= 100


def test_size_and_epochs_grow_and_shrink_with_the_data():
    sizes = (100, 5_000, 60_000, 1_000_000)
    assert [choose_size(n)[0] for n in sizes] == [64, 64, 256, 512]
    assert [choose_size(n, 2)[0] for n in sizes] == [64, 64, 256, 256]  # 512 together
    assert choose_size(1_000_000, 1000)[0] == 8
    assert [choose_rate(n, 1) for n in sizes] == [1e-3] * 4
    assert [choose_rate(n, 4) for n in sizes] == [1e-3, 1e-3, 2e-3, 2e-3]
    assert [choose_batch(n, 10**6) for n in (1, 118, 321, 5000)] == [32, 32, 12, 4]
    assert [choose_batch(n, 1000) for n in (1, 50, 321)] == [32, 20, 4]
    assert choose_repeats(5) == 4
    assert choose_epochs(steps=5, values=1000) == (30, 8)  # epochs of 20 steps
    assert choose_epochs(steps=5, values=10**6) == (125, 20)
    assert choose_epochs(steps=2000, values=10**6) == (2, 3)


def test_yearly_features_need_two_years_and_others_no_cycle():
    short, long = panel(np.zeros(500), "D"), panel(np.zeros(800), "D")
    week, year = (long.freq.calendar_names[i : i + 2] for i in (0, 2))
    assert (week[0], year[0]) == ("day_of_week_sin", "day_of_year_sin")

    def features(days, cycle):
        return tuple(days.freq.calendar_names[i] for i in choose_calendar(days, days.length, cycle))

    assert features(short, None) == week
    assert features(short, 7) == ()
    assert features(long, None) == week + year
    assert features(long, 7) == year


def test_a_cycle_longer_than_the_look_back_is_removed_before_normalising():
    hours = panel(np.zeros(500))
    cases = [(96, 168), (168, 168), (96, 24), (12, 24), (96, None)]
    assert [choose_cycle_before_norm(hours, *case) for case in cases] == [
        True,
        False,
        False,
        False,
        False,
    ]


def test_a_short_series_is_refused_with_the_numbers():
    with pytest.raises(
        FighterError, match=r"series 0 has 40 points, needs look-back 96 \+ horizon 24 = 120"
    ):
        check_rows(panel(np.zeros(40)), 96, 24)


def test_the_discount_is_spread_over_a_season():
    assert choose_discount(8, (144, 1008)) == 1 / 18
    assert choose_discount(8, (24, 168)) == choose_discount(8, (7,)) == choose_discount(8, ())
    assert choose_discount(0, (24,)) == 0
