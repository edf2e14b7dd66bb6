"""Why a layer says what it says: its hops measured, and its output split over the edges.

- :mod:`.layer`: what a layer sends along its graph, and the exact share of every edge;
- :mod:`.diagnostics`: a few numbers per hop: how far it reaches, how much it says, what it repeats.
"""

from .diagnostics import HopDiagnostics, diagnose
from .layer import Edges, HopParts, hop_parts, layer_edges

__all__ = ["Edges", "HopDiagnostics", "HopParts", "diagnose", "hop_parts", "layer_edges"]
