"""A network for texts: rows of token ids in, one number per class out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._typing import Float
from ..data.text import PAD, UNKNOWN
from ..errors import FighterError
from ..nn import FighterLayer
from ..nn.transformer import TransformerBlock
from .autoformer import AutoformerBlock
from .gfsa import GFSABlock
from .informer import InformerBlock
from .reformer import ReformerBlock


@dataclass(frozen=True)
class Size:
    """What a block is built from; a block takes what it knows."""

    width: int
    heads: int
    dropout: float
    kappa: int

    @property
    def common(self) -> dict[str, Any]:
        """The arguments that all baselines share."""
        return {"heads": self.heads, "hidden_width": 4 * self.width, "dropout": self.dropout}


def _fighter(size: Size) -> nn.Module:
    return FighterLayer(
        size.width,
        kappa=size.kappa,
        heads=size.heads,
        norm=True,
        residual=True,
        dropout=size.dropout,
    )


def _transformer(size: Size) -> nn.Module:
    return TransformerBlock(
        size.width,
        size.width,
        query_width=size.width,
        value_width=size.width,
        norm=True,
        residual=True,
        activation="gelu",
        bias=True,
        scale=None,
        **size.common,
    )


# name -> a block over tokens, called as block(x, mask)
BLOCKS: Mapping[str, Callable[[Size], nn.Module]] = {
    "fighter": _fighter,
    "transformer": _transformer,
    "informer": lambda size: InformerBlock(size.width, **size.common),
    "autoformer": lambda size: AutoformerBlock(size.width, **size.common),
    "reformer": lambda size: ReformerBlock(size.width, rounds=2, **size.common),
    "gfsa": lambda size: GFSABlock(size.width, **size.common),
}
# These choose how sparse they are, or count delays, by the number of nodes with the padding. They
# are always given the same number, or the class of a text would depend on the texts beside it.
BY_LENGTH = ("informer", "autoformer", "reformer")


class TextNet(nn.Module):
    """Tokens as nodes of a graph, and the mean of what they say.

    .. code-block:: text

        X = dropout(E[tokens] + P)            E: a vector per token, P: one per position
        X = block(X) for each block           padding is masked out
        Y = dropout(mean over tokens of X) W + b

    In training a share of the tokens is read as unknown ones, so that no word alone decides, and
    so that the model knows what to do with a word it does not know.

    Args:
        vocabulary: number of tokens.
        classes: numbers to give out.
        max_length: positions there are.
        model: the kind of block, one of ``BLOCKS``.
        width, heads, layers, dropout, kappa: of the blocks.
        word_dropout: share of tokens that are read as unknown in training.
    """

    def __init__(
        self,
        vocabulary: int,
        classes: int,
        *,
        max_length: int = 96,
        model: str = "fighter",
        kappa: int = 3,
        heads: int = 4,
        width: int = 256,
        layers: int = 1,
        dropout: float = 0.3,
        word_dropout: float = 0.1,
    ):
        super().__init__()
        if model not in BLOCKS:
            raise FighterError(f"model={model!r}: needs one of {', '.join(BLOCKS)}")
        self.word_dropout = word_dropout
        self.least = max_length if model in BY_LENGTH else 1
        self.embed = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(0.02 * torch.randn(max_length, width))
        # Small: what a rare word says stays near nothing until it has been learned.
        nn.init.normal_(self.embed.weight, std=0.02)
        size = Size(width, heads, dropout, kappa)
        self.blocks = nn.ModuleList(BLOCKS[model](size) for _ in range(layers))
        # Autoformer takes moving averages out, and what is left has next to no mean: that of an
        # activation has.
        self.activation = nn.GELU() if model == "autoformer" else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Float[Tensor, "batch classes"]:
        """Ids ``[batch, nodes]`` to logits; a text needs one token at least."""
        tokens = F.pad(tokens, (0, max(self.least - tokens.shape[1], 0)), value=PAD)
        mask = tokens != PAD
        if self.training and self.word_dropout:
            lost = torch.rand(tokens.shape, device=tokens.device) < self.word_dropout
            tokens = tokens.masked_fill(lost & mask, UNKNOWN)
        x = self.dropout(self.embed(tokens) + self.position[: tokens.shape[1]])
        for block in self.blocks:
            x = block(x, mask)
        mean = self.activation(x).masked_fill(~mask[..., None], 0).sum(1) / mask.sum(
            1, keepdim=True
        )
        return self.head(self.dropout(mean))
