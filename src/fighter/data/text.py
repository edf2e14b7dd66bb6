"""Texts to tokens: cleaning, a vocabulary learned from texts, and rows of token ids on the device.

The tokenizer is Hugging Face's ``tokenizers`` (the extra ``text``), kept as its own JSON.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import FighterError, needs_extra

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PAD, UNKNOWN = 0, 1
SPECIAL = ["[PAD]", "[UNK]"]  # in the order of the ids above
AT_ONCE = {"cpu": 2**14, "cuda": 2**18}  # tokens in a forward pass
KINDS = ("word", "subword")

# Character references that lost their ampersand on the way, "it #39;s" or "quot;yes quot;". By name
# only those that are no English words: "int;" and "part;" are references too.
_BARE = re.compile(
    r"(?<![&;\w])(#\d{2,5}|quot|apos|amp|lt|gt|nbsp|hellip|[mn]dash|[lr][sd]quo)(?=;)"
)
_TAG = re.compile(r"</?[a-zA-Z!][^<>]*>")


def clean(text: str) -> str:
    r"""A text without the remains of its markup: references, tags and backslashes.

    >>> clean(r"Intel #39;s &lt;b&gt;chips&lt;/b&gt;\rise")
    "Intel 's  chips  rise"
    """
    mended = html.unescape(html.unescape(_BARE.sub(r"&\1", text)))  # "&amp;lt;" is met too
    return _TAG.sub(" ", mended).replace("\\", " ")


class Tokens:
    """A vocabulary, and the way from a text to the ids of its tokens.

    >>> tokens = Tokens.learn(["the cat sat", "the cat ran"])
    >>> tokens.rows(["The CAT flew"], 4).tolist()  # flew is not known; 0 pads
    [[3, 2, 1, 0]]
    """

    def __init__(self, tokenizer: "Tokenizer"):
        self.tokenizer = tokenizer
        tokenizer.encode_special_tokens = True  # a text that says "[PAD]" means the word

    @classmethod
    def learn(cls, texts: Sequence[str], kind: str = "word", size: int = 30_000) -> "Tokens":
        """The ``size`` most frequent words of the texts, or pieces of words.

        Upper case and accents are not kept. A punctuation mark is a word. Of a thousand texts and
        more, what comes only once is left out: it says nothing of other texts.
        """
        if kind not in KINDS:
            raise FighterError(f"tokens={kind!r}: needs one of {', '.join(KINDS)}")
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
        else:  # not WordPiece, which learns other pieces every time
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
        """Ids ``[texts, length]``: a longer text is cut, a text without a token is one unknown."""
        ids = np.full((len(texts), length), PAD, np.int32)
        for i, found in enumerate(self.tokenizer.encode_batch_fast([clean(t) for t in texts])):
            row = found.ids[:length] or [UNKNOWN]
            ids[i, : len(row)] = row
        return torch.from_numpy(ids)

    def to_tensor(self) -> Tensor:
        """All of it as bytes, to be kept beside weights."""
        return torch.frombuffer(bytearray(self.tokenizer.to_str().encode()), dtype=torch.uint8)

    @classmethod
    def from_tensor(cls, kept: Tensor) -> "Tokens":
        """The other way."""
        with needs_extra("tokenizers", "text"):
            from tokenizers import Tokenizer
        return cls(Tokenizer.from_str(kept.numpy().tobytes().decode()))


class TextBatch(NamedTuple):
    """B texts of S tokens, padded at the end, and the number of the class of each."""

    tokens: Tensor  # int32 [B, S]
    labels: Tensor  # int64 [B]


@dataclass(frozen=True, eq=False)
class Texts:
    """Tokens of many texts on the device, and their classes."""

    tokens: Tensor  # int32 [texts, length]
    labels: Tensor  # int64 [texts]

    @property
    def device(self) -> torch.device:
        """Where batches come from."""
        return self.tokens.device

    @property
    def eval_batch_size(self) -> int:
        """How many texts to classify together, to bound the memory."""
        most = AT_ONCE.get(self.device.type, AT_ONCE["cpu"])
        return max(most // self.tokens.shape[1], 1)

    def __len__(self) -> int:
        return len(self.tokens)

    def gather(self, index: Tensor) -> TextBatch:
        """Copy the texts number ``index [B]``.

        On CPU the batch is cut to its longest text. Elsewhere all batches have one shape: it costs
        little, and a step can be recorded once and played again.
        """
        index = index.to(self.device)
        tokens = self.tokens[index]
        if self.device.type == "cpu":
            tokens = tokens[:, : max(int((tokens != PAD).sum(1).max()), 1)]
        return TextBatch(tokens, self.labels[index])

    def batches(
        self, batch_size: int, generator: torch.Generator | None = None
    ) -> Iterator[Tensor]:
        """Give index tensors that hold every text once, shuffled if there is a ``generator``."""
        if generator is None:
            order = torch.arange(len(self))
        else:
            order = torch.randperm(len(self), generator=generator, device=generator.device)
        if len(self):  # split would give one empty batch of none
            yield from order.to(self.device).split(batch_size)


def hold_out(labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    """True at a ``share`` of each class, drawn by ``seed``; every class keeps one text at least."""
    draw, held = np.random.default_rng(seed), np.zeros(len(labels), bool)
    for label in np.unique(labels):
        places = draw.permutation(np.flatnonzero(labels == label))
        held[places[: min(round(share * len(places)), len(places) - 1)]] = True
    return held
