"""A small table of two daily waves with noise."""

import numpy as np
import pandas as pd

ROWS = 600


def load_table() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    hours = np.arange(ROWS)
    day = np.sin(2 * np.pi * hours[:, None] / 24 + np.array([0.0, 1.0]))
    values = np.array([5.0, 300.0]) * (day + 0.2 * draw.normal(size=(ROWS, 2)))
    times = pd.date_range("2024-01-01", periods=ROWS, freq="h")
    return pd.DataFrame({"date": times, "a": values[:, 0], "b": values[:, 1]})
