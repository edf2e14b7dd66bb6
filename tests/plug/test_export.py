"""torch.export and ONNX of models with further hops, with any batch and any number of nodes."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim, export

from fighter.data.windows import Batch
from fighter.models import MODELS, ForecastNet, Task
from fighter.nn import FighterEncoder
from fighter.plug import replace_attention

from .language import build, inputs_of
from .literal import train_hops

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch's and onnxscript's own
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
BATCH, NODES = Dim("batch", min=2, max=64), Dim("nodes", min=2, max=4096)


class Masked(nn.Module):
    """An encoder of torch that hides nodes, and looks back only if it is causal."""

    def __init__(self, causal: bool):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.causal = causal
        replace_attention(self.encoder)

    def forward(self, x, hidden):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if self.causal else None
        padding = hidden.to(x.dtype) * -1e9
        return self.encoder(x, mask, padding, is_causal=self.causal)


class Plain(nn.Module):
    """A layer of torch, or an encoder of Fighter, without masks."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        y = self.inner(x, x, x, need_weights=False) if self.attends else self.inner(x)
        return y[0] if self.attends else y

    @property
    def attends(self):
        return isinstance(self.inner, nn.MultiheadAttention)


def nodes_of(count, batch=2):
    x, hidden = torch.randn(batch, count, 8), torch.zeros(batch, count, dtype=torch.bool)
    hidden[0, count // 2 :] = True
    return x, hidden


def attention():
    return replace_attention(nn.MultiheadAttention(8, 2, batch_first=True), 4)


MODULES = {
    "attention": lambda: Plain(attention()),
    "encoder": lambda: Masked(causal=False),
    "causal encoder": lambda: Masked(causal=True),
    "fighter encoder": lambda: Plain(FighterEncoder([8, 8, 4], kappa=3, heads=2)),
}


def module_of(name):
    module = MODULES[name]().eval()
    train_hops(module)
    masked = isinstance(module, Masked)
    shapes = ({0: BATCH, 1: NODES},) * (2 if masked else 1)
    return module, shapes, lambda count, batch=2: nodes_of(count, batch)[: len(shapes)]


@pytest.mark.parametrize("name", MODULES)
def test_an_exported_module_serves_any_number_of_nodes(name):
    module, shapes, inputs = module_of(name)
    program = export(module, inputs(7, 3), dynamic_shapes=shapes).module()
    for count in (4, 300):
        given = inputs(count)
        torch.testing.assert_close(program(*given), module(*given), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", MODULES)
def test_onnxruntime_computes_the_same(name, tmp_path):
    module, shapes, inputs = module_of(name)
    run = to_onnx(module, inputs(7, 3), shapes, tmp_path)
    for count in (4, 300):
        given = inputs(count)
        np.testing.assert_allclose(run(*given), module(*given).detach(), atol=1e-5, rtol=1e-5)


def to_onnx(module, example, shapes, folder):
    """Export a module and return a function that runs the file."""
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    path = folder / "model.onnx"
    torch.onnx.export(module, example, path, dynamic_shapes=shapes, dynamo=True, verbose=False)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(*given):
        names = [each.name for each in session.get_inputs()]
        arrays = (x.numpy() for x in given)
        return session.run(None, dict(zip(names, arrays, strict=True)))[0]

    return run


class Network(nn.Module):
    """The network of a forecaster, from tensors to the forecast."""

    def __init__(self, kind, options):
        super().__init__()
        task = Task(lookback=12, horizon=4, series=3, outputs=3)
        core = MODELS[kind](width=8, heads=2, layers=1, **options).build(task)
        self.network = ForecastNet(core, period=None, reversion=True)

    def forward(self, past, start):
        return self.network(Batch(past, past[:, :0], None, None, start), start)


NETWORKS = {
    "patchtst": ({"kappa": 3, "patch": 4, "stride": 3}, True),
    "itransformer": ({"kappa": 3}, True),
    "informer": ({"kappa": 3}, False),
    "reformer": ({"kappa": 3}, False),
    "autoformer": ({"kappa": 3}, False),
    "fighter": ({"nodes": "series", "adjacency": "cosine"}, True),
}


def network_of(kind):
    options, any_series = NETWORKS[kind]
    network = Network(kind, options).eval()
    train_hops(network)
    shapes = ({0: BATCH, 2: NODES} if any_series else {0: BATCH}, {0: BATCH})

    def inputs(count, batch=2):
        return torch.randn(batch, 12, count if any_series else 3), torch.arange(batch)

    return network, shapes, inputs


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_network_of_a_forecaster_is_exported(kind):
    network, shapes, inputs = network_of(kind)
    program = export(network, inputs(5, 4), dynamic_shapes=shapes).module()
    for count in (3, 300):
        given = inputs(count)
        torch.testing.assert_close(program(*given), network(*given), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["itransformer", "fighter"])
def test_onnxruntime_forecasts_the_same(kind, tmp_path):
    network, shapes, inputs = network_of(kind)
    run = to_onnx(network, inputs(5, 4), shapes, tmp_path)
    for count in (3, 300):
        given = inputs(count)
        np.testing.assert_allclose(run(*given), network(*given).detach(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "vit", "gpt2", "llama"])
def test_models_of_transformers_are_exported(kind):
    model = replace_attention(build(kind, use_cache=False) if kind != "vit" else build(kind))
    train_hops(model)
    inputs = inputs_of(kind)
    words = Dim("words", min=2, max=512)
    shapes = {
        name: {0: BATCH, 1: words} if x.ndim == 2 else {0: BATCH} for name, x in inputs.items()
    }
    program = export(model, (), inputs, dynamic_shapes=shapes).module()
    longer = {name: torch.cat([x, x[:, :3]], 1) if x.ndim == 2 else x for name, x in inputs.items()}
    torch.testing.assert_close(program(**longer)[0], model(**longer)[0], atol=1e-5, rtol=1e-5)
