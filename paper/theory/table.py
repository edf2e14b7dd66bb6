"""Identities as a plain-text table."""

from collections.abc import Sequence

from .record import Identity

HEADINGS = ("identity", "what the paper says", "paper's error", "corrected", "ok")


def render(identities: Sequence[Identity]) -> str:
    """Render an aligned plain-text table: one line per identity, and a line that sums up."""
    rows = [HEADINGS, *map(_cells, identities)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    rule = tuple("-" * width for width in widths)
    lines = [_line(row, widths) for row in (rows[0], rule, *rows[1:])]
    return "\n".join([*lines, "", _summary(identities)])


def _cells(identity: Identity) -> tuple[str, ...]:
    paper = "-" if identity.paper_error is None else f"{identity.paper_error:.1e}"
    ok = "yes" if identity.holds else "NO"
    return (identity.name, identity.paper_says, paper, f"{identity.corrected_error:.1e}", ok)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    text, numbers = cells[:2], cells[2:4]
    left = [cell.ljust(width) for cell, width in zip(text, widths[:2], strict=True)]
    right = [cell.rjust(width) for cell, width in zip(numbers, widths[2:4], strict=True)]
    return "  ".join([*left, *right, cells[4]]).rstrip()


def _summary(identities: Sequence[Identity]) -> str:
    broken = [identity.name for identity in identities if not identity.holds]
    failing = sum(identity.paper_fails for identity in identities)
    forms = "form does" if len(broken) == 1 else "forms do"
    verdict = (
        f"{len(broken)} corrected {forms} NOT hold ({'; '.join(broken)})"
        if broken
        else "all corrected forms hold"
    )
    printed = f"the paper's printed formula or sentence fails in {failing}"
    return f"{len(identities)} identities: {verdict}; {printed}."
