"""Average the weights of two trainings, of which one went on from the other.

    python -m pretraining.average first.safetensors second.safetensors --share 0.6 --out mean.st

Each training is better on other series; the mean of both is better than either.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors import safe_open

from fighter.models.pretrained import PretrainedNet

from .train import load, save


def average(first: Path, second: Path, share: float, out: Path) -> None:
    """Write the mean of two files of weights, in which the second has a share."""
    with safe_open(second, "pt") as file:
        options = json.loads(file.metadata()["options"])
    one, other = (PretrainedNet(**options) for _ in range(2))
    load(one, first)
    steps = load(other, second)
    with torch.no_grad():
        for ours, theirs in zip(one.parameters(), other.parameters(), strict=True):
            ours.lerp_(theirs, share)
    save(one, out, steps, options)


def main() -> None:
    """Average, as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m pretraining.average")
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--share", type=float, default=0.5, help="of the second (default: 0.5)")
    parser.add_argument("--out", type=Path, required=True, help="weights to write")
    args = parser.parse_args()
    average(args.first, args.second, args.share, args.out)


if __name__ == "__main__":
    main()
