"""The page in a real browser: its controls work, it logs nothing and requests nothing."""

import shutil

import numpy as np
import pandas as pd
import pytest

from fighter.explain.findings import describe_briefly
from fighter.explain.page import Outlook, write_page

from ..forecasting.small import small
from ..tables import tiny, waves
from .graphs import random_graph
from .networks import random_network
from .test_page import NASTY, many

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
]

GRID = ("north", "south", "east", "west", "coast", "valley")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-background-networking"]
        )
        yield made
        made.close()


@pytest.fixture
def look(browser):
    """Open pages; check at the end that they logged nothing and requested nothing."""
    messages, contexts = [], []

    def look(path, scheme="light"):
        contexts.append(
            browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
        )
        page = contexts[-1].new_page()
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        urls = {path.as_uri()}
        page.on("request", lambda r: r.url in urls or messages.append(r.url))
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-ready]", timeout=60_000)
        return page

    yield look
    for context in contexts:
        context.close()
    assert messages == []


@pytest.fixture(scope="module")
def grid():
    return tiny(level=[80, 95], layers=2, smoothing=False).fit(waves(90, ids=GRID))


@pytest.fixture(scope="module")
def report(grid, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "why.html"
    grid.save_page(path, first=("south", 2))
    return path


def drawn(page, picture: str, what: str):
    """Return the traces of a picture with this ``meta``."""
    find = "([id, what]) => document.getElementById(id).data.filter((t) => t.meta === what)"
    return page.evaluate(f"({find})(['{picture}', '{what}'])")


def marked(page) -> int:
    return sum(len(trace["x"]) for sign in ("up", "down") for trace in drawn(page, "history", sign))


def bars(page) -> list[float]:
    return drawn(page, "history", "bins")[0]["y"]


def rows(page, table: str) -> list[list[str]]:
    page.click(f"#table-{table} summary")
    page.wait_for_selector(f"#table-{table} tbody tr")
    read = "(lines) => lines.map((line) => [...line.cells].map((cell) => cell.textContent))"
    return page.eval_on_selector_all(f"#table-{table} tbody tr", read)


def test_the_page_opens_with_the_chosen_forecast(look, report, grid):
    page, graph = look(report), grid.explain(unique_id="south", step=2)
    assert page.input_value("#series") == "1"
    assert page.inner_text("#headline") == describe_briefly(graph)
    first, second = page.inner_text("#summary").split("\n")[::2]
    assert graph.summary().startswith(first)
    assert second.startswith(graph.summary().splitlines()[1])
    assert drawn(page, "history", "target")[0]["y"] == [pytest.approx(graph.forecast, rel=1e-4)]
    assert bars(page) == pytest.approx(graph.sources.sum((0, 2)), abs=1e-3)
    assert "what the forecast would be without a value" in page.inner_text("#about")
    assert [trace["meta"] for trace in drawn(page, "history", "80 %")]


def test_choosing_a_series_and_a_step(look, report, grid):
    page = look(report)
    page.select_option("#series", label="coast")
    page.locator("#step").fill("4")  # the fifth
    graph = grid.explain(unique_id="coast", step=5)
    assert page.inner_text("#summary").startswith("coast at")
    assert drawn(page, "history", "target")[0]["y"] == [pytest.approx(graph.forecast, rel=1e-4)]
    assert bars(page) == pytest.approx(graph.sources.sum((0, 2)), abs=1e-3)
    assert page.inner_text("#step-name").startswith("5 ")


def test_choosing_hops_and_a_threshold(look, report, grid):
    page, graph = look(report), grid.explain(unique_id="south", step=2)
    page.select_option("#hop", "2")
    assert bars(page) == pytest.approx(graph.sources[2].sum(1), abs=1e-3)
    page.select_option("#hop", "all")
    counts = []
    for least in ("0", "20", "90"):
        page.locator("#threshold").fill(least)
        counts.append(marked(page))
        size = np.abs(graph.sources.sum(0))
        assert f"{(size >= int(least) / 100 * size.max() - 1e-9).sum()} source" in page.inner_text(
            "#shown"
        )
    assert counts[0] > counts[1] > counts[2] >= 1


def test_a_click_on_a_forecast_selects_it(look, report):
    page = look(report)
    place = page.evaluate(
        """() => {
          const plot = document.getElementById("history"), box = plot.getBoundingClientRect();
          const line = plot.data.find((t) => t.meta === "forecast"), axes = plot._fullLayout;
          return [box.x + axes.xaxis._offset + axes.xaxis.d2p(line.x[4]),
                  box.y + axes.yaxis._offset + axes.yaxis.d2p(line.y[4])];
        }"""
    )
    page.mouse.move(*place)
    page.mouse.click(*place)
    page.wait_for_function("document.getElementById('step-name').textContent.startsWith('5 ')")


def test_choosing_layer_head_and_hop_of_the_graph(look, report, grid):
    page, graph = look(report), grid.explain(unique_id="south", step=2)
    page.locator("#threshold").fill("0")

    def check(parts: np.ndarray) -> None:
        """Check that the strongest edges between two nodes are drawn, with their numbers."""
        texts = drawn(page, "graph", "links")[0]["text"]
        shown = [float(text.split("part ")[1].replace("−", "-")) for text in texts]
        between = parts[~np.eye(len(GRID), dtype=bool)]
        largest, expected = (sorted(x, key=abs, reverse=True)[:4] for x in (shown, between))
        assert largest == pytest.approx(expected, rel=0.01)

    check(graph.layers[0].parts.sum((0, 1)))
    page.select_option("#head", "1")
    check(graph.layers[0].parts[1].sum(0))
    page.select_option("#power", "2")
    check(graph.layers[0].parts[1, 2])
    assert page.inner_text("#diagnostics th").startswith("power, head 2")
    page.select_option("#layer", "1")
    assert page.input_value("#head") == "all"
    check(graph.layers[1].parts[:, 2].sum(0))  # the hop stays chosen
    page.select_option("#power", "all")
    check(graph.layers[1].parts.sum((0, 1)))
    gap = float(graph.layers[1].diagnostics.spectral_gap.mean())
    assert float(page.inner_text("#diagnostics td:nth-child(2)")) == pytest.approx(gap, rel=1e-3)


def test_the_tables_hold_the_numbers_of_the_pictures(look, report, grid):
    page, graph = look(report), grid.explain(unique_id="south", step=2)
    table = rows(page, "sources")
    assert len(table) == np.count_nonzero(graph.sources.any(0))
    gross = np.abs(graph.sources).sum(0)
    row, series = np.unravel_index(gross.argmax(), gross.shape)
    assert table[0][0] == GRID[series]
    assert int(table[0][2]) == len(graph.times) - row + 1
    part = float(table[0][4].replace("−", "-"))
    assert part == pytest.approx(graph.sources[:, row, series].sum(), rel=1e-3)
    terms = {name: float(value.replace("−", "-")) for name, value in rows(page, "terms")}
    assert terms.pop("forecast") == pytest.approx(sum(terms.values()), rel=1e-3)
    assert terms["level"] == pytest.approx(graph.terms["level"], rel=1e-3)
    assert len(rows(page, "series")) == 6
    assert len(rows(page, "times")) == 12
    assert [len(row) for row in rows(page, "forecast")] == [7] * 6
    assert rows(page, "layer")
    page.select_option("#series", label="east")  # open tables are updated
    assert page.inner_text("#table-sources td") in GRID


def test_the_page_follows_the_colour_scheme_of_the_reader(look, report):
    page = look(report, "dark")
    paper = "document.getElementById('history').layout.paper_bgcolor"
    dark = page.evaluate(paper)
    page.emulate_media(color_scheme="light")
    page.wait_for_function(f"{paper} !== '{dark}'")
    assert (dark, page.evaluate(paper)) == ("#1e2126", "#ffffff")


KINDS = {
    "one series": ({}, {"ids": ("only",)}),
    "names": ({}, {"ids": (NASTY, "<b>b</b>", "x" * 200)}),
    "patches": ({"nodes": "patch", "adjacency": "cosine"}, {}),
    "time": ({"nodes": "time", "adjacency": "dynamic"}, {}),
    "transformer": ({"model": "transformer"}, {}),
    "linear": ({"model": "linear"}, {}),
    "months": ({}, {"freq": "MS"}),
}


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
@pytest.mark.parametrize("kind", [*KINDS, "integers", "holes"])
def test_pages_of_every_kind_of_model_and_table(look, tmp_path, kind):
    settings, table = KINDS.get(kind, ({}, {}))
    df = waves(90, **table)
    if kind == "integers":
        df["ds"] = df.groupby("unique_id").cumcount()
    if kind == "holes":
        df.loc[df.index[80:85], "y"] = np.nan
    model = small(**{"model": "fighter", "smoothing": False, **settings}).fit(df)
    model.save_page(tmp_path / "why.html", most=4)
    page = look(tmp_path / "why.html")
    assert page.inner_text("#summary").startswith(str(model.fitted.context.ids[0]).split()[0])
    assert marked(page) > 0
    assert page.locator("#history .bars .point").count() == len(bars(page))  # drawn as bars
    assert page.locator("#layer-card").is_visible() == (kind != "linear")
    assert page.locator("img").count() == 0  # names are escaped
    model.explain(unique_id=model.fitted.context.ids[0], step=2).save_html(tmp_path / "one.html")
    page = look(tmp_path / "one.html")
    assert page.is_disabled("#series")
    assert page.is_disabled("#step")


def test_a_page_of_1920_forecasts_opens_in_two_seconds(browser, grid, tmp_path):
    path = tmp_path / "why.html"
    write_page(many(grid.explain(unique_id="south"), 20, 96, 336), path)
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    meter = page.context.new_cdp_session(page)
    meter.send(
        "Performance.enable", {"timeDomain": "threadTicks"}
    )  # CPU time: the machine may be busy
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready]", timeout=60_000)
    metrics = {m["name"]: m["value"] for m in meter.send("Performance.getMetrics")["metrics"]}
    page.close()
    # It takes 0.7 to 0.9 s, of which plotly takes 0.2; untrimmed, plotly would take 1.2.
    assert metrics["TaskDuration"] < 2


