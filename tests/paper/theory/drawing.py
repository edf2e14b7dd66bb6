"""Random inputs and a strict comparison that do not use the code under test."""

import pytest
import torch
from torch import Tensor

from paper.theory.models import ACTIVATIONS

each_activation = pytest.mark.parametrize(
    ("sigma", "seed"),
    [(sigma, seed) for seed, sigma in enumerate(ACTIVATIONS)],
    ids=[sigma.name for sigma in ACTIVATIONS],
)


def normal(seed: int, *shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def assert_equal(value: Tensor, truth: Tensor) -> None:
    largest = truth.abs().max().item()
    torch.testing.assert_close(value, truth, rtol=1e-11, atol=1e-11 * largest + 1e-15)
