"""Settings that reach each model, and models that learn nothing."""

from dataclasses import asdict, fields

import numpy as np
import pandas as pd
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fighter import DataWarning, Forecaster
from fighter.data.windows import Batch
from fighter.models import MODELS, ForecastNet, Task, build_core

from ..tables import waves
from .small import all_new, small

UNTRAINED = [name for name, config in MODELS.items() if not config.trainable]
NAN = float("nan")


def fit(model: str, df: pd.DataFrame | None = None, **settings) -> Forecaster:
    settings = {"horizon": 3, "lookback": 12, "max_epochs": 1, "verbose": False, **settings}
    return Forecaster.from_flat(model=model, **settings).fit(waves(48) if df is None else df)


# ---- settings --------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_given_settings_reach_the_network(model):
    given = {"width": 24, "dropout": 0.25, "heads": 3, "layers": 1, "kappa": 2, "nodes": "patch"}
    given |= {"adjacency": "mixed", "members": 1}
    names = {f.name for f in fields(MODELS[model])}
    given = {name: value for name, value in given.items() if name in names}
    plan = fit(model, **given).plan
    assert asdict(plan.model) == asdict(MODELS[model](**given))


def test_members_reach_the_network():
    model = fit("fighter", members=2, width=8)
    assert model.fitted.network.core.members == 2
    assert model.plan.model.width == 8


@pytest.mark.parametrize("model", MODELS)
def test_settings_left_out_are_the_models_own_or_chosen(model):
    chosen = {}
    if model in ("fighter", "transformer"):  # by the size of the data, the smallest
        chosen |= {"width": 64, "dropout": 0.2}
    if model == "fighter":  # over a few series
        chosen |= {"members": 2, "adjacency": "lazy"}
    assert fit(model).plan.model == MODELS[model](**chosen)


def test_defaults_of_fighter():
    chosen = fit("fighter").plan.model
    assert (chosen.nodes, chosen.kappa, chosen.adjacency) == ("series", 3, "lazy")
    assert fit("fighter", nodes="patch").plan.model.adjacency == "cosine"
    assert fit("fighter", nodes="time", adjacency="static").plan.model.adjacency == "static"
    many = waves(24, ids=range(501))
    chosen = fit("fighter", many, lookback=3, width=8, heads=1, layers=1, batch_size=64).plan.model
    assert (chosen.adjacency, chosen.members) == ("none", 2)


def test_reversion_is_learned_where_levels_revert():
    """In an AR(1) process less of the level is left, the further ahead the step."""
    noise = np.random.default_rng(0).normal(size=1200)
    values = np.zeros_like(noise)
    for t in range(1, len(values)):
        values[t] = 0.98 * values[t - 1] + noise[t]
    table = pd.DataFrame({"ds": pd.date_range("2024", periods=1200, freq="h"), "y": 100 + values})
    settings = {"horizon": 24, "lookback": 24, "max_epochs": 20, "cycle": None, "calendar": False}
    with_it, without = (
        fit("linear", table, **settings, reversion=choice) for choice in (True, False)
    )
    best, other = (min(r["validation"] for r in m.history) for m in (with_it, without))
    assert best < 0.95 * other
    pull = with_it.fitted.network.reversion.pull[0, :, 0]
    assert 0 < pull[0] < pull[11] < pull[23] < 1


def test_names_of_columns():
    assert [config.column for config in MODELS.values()] == [
        "Fighter", "Autoformer", "CycleNet", "DLinear", "GCN", "GFSA", "Informer", "iTransformer",
        "Linear", "WindowMean", "SeasonalNaive", "NormLin", "PatchTST", "Pretrained",
        "Reformer", "RepeatLast", "Seq2Seq", "Transformer",
    ]  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_which_models_serve_other_series(model):
    others = {"adjacency": "cosine"} if model == "fighter" else {}
    fitted = small(model, cycle=None, max_epochs=1, **others).fit(waves(48)).fitted
    free = {"fighter", "itransformer", "patchtst", "cyclenet", "linear", "dlinear", *UNTRAINED}
    assert (not fitted.alternative) == (model in free)


# ---- nothing to learn ------------------------------------------------------------------------


def test_untrained_models_have_no_parameters():
    assert UNTRAINED == ["mean", "naive", "pretrained", "repeat"]
    for name in MODELS:
        core = build_core(name, Task(12, 3, 2, period=4))
        assert core.trainable == bool(list(core.parameters()))


@pytest.mark.parametrize("model", UNTRAINED)
@all_new
def test_nothing_around_an_untrained_model_is_trained(model):
    df = waves(48).assign(known=1.0)
    fitted = fit(model, df, cycle=4, future=["known"])
    assert not list(fitted.fitted.network.parameters())
    assert len(fit(model, max_epochs=None).history) == (model != "pretrained")
    other = fitted.predict(waves(20, ids=("x",)).assign(known=0.0), future=future(20, "x"))
    assert other.unique_id.tolist() == ["x"] * 3