@pytest.mark.parametrize("series", [6, 60])
def test_a_page_of_a_network_works_in_a_browser(look, tmp_path, series):
    network = random_network(series, ids=(NASTY, *range(1, series)))
    network.save_html(tmp_path / "net.html", title="<b>Nets</b>")
    page = look(tmp_path / "net.html")
    assert page.title() == "<b>Nets</b>"
    stable = int((network.stability >= 0.5).sum())
    assert page.locator("#picture [data-link]").count() == stable
    assert page.locator("#table tbody tr").count() == stable
    page.locator("#picture [data-link]").first.focus()
    assert "follows" in page.locator("#hint").inner_text()
    page.locator("#stability").fill("0")
    assert page.locator("#table tbody tr").count() > stable
    with page.expect_download() as saved:
        page.locator("#save").click()
    assert saved.value.suggested_filename == "network.csv"
    page.locator("#series").select_option("0")
    rows = page.locator("#table tbody tr")
    assert 0 < rows.count() <= 2 * (series - 1)


def test_a_page_of_a_network_with_long_names_fits_on_paper(look, tmp_path):
    names = tuple(
        f"store {i} of the north-eastern region / department of " + "x" * i for i in range(6)
    )
    random_network(6, ids=names).save_html(tmp_path / "net.html")
    page = look(tmp_path / "net.html")
    page.set_viewport_size({"width": 700, "height": 900})
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    assert not page.locator("#hint").is_visible()


