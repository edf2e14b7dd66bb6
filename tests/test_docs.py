"""The code of README, CONTRIBUTING and docs runs as it stands, each page in an empty folder."""

import re
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

import fighter.cli.demo
import paper.__main__
from fighter.cli import main
from fighter.forecasting import autoconfig

from .cli.test_demo import SMALL

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?```(?P<kind>\w*)\n(?P<code>.*?)^```$", re.M | re.S
)


class Block(NamedTuple):
    page: str
    line: int
    kind: str
    code: str
    reason: str | None  # why it is not run


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start("code"))
            yield Block(page.name, line, match["kind"], match["code"], match["reason"])


BLOCKS = list(blocks())
RUN = [block for block in BLOCKS if block.reason is None and block.kind in ("python", "sh")]


@pytest.fixture
def short_training(monkeypatch):
    """Train for one epoch, and let the demo be small."""
    monkeypatch.setattr(autoconfig, "choose_epochs", lambda *_: (1, 1))
    small = partial(fighter.cli.demo.run_demo, size=SMALL)
    monkeypatch.setattr(fighter.cli.demo, "run_demo", small)


def run_line(line: str) -> None:
    """Run a command of a page in this process."""
    match shlex.split(line, comments=True):
        case []:
            return
        case ["fighter", *arguments]:
            assert main(arguments) == 0, line
        case ["python", "-m", "paper", *arguments]:
            assert paper.__main__.main(arguments) == 0, line
        case _:
            pytest.fail(f"cannot run {line!r} here; say why above its block: <!-- not run: … -->")


@pytest.mark.timeout(900)  # a page fits many models
@pytest.mark.slow
@pytest.mark.parametrize("page", dict.fromkeys(block.page for block in RUN))
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, short_training):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for block in RUN:
        if block.page == page and block.kind == "python":
            code = "\n" * block.line + block.code  # a traceback names the line of the page
            exec(compile(code, block.page, "exec"), names)
        elif block.page == page:
            for line in block.code.replace("\\\n", "").splitlines():
                run_line(line)


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.reason], ids=lambda b: f"{b.page}:{b.line}"
)
def test_some_blocks_are_not_run(block):
    pytest.skip(f"{block.page}, line {block.line}: {block.reason}")


def test_every_block_says_what_it_is():
    assert {block.kind for block in BLOCKS} <= {"python", "sh", "text"}
    fences = sum(page.read_text(encoding="utf-8").count("\n```") for page in PAGES)
    assert fences == 2 * len(BLOCKS) > 20
