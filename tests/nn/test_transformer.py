import pytest
import torch
from torch import nn

from fighter import FighterError
from fighter.nn import TransformerEncoder
from fighter.nn.transformer import project


@pytest.mark.parametrize("biases", [(True, True), (True, False), (False, False)])
def test_a_joint_projection_equals_its_maps_one_by_one(biases):
    maps = [nn.Linear(5, out, bias=bias).double() for out, bias in zip((3, 4), biases, strict=True)]
    x = torch.randn(2, 7, 5, dtype=torch.float64, requires_grad=True)
    leaves = [x, *(p for f in maps for p in f.parameters())]

    def gradients(parts):
        return torch.autograd.grad(sum(part.pow(3).sum() for part in parts), leaves)

    together, alone = project(x, *maps), [f(x) for f in maps]
    torch.testing.assert_close(list(together), alone)
    torch.testing.assert_close(gradients(together), gradients(alone))


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: TransformerEncoder([7]), "widths"),
        (lambda: TransformerEncoder([8, 8, 2], heads=3), "heads"),
        (lambda: TransformerEncoder([8, 8, 2], heads=4, query_width=6), "heads"),
        (lambda: TransformerEncoder([8, 8, 2], heads=4, value_width=6), "heads"),
        (lambda: TransformerEncoder([8, 6, 2], residual=True), "residual"),
        (lambda: TransformerEncoder([8, 8, 2], value_width=4, residual=True), "residual"),
        (lambda: TransformerEncoder([8, 8, 2], activation="none"), "activation"),
        (lambda: TransformerEncoder([8, 8, 2], scale=float("inf")), "scale"),
        (lambda: TransformerEncoder([8, 8, 2])(torch.randn(2, 5, 7)), "x"),
    ],
)
def test_errors_name_the_argument(make, argument):
    with pytest.raises(FighterError, match=rf"^{argument}\b"):
        make()