def future(rows: int, name: str) -> pd.DataFrame:
    return waves(rows + 3, ids=(name,)).tail(3)[["unique_id", "ds"]].assign(known=0.0)


def net(model: str, past: list, period: int | None = None) -> list:
    """Return three forecast steps for one window of one series; NaN means not observed."""
    values = torch.tensor(past)[None, :, None]
    seen = ~values.isnan()
    network = ForecastNet(build_core(model, Task(len(past), 3, 1, period=period)))
    batch = Batch(
        torch.where(seen, values, 1e6), values[:, :3], seen, None, torch.zeros(1, dtype=torch.long)
    )
    return network(batch, batch.start).flatten().tolist()


@pytest.mark.parametrize("model", UNTRAINED)
def test_untrained_models_do_not_look_at_values_on_the_host(model):
    """Fake tensors refuse what a CUDA graph cannot hold: reading a value."""
    with FakeTensorMode():
        network = ForecastNet(build_core(model, Task(12, 3, 2, period=5)))
        past, seen = torch.empty(4, 12, 2), torch.ones(4, 12, 2, dtype=torch.bool)
        start = torch.zeros(4, dtype=torch.long)
        assert network(Batch(past, past[:, :3], seen, None, start), start).shape == (4, 3, 2, 1)


def test_repeat_takes_the_last_observed_value():
    assert net("repeat", [1.0, 5.0, 2.0]) == [2, 2, 2]
    assert net("repeat", [1.0, 5.0, NAN]) == [5, 5, 5]
    assert net("repeat", [1.0, NAN, NAN]) == [1, 1, 1]
    assert net("repeat", [NAN, NAN, NAN]) == [0, 0, 0]  # of nothing, the mean of training


def test_mean_is_over_observed_values():
    assert net("mean", [1.0, 5.0, 3.0]) == [3, 3, 3]
    assert net("mean", [NAN, 5.0, NAN, 1.0]) == [3, 3, 3]
    assert net("mean", [NAN, NAN, NAN]) == [0, 0, 0]


def test_naive_fills_gaps_from_earlier_seasons():
    assert net("naive", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3) == [4, 5, 6]
    assert net("naive", [1.0, 2.0, 3.0, 4.0, NAN, 6.0], 3) == [4, 2, 6]
    assert net("naive", [9.0, 1.0, 2.0, 3.0, NAN, 5.0, 6.0, NAN], 3) == [5, 6, 1]  # 2⅔ seasons
    assert net("naive", [1.0, 2.0, 3.0, NAN, 5.0, NAN, NAN, 8.0, NAN], 3) == [1, 8, 3]
    assert net("naive", [1.0, NAN, 3.0, 4.0, NAN, 8.0], 3) == [4, 4, 8]  # the mean of 1, 3, 4, 8
    assert net("naive", [1.0, 2.0, NAN]) == [2, 2, 2]
    assert net("naive", [NAN, NAN, NAN], 3) == [0, 0, 0]


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        ("repeat", lambda y: [y[-1]] * 4),
        ("mean", lambda y: [np.nanmean(y[-12:])] * 4),
        ("naive", lambda y: [y[-4], y[-3], y[-6], y[-1]]),  # y[-2] is not there
    ],
)
def test_a_gap_in_the_table(model, wanted):
    y = np.arange(48.0) ** 2  # its end is far from its mean
    y[-2] = NAN
    df = waves(48, ids=("a",)).assign(y=y)
    forecast = fit(model, df, cycle=4, horizon=4).predict()
    assert forecast[MODELS[model].column].to_numpy() == pytest.approx(wanted(y), rel=1e-5)


def test_naive_looks_back_a_whole_season():
    """Also where the look-back that was given is shorter."""
    season = np.random.default_rng(0).normal(size=30)
    df = waves(120, ids=("a",)).assign(y=np.tile(season, 4))
    for lookback in (12, None, 50):
        model = fit("naive", df, cycle=30, horizon=6, lookback=lookback)
        assert model.plan.lookback >= 30
        assert model.predict().SeasonalNaive.to_numpy() == pytest.approx(season[:6], abs=1e-5)


@pytest.mark.parametrize("outlier", [100.0, 1e9, 1e12])
def test_models_without_weights_return_the_values_of_the_table(outlier):
    y = np.round(np.random.default_rng(0).normal(100, 10, 200), 2)
    y[3], y[-1] = outlier, 109.45
    df = pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=200, freq="h"), "y": y})

    def predict(model: str, table: pd.DataFrame = df) -> np.ndarray:
        fitted = Forecaster(3, 48, model=model, verbose=False, level=[80]).fit(table)
        return fitted.predict().iloc[:, 2].to_numpy()

    assert predict("repeat").tolist() == [109.45] * 3
    assert predict("naive").tolist() == y[-24:-21].tolist()
    assert np.allclose(predict("mean"), y[-48:].mean(), rtol=1e-14)
    gaps = df.assign(y=df.y.where(df.index != 199))
    with pytest.warns(DataWarning):
        assert predict("repeat", gaps).tolist() == [y[-2]] * 3
