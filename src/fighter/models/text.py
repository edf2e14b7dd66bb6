"""A network for texts: rows of token ids in, one logit per class out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._typing import Float, Int
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
    """The sizes that a block is built from; a block uses those that it has."""

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
        size.width, size.width, norm=True, residual=True, activation="gelu", **size.common
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
# The result of these blocks depends on the number of nodes, padding included. They always get the
# same number, so that the class of a text does not depend on the other texts of its batch.
BY_LENGTH = ("informer", "autoformer", "reformer")


class TextNet(nn.Module):
    """Tokens as nodes of a graph, whose mean is classified.

    .. code-block:: text

        X = dropout(E[tokens] + P)            E: a vector per token, P: one per position
        X = block(X) for each block           padding is masked out
        Y = dropout(mean over tokens of X) W + b

    In training a share of the tokens is replaced by the unknown token, so that no single word
    decides and the model learns to handle unknown words.

    Args:
        vocabulary: number of tokens.
        classes: number of classes.
        max_length: largest number of tokens of a text (default: 96).
        model: the kind of block, one of ``BLOCKS`` (default: "fighter").
        kappa: number of blocks κ of a Fighter layer (default: 3).
        heads: graphs of each block (default: 4).
        width: width of a token (default: 256).
        layers: number of blocks (default: 1).
        dropout: dropout in the blocks, of the embedding and before the head (default: 0.3).
        word_dropout: share of tokens that are replaced in training (default: 0.1).
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
            raise FighterError(f"needs one of {', '.join(BLOCKS)}", argument="model", value=model)
        self.word_dropout = word_dropout
        self.shortest = max_length if model in BY_LENGTH else 1
        self.embed = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(0.02 * torch.randn(max_length, width))
        # Small, so that a rare word counts little until it has been learned.
        nn.init.normal_(self.embed.weight, std=0.02)
        size = Size(width, heads, dropout, kappa)
        self.blocks = nn.ModuleList(BLOCKS[model](size) for _ in range(layers))
        # Autoformer removes moving averages, which leaves hardly any mean; an activation has one.
        self.activation = nn.GELU() if model == "autoformer" else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: Int[Tensor, "batch nodes"]) -> Float[Tensor, "batch classes"]:
        """Map token ids to logits; a text needs at least one token."""
        tokens = F.pad(tokens, (0, max(self.shortest - tokens.shape[1], 0)), value=PAD)
        mask = tokens != PAD
        if self.training and self.word_dropout:
            dropped = torch.rand(tokens.shape, device=tokens.device) < self.word_dropout
            tokens = tokens.masked_fill(dropped & mask, UNKNOWN)
        x = self.dropout(self.embed(tokens) + self.position[: tokens.shape[1]])
        for block in self.blocks:
            x = block(x, mask)
        total = self.activation(x).masked_fill(~mask[..., None], 0).sum(1)
        return self.head(self.dropout(total / mask.sum(1, keepdim=True)))
