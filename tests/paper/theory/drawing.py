"""Random inputs and strict comparison, apart from what the theory room uses itself."""

import torch
from torch import Tensor


def normal(seed: int, *shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def assert_equal(value: Tensor, truth: Tensor) -> None:
    largest = truth.abs().max().item()
    torch.testing.assert_close(value, truth, rtol=1e-11, atol=1e-11 * largest + 1e-15)
