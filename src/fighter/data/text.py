"""Texts to tokens: cleaning, a learned vocabulary, and batches of token ids on the device.

The tokenizer is that of Hugging Face's ``tokenizers`` (the extra ``text``), saved as its own JSON.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from ..errors import FighterError, needs_extra
from .windows import split_batches

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PAD, UNKNOWN = 0, 1
SPECIAL = ["[PAD]", "[UNK]"]  # in the order of the ids above
AT_ONCE = {"cpu": 2**14, "cuda": 2**18}  # most tokens in a forward pass
KINDS = ("word", "subword")

# Character references that lost their ampersand: "it #39;s" or "quot;yes quot;". Names that are
# also English words, such as "int;" and "part;", are left out.
_BARE = re.compile(
    r"(?<![&;\w])(#\d{2,5}|quot|apos|amp|lt|gt|nbsp|hellip|[mn]dash|[lr][sd]quo)(?=;)"
)
_TAG = re.compile(r"</?[a-zA-Z!][^<>]*>")


def clean(text: str) -> str:
    r"""Remove the remains of markup from a text: character references, tags and backslashes.

    >>> clean(r"Intel #39;s &lt;b&gt;chips&lt;/b&gt;\rise")
    "Intel 's  chips  rise"
    """
    mended = html.unescape(html.unescape(_BARE.sub(r"&\1", text)))  # twice, for "&amp;lt;"
    return _TAG.sub(" ", mended).replace("\\", " ")


class Tokens:
    """A vocabulary, which converts texts to the ids of their tokens.

    >>> tokens = Tokens.learn(["the cat sat", "the cat ran"])
    >>> tokens.rows(["The CAT flew"], 4).tolist()  # "flew" is unknown; 0 is padding
    [[3, 2, 1, 0]]
    """

    def __init__(self, tokenizer: "Tokenizer"):
        self.tokenizer = tokenizer
        tokenizer.encode_special_tokens = True  # a text that says "[PAD]" means the word

    @classmethod
    def learn(cls, texts: Sequence[str], kind: str = "word", size: int = 30_000) -> "Tokens":
        """Learn the ``size`` most frequent words, or pieces of words, of the texts.

        Case and accents are dropped; a punctuation mark is a word. With a thousand texts or more,
        words that occur only once are left out.
        """
        if kind not in KINDS:
            raise FighterError(f"needs one of {', '.join(KINDS)}", argument="tokens", value=kind)
        with needs_extra("tokenizers", "text"):
            from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
        common: dict[str, Any] = {
            "vocab_size": size,
            "min_frequency": 2 if len(texts) >= 1000 else 1,
            "special_tokens": SPECIAL,
            "show_progress": False,
        }
        if kind == "word":
            tokenizer = Tokenizer(models.WordLevel(unk_token=SPECIAL[UNKNOWN]))
            tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
            trainer = trainers.WordLevelTrainer(**common)
        else:  # WordPiece would learn other pieces every time
            tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL[UNKNOWN]))
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
            trainer = trainers.BpeTrainer(**common)
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
        )
        tokenizer.train_from_iterator(map(clean, texts), trainer)
        return cls(tokenizer)

    def __len__(self) -> int:
        return self.tokenizer.get_vocab_size()

    def rows(self, texts: Sequence[str], length: int) -> Tensor:
        """Convert texts to token ids ``[texts, length]``.

        A longer text is cut. A text without a token becomes one unknown token.
        """
        ids = np.full((len(texts), length), PAD, np.int32)
        encoded = self.tokenizer.encode_batch_fast([clean(text) for text in texts])
        for i, tokens in enumerate(encoded):
            row = tokens.ids[:length] or [UNKNOWN]
            ids[i, : len(row)] = row
        return torch.from_numpy(ids)

    def to_tensor(self) -> Tensor:
        """Return the tokenizer as bytes, to be saved with the weights."""
        return torch.frombuffer(bytearray(self.tokenizer.to_str().encode()), dtype=torch.uint8)

    @classmethod
    def from_tensor(cls, saved: Tensor) -> "Tokens":
        """Restore a vocabulary from :meth:`to_tensor`."""
        with needs_extra("tokenizers", "text"):
            from tokenizers import Tokenizer
        tokens = cls(Tokenizer.from_str(saved.numpy().tobytes().decode()))
        if max(tokens.tokenizer.get_vocab().values()) >= len(tokens):
            raise ValueError("a token has a number beyond the vocabulary")
        return tokens


class TextBatch(NamedTuple):
    """B texts of S tokens, padded at the end, and the class of each."""

    tokens: Tensor  # int32 [B, S]
    labels: Tensor  # int64 [B]


@dataclass(frozen=True, eq=False)
class Texts:
    """Tokens and classes of many texts, on the device."""

    tokens: Tensor  # int32 [texts, length]
    labels: Tensor  # int64 [texts]

    @property
    def device(self) -> torch.device:
        """Device of the tokens, where batches are made."""
        return self.tokens.device

    @property
    def eval_batch_size(self) -> int:
        """Number of texts to classify together, chosen to bound the memory."""
        most = AT_ONCE.get(self.device.type, AT_ONCE["cpu"])
        return max(most // self.tokens.shape[1], 1)

    def __len__(self) -> int:
        return len(self.tokens)

    def gather(self, index: Tensor) -> TextBatch:
        """Copy the texts number ``index [B]``.

        On CPU the batch is cut to its longest text. On CUDA all batches have the same shape, so
        that a recorded step can be replayed.
        """
        index = index.to(self.device)
        tokens = self.tokens[index]
        if self.device.type == "cpu":
            tokens = tokens[:, : max(int((tokens != PAD).sum(1).max()), 1)]
        return TextBatch(tokens, self.labels[index])

    def batches(self, batch_size: int, generator: Generator | None = None) -> Iterator[Tensor]:
        """Yield index tensors that hold every text once, shuffled if there is a ``generator``."""
        return split_batches(len(self), batch_size, generator, self.device)


def hold_out(labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Draw a ``share`` of each class for validation: bool ``[texts]``.

    Every class keeps at least one text for training.
    """
    rng, held_out = np.random.default_rng(seed), np.zeros(len(labels), bool)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        held_out[rows[: min(round(share * len(rows)), len(rows) - 1)]] = True
    return held_out
