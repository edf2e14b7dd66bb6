"""Fighter: time series forecasting whose model can be read as a graph."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import errors, explain, hierarchy, models, nn, plug
    from .classifier import TextClassifier
    from .errors import DataWarning, FighterError
    from .explain import Network, TemporalGraph
    from .forecasting.config import Frame, Training
    from .forecasting.forecast import Forecast
    from .forecasting.forecaster import Forecaster
    from .hops import multi_hop

__version__ = "0.2.0"
__all__ = [
    "DataWarning",
    "FighterError",
    "Forecast",
    "Forecaster",
    "Frame",
    "Network",
    "TemporalGraph",
    "TextClassifier",
    "Training",
    "errors",
    "explain",
    "hierarchy",
    "models",
    "multi_hop",
    "nn",
    "plug",
]

_HOMES = {
    "DataWarning": ".errors",
    "FighterError": ".errors",
    "Forecast": ".forecasting.forecast",
    "Forecaster": ".forecasting.forecaster",
    "Frame": ".forecasting.config",
    "Network": ".explain",
    "TemporalGraph": ".explain",
    "TextClassifier": ".classifier",
    "Training": ".forecasting.config",
    "multi_hop": ".hops",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that ``fighter --help`` starts quickly."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_HOMES.get(name, f".{name}"), __name__)
    return getattr(module, name) if name in _HOMES else module


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})
