"""The page in a real browser: its controls work, it logs nothing and requests nothing."""

import shutil

import numpy as np
import pytest

from fighter.explain.page import write_page

from ..forecasting.small import small
from ..tables import tiny, waves
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
    assert page.inner_text("#diagnostics th").startswith("hop of head 2")
    page.select_option("#layer", "1")
    assert page.input_value("#head") == "all"
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
