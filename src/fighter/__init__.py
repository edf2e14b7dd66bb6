"""Fighter: time series forecasting whose model can be read as a graph."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import errors, nn
    from .classifier import TextClassifier
    from .errors import FighterError
    from .forecasting.forecaster import Forecaster
    from .hops import multi_hop

__version__ = "0.1.0"
__all__ = ["FighterError", "Forecaster", "TextClassifier", "errors", "multi_hop", "nn"]

_HOMES = {
    "FighterError": ".errors",
    "Forecaster": ".forecasting.forecaster",
    "TextClassifier": ".classifier",
    "multi_hop": ".hops",
}


def __getattr__(name: str) -> Any:
    """Import names when they are first asked for, so that ``fighter --help`` need not wait."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_HOMES.get(name, f".{name}"), __name__)
    return getattr(module, name) if name in _HOMES else module
