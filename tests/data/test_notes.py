import numpy as np
import pytest

from fighter.data import DataNote, Frequency
from fighter.data.notes import Locator, describe_rows, describe_unused, suspect_sentinels

HOURS = Frequency.parse("h").range(0, 6)
LOCATOR = Locator("abcde", HOURS, Frequency.parse("h"))


def test_a_note_is_its_text():
    assert str(DataNote("gaps", "2 missing time stamps.")) == "2 missing time stamps."


def test_a_summary_names_the_three_series_with_the_most_marked_cells():
    mask = np.zeros((6, 5), bool)
    mask[2:4, 0] = mask[3, 1] = mask[1:, 3] = True
    first = "first: 'd' at 1970-01-01 01:00"
    assert LOCATOR.summary(mask) == f"in 3 series ('d' 5, 'a' 2, 'b' 1; {first})"
    mask[5, 4] = True
    assert LOCATOR.summary(mask) == f"in 4 series ('d' 5, 'a' 2, 'b' 1, …; {first})"


@pytest.mark.parametrize("sentinel", [-9999, -99999, -999, -999.9, -9999.9, -99, 9999, 99999])
def test_a_number_far_from_the_rest_may_be_a_sentinel(sentinel):
    values = np.arange(30.0).reshape(6, 5) / 30
    values[2, 1] = sentinel
    observed = np.ones((6, 5), bool)
    (note,) = suspect_sentinels(values, observed, LOCATOR)
    assert note.kind == "sentinel"
    assert str(note).startswith(f"1 value of {sentinel:g} in 1 series ('b' 1; first: 'b' at")
    observed[2, 1] = False
    assert not suspect_sentinels(values, observed, LOCATOR)


@pytest.mark.parametrize(("distance", "found"), [(20.0, 0), (20.5, 1)])
def test_a_sentinel_is_more_than_twice_the_spread_away(distance, found):
    values = np.full((6, 5), 50.0)
    values[:, 1] = -99 + distance + np.array([0, 10, 5, 5, 5, 0])  # a spread of 10
    values[2, 1] = -99
    assert len(suspect_sentinels(values, np.ones((6, 5), bool), LOCATOR)) == found


def test_a_regular_table_needs_no_note():
    present = np.ones((6, 5), bool)
    assert describe_rows(present, np.zeros((6, 5), int), LOCATOR, wide=False) == []
    assert describe_unused(()) == []


@pytest.mark.parametrize("wide", [False, True])
def test_repeated_time_stamps_are_counted(wide):
    present, duplicates = np.ones((6, 5), bool), np.zeros((6, 5), int)
    duplicates[2, 1], duplicates[3, 0] = 2, 1
    (note,) = describe_rows(present, duplicates, LOCATOR, wide)
    where = "1970-01-01 02:00" if wide else "'b' at 1970-01-01 02:00"
    assert note.kind == "duplicates"
    assert str(note).startswith(f"3 duplicated time stamps (first: {where});")
