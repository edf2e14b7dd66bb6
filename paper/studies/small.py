"""Compare the default with simple models on tables as small as many people's.

The tables are cut from training rows of public data. Half an hour for each seed on two cores.
"""

import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from fighter.benchmark import score
from fighter.benchmark.contest import KIND, published_options
from fighter.benchmark.datasets import Dataset, file_dataset
from fighter.benchmark.result import by, markdown, mean
from fighter.benchmark.runs import Run
from fighter.data import grid_load
from fighter.data.datasets import catalogue
from fighter.errors import DataWarning

from . import command
from .variants import VariantRow, baseline, compare

TITLE = "Small tables"
WORDS = """
The forecaster on {count} tables of 144 to 4,368 rows: the generated grid, and pieces of training
rows of the data sets above. The first 70 % of the rows train, the next 10 % choose the epoch, the
last 20 % are scored. The default's column has MSE / MAE in standard deviations, the others are in
per cent of it, with the same seeds ({seeds}). Because of these tables, members learn at 0.001 where
there are fewer than 30,000 values to train on.
"""
FILE = "small.json"


class Piece(NamedTuple):
    """Rows and series of a data set, averaged over days or weeks if ``every`` is given."""

    data: str
    rows: slice
    series: slice
    horizon: int = 24
    every: str | None = None


EIA = "eia_demand_hourly"
PIECES: Mapping[str, Piece] = (
    {
        "grid, 6 series": Piece("grid", slice(None), slice(None)),
        "ETTh1, 7 series, 1": Piece("ETTh1", slice(0, 1500), slice(7)),
        "ETTh1, 7 series, 2": Piece("ETTh1", slice(4000, 6000), slice(7)),
        "ETTh1, 7 series, 3": Piece("ETTh1", slice(6000, 8640), slice(7)),
        "load, 8 series, 1": Piece(EIA, slice(10_000, 12_000), slice(8)),
        "load, 8 series, 2": Piece(EIA, slice(4_000, 6_000), slice(29, 37)),
        "load, 8 series, 3": Piece(EIA, slice(15_000, 17_000), slice(59, 67)),
        "load, one series, 1": Piece(EIA, slice(8_000, 12_000), slice(4, 5)),
        "load, one series, 2": Piece(EIA, slice(8_000, 12_000), slice(49, 50)),
        "load by the day, 10 series": Piece(EIA, slice(24_000), slice(19, 29), 14, "D"),
        "load by the week, 40 series": Piece(EIA, slice(24_000), slice(39, 79), 8, "W"),
        "Weather, 8 series": Piece("weather", slice(12_000, 16_000), slice(8), 48),
    }
    | {
        f"{name}, series {number}": Piece(
            data, slice(first, first + 4000), slice(number - 1, number), horizon
        )
        for name, data, horizon, places in (
            ("load", EIA, 24, ((20, 2_000), (75, 14_000), (100, 5_000), (110, 20_000))),
            ("ETTh1", "ETTh1", 24, ((1, 0), (4, 4_000), (7, 2_000))),
            ("Weather", "weather", 48, ((1, 28_000), (2, 12_000), (6, 20_000))),
        )
        for number, first in places
    }
    | {
        "load by the day, series 30": Piece(EIA, slice(30_000), slice(29, 30), 14, "D"),
        "load by the day, series 90": Piece(EIA, slice(30_000), slice(89, 90), 14, "D"),
        "load by the day, 8 series": Piece(EIA, slice(30_000), slice(89, 97), 14, "D"),
        "load, 8 series, 4": Piece(EIA, slice(18_000, 20_000), slice(79, 87)),
        "load, 8 series, 5": Piece(EIA, slice(2_000, 4_000), slice(99, 107)),
        "load, 8 series, 6": Piece(EIA, slice(22_000, 24_000), slice(11, 19)),
        "ETTh1, 7 series, 4": Piece("ETTh1", slice(2_000, 4_000), slice(7)),
        "Weather, 8 series, 2": Piece("weather", slice(24_000, 27_000), slice(7, 15), 48),
    }
)
BASELINE, LINEAR, NAIVE = "default", "DLinear", "seasonal naive"
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    BASELINE: {},
    "one member": {"members": 1},
    "lr=0.002": {"lr": 0.002},
    LINEAR: published_options("dlinear"),
    NAIVE: {"model": "naive"},
}


