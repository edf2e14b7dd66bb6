import pytest

from paper.reproduction import quoted
from paper.reproduction.claims import CLAIMS, NO, PARTLY, UNTESTED, YES, judge
from tests.paper.reproduction.results import everything, forecasts, gradients, maps, sweep, texts

BEST, REDUCTION, UNITS, BASELINES, HORIZON, COMPACT = range(6)
RISING = dict.fromkeys(range(1, 9), 0.3)
ACCURACY = dict.fromkeys(quoted.ACCURACY, 0.9)


def verdict(experiment, rows, number=0):
    """Return the verdict on one claim of an experiment."""
    return judge({experiment: rows})[number]


def test_a_claim_whose_experiment_was_not_run_is_left_out():
    results = everything()
    assert len(judge(results)) == len(CLAIMS) == 12
    for name in results:
        own = [check(results[name]).claim for experiment, check in CLAIMS if experiment == name]
        assert [v.claim for v in judge({name: results[name]})] == own
    assert judge({}) == []


# ---- Table 1 ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (forecasts(Fighter_κ3=0.2) + forecasts(horizon=192, Fighter_κ3=0.2), YES),
        (forecasts(Fighter_κ3=0.2) + forecasts(horizon=192, Fighter_κ3=0.4), PARTLY),
        (forecasts(Fighter_κ3=0.299, spread=0.01), PARTLY),  # within the spread of the seeds
        (forecasts(Fighter_κ3=0.2, Informer=0.1), NO),
        (forecasts(Fighter_κ3=0.4), NO),
    ],
)
def test_fighter_must_have_the_lowest_errors_everywhere(rows, expected):
    assert verdict("table1", rows, BEST).verdict == expected


def test_a_lead_within_the_spread_of_the_seeds_is_called_one():
    near, clear = (forecasts(Fighter_κ3=error, spread=0.01) for error in (0.299, 0.2))
    assert "exceeds the spread of the seeds" in verdict("table1", near, BEST).evidence
    assert "seeds" not in verdict("table1", clear, BEST).evidence


def test_the_lowest_mse_alone_is_not_the_lowest_errors():
    rows = forecasts(Fighter_κ3=0.2)
    for row in rows:
        if row["model"] == "Fighter κ=3":
            row["result"]["standard_mae"] = 0.9
    judged = verdict("table1", rows, BEST)
    assert judged.verdict == NO
    assert "ranks 1 of 5 by MSE and 5 of 5 by MAE" in judged.evidence


def test_models_that_the_paper_does_not_have_do_not_count():
    assert verdict("table1", forecasts(Fighter_κ3=0.2, DLinear=0.1), BEST).verdict == YES


@pytest.mark.parametrize(
    ("errors", "expected"), [((0.03, 0.03), YES), ((0.03, 0.2), PARTLY), ((0.2, 0.29), NO)]
)
def test_the_reduction_of_the_mse(errors, expected):
    rows = forecasts(Fighter_κ3=errors[0])
    rows += forecasts("eia_demand_hourly", Fighter_κ3=errors[1])
    judged = verdict("table1", rows, REDUCTION)
    assert judged.verdict == expected
    assert f"weather-96 {100 * (1 - errors[0] / 0.3):+.1f} %" in judged.evidence
    assert "stand-in for electricity-96" in judged.evidence


def test_units_are_compared_for_the_same_predictions():
    """Here 0.21 in standardised units is 0.007 in MinMax units."""
    mixed = verdict("table1", forecasts(Fighter_κ3=0.21, window_mean=0.24), UNITS)
    assert mixed.verdict == NO
    assert "Fighter has 0.210 ± 0.001" in mixed.evidence
    assert "has 0.0080 / 0.0893" in mixed.evidence  # the mean of the window
    assert "0.0070 to 0.0100" in mixed.evidence  # of the trained models


def test_mixed_units_are_suggested_only_where_both_errors_fit():
    rows = forecasts(Fighter_κ3=0.21)
    assert "only its authors can say" not in verdict("table1", rows, UNITS).evidence  # MAE .084
    for row in rows:
        row["result"]["minmax_mae"] = 0.05
    assert "only its authors can say" in verdict("table1", rows, UNITS).evidence
    far = forecasts(Fighter_κ3=1.4)
    assert "only its authors can say" not in verdict("table1", far, UNITS).evidence


def test_units_are_reproduced_if_both_errors_match():
    rows = forecasts(Fighter_κ3=0.007, spread=0)
    for row in rows:
        if row["model"] == "Fighter κ=3":
            row["result"]["standard_mae"] = 0.052
    judged = verdict("table1", rows, UNITS)
    assert judged.verdict == YES
    assert "authors" not in judged.evidence


def test_cleaned_sentinels_are_mentioned_where_they_were_run():
    rows = forecasts(variants=("standard", "clean"))
    assert "sentinels cleaned: 0.0100" in verdict("table1", rows, UNITS).evidence
    assert "sentinels" not in verdict("table1", forecasts(), UNITS).evidence


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ({"Autoformer": 0.7, "Informer": 0.8, "Reformer": 1.1, "Transformer": 0.6}, YES),
        ({"Autoformer": 0.2, "Informer": 0.8, "Reformer": 0.2, "Transformer": 0.2}, PARTLY),
        ({"Autoformer": 0.2, "Informer": 0.2, "Reformer": 0.2, "Transformer": 0.2}, NO),
        ({"Autoformer": 2.0, "Informer": 2.0, "Reformer": 2.0, "Transformer": 2.0}, NO),
    ],
)
def test_the_errors_of_the_baselines(errors, expected):
    judged = verdict("table1", forecasts(**errors, repeat_last=0.24), BASELINES)
    assert judged.verdict == expected
    assert "0.575 to 1.090 in the paper" in judged.evidence
    # A naive forecast has only the first seed, which is lower by the spread.
    assert "0.239 for repeating the last value" in judged.evidence


