import sys
from dataclasses import replace

import numpy as np
import pytest
from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Text

from fighter import FighterError
from fighter.plotting.graphs import KINDS, MOST_ARCS, MOST_DISCS, MOST_DOTS
from fighter.plotting.theme import DARK, LIGHT, Theme, label, labels

from ..explain.graphs import NAMES, made_up

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


def texts(figure) -> list[Text]:
    FigureCanvasAgg(figure).draw()
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]


def words(figure) -> str:
    return "\n".join(text.get_text() for text in texts(figure))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_cut_off_or_hidden(kind, shape):
    figure = made_up(**SHAPES[shape]).plot(kind)
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
def test_light_dark_and_as_the_style_is(kind):
    graph = made_up()
    for dark, look in ((False, LIGHT), (True, DARK)):
        figure = graph.plot(kind, dark=dark)
        assert to_hex(figure.get_facecolor()) == look.ground
        colours = {to_hex(text.get_color()) for text in texts(figure) if text.get_text().strip()}
        assert colours == {look.ink}
    assert to_hex(graph.plot(kind).get_facecolor()) == LIGHT.ground
    with style.context("dark_background"):
        figure = graph.plot(kind)
        assert to_hex(figure.get_facecolor()) == "#000000"
        assert {to_hex(text.get_color()) for text in texts(figure)} == {DARK.ink}
        assert to_hex(graph.plot(kind, dark=False).get_facecolor()) == LIGHT.ground


def test_a_clear_ground_is_light():
    with style.context({"figure.facecolor": "none"}):
        assert Theme.follow() == LIGHT


def test_a_file_has_the_ground_of_the_figure(tmp_path):
    from matplotlib.image import imread

    with style.context("dark_background"):
        made_up().plot("lags", tmp_path / "new" / "lags.png", dark=False)
    assert imread(tmp_path / "new" / "lags.png")[0, 0].tolist() == [1, 1, 1, 1]


def test_sources_light_up_by_sign_and_size():
    graph = made_up(2)
    parts = graph.sources.sum(0)
    figure = graph.plot("sources")
    target = figure.axes[0]
    up, _, down, _ = target.collections  # each is followed by its mark in the legend
    assert "zone 1" in target.get_title(loc="left")
    series, limit = parts[:, 1], np.sort(np.abs(parts), axis=None)[-MOST_DOTS]
    for dots, lit in ((up, series >= limit), (down, series <= -limit)):
        assert dots.get_offsets()[:, 1].tolist() == graph.past[lit, 1].tolist()
        order = np.argsort(np.abs(series[lit]))
        assert (np.diff(dots.get_sizes()[order]) > 0).all()
    (point,) = [line for line in target.lines if line.get_label() == "forecast"]
    assert point.get_ydata()[0] == graph.forecast
    assert point.get_xdata()[0] == np.datetime64(graph.time, "ns")


def test_holes_are_left_out():
    graph = made_up(1)
    graph.past[:] = np.nan
    assert graph.plot("sources").axes[0].lines


@pytest.mark.parametrize("layers", [2, 8])
def test_lag_profile_adds_up(layers):
    graph = made_up(3, layers=layers)
    (axes,) = graph.plot("lags").axes
    expected = graph.sources.sum((0, 2))
    stacked = sum(np.array([bar.get_height() for bar in bars]) for bars in axes.containers)
    assert stacked == pytest.approx(expected)
    (net,) = [line for line in axes.lines if line.get_label() == "net"]
    assert net.get_ydata() == pytest.approx(expected)
    assert net.get_xdata()[[0, -1]].tolist() == [len(graph.times) + 2, 3]
    ends = [bar.get_y() + bar.get_height() for bars in axes.containers for bar in bars]
    assert max(ends) == pytest.approx(graph_top(graph, axes))


def graph_top(graph, axes) -> float:
    """The highest stack: what is positive at a lag, hop by hop, as hops are put together."""
    heights = np.array([[bar.get_height() for bar in bars] for bars in axes.containers])
    return float(heights.clip(min=0).sum(0).max())


def test_arcs_end_at_the_forecast():
    from matplotlib.dates import date2num

    graph = made_up(3)
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


