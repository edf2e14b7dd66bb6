import warnings

import numpy as np
import pandas as pd
import pytest

from fighter import FighterError
from fighter.hierarchy import bottom_up

from .forecasting.small import small
from .tables import CONVERT, waves

KEYS = ["state", "store"]
STORES = {"a": ("CA", 1), "b": ("CA", 2), "c": ("TX", 1)}


def sales(rows: int = 60) -> pd.DataFrame:
    df = waves(rows, ids=tuple(STORES))
    keys = pd.DataFrame([STORES[name] for name in df.unique_id], columns=KEYS)
    return pd.concat([keys, df[["ds", "y"]]], axis=1)


@pytest.fixture(scope="module")
def forecast() -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return small("linear", id_col=KEYS, level=[80]).fit(sales()).predict()


@pytest.mark.parametrize("backend", CONVERT)
def test_points_add_up_and_intervals_do_not(forecast, backend):
    table = bottom_up(CONVERT[backend](forecast), keys=KEYS)
    assert isinstance(table, type(CONVERT[backend](forecast)))
    table = table if backend == "pandas" else table.to_pandas()
    name = forecast.columns[3]
    assert list(table) == ["level", *forecast.columns]
    assert table.groupby("level").size().to_dict() == {"total": 6, "state": 12, "state/store": 18}
    total = table[table.level == "total"]
    assert total[KEYS].isna().all().all()
    assert np.allclose(total[name], forecast.groupby("ds")[name].sum())
    texas = table[(table.level == "state") & (table.state == "TX")]
    assert np.allclose(texas[name], forecast[forecast.state == "TX"][name])
    california = table[(table.level == "state") & (table.state == "CA")]
    own = forecast[forecast.state == "CA"]
    assert np.allclose(california[name], own.groupby("ds")[name].sum())
    ends = [f"{name}-lo-80", f"{name}-hi-80"]
    assert table[table.level != "state/store"][ends].isna().all().all()
    bottom = table[table.level == "state/store"].drop(columns="level")
    assert bottom[ends].notna().all().all()
    own = bottom.astype({"store": int})[KEYS]
    assert own.to_numpy().tolist() == forecast[KEYS].to_numpy().tolist()
    if backend == "pandas":
        assert table.index.tolist() == [*range(36)]
        assert str(table.store.dtype) == "Int64"
    assert np.allclose(bottom[name].astype(float), forecast[name])


def test_windows_of_a_cross_validation_are_told_apart():
    model = small("repeat", id_col=KEYS)
    table = bottom_up(model.cross_validation(sales(), n_windows=3, step_size=2), KEYS)
    total = table[table.level == "total"]
    assert len(total) == 3 * 6
    truth = sales().groupby("ds").y.sum()
    assert np.allclose(total.y, truth[total.ds])


def test_a_sum_without_one_of_its_parts_is_empty(forecast):
    name = forecast.columns[3]
    holed = forecast.assign(**{name: forecast[name].where(forecast.index != 0)})
    table = bottom_up(holed, KEYS)
    assert np.flatnonzero(table[name].isna()).tolist() == [0, 6, 18]


def _ended_early(forecast: pd.DataFrame) -> pd.DataFrame:
    """Let the forecast of the last series begin a day before the others."""
    early = (forecast[KEYS] == ["TX", 1]).all(axis=1)
    return forecast.assign(ds=forecast.ds.mask(early, forecast.ds - pd.Timedelta(days=1)))


def test_tables_that_do_not_add_up_are_refused(forecast):
    for table, keys, words, argument in (
        (forecast.iloc[1:], KEYS, "has no row at 2024-01-03 12:00", "table"),
        (_ended_early(forecast), KEYS, "CA / 1 has no row at .*, where TX / 1 has one", "table"),
        (pd.concat([forecast, forecast[:1]]), KEYS, "has 2 rows", "table"),
        (forecast, ["state"], "has 2 rows", "table"),
        (forecast, ["state", "shop"], "no such column", "keys"),
        (forecast, [], "top to bottom", "keys"),
        (forecast.assign(level=1), KEYS, "rename", "table"),
        (forecast.rename(columns={"ds": "day"}), KEYS, "no such column", "time_col"),
    ):
        with pytest.raises(FighterError, match=words) as error:
            bottom_up(table, keys)
        assert error.value.argument == argument


@pytest.mark.filterwarnings("ignore")
def test_forecasts_are_handed_to_hierarchicalforecast():
    core = pytest.importorskip("hierarchicalforecast.core", reason="it is not installed")
    from hierarchicalforecast.methods import BottomUp, MinTrace
    from hierarchicalforecast.utils import aggregate

    df = sales().assign(state=lambda t: t.state, store=lambda t: t.store.astype(str), total="all")
    everything, sums, tags = aggregate(df, [["total"], ["total", "state"], ["total", *KEYS]])
    model = small("linear", level=[80]).fit(everything)
    base = model.predict()
    methods = [BottomUp(), MinTrace("ols")]
    table = core.HierarchicalReconciliation(methods).reconcile(
        base, S_df=sums, tags=tags, level=[80]
    )
    name = base.columns[2]
    wide = table.pivot(index="ds", columns="unique_id", values=f"{name}/MinTrace_method-ols")
    bottom = [c for c in wide if c.count("/") == 2]
    assert np.allclose(wide["all"], wide[bottom].sum(axis=1))
    assert np.allclose(wide["all/CA"], wide[[c for c in bottom if "/CA/" in c]].sum(axis=1))
    low, high = (table[f"{name}/BottomUp-{side}-80"] for side in ("lo", "hi"))
    assert (low < table[f"{name}/BottomUp"]).all()
    assert (table[f"{name}/BottomUp"] < high).all()
    ours = bottom_up(small("linear", id_col=KEYS).fit(df.drop(columns="total")).predict(), KEYS)
    assert len(ours) == len(table)
