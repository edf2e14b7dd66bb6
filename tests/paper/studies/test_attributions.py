from copy import deepcopy

import pytest
import torch

from fighter.data.windows import Batch
from fighter.errors import FighterError
from fighter.explain import trace_window
from fighter.models import ForecastNet, Task, build_core
from paper.studies.attributions import (
    forecast_parts,
    frozen_input,
    gradient_input,
    integrated_gradients,
    layer_graphs,
    over_inputs,
    rollout,
)

LOOKBACK, HORIZON, SERIES, WINDOWS = 12, 5, 3, 4
SMALL = {"width": 8, "heads": 2, "layers": 2, "dropout": 0.0}


def network(model="fighter", **options):
    torch.manual_seed(0)
    core = build_core(model, Task(LOOKBACK, HORIZON, SERIES), **options)
    net = ForecastNet(core, period=4 if core.trainable else None).double().eval()
    with torch.no_grad():
        net.cycle.profile.normal_()
    return net


def windows():
    past = torch.randn(WINDOWS, LOOKBACK, SERIES, dtype=torch.float64).cumsum(1)
    future = torch.zeros(WINDOWS, HORIZON, SERIES, dtype=torch.float64)
    return Batch(past, future, None, None, torch.arange(WINDOWS))


def parts(net, series=1, step=3):
    batch = windows()
    z, forecast = forecast_parts(net, batch, batch.start)
    return batch, z, forecast, lambda z: forecast(z)[:, step, series, 0]


NETS = {
    "series": {**SMALL, "adjacency": "cosine"},
    "time": {**SMALL, "nodes": "time", "adjacency": "dynamic"},
}


@pytest.mark.parametrize("kind", NETS)
def test_windows_are_explained_independently(kind):
    net = network(**NETS[kind])
    batch, z, _, target = parts(net)
    found = frozen_input(target, z)
    for i in range(WINDOWS):
        one = Batch(*(None if x is None else x[i : i + 1] for x in batch))
        alone = trace_window(net, one, one.start, 1, 3)
        torch.testing.assert_close(found[i], alone.sources.sum(0), rtol=1e-9, atol=1e-12)


def test_function_is_the_forecast_minus_the_mean():
    net = network(**NETS["series"])
    batch, z, forecast, _ = parts(net)
    mean = batch.past.mean(1)[:, None, :, None]
    torch.testing.assert_close(forecast(z) + mean, net(batch, batch.start))


@pytest.mark.parametrize("kind", NETS)
def test_integrated_gradients_are_complete_up_to_quadrature(kind):
    _, z, _, target = parts(network(**NETS[kind]))
    whole = (target(z) - target(torch.zeros_like(z))).detach()

    def miss(steps):
        return (integrated_gradients(target, z, steps).sum((1, 2)) - whole).abs().max()

    assert miss(64) < 0.02 * whole.abs().max()
    assert miss(64) < miss(4) < miss(1)  # the network is not linear


def test_methods_agree_on_a_linear_model():
    net = network("linear")
    _, z, _, target = parts(net)
    ours = frozen_input(target, z)
    torch.testing.assert_close(gradient_input(target, z), ours)
    torch.testing.assert_close(integrated_gradients(target, z, 3), ours)
    assert ours.any()
    first = deepcopy(z)
    first[:, 0] = 0
    torch.testing.assert_close(target(z) - target(first), ours[:, 0].sum(1))


def test_methods_differ_on_a_network_with_gelu():
    _, z, _, target = parts(network(**NETS["series"]))
    ours = frozen_input(target, z)
    assert (gradient_input(target, z) - ours).abs().max() > 1e-3 * ours.abs().max()


def test_rollout_multiplies_layers_and_skips():
    net = network(**NETS["time"])
    _, z, forecast, _ = parts(net)
    graphs = layer_graphs(net, lambda: forecast(z))
    before, after = graphs
    assert before.shape == (WINDOWS, LOOKBACK, LOOKBACK)
    eye = torch.eye(LOOKBACK, dtype=torch.float64)
    found = rollout(graphs)
    torch.testing.assert_close(found, (eye + before + after + after @ before) / 4)
    torch.testing.assert_close(found.sum(-1), torch.ones(WINDOWS, LOOKBACK, dtype=torch.float64))


def test_graphs_are_those_of_the_layers():
    net = network(**NETS["series"])
    batch, z, forecast, _ = parts(net)
    found = layer_graphs(net, lambda: forecast(z))
    inside = net.affine(z - net.cycles(batch, batch.start)[0])
    expected = net.core.encoder.graphs(net.core.node_features(inside, None))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other.mean(1))


@pytest.mark.parametrize("kind", NETS)
def test_values_of_a_node_share_its_weight(kind):
    net = network(**NETS[kind])
    _, z, forecast, _ = parts(net)
    graph = layer_graphs(net, lambda: forecast(z))[-1]
    found = over_inputs(graph, net, 1)
    assert found.shape == z.shape
    if kind == "series":
        torch.testing.assert_close(found.sum(1), graph[:, 1])
        torch.testing.assert_close(found[:, 0], found[:, -1])
    else:
        torch.testing.assert_close(found.sum(2), graph.mean(1))
        torch.testing.assert_close(found[..., 0], found[..., -1])


def test_patches_as_nodes_are_refused():
    net = network(**SMALL, nodes="patch", patch=4, stride=2, adjacency="cosine")
    with pytest.raises(FighterError) as error:
        over_inputs(torch.ones(1, 5, 5), net, 0)
    assert (error.value.argument, error.value.value) == ("nodes", "patch")
