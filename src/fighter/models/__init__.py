"""Forecasting networks: a batch of windows in, ``[batch, horizon, series, outputs]`` out.

A core maps the normalised past to the normalised future; :class:`ForecastNet` puts the same
normalisation, cycle and covariates around every core, so that cores can be compared.
"""

from .base import Core, Task
from .network import ForecastNet
from .registry import CORES, build_core, core_options

__all__ = ["CORES", "Core", "ForecastNet", "Task", "build_core", "core_options"]
