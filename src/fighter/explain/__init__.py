"""Why a layer says what it says: its hops measured, and its output split over the edges.

- :mod:`.freeze`: any network as the affine map that it is at one input;
- :mod:`.layer`: what a layer sends along its graph, and the exact share of every edge;
- :mod:`.trace`: one number of a network's output, followed back over every layer to the input;
- :mod:`.window`: the same for a forecast, its normalisation and cycle included;
- :mod:`.graph`: what comes out of it, for people;
- :mod:`.diagnostics`: a few numbers per hop: how far it reaches, how much it says, what it repeats;
- :mod:`.reading`: what they mean, in sentences, and from where on;
- :mod:`.figures`: pictures of all that, in panels of :mod:`.panels`.
"""

from .diagnostics import HopDiagnostics, Measured, diagnose, measure
from .findings import THRESHOLDS, read, read_layer
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
    "Measured",
    "TemporalGraph",
    "Trace",
    "WindowTrace",
    "diagnose",
    "hop_parts",
    "layer_edges",
    "measure",
    "read",
    "read_layer",
    "trace",
    "trace_window",
    "trace_windows",
    "traces",
]