def test_both_hop_controls_follow_each_other(look, report, grid):
    page, graph = look(report), grid.explain(unique_id="south", step=2)
    page.select_option("#hop", "1")
    assert page.input_value("#power") == "1"
    page.select_option("#layer", "1")  # the hop stays chosen
    assert page.input_value("#power") == "1"
    page.select_option("#power", "2")
    assert page.input_value("#hop") == "2"
    assert bars(page) == pytest.approx(graph.sources[2].sum(1), abs=1e-3)
    page.select_option("#hop", "3")  # no layer has such a power
    assert page.input_value("#power") == "all"
    page.select_option("#power", "all")
    assert page.input_value("#hop") == "all"


def test_numbers_are_downloaded_as_csv(look, report, grid):
    page, graph = look(report), grid.explain(unique_id="south", step=2)
    page.click("#table-sources summary")
    with page.expect_download() as waiting:
        page.click("#table-sources .csv")
    table = pd.read_csv(waiting.value.path())
    assert waiting.value.suggested_filename == "sources.csv"
    assert len(table) == np.count_nonzero(graph.sources.any(0))
    assert table.part.sum() == pytest.approx(graph.sources.sum(), abs=1e-3)
    with page.expect_download() as waiting:
        page.click("#diagnostics .csv")
    assert "likeness" in pd.read_csv(waiting.value.path()).columns


def test_a_table_in_a_spreadsheet_runs_nothing(look, tmp_path):
    write_page([random_graph(2, ids=("=1+1", 'a,"b"'))], tmp_path / "why.html")
    page = look(tmp_path / "why.html")
    page.click("#table-series summary")
    with page.expect_download() as waiting:
        page.click("#table-series .csv")
    assert sorted(pd.read_csv(waiting.value.path()).series) == ["'=1+1", 'a,"b"']


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_stand_out(look, report, scheme):
    """Contrasts as WCAG defines them: at least 4.5."""
    page = look(report, scheme)
    style = "getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()"
    names = ("page", "card", "ink", "quiet", "other", "forecast", "up", "down")
    colours = {name: page.evaluate(f"(name) => {style}", name) for name in names}

    def brightness(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for name in names[2:]:
        for ground in ("page", "card"):
            dark, light = sorted(brightness(colours[one]) for one in (name, ground))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, ground)


