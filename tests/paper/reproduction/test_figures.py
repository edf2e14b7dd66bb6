import sys

import numpy as np
import pytest
import torch

from fighter.errors import FighterError
from fighter.explain import diagnose, layer_edges
from fighter.nn import FighterLayer
from paper.reproduction import figures
from paper.reproduction.backward import measure

RANDOM = np.random.default_rng(0)


def graph(nodes=20):
    """Return a random row-stochastic graph."""
    weights = RANDOM.exponential(size=(nodes, nodes))
    return weights / weights.sum(1, keepdims=True)


def titles(figure, kind="left"):
    return [axes.get_title(loc=kind) for axes in figure.axes if axes.get_title(loc=kind)]


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG")


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_heat_maps_show_models_by_epochs_on_one_scale(tmp_path):
    epochs = (25, 50)
    snapshots = {name: {epoch: graph() for epoch in epochs} for name in ("Transformer", "κ=3")}
    snapshots["κ=1"] = dict.fromkeys(epochs, np.eye(20))
    figure = figures.heatmap_grid(snapshots, tmp_path / "h.png")
    assert is_png(tmp_path / "h.png")
    panels = [axes for axes in figure.axes if axes.images]
    assert titles(figure) == ["epoch 25", "epoch 50"]
    assert [axes.get_ylabel() for axes in panels[::2]] == ["Transformer", "κ=3", "κ=1"]
    assert len({axes.images[0].get_clim() for axes in panels}) == 1
    given = [array for row in snapshots.values() for array in row.values()]
    for axes, array in zip(panels, given, strict=True):
        assert np.array_equal(axes.images[0].get_array(), array)


def test_a_missing_snapshot_leaves_an_empty_panel(tmp_path):
    figure = figures.heatmap_grid(
        {"a": {1: graph(), 2: graph()}, "b": {2: graph()}}, tmp_path / "h.png"
    )
    visible = [axes.get_visible() for axes in figure.axes[:4]]
    assert visible == [True, True, False, True]


def test_hop_maps_show_powers_and_signed_edges(tmp_path):
    layer = FighterLayer(8, kappa=3)
    x = torch.randn(2, 20, 8)
    edges = layer_edges(layer, x, lambda y: y.sum((1, 2))).graph()[0].numpy()
    graphs = {"κ=2": {1: graph()}, "κ=3": {1: graph(), 2: graph()}}
    figure = figures.hop_grid(graphs, dict.fromkeys(graphs, edges), tmp_path / "h.png")
    assert is_png(tmp_path / "h.png")
    assert titles(figure) == ["A", "edges: what was sent", "A", "A²", "edges: what was sent"]
    signed = [axes.images[0] for axes in figure.axes if axes.get_title(loc="left")[:5] == "edges"]
    low, high = signed[0].get_clim()
    assert low == -high < 0
    assert np.abs(signed[0].get_array()).sum() == pytest.approx(1)


def test_diagnostics_show_means_over_heads(tmp_path):
    x = torch.randn(2, 20, 8)
    tables = {f"κ={k}": diagnose(FighterLayer(8, kappa=k, heads=2), x).table() for k in (1, 3)}
    figure = figures.diagnostics_figure(tables, tmp_path / "d.png")
    assert is_png(tmp_path / "d.png")
    line = figure.axes[4].lines[1]  # signed share, κ=3
    expected = [
        np.mean([row["signed_share"] for row in tables["κ=3"] if row["power"] == power])
        for power in range(3)
    ]
    assert line.get_ydata() == pytest.approx(expected)
    assert [label[:3] for label in legend(figure)] == ["κ=1", "κ=3"]


def test_the_backward_pass_is_drawn_from_a_measurement(tmp_path):
    values = torch.randn(60, 2)
    result = measure(values, lookback=8, horizon=4, steps=5, width=4, batch_size=3)
    figure = figures.backward_figure(result, tmp_path / "b.png")
    assert is_png(tmp_path / "b.png")
    lines = [[list(line.get_ydata()) for line in axes.lines] for axes in figure.axes]
    assert [len(drawn) for drawn in lines] == [2, 8, 2, 1, 2, 1]
    assert result["cosine"]["output"]["lag"] in lines[1]
    assert lines[2] == [result["update"]["sgd"], result["update"]["adamw"]]
    assert lines[5] == [result["loss"]]


def test_errors_over_kappa_are_drawn_with_their_deviation(tmp_path):
    errors = {1: [0.3, 0.4, 0.5], 2: [0.2, 0.2, 0.2], "Transformer": [0.25, 0.35]}
    figure = figures.kappa_figure({"MSE": errors, "MAE": errors}, tmp_path / "k.png")
    assert is_png(tmp_path / "k.png")
    assert titles(figure) == ["Test MSE", "Test MAE"]
    (bars,) = figure.axes[0].containers
    points, _, (spread,) = bars
    assert list(points.get_ydata()) == pytest.approx([0.4, 0.2])
    assert spread.get_segments()[0][:, 1] == pytest.approx([0.3, 0.5])  # sd of 0.3, 0.4, 0.5
    assert set(legend(figure)) == {"Fighter", "Transformer"}
    reference = [line for line in figure.axes[0].lines if line.get_label() == "Transformer"]
    assert reference[0].get_ydata()[0] == pytest.approx(0.3)


@pytest.mark.parametrize("seeds", [1, 3])
def test_learning_curves_show_means_over_seeds(seeds, tmp_path):
    curves = {
        name: {curve: RANDOM.random((seeds, 5)).tolist() for curve in ("accuracy", "loss")}
        for name in ("Transformer", "κ=2", "κ=8")
    }
    figure = figures.curves_figure(curves, tmp_path / "c.png")
    assert is_png(tmp_path / "c.png")
    assert legend(figure) == list(curves)
    line = figure.axes[1].lines[2]
    assert list(line.get_xdata()) == [1, 2, 3, 4, 5]
    assert line.get_ydata() == pytest.approx(np.mean(curves["κ=8"]["loss"], axis=0))


def test_an_empty_figure_is_refused(tmp_path):
    with pytest.raises(FighterError):
        figures.heatmap_grid({}, tmp_path / "h.png")


def test_curves_of_another_shape_are_refused(tmp_path):
    curves = {"κ=2": {"accuracy": [0.1, 0.2], "loss": [[1.0]]}}
    with pytest.raises(FighterError, match="accuracy of κ=2") as error:
        figures.curves_figure(curves, tmp_path / "c.png")
    assert error.value.argument == "curves"


def test_without_matplotlib_the_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(FighterError, match=r"pip install matplotlib"):
        figures.kappa_figure({"MSE": {1: [1.0]}}, tmp_path / "k.png")
