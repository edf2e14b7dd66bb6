"""Static covariates with many categories: a learned vector for each."""

import numpy as np
import pandas as pd
import pytest
import torch

from fighter import Forecaster
from fighter.models.network import CategoryVectors

from ..tables import waves
from .small import small

IDS = tuple(f"shop {i}" for i in range(24))


def shops(rows: int = 60) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return series that differ by the town of their shop, and a table of twelve towns."""
    static = pd.DataFrame({"unique_id": IDS, "town": [f"town {i % 12}" for i in range(24)]})
    return waves(rows, IDS), static


@pytest.fixture(scope="module")
def model() -> Forecaster:
    df, static = shops()
    return small("linear", cycle=None, max_epochs=3).fit(df, static=static)


def test_a_column_of_many_categories_is_numbered(model):
    panel = model.fitted.context
    assert panel.static_names == ("town",)
    assert panel.numbered == {"town": 12}
    assert panel.static[:3, 0].tolist() == [1, 2, 5]  # in the order of text: 0, 1, 10, 11, 2
    assert model.fitted.network.covariates.vectors["0"].weight.shape == (12, 4)
    df, static = shops()
    few = static.assign(town=[f"town {i % 6}" for i in range(24)])
    assert small("linear").read(df, static=few).static.shape[1] == 6


def test_the_vectors_are_learned_and_used(model):
    df, static = shops()
    moved = static.assign(town=static.town.replace({"town 0": "town 7"}))
    plain, other = (model.predict(df, static=s) for s in (static, moved))
    same = ~plain.unique_id.isin(["shop 0", "shop 12"])
    assert np.allclose(plain[same].iloc[:, 2], other[same].iloc[:, 2])
    assert not np.allclose(plain[~same].iloc[:, 2], other[~same].iloc[:, 2], atol=1e-6)


def test_a_new_category_has_the_mean_vector(model):
    df, static = shops()
    with pytest.warns(UserWarning, match="'nowhere', which training did not") as caught:
        forecast = model.predict(df, static=static.assign(town="nowhere"))
    assert len(caught) == 1
    assert forecast.notna().all().all()
    vectors = CategoryVectors(3)
    mean, first = vectors(torch.tensor([0.0, 1.0]))
    assert np.allclose(mean.detach(), vectors.weight.mean(0).detach())
    assert np.allclose(first.detach(), vectors.weight[0].detach())


def test_it_is_explained_exactly_saved_and_read_again(model, tmp_path):
    graph = model.explain(unique_id="shop 3", step=2)
    assert sum(graph.terms.values()) + graph.sources.sum() == pytest.approx(
        graph.forecast, abs=1e-5
    )
    assert graph.terms["covariates"] != 0
    model.save(tmp_path)
    loaded = Forecaster.load(tmp_path)
    df, static = shops()
    pd.testing.assert_frame_equal(loaded.predict(), model.predict())
    pd.testing.assert_frame_equal(
        loaded.predict(df, static=static), model.predict(df, static=static)
    )
