"""What a fitted model promises: safe in threads, the same whatever the threads or the units."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from fighter import Forecaster

from ..tables import tiny, waves
from .small import small

CALLS = 160


def numbers(model: Forecaster) -> np.ndarray:
    return model.predict().drop(columns=["unique_id", "ds"]).to_numpy()


@pytest.fixture(scope="module")
def dropping() -> Forecaster:
    """A fitted model whose forecasts dropout would change at once."""
    return tiny(level=[80], dropout=0.5).fit(waves())


def test_the_network_rests_in_eval_mode_after_fit_and_load(dropping, tmp_path):
    dropping.save(tmp_path / "model")
    loaded = Forecaster.load(tmp_path / "model")
    for model in (dropping, loaded):
        assert not any(module.training for module in model.fitted.network.modules())


def test_forecasts_from_many_threads_are_equal(dropping):
    wanted = numbers(dropping)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: numbers(dropping), range(CALLS)))
    assert sum(not np.array_equal(result, wanted) for result in results) == 0


def test_forecasts_from_asyncio_are_equal(dropping):
    async def gather() -> list[np.ndarray]:
        return await asyncio.gather(*(asyncio.to_thread(numbers, dropping) for _ in range(50)))

    wanted = numbers(dropping)
    assert all(np.array_equal(result, wanted) for result in asyncio.run(gather()))


def test_explanations_and_forecasts_at_the_same_time_do_not_disturb_each_other(dropping):
    wanted = numbers(dropping)
    graph = dropping.explain(unique_id="a", step=2)
    stop, wrong = threading.Event(), []

    def keep_predicting() -> None:
        while not stop.is_set():
            if not np.array_equal(numbers(dropping), wanted):
                wrong.append(1)

    other = threading.Thread(target=keep_predicting)
    other.start()
    try:
        again = [dropping.explain(unique_id="a", step=2) for _ in range(20)]
    finally:
        stop.set()
        other.join()
    assert not wrong
    assert {one.forecast for one in again} == {graph.forecast}


def test_fits_in_threads_keep_their_seeds():
    def fit(seed: int) -> np.ndarray:
        return numbers(tiny(seed=seed, dropout=0.2).fit(waves()))

    alone = [fit(seed) for seed in range(3)]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(fit, range(3)))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("model", ["fighter", "normlin"])
def test_the_number_of_threads_does_not_change_the_weights(model):
    before = torch.get_num_threads()
    try:
        states = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            states.append(small(model).fit(waves()).fitted.network.state_dict())
    finally:
        torch.set_num_threads(before)
    for name, one in states[0].items():
        torch.testing.assert_close(one, states[1][name], rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("operation", ["add", "multiply"])
def test_forecasts_follow_a_shift_and_a_change_of_units(operation, size):
    table = waves()
    changed = table.assign(y=table.y + size if operation == "add" else table.y * size)
    wanted, got = (numbers(tiny(level=[80]).fit(df)) for df in (table, changed))
    got = got - size if operation == "add" else got / size
    # Adding 1e9 leaves values of about 1 with seven digits.
    np.testing.assert_allclose(got, wanted, atol=1e-5 * table.y.std())


def test_one_value_that_moves_by_a_millionth_hardly_moves_the_forecast():
    table = waves()
    changed = table.assign(y=table.y + 1e-6 * (table.index == 50))
    wanted, got = (numbers(tiny().fit(df)) for df in (table, changed))
    np.testing.assert_allclose(got, wanted, atol=1e-5 * table.y.std())


def test_a_time_budget_ends_training_within_an_epoch():
    start = time.monotonic()
    model = tiny(max_epochs=100_000, patience=100_000, time_budget=0.5).fit(waves())
    assert 1 <= len(model.history) < 100_000
    assert time.monotonic() - start < 60
    assert model.history[-1]["lr"] < 0.05 * model.plan.lr
    assert np.isfinite(numbers(model)).all()
