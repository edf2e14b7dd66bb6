"""Fighter: time series forecasting whose model can be read as a graph."""

__version__ = "0.1.0"
