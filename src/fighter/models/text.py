"""A network for texts: rows of token ids in, one logit per class out."""

from collections.abc import Callable, Mapping
from functools import partial

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
from .transformer import PRE_NORM

# name -> a block over tokens, called as block(x, mask)
BLOCKS: Mapping[str, Callable[..., nn.Module]] = {
    "fighter": partial(FighterLayer, norm=True, residual=True),
    "transformer": lambda width, **sizes: TransformerBlock(width, width, **PRE_NORM, **sizes),
    "informer": InformerBlock,
    "autoformer": AutoformerBlock,
    "reformer": partial(ReformerBlock, rounds=2),
    "gfsa": GFSABlock,
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
    decides and the model learns to handle unknown words. The options are those of the classifier.
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
        own = {"kappa": kappa} if model == "fighter" else {"hidden_width": 4 * width}
        sizes = {"width": width, "heads": heads, "dropout": dropout, **own}
        self.blocks = nn.ModuleList(BLOCKS[model](**sizes) for _ in range(layers))
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
