"""Fighter: time series forecasting whose model can be read as a graph."""

from . import errors, nn
from .errors import FighterError
from .forecaster import Forecaster
from .hops import multi_hop

__version__ = "0.1.0"
__all__ = ["FighterError", "Forecaster", "errors", "multi_hop", "nn"]
