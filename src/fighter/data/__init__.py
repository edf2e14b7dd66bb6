"""Tables to tensors and back: panels, frames, scaling, splits, windows, and known data sets."""

from .axis import TimeAxis
from .forecast_table import forecast_table
from .frames import future_values, to_panel
from .frequency import Frequency
from .grid_load import GridLoad, Link, grid_load
from .panel import Panel, Scheme
from .scaling import Scaler
from .splits import Split
from .windows import Batch, Windows

__all__ = [
    "Batch",
    "Frequency",
    "GridLoad",
    "Link",
    "Panel",
    "Scaler",
    "Scheme",
    "Split",
    "TimeAxis",
    "Windows",
    "forecast_table",
    "future_values",
    "grid_load",
    "to_panel",
]
