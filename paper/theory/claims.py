"""The paper's claims in words, put into numbers: removing W_FFN2, factoring W, powers of A."""

import torch
from torch import Tensor

from .record import Draw, Identity, measure


def residual_needs_output_projection(draw: Draw) -> Identity:
    """Check X + σ(U) ≥ X for ReLU, whatever U: without W_FFN2 a residual block can only raise X.

    With it the block X + σ(U) W₂ can also lower X. By how much it does is a lower bound on the
    error of every block without W₂, and that bound is reported as the paper's error.
    """
    X = draw.features(draw.nodes, draw.width)
    activated = torch.relu(X @ draw.weights(draw.width, draw.width))
    projected = X + activated @ -draw.weights(draw.width, draw.width).abs()
    largest = projected.abs().max()
    return Identity(
        "a ReLU residual block only raises X",
        "W_FFN2 is redundant, residuals in use",
        _violation(X - projected) / largest.item(),
        _violation(X - (X + activated)),
    )


def factored_step(draw: Draw) -> Identity:
    """Check how far one gradient step on both factors moves W = W_V W₁; it is not along −g.

    W moves by −η (g W₁ᵀW₁ + W_V W_Vᵀ g) + η² g W₁ᵀ W_Vᵀ g.

    g is the gradient with respect to the fused W. The paper's error is what is left of the step
    after the best multiple of g is taken out.
    """
    W_V = draw.weights(draw.width, draw.key).requires_grad_()
    W_1 = draw.weights(draw.key, draw.hidden).requires_grad_()
    X, target = draw.features(draw.nodes, draw.width), draw.features(draw.nodes, draw.hidden)
    fused = (W_V @ W_1).detach().requires_grad_()
    (g,) = torch.autograd.grad((X @ fused - target).square().sum(), fused)
    loss = (X @ W_V @ W_1 - target).square().sum()
    to_V, to_1 = torch.autograd.grad(loss, (W_V, W_1))
    eta = 0.1 / g.norm()
    with torch.no_grad():
        step = (W_V - eta * to_V) @ (W_1 - eta * to_1) - W_V @ W_1
        first = g @ W_1.T @ W_1 + W_V @ W_V.T @ g
        corrected = -eta * first + eta**2 * g @ W_1.T @ W_V.T @ g
        along_g = (step * g).sum() / g.square().sum() * g
    says = "V and FFN updates mirror those of a GCN"
    return measure(
        "one step on W_V and W₁ moves W_V W₁", says, [(corrected, step)], [(along_g, step)]
    )


def powers_average(draw: Draw) -> Identity:
    """Check that rows of A^{k+1} average those of Aᵏ: column maxima never rise, minima never fall.

    The paper's error is the most by which the strongest edge of a node falls from A to A², relative
    to the largest edge; "emphasised" edges would have to rise.
    """
    A = draw.adjacency()
    worst, power = 0.0, A
    for _ in range(4):
        following = A @ power
        worst = max(
            worst,
            _violation(following.amax(0) - power.amax(0)),
            _violation(power.amin(0) - following.amin(0)),
        )
        power = following
    fall = _violation(A.amax(1) - (A @ A).amax(1)) / A.max().item()
    return Identity(
        "powers of A average its rows", "powers emphasise the strong edges", fall, worst
    )


def powers_add_no_edges(draw: Draw) -> Identity:
    """Check that A², without a mask, joins no pair of nodes that A does not: A > 0 already.

    The error is the share of new edges.
    """
    A = draw.attention(draw.features(draw.nodes, draw.width))
    new = ((A @ A > 0) & ~(A > 0)).double().mean().item()
    return Identity("A already joins all nodes, A² adds none", "larger κ sees farther", None, new)


def local_hops_diffuse(draw: Draw) -> Identity:
    """Check that for a fixed symmetric window the mean squared lag of Aᵏ is k times that of A.

    So hop k reaches √k windows, not k. Measured at the middle node, away from the ends.
    """
    hops = 3
    middle = hops * draw.size
    position = torch.arange(2 * middle + 1)
    lag = (position[:, None] - position[None, :]).abs()
    by_lag = torch.nn.functional.pad(draw.features(draw.size + 1).exp(), (0, 2 * middle))
    window = by_lag[lag]
    A = window / window[middle].sum()
    after_one, after_all = (
        (torch.linalg.matrix_power(A, k)[middle] * lag[middle].square()).sum() for k in (1, hops)
    )
    pairs = [(hops * after_one, after_all)]
    return measure("local attention: hop k reaches √k windows", "larger κ sees farther", pairs)


def causal_powers_sink(draw: Draw) -> Identity:
    """Check that a causal A has A^∞ = 1 e₁ᵀ: every walk ends at the first node."""
    A = draw.adjacency(causal=True)
    slowest = A.diagonal()[1:].max().item()
    while slowest > 1e-40:
        A, slowest = A @ A, slowest**2
        A = A / A.sum(-1, keepdim=True)  # squaring doubles the rounding error of a row sum
    first = torch.zeros_like(A)
    first[:, 0] = 1.0
    return measure(
        "causal A^∞ is all on the first node", "mask named, absent from equations", [(A, first)]
    )


def _violation(excess: Tensor) -> float:
    """Return how far ``excess ≤ 0`` is violated."""
    return excess.max().clamp(min=0.0).item()
