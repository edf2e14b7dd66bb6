"""A few hundred cases of each fuzzer, and proof that the fuzzers see what they look for."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fighter.data import to_panel
from tests.fuzz import hostile, kills, page, tables
from tests.fuzz.runner import FINE, Outcome, Suite, count_outcomes, run_suite

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_ordinary_tables_are_read_rightly(first):
    outcomes = {number: tables.run(number) for number in range(first, first + 100)}
    assert {n: o for n, o in outcomes.items() if o.kind not in FINE} == {}


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_hostile_tables_are_read_or_refused(first):
    outcomes = {number: hostile.run(number) for number in range(first, first + 100)}
    assert {n: o for n, o in outcomes.items() if o.kind not in FINE} == {}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("suite", "cases"), [("models", 336), ("kills", 200), ("threads", 5)])
def test_damaged_models_kills_and_threads(suite, cases, tmp_path):
    command = [sys.executable, "-m", "tests.fuzz", suite, "--cases", str(cases)]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


# ---- the fuzzers themselves -------------------------------------------------------------------


def _drawn(layout):
    for number in range(1000):
        drawn = tables.draw(number)
        if drawn.layout == layout and drawn.library == "pandas" and drawn.axis == "datetime":
            table, settings, _ = tables.write(drawn)
            if drawn.fault is None and "ds" in table:
                return drawn, table, settings
    raise AssertionError


@pytest.mark.parametrize("layout", ["long", "wide", "single"])
def test_the_oracle_sees_a_value_at_another_time_and_a_lost_row(layout):
    drawn, table, settings = _drawn(layout)
    assert tables.check_panel(drawn, to_panel(table, **settings)) == ""
    step = max(k for k, v in tables.truth(drawn)[0].items() if v is not None)
    value = drawn.cells[0][step]
    drawn.cells[0][step] = (not value) if isinstance(value, bool) else value + 1
    assert "value" in tables.check_panel(drawn, to_panel(table, **settings))
    drawn.cells[0][step] = None
    assert tables.check_panel(drawn, to_panel(table, **settings))


def test_cases_are_the_same_every_time():
    for number in range(20):
        first, again = (tables.write(tables.draw(number)) for _ in range(2))
        assert first[2] == again[2]
        assert hostile.draw(number)[0] == hostile.draw(number)[0]


def _misbehave(number, folder):
    if number == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == 2:
        time.sleep(60)
    if number == 3:
        np.ones(150_000_000)  # 1.2 GB
    if number == 4:
        np.ones(2**34)  # more than a worker may have
    if number == 5:
        raise KeyError("x")
    (folder / str(number)).touch(exist_ok=False)  # no case runs twice
    return Outcome("good", "right")


@pytest.mark.slow
def test_workers_survive_what_cases_do_and_a_run_goes_on_where_it_stopped(tmp_path):
    program = (
        "from pathlib import Path\n"
        "from tests.fuzz.runner import run_suite\n"
        "from tests.fuzz.test_fuzz import SUITE\n"
        f"for count in (4, 9): run_suite(SUITE, count, Path({str(tmp_path)!r}))\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
    records = run_suite(SUITE, 9, tmp_path)  # all are known
    kinds = {record["case"]: record["kind"] for record in records}
    assert (kinds[1], kinds[2]) == ("died", "hung")
    assert [kinds[n] for n in (3, 4, 5)] == ["memory", "exception", "exception"]
    assert count_outcomes(records)["good"] == {"right": 4, "memory": 1}


def _prepare(folder):
    (folder / "shared").touch()


SUITE = Suite("misbehaving", _misbehave, cases=9, prepare=_prepare, seconds=15)


def test_points_see_every_touch_of_a_file(tmp_path):
    points = kills.Points(tmp_path)
    with kills.patched(points):
        (tmp_path / "a").write_text("x")
        (tmp_path / "a").replace(tmp_path / "b")
        with (tmp_path / "b").open("rb+") as file:
            file.write(b"y")
            file.flush()
            os.fsync(file.fileno())
        (tmp_path / "b").unlink()
    assert points.names == [
        "open a", "write a", "replace a", "open b", "write b", "fsync", "unlink b"
    ]  # fmt: skip


@pytest.mark.skipif(not (ROOT / page.RESULTS).exists(), reason="no results beside the tests")
def test_committed_page_is_the_rendered_one():
    results = json.loads((ROOT / page.RESULTS).read_text())
    assert (ROOT / page.DOCS).read_text(encoding="utf-8") == page.render(results)
