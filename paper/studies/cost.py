"""Measure what an explained forecast costs, relative to a forward and backward pass."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from operator import truediv
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fighter.data.windows import Batch
from fighter.explain import WindowTrace, measure, trace_windows
from fighter.models import ForecastNet, Task, build_core

WIDTH, HORIZON = 512, 96
CASES: dict[str, dict[str, Any]] = {
    "series: 21, look-back 96": {"nodes": "series", "adjacency": "lazy"},
    "series: 21, graph from the input": {"nodes": "series", "adjacency": "cosine"},
    "patches: 11 of each of 21 series": {"nodes": "patch", "adjacency": "cosine"},
    "time steps: 96": {"nodes": "time", "adjacency": "cosine"},
    "time steps: 256": {"nodes": "time", "adjacency": "cosine", "series": 7, "lookback": 256},
    "Transformer, time steps: 96": {"model": "transformer"},
}


class LargestArray(TorchDispatchMode):
    """Records the size of the largest array that is made, in numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        for one in output if isinstance(output, tuple | list) else (output,):
            if isinstance(one, Tensor):
                self.numel = max(self.numel, one.untyped_storage().nbytes() // one.element_size())
        return output


def cost(
    model: str = "fighter", series: int = 21, lookback: int = 96, turns: int = 15, **options: str
) -> dict[str, float | int]:
    """Return medians over turns; every turn measures everything once, on a one-layer network."""
    torch.manual_seed(0)
    core = build_core(model, Task(lookback, HORIZON, series), width=WIDTH, layers=1, **options)
    network = ForecastNet(core, period=24).eval()
    past, future = torch.randn(1, lookback, series), torch.zeros(1, HORIZON, series)
    batch = Batch(past, future, None, None, torch.zeros(1, dtype=torch.long))

    def step() -> None:
        network.zero_grad()
        network(batch, batch.start).abs().sum().backward()

    def explain() -> Iterator[WindowTrace]:
        return trace_windows(network, batch, batch.start, [(0, 0), (1, 1)])

    def seconds(call: Callable[[], object]) -> float:
        start = time.process_time()  # CPU time: other work on the machine does not count
        call()
        return time.process_time() - start

    largest = LargestArray()
    with largest:
        explained = next(explain())

    def diagnose() -> None:
        for layer in explained.layers:
            measure(layer.parts)

    times = []
    for _ in range(turns + 2):  # the first two warm up
        both = explain()
        calls = (step, partial(next, both), partial(next, both), diagnose)
        times.append([seconds(call) for call in calls])
    base, first, further, diagnostics = zip(*times[2:], strict=True)
    return {
        "forward and backward, ms": round(1e3 * median(base), 2),
        "explain, ms": round(1e3 * median(first), 2),
        "ratio": round(median(map(truediv, first, base)), 2),
        "ratio of each further forecast": round(median(map(truediv, further, base)), 2),
        "ratio of the diagnostics": round(median(map(truediv, diagnostics, base)), 2),
        "largest array": largest.numel,
        "largest weight": max(parameter.numel() for parameter in network.parameters()),
        "nodes² × width": explained.layers[0].parts.graph.shape[-1] ** 2 * WIDTH,
    }
