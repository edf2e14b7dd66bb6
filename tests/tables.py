"""Small tables and small forecasters for the tests."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from fighter import Forecaster

CONVERT = {
    "pandas": lambda df: df,
    "polars": pl.from_pandas,
    "pyarrow": lambda df: pa.Table.from_pandas(df, preserve_index=False),
}


def waves(
    rows: int = 120, ids=("a", "b"), start="2024-01-01", freq="h", seed: int = 0, noise: float = 0.1
) -> pd.DataFrame:
    """Return a long table of noisy daily waves, each series 10 higher than the one before."""
    rng = np.random.default_rng(seed)
    step = np.arange(rows)
    times = pd.date_range(start, periods=rows, freq=freq)
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "unique_id": name,
                    "ds": times,
                    "y": 10 * k
                    + np.sin(2 * np.pi * (step + 3 * k) / 24)
                    + noise * rng.normal(size=rows),
                }
            )
            for k, name in enumerate(ids)
        ],
        ignore_index=True,
    )


def wide(table: pd.DataFrame) -> pd.DataFrame:
    return table.pivot(index="ds", columns="unique_id", values="y").rename_axis(columns=None)


def tiny(horizon: int = 6, lookback: int | None = 12, **settings) -> Forecaster:
    """Return a forecaster that is fitted in a moment."""
    small = {
        "width": 16, "heads": 2, "layers": 1, "max_epochs": 2, "batch_size": 16, "verbose": False,
        "device": "cpu",
    }  # fmt: skip
    return Forecaster.from_flat(horizon=horizon, lookback=lookback, **{**small, **settings})


def tail(table: pd.DataFrame, steps: int) -> pd.DataFrame:
    """Return the table without its last ``steps`` time stamps."""
    return table[table.ds < np.sort(table.ds.unique())[-steps]]
