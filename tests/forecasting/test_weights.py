import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from fighter import FighterError, Forecaster
from fighter.cli import main
from fighter.training.losses import make_loss

from ..tables import tail, tiny, waves
from ..training.nets import same_weights
from .small import all_new, small

WEIGHTS = {"a": 3.0, "b": 1.0}
TABLE = pd.DataFrame({"unique_id": ["b", "a", "c"], "revenue": [1, 3, 9]})


def test_the_loss_is_a_weighted_mean():
    y, target = torch.tensor([[[[1.0], [5.0]]]]), torch.tensor([[[0.0, 2.0]]])  # errors 1 and 3
    total, count = make_loss("mae", ())(y, target, None, torch.tensor([1.5, 0.5]))
    assert (total / count).item() == pytest.approx((1.5 * 1 + 0.5 * 3) / 2)
    total, count = make_loss("mae", ())(y, target, target > 1, torch.tensor([1.5, 0.5]))
    assert (total / count).item() == pytest.approx(3)


@pytest.mark.parametrize(
    "weights",
    [TABLE, pl.from_pandas(TABLE), TABLE.set_index("unique_id").revenue, TABLE.to_dict("list")],
    ids=["pandas", "polars", "series", "columns"],
)
def test_weights_come_in_many_forms(weights):
    panel = tiny().read(waves(60), weights=weights)
    assert panel.weights.tolist() == [3, 1]
    assert panel.select(["b"]).weights.tolist() == [1]


def test_a_series_without_weight_is_not_learned():
    """What it holds does not matter, beyond its scale and what it tells the other series."""
    df = waves(80)
    fits = []
    for factor in (1.0, -1.0):
        changed = df.assign(y=df.y.where(df.unique_id == "a", 10 + factor * (df.y - 10)))
        model = small("linear", cycle=None, reversion=False)
        fits.append(model.fit(changed, weights={"a": 1, "b": 0}))
    assert same_weights(fits[0].fitted.network, fits[1].fitted.network)
    plain = small("linear", cycle=None).fit(df)
    assert not same_weights(fits[0].fitted.network, plain.fitted.network)


def test_equal_weights_change_next_to_nothing():
    df = waves(80)
    plain, equal = (tiny(level=[80]).fit(df, weights=w) for w in (None, {"a": 7, "b": 7}))
    assert np.allclose(plain.predict().Fighter, equal.predict().Fighter, atol=1e-5)


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_scores_of_the_table_are_weighted(tmp_path):
    df = waves(80)
    static = TABLE.assign(kind=["x", "y", "x"])
    model = small("linear").fit(tail(df, 20), static=static, weights="revenue")
    assert model.fitted.context.static_names == ("kind=x", "kind=y")  # the weight is no covariate
    model.save(tmp_path / "m")
    model = Forecaster.load(tmp_path / "m")
    options = {"last": 20, "metrics": ["rmsse", "wape"]}
    each = model.evaluate(df, **options)
    total = model.evaluate(df, **options, total=True)
    assert total["rmsse"] == pytest.approx((3 * each.rmsse[0] + each.rmsse[1]) / 4)
    error = model.evaluate(df, last=20).mae
    truth = error / each.wape
    shares = (3 * error[0] + error[1]) / (3 * truth[0] + truth[1])
    assert total["wape"] == pytest.approx(shares)
    plain = model.evaluate(df, **options, total=True, weights={"a": 1, "b": 1})
    assert plain["rmsse"] == pytest.approx(each.rmsse.mean())
    assert model.score(df) == pytest.approx(-model.evaluate(df, total=True)["scaled_mae"])
    model.fit(df, static=static[["unique_id", "kind"]], warm_start=True)
    assert model.fitted.context.weights.tolist() == [3, 1]


@all_new
def test_weights_that_are_wrong_are_refused():
    df = waves(60)
    table = TABLE.assign(extra=1)
    for weights, words in (
        ({"a": 1}, "no weight for 1 of 2 series, 'b'"),
        ({"a": 1, "b": -2}, "'b' has the weight -2"),
        ({"a": 1, "b": None}, "'b' has the weight None"),
        ({"a": float("nan"), "b": 1}, "'a' has the weight nan"),
        ({"a": 0, "b": 0}, "above 0"),
        (table, "'revenue', 'extra'"),
        (pd.concat([TABLE, TABLE]), "more than one row"),
        ("revenue", "static"),
    ):
        with pytest.raises(FighterError, match=words) as error:
            tiny().fit(df, weights=weights)
        assert error.value.argument == "weights"
    with pytest.raises(FighterError, match="no such column"):
        tiny().fit(df, static=TABLE, weights="sales")
    model = small("repeat").fit(df[df.unique_id == "a"], weights=WEIGHTS)
    with pytest.raises(
        FighterError, match=r"no weight for 1 of 1 series, 'b'; .*evaluate\(weights="
    ):
        model.evaluate(df[df.unique_id == "b"], total=True)
    small("repeat").fit(df[df.unique_id == "a"]).evaluate(df, last=6, total=True, weights=WEIGHTS)


def test_weights_on_the_command_line(tmp_path, capsys):
    waves(80).to_csv(tmp_path / "t.csv", index=False)
    TABLE.to_csv(tmp_path / "s.csv", index=False)
    command = ["forecast", str(tmp_path / "t.csv"), "--horizon", "4", "--model", "repeat"]
    command += ["--out", str(tmp_path / "f.csv"), "--save", str(tmp_path / "m")]
    static = ["--static", str(tmp_path / "s.csv")]
    assert main([*command, *static, "--weights", "revenue"]) == 0
    model = Forecaster.load(tmp_path / "m")
    assert model.fitted.context.weights.tolist() == [3, 1]
    assert not model.fitted.context.static_names
    assert main(["fit", *command[1:6], "--out", str(tmp_path / "n"), "--weights", "revenue"]) == 1
    assert "--weights revenue: names a column" in capsys.readouterr().err
