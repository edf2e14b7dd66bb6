"""Small forecasters of every model."""

from fighter import Forecaster
from fighter.models import core_options

from ..tables import tiny


def small(model: str, *sizes: int, **settings) -> Forecaster:
    """As ``tiny``, with those of its settings that the model has."""
    unknown = {"width", "heads", "layers"} - core_options(model).keys()
    return tiny(*sizes, **{"model": model, **dict.fromkeys(unknown), **settings})
