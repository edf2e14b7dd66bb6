"""Variants beside their baseline."""

import pytest

from paper.studies.variants import baseline, compare, noise_sentence, seed_noise


def row(variant, data, seed, mse, *, is_base=False, **result):
    tags = {"variant": variant, "baseline": is_base, "data": data, "seed": seed}
    return {**tags, "result": {"mse": mse, "mae": mse / 2, **result}}


ROWS = [
    row("other", "a", 0, 1.1, validation=2.0),
    row("plain", "a", 0, 1.0, is_base=True, validation=1.0),
    row("plain", "a", 1, 3.0, is_base=True, validation=1.0),
    row("plain", "b", 0, 5.0, is_base=True, validation=1.0),
    row("rest", "b", 0, 4.0),
]


def test_baseline_is_a_field_not_a_name_or_a_place():
    assert baseline(ROWS) == "plain"
    assert [*compare(ROWS, ["a", "b"], ("mse",))] == ["plain", "other", "rest"]


def test_variants_are_compared_on_their_own_seeds():
    cells = compare(ROWS, ["a", "b"], ("mse", "mae", "validation"))
    assert cells == {
        "plain": ["2.0000 / 1.0000 / 1.0000", "5.0000 / 2.5000 / 1.0000"],
        "other": ["+10.0% / +10.0% / +100.0%", "-"],
        "rest": ["-", "-20.0% / -20.0% / -"],  # it measured no validation error
    }


def test_noise_is_that_of_the_baseline_over_seeds():
    low, high = seed_noise(ROWS, lambda row: row["data"])  # b has one seed
    assert low == high == pytest.approx(2**0.5 / 2)
    assert "70.7% to 70.7%" in noise_sentence((low, high))


def test_noise_of_one_seed_is_not_known():
    assert seed_noise(ROWS[:2], lambda row: row["data"]) is None
    assert "%" not in noise_sentence(None)
