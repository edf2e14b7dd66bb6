import pytest
import torch
from torch import nn

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


def check_frozen(function, x):
    """Check value, affinity and completeness; return the frozen function."""
    frozen = Frozen(function, x)
    expected = function(x)
    torch.testing.assert_close(frozen(x), expected, rtol=1e-10, atol=1e-10)
    zero = frozen(torch.zeros_like(x))
    torch.testing.assert_close(frozen(3 * x) - zero, 3 * (expected - zero), rtol=1e-9, atol=1e-9)
    leaf, weights = x.clone().requires_grad_(), torch.linspace(-1, 2, zero.numel()).to(x)
    number, at_zero = ((y.flatten() * weights).sum() for y in (frozen(leaf), zero))
    (slope,) = torch.autograd.grad(number, leaf)
    torch.testing.assert_close((slope * x).sum() + at_zero, number, rtol=1e-9, atol=1e-9)
    assert slope.any()
    return frozen


MODULES = {
    "rms norm": nn.RMSNorm(8),
    "group norm": nn.GroupNorm(2, 6),
    "glu": nn.GLU(),
    **{
        type(module).__name__: module
        for module in (
            nn.SELU(), nn.CELU(), nn.Hardswish(), nn.Hardsigmoid(), nn.PReLU(), nn.Softsign(),
            nn.Tanhshrink(), nn.LogSigmoid(), nn.ReLU6(), nn.SiLU(inplace=True),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_torch_modules_are_affine_when_frozen(name):
    torch.manual_seed(0)
    module, mix = MODULES[name].double(), nn.Linear(8, 8).double()
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    check_frozen(lambda x: module(mix(x)), torch.randn(2, 6, 8, dtype=torch.float64))


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("mask", [False, True])
def test_torch_encoders_are_affine_when_frozen(norm_first, mask):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        8, 2, 16, batch_first=True, norm_first=norm_first, activation="gelu", dtype=torch.float64
    )
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=x.dtype) if mask else None
    frozen = check_frozen(lambda x: encoder(x, mask=causal, is_causal=mask), x)
    last, more = x.clone(), x.clone()
    more[:, -1] += 1
    moved = (frozen(more) - frozen(last))[:, :-1].abs().amax()
    assert (moved == 0) == mask  # the graph is that of the mask


@pytest.mark.parametrize("options", [{}, {"kdim": 6, "vdim": 4}, {"bias": False}])
def test_torch_attention_of_any_layout_is_affine_in_its_values(options):
    torch.manual_seed(0)
    attend = nn.MultiheadAttention(8, 2, **options).double().eval()
    q, k = (torch.randn(3, 2, size, dtype=torch.float64) for size in (8, options.get("kdim", 8)))
    v = torch.randn(3, 2, options.get("vdim", 8), dtype=torch.float64)
    frozen = check_frozen(lambda v: attend(q, k, v, need_weights=False)[0], v)
    weights = Frozen(lambda v: attend(q, k, v)[1], v).output
    torch.testing.assert_close(weights, attend(q, k, v)[1])
    torch.testing.assert_close(frozen(2 * v), attend(q, k, 2 * v)[0])
    check_frozen(lambda v: attend(q[:, 0], k[:, 0], v)[0], v[:, 0])  # without a batch


def test_coefficients_of_some_kinds_come_from_another_input():
    torch.manual_seed(0)
    linear, norm = nn.Linear(4, 4).double(), nn.LayerNorm(4).double()

    def function(x):
        return torch.tanh(norm(x.mT.softmax(-1) @ linear(x)))

    x, y = torch.randn(2, 1, 4, 4, dtype=torch.float64)
    one, other = Frozen(function, x), Frozen(function, y)
    every = ("attention", "norms", "gates")
    torch.testing.assert_close(one.mixed(other, (), y), one(y))
    torch.testing.assert_close(one.mixed(other, every, y), function(y))
    inside = y.mT.softmax(-1) @ linear(y)
    centred = x.mT.softmax(-1) @ linear(x)
    factor = (centred.var(-1, correction=0, keepdim=True) + norm.eps).rsqrt()
    u = (inside - inside.mean(-1, keepdim=True)) * factor  # the norm is that of x
    gates = torch.tanh(norm(centred)) / norm(centred)
    torch.testing.assert_close(one.mixed(other, ("attention",), y), gates * u)
    torch.testing.assert_close(one(y), Frozen(function, x)(y))  # mixing leaves it as it was
