"""Forecasts that mix the network with exponential smoothing, and their intervals."""

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import torch

from fighter import DataWarning, FighterError, Forecaster
from fighter.data import Batch, Windows, to_panel
from fighter.forecasting import alone, autoconfig, fitted, learn
from fighter.forecasting import explain as explaining
from fighter.forecasting import fit as fitting
from fighter.forecasting.blend import Blend, usual_extremes
from fighter.forecasting.blend_shares import weigh_halves
from fighter.forecasting.intervals import warn_if_uncertain
from fighter.forecasting.preprocessing import held_rows, split_windows
from fighter.forecasting.shares import choose_shares
from fighter.forecasting.spread import error_quantiles, is_mature, walk_quantiles
from fighter.models.local import Smoothed, smooth
from fighter.training import forecast

from ..tables import tiny, waves
from .small import small
from .test_explain import check
from .test_storage import read, rewrite

QUIET = pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")


def table(y, freq: str = "D", name: str = "a", start: str = "2000-01-01") -> pd.DataFrame:
    times = pd.date_range(start, periods=len(y), freq=freq)
    return pd.DataFrame({"unique_id": name, "ds": times, "y": np.asarray(y, float)})


def with_share(model: Forecaster, share: float) -> Forecaster:
    """Return the same model with another share of the network, for all series."""
    fitted = model.fitted
    assert fitted.blend is not None
    other = Forecaster(**vars(fitted.config))
    blend = replace(fitted.blend, share=torch.full_like(fitted.blend.share, share))
    other._fitted = replace(fitted, blend=blend)
    return other


# ---- shares ----------------------------------------------------------------------------------


