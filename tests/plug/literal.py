"""Multi-hop attention as the formula is written: dense, one head at a time."""

import torch
from torch import Tensor


def multi_hop_heads(a: Tensor, v: Tensor, x: Tensor, weights, groups: int = 1) -> Tensor:
    """Return A_h V_h + Σᵢ A_hⁱ (X Wᵢ)_h for each head, ``[batch, heads, nodes, width]``."""
    heads, width = v.shape[1:4:2]
    columns = []
    for h in range(heads):
        out = a[:, h] @ v[:, h]
        for power, weight in enumerate(weights, start=2):
            own = weight[(h // groups) * width : (h // groups + 1) * width]
            out = out + torch.linalg.matrix_power(a[:, h], power) @ (x @ own.T)
        columns.append(out)
    return torch.stack(columns, 1)


@torch.no_grad()
def train_hops(model, scale: float = 0.3) -> None:
    """Give the further hops weights other than zero, as training would."""
    for name, weight in model.named_parameters():
        if ".hops." in f".{name}":
            weight.normal_(std=scale)
