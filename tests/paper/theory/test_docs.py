"""The evidence that docs/theory.md names exists."""

import re
from pathlib import Path

from paper.theory import check_all
from paper.theory.identities import IDENTITIES

HERE = Path(__file__).parent
PAGE = (HERE.parents[2] / "docs" / "theory.md").read_text(encoding="utf-8")


def test_the_tests_named_on_the_page_exist() -> None:
    written = "\n".join(file.read_text(encoding="utf-8") for file in HERE.glob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 20
    assert {name for name in named if f"def {name}(" not in written} == set()


def test_the_rows_quoted_on_the_page_exist() -> None:
    rows = {identity.name for identity in check_all(size=1)}
    evidence = [line.split("|")[-2] for line in PAGE.splitlines() if re.match(r"\| E\d", line)]
    assert len(evidence) == 22
    quoted = {row for cell in evidence for row in re.findall(r'"([^"]+)"', cell)}
    assert quoted <= rows
    assert f"{len(IDENTITIES)} identities" in PAGE
