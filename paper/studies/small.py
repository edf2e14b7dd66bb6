"""Tables as small as many people's, cut from public data where nothing else is tested."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from fighter.benchmark.contest import options_of
from fighter.benchmark.datasets import Dataset, file_dataset
from fighter.benchmark.result import by, compare, markdown, mean
from fighter.benchmark.runs import Record, Run
from fighter.benchmark.score import settings
from fighter.data import grid_load
from fighter.data.datasets import catalogue

TITLE = "Small tables"
WORDS = """
The forecaster on {count} tables of 144 to 4,368 rows: the generated grid, and
pieces of training rows of the data sets above; the first 70 % are trained on, 10 % choose the
epoch, 20 % are scored. Default: MSE / MAE, in standard deviations; the others in percent of it,
with the same seeds ({seeds}). By these tables, members of a table with fewer than 30,000 values to
train on learn at 0.001.
"""
FILE = "small.json"


class Piece(NamedTuple):
    """Rows and series of a known data set, averaged over days or weeks (``every``) if given."""

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
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "one member": {"members": 1},
    "lr=0.002": {"lr": 0.002},
    "DLinear": options_of("dlinear"),
    "seasonal naive": {"model": "naive"},
}


def write_tables(folder: Path, data_dir: Path | None) -> list[Dataset]:
    """The tables, as files."""
    found = []
    for name, piece in PIECES.items():
        file = folder / f"{name}.csv"
        _table(piece, data_dir).to_csv(file, index=False)
        found.append(file_dataset(file))
    return found


def whole_table(name: str, data_dir: Path | None) -> Any:
    """A data set of the catalogue, or the generated grid, a column for each series."""
    if name != "grid":
        return catalogue.load(name, data_dir)
    table = grid_load().frame("pandas")
    return table.pivot(index="ds", columns="unique_id", values="y").reset_index()


def _table(piece: Piece, data_dir: Path | None) -> Any:
    table = whole_table(piece.data, data_dir)
    time = table.columns[0]
    table = table.iloc[piece.rows].set_index(time).iloc[:, piece.series]
    return (table if piece.every is None else table.resample(piece.every).mean()).reset_index()


def plan(data: Sequence[Dataset], seeds: Sequence[int]) -> list[Run]:
    """All runs, those of the default first."""
    return [
        Run(
            "fighter.benchmark.score",
            settings(source, PIECES[source.name].horizon, options, seed=seed),
            {"variant": label, "data": source.name, "seed": seed},
        )
        for label, options in VARIANTS.items()
        for source in data
        for seed in (seeds if label != "seasonal naive" else seeds[:1])
    ]


def cell(row: Record) -> tuple[Any, ...]:
    """What a later run takes the place of."""
    return row["variant"], row["data"], row["seed"]


def numbers(rows: Sequence[Record]) -> dict[str, str]:
    """What the words above ask for."""
    seeds = sorted({row["seed"] for row in rows})
    return {
        "seeds": ", ".join(map(str, seeds)),
        "count": str(len({row["data"] for row in rows})),
    }


def section(rows: Sequence[Record]) -> str:
    """A line for each table, and the mean and the median of the differences."""
    results, errors = by(rows, "variant", "data"), ("mse", "mae")
    data = [*dict.fromkeys(row["data"] for row in rows)]
    cells = compare(rows, data, errors)
    columns = zip(*cells.values(), strict=True)
    lines = [[name, *column] for name, column in zip(data, columns, strict=True)]
    first, *others = cells

    def ratios(variant: str, error: str) -> list[float]:
        return [
            mean(results[variant, name], error) / mean(results[first, name], error) for name in data
        ]

    for middle in (fmean, median):
        means = [
            " / ".join(f"{middle(ratios(variant, error)) - 1:+.1%}" for error in errors)
            for variant in others
        ]
        lines.append([middle.__name__.lstrip("f"), "", *means])
    return markdown(["", *cells], lines)
