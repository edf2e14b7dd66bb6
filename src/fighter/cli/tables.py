"""Tables as a person reads them in a terminal."""

from typing import Any

SHOWN_ROWS = 8


def first_rows(table: Any) -> str:
    """Return the first rows of a table as text."""
    return table.head(SHOWN_ROWS).to_string(index=False, float_format="{:.6g}".format)
