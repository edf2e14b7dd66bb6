"""Parts of covariates and of quantiles, and parts of many forecasts in a file."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from fighter import FighterError, Forecaster
from fighter.cli.main import main
from fighter.explain import Frozen

from ..tables import tiny, waves
from .test_covariates import cut, driven

AHEAD = 6


def with_covariates() -> tuple[Forecaster, pd.DataFrame]:
    """Return a model with a covariate of every kind, and the rows ahead."""
    df = driven(120)
    df["wind"] = np.sin(np.arange(len(df)))
    df["seen"] = np.cos(np.arange(len(df)) / 3)
    static = pd.DataFrame({"unique_id": ["a", "b"], "size": [1.0, 3.0], "kind": ["up", "down"]})
    history, ahead = cut(df, AHEAD)
    model = tiny(
        future=["switch", "wind"], past=["seen"], cycle=None, smoothing=False, max_epochs=3, lr=0.05
    )
    return model.fit(history, static=static), ahead.drop(columns=["y", "seen"])


def test_every_covariate_has_its_own_part(tmp_path):
    model, future = with_covariates()
    model.save(tmp_path / "m")
    for one in (model, Forecaster.load(tmp_path / "m")):
        graph = one.explain(unique_id="b", step=2, future=future)
        effects = {name: v for name, v in graph.terms.items() if name.startswith("effect of ")}
        names = ("switch", "wind", "size", "kind", "seen")
        assert set(effects) == {f"effect of {name}" for name in names}
        assert all(effects.values())
        assert sum(graph.terms.values()) + graph.sources.sum() == pytest.approx(graph.forecast)
        table = one.predict(future=future)
        assert graph.forecast == pytest.approx(table.Fighter[table.unique_id == "b"].iloc[1])
    # By brute force: the frozen head without one covariate, in the order of its columns.
    fitted = model.fitted
    panel = fitted.context
    known = np.stack([future[["switch", "wind"]][future.unique_id == i] for i in "ab"], 1)
    _, scaler, windows = fitted.window_after(panel, known)
    batch, head = windows.gather(windows.starts.new_zeros(1)), fitted.network.covariates
    frozen = Frozen(
        lambda ahead, past: head(
            batch._replace(future_covariates=ahead, past_covariates=past), AHEAD
        )[0, 1, 1, 0],
        batch.future_covariates,
        batch.past_covariates,
    )
    scale = float(scaler.scale[1])
    total = float(frozen.output.detach())
    for name, columns in {"switch": [0], "wind": [1], "size": [2], "kind": [3, 4]}.items():
        without = batch.future_covariates.clone()
        without[..., columns] = 0
        part = total - float(frozen(without, batch.past_covariates).detach())
        assert effects[f"effect of {name}"] == pytest.approx(part * scale, rel=1e-4, abs=1e-6)
    past = float(frozen(batch.future_covariates, 0 * batch.past_covariates).detach())
    assert effects["effect of seen"] == pytest.approx((total - past) * scale, rel=1e-4, abs=1e-6)


KINDS = {
    "mixed": {},
    "network": {"smoothing": False},
    "smoothing": {"lookback": 24},
    "early ends": {},
    "quantiles": {"quantiles": [0.1, 0.25, 0.9], "level": None},
}


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_quantiles_are_explained_exactly(kind):
    df = waves(28 if kind == "smoothing" else 110)
    if kind == "early ends":
        df = df[(df.unique_id == "a") | (df.ds < df.ds.max() - pd.Timedelta("3h"))]
    model = tiny(**{"level": [80], **KINDS[kind]}).fit(df)
    forecast = model.forecast()
    for place, quantile in enumerate(model.plan.quantiles):
        for series, step in ((0, 1), (1, 6)):
            name = forecast.ids[series]
            graph = model.explain(unique_id=name, step=step, quantile=quantile)
            value = forecast.quantiles[step - 1, series, place]
            assert graph.forecast == pytest.approx(value, rel=1e-5, abs=1e-5)
            total = sum(graph.terms.values()) + graph.sources.sum()
            assert total == pytest.approx(graph.forecast, rel=1e-10)
            assert graph.quantile == quantile
            assert f"(step {step}, quantile {quantile:g})" in graph.summary()
            if model.fitted.blend is not None:
                assert graph.terms["spread"] * (quantile - 0.5) > 0
    if model.fitted.conformal_shifts is not None:
        assert "calibration" in graph.terms


def test_a_quantile_of_the_network_alone_differs_by_its_own_weights():
    """Without a mixture, the output of the quantile is explained, not the point."""
    model = tiny(level=[80], smoothing=False).fit(waves(90))
    point, upper = (model.explain(unique_id="a", quantile=q) for q in (None, 0.9))
    assert not np.allclose(point.sources, upper.sources)
    assert "spread" not in upper.terms


def test_a_quantile_that_the_model_lacks_is_refused():
    model = tiny(level=[80], max_epochs=1).fit(waves(60))
    for value in (0.95, 80, "0.9"):
        with pytest.raises(FighterError) as error:
            model.explain(unique_id="a", quantile=value)
        assert (error.value.argument, error.value.value) == ("quantile", value)
    with pytest.raises(FighterError, match="no quantiles"):
        tiny(max_epochs=1).fit(waves(60)).explain(unique_id="a", quantile=0.9)


def test_parts_of_many_windows_are_written_as_they_come(tmp_path, monkeypatch):
    monkeypatch.setattr("fighter.forecasting.parts.ROWS", 50)  # several row groups
    df = waves(90)
    model = tiny(smoothing=False, level=[80]).fit(df)
    path = tmp_path / "parts.parquet"
    count = model.save_parts(path, df, windows=3, steps=[1, 6])
    file = pq.ParquetFile(path)
    assert file.num_row_groups > 3
    table = file.read().to_pandas()
    assert len(table) == count
    forecasts = table.groupby(["target", "cutoff", "step"])
    assert len(forecasts) == 3 * 2 * 2
    np.testing.assert_allclose(forecasts.part.sum(), forecasts.forecast.first(), rtol=1e-9)
    for cutoff in sorted(table.cutoff.unique()):
        expected = model.predict(df[df.ds <= cutoff])
        own = table[(table.cutoff == cutoff) & (table.target == "b") & (table.step == 6)]
        assert own.ds.unique() == expected.ds.iloc[-1]
        assert own.forecast.iloc[0] == pytest.approx(expected.Fighter.iloc[-1], rel=1e-5)
    past = table[table.term == "past value"]
    assert not past[["source", "time", "lag", "hop"]].isna().any().any()
    assert (past.time + past.lag * pd.Timedelta("1h") == past.ds).all()


def test_many_windows_read_what_is_known_ahead_from_both_tables():
    """A forecast before the end needs rows of the table, then rows of ``future``."""
    model, future = with_covariates()
    history, _ = cut(driven(120).assign(wind=np.sin(np.arange(240)), seen=0.5), AHEAD)
    graphs = list(model.explain_all(history, windows=3, steps=[6], future=future))
    assert len(graphs) == 3 * 2
    end = np.sort(history.ds.unique())[-3]
    known = pd.concat([history, future])[future.columns]
    expected = model.forecast(history[history.ds <= end], future=known[known.ds > end])
    assert [g.forecast for g in graphs[:2]] == pytest.approx(expected.point[5], rel=1e-5)


def test_parts_that_are_left_out_are_one_row(tmp_path):
    model = tiny(max_epochs=1, level=[80]).fit(waves(90))
    path = tmp_path / "parts.parquet"
    model.save_parts(path, steps=[2], top=3, quantile=0.1)
    table = pd.read_parquet(path)
    assert set(table.value_counts("term")[["past value", "other past values"]]) == {6, 2}
    assert (table["quantile"] == 0.1).all()
    groups = table.groupby("target")
    np.testing.assert_allclose(groups.part.sum(), groups.forecast.first(), rtol=1e-9)


def test_steps_are_explained_once_in_every_window(tmp_path):
    model = tiny(max_epochs=1, smoothing=False).fit(waves(60))
    path = tmp_path / "parts.parquet"
    model.save_parts(path, waves(60), steps=(step for step in (1, 6, 1)), windows=2)
    table = pd.read_parquet(path)
    groups = table.groupby(["target", "cutoff", "step"])
    assert len(groups) == 2 * 2 * 2
    np.testing.assert_allclose(groups.part.sum(), groups.forecast.first(), rtol=1e-9)
    with pytest.raises(FighterError):  # before the first graph is asked for
        model.explain_all(steps=[7])


def test_errors_of_many_windows_leave_no_file(tmp_path):
    model = tiny(max_epochs=1, smoothing=False).fit(waves(60))
    for options, argument in (
        ({"windows": 0}, "windows"), ({"windows": 900}, "windows"), ({"steps": [7]}, "steps"),
        ({"steps": 2}, "steps"), ({"steps": []}, "steps"), ({"steps": "12"}, "steps"),
        ({"top": 0}, "top"), ({"quantile": 0.5}, "quantile"),
    ):  # fmt: skip
        with pytest.raises(FighterError) as error:
            model.save_parts(tmp_path / "parts.parquet", **options)
        assert error.value.argument == argument
    with pytest.raises(FighterError, match=r"\.parquet"):
        model.save_parts(tmp_path / "parts.csv")
    assert not list(tmp_path.iterdir())


def test_the_command_explains_quantiles_and_writes_parts(tmp_path, capsys):
    model = tiny(max_epochs=1, smoothing=False, level=[80]).fit(waves(60))
    model.save(tmp_path / "m")
    waves(60).to_csv(tmp_path / "t.csv", index=False)
    command = ["explain", str(tmp_path / "m"), str(tmp_path / "t.csv"), "--series", "a"]
    parts = str(tmp_path / "p.parquet")
    assert main([*command, "--quantile", "0.9", "--parts", parts, "--windows", "2"]) == 0
    shown = capsys.readouterr().out
    rows = len(pd.read_parquet(parts))
    assert "quantile 0.9" in shown
    assert f"{rows:,} rows" in shown
    assert rows % 2 == 0


def test_effects_on_network_and_smoothing_are_one_term():
    history, ahead = cut(driven(150), AHEAD)
    settings = {"cycle": None, "max_epochs": 1, "level": [80]}
    model = tiny(future=["switch"], **settings).fit(history)
    model = replace_share(model)
    future = ahead.drop(columns="y")
    forecast = model.forecast(future=future)
    for quantile, values in ((None, forecast.point), (0.9, forecast.quantiles[..., 1])):
        graph = model.explain(unique_id="b", step=2, future=future, quantile=quantile)
        assert graph.forecast == pytest.approx(values[1, 1], rel=1e-5)
        total = sum(graph.terms.values()) + graph.sources.sum()
        assert total == pytest.approx(graph.forecast, rel=1e-10)
        assert graph.terms["effect of switch"]


def replace_share(model):
    """Return a model in which network and smoothing count alike."""
    half = torch.full_like(model.fitted.blend.share, 0.5)
    blend = replace(model.fitted.blend, share=half, width_share=half / 2)
    model._fitted = replace(model.fitted, blend=blend)
    return model


def test_quantiles_of_counts_are_explained():
    rng = np.random.default_rng(0)
    df = waves(160)
    df["y"] = rng.poisson(1.2, len(df)).astype(float)
    model = tiny(level=[80], max_epochs=1).fit(df)
    forecast = model.forecast()
    for place, quantile in enumerate(model.plan.quantiles):
        graph = model.explain(unique_id="a", step=2, quantile=quantile)
        value = forecast.quantiles[1, 0, place]
        assert graph.forecast == pytest.approx(value, rel=1e-5, abs=1e-5)
        total = sum(graph.terms.values()) + graph.sources.sum()
        assert total == pytest.approx(graph.forecast, rel=1e-9, abs=1e-9)


def test_many_categories_have_a_part():
    """The vector of a category counts by its difference from the mean of all."""
    names = tuple(f"s{i}" for i in range(24))
    df = waves(60, ids=names)
    static = pd.DataFrame({"unique_id": names, "city": [f"city {i}" for i in range(24)]})
    model = tiny(smoothing=False, max_epochs=3, lr=0.05).fit(df, static=static)
    assert model.fitted.network.covariates.vectors
    graph = model.explain(unique_id="s3", step=2)
    table = model.predict()
    assert graph.forecast == pytest.approx(table.Fighter[table.unique_id == "s3"].iloc[1], rel=1e-5)
    assert sum(graph.terms.values()) + graph.sources.sum() == pytest.approx(graph.forecast)
    assert graph.terms["effect of city"]