def test_pictures_fit_on_paper_and_are_light(look, report):
    page = look(report, "dark")
    page.emulate_media(media="print", color_scheme="dark")
    paper = "document.getElementById('history').layout"
    page.wait_for_function(f"{paper}.paper_bgcolor === '#ffffff'")
    for picture in ("history", "sum", "graph"):
        assert page.evaluate(f"document.getElementById('{picture}').layout.width") <= 700
    assert not page.locator("#choose").is_visible()
    assert page.locator("#glossary dl").is_visible()
    page.emulate_media(media="screen", color_scheme="dark")
    page.wait_for_function(f"{paper}.paper_bgcolor === '#1e2126'")
    assert not page.locator("#glossary dl").is_visible()
    assert page.locator("#choose").is_visible()


def test_intervals_do_not_squash_the_history(look, grid, tmp_path):
    panel = grid.fitted.context
    path = tmp_path / "why.html"
    forecast = grid.forecast()
    wide = forecast.point[:, 0] - 1e4, forecast.point[:, 0] + 1e4
    times = forecast.times[:, 0]
    outlook = Outlook(times, forecast.point[:, 0], {80.0: wide})
    write_page([grid.explain(unique_id="north")], path, outlooks={"north": outlook})
    low, high = look(path).evaluate("document.getElementById('history').layout.yaxis.range")
    seen = np.concatenate([panel.values[-12:, 0], forecast.point[:, 0]])
    assert low < seen.min()
    assert seen.max() < high
    assert high - low < 3 * np.ptp(seen)


def test_long_names_do_not_break_tables(look, tmp_path):
    names = tuple(f"{letter}" * 200 for letter in "abc")
    write_page([random_graph(3, ids=names)], tmp_path / "why.html")
    page = look(tmp_path / "why.html")
    page.set_viewport_size({"width": 420, "height": 800})
    page.click("#table-series summary")
    cell = page.locator("#table-series td").first
    assert cell.bounding_box()["width"] < 260
    assert cell.get_attribute("title") in names
    page.wait_for_function("document.documentElement.scrollWidth <= 420")  # pictures follow


def test_names_that_differ_at_their_ends_can_be_told_apart(look, tmp_path):
    names = tuple(f"store of the north-eastern region {i}" for i in range(4))
    write_page([random_graph(4, ids=names)], tmp_path / "why.html")
    page = look(tmp_path / "why.html")
    layout = "document.getElementById('graph').layout.annotations.map((note) => note.text)"
    shown = [text for text in page.evaluate(layout) if "…" in text]
    assert len(shown) == len(set(shown)) == 4


def test_a_graph_of_a_hundred_series_is_two_columns(look, tmp_path):
    graph = random_graph(100, 24, ids=tuple(f"meter {i}" for i in range(100)))
    write_page([graph], tmp_path / "why.html")
    page = look(tmp_path / "why.html")
    (nodes,) = drawn(page, "graph", "nodes")
    assert set(nodes["x"]) == {-1, 1}
    (links,) = drawn(page, "graph", "links")
    assert 1 <= len(links["x"]) <= 20
    places = list(zip(nodes["x"], nodes["y"], strict=True))
    assert len(set(places)) == len(places)  # no two names on each other
    heights = sorted(y for x, y in places if x == -1)
    picture = page.evaluate("document.getElementById('graph').layout.height")
    if len(heights) > 1:
        assert min(np.diff(heights)) * picture / 2.2 > 12  # pixels


def test_hints_are_reached_by_keyboard(look, report):
    page = look(report)
    page.focus("#diagnostics .hint")
    page.keyboard.press("Enter")
    assert page.inner_text("#meaning").startswith("spectral gap: ")


def test_series_without_a_part_are_no_source(look, tmp_path):
    model = small("dlinear", smoothing=False, lookback=24).fit(waves(90, ids=GRID))
    model.save_page(tmp_path / "why.html", most=2)
    page = look(tmp_path / "why.html")
    assert [name for name, _ in rows(page, "terms")][-2:] == ["its own past", "forecast"]
    assert "hop 0" not in page.inner_text("#table-terms")
    page.click("#table-sources summary")
    assert "hop 0" not in page.inner_text("#table-sources")
