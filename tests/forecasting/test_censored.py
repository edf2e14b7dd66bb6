"""Values that are lower bounds: sales of days on which the shelf was empty."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from fighter import FighterError, Forecaster
from fighter.cli import main
from fighter.data.censored import with_expected
from fighter.training.losses import make_loss

from ..tables import CONVERT, tiny, wide
from .small import small

HORIZON = 7


def shop(stock: str = "random", rows: int = 210, items: int = 6) -> pd.DataFrame:
    """Return daily sales, the demand they came from and its mean, and where the shelf was empty.

    The stock runs out on a fifth of the days: drawn at random, or those of the largest demand.
    """
    random, step = np.random.default_rng(0), np.arange(rows)[:, None]
    mean = np.linspace(10, 30, items) * (1 + 0.4 * np.sin(2 * np.pi * step / 7))
    demand = random.poisson(mean).astype(float)
    empty = random.random(demand.shape) < 0.2
    stock_left = np.floor(demand * random.uniform(0.2, 0.9, demand.shape))
    if stock == "fixed":
        stock_left = np.broadcast_to(np.quantile(demand, 0.8, axis=0), demand.shape)
        empty = demand > stock_left
    columns = {
        "unique_id": np.repeat([f"item {i}" for i in range(items)], rows),
        "ds": np.tile(pd.date_range("2024-01-01", periods=rows), items),
        "y": np.where(empty, stock_left, demand).T.ravel(),
        "stockout": empty.T.ravel(),
        "demand": demand.T.ravel(),
        "mean": mean.T.ravel(),
    }
    return pd.DataFrame(columns)


def split(df: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    past = df.ds < df.ds.max() - pd.Timedelta(days=HORIZON - 1)
    return df[past].drop(columns=["demand", "mean"]), df[~past]


@pytest.mark.parametrize(
    ("stock", "model"), [("random", "fighter"), ("random", "pretrained"), ("fixed", "pretrained")]
)
def test_a_forecast_is_of_the_demand(stock, model):
    df = shop(stock)
    past, later = split(df)
    demand = past.assign(y=df.demand[past.index])
    bias = {}
    for name, table, censored in (
        ("sales", past.drop(columns="stockout"), None),
        ("bounds", past, "stockout"),
        ("demand", demand.drop(columns="stockout"), None),
    ):
        few = {"max_epochs": 3} if model == "fighter" else {}
        forecaster = Forecaster.from_flat(
            horizon=HORIZON, model=model, censored=censored, verbose=False, device="cpu", **few
        )
        forecast = forecaster.fit(table).predict().merge(later, on=["unique_id", "ds"])
        column = forecaster.plan.model.column
        bias[name] = forecast[column].sum() / forecast["mean"].sum() - 1
    assert abs(bias["bounds"]) < 0.045  # half of which is that of a median
    assert abs(bias["bounds"] - bias["demand"]) < 0.025
    assert bias["sales"] < bias["bounds"] - (0.03 if stock == "random" else 0.005)
    assert bias["sales"] < -0.04


def test_the_loss_has_one_side():
    y = torch.tensor([[[[3.0, 3.0]], [[1.0, 1.0]]]])  # of two steps: the point and a quantile
    target = torch.tensor([[[9.0], [9.0]]])
    bounds = torch.tensor([[[2.0], [2.0]]])
    total, count = make_loss("mae", [0.9])(y, target, None, None, bounds)
    assert float(total) == pytest.approx((1 + 2 * 0.9 * 1) / 2)  # only the forecast below the bound
    assert float(count) == 2
    exact = make_loss("mae", [0.9])(y, target, None, None, bounds * torch.nan)
    assert [float(e) for e in exact] == [float(e) for e in make_loss("mae", [0.9])(y, target, None)]


def test_a_bound_becomes_what_was_to_be_expected():
    df = shop("fixed")
    panel = Forecaster(HORIZON, censored="stockout").read(df.drop(columns=["demand", "mean"]))
    demand = df.pivot(index="ds", columns="unique_id", values="demand").to_numpy()
    raw = Forecaster(HORIZON).read(df.drop(columns=["stockout", "demand", "mean"])).values
    marked = ~np.isnan(panel.at_least)
    assert marked.any()
    assert np.array_equal(panel.values[~marked], raw[~marked])
    assert np.array_equal(panel.at_least[marked], raw[marked])
    assert (panel.values >= raw).all()
    late = marked & (np.arange(len(raw)) > 30)[:, None]
    error = {n: (v - demand)[late].mean() for n, v in (("raw", raw), ("filled", panel.values))}
    assert error["raw"] < -3
    assert abs(error["filled"]) < -error["raw"] / 3


def test_only_earlier_rows_count():
    panel = Forecaster(HORIZON, censored="stockout").read(split(shop())[0])
    raw = panel.at_least.copy()
    start = panel.values.copy()
    start[~np.isnan(raw)] = raw[~np.isnan(raw)]
    for row in (40, 100):
        changed = start.copy()
        changed[row:] *= 5
        again = with_expected(replace(panel, values=changed))
        assert np.array_equal(again.values[:row], panel.values[:row])


@pytest.mark.parametrize("library", CONVERT)
def test_later_tables_and_saved_models(library, tmp_path):
    df = shop().drop(columns=["demand", "mean"])
    past = df[df.ds < "2024-07-01"]
    model = tiny(HORIZON, censored="stockout", level=[80]).fit(CONVERT[library](past))
    later = CONVERT[library](df)
    forecast = model.predict(later)
    model.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    assert np.array_equal(np.asarray(loaded.predict(later)), np.asarray(forecast))
    assert np.array_equal(np.asarray(loaded.predict()), np.asarray(model.predict()))
    graph = model.explain(later, unique_id="item 2", step=3)
    terms = sum(graph.terms.values()) + graph.sources.sum()
    assert terms == pytest.approx(graph.forecast, abs=1e-5)


def test_cells_with_a_bound_are_not_scored():
    df = shop().drop(columns=["demand", "mean"])
    model = small("linear", HORIZON, censored="stockout").fit(df[df.ds < "2024-06-01"])
    plain = model.evaluate(df, last=HORIZON, metrics="mae")
    marks = df.ds >= df.ds.max() - pd.Timedelta(days=HORIZON - 1)
    one = df[marks & (df.unique_id == "item 0") & ~df.stockout].index[0]
    wrong = df.copy()
    wrong.loc[one, "y"] += 1000
    assert model.evaluate(wrong, last=HORIZON, metrics="mae").mae[0] > plain.mae[0] + 50
    wrong.loc[one, "stockout"] = True
    assert model.evaluate(wrong, last=HORIZON, metrics="mae").mae[0] < plain.mae[0] + 5


def test_a_wide_table_shares_one_column():
    df = shop()
    table = wide(df).assign(stockout=lambda t: np.arange(len(t)) % 5 == 0).reset_index()
    panel = tiny(HORIZON, censored="stockout").read(table)
    assert panel.n_series == 6
    assert np.array_equal(~np.isnan(panel.at_least), np.arange(210)[:, None] % 5 == np.zeros(6))
    assert len(tiny(HORIZON, censored="stockout").fit(table).predict()) == HORIZON * 6


def test_wrong_columns_are_refused():
    df = shop().drop(columns=["demand", "mean"])
    with pytest.raises(FighterError, match="sold_out"):
        tiny(censored="sold_out").fit(df)
    with pytest.raises(FighterError, match="needs 1 for a lower bound"):
        tiny(censored="stockout").fit(df.assign(stockout=df.stockout * 2))
    with pytest.raises(FighterError, match="is a covariate, too"):
        tiny(censored="stockout", future=["stockout"])
    with pytest.raises(FighterError, match="needs the name of a column"):
        tiny(censored=True)
    model = tiny(censored="stockout").fit(df)
    with pytest.raises(FighterError, match="stockout"):
        model.predict(df.drop(columns="stockout"))


def test_the_command_line_has_the_flag(tmp_path):
    df = shop(rows=90, items=2).drop(columns=["demand", "mean"])
    df.assign(stockout=df.stockout.astype(int)).to_csv(tmp_path / "shop.csv", index=False)
    args = ["forecast", str(tmp_path / "shop.csv"), "--horizon", "7", "--censored", "stockout"]
    args += ["--out", str(tmp_path / "out.csv"), "--max-epochs", "2", "--quiet"]
    assert not main(args)
    assert len(pd.read_csv(tmp_path / "out.csv")) == 14
