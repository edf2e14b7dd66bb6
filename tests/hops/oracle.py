"""The operator computed literally from its formula, as the reference for all backends."""

import torch


def literal(q, k, blocks, powers, *, mask=None, causal=False, scale=None):
    nodes = q.shape[-2]
    logits = (q.shape[-1] ** -0.5 if scale is None else scale) * q @ k.mT
    if mask is not None and mask.ndim == 2:
        mask = mask[:, None, None, :]
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, -torch.inf).to(q.dtype)
    if mask is not None:
        logits = logits + mask
    if causal:
        logits = logits.masked_fill(~torch.ones(nodes, nodes, dtype=torch.bool).tril(), -torch.inf)
    a = logits.softmax(-1)
    return sum(torch.linalg.matrix_power(a, p) @ b for p, b in zip(powers, blocks, strict=True))


def draw(batch=2, heads=2, nodes=9, query=4, width=4, kappa=3, dtype=torch.float64, grad=True):
    make = lambda e: torch.randn(batch, heads, nodes, e, dtype=dtype, requires_grad=grad)  # noqa: E731
    return make(query), make(query), [make(width) for _ in range(kappa)]


def masks(kind, batch, heads, nodes):
    """Make a mask of each kind that the operator accepts."""
    if kind == "padding":  # sequences of length nodes, nodes-1, …
        return torch.arange(nodes) < torch.arange(nodes, nodes - batch, -1)[:, None]
    if kind == "pairs":
        return (torch.rand(batch, 1, nodes, nodes) < 0.5) | torch.eye(nodes, dtype=torch.bool)
    if kind == "added":
        return torch.randn(1, heads, nodes, nodes, dtype=torch.float64)
    return None


def value_and_gradients(function, q, k, blocks):
    y = function(q, k, blocks)
    direction = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(y)
    gradients = torch.autograd.grad((y * direction).sum(), [q, k, *blocks], allow_unused=True)
    return y, *gradients
