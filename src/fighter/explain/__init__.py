"""Explain what a network computed: split its output exactly over its input and over its edges.

- :mod:`.freeze`: a network as the affine map that it is at one input;
- :mod:`.layer`: the terms of one layer, and the exact share of every edge;
- :mod:`.trace`: one number of a network's output, followed back to the input;
- :mod:`.window`: the same for a forecast, with its normalisation and cycle;
- :mod:`.graph`: the result for people, a :class:`TemporalGraph` with tables and pictures;
- :mod:`.diagnostics`: a few numbers per hop: how far it reaches, how large it is, what it repeats;
- :mod:`.findings`: sentences about these numbers, and the thresholds behind them;
- :mod:`.page`: an HTML page of explained forecasts.

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
    "THRESHOLDS",
    "Edges",
    "Frozen",
    "HopDiagnostics",
    "HopParts",
    "LayerGraph",
    "LayerTrace",
    "LazyDiagnostics",
    "TemporalGraph",
    "Threshold",
    "Trace",
    "WindowTrace",
    "describe_forecast",
    "describe_graph",
    "describe_layer",
    "diagnose",
    "hop_parts",
    "layer_edges",
    "measure",
    "trace",
    "trace_window",
    "trace_windows",
    "traces",
]
