"""Cut the tables of the zoo into histories and truths.

Needs only numpy and pandas, so that Fighter's environment and that of its peers both import it.

Window ``w`` removes the last ``w * H`` rows of each series; the last ``H`` rows that are left are
the truth and the rows before them the history. A series takes part in window 0 if it has more than
``H`` rows, and in a later window if its history has at least ``max(2 * H, 2 * season, 10)`` rows.
A window is used if at least half of the series take part in it. Rows are rows of the table: where
steps are absent, a window covers more time.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

WINDOWS = (0, 1, 2)
LEVELS = (20, 40, 60, 80, 95)  # intervals in per cent; with the median they give all quantiles
QUANTILES = (0.025, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.975)
SHORT, MANY = 150, 100  # rows of a short series, series of a table with many
FREQUENCIES = {
    "YS": "yearly",
    "QS": "quarterly",
    "MS": "monthly",
    "W": "weekly",
    "D": "daily",
    "B": "daily",
    "h": "hourly",
    "1": "no calendar",
}
CLASSES = (
    *("yearly", "quarterly", "monthly", "weekly", "daily", "hourly", "sub-hourly", "no calendar"),
    *("short", "intermittent", "many series", "single series", "covariates"),
)


@dataclass(frozen=True)
class Table:
    """The entry of one table in zoo.json."""

    folder: Path
    entry: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its name."""
        return self.entry["name"]

    @property
    def horizon(self) -> int:
        """Rows to forecast."""
        return self.entry["horizon"]

    @property
    def season(self) -> int:
        """The first season in rows; 1 if there is none."""
        return max((self.entry["season"] or [1])[0], 1)

    @property
    def freq(self) -> str:
        """Pandas alias of the step; "1" for whole numbers."""
        return self.entry["freq"]

    @property
    def future(self) -> list[str]:
        """Covariates that are known in advance."""
        return list(self.entry["covariates"]["future"])

    def read(self, columns: Sequence[str] = ()) -> pd.DataFrame:
        """Read ``unique_id``, ``ds``, ``y`` and the named columns."""
        wanted = ["unique_id", "ds", "y", *columns]
        df = pd.read_parquet(self.folder / self.entry["file"], columns=wanted)
        return df.sort_values(["unique_id", "ds"], kind="stable", ignore_index=True)

    def classes(self) -> list[str]:
        """Return the classes that the table belongs to: its frequency, then its kinds."""
        entry = self.entry
        chosen = [FREQUENCIES.get(self.freq.split("-")[0], "sub-hourly")]
        kinds = {
            "short": entry["max_length"] <= SHORT,
            "intermittent": "intermittent" in entry["kind"],
            "many series": entry["series"] >= MANY,
            "single series": entry["series"] == 1,
            "covariates": bool(entry["covariates"]["future"] or entry["covariates"]["past"]),
        }
        return chosen + [name for name, holds in kinds.items() if holds]


def read_zoo(folder: Path, names: Sequence[str] | None = None) -> list[Table]:
    """Return the tables of a zoo folder, the cheap ones first.

    Args:
        folder: the folder with zoo.json.
        names: which tables; "core" stands for those marked so (default: all).
    """
    entries = json.loads((folder / "zoo.json").read_text(encoding="utf-8"))["tables"]
    known = {entry["name"] for entry in entries} | {"core"}
    if unknown := set(names or ()) - known:
        raise SystemExit(f"no such table: {', '.join(sorted(unknown))}")
    chosen = [
        entry
        for entry in entries
        if names is None or entry["name"] in names or ("core" in names and entry["core"])
    ]
    chosen.sort(key=lambda entry: entry["series"] * min(entry["rows"] / entry["series"], 2000))
    return [Table(folder, entry) for entry in chosen]


