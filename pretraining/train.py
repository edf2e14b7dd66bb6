"""Train the pretrained network on synthetic series; write its weights.

    python -m pretraining.train --minutes 9 --out weights.safetensors
    python -m pretraining.train --minutes 9 --start weights.safetensors --lr 1e-3 1e-5 --out …
    python -m pretraining.train --quick --out weights.safetensors

Every series is drawn on the device, used twice and never seen again. Weights are evaluated and kept
as a moving average. Several short calls make a long training: each starts from the weights of the
last one, and the learning rate goes from the first to the second number of ``--lr`` over the call.
"""

import argparse
import json
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from fighter.benchmark.provenance import provenance
from fighter.models.pretrained import PretrainedNet
from fighter.models.pretrained_loss import relative_losses

from .generator import FAMILIES, GROUP, Examples, draw

WARM_UP = 200  # steps
AVERAGE = 0.999  # decay of the moving average
CLIP = 1.0  # largest norm of a gradient
BUFFER = 16  # batches that are drawn together
USES = 2  # of each series: to draw them takes half as long as to learn from them


@dataclass(frozen=True)
class Size:
    """Patches of the context and of the horizon, and groups of eight series, in a step."""

    patches: int
    ahead: int
    groups: int


SIZES = (Size(16, 2, 640), Size(16, 4, 576), Size(32, 4, 320), Size(64, 4, 176), Size(64, 12, 160))
QUICK = (Size(4, 2, 4), Size(18, 12, 2))


def loss(network: PretrainedNet, examples: Examples) -> Tensor:
    """Return the mean loss of the series that have a step to score."""
    each = relative_losses(network, *examples)
    count = examples.scored.any(-1).sum().clamp(min=1)
    return each.sum() / count


def batches(size: Size, device: torch.device, families: dict[str, Any]) -> Any:
    """Yield batches without end."""
    while True:
        many = draw(BUFFER * size.groups, size.patches, size.ahead, device, families)
        for _ in range(USES):
            order = torch.randperm(len(many.past), device=device)
            for part in order.chunk(BUFFER):
                yield Examples(*(each[part] for each in many))


def train(args: argparse.Namespace) -> dict[str, Any]:
    """Train until the time or the steps are over; return a record of what was done."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    names = ("width", "layers", "kappa", "heads", "hidden")
    options = {name: getattr(args, name) for name in names}
    network = PretrainedNet(**options).to(device)
    done = 0
    if args.start:
        done = load(network, args.start)
    averaged = PretrainedNet(**options).to(device)
    averaged.load_state_dict(network.state_dict())
    decayed = [p for p in network.parameters() if p.ndim > 1]
    plain = [p for p in network.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.02}, {"params": plain, "weight_decay": 0.0}]
    fused = device.type == "cuda"
    optimiser = torch.optim.AdamW(groups, lr=args.lr[0], betas=(0.9, 0.98), fused=fused)
    if args.compile:  # the layers only, which takes a fraction of the time
        for layer in (*network.over_time, *network.over_series):
            layer.compile(dynamic=False)
    sizes = [replace(s, groups=max(round(s.groups * args.batch), 1)) for s in SIZES]
    sizes = QUICK if args.quick else sizes
    families = {name: f for name, f in FAMILIES.items() if name not in args.without}
    sources = [batches(size, device, families) for size in sizes]
    begin, step, series, total, log = time.perf_counter(), 0, 0, 0.0, []
    while True:
        spent = time.perf_counter() - begin
        part = step / args.steps if args.steps else spent / (60 * args.minutes)
        if part >= 1:
            break
        first, last = args.lr
        rate = last + (first - last) * (1 + math.cos(math.pi * part)) / 2
        rate *= min((step + 1) / WARM_UP, 1.0)
        for group in optimiser.param_groups:
            group["lr"] = rate
        examples = next(sources[step % len(sources)])
        with torch.autocast(device.type, torch.bfloat16):
            value = loss(network, examples)
        optimiser.zero_grad(set_to_none=True)
        value.backward()
        norm = torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP)
        if fused:  # a step without a finite gradient is left out
            optimiser.found_inf = (~norm.isfinite()).float()  # pyright: ignore
        optimiser.step()
        step, series = step + 1, series + examples.past.shape[0] * GROUP
        keep = min(AVERAGE, step / (step + 10))
        with torch.no_grad():
            for ours, theirs in zip(averaged.parameters(), network.parameters(), strict=True):
                ours.lerp_(theirs, 1 - keep)
        total = total + value.detach()
        if step % args.every == 0:
            entry = {"step": done + step, "loss": float(total) / args.every, "lr": rate}
            log.append(entry | {"seconds": round(time.perf_counter() - begin, 1)})
            print(json.dumps(log[-1]), flush=True)
            total = 0.0
        if step % (20 * args.every) == 0:  # in case that the machine stops
            save(averaged, args.out, done + step, options)
    about = provenance("python -m pretraining.train", str(device))
    record = {
        "options": options, "seed": args.seed, "steps": done + step, "series": series,
        "seconds": round(time.perf_counter() - begin), "lr": args.lr, "without": args.without,
        "provenance": about, "log": log[-400:],
    }  # fmt: skip
    save(averaged, args.out, done + step, options)
    if args.raw:
        save(network, args.raw, done + step, options)
    return record


def save(network: PretrainedNet, path: Path, step: int, options: dict[str, int]) -> None:
    """Write the weights in bfloat16."""
    weights = {k: v.detach().to("cpu", torch.bfloat16) for k, v in network.state_dict().items()}
    weights = {name: weight.contiguous() for name, weight in weights.items()}
    save_file(weights, path, {"options": json.dumps(options), "steps": str(step)})


def load(network: PretrainedNet, path: Path) -> int:
    """Read weights; return after how many steps they were written."""
    with safe_open(path, "pt") as file:
        state = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
        steps = int(file.metadata()["steps"])
    network.load_state_dict(state)
    return steps


def main() -> None:
    """Train, and write weights and record."""
    parser = argparse.ArgumentParser(prog="python -m pretraining.train")
    parser.add_argument("--out", type=Path, required=True, help="weights to write")
    parser.add_argument("--raw", type=Path, help="also write the weights that are not averaged")
    parser.add_argument("--record", type=Path, help="a JSON file about the training")
    parser.add_argument("--start", type=Path, help="weights to go on from (default: new ones)")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--steps", type=int, help="instead of minutes")
    parser.add_argument("--lr", type=float, nargs=2, default=[1e-3, 1e-5])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--kappa", type=int, default=3)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=4)
    parser.add_argument("--batch", type=float, default=1.0, help="share of the series of a step")
    parser.add_argument("--without", nargs="*", default=[], choices=[*FAMILIES], metavar="FAMILY")
    parser.add_argument("--every", type=int, default=100, help="steps between lines of the log")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--quick", action="store_true", help="a tiny run, to test the script")
    args = parser.parse_args()
    if args.quick:
        args.steps, args.width, args.layers, args.heads = args.steps or 6, 16, 2, 2
        args.compile, args.every = False, 2
    record = train(args)
    if args.record:
        args.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
