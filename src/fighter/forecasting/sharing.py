"""Tables that the processes of ``torchrun`` read together."""

from pathlib import Path
from typing import Any

from ..data import Panel
from ..data.buckets import parquet_files
from ..data.merge import merge_panels
from ..training import World
from .config import Config
from .fitted import read_panel


def read_together(
    config: Config,
    df: Any,
    static: Any = None,
    weights: Any = None,
    world: World = World(),  # noqa: B008
) -> Panel:
    """Read a training table; of a folder, each process of ``world`` reads its share of the files.

    Every process has to call it, and gets the whole panel.
    """
    if not (files := _own_files(df, world)):
        return read_panel(config, df, static, weights)
    return merge_panels(world.gather(lambda: read_panel(config, df, static, weights, files=files)))


def _own_files(df: Any, world: World) -> list[Path]:
    """Return the files of a folder that this process reads; none if each reads the whole table."""
    if world.size == 1 or not isinstance(df, str | Path) or not Path(df).is_dir():
        return []
    files = parquet_files(Path(df))
    if len(files) < world.size:
        return []
    first, last = (len(files) * rank // world.size for rank in (world.rank, world.rank + 1))
    return files[first:last]  # neighbours, so that the series of all keep their order
