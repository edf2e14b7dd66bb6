"""The zoo benchmark: windows and scores by hand, resuming, and the page, on a made-up zoo."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmarks.zoo import protocol, scores, store
from benchmarks.zoo.combine import against_chosen, combine, geometric, mean_ranks, spread
from benchmarks.zoo.fighter_run import match
from benchmarks.zoo.page import write_page

ENTRY = {
    "series": 2,
    "rows": 36,
    "max_length": 24,
    "horizon": 2,
    "season": [4],
    "freq": "QS",
    "covariates": {"future": [], "past": [], "static": []},
    "kind": [],
    "core": True,
}


@pytest.fixture
def zoo(tmp_path):
    """A folder with two tables: of 24 and 12 quarters, and of whole numbers with a gap."""
    folder = tmp_path / "zoo"
    folder.mkdir()
    ids, times, values = [], [], []
    for name, rows in (("a", 24), ("b", 12)):
        ids += [name] * rows
        times += [*pd.date_range("2001-01-01", periods=rows, freq="QS")]
        values += [10.0 * (i % 4) + i // 4 for i in range(rows)]  # grows by 1 a year
    frame = pd.DataFrame({"unique_id": ids, "ds": times, "y": values})
    frame.to_parquet(folder / "quarters.parquet")
    steps = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13]
    numbers = {"unique_id": "n", "ds": steps, "y": np.arange(12.0)}
    pd.DataFrame(numbers).to_parquet(folder / "numbers.parquet")
    quarters = ENTRY | {"name": "quarters", "file": "quarters.parquet"}
    single = {"season": [1], "freq": "1", "series": 1, "rows": 12, "max_length": 12}
    other = ENTRY | single | {"name": "numbers", "file": "numbers.parquet", "core": False}
    (folder / "zoo.json").write_text(json.dumps({"tables": [quarters, other]}))
    return folder


def window(zoo, name, number=0):
    found = protocol.cut(protocol.read_zoo(zoo, [name])[0], number)
    assert found is not None
    return found


# ---- windows ------------------------------------------------------------------------------


def test_tables_come_cheapest_first_and_have_classes(zoo):
    tables = protocol.read_zoo(zoo)
    assert [table.name for table in tables] == ["numbers", "quarters"]
    assert tables[0].classes() == ["no calendar", "short", "single series"]
    assert [table.name for table in protocol.read_zoo(zoo, ["core"])] == ["quarters"]
    with pytest.raises(SystemExit, match="no such table: nothing"):
        protocol.read_zoo(zoo, ["nothing"])


def test_windows_end_at_the_end_of_each_series(zoo):
    first, second = window(zoo, "quarters"), window(zoo, "quarters", 1)
    assert first.ids == ["a", "b"]
    assert first.truth.tolist() == [[25.0, 35.0], [22.0, 32.0]]
    assert len(first.history(0)) == 22
    assert second.ids == ["a"]  # b keeps 8 rows, and a later window needs 10; half is enough
    assert second.truth.tolist() == [[5.0, 15.0]]
    assert second.rows("truth")["ds"].tolist() == [*pd.to_datetime(["2006-01-01", "2006-04-01"])]
    assert window(zoo, "numbers").truth_times.tolist() == [[11, 13]]
    assert protocol.cut(protocol.read_zoo(zoo, ["numbers"])[0], 1) is None


# ---- scores -------------------------------------------------------------------------------


def test_seasonal_naive_repeats_a_season(zoo):
    quantiles = protocol.seasonal_naive(np.array([0.0, 5.0, 2.0, 6.0, 1.0]), 3, 2)
    assert quantiles[:, 5].tolist() == [6.0, 1.0, 6.0]
    sigma = np.sqrt((4 + 1 + 1) / 3)
    assert quantiles[:, -1] - quantiles[:, 5] == pytest.approx(
        1.959964 * sigma * np.sqrt([1, 1, 2])
    )
    short = protocol.seasonal_naive(np.array([3.0, np.nan]), 2, 12)
    assert (short == 3).all()


def test_scores_by_hand(zoo):
    one = window(zoo, "quarters")
    forecast = np.zeros((2, 2, 11)) + one.truth[..., None]
    forecast += np.array(protocol.QUANTILES) - 0.5  # nearly right
    forecast[0, 0] = 20.0  # 5 too low, and all quantiles alike
    sums = scores.score(one, forecast)
    assert sums["mase"].tolist() == [2.5, 0.0]  # the seasonal difference is 1 everywhere
    assert sums["error"].tolist() == [5.0, 0.0]
    assert sums["in80"].tolist() == [1, 2]
    near = 2 * np.mean([min(q, 1 - q) * abs(q - 0.5) for q in np.arange(1, 10) / 10])
    # A truth above (below) its quantile by d costs 2 q d (2 (1 - q) d).
    assert sums["loss"] == pytest.approx([2 * 5 * 0.5 + near, 2 * near])
    total = scores.total(sums)
    assert total["mase"] == 1.25
    assert total["wql"] == pytest.approx((5 + 3 * near) / 114)
    assert total["wape"] == pytest.approx(5 / 114)
    assert (total["cov80"], total["cov95"], total["cells"]) == (75.0, 75.0, 4)
    # Within a year the changes are 10, 10, 10 and then -29; the first value of 22 is 0.
    change = np.sqrt((15 * 100 + 5 * 841) / 20)
    assert sums["rmsse"] == pytest.approx([np.sqrt(25 / 2) / change, 0], abs=1e-12)
    assert total["bias"] == pytest.approx(-5 / 114)
    assert (total["rated"], total["rmsse_mean"]) == (2, pytest.approx(total["rmsse"]))


def test_unknown_truth_is_not_scored(zoo):
    one = window(zoo, "quarters")
    one = replace(one, y=np.where(np.arange(36) == one.stop[0], np.nan, one.y))
    sums = scores.score(one, np.full((2, 2, 11), 32.0))
    assert sums["cells"].tolist() == [1, 2]
    assert sums["mase"].tolist() == [3.0, 5.0]


def test_scale_falls_back_to_season_one():
    assert scores.scale(np.array([1.0, 2.0, 1.0, 2.0]), 2) == 1.0  # no seasonal change
    assert scores.scale(np.array([1.0, 3.0]), 4) == 2.0  # too short
    assert scores.scale(np.array([1.0, np.nan, 4.0, 6.0]), 1) == 2.0
    assert np.isnan(scores.scale(np.ones(9), 4))


def test_steps_are_counted_from_the_first_sale_on():
    assert scores.step_scale(np.array([0.0, 0, 0, 3, 0, 4])) == pytest.approx(np.sqrt(12.5))
    assert scores.step_scale(np.array([np.nan, 0, 2, np.nan, 4, 5])) == 1.0
    assert np.isnan(scores.step_scale(np.zeros(4)))
    assert np.isnan(scores.step_scale(np.array([0.0, 7])))


def test_the_mean_is_that_of_lines_between_the_quantiles(zoo):
    levels = np.linspace(0, 1, 100_001)
    quantiles = np.exp(3 * np.array(protocol.QUANTILES))  # a skewed distribution
    mean = np.interp(levels, protocol.QUANTILES, quantiles).mean()
    assert quantiles @ scores.MEAN == pytest.approx(mean, rel=1e-4)
    one = window(zoo, "quarters")
    truth = one.truth[..., None]
    sums = scores.score(one, truth + quantiles - quantiles[5])
    assert sums["signed_mean"] == pytest.approx(2 * [2 * (mean - quantiles[5])], rel=1e-4)
    assert (sums["signed"] == 0).all()
    assert (sums["rmsse"] == 0).all()
    assert (sums["rmsse_mean"] > 0).all()


def test_missing_forecasts_are_replaced_and_counted(zoo):
    one = window(zoo, "quarters")
    forecast = np.zeros((2, 2, 11))
    forecast[1, 1, 3] = np.inf
    whole, missing = scores.complete(one, forecast)
    assert missing == 1
    assert whole[1, 1, 5] == 31.0  # the value a year before
    assert (whole[0] == 0).all()
    assert (whole[1, 0] == 0).all()


def test_fighter_is_matched_by_time_stamp(zoo):
    one = window(zoo, "numbers")
    answer = pd.DataFrame({"unique_id": "n", "ds": [11, 12], "Fighter": [7.0, 8.0]})
    for level in protocol.LEVELS:
        answer[f"Fighter-lo-{level}"] = answer["Fighter"] - level
        answer[f"Fighter-hi-{level}"] = answer["Fighter"] + level
    found = match(one, answer)
    assert found.shape == (1, 2, 11)
    assert found[0, 0].tolist() == [-88, -73, -53, -33, -13, 7, 27, 47, 67, 87, 102]
    assert np.isnan(found[0, 1]).all()  # step 13 was not forecast


# ---- resuming -----------------------------------------------------------------------------


class Model:
    """Forecasts zeros, and does something else in the call with a given number."""

    def __init__(self, special=None, error=None):
        self.calls, self.special, self.error = [], special, error

    def __call__(self, one, seed):
        self.calls.append((one.table.name, one.number, seed))
        if len(self.calls) == self.special:
            raise self.error
        return np.zeros((len(one.ids), one.table.horizon, 11)), None


@pytest.fixture
def run(zoo, tmp_path):
    """Return a function that computes what is missing with a model."""
    places = store.Places(tmp_path / "zoo-results.json", tmp_path / "cache", tmp_path / "rows.csv")

    def run(model, *flags):
        args = store.flags("zoo").parse_args(["--zoo", str(zoo), "--seeds", "0", "1", *flags])
        if args.again:
            store.drop(args, places)
        todo = store.missing(args, ["fighter"], places)
        return store.compute(todo, {"fighter": model}, places, {"test": {}})

    run.places = places
    return run


def test_a_second_call_computes_nothing(run):
    model = Model()
    run(model)
    every = [("numbers", 0, 0), ("numbers", 0, 1)]
    every += [("quarters", w, seed) for w in (0, 1, 2) for seed in (0, 1)]
    assert model.calls == every
    again = Model()
    assert run(again) == 0
    assert again.calls == []
    run(again, "--again", "--windows", "0", "--tables", "numbers")
    assert again.calls == every[:2]
    stored = store.read(run.places.results)
    assert [store.key(row)[1:] for row in stored["rows"]] == every
    assert len(run.places.csv.read_text().splitlines()) == 1 + len(every)
    sums = np.load(run.places.cache / "fighter-quarters-0-0.npz")
    assert sums["mase"].tolist() == [30.0, 27.0]
    assert stored["rows"][2]["mase"] == 28.5
    assert stored["rows"][2]["naive_mase"] == 1.0


def test_an_interrupted_call_resumes(run):
    with pytest.raises(KeyboardInterrupt):
        run(Model(3, KeyboardInterrupt()))
    assert len(store.read(run.places.results)["rows"]) == 2
    rest = Model()
    run(rest)
    assert rest.calls[0] == ("quarters", 0, 0)
    assert len(rest.calls) == 6


def test_again_drops_what_is_asked_for(run):
    run(Model())
    before = store.read(run.places.results)["rows"]
    with pytest.raises(KeyboardInterrupt):
        run(Model(2, KeyboardInterrupt()), "--again", "--windows", "0", "--seeds", "1")
    kept = store.read(run.places.results)["rows"]
    assert len(kept) == len(before) - 1  # one of the two that were dropped is there again
    rest = Model()
    run(rest, "--windows", "0", "--seeds", "1")
    assert rest.calls == [("quarters", 0, 1)]


def test_a_failure_is_counted_as_missing_and_tried_again(run, capsys):
    assert run(Model(1, ValueError("too short"))) == 1
    row = store.read(run.places.results)["rows"][0]
    assert (row["error"], row["missing"]) == ("ValueError: too short", 2)
    assert row["mase"] == row["naive_mase"]
    assert "FAILED fighter numbers window 0 seed 0" in capsys.readouterr().out
    retry = Model()
    assert run(retry) == 0
    assert retry.calls == [("numbers", 0, 0)]
    assert "error" not in store.read(run.places.results)["rows"][0]


# ---- the page -----------------------------------------------------------------------------


def test_windows_count_by_their_series():
    row = {"model": "m", "table": "t", "wql": 1.0, "naive_wql": 2.0, "size": 1.0, "cells": 1}
    row |= {"cov80": 50.0, "cov95": 90.0, "seconds": 1.0}
    rows = [row | {"mase": 1.0, "naive_mase": 4.0, "scored": 3}]
    rows += [row | {"mase": 3.0, "naive_mase": 2.0, "scored": 1}]
    assert combine(rows, ["t"])["m"]["t"]["mase"] == pytest.approx(1.5 / 3.5)
    assert geometric([0.5, 2.0]) == pytest.approx(1)


def test_seeds_are_averaged_and_their_spread_is_shown():
    def rows(table, seed, mase, **more):
        row = {"model": "m", "table": table, "seed": seed, "window": 0, "scored": 1, "size": 1.0}
        row |= {"mase": mase, "naive_mase": 2.0, "wql": 1.0, "naive_wql": 1.0, "cells": 1}
        return [row | {"cov80": 80.0, "cov95": 95.0, "seconds": 1.0} | more]

    some = rows("t", 0, 1.0) + rows("t", 1, 3.0) + rows("u", 0, 2.0) + rows("u", 1, 2.0)
    assert combine(some, ["t", "u"])["m"]["t"]["mase"] == 1.0
    expected = np.std([np.sqrt(0.5), np.sqrt(1.5)], ddof=1)
    assert spread(some, "m", ["t", "u"], "mase") == (pytest.approx(expected), 2)
    # A seed that has fewer rows than another is left out.
    assert spread(some + rows("v", 0, 9.0), "m", ["t", "u", "v"], "mase")[1] == 1
    assert np.isnan(spread(rows("t", 0, 1.0), "m", ["t"], "mase")[0])


def test_ranks_share_places():
    scores = {"a": 1.0, "b": 2.0, "c": 2.0}
    scores = {name: {"t": {"wql": value}, "u": {"wql": -value}} for name, value in scores.items()}
    assert mean_ranks(scores, ["t"], "wql") == {"a": 1, "b": 2.5, "c": 2.5}
    assert mean_ranks(scores, ["t", "u"], "wql") == {"a": 2, "b": 2, "c": 2}


def test_a_peer_is_chosen_on_the_other_windows():
    def rows(model, *scores):
        row = {"model": model, "table": "t", "seed": 0, "scored": 1}
        return [row | {"window": i, "mase": score} for i, score in enumerate(scores)]

    # Each peer is the best in one window, but the other window speaks for the other peer.
    some = rows("fighter", 1.0, 2.0) + rows("flair", 4.0, 1.0) + rows("autoets", 1.0, 4.0)
    assert against_chosen(some, "fighter", ["flair", "autoets"]) == {"t": 3 / 8}
    assert against_chosen(some, "fighter", ["autotheta"]) == {}
    assert against_chosen(rows("fighter", 1.0) + rows("flair", 1.0), "fighter", ["flair"]) == {}
    more = [row | {"seed": 1, "mase": row["mase"] + 2} for row in rows("fighter", 1.0, 2.0)]
    assert against_chosen(some + more, "fighter", ["flair", "autoets"]) == {"t": 5 / 8}


def test_the_page_shows_models_and_classes(run, zoo, tmp_path):
    run(Model())
    stored = store.read(run.places.results)
    peers = [row | {"model": "flair", "mase": row["naive_mase"] / 2} for row in stored["rows"]]
    peers += [row | {"model": "seasonal_naive"} for row in stored["rows"]]
    networks = [row for row in stored["rows"] if store.key(row)[1:] == ("quarters", 0, 0)]
    peers += [row | {"model": "nhits", "mase": 0.25 * row["naive_mase"]} for row in networks]
    store.add(run.places, peers, {})
    write_page(run.places.results, zoo, tmp_path / "docs")
    page = (tmp_path / "docs" / "zoo.md").read_text()
    assert "Development numbers: these are the 2 tables" in page
    assert "| tables | Fighter | seasonal naive | FLAIR |" in page
    assert "| no calendar (1) |" in page
    assert "| 0.500 |" in page
    assert "Seeds: Fighter 2; scores are averaged over them" in page
    assert "FLAIR 0.500 ± 0.000" in page
    assert "that NHITS was run on (tables: 1): relative MASE Fighter 28.500, NHITS 0.250;" in page
    assert "on 0 % of them" in page  # Fighter's rows here are those of seasonal naive
    assert (tmp_path / "docs" / "zoo" / "tables.png").stat().st_size > 1000
