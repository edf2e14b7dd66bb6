"""Fighter makes no network call unless it is asked to download something."""

import subprocess
import sys

import pytest

from .tables import waves

pytestmark = pytest.mark.slow

# An audit hook sees every socket of the process and cannot be removed; the exit cannot be caught.
GUARD = """
import os, sys

def guard(event, args):
    if event.startswith("socket.") and event not in ("socket.__new__", "socket.gethostname"):
        os.write(2, f"network: {event} {args}".encode())
        os._exit(77)
    if event in ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.system"):
        os.write(2, f"another process: {event} {args}".encode())
        os._exit(78)

sys.addaudithook(guard)
"""
PYTHON = """
import pandas as pd
import fighter
from fighter import Forecaster, TextClassifier, Training
from fighter.models import Fighter

df = pd.read_csv("load.csv")
small = Fighter(width=16, members=1)
model = Forecaster(6, 24, model=small, level=[80], training=Training(max_epochs=1), verbose=False)
model.fit(df).save("model")
model = Forecaster.load("model")
model.predict()
model.evaluate(df, last=24)
model.plot(path="forecast.png")
model.explain(unique_id="a", step=2).save_html("one.html")
model.save_page("why.html", most=2)
text = TextClassifier(width=16, max_epochs=1, validation=0, verbose=False)
text.fit(["good", "bad"] * 4, ["yes", "no"] * 4).save("text")
TextClassifier.load("text").predict(["good"])
"""
COMMAND = """
from fighter.cli import main
sys.exit(main([
    "forecast", "load.csv", "--horizon", "6", "--lookback", "24", "--width", "16",
    "--members", "1", "--max-epochs", "1", "--out", "forecast.csv", "--plot", "forecast.png",
    "--report", "why.html", "--save", "model",
]))
"""
FETCH = """
from fighter.data.datasets.catalogue import fetch
fetch("ETTh1", "folder")
"""


def run(script: str, folder) -> subprocess.CompletedProcess:
    waves(90, ids=("a", "b")).to_csv(folder / "load.csv", index=False)
    command = [sys.executable, "-c", GUARD + script]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("script", [PYTHON, COMMAND], ids=["python", "command line"])
def test_nothing_is_sent_or_looked_up(script, tmp_path):
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert {"model", "why.html", "forecast.png"} <= {path.name for path in tmp_path.iterdir()}


def test_the_guard_sees_a_download(tmp_path):
    done = run(FETCH, tmp_path)
    assert (done.returncode, done.stderr[:8]) == (77, "network:")
