"""A text classifier: texts in, classes out."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import _storage
from .data.text import KINDS, TextBatch, Texts, Tokens, hold_out
from .errors import FighterError, check_count, check_number
from .estimator import Estimator, resolve_device
from .models.text import BLOCKS, TextNet
from .training import Recipe, World, train
from .training.inference import autocast
from .training.parallel import own_random_state

# Settings that a fitted network is built from; the rest matters only while fitting.
_NETWORK = (
    "model", "kappa", "heads", "width", "layers", "dropout", "word_dropout", "max_length",
)  # fmt: skip


@dataclass(kw_only=True, repr=False, eq=False)
class TextClassifier(Estimator):
    """Classify texts after learning from examples.

    .. code-block:: python

        model = TextClassifier(max_epochs=10).fit(texts, labels)
        model.predict(["Stocks end higher"])          # array(['Business'], …)
        model.predict_proba(["Stocks end higher"])    # one column for each of model.classes_
        model.score(test_texts, test_labels)          # share of texts classified correctly

    Tokens are the nodes of a graph: embedding and position, blocks over the tokens, their mean, and
    a linear map to the classes. ``classes_`` holds the classes in the order of the columns of
    ``predict_proba``. ``history`` holds one record per epoch; its ``validation`` is the share of
    held-out texts that were classified wrongly.

    Args:
        model: kind of block: "fighter", or a baseline: "transformer", "informer", "autoformer",
            "reformer" or "gfsa" (default: "fighter").
        kappa: number of hops κ, the powers 0 … κ-1 of the graph; fighter only (default: 3).
        heads: number of graphs per layer (default: 4).
        width: width of a token (default: 256).
        layers: number of blocks (default: 1).
        dropout: dropout on embeddings, in the blocks and before the last map (default: 0.3).
        word_dropout: share of tokens replaced by the unknown token in training (default: 0.3).
        max_length: number of tokens read of a text; the rest is cut off (default: 96).
        vocabulary: largest number of different tokens (default: 30,000).
        tokens: "subword" for byte-pair encoding, or "word" (default: "subword").
        max_epochs: number of passes over the texts, at most (default: 8).
        batch_size: texts per step, over all processes together (default: 32).
        lr: learning rate at the top of the cosine schedule (default: 0.0003).
        weight_decay: weight decay of AdamW (default: 0.01).
        ema: decay of the moving average of the weights; 0 turns it off (default: 0.999).
        label_smoothing: share of the target spread over all classes (default: 0.1).
        validation: share of each class held out to choose the epoch; 0 keeps the last epoch
            (default: 0.1).
        patience: epochs without a better validation score before early stopping (default: 3).
        seed: the same seed gives the same weights on the same machine (default: 0).
        device: "cpu" or "cuda" (default: a GPU if there is one).
        verbose: show a progress bar (default: True).
    """

    model: str = "fighter"
    kappa: int = 3
    heads: int = 4
    width: int = 256
    layers: int = 1
    dropout: float = 0.3
    word_dropout: float = 0.3
    max_length: int = 96
    vocabulary: int = 30_000
    tokens: str = "subword"
    max_epochs: int = 8
    batch_size: int = 32
    lr: float = 3e-4
    weight_decay: float = 0.01
    ema: float = 0.999
    label_smoothing: float = 0.1
    validation: float = 0.1
    patience: int = 3
    seed: int = 0
    device: str | None = None
    verbose: bool = True

    classes_: np.ndarray = field(init=False, repr=False)
    history: list[dict[str, Any]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._rank = 0  # among the processes that trained together
        for name, known in (("model", BLOCKS), ("tokens", KINDS)):
            if getattr(self, name) not in known:
                raise FighterError(
                    f"needs one of {', '.join(known)}", argument=name, value=getattr(self, name)
                )
        least = {"vocabulary": 3}  # padding, the unknown token, and one to know
        for name in (
            "kappa", "heads", "width", "layers", "max_length", "vocabulary", "max_epochs",
            "batch_size", "patience",
        ):  # fmt: skip
            check_count(name, getattr(self, name), least.get(name, 1))
        for name in ("dropout", "word_dropout", "label_smoothing", "validation"):
            needed = "a share from 0 to below 1"
            check_number(name, getattr(self, name), needed, lambda x: 0 <= x < 1)
        if self.width % self.heads:
            raise FighterError(
                f"does not divide the width {self.width}", argument="heads", value=self.heads
            )

    # ---- fit ------------------------------------------------------------------------------

    def fit(
        self,
        texts: Any,
        labels: Any,
        *,
        folder: str | Path | None = None,
        overwrite: bool = False,
        tensorboard: bool = False,
        distributed: bool = False,
        on_epoch: Callable[[dict[str, Any]], None] | None = None,
    ) -> "TextClassifier":
        """Learn from texts and their classes.

        Args:
            texts: strings, in a list, an array or a Series.
            labels: the class of each text: strings or numbers.
            folder: where to write ``metrics.jsonl``, a checkpoint after every epoch, from which an
                interrupted run resumes, and at the end the model (default: nothing is written).
            overwrite: start again if ``folder`` has a checkpoint of another run (default: refuse).
            tensorboard: also write TensorBoard's files to ``folder``.
            distributed: train together with the other processes of ``torchrun``; rank 0 saves.
            on_epoch: called with the record of each epoch, which it may extend, while the network
                holds the weights of that epoch.
        """
        texts, labels = _strings(texts), _classes(labels)
        _check_pairs(texts, labels)
        world = World.join(self.device) if distributed else World()
        before = vars(self).copy()
        with _storage.training_folder(folder, world, overwrite, tensorboard) as places:
            try:
                self._fit(texts, labels, world=world, on_epoch=on_epoch, **places)
            except BaseException:  # keep what was fitted before
                vars(self).clear()
                vars(self).update(before)
                raise
            self._rank = world.rank
            if folder and world.first:
                _storage.write_folder(Path(folder), *self._pack())
        return self

    def _fit(self, texts: list[str], labels: list, **options: Any) -> None:
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise FighterError(
                f"all {len(labels)} are {labels[0]!r}: needs two classes", argument="labels"
            )
        held, device = hold_out(numbers, self.validation, self.seed), self.torch_device
        trainable = [text for text, out in zip(texts, held, strict=True) if not out]
        self._tokens = Tokens.learn(trainable, self.tokens, int(self.vocabulary))
        self._fixed = {name: _own(getattr(self, name)) for name in _NETWORK}
        rows = self._tokens.rows(texts, self._fixed["max_length"])
        data, validation = (
            Texts(rows[part].to(device), torch.from_numpy(numbers[part]).to(device))
            for part in (~held, held)
        )
        with own_random_state():
            torch.manual_seed(self.seed)
            self.network = self._new_network().to(device)
        self.history = train(
            self.network,
            data,
            validation if len(validation) else None,
            self._recipe(),
            objective=self._objective,
            measure=_errors,
            verbose=self.verbose,
            settings=f"{self._fixed} label_smoothing={self.label_smoothing}",
            **options,
        )

    def _new_network(self) -> TextNet:
        return TextNet(len(self._tokens), len(self.classes_), **self._fixed)

    def _recipe(self) -> Recipe:
        return Recipe(
            epochs=int(self.max_epochs),
            batch_size=int(self.batch_size),
            lr=self.lr,
            weight_decay=self.weight_decay,
            ema=self.ema,
            patience=int(self.patience),
            seed=int(self.seed),
        )

    def _objective(self, network: nn.Module, batch: TextBatch) -> tuple[Tensor, Tensor]:
        loss = F.cross_entropy(
            network(batch.tokens).float(),
            batch.labels,
            reduction="sum",
            label_smoothing=self.label_smoothing,
        )
        return loss, loss.new_full((), len(batch.labels))

    # ---- predict --------------------------------------------------------------------------

    def predict(self, texts: Any) -> np.ndarray:
        """Return the most probable class of each text."""
        best = self.predict_proba(texts).argmax(1)
        return self.classes_[best]

    @torch.no_grad()
    def predict_proba(self, texts: Any) -> np.ndarray:
        """Return probabilities ``[texts, classes]``, with columns as in ``classes_``."""
        self._check_fitted()
        rows = self._tokens.rows(_strings(texts), self._fixed["max_length"]).to(self.torch_device)
        data = Texts(rows, rows.new_zeros(len(rows)))
        logits = [torch.zeros(0, len(self.classes_))]  # of no text
        for index in data.batches(data.eval_batch_size):
            with autocast(data.device):
                logits.append(self.network(data.gather(index).tokens).float().cpu())
        return torch.cat(logits).double().softmax(1).numpy()

    def score(self, texts: Any, labels: Any) -> float:
        """Return the share of texts that are classified correctly."""
        self._check_fitted()
        texts, labels = _strings(texts), _classes(labels)
        _check_pairs(texts, labels)
        found = self.predict(texts).tolist()
        return float(np.mean([a == b for a, b in zip(found, labels, strict=True)]))

    def _check_fitted(self) -> None:
        if not hasattr(self, "network"):
            raise FighterError("this classifier has not been fitted: call fit, or load a model")

    # ---- save and load --------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write ``config.json`` and ``model.safetensors``, replacing a model saved there."""
        if self._rank == 0:  # of processes that trained together, the others do nothing
            _storage.save_folder(Path(folder), *self._pack())

    def _pack(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the config (fit for JSON) and the tensors of a fitted classifier."""
        self._check_fitted()
        config = {
            "estimator": type(self).__name__,
            "settings": self.get_params() | self._fixed,
            "classes": self.classes_.tolist(),
        }
        tensors = _storage.to_tensors("network", self.network.state_dict())
        return config, tensors | {"tokens": self._tokens.to_tensor()}

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = "cpu") -> "TextClassifier":
        """Load a saved model, on the CPU by default."""
        where = resolve_device(device)
        with _storage.loading(Path(folder), cls) as (config, tensors):
            model = cls(**config["settings"] | {"device": device})
            _storage.check_types(model)
            model._fixed = {name: getattr(model, name) for name in _NETWORK}
            if not all(isinstance(label, str | int | float) for label in config["classes"]):
                raise TypeError("a class is neither a text nor a number")
            model.classes_ = np.array(config["classes"])
            if model.classes_.tolist() != np.unique(model.classes_).tolist():
                raise ValueError("the classes are not in order")
            model._tokens = Tokens.from_tensor(tensors["tokens"])
            weights = _storage.strip_prefix("network", tensors)
            _storage.check_finite(weights)
            model.network = _storage.rebuild(model._new_network, model._fixed, weights)
            model.history = []
        model.network.to(where).eval()
        return model


def _errors(network: nn.Module, batch: TextBatch) -> tuple[Tensor, Tensor]:
    """Count the texts that are classified wrongly."""
    wrong = network(batch.tokens).argmax(-1) != batch.labels
    return wrong.sum(), torch.full_like(wrong.sum(), len(wrong))


def _own(value: Any) -> Any:
    """Convert a numpy value to Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def _listed(name: str, values: Any) -> list:
    """Return a list, array, Series or column as a list of Python's own values."""
    if isinstance(values, str | bytes | dict) or not hasattr(values, "__iter__"):
        raise FighterError(
            f"is {type(values).__name__} {values!r:.60}: needs a list", argument=name
        )
    if getattr(values, "ndim", 1) != 1 or hasattr(values, "columns"):
        raise FighterError("is a table or has several axes: needs one column", argument=name)
    for method in ("tolist", "to_list", "to_pylist"):  # numpy and pandas, polars, pyarrow
        if hasattr(values, method):
            return getattr(values, method)()
    return list(values)


def _strings(texts: Any) -> list[str]:
    texts = _listed("texts", texts)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise FighterError(
                f"number {i} is {text!r} ({type(text).__name__}): needs a string", argument="texts"
            )
    return texts


def _classes(labels: Any) -> list:
    labels = [_own(label) for label in _listed("labels", labels)]
    for i, label in enumerate(labels):
        if not isinstance(label, str | int | float) or label != label:
            raise FighterError(
                f"number {i} is {label!r} ({type(label).__name__}): needs a string or a number",
                argument="labels",
            )
        if isinstance(label, str) != isinstance(labels[0], str):
            raise FighterError(
                f"number 0 is {labels[0]!r} and number {i} is {label!r}: needs all strings, or all "
                "numbers",
                argument="labels",
            )
    return labels


def _check_pairs(texts: list[str], labels: list) -> None:
    if not texts:
        raise FighterError("is empty: needs at least one text", argument="texts")
    if len(texts) != len(labels):
        raise FighterError(
            f"there are {len(labels)} for {len(texts)} texts: needs one for each", argument="labels"
        )
