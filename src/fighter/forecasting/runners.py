"""Ways to do many files: one by one, in worker processes, or as tasks of Ray."""

import logging
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Literal

from .._workers import in_processes
from ..errors import FighterError, check_count, needs_package

Record = dict[str, Any]
Runner = Callable[[Callable[[Path], Record], Sequence[Path]], Iterable[Record]]
RETRIES = 2  # of a task of Ray whose worker died


def find_runner(
    runner: Literal["serial", "processes", "ray"] | Runner | None, workers: int, gpu: bool
) -> Runner:
    """Return a runner, a function like ``map`` that may give the results in any order.

    Args:
        runner: its name, or the function itself (default: by the number of workers).
        workers: number of worker processes.
        gpu: whether each task of Ray is to have a GPU.
    """
    check_count("workers", workers)
    if runner is None:
        runner = "serial" if workers == 1 else "processes"
    if callable(runner):
        return runner
    runners = {
        "serial": map,
        "processes": partial(_run_processes, workers=workers),
        "ray": ray_runner(num_gpus=float(gpu)),
    }
    if runner not in runners:
        reason = f"needs {', '.join(map(repr, runners))}, or a function like map"
        raise FighterError(reason, argument="runner", value=runner)
    return runners[runner]


def failure(file: Path, error: Exception) -> Record:
    """Return the record of a file that could not be done."""
    reason = str(error) if isinstance(error, FighterError) else f"{type(error).__name__}: {error}"
    return {"name": file.stem, "file": str(file), "error": reason}


def ray_runner(num_gpus: float = 0) -> Runner:
    """Return a runner that makes each file a task of Ray, on the cluster this process is part of.

    Without a cluster it starts one on this machine. A task whose worker dies is tried twice more.

    Args:
        num_gpus: GPUs that a task needs; 0.25 lets four share one (default: 0).
    """
    return partial(_run_ray, num_gpus=num_gpus)


def _run_processes(
    function: Callable[[Path], Record], files: Sequence[Path], workers: int
) -> Generator[Record, None, None]:
    with closing(in_processes(function, files, workers, "workers")) as outcomes:
        for _, record in outcomes:
            yield record


def _run_ray(
    function: Callable[[Path], Record], files: Sequence[Path], num_gpus: float
) -> Generator[Record, None, None]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Fighter sends nothing unasked
    with needs_package("ray"):
        import ray
        from ray.exceptions import RayError
    started = not ray.is_initialized()
    if started:
        ray.init(include_dashboard=False, logging_level=logging.WARNING)

    @ray.remote(num_cpus=1, num_gpus=num_gpus, max_retries=RETRIES)
    def task(file: Path) -> Record:
        return function(file)

    pending = {task.remote(file): file for file in files}
    try:
        while pending:
            (done, *_), _ = ray.wait(list(pending))
            try:
                record = ray.get(done)
            except RayError as error:
                record = failure(pending[done], error)
            del pending[done]
            yield record
    finally:  # also on Ctrl-C, or if the caller stopped reading
        for unfinished in pending:
            ray.cancel(unfinished, force=True)
        if started:
            ray.shutdown()
