"""Numbers written as text, such as ``1,234.5``, ``12 %`` or ``$ 3.50``, and words for missing."""

import re
from collections.abc import Sequence

import numpy as np

from ..errors import FighterError

_MISSING = ("", "-", "--", "na", "n/a", "n.a.", "nan", "null", "none", "#n/a", "#na", "missing")
_PLAIN = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_SIGN = re.compile(r"[%$€£¥]")
# Thousands separator, decimal mark, and what a number looks like with them.
_STYLES = [
    (thousands, decimal, re.compile(rf"[-+]?(\d+|\d{{1,3}}({thousands}\d{{3}})+)({decimal}\d*)?"))
    for thousands, decimal in ((",", r"\."), (r"\.", ","), ("[ '\u00a0\u202f]", "[.,]"))
]


def parse_numerals(
    cells: Sequence[str | None], name: str, argument: str | None, alternative: str
) -> tuple[np.ndarray, str]:
    """Read text cells as numbers: ``float64 [rows]``, and a remark on what was not plain.

    A style counts only if all cells follow it, and if no other style reads other numbers.
    ``alternative`` ends the error about a cell that is not a number: what else the user can do.
    """
    texts = ["" if cell is None else cell.strip() for cell in cells]
    missing = np.array([text.casefold() in _MISSING for text in texts])
    values = np.full(len(texts), np.nan)
    filled = np.flatnonzero(~missing)
    words = [texts[row] for row in filled]
    signs = {sign[0] if (sign := _SIGN.search(word)) else "" for word in words}
    if len(signs) == 1:  # all cells have the same sign, or none
        words = [_SIGN.sub("", word, count=1).strip() for word in words]
    readings = _readings(words)
    if not readings:
        odd = next((row for row, w in zip(filled, words, strict=True) if not _numeric(w)), None)
        row = filled[0] if odd is None else odd
        rest = "" if odd is not None else ", and no style of writing numbers fits all its cells"
        where = f"row {row} of column {name!r} holds {texts[row]!r}"
        reason = f"{where}, which is not a number{rest}; {alternative}"
        raise FighterError(reason, argument=argument, value=name)
    if any(not np.array_equal(readings[0], other) for other in readings[1:]):
        unequal = np.argmax([len({r[i] for r in readings}) > 1 for i in range(len(words))])
        where = f"row {filled[unequal]} of column {name!r} holds {texts[filled[unequal]]!r}"
        marks = "whose comma or dot may be a decimal mark or separate thousands"
        reason = f"{where}, {marks}; write it without thousands separators"
        raise FighterError(reason, argument=argument, value=name)
    values[filled] = readings[0]
    return values, _remark(texts, missing, signs, words)


def _readings(words: list[str]) -> list[np.ndarray]:
    """Return what the words mean in each style that fits all of them; plain numbers come first."""
    if all(map(_PLAIN.fullmatch, words)):
        return [np.array([float(word) for word in words])]
    readings = []
    for thousands, decimal, style in _STYLES:
        if all(map(style.fullmatch, words)):
            bare = (re.sub(decimal, "_", re.sub(thousands, "", word)) for word in words)
            readings.append(np.array([float(word.replace("_", ".")) for word in bare]))
    return readings


def _numeric(word: str) -> bool:
    return any(style.fullmatch(word) for style in (_PLAIN, *(style for *_, style in _STYLES)))


def _remark(texts: list[str], missing: np.ndarray, signs: set[str], words: list[str]) -> str:
    remarks = []
    told = np.flatnonzero(
        [empty and text != "" for empty, text in zip(missing, texts, strict=True)]
    )
    if told.size:
        first = f"first: {texts[told[0]]!r} in row {told[0]}"
        remarks.append(f"{told.size} cells ({first}) as missing")
    if sign := "".join(signs):
        remarks.append(f"its numbers without their {sign}")
    if odd := next((word for word in words if not _PLAIN.fullmatch(word)), ""):
        remarks.append(f"{odd!r} as {_readings(words)[0][words.index(odd)]:.12g}")
    return ", ".join(remarks)
