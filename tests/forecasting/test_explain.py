"""Forecasts as graphs: exact, in the names and units of the table."""

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest

from fighter import FighterError

from ..tables import CONVERT, tail, waves
from ..tables import tiny as any_tiny
from .test_covariates import cut, driven

MODELS = {
    **{
        f"fighter-{nodes}-{adjacency}": {"nodes": nodes, "adjacency": adjacency}
        for nodes, adjacency in [
            ("series", "lazy"), ("series", "static"), ("series", "cosine"), ("series", "mixed"),
            ("patch", "cosine"), ("time", "dynamic"),
        ]
    },
    "fighter-long-cycle": {"cycle": 30, "lookback": 24},
    "transformer": {"model": "transformer"},
    "patchtst": {"model": "patchtst"},
    **{name: {"model": name} for name in ("itransformer", "informer", "autoformer", "reformer")},
}  # fmt: skip


def tiny(*sizes, **settings):
    """Return a forecaster of a network alone; test_blend explains the mixed ones."""
    return any_tiny(*sizes, **{"smoothing": False, **settings})


def predicted(model, unique_id, step, **more) -> float:
    table = model.predict(**more)
    return table[table.unique_id == unique_id][model.plan.model.column].iloc[step - 1]


def check(graph, value: float, cycle_before_norm: bool = False) -> None:
    """Check that the graph belongs to the forecast and adds up to it."""
    assert graph.forecast == pytest.approx(value, rel=1e-5)
    total = sum(graph.terms.values()) + graph.sources.sum()
    assert total == pytest.approx(graph.forecast, rel=1e-10)
    # A cycle that is removed before normalising is added after all layers.
    for layer in () if cycle_before_norm else graph.layers:
        own = {name: value for name, value in graph.terms.items() if name in ("cycle", "bias")}
        inside = sum(own.values()) + graph.sources.sum()
        assert layer.parts.sum() + layer.rest == pytest.approx(inside, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_adds_up_to_its_forecast(name):
    model = tiny(level=[80], **MODELS[name]).fit(waves(90, ids=("a", "b", "c")))
    assert model.fitted.network.cycle_before_norm == ("long" in name)
    graph = model.explain(unique_id="b", step=3)
    check(graph, predicted(model, "b", 3), model.fitted.network.cycle_before_norm)
    assert bool(graph.layers) == (name not in ("informer", "autoformer", "reformer"))


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_missing_values_have_no_part():
    df = waves(90)
    df.loc[df.index[80:85], "y"] = np.nan  # within the last look-back of a
    model = tiny().fit(df)
    graph = model.explain(unique_id="a", step=1)
    check(graph, predicted(model, "a", 1))
    hidden = np.isnan(graph.past)
    assert hidden.any()
    assert not graph.sources[:, hidden].any()
    assert graph.sources.sum(0)[~hidden].all()


def test_covariates_have_their_own_term():
    history, ahead = cut(driven(120), 6)
    model = tiny(future=["switch"], max_epochs=4, cycle=None).fit(history)
    future = ahead.drop(columns="y")
    graph = model.explain(unique_id="b", step=2, future=future)
    check(graph, predicted(model, "b", 2, future=future))
    assert graph.terms["effect of switch"] != 0
    assert "covariates" in graph.terms
    assert "cycle" not in graph.terms


@pytest.mark.filterwarnings("ignore::fighter.errors.DataWarning")
def test_later_tables_and_early_ends_are_explained():
    df = waves(120)
    short = df[(df.unique_id == "b") | (df.ds < df.ds.max() - pd.Timedelta(hours=5))]
    model = tiny().fit(tail(df, 20))
    graph = model.explain(short, unique_id="a", step=6)
    check(graph, predicted(model, "a", 6, df=short))
    assert pd.Timestamp(graph.time) == short[short.unique_id == "a"].ds.max() + pd.Timedelta("6h")


@pytest.mark.parametrize("backend", CONVERT)
def test_edges_come_as_the_type_of_table_that_was_given(backend):
    model = tiny().fit(CONVERT[backend](waves(90)))
    graph = model.explain(unique_id="a", step=2)
    table = graph.edges()
    assert type(table) is type(CONVERT[backend](waves(5)))
    rows = pl.DataFrame(table) if backend != "pandas" else pl.from_pandas(table)
    assert rows.columns == ["source", "time", "lag", "target", "step", "hop", "part", "share"]
    assert rows["part"].sum() == pytest.approx(graph.sources.sum(), rel=1e-9)
    assert rows["share"].abs().sum() == pytest.approx(1)
    assert rows["part"].abs().is_sorted(descending=True)
    first = rows.row(0, named=True)
    place = list(graph.times.astype("datetime64[ns]")).index(np.datetime64(first["time"]))
    series = graph.ids.index(first["source"])
    assert graph.sources[first["hop"], place, series] == first["part"]
    assert first["lag"] == len(graph.times) - place + 1  # to the second step ahead


def test_top_keeps_the_largest_parts():
    graph = tiny().fit(waves(90)).explain(unique_id="a")
    table, top = graph.edges(), graph.edges(top=7)
    pd.testing.assert_frame_equal(top, table.head(7))
    edges = graph.layer_edges(top=4)
    assert list(edges.columns) == ["head", "hop", "source", "target", "weight", "part", "share"]
    assert len(edges) == 4
    assert set(graph.layer_edges().target) == {"a"}  # the last layer: only what reaches the target


def test_the_graph_converts_to_networkx():
    graph = tiny().fit(waves(90)).explain(unique_id="a", step=3)
    made = graph.to_networkx(top=10)
    assert isinstance(made, nx.MultiDiGraph)
    assert made.number_of_edges() == 10
    assert made.in_degree(("a", -3)) == 10
    parts = sorted((abs(d["part"]) for *_, d in made.edges(data=True)), reverse=True)
    assert parts == pytest.approx(graph.edges(top=10).part.abs().tolist())


def test_the_summary_names_the_largest_part_and_its_time():
    model = tiny().fit(waves(90, ids=("north", "south")))
    graph = model.explain(unique_id="south", step=2)
    text = graph.summary()
    row, series = np.unravel_index(np.abs(graph.sources).sum(0).argmax(), graph.past.shape)
    own = graph.ids[series] == "south"
    who = "its own value" if own else f"the value of {graph.ids[series]}"
    lag = len(graph.times) - row + 1
    assert f" % of all parts comes from {who}, {graph.freq.span(int(lag))} before" in text
    assert "south at 2024-01-04 19:00 (step 2)" in text
    assert "what the forecast would be without a value" in text


def test_hops_are_named_only_where_they_are_counted():
    def hops(*, ids=("a", "b"), **settings):
        text = any_tiny(**settings).fit(waves(90, ids=ids)).explain(unique_id="a").summary()
        return "by number of hops" in text, "over" in text

    alone = {"smoothing": False}
    assert hops(**alone)[0]
    assert hops(**alone, ids=("a",)) == (False, False)  # one node
    assert hops(model="informer", **alone) == (False, False)  # its layers are not known


def test_errors_name_the_wrong_argument():
    model = tiny().fit(waves(60))
    graph = model.explain(unique_id="a")
    for question, argument, value in (
        (lambda: model.explain(unique_id="c"), "unique_id", "c"),
        (lambda: model.explain(), "unique_id", None),
        (lambda: model.explain(unique_id="a", step=7), "step", 7),
        (lambda: model.explain(unique_id="a", step=True), "step", True),
        (lambda: graph.edges(top=0), "top", 0),
        (lambda: graph.layer_edges(layer=3), "layer", 3),
    ):
        with pytest.raises(FighterError) as error:
            question()
        assert (error.value.argument, error.value.value) == (argument, value)
    assert tiny().fit(waves(60, ids=("a",))).explain().target == "a"


def test_a_page_names_the_wrong_argument(tmp_path):
    model = tiny().fit(waves(60))
    page = tmp_path / "page.html"
    for options, argument in (
        ({"first": ("c", 1)}, "first"),
        ({"first": ("a", 7)}, "first"),
        ({"first": "a"}, "first"),
        ({"most": 0}, "most"),
        ({"most": 2.5}, "most"),
    ):
        with pytest.raises(FighterError) as error:
            model.save_page(page, **options)
        assert error.value.argument == argument
    for path in (tmp_path / "page.pdf", tmp_path):
        with pytest.raises(FighterError):
            model.save_page(path)
    assert not list(tmp_path.iterdir())


def test_explain_all_yields_every_forecast_lazily():
    model = tiny(level=[80]).fit(waves(90, ids=("a", "b", "c")))
    graphs = model.explain_all(steps=[1, 6])
    assert iter(graphs) is graphs  # nothing is computed before it is asked for
    table = model.predict()
    seen = []
    for graph in graphs:
        own = table[(table.unique_id == graph.target)].Fighter.iloc[graph.step - 1]
        check(graph, own)
        alone = model.explain(unique_id=graph.target, step=graph.step)
        np.testing.assert_allclose(graph.sources, alone.sources, rtol=1e-3, atol=1e-6)
        own, other = graph.layers[0].parts, alone.layers[0].parts
        np.testing.assert_allclose(own, other, rtol=1e-3, atol=1e-6)
        seen.append((graph.target, graph.step))
    assert seen == [(name, step) for name in "abc" for step in (1, 6)]
    assert len(list(model.explain_all())) == 3 * 6


def test_the_repr_of_a_graph_is_short():
    graph = tiny().fit(waves()).explain(unique_id="b", step=2)
    assert (
        repr(graph) == f"<TemporalGraph of 'b' at 2024-01-06 01:00, step 2: {graph.forecast:.4g}>"
    )
    assert repr(graph.layers[0]) == "<LayerGraph of 2 nodes, 4 heads, powers (0, 1, 2)>"
    assert str(graph) == graph.summary()
