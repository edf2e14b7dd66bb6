import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Text

from fighter import FighterError
from fighter.explain import THRESHOLDS
from fighter.plotting.graphs import KINDS, MOST_ARCS, MOST_DISCS, MOST_DOTS
from fighter.plotting.theme import DARK, LIGHT, Theme, label, labels

from ..explain.graphs import NAMES, FixedDiagnostics, neutral_diagnostics, random_graph

SHAPES = {
    "one": {"series": 1},
    "ten": {"series": 10},
    "hundred": {"series": 100},
    "short": {"lookback": 2, "layers": 1},
    "long": {"lookback": 512, "series": 2},
    "integers": {"integer": True},
    "patch": {"nodes": "patch"},
    "time": {"nodes": "time", "lookback": 48},
    "attention": {"nodes": "time", "powers": (1,)},
    "κ=1": {"powers": (0,)},
    "deep": {"layers": 5, "powers": (0, 1, 2, 3)},
    "names": {"ids": NAMES},
    "hundred names": {"ids": tuple(f"{'long name ' * 5}{i}" for i in range(100))},
}

# Sources and arcs do not depend on what the nodes and powers of the layers are.
OF_LAYERS = {"patch", "time", "attention", "κ=1"}
LAYOUTS = [
    (kind, shape)
    for kind in KINDS
    for shape in SHAPES
    if kind not in ("sources", "arcs") or shape not in OF_LAYERS
]


def texts(figure) -> list[Text]:
    FigureCanvasAgg(figure).draw()
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]


def all_text(figure) -> str:
    return "\n".join(text.get_text() for text in texts(figure))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "shape"), LAYOUTS)
def test_nothing_is_cut_off_or_hidden(kind, shape):
    figure = random_graph(**SHAPES[shape]).plot(kind)
    FigureCanvasAgg(figure).draw()
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(drawn.x0, drawn.y0) > -0.03
    assert drawn.x1 < width + 0.03
    assert drawn.y1 < height + 0.03
    headline, *others = (text.get_window_extent() for text in figure.texts)
    others += [legend.get_window_extent() for legend in figure.legends]
    assert not any(headline.overlaps(other) for other in others)
    assert not any(a.overlaps(b) for i, a in enumerate(others) for b in others[:i])


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_is_light_dark_or_follows_the_style(kind):
    graph = random_graph()
    for dark, theme in ((False, LIGHT), (True, DARK)):
        figure = graph.plot(kind, dark=dark)
        assert to_hex(figure.get_facecolor()) == theme.ground
        colours = {to_hex(text.get_color()) for text in texts(figure) if text.get_text().strip()}
        assert colours == {theme.ink}
    assert to_hex(graph.plot(kind).get_facecolor()) == LIGHT.ground
    with style.context("dark_background"):
        figure = graph.plot(kind)
        assert to_hex(figure.get_facecolor()) == "#000000"
        assert {to_hex(text.get_color()) for text in texts(figure)} == {DARK.ink}
        assert to_hex(graph.plot(kind, dark=False).get_facecolor()) == LIGHT.ground


def test_a_transparent_ground_counts_as_light():
    with style.context({"figure.facecolor": "none"}):
        assert Theme.follow() == LIGHT


def test_a_file_keeps_the_ground_of_the_figure(tmp_path):
    from matplotlib.image import imread

    with style.context("dark_background"):
        random_graph().plot("lags", tmp_path / "new" / "lags.png", dark=False)
    assert imread(tmp_path / "new" / "lags.png")[0, 0].tolist() == [1, 1, 1, 1]


