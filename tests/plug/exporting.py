"""Exports of models with further hops, each compared with the model it came from.

``python -m tests.plug.exporting NAME`` runs one of the checks. They run in their own processes,
because torch.export cannot trace the shape checks of the tests.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn
from torch.export import Dim, export
from torch.testing import assert_close

from fighter.data.windows import Batch
from fighter.models import MODELS, ForecastNet, Task
from fighter.nn import FighterEncoder
from fighter.plug import replace_attention

from .literal import train_hops

BATCH, NODES = Dim("batch", min=2, max=64), Dim("nodes", min=2, max=4096)
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


class Attention(nn.Module):
    """Torch's attention with two further hops."""

    shapes = ({0: BATCH, 1: NODES},)

    def __init__(self):
        super().__init__()
        self.inner = replace_attention(nn.MultiheadAttention(8, 2, batch_first=True), 4)

    def forward(self, x):
        return self.inner(x, x, x, need_weights=False)[0]

    def inputs(self, nodes, batch=2):
        return (torch.randn(batch, nodes, 8),)


class Encoder(Attention):
    """Torch's encoder with nodes that are hidden."""

    shapes = ({0: BATCH, 1: NODES}, {0: BATCH, 1: NODES})
    causal = False

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
        self.inner = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        replace_attention(self.inner)

    def forward(self, x, hidden):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if self.causal else None
        return self.inner(x, mask, hidden.to(x.dtype) * -1e9, is_causal=self.causal)

    def inputs(self, nodes, batch=2):
        hidden = torch.zeros(batch, nodes, dtype=torch.bool)
        hidden[0, nodes // 2 :] = True
        return torch.randn(batch, nodes, 8), hidden


class CausalEncoder(Encoder):
    """The same with nodes that look back only."""

    causal = True


class Fighter(Attention):
    """An encoder of Fighter's own."""

    def __init__(self):
        super().__init__()
        self.inner = FighterEncoder([8, 8, 4], kappa=3, heads=2)

    def forward(self, x):
        return self.inner(x)


class Network(nn.Module):
    """The network of a forecaster, from tensors to the forecast."""

    def __init__(self, kind, any_series, **options):
        super().__init__()
        task = Task(lookback=12, horizon=4, series=3, outputs=3)
        core = MODELS[kind](width=8, heads=2, layers=1, **options).build(task)
        self.network, self.any_series = ForecastNet(core, reversion=True), any_series
        self.shapes = ({0: BATCH, 2: NODES} if any_series else {0: BATCH}, {0: BATCH})

    def forward(self, past, start):
        return self.network(Batch(past, past[:, :0], None, None, start), start)

    def inputs(self, nodes, batch=2):
        return torch.randn(batch, 12, nodes if self.any_series else 3), torch.arange(batch)


LAYERS = [Attention, Encoder, CausalEncoder, Fighter]
NETWORKS = {
    "patchtst": {"any_series": True, "kappa": 3, "patch": 4, "stride": 3},
    "itransformer": {"any_series": True, "kappa": 3},
    "informer": {"any_series": False, "kappa": 3},
    "reformer": {"any_series": False, "kappa": 3},
    "autoformer": {"any_series": False, "kappa": 3},
    "fighter": {"any_series": True, "nodes": "series", "adjacency": "cosine"},
}


def make(module):
    train_hops(module)
    return module.eval()


def layers():
    return [make(layer()) for layer in LAYERS]


def networks(*kinds):
    return [make(Network(kind, **NETWORKS[kind])) for kind in kinds or NETWORKS]


def check_export(modules):
    """Export modules, and run them with other numbers of examples and nodes."""
    for module in modules:
        program = export(module, module.inputs(7, 3), dynamic_shapes=module.shapes).module()
        for nodes in (4, 300):
            given = module.inputs(nodes)
            assert_close(program(*given), module(*given), **CLOSE)


def check_onnx(modules):
    """Do the same with files that onnxruntime runs."""
    import onnxruntime

    for module in modules:
        with TemporaryDirectory() as folder:
            file, example = Path(folder) / "model.onnx", module.inputs(7, 3)
            options = {"dynamic_shapes": module.shapes, "dynamo": True, "verbose": False}
            torch.onnx.export(module, example, file, **options)
            session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]
        for nodes in (4, 300):
            given = module.inputs(nodes)
            arrays = dict(zip(names, (x.numpy() for x in given), strict=False))
            (y,) = session.run(None, arrays)
            assert_close(torch.from_numpy(y), module(*given), **CLOSE)


def check_transformers():
    """Export models of transformers, and run them with longer texts."""
    from .language import build, inputs_of

    words = Dim("words", min=2, max=512)
    for kind in ("bert", "vit", "gpt2", "llama"):
        options = {} if kind == "vit" else {"use_cache": False}
        model = make(replace_attention(build(kind, **options)))
        inputs = inputs_of(kind)
        shapes = {k: {0: BATCH, 1: words} if x.ndim == 2 else {0: BATCH} for k, x in inputs.items()}
        program = export(model, (), inputs, dynamic_shapes=shapes).module()
        more = {k: torch.cat([x, x[:, :3]], 1) if x.ndim == 2 else x for k, x in inputs.items()}
        assert_close(program(**more)[0], model(**more)[0], **CLOSE)


CHECKS = {
    "layers": lambda: check_export(layers()),
    "networks": lambda: check_export(networks()),
    "layers-onnx": lambda: check_onnx(layers()),
    "networks-onnx": lambda: check_onnx(networks("itransformer", "fighter")),
    "transformers": check_transformers,
}

if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with torch.no_grad():
        CHECKS[sys.argv[1]]()
