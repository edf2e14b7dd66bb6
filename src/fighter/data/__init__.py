"""Tables to tensors and back: panels, scaling, splits, windows, and known data sets."""

from .buckets import split_table
from .collect import Collection, collect
from .datasets.synthetic import GridLoad, Link, grid_load
from .forecast_table import forecast_table
from .frames import future_values, to_panel
from .frequency import Frequency
from .notes import DataNote
from .panel import Panel, Scheme
from .sampling import SampledWindows
from .scaling import Scaler
from .splits import Split
from .time_axis import TimeAxis
from .windows import Batch, Windows

__all__ = [
    "Batch",
    "Collection",
    "DataNote",
    "Frequency",
    "GridLoad",
    "Link",
    "Panel",
    "SampledWindows",
    "Scaler",
    "Scheme",
    "Split",
    "TimeAxis",
    "Windows",
    "collect",
    "forecast_table",
    "future_values",
    "grid_load",
    "split_table",
    "to_panel",
]