@pytest.mark.parametrize("number", [UNITS, BASELINES])
def test_claims_about_weather_cannot_be_tested_without_it(number):
    rows = forecasts("eia_demand_hourly")
    assert verdict("table1", rows, number).verdict == UNTESTED


@pytest.mark.parametrize(
    ("data", "long", "expected"),
    [
        ("electricity", 0.2, YES),
        ("electricity", 0.4, NO),
        ("eia_demand_hourly", 0.2, UNTESTED),
        ("weather", 0.2, UNTESTED),
    ],
)
def test_the_error_at_a_longer_horizon(data, long, expected):
    rows = forecasts(data) + forecasts(data, 192, Fighter_κ3=long)
    if data != "weather":  # its errors do not matter for the claim
        rows += forecasts("weather") + forecasts("weather", 192, Fighter_κ3=0.1)
    judged = verdict("table1", rows, HORIZON)
    assert judged.verdict == expected
    assert f"0.300 at 96, {long:.3f} at 192" in judged.evidence


@pytest.mark.parametrize("horizon", [96, 192])
def test_one_horizon_is_not_enough(horizon):
    assert verdict("table1", forecasts("electricity", horizon), HORIZON).verdict == UNTESTED


def test_fighter_must_have_fewer_parameters():
    rows = forecasts()  # with equal numbers of parameters
    assert verdict("table1", rows, COMPACT).verdict == NO
    for row in rows:
        row["result"]["parameters"] = 7 if row["model"] == "Fighter κ=3" else 9_000
    judged = verdict("table1", rows, COMPACT)
    assert judged.verdict == YES
    assert "7 against 9,000 parameters" in judged.evidence


# ---- other experiments ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ({**RISING, 1: 0.4, 2: 0.4, 4: 0.2, 5: 0.2, 6: 0.1, 7: 0.2, 8: 0.2}, YES),
        ({**RISING, 1: 0.4, 2: 0.4}, PARTLY),
        ({**RISING, 4: 0.2, 5: 0.2, 6: 0.1, 7: 0.2, 8: 0.2}, PARTLY),
        (dict.fromkeys(range(1, 9), 0.3005), NO),  # within the spread of the seeds
        ({1: 0.4, 2: 0.4, 3: 0.3}, UNTESTED),
        ({5: 0.2, 6: 0.2}, UNTESTED),
    ],
)
def test_few_hops_must_lose_and_many_must_win(errors, expected):
    assert verdict("kappa", sweep(errors)).verdict == expected


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ({**RISING, 6: 0.2}, YES),
        ({**RISING, 5: 0.2}, YES),
        ({**RISING, 6: 0.2995}, PARTLY),
        ({**RISING, 3: 0.2}, NO),
        ({**RISING, 8: 0.2}, NO),
        ({1: 0.3, 2: 0.3, 3: 0.2}, UNTESTED),
    ],
)
def test_the_best_kappa_must_be_about_six(errors, expected):
    judged = verdict("kappa", sweep(errors), 1)
    assert judged.verdict == expected
    assert f"lowest MSE is at κ={min(errors, key=errors.get)}," in judged.evidence


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ({"Fighter κ=3": 0.92}, YES),
        ({"Fighter κ=3": 0.9005}, PARTLY),
        ({"Fighter κ=3": 0.92, "Informer": 0.93}, PARTLY),
        ({"Fighter κ=3": 0.89}, NO),
    ],
)
def test_fighter_must_be_the_most_accurate(accuracies, expected):
    judged = verdict("agnews", texts(ACCURACY | accuracies))
    assert judged.verdict == expected
    gap = accuracies["Fighter κ=3"] - 0.9
    assert f"Fighter minus Transformer: {100 * gap:+.2f} points" in judged.evidence


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ({"Fighter κ=3": 0.6, "Fighter κ=2": 0.6}, YES),
        ({"Fighter κ=3": 0.6, "Fighter κ=2": 0.4}, PARTLY),
        ({"Fighter κ=3": 0.4, "Fighter κ=2": 0.4}, NO),
    ],
)
def test_the_training_loss_must_fall_more_slowly(losses, expected):
    judged = verdict("agnews", texts(ACCURACY | {"Fighter κ=2": 0.9}, losses), 1)
    assert judged.verdict == expected
    assert "Transformer 0.500" in judged.evidence


@pytest.mark.parametrize(
    ("transformer", "reach", "expected"),
    [
        (0.6, (0.6, 0.4, 0.2), YES),
        (0.1, (0.6, 0.4, 0.2), PARTLY),
        (0.6, (0.1, 0.1, 0.1), PARTLY),
        (0.1, (0.1, 0.09, 0.08), NO),  # too little to count as spreading
    ],
)
def test_the_heat_maps_are_judged_at_the_last_epoch(transformer, reach, expected):
    judged = verdict("heatmaps", maps(transformer, reach))
    assert judged.verdict == expected
    assert f"Transformer A {100 * transformer:.0f} %" in judged.evidence
    assert f"κ=4 A^3 {100 * reach[-1]:.0f} %" in judged.evidence
    assert "κ=1" not in judged.evidence


@pytest.mark.parametrize(
    ("difference", "update", "expected"),
    [(1e-15, 0.999, YES), (1e-15, 0.8, PARTLY), (0.1, 0.8, NO)],
)
def test_gradients_and_updates_must_both_be_those_of_a_gcn(difference, update, expected):
    judged = verdict("backward", gradients(difference, update))
    assert judged.verdict == expected
    assert f"{difference:.0e}" in judged.evidence
    assert f"{update:.2f}" in judged.evidence
