import subprocess
import sys

import pytest
import torch
from torch import nn

from fighter.training.optimiser import AdamW


def weights() -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(shape)) for shape in [(7, 3), (3,), (1,), (4,)]]


def set_grads(parameters, step):
    """Set gradients; the last parameter has its first one in the third step."""
    torch.manual_seed(step)
    for number, parameter in enumerate(parameters):
        late = number == len(parameters) - 1 and step < 2
        parameter.grad = None if late else torch.randn_like(parameter)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_steps_are_those_of_torch_bit_by_bit(decay):
    ours, theirs = weights(), weights()
    mine = AdamW(ours, decay)
    expected = torch.optim.AdamW(theirs, weight_decay=decay, fused=True)
    for step in range(5):
        lr = 0.1 / (step + 1)
        expected.param_groups[0]["lr"] = lr
        for parameters in (ours, theirs):
            set_grads(parameters, step)
        mine.step(lr)
        expected.step()
        assert all(map(torch.equal, ours, theirs))
    state = expected.state_dict()["state"]
    named = {f"{i}/{name}": t for i, values in state.items() for name, t in values.items()}
    assert mine.tensors().keys() == named.keys()
    assert all(torch.equal(tensor, named[name]) for name, tensor in mine.tensors().items())


def test_a_loaded_state_continues():
    ours, again = weights(), weights()
    first, second = AdamW(ours), AdamW(again)
    for step in range(4):
        set_grads(ours, step)
        first.step(0.1)
        if step == 2:
            second.load({name: tensor.clone() for name, tensor in first.tensors().items()})
            for mine, theirs in zip(again, ours, strict=True):
                mine.data.copy_(theirs.data)
    set_grads(again, 3)
    second.step(0.1)
    assert all(map(torch.equal, ours, again))


def test_zero_grad_drops_gradients():
    parameters = weights()
    set_grads(parameters, 3)
    AdamW(parameters).zero_grad()
    assert all(parameter.grad is None for parameter in parameters)


TRAIN = """
import sys
from fighter.training import train
from tests.training.nets import network, recipe, windows
train(network(), windows(), None, recipe(epochs=1))
print("torch._dynamo" in sys.modules)
"""


def test_training_does_not_import_the_compiler():
    """It takes a second to import, more than to train on a small table."""
    done = subprocess.run([sys.executable, "-c", TRAIN], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
