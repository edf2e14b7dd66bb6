"""Several maps as one product, against each by itself."""

import pytest
import torch
from torch import nn

from fighter.nn._checks import project


@pytest.mark.parametrize("biases", [(True, True), (True, False), (False, False)])
def test_maps_together_are_the_maps_one_by_one(biases):
    maps = [nn.Linear(5, out, bias=bias).double() for out, bias in zip((3, 4), biases, strict=True)]
    x = torch.randn(2, 7, 5, dtype=torch.float64, requires_grad=True)
    leaves = [x, *(p for f in maps for p in f.parameters())]

    def gradients(parts):
        return torch.autograd.grad(sum(part.pow(3).sum() for part in parts), leaves)

    together, alone = project(x, *maps), [f(x) for f in maps]
    torch.testing.assert_close(list(together), alone)
    torch.testing.assert_close(gradients(together), gradients(alone))
