import pytest

from fighter.data import splits
from fighter.errors import FighterError


def test_the_split_of_weather_is_that_of_the_benchmarks():
    split = splits.by_fraction(52696)
    assert (split.train, split.val, split.test) == (
        slice(0, 36887),
        slice(36887, 42157),
        slice(42157, 52696),
    )


@pytest.mark.parametrize("length", [10, 100, 1000, 52696])
def test_a_split_covers_every_row_once(length):
    split = splits.by_fraction(length, (0.6, 0.2, 0.2))
    rows = [r for part in (split.train, split.val, split.test) for r in range(length)[part]]
    assert rows == list(range(length))


def test_shares_are_exact_despite_rounding():
    assert splits.by_fraction(10, (0.7, 0.1, 0.2)) == splits.by_count(10, 7, 1, 2)


def test_the_split_of_ett_is_that_of_the_benchmarks():
    split = splits.ett(17420)
    assert (split.train.stop, split.val.stop, split.test.stop) == (8640, 11520, 14400)
    assert splits.ett(69680, steps_per_hour=4).test.stop == 57600


def test_impossible_splits_are_refused():
    for fractions in ((0.7, 0.7, 0.2), (0.5, 0.5), (1.2, -0.1, -0.1)):
        with pytest.raises(FighterError) as error:
            splits.by_fraction(10, fractions)
        assert (error.value.argument, error.value.value) == ("fractions", fractions)
    with pytest.raises(
        FighterError, match="8640 \\+ 2880 \\+ 2880 = 14400 rows does not fit into 100"
    ):
        splits.ett(100)
