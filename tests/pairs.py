"""Fewer cases than the full product of parameters: every pair of values meets at least once."""

from itertools import combinations, product

import pytest


def pairs(**values):
    """Parametrise a test so that all values of any two parameters occur together in some case."""
    columns = list(combinations(range(len(values)), 2))
    rows = list(product(*(list(options) for options in values.values())))
    covered = {row: {(i, j, row[i], row[j]) for i, j in columns} for row in rows}
    missing, chosen = set().union(*covered.values()), []
    while missing:
        chosen.append(max(rows, key=lambda row: len(covered[row] & missing)))
        missing -= covered[chosen[-1]]
    return pytest.mark.parametrize(tuple(values), chosen)
