"""Explain what a network computed: split its output exactly over its input and over its edges.

:meth:`fighter.Forecaster.explain` returns a :class:`TemporalGraph`. For a network of your own, call
:func:`trace` (any output), :func:`layer_edges` (one layer) or :func:`diagnose` (its hops).
"""

from .diagnostics import HopDiagnostics, LazyDiagnostics, diagnose, measure
from .findings import THRESHOLDS, Threshold, describe_forecast, describe_graph, describe_layer
from .freeze import KINDS, Frozen
from .graph import LayerGraph, TemporalGraph
from .layer import Edges, HopParts, hop_parts, layer_edges
from .network import Network
from .trace import LayerTrace, Trace, trace, traces
from .window import Mix, WindowTrace, trace_window, trace_windows

__all__ = [
    "KINDS", "THRESHOLDS", "Edges", "Frozen", "HopDiagnostics", "HopParts", "LayerGraph",
    "LayerTrace", "LazyDiagnostics", "Mix", "Network", "TemporalGraph", "Threshold", "Trace",
    "WindowTrace", "describe_forecast", "describe_graph", "describe_layer", "diagnose",
    "hop_parts", "layer_edges", "measure", "trace", "trace_window", "trace_windows", "traces",
]  # fmt: skip
