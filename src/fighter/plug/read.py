"""Read the graphs of attention with further hops, and what each hop adds."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import FighterError
from ..explain.diagnostics import HopDiagnostics, hop_shares, measure
from ..explain.layer import HopParts
from ..hops import Hop
from ..nn._checks import Graph, Heads
from ..nn.further import FurtherHops
from .replace import plugged


@dataclass(frozen=True, eq=False, repr=False)
class AttentionGraph:
    """What one attention computed: its graph A and the terms A V, A² X W₂, …."""

    name: str
    """Name of the attention in the model."""

    parts: HopParts
    """X, A, and V, X W₂, …, from which :mod:`fighter.explain` computes what it shows."""

    def __repr__(self) -> str:
        batch, heads, nodes, _ = self.graph.shape
        return f"<AttentionGraph {self.name!r}: {batch} × {heads} heads, {nodes} nodes>"

    @property
    def graph(self) -> Graph:
        """A ``[batch, heads, nodes, nodes]``: row j says how much node j takes from each node."""
        return self.parts.graph

    @property
    def powers(self) -> tuple[int, ...]:
        """The powers of A, 1 … κ-1."""
        return self.parts.powers

    def shares(self, mask: Tensor | None = None) -> Tensor:
        """Return the share of each power in the sum ``[heads, powers]``; a head's add up to 1.

        It is the norm of a term divided by the sum of the norms, averaged over the batch.

        Args:
            mask: False at padding ``[batch, nodes]``, whose rows do not count (default: none).
        """
        return hop_shares(self.parts, mask)

    def diagnose(self, mask: Tensor | None = None) -> HopDiagnostics:
        """Measure the hops, as :func:`fighter.explain.diagnose` does; this costs nodes³."""
        return measure(self.parts, mask)


def graphs(model: nn.Module, *inputs: Any, **options: Any) -> list[AttentionGraph]:
    """Run a model and return the graph of each attention with further hops, in their order.

    The model runs in evaluation mode and without gradients. Give it whole sequences: with a
    cache of earlier positions only the rows of the new ones would be known.

    Example:
        >>> import torch
        >>> from fighter.plug import graphs, replace_attention
        >>> layer = torch.nn.TransformerEncoderLayer(16, 4, batch_first=True)
        >>> (first,) = graphs(replace_attention(layer), torch.randn(2, 9, 16))
        >>> first.graph.shape, first.shares().tolist()[0]
        (torch.Size([2, 4, 9, 9]), [1.0, 0.0])

    Args:
        model: a model after :func:`fighter.plug.replace_attention`, with any κ: with κ=2 it is as
            it was, and has graphs too.
        inputs: positional arguments of the model.
        options: named arguments of the model.

    Raises:
        FighterError: the model has no attention with further hops, or a cache holds earlier
            positions.
    """
    names = {module.hops: name for name, module in plugged(model).items()}
    if not names:
        reason = "has no attention with further hops: call replace_attention(model) first"
        raise FighterError(reason, argument="model")
    found: list[AttentionGraph] = []

    def read(hops: Any, args: tuple[Any, ...], _y: Tensor) -> None:
        hop, x, v, *past = args
        if any(getattr(each, "seen", 0) for each in past):
            reason = (
                "holds earlier positions, whose rows of A are not known: pass the whole sequence"
            )
            raise FighterError(reason, argument="past_key_values")
        graph = _graph_of(hop, v)
        weights = cast(FurtherHops, hops).weights()
        values = (v, *hops.blocks(x))
        parts = HopParts(x[:, None], graph, hops.powers, weights, values)
        found.append(AttentionGraph(names[hops], parts))

    with torch.no_grad(), _evaluating(model), _reading([*names], read):
        model(*inputs, **options)
    return found


def _graph_of(hop: Hop, v: Heads) -> Graph:
    """Return A, from its product with the columns of I, as many at a time as V has."""
    nodes, width = v.shape[2:]
    eye = torch.eye(nodes, -(-nodes // width) * width, dtype=v.dtype, device=v.device)
    columns = [hop(part.expand(*v.shape[:2], -1, -1)) for part in eye.split(width, -1)]
    return torch.cat(columns, -1)[..., :nodes]


@contextmanager
def _reading(modules: list[Any], read: Any) -> Iterator[None]:
    handles = [module.register_forward_hook(read) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Switch the modules that are in training mode to evaluation mode, and back at the end."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
