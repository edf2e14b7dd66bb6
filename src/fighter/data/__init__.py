"""Tables to tensors and back: panels, frames, scaling, splits, windows, and known data sets."""

from fighter.data.axis import TimeAxis
from fighter.data.forecast_table import forecast_table
from fighter.data.frames import future_values, to_panel
from fighter.data.frequency import Frequency
from fighter.data.grid_load import GridLoad, Link, grid_load
from fighter.data.panel import Panel, Scheme
from fighter.data.scaling import Scaler
from fighter.data.splits import Split
from fighter.data.windows import Batch, Windows

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