def test_series_tell_each_other_what_the_layers_sent():
    graph = made_up(3)
    (axes,) = graph.plot("series").axes
    discs = [patch for patch in axes.patches if hasattr(patch, "radius")]
    arrows = [patch for patch in axes.patches if not hasattr(patch, "radius")]
    assert len(discs) == 3
    sent = sum(layer.parts.sum((0, 1)) for layer in graph.layers)
    np.fill_diagonal(sent, 0)
    assert len(arrows) == (np.abs(sent) > 0.01 * np.abs(sent).max()).sum()
    target = graph.sources[:, :, 1].sum()
    assert f"zone 1\n{target:+.3g}".replace("-", "−") in words(axes.figure)


def test_where_nodes_are_no_series_arrows_lead_to_the_target_alone():
    graph = made_up(4, nodes="patch")
    (axes,) = graph.plot("series").axes
    discs = [patch for patch in axes.patches if hasattr(patch, "radius")]
    arrows = [patch for patch in axes.patches if not hasattr(patch, "radius")]
    assert len(arrows) == 3
    assert {arrow.patchB for arrow in arrows} == {discs[0]}


def test_of_many_series_the_strongest_are_named_and_the_rest_added_up():
    graph = made_up(100)
    figure = graph.plot("series")
    order = np.argsort(-np.abs(graph.sources).sum((0, 1)))
    order = [1, *(i for i in order if i != 1)]
    text = words(figure)
    for series in order[: MOST_DISCS - 1]:
        assert f"zone {series}\n" in text
    rest = graph.sources[:, :, order[MOST_DISCS - 1 :]].sum()
    assert f"{101 - MOST_DISCS} others together\n{rest:+.3g}".replace("-", "−") in text


def test_hops_are_the_mean_of_heads_or_one():
    graph = made_up(4)
    for head, own in ((None, slice(None)), (1, slice(1, 2))):
        figure = graph.plot("hops", head=head)
        maps = [axes for axes in figure.axes if axes.images]
        first, second, edges = (axes.images[0].get_array() for axes in maps[:3])
        layer = graph.layers[0]
        assert np.asarray(first) == pytest.approx(layer.weights[own, 1].mean(0))
        assert np.asarray(second) == pytest.approx(layer.weights[own, 2].mean(0))
        parts = layer.parts[own].sum((0, 1))
        assert np.asarray(edges) == pytest.approx(parts / np.abs(parts).sum())


def test_diagnostics_speak_of_lags_only_where_there_are():
    titles = [
        [axes.get_title(loc="left") for axes in made_up(nodes=nodes).plot("diagnostics").axes]
        for nodes in ("series", "time", "patch")
    ]
    assert ["effective sources" in some for some in titles] == [True, False, False]
    assert ["mean lag, steps" in some for some in titles] == [False, True, False]
    assert ["mean lag, patches" in some for some in titles] == [False, False, True]


def test_readings_stand_below_the_diagnostics():
    assert "Layer 1: There is one node" in words(made_up(1).plot("diagnostics"))


def test_names_are_short_one_line_and_told_apart():
    assert label("north") == "north"
    assert label("a\n b\tc") == "a b c"
    assert label("a$b$") == r"a\$b\$"
    assert label("abcdefghij", 6) == "ab…hij"
    names = [f"{'x' * 40}{i}{'y' * 10}" for i in (1, 2)]
    assert len(set(labels(names, 8))) == 2
    assert labels(["a", "a"], 1) == ["a", "a"]
    assert labels([], 4) == []


def test_misuse_is_explained(tmp_path, monkeypatch):
    graph = made_up()
    with pytest.raises(FighterError, match="kind='pie': needs one of sources, lags"):
        graph.plot("pie")
    with pytest.raises(FighterError, match="head=2: needs a whole number from 0 to 1"):
        graph.plot("hops", head=2)
    with pytest.raises(FighterError, match="head=0: only kind='hops'"):
        graph.plot("lags", head=0)
    with pytest.raises(FighterError, match=r"must end in \.png"):
        graph.plot("lags", tmp_path / "lags.doc")
    bare = replace(graph, layers=())
    for kind in ("hops", "diagnostics"):
        with pytest.raises(FighterError, match="no layer with a graph"):
            bare.plot(kind)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(FighterError, match=r"fighter\[plot\]"):
        graph.plot()
