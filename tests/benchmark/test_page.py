"""What the page of a leaderboard says."""

import numpy as np

from fighter.benchmark.page import against, section, sign_flip_test
from fighter.benchmark.result import count, number


def cell(model, horizon, mse, seed=0, **more):
    result = {
        "mse": mse, "mae": mse / 2, "lookback": 48, "series": 2, "windows": 1234, "epochs": 3,
        "best_epoch": 2, "parameters": 1500, "train_seconds": 3.0, "memory_mib": None,
        "pieces": {"mse": [mse] * 8},
    }  # fmt: skip
    return {
        "data": "load", "horizon": horizon, "model": model, "seed": seed, "max_epochs": None,
        "given_lr": None, "settings": {"sha256": "0" * 64, "columns": {}}, "result": result, **more,
    }  # fmt: skip


def test_models_are_sorted_and_compared_with_the_best_other():
    rows = [cell("Linear", 6, 0.5), cell("Fighter", 6, 0.4), cell("Mean", 6, 0.8)]
    title, _, header, _, *lines = section(rows).splitlines()
    assert title == "**load: look-back 48, horizon 6**, 2 series, 1,234 test windows"
    assert "GPU" not in header
    assert [line.split(" | ")[0] for line in lines] == ["| Fighter", "| Linear", "| Mean"]
    assert [line.split(" | ")[3].split(",")[0] for line in lines] == [
        "-20.0% Linear",
        "+25.0% Fighter",
        "+100.0% Fighter",
    ]


def test_title_shows_how_the_table_was_read_and_the_budget():
    columns = {"id_col": "zone", "missing_values": [-9999.0, 7.5], "freq": "h"}
    settings = {"sha256": "0" * 64, "columns": columns}
    row = cell("Linear", 6, 0.5, settings=settings, max_epochs=1, given_lr=1e-3)
    assert section([row]).splitlines()[0].partition("windows, ")[2] == (
        "series in column zone, missing values -9999, 7.5, frequency h, at most 1 epoch, "
        "learning rate 0.001 for all but Fighter"
    )


def test_gpu_memory_has_a_column_where_it_was_measured():
    row = cell("Linear", 6, 0.5)
    row["result"]["memory_mib"] = 1234
    _, _, header, _, line = section([row]).splitlines()
    assert header.endswith("GPU memory, MiB |")
    assert line.endswith("| 1,234 |")


def test_other_number_of_seeds_is_compared_by_the_mean():
    ours, others = ([{"mse": mse, "pieces": {"mse": [mse]}} for mse in many]
                    for many in ((1.0, 3.0, 5.0), (0.0, 8.0)))  # fmt: skip
    assert against(ours, others, "Them") == "-25.0% Them, 2 of 3 seeds"


def test_p_value_needs_six_blocks():
    def results(blocks):
        return [{"mse": 1.0, "pieces": {"mse": [1.0] * blocks}}]

    assert "p = " in against(results(6), results(6), "Them")
    assert "p = " not in against(results(5), results(5), "Them")


def test_sign_flip_test():
    draw = np.random.default_rng(0)
    noise = draw.normal(size=40)
    assert sign_flip_test(noise, noise) == 1
    assert sign_flip_test(noise, noise + 5) == sign_flip_test(noise + 5, noise) == 1e-4
    few = np.arange(1.0, 8)
    assert sign_flip_test(few, 0 * few) == 2 / 2**7  # only the measured signs and their opposite
    # Under chance alone p-values are uniform.
    p = [sign_flip_test(draw.normal(size=30), draw.normal(size=30), 200) for _ in range(200)]
    assert abs(np.mean(p) - 0.5) < 0.08
    assert 0.01 < np.mean(np.array(p) < 0.05) < 0.1


def test_numbers_of_seeds_as_text():
    results = [{"x": 0.01, "n": None}, {"x": 0.03, "n": 1500}]
    assert number(results, "x") == "0.0200 ± 0.0141"
    assert number(results[:1], "x", 2) == "0.01"
    assert number([], "x") == "-"
    assert count(results, "n") == "1,500"
    assert count(results[:1], "n") == "-"
