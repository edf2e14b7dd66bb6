"""Small forecasters of every model."""

from dataclasses import fields

import pytest

from fighter import Forecaster
from fighter.models import MODELS

from ..tables import tiny

all_new = pytest.mark.filterwarnings("ignore:no series of this table")
SIZES = {"width": 16, "heads": 2, "layers": 1}


def small(model: str, horizon: int = 6, lookback: int | None = 12, **settings) -> Forecaster:
    """Return a forecaster like ``tiny``, with those of its sizes that the model has."""
    names = {f.name for f in fields(MODELS[model])}
    sizes = {name: value for name, value in SIZES.items() if name in names}
    quick = {"max_epochs": 2, "batch_size": 16, "verbose": False, "device": "cpu"}
    given = {**quick, **sizes, **settings}
    return Forecaster.from_flat(horizon=horizon, lookback=lookback, model=model, **given)


__all__ = ["all_new", "small", "tiny"]
