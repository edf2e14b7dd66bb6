"""Measure time and memory of the multi-hop operator: explicit powers, stored A, the fast path.

    python -m benchmarks.operator [--device cuda] [--out results/operator-cuda.json]

The operator of one layer with width 512, 8 heads and κ=3 runs forward and backward on one sequence.
Every number is also given as a multiple of the fast path in the same run; on a busy machine compare
those.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from fighter import multi_hop
from fighter.benchmark.provenance import provenance
from fighter.hops import Backend

WIDTH, HEADS, KAPPA = 512, 8, 3
WAYS: dict[str, Backend] = {"explicit": "reference", "stored": "stored", "fast": "auto"}
# Largest number of nodes; more would take minutes or tens of gigabytes.
LIMITS = {"cpu": {"explicit": 2048, "stored": 8192}, "cuda": {"explicit": 8192, "stored": 8192}}


class Kept(NamedTuple):
    """A storage that autograd keeps, whatever views of it there are."""

    address: int
    nbytes: int
    shape: tuple[int, ...]


def saved_tensors(function: Callable[[], object]) -> list[Kept]:
    """Return what a forward pass keeps for its backward pass, each storage once."""
    kept: dict[int, Kept] = {}
    alive = []  # keeps tensors alive, so that no address is used twice

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = Kept(storage.data_ptr(), storage.nbytes(), tuple(tensor.shape))
        alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        alive.append(function())
    return list(kept.values())


def measure(nodes: int, way: str, device: str, dtype: torch.dtype) -> dict[str, float]:
    """Return milliseconds and megabytes of one way to compute the operator."""
    shape = (1, HEADS, nodes, WIDTH // HEADS)
    q, k, *blocks = (
        torch.randn(shape, device=device, dtype=dtype, requires_grad=True) for _ in range(2 + KAPPA)
    )

    def forward() -> Tensor:
        return multi_hop(q, k, blocks, backend=WAYS[way])

    def both() -> None:
        forward().sum().backward()

    saved = sum(kept.nbytes for kept in saved_tensors(forward))
    return {
        "forward_ms": 1e3 * seconds(forward, device),
        "both_ms": 1e3 * seconds(both, device),
        "saved_mb": saved / 1e6,
    }


def seconds(function: Callable[[], object], device: str, budget: float = 1.0) -> float:
    """Return the fastest of the calls that fit the budget, at least two after a warm-up."""

    def once() -> float:
        start = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    once()
    times = [once(), once()]
    while sum(times) < budget and len(times) < 100:
        times.append(once())
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of the operator.")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default=None, help="float32 on CPU, bfloat16 on CUDA")
    parser.add_argument("--most-nodes", type=int, default=8192)
    parser.add_argument("--out", type=Path, help="also write the numbers as JSON")
    args = parser.parse_args()
    dtype = getattr(torch, args.dtype or ("bfloat16" if args.device == "cuda" else "float32"))
    print(f"{args.device}, {dtype}, width {WIDTH}, {HEADS} heads, κ={KAPPA}, batch 1")
    print("ms forward · ms forward+backward · MB kept; × = multiple of the fast path\n")
    print(f"{'nodes':>6}" + "".join(f"{way:>50}" for way in WAYS))
    rows = []
    for nodes in (96, 192, 336, 720, 1024, 2048, 4096, 8192):
        if nodes > args.most_nodes:
            break
        row = {
            way: measure(nodes, way, args.device, dtype)
            for way in WAYS
            if nodes <= LIMITS[args.device].get(way, nodes)
        }
        print(f"{nodes:>6}" + "".join(f"{_cell(row, way):>50}" for way in WAYS), flush=True)
        rows.append({"nodes": nodes, **row})
    if args.out:
        result = {
            "provenance": provenance("python -m benchmarks.operator", args.device),
            "dtype": str(dtype),
            "rows": rows,
        }
        args.out.write_text(json.dumps(result, indent=1) + "\n")


def _cell(row: dict[str, dict[str, float]], way: str) -> str:
    if way not in row:
        return "–"
    values = [f"{v:.3g}" for v in row[way].values()]
    if way != "fast":
        pairs = zip(values, row[way].values(), row["fast"].values(), strict=True)
        values = [f"{text} (×{mine / fast:.2g})" for text, mine, fast in pairs]
    return " · ".join(values)


if __name__ == "__main__":
    main()
