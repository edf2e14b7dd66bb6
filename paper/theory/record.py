"""An identity: its name, what the paper says of it, and two errors measured on fresh numbers."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from fighter.errors import FighterError

from .models import EncoderLayer, causal_mask, softmax_adjacency

TOLERANCE = 1e-9
"""An identity holds if its relative error is below this; rounding alone leaves about 1e-14."""

LARGEST_SIZE = 64

Pair = tuple[Tensor, Tensor]
"""A value and the truth it should equal."""


@dataclass(frozen=True)
class Identity:
    """One claim, measured.

    Errors are max |value − truth| / max |truth| over all cases tried. The truth comes from autograd
    or from the literal definition; for an inequality, the error is the size of its violation.
    ``paper_error`` is None where the paper prints nothing that could be computed.
    """

    name: str
    paper_says: str
    paper_error: float | None
    corrected_error: float

    @property
    def holds(self) -> bool:
        """Whether the corrected form is exact up to rounding."""
        return self.corrected_error < TOLERANCE

    @property
    def paper_fails(self) -> bool:
        """Whether the paper prints something, and it is not exact on these numbers."""
        return self.paper_error is not None and not self.paper_error < TOLERANCE


def relative_error(value: Tensor, truth: Tensor) -> float:
    """Return max |value − truth| / max |truth|; the absolute error where the truth is all zero."""
    return pooled_error([(value, truth)])


def pooled_error(pairs: Iterable[Pair]) -> float:
    """Return the largest error of several pairs over the largest truth among them.

    They share one scale because a single gradient can be zero by chance, and an error relative to
    it would measure that chance.
    """
    errors: list[Tensor] = []
    scales: list[Tensor] = []
    for value, truth in pairs:
        if value.shape != truth.shape:
            return math.inf
        errors.append((value - truth).abs().flatten())
        scales.append(truth.abs().flatten())
    # Unlike Python's max, torch's lets a NaN through.
    return torch.cat(errors).max().item() / (torch.cat(scales).max().item() or 1.0)


def measure(
    name: str, paper_says: str, corrected: Iterable[Pair], paper: Iterable[Pair] | None = None
) -> Identity:
    """Return an identity with the pooled errors of its corrected and its printed form."""
    paper_error = None if paper is None else pooled_error(paper)
    return Identity(name, paper_says, paper_error, pooled_error(corrected))


def check_whole(name: str, value: object, lowest: int, highest: int) -> None:
    """Raise an error unless ``value`` is a whole number in range."""
    whole = isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest
    if not whole:
        reason = f"needs a whole number from {lowest} to {highest}"
        raise FighterError(reason, argument=name, value=value)


class Draw:
    """A source of fresh float64 inputs; ``size`` scales the number of nodes and every width.

    Numbers are uniform, not normal: bounded logits keep the softmax away from saturation, where
    its derivative would be lost to cancellation in the oracle as well.
    """

    def __init__(self, seed: int, size: int) -> None:
        check_whole("seed", seed, 0, 2**63 - 1)
        check_whole("size", size, 1, LARGEST_SIZE)
        self._generator = torch.Generator().manual_seed(seed)
        self.size = size
        self.nodes = size + 2
        self.width = size
        self.key = (size + 1) // 2
        self.hidden = (3 * size + 3) // 4
        self.scale = self.width**-0.5

    def features(self, *shape: int) -> Tensor:
        """Draw independent numbers with mean 0 and variance 1."""
        unit = torch.rand(shape, generator=self._generator, dtype=torch.float64)
        return (2 * unit - 1) * 3**0.5

    def weights(self, *shape: int) -> Tensor:
        """Draw numbers scaled so that a product with unit features has variance about 1."""
        return self.features(*shape) / shape[-2] ** 0.5

    def adjacency(self, *, causal: bool = False) -> Tensor:
        """Draw a row-stochastic A, the softmax of independent logits."""
        logits = self.features(self.nodes, self.nodes)
        if causal:
            logits = logits.masked_fill(~causal_mask(self.nodes), float("-inf"))
        return logits.softmax(-1)

    def attention(self, X: Tensor) -> Tensor:
        """Return A = smx(τ X W_Q (X W_K)ᵀ) for fresh W_Q, W_K."""
        W_Q, W_K = (self.weights(X.shape[1], self.key) for _ in range(2))
        return softmax_adjacency(X @ W_Q, X @ W_K, self.scale)

    def encoder_layers(self, depth: int, *, biases: bool) -> list[EncoderLayer]:
        """Draw a Transformer encoder of ``depth`` layers, of widths d → h → h … → h."""
        layers: list[EncoderLayer] = []
        width, h, v = self.width, self.hidden, self.key
        for _ in range(depth):
            b_1, b_2 = (self.features(h) * float(biases) for _ in range(2))
            W_Q, W_K, W_V = (self.weights(width, v) for _ in range(3))
            W_1, W_2 = self.weights(v, h), self.weights(h, h)
            layers.append(EncoderLayer(W_Q, W_K, W_V, W_1, b_1, W_2, b_2))
            width = h
        return layers
