"""Known data sets: their origin, their peculiarities, and how to find, fetch and load them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import FighterError, did_you_mean
from ..columns import listing
from ..files import read_table
from .download import OnBytes, download

Folder = str | Path | None

_ETT = "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small/"
_TSL = "https://huggingface.co/datasets/thuml/Time-Series-Library/resolve/main/"
_AG = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/"
_SHA256 = {
    "weather.csv": "34ee981d07313e51da2a50bb600072c8ae4a69cb4b0651f4cb93a069d7a2ba63",
    "weather.parquet": "28462de0af7c1880490c2f55c1e7d5c959a5c3c4d006a7cb1657cd285dd84181",
    "electricity.csv": "7e45845d54c5219bad0ae6bc1b5316cf8ff9cead5d33fa998a5a51c2e4a497ad",
    "ETTh1.csv": "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066",
    "ETTh1.parquet": "0db2fbf634cacb0c6325cc49e97d0101efffbee5f61f5b69a4c6307df5909d07",
    "ETTh2.csv": "a3dc2c597b9218c7ce1cd55eb77b283fd459a1d09d753063f944967dd6b9218b",
    "ETTm1.csv": "6ce1759b1a18e3328421d5d75fadcb316c449fcd7cec32820c8dafda71986c9e",
    "ETTm2.csv": "db973ca252c6410a30d0469b13d696cf919648d0f3fd588c60f03fdbdbadd1fd",
    "eia_demand_hourly.parquet": "79db643699cc962c447818811d52a8876e21077beba565cf3408be86380a92dd",
    "ag_news_train.csv": "76a0a2d2f92b286371fe4d4044640910a04a803fdd2538e0f3f29a5c6f6b672e",
    "ag_news_test.csv": "521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699",
    "ag_news_test.parquet": "a9d9f8da49e94664045d95fdde12e832d78474a331900c8511948780da8bddf5",
}


@dataclass(frozen=True)
class Part:
    """One file of a data set; ``sha256`` is its checksum, ``copies`` are other formats of it."""

    file: str
    url: str | None = None
    sha256: str | None = None
    verified: bool = False  # True: we computed the checksum; False: as published
    copies: Mapping[str, str] = field(default_factory=dict)  # file name -> sha256

    @property
    def names(self) -> tuple[str, ...]:
        """File names to look for, the preferred one first."""
        stem = self.file.partition(".")[0]
        return tuple(dict.fromkeys((*self.copies, f"{stem}.parquet", self.file, f"{stem}.csv")))


@dataclass(frozen=True)
class CatalogueEntry:
    """A data set of the catalogue."""

    name: str
    title: str
    parts: Mapping[str, Part]  # the first is the default
    home: str
    licence: str
    freq: str | None = None
    split: str = "70/10/20"
    folder: str = ""  # its folder in collections of benchmark data
    missing_values: tuple[float, ...] = ()
    data_notes: tuple[str, ...] = ()


def _part(file: str, url: str | None = None, verified: bool = False) -> Part:
    """Add the known checksums of a file and of its Parquet copy."""
    copy = file.replace(".csv", ".parquet")
    copies = {copy: _SHA256[copy]} if copy != file and copy in _SHA256 else {}
    return Part(file, url, _SHA256.get(file), verified, copies)


def _ett(name: str, freq: str) -> CatalogueEntry:
    rows = "17,420 rows" if freq == "h" else "69,680 rows"
    return CatalogueEntry(
        name,
        f"Electricity transformer {name[-1]}: six loads and the oil temperature OT, {rows}",
        {"all": _part(f"{name}.csv", f"{_ETT}{name}.csv")},
        home="https://github.com/zhouhaoyi/ETDataset",
        licence="CC BY-ND 4.0",
        freq=freq,
        split="ett",
        folder="ETT-small",
        data_notes=("The benchmarks use the first 20 months of 30 days and leave out the rest.",),
    )


_ENTRIES = (
    CatalogueEntry(
        "weather",
        "Weather station at Jena, 2020: 21 indicators every 10 minutes, 52,696 rows",
        {"all": _part("weather.csv", f"{_TSL}weather/weather.csv", verified=True)},
        home="https://www.bgc-jena.mpg.de/wetter/",
        licence="unknown",
        freq="10min",
        folder="weather",
        missing_values=(-9999,),
        data_notes=(
            "-9999 stands for missing data: 50 times in OT, 30 times in max. PAR, once in wv, all "
            "within the first 70 % of the rows. Unless it is left out, it spoils standard scaling "
            "(the standard deviation of OT becomes 383.96 instead of 18.18).",
            "2020-05-12 06:00 appears twice; nine stamps from 2020-05-29 09:40 on are missing.",
            "OT is the CO2 concentration.",
        ),
    ),
    CatalogueEntry(
        "electricity",
        "Hourly consumption of 321 clients, 26,304 rows",
        {
            "all": _part("electricity.csv", f"{_TSL}electricity/electricity.csv"),
            "last840": _part("electricity_last840_321cols.parquet"),
            "first1000": _part("electricity_first1000_203cols.parquet"),
            "2cols": _part("electricity_full_2cols.parquet"),
        },
        home="https://archive.ics.uci.edu/dataset/321/electricityloaddiagrams20112014",
        licence="CC BY 4.0",
        freq="h",
        folder="electricity",
        data_notes=(
            "The stamps (2016 to 2019) are not real: the measurements are from 2012 to 2014.",
            "The parts last840, first1000 and 2cols are slices; results on them cannot be compared "
            "with the benchmark.",
        ),
    ),
    _ett("ETTh1", "h"),
    _ett("ETTh2", "h"),
    _ett("ETTm1", "15min"),
    _ett("ETTm2", "15min"),
    CatalogueEntry(
        "eia_demand_hourly",
        "Hourly electricity demand of 118 US balancing authorities, 2020 to 2024, 43,848 rows",
        {"all": _part("eia_demand_hourly.parquet", verified=True)},
        home="https://doi.org/10.5281/zenodo.3517196",
        licence="CC BY 4.0",
        freq="h",
        data_notes=(
            "The column 'cleaned demand (MW)' of 118 files, side by side (UTC). AEC is left out "
            "because it is zero for its last 29,226 hours.",
            "PSEI: 20 % of the hours are imputed, 2.3 % are zero.",
        ),
    ),
    CatalogueEntry(
        "agnews",
        "News articles of four classes: 120,000 to train on, 7,600 to test",
        {
            "train": _part("ag_news_train.csv", f"{_AG}train.csv"),
            "test": _part("ag_news_test.csv", f"{_AG}test.csv"),
            "train_partial": _part("ag_news_train_partial.parquet"),
        },
        home="https://github.com/mhjabreel/CharCnn_Keras",
        licence="unknown; the corpus page allows research and other non-commercial use",
        split="official",
        data_notes=(
            "The original contains HTML remains such as #39; and literal backslashes.",
            "train_partial holds 43,361 of the 120,000 articles.",
        ),
    ),
)
CATALOGUE: Mapping[str, CatalogueEntry] = {entry.name: entry for entry in _ENTRIES}


def entry(name: str, part: str | None = None) -> tuple[CatalogueEntry, Part]:
    """Look up a data set, in upper or lower case, and one of its parts (default: the first)."""
    names = {known.casefold(): known for known in CATALOGUE}
    if name.casefold() not in names:
        hint = did_you_mean(name, CATALOGUE)
        reason = f"there is no data set {name!r}; the catalogue has {listing(CATALOGUE)}"
        raise FighterError(f"{reason}{hint and '.' + hint}")
    found = CATALOGUE[names[name.casefold()]]
    if part is not None and part not in found.parts:
        raise FighterError(f"{name} has {listing(found.parts)}", argument="part", value=part)
    return found, found.parts[part or next(iter(found.parts))]


def search_folders(data_dir: Folder = None) -> list[Path]:
    """List the folders that are searched for data sets; downloads go to the first."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fighter"
    given = (data_dir, os.environ.get("FIGHTER_DATA"))
    return [*(Path(folder).expanduser() for folder in given if folder), cache]


