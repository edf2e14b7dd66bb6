import io
import sys
import time

import pytest

from fighter.errors import FighterError
from fighter.training import progress

from .nets import recipe, trained


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_training_is_silent_unless_verbose(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained()
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_a_terminal_shows_one_throttled_bar_that_disappears(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    start = time.monotonic()
    trained(steps=recipe(epochs=60), verbose=True)
    shown = terminal.getvalue()
    assert "epoch" in shown
    assert "best" in shown
    assert shown.count("\r") < 10 * (time.monotonic() - start) + 6
    assert shown.rstrip(" ").endswith("\r")


def test_the_bar_is_readable_at_80_columns(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    shown = progress.Progress(True, epochs=200, steps=2, done=198)
    shown.epoch({"epoch": 199, "loss": 1.0, "validation": 0.25, "best": 0.125})
    shown._bar.refresh()
    shown.close()
    line = terminal.getvalue().split("\r")[-3]
    assert len(line) <= 80
    assert line.startswith("epoch 199/200 ")
    assert line.index("| ") - line.index("|") > 10
    assert all(part in line for part in ("left", "0.2500", "0.1250"))


def test_a_notebook_shows_a_bar(monkeypatch):
    cell = io.StringIO()  # like a cell, it is no terminal
    monkeypatch.setattr(sys, "stderr", cell)
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    trained(steps=recipe(epochs=2), verbose=True)
    assert "\repoch" in cell.getvalue()


def test_a_file_gets_lines_instead_of_a_bar(monkeypatch):
    paper = io.StringIO()
    monkeypatch.setattr(sys, "stderr", paper)
    clock = iter(range(0, 10_000, 3))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    trained(verbose=True)
    lines = paper.getvalue().splitlines()
    assert 1 <= len(lines) < 4
    assert all("loss" in line and "validation" in line and "s left" in line for line in lines)


def test_without_tensorboard_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    place = tmp_path / "run"
    with pytest.raises(FighterError, match=r"tensorboard.*pip install 'fighter\[track\]'"):
        trained(folder=place, tensorboard=True)
    assert not place.exists()