def main(arguments: Sequence[str]) -> None:
    """Run the study from the command line."""
    args = command.study_parser("small", __doc__, choose_data=False).parse_args(arguments)
    warnings.simplefilter("ignore", DataWarning)
    with tempfile.TemporaryDirectory() as folder:
        data = write_tables(Path(folder), args.data_dir)
        runs = plan(data, args.seeds)
        rows: list[Any] = command.run_study("small", arguments, args, data, runs, cell)
    print(section(rows))


def write_tables(folder: Path, data_dir: Path | None) -> list[Dataset]:
    """Write all tables as files and return them as data sets."""
    datasets = []
    for name, piece in PIECES.items():
        file = folder / f"{name}.csv"
        _cut(piece, data_dir).to_csv(file, index=False)
        datasets.append(file_dataset(file))
    return datasets


def whole_table(name: str, data_dir: Path | None) -> Any:
    """Return a data set of the catalogue, or the generated grid, with a column per series."""
    if name != "grid":
        return catalogue.load(name, data_dir)
    table = grid_load().frame("pandas")
    return table.pivot(index="ds", columns="unique_id", values="y").reset_index()


def _cut(piece: Piece, data_dir: Path | None) -> Any:
    table = whole_table(piece.data, data_dir)
    time = table.columns[0]
    table = table.iloc[piece.rows].set_index(time).iloc[:, piece.series]
    return (table if piece.every is None else table.resample(piece.every).mean()).reset_index()


def plan(data: Sequence[Dataset], seeds: Sequence[int]) -> list[Run]:
    """Return all runs, those of the default first."""
    return [
        Run(
            KIND,
            score.settings(dataset, PIECES[dataset.name].horizon, options, seed=seed),
            {
                "variant": name,
                "baseline": name == BASELINE,
                "data": dataset.name,
                "seed": seed,
            },
        )
        for name, options in VARIANTS.items()
        for dataset in data
        for seed in (seeds if name != NAIVE else seeds[:1])
    ]


def cell(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a row."""
    return row["variant"], row["data"], row["seed"]


def words(rows: Sequence[VariantRow]) -> dict[str, str]:
    """Return the numbers that ``WORDS`` needs."""
    seeds = sorted({row["seed"] for row in rows})
    count = len({row["data"] for row in rows})
    return {"seeds": ", ".join(map(str, seeds)), "count": str(count)}


def ratios(rows: Sequence[VariantRow], variant: str, error: str) -> list[float]:
    """Return an error of a variant relative to the default's, for each table."""
    results, base = by(rows, "variant", "data"), baseline(rows)
    return [
        mean(results[variant, name], error) / mean(results[base, name], error)
        for name in dict.fromkeys(row["data"] for row in rows)
    ]


def section(rows: Sequence[VariantRow]) -> str:
    """Return a line for each table, and the mean and the median of the differences."""
    data, errors = [*dict.fromkeys(row["data"] for row in rows)], ("mse", "mae")
    cells = compare(rows, data, errors)
    columns = zip(*cells.values(), strict=True)
    lines = [[name, *column] for name, column in zip(data, columns, strict=True)]
    averages: dict[str, Callable[[list[float]], float]] = {"mean": fmean, "median": median}
    for label, average in averages.items():
        texts = [
            " / ".join(f"{average(ratios(rows, variant, error)) - 1:+.1%}" for error in errors)
            for variant in [*cells][1:]
        ]
        lines.append([label, "", *texts])
    return markdown(["", *cells], lines)