@dataclass(frozen=True)
class Window:
    """Histories and truths of the series of one table."""

    table: Table
    number: int
    ids: list[str]
    series: np.ndarray  # position of each series in the table
    start: np.ndarray  # first row of each history in ``frame``
    stop: np.ndarray  # row after the last of each history, where the truth begins
    frame: pd.DataFrame  # the whole table
    y: np.ndarray  # its values

    @property
    def truth(self) -> np.ndarray:
        """True values, [series, H]."""
        return self.y[self.stop[:, None] + np.arange(self.table.horizon)]

    @property
    def truth_times(self) -> np.ndarray:
        """Time stamps of the truth, [series, H]."""
        times = self.frame["ds"].to_numpy()
        return times[self.stop[:, None] + np.arange(self.table.horizon)]

    def history(self, i: int) -> np.ndarray:
        """Return the history of series ``i``, with NaN where a value is missing."""
        return self.y[self.start[i] : self.stop[i]]

    def filled(self, i: int, rows: int | None = None) -> np.ndarray:
        """Return the last rows of a history; missing values are interpolated linearly."""
        return fill(self.history(i)[-rows if rows else 0 :])

    def rows(self, part: str) -> pd.DataFrame:
        """Return the rows of all series that are "history" or "truth"."""
        begin, end = self.start, self.stop
        if part == "truth":
            begin, end = self.stop, self.stop + self.table.horizon
        places = [np.arange(a, b) for a, b in zip(begin, end, strict=True)]
        return self.frame.iloc[np.concatenate(places)].reset_index(drop=True)

    def subset(self, places: np.ndarray) -> "Window":
        """Return the same window with fewer series."""
        ids = [self.ids[i] for i in places]
        parts = self.series[places], self.start[places], self.stop[places]
        return Window(self.table, self.number, ids, *parts, self.frame, self.y)


def fill(values: np.ndarray) -> np.ndarray:
    """Interpolate missing values linearly; repeat the first and last value at the ends."""
    known = np.isfinite(values)
    if known.all() or not known.any():
        return np.where(known, values, 0.0)
    places = np.arange(len(values))
    return np.interp(places, places[known], values[known])


def cut(table: Table, number: int, frame: pd.DataFrame | None = None) -> Window | None:
    """Return a window of a table; None if fewer than half of the series take part in it."""
    frame = table.read() if frame is None else frame
    codes, ids = pd.factorize(frame["unique_id"])
    first = np.searchsorted(codes, np.arange(len(ids)))
    last = np.searchsorted(codes, np.arange(len(ids)), side="right")
    horizon, season = table.horizon, table.season
    stop = last - (number + 1) * horizon
    least = 1 if number == 0 else max(2 * horizon, 2 * season if season > 1 else 0, 10)
    used = np.flatnonzero(stop - first >= least)
    if not len(used) or 2 * len(used) < len(ids):
        return None
    names = [str(ids[i]) for i in used]
    y = frame["y"].to_numpy(np.float64)
    return Window(table, number, names, used, first[used], stop[used], frame, y)


# ---- the seasonal naive forecast ----------------------------------------------------------


def seasonal_naive(history: np.ndarray, horizon: int, season: int) -> np.ndarray:
    """Return the quantiles of the seasonal naive forecast, [H, Q], as statsforecast makes them.

    A history of at most one season is repeated with season 1.
    """
    values = fill(history)
    season = season if len(values) > season else 1
    steps = np.arange(horizon)
    middle = values[len(values) - season + steps % season]
    wrong = values[season:] - values[:-season]
    sigma = np.sqrt((wrong**2).mean()) if len(wrong) else 0.0
    spread = sigma * np.sqrt(steps // season + 1)
    return middle[:, None] + spread[:, None] * NORMAL


NORMAL = np.array([NormalDist().inv_cdf(level) for level in QUANTILES])


def from_levels(columns: Any, middle: str, prefix: str = "") -> np.ndarray:
    """Return quantiles [..., Q] from columns of intervals such as "lo-80" and "hi-80"."""
    low = [np.asarray(columns[f"{prefix}lo-{level}"]) for level in reversed(LEVELS)]
    high = [np.asarray(columns[f"{prefix}hi-{level}"]) for level in LEVELS]
    return np.stack([*low, np.asarray(columns[middle]), *high], -1).astype(np.float64)
