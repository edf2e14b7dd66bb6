"""Explain what a network computed: split its output exactly over its input and over its edges.

:meth:`fighter.Forecaster.explain` returns a :class:`TemporalGraph`. For a network of your own, call
:func:`trace` (any output), :func:`layer_edges` (one layer) or :func:`diagnose` (its hops).
"""

from .diagnostics import HopDiagnostics, LazyDiagnostics, diagnose, measure
from .findings import THRESHOLDS, Threshold, describe_forecast, describe_graph, describe_layer
from .freeze import Frozen
from .graph import LayerGraph, TemporalGraph
from .layer import Edges, HopParts, hop_parts, layer_edges
from .trace import LayerTrace, Trace, trace, traces
from .window import WindowTrace, trace_window, trace_windows

__all__ = [
    "THRESHOLDS", "Edges", "Frozen", "HopDiagnostics", "HopParts", "LayerGraph", "LayerTrace",
    "LazyDiagnostics", "TemporalGraph", "Threshold", "Trace", "WindowTrace", "describe_forecast",
    "describe_graph", "describe_layer", "diagnose", "hop_parts", "layer_edges", "measure", "trace",
    "trace_window", "trace_windows", "traces",
]  # fmt: skip
