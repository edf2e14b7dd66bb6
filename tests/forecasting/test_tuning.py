"""Fine-tuning of the pretrained network: what it learns from, when it is kept, and how it is."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

from fighter import FighterError, Forecaster, Training
from fighter.forecasting import alone, mixture, storage, tuning
from fighter.forecasting import fit as fitting
from fighter.forecasting.blend_shares import make_blend
from fighter.forecasting.tuning import Cells, Table, Trial, Tuned, mix
from fighter.models import Pretrained
from fighter.models.pretrained import PATCH
from fighter.models.zero_shot import load_network

from ..tables import waves
from .small import all_new
from .test_explain import check
from .test_storage import read

IDS = ("a", "b", "c")


def model(tune: bool = True, epochs: int = 1, **settings) -> Forecaster:
    given = {"level": [80], "verbose": False, "device": "cpu"} | settings
    return Forecaster(6, model=Pretrained(tune=tune), training=Training(max_epochs=epochs), **given)


@pytest.fixture(autouse=True)
def little(monkeypatch):
    """Train and test on few windows."""
    for name in ("ROUND", "TEST"):
        monkeypatch.setattr(tuning, name, {"cpu": 2**9})
    monkeypatch.setattr(tuning, "STEP", {"cpu": 2**8})
    monkeypatch.setattr(alone, "TOKENS", {"cpu": 2**11})


@pytest.fixture
def willing(monkeypatch):
    """Keep the new weights in any case."""
    monkeypatch.setattr(tuning, "LEAST_GAIN", -10.0)
    monkeypatch.setattr(tuning, "SURE", -1e9)


@pytest.fixture
def unwilling(monkeypatch):
    """Keep the old weights in any case."""
    monkeypatch.setattr(tuning, "LEAST_GAIN", 2.0)


# ---- what is kept ---------------------------------------------------------------------------


@pytest.mark.usefixtures("unwilling")
def test_weights_that_do_not_win_change_nothing(tmp_path):
    fitted, plain = model().fit(waves(150)), model(tune=False).fit(waves(150))
    assert fitted.fitted.tuned is None
    assert fitted.plan.tuned_share == 0
    assert replace(fitted.plan, tuned_gain=0.0, model=plain.plan.model) == plain.plan
    pd.testing.assert_frame_equal(fitted.predict(), plain.predict(), check_exact=True)
    fitted.save(tmp_path)
    config, tensors = read(tmp_path)
    assert "tuned" not in config
    assert not any(name.startswith("tuned") for name in tensors)


@pytest.mark.usefixtures("willing")
def test_weights_that_win_are_used_and_saved(tmp_path, monkeypatch):
    fitted = model().fit(waves(150, ids=IDS))
    assert fitted.plan.tuned_share in (*tuning.SHARES, 1.0)
    weights = (each.parameters() for each in (load_network(), fitted.fitted.tuned))
    assert any(not torch.equal(a, b) for a, b in zip(*weights, strict=True))
    fitted.save(tmp_path)
    config, _ = read(tmp_path)
    assert "pretrained" not in config
    monkeypatch.setattr(storage, "digest", lambda: "of another version")
    loaded = Forecaster.load(tmp_path)
    assert loaded.plan == fitted.plan
    pd.testing.assert_frame_equal(loaded.predict(), fitted.predict(), check_exact=True)
    made = loaded.predict()
    value = made[made.unique_id == "b"].Pretrained.iloc[2]
    check(loaded.explain(unique_id="b", step=3), value)


@all_new
@pytest.mark.usefixtures("willing")
def test_new_series_are_forecast_by_the_new_weights():
    fitted, other = model().fit(waves(150)), waves(150, ids=("x",), seed=4)
    made = fitted.predict(other)
    old = replace(fitted.fitted, tuned=None).forecast(fitted.read(other)).point
    if fitted.plan.pretrained_share:
        assert abs(made.Pretrained.to_numpy() - old[:, 0]).max() > 1e-6
    assert len(made) == 6


def test_tune_is_true_or_false():
    with pytest.raises(FighterError, match="tune"):
        Pretrained(tune="no")  # pyright: ignore[reportArgumentType]


def test_what_was_chosen_is_told(capsys):
    model(verbose=True).fit(waves(150))
    assert "the loss on validation rows" in capsys.readouterr().err


# ---- what is learned from -------------------------------------------------------------------


@pytest.mark.usefixtures("willing")
def test_nothing_is_learned_from_validation_rows(monkeypatch):
    monkeypatch.setattr(tuning, "SHARES", ())
    table = waves(150, ids=("a",))
    first = model(validation=24).fit(table)
    other = model(validation=24).fit(table.assign(y=table.y.where(table.index < 126, 5.0)))
    for a, b in zip(first.fitted.tuned.parameters(), other.fitted.tuned.parameters(), strict=True):
        assert torch.equal(a, b)
    assert first.plan.tuned_gain != other.plan.tuned_gain


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
@pytest.mark.usefixtures("willing")
@pytest.mark.parametrize("late", [False, True])
def test_it_is_weighed_on_rows_that_it_did_not_learn_from(monkeypatch, late):
    made = []

    def keep(*args):
        made.append(args[5])
        return make_blend(*args)

    monkeypatch.setattr(mixture, "make_blend", keep)
    table = waves(200)
    if late:  # the series end at different rows
        table = table[(table.unique_id == "a") | (table.ds < "2024-01-07")]
    fitted = model().fit(table)
    (rehearsal,) = made
    rows = rehearsal.smoothed.rows
    asked = rehearsal.smoothed.zero_shot[:, 0, :, 0].isfinite()
    assert asked.any(0).all()
    ends = torch.from_numpy(fitted.fitted.context.ends) + 200 - fitted.fitted.context.length
    learned = ends - (fitted.plan.validation / 200 * ends).round()
    assert (rows[:, None] >= learned).expand_as(asked)[asked].all()
    assert len(rehearsal.windows) > int(asked.any(1).sum())  # smoothing is tried on all rows


def table_of(rows: int = 120, linked: bool = False, horizon: int = 6) -> tuple[Table, Cells, Cells]:
    """Return a table as the network takes it, with its training and validation rows."""
    kept = []

    def look(plan, panel, training, validation, settings, **_):
        plan = replace(plan, horizon=horizon)
        kept.append((Table(plan, panel, training.device, linked), training, validation))
        return Tuned(None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "tune", look)
        model().fit(waves(rows, ids=IDS))
    ((table, training, validation),) = kept
    return table, Cells.of(training), Cells.of(validation)


@pytest.mark.parametrize("linked", [False, True])
def test_examples_hold_the_past_and_the_truth_in_the_same_units(linked):
    table, cells, _ = table_of(linked=linked)
    made = table.draw(cells, torch.Generator().manual_seed(0))
    assert made.past.shape[1] == (3 if linked else 1)
    assert made.scored.sum(-1).max() == 6
    assert not made.past[~made.observed].any()
    rows, series = cells.rows[:1], torch.tensor([[1]])
    one = table.examples(rows, series, torch.tensor([[True]]))
    values, row = table.values[:, 1], int(rows)
    past = one.past[0, 0][one.observed[0, 0]].double()
    level, unit = values[:row].mean(), values[:row].std(correction=0)
    torch.testing.assert_close(past * unit + level, values[:row], rtol=1e-5, atol=1e-5)
    future = one.future[0, 0, :6].double() * unit + level
    torch.testing.assert_close(future, values[row : row + 6], rtol=1e-5, atol=1e-5)


def test_a_long_horizon_is_learned_as_far_as_the_network_reaches():
    table, cells, _ = table_of(rows=400, horizon=250)
    made = table.draw(cells, torch.Generator().manual_seed(0))
    assert made.future.shape[-1] == 12 * PATCH


def test_the_error_of_a_mean_is_the_larger_one_of_series_and_windows():
    table, _, last = table_of()
    test = Trial(table, last)
    test.origin, test.series = torch.tensor([0, 0, 9, 9]), torch.tensor([0, 1, 0, 1])
    x = torch.tensor([1.0, 3.0, 1.0, 3.0]).double()
    test.windows = 2.0
    assert test.error(x) == pytest.approx(2**0.5 / 2**0.5)  # series differ by 2, windows by nothing
    test.origin, test.series = test.series, test.origin
    assert test.error(x) == pytest.approx(1.0)
    test.windows = 1.0
    test.series = torch.zeros(4, dtype=torch.long)
    assert test.error(x) == float("inf")  # one window of one series tells nothing


def test_weights_are_mixed():
    old = load_network()
    new = mix(old, old, 0.5)
    with torch.no_grad():
        for parameter in new.parameters():
            parameter += 1
    for a, b in zip(old.parameters(), mix(old, new, 0.3).parameters(), strict=True):
        torch.testing.assert_close(b, a + 0.3)


@pytest.mark.slow
def test_it_learns_a_season_that_nobody_told(monkeypatch):
    """Training lowers the loss on rows that it has not seen."""
    monkeypatch.setattr(tuning, "ROUND", {"cpu": 2**12})
    ids = tuple("abcdefgh")
    rough = waves(300, ids=ids, noise=0.0)
    jagged = [3.0, 0.0, 1.0, 5.0, 0.0, 0.0, 2.0, 4.0, 1.0, 0.0, 6.0]
    step = rough.groupby("unique_id").cumcount()
    shift = rough.unique_id.map({name: 3 * i for i, name in enumerate(ids)})
    table = rough.assign(y=[jagged[(a + b) % 11] for a, b in zip(step, shift, strict=True)])
    fitted = model(epochs=3).fit(table)
    assert fitted.plan.tuned_gain > 0.05
    assert fitted.plan.tuned_share > 0