def points(windows: int = 30, series: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Return targets, and a forecast of them with errors."""
    target = torch.randn(windows, 5, series)
    return target, target + torch.randn(windows, 5, series)


@pytest.mark.parametrize("exact", ["first", "second"])
def test_the_exact_one_of_two_forecasts_is_chosen(exact):
    target, wrong = points()
    pair = (target, wrong) if exact == "first" else (wrong, target)
    share, (first, second, mixed) = choose_shares(*pair, target, torch.ones_like(target))
    assert share.tolist() == [1.0 if exact == "first" else 0.0] * 3
    error = float((wrong - target).abs().mean())
    assert (first, second) == pytest.approx((0, error) if exact == "first" else (error, 0))
    assert mixed == pytest.approx(0, abs=1e-6)


def test_each_series_has_its_own_share():
    """With many windows, the errors of a series count more than those of all together."""
    target, wrong = points(300, 2)
    first = torch.stack([target[..., 0], wrong[..., 1]], -1)
    second = torch.stack([wrong[..., 0], target[..., 1]], -1)
    share, _ = choose_shares(first, second, target, torch.ones_like(target))
    assert share.tolist() == [1, 0]


def test_a_series_without_targets_has_the_share_of_all():
    target, wrong = points()
    seen = torch.ones_like(target)
    seen[..., 2] = 0
    share, (first, *_) = choose_shares(target, wrong, target, seen)
    assert share.tolist() == [1, 1, 1]
    assert first == 0


def test_equal_forecasts_have_equal_shares():
    target, wrong = points()
    share, errors = choose_shares(wrong, wrong, target, torch.ones_like(target))
    assert share.tolist() == [0.5] * 3
    assert errors[0] == errors[1] == pytest.approx(errors[2])


def test_hidden_targets_do_not_count():
    target, wrong = points()
    seen = (torch.rand_like(target) < 0.7).to(target)
    changed = torch.where(seen > 0, target, 1e6)
    assert torch.equal(
        choose_shares(target, wrong, changed, seen)[0],
        choose_shares(target, wrong, target, seen)[0],
    )


# ---- the guard -------------------------------------------------------------------------------


POWERS = (torch.zeros(3), torch.ones(9))  # and what is usual of experts: not used here


NO_LEAST = torch.zeros(2, 0)


def guarded(values: torch.Tensor, lookback: int = 24) -> Blend:
    """Return a blend that knows the windows of these values, with a share of 0.8."""
    windows = Windows.over(values, None, lookback, 6)
    share = torch.full((2,), 0.8)
    usual = usual_extremes(windows)
    none = torch.zeros(2)
    return Blend(share, none, none, share, usual, torch.zeros(6, 0), *POWERS, NO_LEAST, ())


def one_batch(past: torch.Tensor, seen: torch.Tensor | None = None) -> Batch:
    return Batch(past[None], past[None, :6], seen, None, torch.zeros(1, dtype=torch.long))


def test_usual_windows_keep_the_chosen_share():
    values = torch.randn(300, 2)
    blend = guarded(values)
    for start in (0, 100, 276):
        share = blend.shares(one_batch(values[start : start + 24]))
        assert share.shape == (1, 1, 2, 1)
        assert share.flatten().tolist() == pytest.approx([0.8, 0.8])


@pytest.mark.parametrize("rows", [2, 12])
def test_the_network_counts_little_after_a_jump(rows):
    """The window of the other series, which did not jump, keeps its share."""
    values = torch.randn(300, 2)
    past = values[-24:].clone()
    past[-rows:, 0] += 20
    share = guarded(values).shares(one_batch(past)).flatten()
    assert 0 < share[0] < 0.1
    assert share[1] == pytest.approx(0.8)


def test_the_guard_ignores_missing_values():
    values = torch.randn(300, 2)
    past, seen = values[-24:].clone(), torch.ones(1, 24, 2, dtype=torch.bool)
    past[5:9], seen[:, 5:9] = 1e6, False
    assert guarded(values).shares(one_batch(past, seen)).flatten().tolist() == pytest.approx(
        [0.8] * 2
    )


def test_a_jump_is_forecast_by_smoothing():
    """A network with the whole share has next to nothing of it after a jump of 20 deviations."""
    model = with_share(tiny(cycle=None).fit(waves(120, noise=0.5)), 1.0)
    later = waves(126, noise=0.5).assign(y=lambda f: f.y + 20 * (f.ds >= "2024-01-06"))
    mixed, local = model.predict(later).Fighter, with_share(model, 0.0).predict(later).Fighter
    network = replace(model.fitted, blend=None).forecast(model.read(later)).point.T.flatten()
    assert ((mixed - local).abs() < 0.1 * (network - local).abs() + 1e-4).all()


# ---- network and smoothing together ----------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> Forecaster:
    return tiny(level=[80], cycle=None, pretrained=False, vector=False).fit(waves(120))


def test_only_fighter_is_mixed_unless_asked_for():
    assert tiny(max_epochs=1, smoothing=False).fit(waves(60)).fitted.blend is None
    for mixed in (None, True):
        made = small("linear", smoothing=mixed).fit(waves(90))
        assert (made.fitted.blend is not None) == bool(mixed)


def test_a_forecast_is_the_weighted_mean_of_both(model):
    network, local = (with_share(model, share).predict().Fighter for share in (1.0, 0.0))
    assert (network - local).abs().max() > 0.1
    mixed = with_share(model, 0.3).predict().Fighter
    np.testing.assert_allclose(mixed, 0.3 * network + 0.7 * local, rtol=1e-5)


def test_both_sides_are_the_network_and_smoothing_themselves(model):
    fitted = model.fitted
    alone = replace(fitted, blend=None).forecast().point.T.flatten()
    np.testing.assert_allclose(with_share(model, 1.0).predict().Fighter, alone, rtol=1e-6)
    context = fitted.context
    values, seen = torch.from_numpy(context.values), torch.from_numpy(context.observed)
    prior = fitted.blend.prior
    direct = smooth(values, seen, fitted.plan.seasons, 6, None, prior).point[0].T.flatten()
    np.testing.assert_allclose(with_share(model, 0.0).predict().Fighter, direct, rtol=1e-5)


def test_the_plan_tells_shares_and_errors(model):
    plan, blend = model.plan, model.fitted.blend
    assert plan.trained
    assert plan.network_share == pytest.approx(float(blend.share.mean()), abs=1e-3)
    assert set(plan.errors) == {"network", "smoothing", "mixed"}
    assert plan.errors["mixed"] <= min(plan.errors["network"], plan.errors["smoothing"]) + 1e-6
    assert float(blend.share.max()) < 1  # with little evidence, smoothing keeps a share


def test_a_new_series_has_the_mean_share():
    share, usual = torch.tensor([0.2, 0.6]), torch.tensor([[1.0, 2.0], [4.0, 3.0], [1.0, 1.0]])
    others = share / 4, share / 8, share / 2
    blend = Blend(share, *others, usual, torch.ones(6, 2), *POWERS, NO_LEAST, ())
    other = blend.select([1, -1])
    assert other.share.tolist() == pytest.approx([0.6, 0.4])
    assert other.zero_shot.tolist() == pytest.approx([0.15, 0.1])
    assert other.vector.tolist() == pytest.approx([0.075, 0.05])
    assert other.width_share.tolist() == pytest.approx([0.3, 0.2])
    assert other.usual.tolist() == [[2, 2], [3, 4], [1, 1]]
    assert blend.select([0, 1]) is blend


def rain() -> pd.DataFrame:
    """Return a series that rests at zero, and one that is never negative but falls towards zero."""
    df = waves(120, ids=("a", "b"), noise=0.3)
    wet, falling = df.unique_id == "a", df.unique_id == "b"
    df.loc[wet, "y"] = df.y[wet].clip(lower=0)
    df.loc[falling, "y"] = np.linspace(12, 0.05, 120)
    return df


def holes() -> pd.DataFrame:
    df = waves(120)
    df.loc[df.index % 120 == 119, "y"] = np.nan
    df.loc[df.index[[30, 31, 112, 115, 150, 200, 236]], "y"] = np.nan
    return df


def unequal_ends() -> pd.DataFrame:
    df = waves(120)
    return df.drop(df.index[(df.unique_id == "a") & (df.ds >= "2024-01-05")])


@QUIET
@pytest.mark.parametrize("data", [waves, rain, holes, unequal_ends])
def test_explanations_add_up_for_every_share(data):
    made = tiny(level=[80], cycle=None).fit(data())
    for share in (0.0, 0.35, 1.0):
        mixed = with_share(made, share)
        table = mixed.predict()
        for graph in mixed.explain_all(steps=[1, 6]):
            value = table[table.unique_id == graph.target].Fighter.iloc[graph.step - 1]
            assert graph.forecast == pytest.approx(value, rel=1e-5, abs=1e-6)
            total = sum(graph.terms.values()) + graph.sources.sum()
            assert total == pytest.approx(graph.forecast, rel=1e-9, abs=1e-9)
            assert not graph.sources[:, np.isnan(graph.past)].any()
            if data is rain:
                assert graph.forecast >= 0


# ---- storage ---------------------------------------------------------------------------------


def test_a_mixed_model_is_saved_bit_by_bit(model, tmp_path):
    with_share(model, 0.35).save(tmp_path)
    loaded = Forecaster.load(tmp_path)
    pd.testing.assert_frame_equal(
        loaded.predict(), with_share(model, 0.35).predict(), check_exact=True
    )
    for name in ("share", "usual", "spread"):
        kept = getattr(model.fitted.blend, name) if name != "share" else torch.full((2,), 0.35)
        assert torch.equal(getattr(loaded.fitted.blend, name), kept)
    assert loaded.plan.seasons == (24,)
    later = waves(130)
    pd.testing.assert_frame_equal(
        loaded.predict(later), with_share(model, 0.35).predict(later), check_exact=True
    )


@pytest.mark.parametrize("factor", [1e-60, 1e60])
def test_values_beyond_single_precision_are_saved(factor, tmp_path):
    made = waves(120, noise=0.3)
    model = tiny(level=[80]).fit(made.assign(y=factor * made.y))
    model.save(tmp_path)
    found = Forecaster.load(tmp_path).predict()
    pd.testing.assert_frame_equal(found, model.predict(), check_exact=True)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((f"blend.{name}", kind) for name in ("share", "usual", "spread") for kind in
          (lambda t: None, lambda t: t * math.nan, lambda t: t + math.inf, lambda t: t.double(),
           lambda t: t[:-1], lambda t: t[..., None])),
        ("blend.share", lambda t: t + 1.5),
        ("blend.share", lambda t: t - 1.5),
        ("blend.usual", lambda t: 0 * t),
        ("blend.usual", lambda t: -t),
    ],
)  # fmt: skip
def test_damaged_blends_are_refused(model, tmp_path, name, damage):
    model.save(tmp_path)
    _, tensors = read(tmp_path)
    changed = {**tensors, name: damage(tensors[name])}
    rewrite(tmp_path, tensors={k: v for k, v in changed.items() if v is not None})
    with pytest.raises(FighterError, match="holds a damaged model"):
        Forecaster.load(tmp_path)


# ---- too few rows for a network --------------------------------------------------------------


@QUIET
@pytest.mark.parametrize(("rows", "horizon"), [(12, 6), (5, 12), (2, 3)])
def test_few_rows_are_forecast_by_smoothing_alone(rows, horizon, tmp_path):
    rng = np.random.default_rng(0)
    y = 100 + 2 * np.arange(rows) + rng.normal(size=rows)
    made = tiny(horizon, None, level=[80]).fit(table(y, "YS"))
    assert not made.plan.trained
    assert made.plan.network_share == 0
    assert not made.history
    found = made.predict()
    direct = smooth(
        torch.from_numpy(y)[:, None], torch.ones(rows, 1, dtype=torch.bool), [], horizon
    )
    np.testing.assert_allclose(found.Fighter, direct.point[0, :, 0], rtol=1e-6)
    low, high = found["Fighter-lo-80"], found["Fighter-hi-80"]
    assert (low <= found.Fighter).all()
    assert (found.Fighter <= high).all()
    assert (high - low > 0.1).all()
    for step in (1, horizon):
        graph = made.explain(step=step)
        check(graph, found.Fighter.iloc[step - 1])
        assert not graph.layers
    made.save(tmp_path)
    pd.testing.assert_frame_equal(Forecaster.load(tmp_path).predict(), found, check_exact=True)


@QUIET
def test_a_series_without_a_recent_value_is_forecast_by_its_mean(monkeypatch):
    """Smoothing looks back so many rows; before them, only the mean of the series is known."""
    for module in (autoconfig, alone, explaining, fitting, fitted):
        monkeypatch.setattr(module, "MEMORY", 60)
    df = waves(150)
    late = (df.unique_id == "b") & (df.index % 150 >= 80)
    made = with_share(tiny(level=[80], cycle=None).fit(df.assign(y=df.y.mask(late))), 0.0)
    found = made.predict()
    own, mean = found[found.unique_id == "b"], df.y[(df.unique_id == "b") & ~late].mean()
    assert own.Fighter.tolist() == pytest.approx([mean] * 6, abs=1e-4)
    assert (own["Fighter-hi-80"] - own["Fighter-lo-80"] > 0.5).all()
    check(made.explain(unique_id="b"), mean)


# ---- rows held out at the end of each series -------------------------------------------------


def uneven() -> tuple[pd.DataFrame, dict[str, int]]:
    """Return series of 120, 60 and 10 rows that begin together, and their lengths."""
    lengths = {"a": 120, "b": 60, "c": 10}
    rows = {
        name: table(np.random.default_rng(0).normal(size=n), "h", name)
        for name, n in lengths.items()
    }
    return pd.concat(rows.values(), ignore_index=True), lengths


def test_series_are_held_out_at_their_own_ends():
    df, lengths = uneven()
    panel = to_panel(df)
    assert panel.ends.tolist() == list(lengths.values())
    held = held_rows(panel, 20, 6)
    assert held is not None
    # 1/6 of the length, at least the horizon; none if less than two horizons would be left.
    assert held.tolist() == [20, 10, 0]
    assert held_rows(to_panel(df[df.unique_id == "a"]), 20, 6) is None
    assert held_rows(panel, 0, 6) is None


def counted(windows: Windows, series: int) -> set[int]:
    """Return the rows that are targets of a series; the values are numbers of rows."""
    batch = windows.gather(torch.arange(len(windows)))
    future, seen = batch.future[..., series], torch.ones_like(batch.future[..., series]).bool()
    if batch.future_observed is not None:
        seen = batch.future_observed[..., series]
    return set(future[seen].int().tolist())


def test_no_validation_target_is_trained_on():
    panel = to_panel(uneven()[0])
    rows = torch.arange(120.0)[:, None].repeat(1, 3)
    whole = Windows.over(rows, torch.from_numpy(panel.observed), 4, 6)
    held = held_rows(panel, 20, 6)
    training, validation = split_windows(whole, panel, 100, held)
    assert counted(validation, 0) == set(range(100, 120))
    assert counted(training, 0) == set(range(4, 100))
    assert counted(validation, 1) == set(range(50, 60))
    assert counted(training, 1) == set(range(4, 50))
    assert counted(validation, 2) == set()
    assert counted(training, 2) == set(range(4, 10))


def test_series_that_end_together_are_split_at_one_row():
    panel = to_panel(waves(120))
    whole = Windows.over(torch.arange(120.0)[:, None].repeat(1, 2), None, 4, 6)
    training, validation = split_windows(whole, panel, 100, None)
    for series in (0, 1):
        assert counted(training, series) == set(range(4, 100))
        assert counted(validation, series) == set(range(100, 120))


@QUIET
def test_the_scale_of_a_series_is_that_of_its_training_rows():
    df, _ = uneven()
    made = tiny(validation=20, max_epochs=1).fit(df)
    own = df[df.unique_id == "b"].y.to_numpy()[:50]
    assert made.fitted.preprocessing.scaler.shift[1] == pytest.approx(own.mean())
    assert made.fitted.preprocessing.scaler.scale[1] == pytest.approx(own.std())


# ---- intervals -------------------------------------------------------------------------------


def test_too_high_a_level_is_named_with_the_number_of_errors():
    y = np.random.default_rng(0).normal(100, 2, 30)
    windows = 24 - 14  # after row 14, before which nothing is tested, until row 24
    expected = rf"the 99 % interval cannot .* {6 * windows} errors, and needs at least 199"
    with pytest.warns(DataWarning, match=expected):
        tiny(6, 8, level=[99]).fit(table(y))


@pytest.mark.parametrize(("quantile", "scores"), [(0.1, 9), (0.9, 9), (0.005, 199), (0.5, 1)])
def test_the_number_of_errors_that_a_quantile_needs(quantile, scores):
    warn_if_uncertain((quantile,), scores)
    if quantile != 0.5:
        with pytest.warns(DataWarning, match=f"needs at least {scores}"):
            warn_if_uncertain((quantile,), scores - 1)


def ramp() -> pd.DataFrame:
    """Return a level that begins to climb in the last fifth."""
    y = 100 + 2 * np.random.default_rng(0).normal(size=300)
    y[255:] += 4 * np.arange(45)
    return table(y)


def months() -> pd.DataFrame:
    rng, step = np.random.default_rng(0), np.arange(36)
    return table(50 + step + 5 * np.sin(step * np.pi / 6) + rng.normal(size=36), "MS")


@QUIET
@pytest.mark.parametrize(("data", "horizon"), [(ramp, 14), (months, 6)])
def test_the_point_lies_inside_every_interval(data, horizon):
    made = tiny(horizon, None, level=[50, 80, 95], max_epochs=1, batch_size=64).fit(data())
    for share in (None, 0.0, 0.5, 1.0):
        found = (made if share is None else with_share(made, share)).predict()
        for level in (50, 80, 95):
            assert (found[f"Fighter-lo-{level}"] <= found.Fighter).all()
            assert (found.Fighter <= found[f"Fighter-hi-{level}"]).all()
            assert (found[f"Fighter-lo-{level}"] < found[f"Fighter-hi-{level}"]).all()


def test_a_ramp_is_followed():
    """The forecast goes on from the last value, 277, and not back to the old level of 100."""
    found = tiny(14, None, max_epochs=1, batch_size=64).fit(ramp()).predict().Fighter
    assert found.iloc[0] == pytest.approx(278, abs=10)
    assert found.iloc[-1] > 290


@pytest.mark.parametrize("value", [5.0, 0.0, -3e6])
def test_a_constant_series_has_an_interval(value):
    df = waves(90)
    df.loc[df.unique_id == "a", "y"] = value
    found = tiny(level=[80]).fit(df).predict()
    own = found[found.unique_id == "a"]
    assert own.Fighter.tolist() == pytest.approx([value] * 6, rel=1e-3, abs=1e-3)
    assert (own["Fighter-hi-80"] > own["Fighter-lo-80"]).all()


def test_the_middle_quantile_is_the_point(model):
    made = tiny(quantiles=[0.1, 0.5, 0.9]).fit(waves(90))
    for share in (0.0, 0.5, 1.0):
        found = with_share(made, share).predict()
        assert (found["Fighter-q0.5"] == found.Fighter).all()
        assert (found["Fighter-q0.1"] <= found.Fighter).all()
        assert (found["Fighter-q0.9"] >= found.Fighter).all()


def test_error_quantiles_are_those_of_scaled_errors():
    """Errors that grow with the step, of a series of size 1 and one of size 100."""
    size, width = torch.tensor([1.0, 100.0]).double(), torch.arange(1.0, 7).double()
    error = torch.randn(4000, 6, 2).double() * width[:, None] * size
    made = Smoothed(
        torch.zeros(4000, 6, 2).double(),
        size.repeat(4000, 1),
        torch.ones(4000, 2, dtype=torch.bool),
        torch.full((4000, 2), 9),
        torch.arange(4000),
        torch.ones(3, 4000, 6, 2).double(),
    )
    found, powers = error_quantiles(made, error, torch.ones_like(error), (0.1, 0.5, 0.9))
    assert not powers.any()  # the factors are all 1
    assert found.shape == (6, 3)
    middle = found[2:4]  # steps whose width is averaged with that of two on each side
    expected = torch.tensor([[-1.2816, 0.0, 1.2816]]) * torch.tensor([[3.0], [4.0]])
    torch.testing.assert_close(middle, expected, rtol=0.05, atol=0.15)
    hidden = torch.zeros_like(error)
    assert torch.equal(
        error_quantiles(made, error, hidden, (0.1, 0.9))[0], walk_quantiles(6, (0.1, 0.9))
    )


@QUIET
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_a_series_with_few_values_has_the_widths_that_are_usual(rows):
    """Items begin with ``rows`` values beside others; new items too."""
    draw = np.random.default_rng(0)
    sales = 10 + draw.normal(size=(64, 40))
    items = [table(sales[:60, i], name=f"{i:02d}") for i in range(40)]
    young = [item.tail(rows) for item in items[20:]]
    later = pd.concat([*items[:20], *young[:10]])
    for known in (later, pd.concat(items[:20])):
        made = tiny(4, level=[95], adjacency="none", cycle=None).fit(known).predict(later)
        made = made[made.unique_id >= "20"]
        low, high = (
            made[f"Fighter-{side}-95"].to_numpy().reshape(-1, 4).T for side in ("lo", "hi")
        )
        inside = (sales[60:, 20:30] >= low) & (sales[60:, 20:30] <= high)
        assert inside.mean() > 0.85


def test_a_series_that_never_changed_does_not_calibrate_others():
    """Its errors are any multiple of those so far, once it changes."""
    tested = torch.tensor([[-1, 0, 20], [0, 0, 45], [-1, 0, 60]])
    assert is_mature(tested, tested.amax(0)).tolist() == [
        [False, True, False],
        [True, True, True],
        [False, True, True],
    ]
    constant = torch.full((2, 3), -1)
    assert is_mature(constant, constant.amax(0)).all()


def test_few_windows_lean_on_normal_errors():
    """One window that was forecast almost exactly does not make the intervals narrow."""
    one = Smoothed(
        torch.zeros(1, 6, 1).double(),
        torch.ones(1, 1).double(),
        torch.ones(1, 1, dtype=torch.bool),
        torch.full((1, 1), 9),
        torch.arange(1),
        torch.ones(3, 1, 6, 1).double(),
    )
    tiny = torch.full((1, 6, 1), 1e-3).double()
    low, high = error_quantiles(one, tiny, torch.ones_like(tiny), (0.1, 0.9))[0].T
    normal = 1.2816 * (torch.pi / 2) ** 0.5
    assert (low < -0.5 * normal).all()
    assert (high > 0.5 * normal).all()


def test_errors_before_the_first_test_do_not_calibrate():
    """The first two seasons test no expert, so the errors so far are unknown there."""
    values = torch.rand(40, 1).double()
    made = smooth(values, torch.ones_like(values).bool(), (7,), 3, torch.arange(1, 41))
    assert made.tested[:14, 0].tolist() == [-1] + [0] * 13
    assert made.tested[14:, 0].tolist() == list(range(15, 41))


def test_errors_of_a_random_walk_grow_with_the_root_of_the_step():
    found = walk_quantiles(4, (0.1, 0.5, 0.9))
    walks = np.random.default_rng(0).normal(size=(100_000, 4)).cumsum(1)
    walks /= np.abs(walks[:, 0]).mean()
    np.testing.assert_allclose(found, np.quantile(walks, [0.1, 0.5, 0.9], axis=0).T, atol=0.05)
    assert walk_quantiles(4, ()).shape == (4, 0)


# ---- members with and without reversion ------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"adjacency": "cosine", "members": 2}])
def test_a_forecast_weighs_the_halves_of_the_members(settings):
    made = tiny(cycle=None, **settings).fit(waves(90))
    network, fitted = made.fitted.network, made.fitted
    assert network.halves
    assert len(network.reverting) == (1 if settings else 2)
    assert ((network.reverting >= 0) & (network.reverting <= 1)).all()
    windows, _, start_step = fitted.scored_windows(fitted.context, 12)
    assert network.reversion is not None
    torch.nn.init.uniform_(network.reversion.pull, 0.1, 0.5)
    for share in (0.0, 0.3, 1.0):
        network.reverting.fill_(share)
        for batch, y in forecast(network, windows, start_step):
            with torch.no_grad():
                members = network(batch, batch.start + start_step, per_member=True)
            half = len(members) // 2
            plain, reverted = members[:half].mean(0), members[half:].mean(0)
            assert (plain - reverted).abs().max() > 1e-3
            expected = (1 - share) * plain + share * reverted
            torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)


class Halves:
    """A network of two members: one misses by 1, the other is exact for some series."""

    def __init__(self, reverts: list[bool], reverting: torch.Tensor):
        self.reverts, self.reverting = torch.tensor(reverts), reverting

    def __call__(self, batch: Batch, position: torch.Tensor, per_member: bool) -> torch.Tensor:
        assert per_member
        wrong = batch.future + 1
        reverted = torch.where(self.reverts, batch.future, wrong)
        return torch.stack([torch.where(self.reverts, wrong, batch.future), reverted])[..., None]


@pytest.mark.parametrize("reverts", [[True, True], [False, False], [True, False]])
def test_the_better_half_of_the_members_counts(reverts):
    """A network that is the same for all series has the mean of their shares."""
    windows = Windows.over(torch.randn(300, 2), None, 12, 6)
    own, shared = torch.zeros(2), torch.zeros(1)
    for reverting in (own, shared):
        weigh_halves(cast(Any, Halves(reverts, reverting)), windows, 0)
    assert own.tolist() == reverts
    assert shared.tolist() == [sum(reverts) / 2]


# ---- no row is wasted ------------------------------------------------------------------------


@pytest.mark.parametrize("given", [None, 20])
def test_validation_rows_are_learned_unless_they_were_given(given):
    """Only the second training, of a small table, sees them."""
    df = waves(120)
    changed = df.assign(y=np.where(df.ds >= df.ds.max() - np.timedelta64(3, "h"), 0.0, df.y))
    first, second = (
        tiny(validation=given, max_epochs=1, smoothing=True).fit(table) for table in (df, changed)
    )
    assert first.plan.learn_all == (given is None)
    cores = (each.fitted.network.core.parameters() for each in (first, second))
    weights = zip(*cores, strict=True)
    assert all(torch.equal(a, b) for a, b in weights) == (given is not None)


def test_learning_again_takes_the_epochs_that_validation_chose(monkeypatch):

    epochs, plain = [], learn.train

    def train(network, data, validation, recipe, **more):
        epochs.append((recipe.epochs, validation is None, len(data.starts.unique())))
        return plain(network, data, validation, recipe, **more)

    monkeypatch.setattr(learn, "train", train)
    model = tiny(max_epochs=3).fit(waves(120))
    best = min(model.history, key=lambda record: record["validation"])["epoch"]
    (first, validated, some), (again, alone, every) = epochs
    assert (first, validated, again, alone) == (3, False, best, True)
    assert every > some
    assert len(model.history) <= 3  # of the first training
