"""The array annotations of hops, nn, models and training are checked in every test."""

import importlib
import sys
from collections.abc import Iterator

import pytest
import torch
from jaxtyping import TypeCheckError
from torch import nn

from fighter import FighterError, multi_hop
from fighter._typing import Float
from fighter.hops import masked_softmax
from fighter.models.embedding import moving_average
from fighter.nn._checks import split_heads
from fighter.training.calibration import adjust
from fighter.training.losses import make_loss

from .shapes import checked

Y = torch.zeros(2, 3, 4, 5)
WRONG = {
    "hops": lambda: masked_softmax(torch.zeros(2, 3, 4)),  # not square
    "nn": lambda: split_heads(torch.zeros(3, 4), 2),
    "models": lambda: moving_average(torch.zeros(2, 3), 3),
    "training": lambda: adjust(Y, torch.zeros(3, 4), (0.1,) * 4),  # four series, not three
    "a nested function": lambda: make_loss("mae", ())(Y, torch.zeros(2, 3, 3), None),
}


@pytest.mark.parametrize("where", WRONG)
def test_a_wrong_shape_is_noticed(where):
    with pytest.raises(TypeCheckError):
        WRONG[where]()


@pytest.mark.parametrize("package", ["hops", "nn", "models", "training"])
def test_every_module_is_loaded_by_the_hook(package):
    importlib.import_module(f"fighter.{package}")
    names = [name for name in sys.modules if name.startswith(f"fighter.{package}")]
    assert names
    assert all(type(sys.modules[name].__loader__).__name__ == "_Loader" for name in names)


def test_functions_for_users_keep_their_own_errors():
    with pytest.raises(FighterError) as error:
        multi_hop(torch.zeros(2, 2, 5, 4), torch.zeros(2, 2, 5, 3), [torch.zeros(2, 2, 5, 4)])
    assert error.value.argument == "k"


def test_a_violation_in_an_inner_call_is_not_tried_again():
    calls = []

    @checked
    def inner(x: Float[torch.Tensor, "a"]) -> None:
        calls.append(x)

    @checked
    def outer(x: torch.Tensor) -> None:
        inner(x)

    with pytest.raises(TypeCheckError):
        outer(torch.zeros(2, 2))
    assert len(calls) == 1  # of the unchecked inner function


def test_a_generator_stays_a_generator():
    @torch.no_grad()
    @checked
    def numbers(x: Float[torch.Tensor, "a"]) -> Iterator[torch.Tensor]:
        yield x * 2

    (doubled,) = numbers(torch.ones(2, requires_grad=True))
    assert not doubled.requires_grad
    with pytest.raises(TypeCheckError):
        list(numbers(torch.ones(2, 2)))


def test_an_error_of_the_function_itself_passes():
    @checked
    def divide(x: Float[torch.Tensor, "a"]) -> Float[torch.Tensor, "a"]:
        return nn.Linear(3, 1)(x)

    with pytest.raises(RuntimeError):
        divide(torch.zeros(2))
