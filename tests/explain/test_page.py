"""The page holds the numbers of the graphs in little space, and no name can break it."""

import base64
import gzip
import json
import re
import sys
import weakref
from dataclasses import replace
from importlib.metadata import distribution

import numpy as np
import plotly.offline
import pytest

from fighter import FighterError
from fighter.explain.page import BUDGET, Outlook, Sizes, plotly_script, trim_plotly, write_page

from ..tables import tiny, waves

NASTY = "<img src=x onerror=alert(1)> \"q\" 'é' {{numbers}}"


def unpacked(path) -> tuple[dict, np.ndarray]:
    """Read the text and the numbers of a page."""
    packed = dict(re.findall(r'<script type="text/plain" id="(\w+)">([^<]*)<', path.read_text()))
    data = {name: gzip.decompress(base64.b64decode(code)) for name, code in packed.items()}
    assert data["plotly"].startswith(b"/**")
    assert b"Licensed under the MIT license" in data["plotly"][:300]
    text = json.loads(data["text"])
    return text, np.frombuffer(data["numbers"], "<i2").reshape(len(text["targets"]), -1)


def blocks(text: dict, row: np.ndarray, number: int):
    """Read the keys and parts of each block of a row, as page.html does."""
    sizes, scales, place = text["sizes"], text["targets"][number]["scales"], 0
    plan = [(sizes["sources"], 2, text["hops"], 0), (sizes["series"], 1, text["hops"], 1)]
    plan += [(sizes["bins"], 0, text["hops"], 2)]
    for i, (powers, heads) in enumerate(zip(text["powers"], text["heads"], strict=True)):
        plan.append((sizes["pairs"], 2, len(powers), 3 + i))
        plan += [(sizes["head_pairs"], 2, len(powers), 3 + i)] * heads
    for count, keys, hops, scale in plan:
        key = row[place : place + count * keys].reshape(keys, count)
        place += count * keys
        parts = row[place : place + count * hops].reshape(count, hops) * scales[scale]
        place += count * hops
        yield key, parts
    assert place == len(row)


@pytest.fixture(scope="module")
def model():
    return tiny(level=[80], layers=2, smoothing=False).fit(waves(90, ids=("a", NASTY, "c")))


def test_a_page_holds_the_numbers_of_its_graphs(model, tmp_path):
    targets = [("a", 1), (NASTY, 4), ("c", 6)]
    graphs = [model.explain(unique_id=name, step=step) for name, step in targets]
    write_page(graphs, tmp_path / "why.html")
    text, numbers = unpacked(tmp_path / "why.html")
    assert [(text["ids"][t["series"]], t["step"]) for t in text["targets"]] == targets
    for i, (graph, target) in enumerate(zip(graphs, text["targets"], strict=True)):
        total = sum(target["terms"].values()) + sum(target["net"])
        assert total == pytest.approx(graph.forecast, rel=1e-4)
        content = list(blocks(text, numbers[i], i))
        (row, series), parts = content[0]
        near = {"atol": 1e-4 * np.abs(graph.sources).max()}
        np.testing.assert_allclose(parts, graph.sources[:, row, series].T, **near)
        assert len({*zip(row, series, strict=True)}) == graph.past.size  # all fit
        (names,), sums = content[1]
        near = {"atol": 1e-4 * np.abs(sums).max()}
        np.testing.assert_allclose(sums, graph.sources.sum(1)[:, names].T, **near)
        near = {"atol": 1e-4 * np.abs(content[2][1]).max()}
        np.testing.assert_allclose(content[2][1], graph.sources.sum(2).T, **near)
        lists = iter(content[3:])
        for layer in graph.layers:
            near = {"atol": 1e-4 * np.abs(layer.parts.sum(0)).max() + 1e-4 * layer.parts.max()}
            for parts in (layer.parts.sum(0), *layer.parts):
                (to, source), stored = next(lists)
                np.testing.assert_allclose(stored, parts[:, to, source].T, **near)
        rows = slice(target["first"], target["first"] + text["lookback"])
        for own, past in zip(text["past"], graph.past.T, strict=True):
            np.testing.assert_allclose(own[rows], past, rtol=1e-5)


def test_names_and_titles_are_escaped(model, tmp_path):
    graph = model.explain(unique_id=NASTY)
    graph.save_html(tmp_path / "why.html")
    page = (tmp_path / "why.html").read_text()
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt; &quot;q&quot;" in page  # in the title
    assert "{{numbers}}" in page
    text, _ = unpacked(tmp_path / "why.html")
    assert text["ids"] == ["a", NASTY, "c"]
    assert text["about"].startswith("The parts add up")
    markup = re.sub(r'(<script type="text/plain".*?>).*?<', r"\1<", page)
    assert "http" not in markup  # nothing is fetched


def test_whole_forecasts_and_the_first_choice(model, tmp_path):
    graphs = [model.explain(unique_id="a", step=step) for step in (1, 2, 3)]
    look = Outlook(np.array([graph.time for graph in graphs]), np.array([1.0, 2, np.nan]))
    write_page(graphs, tmp_path / "why.html", outlooks={"a": look}, first=("a", 3), title="T")
    text, _ = unpacked(tmp_path / "why.html")
    assert text["start"] == 2
    assert text["outlooks"][0]["forecast"] == [1, 2, None]
    assert text["outlooks"][1:] == [None, None]


