"""Explanations of many forecasts, streamed to a Parquet file."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files import atomic_write, check_target
from ..data import Panel
from ..errors import FighterError, check_count, needs_package
from ..explain import TemporalGraph
from .explain import check_step, explain
from .fitted import Fitted

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 100_000  # of a row group, which is all that is kept in memory


def explain_windows(
    fitted: Fitted,
    panel: Panel,
    steps: Sequence[int] | None,
    windows: int,
    future: Any,
    quantile: float | None = None,
) -> Iterator[TemporalGraph]:
    """Explain the forecasts after the last rows of a panel, the earliest first.

    A series that ended earlier is explained after its own end, with the last window.
    """
    check_count("windows", windows)
    most = panel.length - fitted.plan.lookback + 1
    if windows > max(most, 1):
        reason = f"the table has {panel.length} rows and the look-back {fitted.plan.lookback}"
        remedy = f"pass at most {max(most, 1)} windows, or a longer table as df"
        raise FighterError(f"{reason}; {remedy}", argument="windows", value=windows)
    chosen = _choose_steps(steps, fitted.plan.horizon)
    return _explain_ends(fitted, panel, chosen, windows, future, quantile)


def _explain_ends(
    fitted: Fitted,
    panel: Panel,
    chosen: Sequence[int],
    windows: int,
    future: Any,
    quantile: float | None,
) -> Iterator[TemporalGraph]:
    for end in range(panel.length - windows + 1, panel.length + 1):
        until, last = panel.slice(None, end), end == panel.length
        series = [i for i in range(panel.n_series) if last or panel.ends[i] >= end]
        targets = [(i, step) for i in series for step in chosen]
        if targets:
            yield from explain(fitted, until, targets, future, warn=last, quantile=quantile)


def _choose_steps(steps: Any, horizon: int) -> Sequence[int]:
    """Return the steps to explain, each once: the parts of a forecast add up to it once."""
    if steps is None:
        return range(1, horizon + 1)
    chosen = [] if isinstance(steps, str) or not isinstance(steps, Iterable) else [*steps]
    if not chosen:
        raise FighterError("needs a list of steps, such as [1, 6]", argument="steps", value=steps)
    for step in chosen:
        check_step("steps", step, horizon)
    return [*dict.fromkeys(map(int, chosen))]


def write_parts(graphs: Iterable[TemporalGraph], path: str | Path, top: int | None = None) -> int:
    """Write terms and parts to a Parquet file; return the number of rows."""
    check_target(Path(path), (".parquet",))
    with needs_package("pyarrow"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    count, writer, waiting = 0, None, []
    with atomic_write(path) as file:
        try:
            for graph in graphs:
                waiting.append(_to_arrow(graph, top))
                count += len(waiting[-1])
                writer = writer or pq.ParquetWriter(file, waiting[0].schema)
                if sum(map(len, waiting)) >= ROWS:
                    writer.write_table(pa.concat_tables(waiting))
                    waiting.clear()
            if writer is None:
                raise FighterError("there are no forecasts to explain")
            if waiting:
                writer.write_table(pa.concat_tables(waiting))
        finally:
            if writer is not None:
                writer.close()
    return count


def _to_arrow(graph: TemporalGraph, top: int | None) -> "pa.Table":
    import pyarrow as pa

    edges = pa.table(graph.shown_as("pyarrow").edges(top=top))
    size, terms = len(edges), dict(graph.terms)
    if top is not None:
        terms["other past values"] = float(graph.sources.sum()) - float(np.sum(edges["part"]))
    rows, names = len(terms) + size, [*terms]
    stamps = edges.schema.field("time").type

    def before(name: str, kind: pa.DataType) -> pa.ChunkedArray:
        """Return a column of the edges, empty where there are terms."""
        return pa.chunked_array([pa.nulls(len(names), kind), *edges[name].cast(kind).chunks], kind)

    def same(value: Any, kind: pa.DataType | None = None) -> pa.Array:
        return pa.array([value] * rows, kind)

    own = graph.axis.write(np.array([int(graph.times[-1]), graph.time]), "ds", "pyarrow")
    cutoff, when = own.to_native().cast(stamps).to_pylist()
    columns = {
        "target": same(str(graph.target), pa.string()),
        "cutoff": same(cutoff, stamps),
        "ds": same(when, stamps),
        "step": same(graph.step, pa.int32()),
        "forecast": same(graph.forecast, pa.float64()),
        "term": pa.array([*names, *["past value"] * size], pa.string()),
        "source": pa.chunked_array(
            [pa.nulls(len(names), pa.string()), pa.array(map(str, edges["source"].to_pylist()))]
        ),
        "time": before("time", stamps),
        "lag": before("lag", pa.int32()),
        "hop": before("hop", pa.int32()),
        "part": pa.chunked_array(
            [pa.array(terms.values(), pa.float64()), *edges["part"].cast(pa.float64()).chunks]
        ),
    }
    if graph.quantile is not None:
        columns["quantile"] = same(graph.quantile, pa.float64())
    return pa.table(columns)
