"""Exponential smoothing: its experts, their weights, and the parts of the past in a forecast."""

import numpy as np
import pytest
import torch

from fighter.models import bank, blocks
from fighter.models.attribution import Attribution
from fighter.models.local import count_experts, learn_prior, smooth
from fighter.models.smoothing import Expert, make_experts, respond

EXPERTS = {
    "level": Expert(0.15),
    "last value": Expert(1.0),
    "damped trend": Expert(0.35, trend=0.2, damping=0.9),
    "drift": Expert(0.15, drift=True),
    "seasonal": Expert(0.35, season=4, seasonal=0.15),
    "seasonal with trend": Expert(0.35, trend=0.1, damping=0.98, season=4, seasonal=0.4),
    "seasonal with drift": Expert(0.7, drift=True, season=4),
    "profile": Expert(0.0, season=4, seasonal=0.5),
}


def oracle(e: Expert, x: list[float], horizon: int) -> list[float]:
    """Smooth one series, NaN where it is not observed, in a plain loop."""
    m, begin = e.season, next(t for t, value in enumerate(x) if value == value)
    profile = dict.fromkeys(range(m), 0.0)
    if m == 1 and not e.damping:
        level, slope = x[begin], 0.0
    elif m == 1:
        ages = [i for i, value in enumerate(x[begin : begin + 5]) if value == value]
        slope, intercept = np.polyfit(ages, [x[begin + i] for i in ages], 1)
        level = intercept - slope
    else:
        one, two = np.array(x[begin : begin + m]), np.array(x[begin + m : begin + 2 * m])
        slope = (two.mean() - one.mean()) / m
        line = slope * (np.arange(m) - (m - 1) / 2)
        shape = (one - one.mean() + two - two.mean()) / 2 - line
        for i in range(m):
            profile[(begin + i) % m] = shape[i] - shape.mean()
        level = one.mean() - slope * (m + 1) / 2
    trend, phases = slope if e.damping else 0.0, dict(profile)
    rises: list[tuple[int, float]] = []  # ages, and values less the first profile
    drift = 0.0
    for t in range(begin, len(x)):
        age, value = t - begin, x[t]
        ahead = level + e.damping * trend + (drift / 2 if e.drift else 0.0)
        error = value - ahead - phases[t % m] if value == value else 0.0
        known = 2 if m > 1 or e.damping else 1
        rate = max(e.level, 1 / (age + known)) if e.level else 0.0
        level = ahead + rate * error
        trend = e.damping * trend + e.level * e.trend * error
        if m > 1:
            phases[t % m] += max(e.seasonal, 1 / (age // m + 3)) * (1 - rate) * error
        if value == value:
            rises.append((age, value - profile[t % m]))
        if len(rises) >= 3:
            drift = np.polyfit([a for a, _ in rises], [r for _, r in rises], 1)[0]
    path = []
    for h in range(1, horizon + 1):
        y = level + sum(e.damping**i for i in range(1, h + 1)) * trend
        y += h * drift / 2 if e.drift else 0.0
        path.append(float(y + phases[(len(x) - 1 + h) % m]))
    return path


def panel(rows: int = 80, series: int = 3, seed: int = 0) -> torch.Tensor:
    """Return positive series with a trend, a season of 4 and noise, each larger than the last."""
    generator = torch.Generator().manual_seed(seed)
    step = torch.arange(rows, dtype=torch.float64)[:, None]
    size = 1 + torch.arange(series, dtype=torch.float64)
    noise = torch.randn(rows, series, generator=generator, dtype=torch.float64)
    return size * (10 + 0.05 * step + 2 * torch.sin(torch.pi * step / 2 + size) + 0.5 * noise)


def all_seen(values: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(values, dtype=torch.bool)


@pytest.mark.parametrize("rows", [9, 40])
@pytest.mark.parametrize("name", EXPERTS)
def test_an_expert_agrees_with_a_plain_loop(name, rows):
    x = panel(rows, 1)
    path = respond([EXPERTS[name]], x, all_seen(x), 6)[0, :, 0]
    assert path.tolist() == pytest.approx(oracle(EXPERTS[name], x[:, 0].tolist(), 6), rel=1e-9)


@pytest.mark.parametrize("name", EXPERTS)
def test_an_expert_passes_over_missing_rows(name):
    """The series begins late, at another phase of the season, and has holes after two seasons."""
    x, seen = panel(40, 1), torch.ones(40, 1, dtype=torch.bool)
    seen[:3] = seen[[15, 20, 21, 39]] = False
    path = respond([EXPERTS[name]], x * seen, seen, 6)[0, :, 0]
    series = torch.where(seen, x, torch.nan)[:, 0].tolist()
    assert path.tolist() == pytest.approx(oracle(EXPERTS[name], series, 6), rel=1e-9)


def test_the_first_values_count_alike():
    """A slow level forecasts the mean of the first values."""
    x = torch.tensor([4.0, 8.0, 6.0, 2.0, 5.0], dtype=torch.float64)[:, None]
    path = respond([Expert(0.01)], x, all_seen(x), 2)[0, :, 0]
    assert path.tolist() == pytest.approx([5.0, 5.0], rel=1e-12)


def test_the_bank_holds_every_kind_for_each_season():
    assert {e.season for e in make_experts([])} == {1}
    experts = make_experts([24, 168])
    assert {e.season for e in experts} == {1, 24, 168}
    assert len(set(experts)) == len(experts)
    assert Expert(0.0, season=24, seasonal=1.0) in experts  # the seasonal naive forecast
    assert Expert(1.0) in experts  # the last value repeated


# ---- what a forecast sees --------------------------------------------------------------------


@pytest.mark.parametrize("factor", [-3.0, 0.0, 1e9])
def test_later_rows_do_not_change_a_forecast(factor):
    x = panel(80)
    rows = torch.tensor([2, 5, 9, 20, 41, 60])
    before = smooth(x, all_seen(x), [4], 5, rows)
    for i, row in enumerate(rows.tolist()):
        changed = x.clone()
        changed[row:] *= factor
        after = smooth(changed, all_seen(x), [4], 5, rows)
        torch.testing.assert_close(after.point[i], before.point[i], rtol=1e-6, atol=0)
        torch.testing.assert_close(after.error[i], before.error[i], rtol=1e-6, atol=0)


def test_a_forecast_after_a_row_is_that_of_the_table_cut_there():
    x = panel(80)
    made = smooth(x, all_seen(x), [4], 5, torch.tensor([3, 9, 41, 80]))
    assert made.rows.tolist() == [3, 9, 41, 80]
    for row in (3, 9, 41, 80):
        alone, same = smooth(x[:row], all_seen(x[:row]), [4], 5), made.at(torch.tensor([row]))
        torch.testing.assert_close(same.point, alone.point, rtol=1e-9, atol=0)
        torch.testing.assert_close(same.error, alone.error, rtol=1e-9, atol=0)


def test_forecasts_are_found_by_their_row():
    x = panel(60)
    made = smooth(x, all_seen(x), [4], 3, torch.tensor([20, 30, 60]))
    found = made.at(torch.tensor([60, 20, 60]))
    assert found.rows.tolist() == [60, 20, 60]
    assert torch.equal(found.point, made.point[[2, 0, 2]])
    assert torch.equal(found.error, made.error[[2, 0, 2]])


@pytest.mark.parametrize("factor", [1e3, 1e-6, 1e12])
def test_forecasts_have_the_units_of_the_values(factor):
    x = panel(60)
    x[:, 1] -= 25  # a series with both signs
    plain, scaled = smooth(x, all_seen(x), [4], 5), smooth(x * factor, all_seen(x), [4], 5)
    torch.testing.assert_close(scaled.point, plain.point * factor, rtol=1e-9, atol=0)
    torch.testing.assert_close(scaled.error, plain.error * factor, rtol=1e-9, atol=0)


def test_series_do_not_influence_each_other():
    x, seen = panel(60, 5), torch.ones(60, 5, dtype=torch.bool)
    x[:, 3] *= -1
    seen[:7, 1] = seen[30:33, 4] = False
    whole, order = smooth(x, seen, [4], 5), [3, 0, 4, 2, 1]
    permuted = smooth(x[:, order], seen[:, order], [4], 5)
    torch.testing.assert_close(permuted.point, whole.point[..., order], rtol=1e-9, atol=0)
    torch.testing.assert_close(permuted.error, whole.error[..., order], rtol=1e-9, atol=0)
    for i in range(5):
        alone = smooth(x[:, [i]], seen[:, [i]], [4], 5)
        torch.testing.assert_close(alone.point, whole.point[..., [i]], rtol=1e-9, atol=0)


def test_many_series_are_smoothed_in_chunks(monkeypatch):
    x, seen = panel(40, 5), torch.ones(40, 5, dtype=torch.bool)
    seen[:5, 2] = False
    rows = torch.tensor([7, 16, 33, 40])
    whole = smooth(x, seen, [4], 5, rows)
    monkeypatch.setattr(blocks, "SERIES_AT_ONCE", 2)
    monkeypatch.setattr(bank, "CELLS", 1)  # blocks of few rows
    chunked = smooth(x, seen, [4], 5, rows)
    torch.testing.assert_close(chunked.point, whole.point, rtol=1e-9, atol=0)
    torch.testing.assert_close(chunked.error, whole.error, rtol=1e-9, atol=0)


# ---- how good it is --------------------------------------------------------------------------


def test_a_jump_of_the_level_is_followed():
    """The error after 24 rows of the new level is about that of the last value repeated."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(0, 0.5, (120, 60)))
    x[-24:] += 10
    error = (smooth(x, all_seen(x), [], 12).point - 10).abs().mean()
    assert error < 1.3 * (x[-1] - 10).abs().mean()


@pytest.mark.parametrize("rows", [12, 24])
def test_a_jump_is_followed_soon_whatever_was_best_before(rows):
    """For 488 rows the mean was best; then the level jumps by 20 deviations."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(500, 20)))
    x[-rows:] += 20
    assert (smooth(x, all_seen(x), [24], 24).point - 20).abs().mean() < 1.5


@pytest.mark.parametrize("season", [4, 7])
def test_a_repeated_season_is_forecast_exactly(season):
    profile = torch.tensor([3.0, -1.0, 4.0, 1.0, -5.0, 9.0, 2.0], dtype=torch.float64)[:season]
    x = profile.repeat(8)[:, None]
    made = smooth(x, all_seen(x), [season], 2 * season)
    assert made.point[0, :, 0].tolist() == pytest.approx(profile.repeat(2).tolist(), abs=1e-6)


def test_a_straight_line_is_continued():
    """A damped trend falls behind a line, by less than a fifth of the way."""
    x = torch.arange(60, dtype=torch.float64)[:, None]
    path = smooth(x, all_seen(x), [], 6).point[0, :, 0]
    rise = path - 59
    assert (rise > 0.8 * torch.arange(1, 7)).all()
    assert (rise < 1.001 * torch.arange(1, 7)).all()


# ---- little or nothing to smooth -------------------------------------------------------------


def test_a_constant_series_stays_and_has_an_error():
    x = torch.tensor([5.0, -3.0, 0.0, 1e9], dtype=torch.float64).expand(40, 4)
    made = smooth(x, all_seen(x), [4], 6)
    torch.testing.assert_close(made.point[0], x[:6], rtol=1e-9, atol=1e-9)
    assert made.error[0].tolist() == pytest.approx([0.05, 0.03, 0.01, 1e7], rel=1e-3)


@pytest.mark.parametrize("row", [0, 5, 19])
def test_a_single_value_is_repeated(row):
    x, seen = torch.zeros(20, 2, dtype=torch.float64), torch.zeros(20, 2, dtype=torch.bool)
    x[row], seen[row] = torch.tensor([7.0, -7.0]).double(), True
    made = smooth(x, seen, [4], 6)
    torch.testing.assert_close(made.point[0], x[row].expand(6, 2), rtol=1e-9, atol=0)
    assert (made.error > 0).all()


def test_a_series_without_a_value_has_a_finite_forecast():
    x, seen = panel(30, 2), torch.ones(30, 2, dtype=torch.bool)
    x[:, 1], seen[:, 1] = 0.0, False
    made = smooth(x, seen, [4], 6)
    assert made.point.isfinite().all()
    assert (made.error > 0).all()
    alone = smooth(x[:, :1], seen[:, :1], [4], 6)
    torch.testing.assert_close(made.point[..., :1], alone.point, rtol=1e-9, atol=0)


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_a_few_rows_are_enough(rows):
    made = smooth(panel(rows), all_seen(panel(rows)), [], 12)
    assert made.point.shape == (1, 12, 3)
    assert made.point.isfinite().all()
    assert (made.error > 0).all()


# ---- parts of the past -----------------------------------------------------------------------


def growth(rows: int = 60) -> torch.Tensor:
    """Return exponential growth times a season, which only logarithms make linear."""
    step = torch.arange(rows, dtype=torch.float64)
    return (0.05 * step + 0.5 * torch.sin(torch.pi * step / 2)).exp()


SERIES = {
    "raw": (panel(60, 1)[:, 0] - 9, []),
    "logarithms": (growth(), []),
    "holes": (panel(60, 1)[:, 0], [0, 1, 17, 18, 30, 59]),
    "holes in logarithms": (growth(), [0, 1, 17, 18, 30, 59]),
    "zeros": (panel(60, 1)[:, 0].sub(10).clamp(min=0), []),
    "negative": (-growth(), [4]),
    "constant": (torch.full((30,), 3.0).double(), []),
    "all zero": (torch.zeros(30).double(), [2]),
    "one value": (torch.full((10,), 3.0).double(), list(range(9))),
    "large": (1e9 * growth(), []),
    "tiny": (1e-9 * growth(), []),
}


@pytest.mark.parametrize("which", ["mean", "last", "zero"])
@pytest.mark.parametrize("name", SERIES)
def test_the_parts_add_up_to_the_forecast(name, which):
    x, hidden = SERIES[name]
    seen = torch.ones(len(x), dtype=torch.bool)
    seen[hidden] = False
    x = x * seen
    reference = {"mean": float(x[seen].mean()), "last": float(x[seen][-1]), "zero": 0.0}[which]
    path, bias, parts, _ = Attribution(x[:, None], seen[:, None], [4], 6).split(0, reference)
    assert parts.shape == (6, len(x))
    expected = smooth(x[:, None], seen[:, None], [4], 6).point[0, :, 0]
    size = float(x.abs().max())
    torch.testing.assert_close(path, expected, rtol=1e-9, atol=1e-9 * size)
    whole = reference + bias + parts.sum(1)
    torch.testing.assert_close(whole, path, rtol=1e-9, atol=1e-9 * size)
    assert not parts[:, ~seen].any()


def test_growth_is_smoothed_in_logarithms():
    x = growth()
    path = smooth(x[:, None], all_seen(x[:, None]), [4], 6).point[0, :, 0]
    truth = growth(66)[60:]
    assert ((path - truth).abs() < 0.05 * truth).all()


def test_recent_values_of_a_random_walk_have_the_largest_parts():
    """Its best forecast is the last value, so nearly all parts are those of the last rows."""
    x = torch.from_numpy(np.random.default_rng(0).normal(size=200).cumsum() + 30)
    parts = Attribution(x[:, None], all_seen(x[:, None]), [], 3).split(0, 0.0).past
    assert float(parts[:, -10:].abs().sum() / parts.abs().sum()) > 0.9


# ---- what is usual of an expert on a table ---------------------------------------------------


def rarely_sold(series: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    sold = torch.rand(40, series, generator=generator, dtype=torch.float64) < 0.15
    return torch.where(sold, 4.0, 0.0).double()


def test_series_learn_from_the_whole_table_which_experts_are_good():
    """Few rows of one rarely sold item say little; many such items say that zero is best."""
    x = rarely_sold(60)
    prior = learn_prior(x, all_seen(x), [], 6)
    alone, together = (smooth(x, all_seen(x), [], 6, None, p).point for p in (None, prior))
    assert together.abs().mean() < 0.8 * alone.abs().mean()


def test_a_single_series_keeps_what_is_usual_on_many_tables():
    x = panel(60, 1)
    prior = learn_prior(x, all_seen(x), [4], 6)
    plain, same = (smooth(x, all_seen(x), [4], 6, None, p).point for p in (None, prior))
    torch.testing.assert_close(same, plain)


def test_what_is_usual_does_not_depend_on_units():
    x = panel(60, 4)
    prior = learn_prior(x, all_seen(x), [4], 6)
    scaled = learn_prior(x * torch.tensor([1e3, 1.0, 1e-3, 50.0]), all_seen(x), [4], 6)
    torch.testing.assert_close(scaled, prior)
    assert len(prior) == count_experts([4], 6)


def test_parts_add_up_with_what_is_usual_on_the_table():
    x = rarely_sold(20)
    prior = learn_prior(x, all_seen(x), [], 6)
    parts = Attribution(x, all_seen(x), [], 6, prior).split(3, 1.0)
    direct = smooth(x, all_seen(x), [], 6, None, prior).point[0, :, 3]
    torch.testing.assert_close(1.0 + parts.bias + parts.past.sum(1), direct)


def test_threads_that_share_the_series_change_nothing(monkeypatch):
    monkeypatch.setattr(blocks, "SERIES_AT_ONCE", 3)
    random = torch.Generator().manual_seed(0)
    values = torch.rand(40, 8, generator=random, dtype=torch.float64).cumsum(0)
    observed = torch.rand(40, 8, generator=random) < 0.9
    rows = torch.tensor([25, 40])
    one, three = (smooth(values, observed, (4,), 3, rows, workers=w) for w in (1, 3))
    for part, other in zip(one[:6], three[:6], strict=True):
        assert torch.equal(part, other)  # pyright: ignore[reportArgumentType]


def test_a_single_step_is_forecast():
    """It has a single anchor, which must not be taken for two kinds of errors."""
    x = panel(40)
    one, two = (
        smooth(x, all_seen(x), (4,), horizon, torch.tensor([20, 40])).point for horizon in (1, 2)
    )
    assert one.shape == (2, 1, 3)
    torch.testing.assert_close(one[:, 0], two[:, 0], rtol=0.1, atol=0.1)