@pytest.mark.slow
def test_a_report_states_which_forecasts_it_explains(model, tmp_path):
    assert model.save_page(tmp_path / "a.html") == "Explained: all 6 steps of all 3 series."
    note = model.save_page(tmp_path / "b.html", most=7, first=(NASTY, 3))
    assert note == "Explained: 3 of 6 steps of all 3 series."
    text, _ = unpacked(tmp_path / "b.html")
    assert sorted({t["step"] for t in text["targets"]}) == [1, 3, 6]
    start = text["targets"][text["start"]]
    assert (text["ids"][start["series"]], start["step"]) == (NASTY, 3)
    forecasts = model.predict()
    for i, name in enumerate(text["ids"]):
        own = forecasts[forecasts.unique_id == name]
        look = text["outlooks"][i]
        assert look["forecast"] == pytest.approx(own["Fighter"], rel=1e-4)
        assert [band[0] for band in look["bands"]] == [80]
        assert look["bands"][0][2] == pytest.approx(own["Fighter-hi-80"], rel=1e-4)
    note = model.save_page(tmp_path / "c.html", most=2, first=("c", 1))
    assert note == "Explained: one of 6 steps of 2 of 3 series."


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_a_report_on_series_that_end_at_different_times(tmp_path):
    df = waves(90)
    short = df[(df.unique_id == "b") | (df.ds < df.ds.max() - np.timedelta64(5, "h"))]
    tiny(smoothing=False).fit(short).save_page(tmp_path / "why.html")
    tiny().fit(short).save_page(tmp_path / "mixed.html")
    text, _ = unpacked(tmp_path / "why.html")
    firsts = {text["ids"][t["series"]]: t["first"] for t in text["targets"]}
    assert firsts["b"] - firsts["a"] == 6
    assert len(text["times"]) == 12 + 6


def many(graph, series: int, steps: int, lookback: int):
    """Yield graphs of random numbers, which compress worst, for all series and steps."""
    rng, nodes = np.random.default_rng(0), tuple(f"zone {i}" for i in range(series))
    times = graph.freq.future(int(graph.times[-1]) - lookback * graph.freq.count, lookback)
    layer = graph.layers[0]
    parts = rng.normal(size=(*layer.parts.shape[:2], series, series))
    layers = (replace(layer, nodes=nodes, parts=parts, weights=parts),) * 2
    for name in nodes:
        for step in range(1, steps + 1):
            yield replace(
                graph,
                target=name,
                step=step,
                time=int(times[-1]) + step * graph.freq.count,
                ids=nodes,
                times=times,
                past=np.ones((lookback, series)),
                sources=rng.normal(size=(5, lookback, series)).astype(np.float32),
                layers=layers,
            )


@pytest.mark.slow
def test_a_page_of_many_forecasts_is_small_and_does_not_keep_the_graphs(model, tmp_path):
    graph, alive = model.explain(unique_id="a"), weakref.WeakSet()

    def watched():
        for one in many(graph, 20, 96, 336):
            alive.add(one)
            assert len(alive) <= 4  # the first one, which gives the names, and the latest
            yield one

    path = tmp_path / "why.html"
    write_page(watched(), path)
    assert path.stat().st_size < 8e6
    text, numbers = unpacked(path)
    assert BUDGET / 2 < numbers.nbytes <= BUDGET
    assert len(text["targets"]) == 20 * 96
    assert all(6 <= size < most for size, most in zip(text["sizes"].values(), Sizes(), strict=True))


def test_plotly_is_trimmed_and_left_whole_if_it_is_built_otherwise():
    script = plotly_script()
    assert re.search(r"\.register\(\[[\w$]+\(\)\]\)", script)  # bars alone
    assert script.startswith("/**\n* plotly.js v")  # its licence
    assert "function(root, factory)" not in script
    whole = plotly.offline.get_plotlyjs()
    for change in (
        ('name:"bar"', 'name:"box"'),  # another kind comes first
        (".register([", ".enlist(["),
        ("window.Plotly = Plotly;", ""),
    ):
        other = whole.replace(*change)
        assert other != whole
        assert trim_plotly(other) == other


def test_every_page_holds_the_licence_of_plotly_in_plain_text(model, tmp_path):
    model.explain(unique_id="a").save_html(tmp_path / "one.html")
    model.save_page(tmp_path / "all.html", most=4)
    (licence,) = (
        file.read_text()
        for file in distribution("plotly").files or ()
        if file.name.startswith("LICENSE")
    )
    permission = licence.partition("Permission is hereby granted")[2]
    for page in tmp_path.iterdir():
        assert "Plotly Technologies Inc." in page.read_text()
        assert " ".join(permission.split()) in " ".join(page.read_text().split())


def test_errors_leave_no_page(model, tmp_path, monkeypatch):
    path = tmp_path / "why.html"
    with pytest.raises(FighterError, match="there are no graphs"):
        write_page([], path)
    other = tiny().fit(waves(60))
    with pytest.raises(FighterError, match="graphs of a and b are of different models"):
        write_page([model.explain(unique_id="a"), other.explain(unique_id="b")], path)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(FighterError, match=r"pip install plotly"):
        model.explain(unique_id="a").save_html(path)
    assert not path.exists()