def test_sources_are_marked_by_sign_and_size():
    graph = random_graph(2)
    parts = graph.sources.sum(0)
    figure = graph.plot("sources")
    target = figure.axes[0]
    up, _, down, _ = target.collections  # each is followed by its entry in the legend
    assert "zone 1" in target.get_title(loc="left")
    series, least = parts[:, 1], np.sort(np.abs(parts), axis=None)[-MOST_DOTS]
    for dots, marked in ((up, series >= least), (down, series <= -least)):
        assert dots.get_offsets()[:, 1].tolist() == graph.past[marked, 1].tolist()
        order = np.argsort(np.abs(series[marked]))
        assert (np.diff(dots.get_sizes()[order]) > 0).all()
    (point,) = [line for line in target.lines if line.get_label() == "forecast"]
    assert point.get_ydata()[0] == graph.forecast
    assert point.get_xdata()[0] == np.datetime64(graph.time, "ns")


def test_a_history_without_observations_can_be_drawn():
    graph = random_graph(1)
    graph.past[:] = np.nan
    assert graph.plot("sources").axes[0].lines


@pytest.mark.parametrize("layers", [2, 8])
def test_bars_of_a_lag_add_up_to_its_part(layers):
    graph = random_graph(3, layers=layers)
    (axes,) = graph.plot("lags").axes
    expected = graph.sources.sum((0, 2))
    stacked = sum(np.array([bar.get_height() for bar in bars]) for bars in axes.containers)
    assert stacked == pytest.approx(expected)
    (net,) = [line for line in axes.lines if line.get_label() == "net"]
    assert net.get_ydata() == pytest.approx(expected)
    assert net.get_xdata()[[0, -1]].tolist() == [len(graph.times) + 2, 3]
    ends = [bar.get_y() + bar.get_height() for bars in axes.containers for bar in bars]
    assert max(ends) == pytest.approx(highest_stack(axes))


def highest_stack(axes) -> float:
    """Return the largest sum of the positive bars of a lag."""
    heights = np.array([[bar.get_height() for bar in bars] for bars in axes.containers])
    return float(heights.clip(min=0).sum(0).max())


def test_arcs_end_at_the_forecast():
    from matplotlib.dates import date2num

    graph = random_graph(3)
    (axes,) = graph.plot("arcs").axes
    arcs = axes.collections[0].get_segments()
    end = date2num(np.datetime64(graph.time, "ns"))
    parts = graph.sources.sum(0)
    assert len(arcs) == min(MOST_ARCS, parts.size)
    assert {round(arc[-1, 0] - end, 6) for arc in arcs} == {0}
    widest = arcs[int(np.argmax(axes.collections[0].get_linewidths()))]
    row, _ = np.unravel_index(np.abs(parts).argmax(), parts.shape)
    assert widest[0, 0] == pytest.approx(date2num(graph.times.astype("M8[ns]"))[row])
    rises = widest[:, 1].mean() > widest[0, 1]
    assert rises == (parts.flat[np.abs(parts).argmax()] > 0)


def test_arrows_show_what_series_sent_each_other():
    graph = random_graph(3)
    (axes,) = graph.plot("series").axes
    discs = [patch for patch in axes.patches if hasattr(patch, "radius")]
    arrows = [patch for patch in axes.patches if not hasattr(patch, "radius")]
    assert len(discs) == 3
    sent = sum(layer.parts.sum((0, 1)) for layer in graph.layers)
    np.fill_diagonal(sent, 0)
    assert len(arrows) == (np.abs(sent) > 0.01 * np.abs(sent).max()).sum()
    target = graph.sources[:, :, 1].sum()
    assert f"zone 1\n{target:+.3g}".replace("-", "−") in all_text(axes.figure)


def test_arrows_lead_only_to_the_target_if_nodes_are_not_series():
    graph = random_graph(4, nodes="patch")
    (axes,) = graph.plot("series").axes
    discs = [patch for patch in axes.patches if hasattr(patch, "radius")]
    arrows = [patch for patch in axes.patches if not hasattr(patch, "radius")]
    assert len(arrows) == 3
    assert {arrow.patchB for arrow in arrows} == {discs[0]}


