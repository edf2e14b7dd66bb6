import pytest
import torch

from fighter.data.windows import Batch
from fighter.explain import Frozen

from ..contract.test_models import VARIANTS, batch_of, build


def double(batch: Batch) -> Batch:
    return Batch(*(x.double() if x is not None and x.is_floating_point() else x for x in batch))


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_frozen_network_is_affine_and_its_parts_add_up(variant):
    """Check the whole forecast: normalisation, cycle, basis, graphs, norms and activations."""
    net = build(variant, 3).double().eval()
    for parameter in net.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.1)
    for missing in (False, True):
        check_affine(net, double(batch_of(2, 3, missing=missing)))


def check_affine(net, batch: Batch) -> None:
    frozen = Frozen(lambda past: net(batch._replace(past=past), batch.start), batch.past)
    expected = net(batch, batch.start)
    torch.testing.assert_close(frozen.output, expected)
    past = batch.past.clone().requires_grad_()
    forecast = frozen(past)
    torch.testing.assert_close(forecast, expected, rtol=1e-10, atol=1e-10)
    constant = frozen(torch.zeros_like(past))
    (slope,) = torch.autograd.grad(forecast[0, 2, 1, 0], past)
    total = (slope * batch.past).sum() + constant[0, 2, 1, 0]
    torch.testing.assert_close(total, forecast[0, 2, 1, 0], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(frozen(3 * past) - constant, 3 * (forecast - constant))


def test_a_network_that_is_not_frozen_is_not_affine():
    """Show that the test above can fail."""
    net, batch = build("transformer", 3).double().eval(), double(batch_of(2, 3))
    forecast = net(batch, batch.start)
    at_zero = net(batch._replace(past=0 * batch.past), batch.start)
    twice = net(batch._replace(past=2 * batch.past), batch.start)
    assert not torch.allclose(twice - at_zero, 2 * (forecast - at_zero), atol=1e-3)


@pytest.mark.parametrize(
    "activation",
    [torch.nn.ReLU(), torch.nn.GELU(), torch.nn.SiLU(), torch.nn.Softplus(), torch.nn.Sigmoid()],
    ids=lambda a: type(a).__name__,
)
def test_frozen_activations_keep_their_value_at_the_input_and_at_zero(activation):
    x = torch.tensor([-2.0, -0.5, 0.0, 0.5, 2.0], dtype=torch.float64)
    frozen = Frozen(activation, x)
    torch.testing.assert_close(frozen(x), activation(x))
    torch.testing.assert_close(frozen(0 * x), activation(0 * x))
    torch.testing.assert_close(frozen(2 * x) - frozen(0 * x), 2 * (frozen(x) - frozen(0 * x)))


def test_attention_uses_the_graph_of_the_recorded_input():
    x = torch.randn(1, 5, 4, dtype=torch.float64)

    def attend(x):
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)

    frozen, other = Frozen(attend, x), torch.randn_like(x)
    graph = (x @ x.transpose(1, 2) / 2).softmax(-1)
    torch.testing.assert_close(frozen(other), graph @ other)
