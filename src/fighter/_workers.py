"""Worker processes that share many items among them, and stop with their parent."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar

import torch

from .errors import FighterError

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_processes(
    function: Callable[[Item], Result], items: Sequence[Item], workers: int, argument: str
) -> Generator[tuple[Item, Result], None, None]:
    """Yield items with their results, in the order in which worker processes finish them.

    Each worker uses one thread. On Ctrl-C, or if the caller stops reading, workers are ended at
    once. ``argument`` is what the user calls the number of ``workers``.
    """
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    others = {*multiprocessing.active_children()}
    with ProcessPoolExecutor(min(workers, len(items) or 1), context, _prepare_worker) as pool:
        try:
            with _ignore_ctrl_c():
                futures = {pool.submit(function, item): item for item in items}
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool as error:
            advice = f"what is finished is kept, call again with fewer {argument}"
            reason = f"a worker process was killed, perhaps because memory ran out: {advice}"
            raise FighterError(reason, argument=argument, value=workers) from error
        except BaseException:  # Ctrl-C, or the caller stopped reading
            for child in {*multiprocessing.active_children()} - others:
                child.terminate()
            raise


@contextmanager
def _ignore_ctrl_c() -> Iterator[None]:
    """Ignore Ctrl-C here, and for good in processes that are started meanwhile.

    A terminal sends it to them as well, but the parent decides when they stop.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _prepare_worker() -> None:
    torch.set_num_threads(1)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """Exit when the parent is gone: a killed parent cannot stop its workers."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