def test_the_largest_of_many_series_are_named_and_the_others_added_up():
    graph = random_graph(100)
    figure = graph.plot("series")
    order = np.argsort(-np.abs(graph.sources).sum((0, 1)))
    order = [1, *(i for i in order if i != 1)]
    text = all_text(figure)
    for series in order[: MOST_DISCS - 1]:
        assert f"zone {series}\n" in text
    rest = graph.sources[:, :, order[MOST_DISCS - 1 :]].sum()
    assert f"{101 - MOST_DISCS} others together\n{rest:+.3g}".replace("-", "−") in text


def test_hops_show_the_mean_of_all_heads_or_one_head():
    graph = random_graph(4)
    for head, own in ((None, slice(None)), (1, slice(1, 2))):
        figure = graph.plot("hops", head=head)
        maps = [axes for axes in figure.axes if axes.images]
        first, second, edges = (axes.images[0].get_array() for axes in maps[:3])
        layer = graph.layers[0]
        assert np.asarray(first) == pytest.approx(layer.weights[own, 1].mean(0))
        assert np.asarray(second) == pytest.approx(layer.weights[own, 2].mean(0))
        parts = layer.parts[own].sum((0, 1))
        assert np.asarray(edges) == pytest.approx(parts / np.abs(parts).sum())


def test_diagnostics_show_lags_only_if_nodes_are_ordered():
    titles = [
        [axes.get_title(loc="left") for axes in random_graph(nodes=nodes).plot("diagnostics").axes]
        for nodes in ("series", "time", "patch")
    ]
    assert ["effective sources" in some for some in titles] == [True, False, False]
    assert ["mean lag, steps" in some for some in titles] == [False, True, False]
    assert ["mean lag, patches" in some for some in titles] == [False, False, True]


def test_diagnostics_show_a_dashed_line_at_their_thresholds():
    diagnostics = replace(neutral_diagnostics(), entropy=torch.full((2, 3), 0.9))
    graph = random_graph(layers=1)
    layer = replace(graph.layers[0], lazy_diagnostics=FixedDiagnostics(diagnostics))
    panels = replace(graph, layers=(layer,)).plot("diagnostics").axes
    dashed = {
        axes.get_title(loc="left").split(" (")[0]: line.get_ydata()[0]
        for axes in panels
        for line in axes.lines
        if line.get_linestyle() == "--"
    }
    assert dashed == {"entropy": THRESHOLDS["entropy"].value}


def test_sentences_stand_below_the_diagnostics():
    assert "Layer 1: There is only one node" in all_text(random_graph(1).plot("diagnostics"))


def test_names_are_shortened_to_one_line_and_stay_distinct():
    assert label("north") == "north"
    assert label("a\n b\tc") == "a b c"
    assert label("a$b$") == r"a\$b\$"
    assert label("abcdefghij", 6) == "ab…hij"
    names = [f"{'x' * 40}{i}{'y' * 10}" for i in (1, 2)]
    assert len(set(labels(names, 8))) == 2
    assert labels(["a", "a"], 1) == ["a", "a"]
    assert labels([], 4) == []


@pytest.mark.parametrize(
    ("settings", "argument", "message"),
    [
        ({"kind": "pie"}, "kind", "needs one of sources, lags"),
        ({"kind": "hops", "head": 2}, "head", "from 0 to 1"),
        ({"kind": "lags", "head": 0}, "head", "picture of hops"),
    ],
)
def test_errors_name_the_argument(settings, argument, message):
    with pytest.raises(FighterError, match=message) as error:
        random_graph().plot(**settings)
    assert error.value.argument == argument


@pytest.mark.parametrize("kind", ["hops", "diagnostics"])
def test_a_model_without_graphs_has_no_picture_of_hops(kind):
    with pytest.raises(FighterError, match="sources, lags, arcs, series") as error:
        replace(random_graph(), layers=()).plot(kind)
    assert error.value.argument == "kind"


def test_the_format_of_a_file_is_checked(tmp_path):
    with pytest.raises(FighterError, match=r"\.png"):
        random_graph().plot("lags", tmp_path / "lags.doc")


def test_a_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(FighterError, match="pip install matplotlib"):
        random_graph().plot()