def find(name: str, data_dir: Folder = None, part: str | None = None) -> Path:
    """Find the file of a data set in ``data_dir``, then ``$FIGHTER_DATA``, then the cache."""
    dataset, wanted = entry(name, part)
    folders = search_folders(data_dir)
    for root in folders:
        for folder in (root, root / dataset.folder):
            for file in wanted.names:
                if (folder / file).is_file():
                    return folder / file
    remedy = f"put it there by hand, see {dataset.home}"
    if wanted.url:
        remedy = f"download it with: fighter data fetch {dataset.name}"
    looked = f"looked for {' or '.join(wanted.names)} in {', '.join(map(str, folders))}"
    raise FighterError(f"{dataset.name} was not found: {looked}; {remedy}")


def at_hand(name: str, data_dir: Folder = None, part: str | None = None) -> bool:
    """Return True if the file of a data set is on this machine."""
    try:
        return find(name, data_dir, part).is_file()
    except FighterError:
        return False


def fetch(
    name: str, data_dir: Folder = None, part: str | None = None, progress: OnBytes | None = None
) -> Path:
    """Download a data set to ``data_dir``, or ``$FIGHTER_DATA``, or the cache, and check it."""
    dataset, wanted = entry(name, part)
    if wanted.url is None:
        what = f"{dataset.name} ({wanted.file})"
        raise FighterError(f"{what} cannot be downloaded as one file; see {dataset.home}")
    target = search_folders(data_dir)[0] / wanted.file
    return download(wanted.url, target, sha256=wanted.sha256, progress=progress)


def load(
    name: str,
    data_dir: Folder = None,
    clean: bool = False,
    part: str | None = None,
    *,
    file: Path | None = None,
) -> Any:
    """Read a data set, or a ``file`` of it, as a pandas table.

    ``clean`` empties the cells that stand for missing data.
    """
    dataset, _ = entry(name, part)
    path = file or find(name, data_dir, part)
    headless = dataset.name == "agnews" and path.suffix == ".csv"  # no header, classes count from 1
    table = read_table(path, ("label", "title", "description") if headless else None)
    if headless:
        table["label"] -= 1
    if dataset.name == "weather":
        table = table.rename(columns=_repair_weather)
    if clean and dataset.missing_values:
        numbers = table.select_dtypes("number").columns
        table[numbers] = table[numbers].mask(table[numbers].isin(dataset.missing_values))
    return table


def _repair_weather(column: str) -> str:
    """Repair three column names that have a broken character in every copy."""
    if "\ufffd" not in column:
        return column
    return column.replace("\ufffdmol/m\ufffd", "umol/m2").replace("W/m\ufffd", "W/m2")
