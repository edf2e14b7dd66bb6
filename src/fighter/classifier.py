"""Texts in, classes out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import storage
from .data.text import KINDS, TextBatch, Texts, Tokens, hold_out
from .errors import FighterError
from .estimator import Estimator
from .models.text import BLOCKS, TextNet
from .training import Recipe, World, remove_checkpoint, train
from .training.inference import autocast

# Settings that a fitted network is built from; the rest matters only while fitting.
_NETWORK = (
    "model", "kappa", "heads", "width", "layers", "dropout", "word_dropout", "max_length",
)  # fmt: skip


class TextClassifier(Estimator):
    """Classes of texts, learned from examples.

    .. code-block:: python

        model = TextClassifier(max_epochs=10).fit(texts, labels)
        model.predict(["Stocks end higher"])          # array(['Business'], …)
        model.predict_proba(["Stocks end higher"])    # one column for each of model.classes_
        model.score(test_texts, test_labels)          # share that is right

    Tokens are the nodes of a graph: embedding and position, blocks over the tokens, their mean, and
    a linear map to the classes. ``history`` holds a record per epoch; its ``validation`` is the
    share of held-out texts that were classed wrongly.

    Args:
        model: the kind of block: ``"fighter"``, or a baseline: ``"transformer"``, ``"informer"``,
            ``"autoformer"``, ``"reformer"``, ``"gfsa"``.
        kappa: number of blocks κ, the powers 0 … κ-1 of the graph (fighter only).
        heads, width, layers: size of the network.
        dropout: on embeddings, in the blocks and before the last map.
        word_dropout: share of tokens that are read as unknown ones in training.
        max_length: tokens that are read of a text; the rest is cut off.
        vocabulary: number of different tokens, at most.
        tokens: ``"subword"`` for pieces of words (byte-pair encoding), or ``"word"``.
        max_epochs, batch_size, lr, weight_decay, ema, patience: how to train, see
            :class:`fighter.training.Recipe`.
        label_smoothing: share of the target that is spread over all classes.
        validation: share of each class that is held out to choose the epoch; 0 for none, which
            keeps the last one.
        seed: the same seed on the same machine gives the same weights.
        device: ``"cpu"``, ``"cuda"``, …; a GPU if there is one, unless given.
        verbose: show one progress bar.
    """

    classes_: np.ndarray
    """The classes, in the order of ``predict_proba``'s columns."""

    history: list[dict[str, Any]]

    def __init__(
        self,
        *,
        model: str = "fighter",
        kappa: int = 3,
        heads: int = 4,
        width: int = 256,
        layers: int = 1,
        dropout: float = 0.3,
        word_dropout: float = 0.3,
        max_length: int = 96,
        vocabulary: int = 30_000,
        tokens: str = "subword",
        max_epochs: int = 8,
        batch_size: int = 32,
        lr: float = 3e-4,
        weight_decay: float = 0.01,
        ema: float = 0.999,
        label_smoothing: float = 0.1,
        validation: float = 0.1,
        patience: int = 3,
        seed: int = 0,
        device: str | None = None,
        verbose: bool = True,
    ):
        self.model, self.kappa, self.heads, self.width = model, kappa, heads, width
        self.layers, self.dropout, self.word_dropout = layers, dropout, word_dropout
        self.max_length, self.vocabulary, self.tokens = max_length, vocabulary, tokens
        self.max_epochs, self.batch_size, self.lr = max_epochs, batch_size, lr
        self.weight_decay, self.ema = weight_decay, ema
        self.label_smoothing, self.validation = label_smoothing, validation
        self.patience, self.seed, self.device, self.verbose = patience, seed, device, verbose
        self._check()

    def _check(self) -> None:
        for name, known in (("model", BLOCKS), ("tokens", KINDS)):
            if getattr(self, name) not in known:
                raise FighterError(
                    f"{name}={getattr(self, name)!r}: needs one of {', '.join(known)}"
                )
        least = {"vocabulary": 3}  # padding, the unknown token, and one to know
        for name in (
            "kappa", "heads", "width", "layers", "max_length", "vocabulary", "max_epochs",
            "batch_size", "patience",
        ):  # fmt: skip
            value, low = getattr(self, name), least.get(name, 1)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
                raise FighterError(f"{name}={value!r}: needs a whole number of at least {low}")
        for name in ("dropout", "word_dropout", "label_smoothing", "validation"):
            value = getattr(self, name)
            if isinstance(value, bool | str) or value is None or not 0 <= value < 1:
                raise FighterError(f"{name}={value!r}: needs a share from 0 to below 1")
        if self.width % self.heads:
            raise FighterError(f"heads={self.heads} does not divide width={self.width}")

    # ---- fit ------------------------------------------------------------------------------

    def fit(
        self,
        texts: Any,
        labels: Any,
        *,
        folder: str | Path | None = None,
        tensorboard: bool = False,
        on_epoch: Callable[[dict[str, Any]], None] | None = None,
    ) -> "TextClassifier":
        """Learn from texts and their classes.

        Args:
            texts: strings, in a list, an array or a Series.
            labels: the class of each text: strings or numbers.
            folder: where to keep ``metrics.jsonl``, after every epoch a checkpoint from which a
                run that was cut off goes on, and in its place at the end the model, as ``save``
                does. Nothing is written unless this is given.
            tensorboard: also write TensorBoard's files to ``folder``.
            on_epoch: called with the record of each epoch, to which it may add, while the model
                predicts as of that epoch.
        """
        if tensorboard and folder is None:
            raise FighterError("tensorboard=True needs folder=, the place to write to")
        texts, labels = _strings(texts), _classes(labels)
        _check_pairs(texts, labels)
        place = Path(folder) if folder else None
        before = vars(self).copy()
        try:
            self._fit(texts, labels, folder=place, tensorboard=tensorboard, on_epoch=on_epoch)
        except BaseException:  # what was fitted before is not lost
            vars(self).clear()
            vars(self).update(before)
            raise
        if place is not None:
            self.save(place)
            if World.join(self._device()).first:
                remove_checkpoint(place)
        return self

    def _fit(self, texts: list[str], labels: list, **places: Any) -> None:
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise FighterError(f"all {len(labels)} texts are of class {labels[0]!r}: needs two")
        held, device = hold_out(numbers, self.validation, self.seed), self._device()
        trainable = [text for text, out in zip(texts, held, strict=True) if not out]
        self._tokens = Tokens.learn(trainable, self.tokens, int(self.vocabulary))
        self._fixed = {name: _own(getattr(self, name)) for name in _NETWORK}
        rows = self._tokens.rows(texts, self._fixed["max_length"])
        data, validation = (
            Texts(rows[part].to(device), torch.from_numpy(numbers[part]).to(device))
            for part in (~held, held)
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.network = self._new_network().to(device)
        self.history = train(
            self.network,
            data,
            validation if len(validation) else None,
            self._recipe(),
            objective=self._objective,
            measure=_errors,
            world=World.join(device),
            verbose=self.verbose,
            settings=f"{self._fixed} label_smoothing={self.label_smoothing}",
            **places,
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
        """The most probable class of each text."""
        best = self.predict_proba(texts).argmax(1)
        return self.classes_[best]

    @torch.no_grad()
    def predict_proba(self, texts: Any) -> np.ndarray:
        """Probabilities ``[texts, classes]``, columns as in ``classes_``."""
        self._fitted()
        rows = self._tokens.rows(_strings(texts), self._fixed["max_length"]).to(self._device())
        data, training = Texts(rows, rows.new_zeros(len(rows))), self.network.training
        logits = [torch.zeros(0, len(self.classes_))]  # of no text
        self.network.eval()
        try:
            for index in data.batches(data.eval_batch_size):
                with autocast(data.device):
                    logits.append(self.network(data.gather(index).tokens).float().cpu())
        finally:
            self.network.train(training)
        return torch.cat(logits).double().softmax(1).numpy()

    def score(self, texts: Any, labels: Any) -> float:
        """The share of texts whose class is predicted right."""
        self._fitted()
        texts, labels = _strings(texts), _classes(labels)
        _check_pairs(texts, labels)
        found = self.predict(texts).tolist()
        return float(np.mean([a == b for a, b in zip(found, labels, strict=True)]))

    def _fitted(self) -> None:
        if not hasattr(self, "network"):
            raise FighterError(
                "this classifier has not been fitted: call fit(texts, labels), or load(folder)"
            )

    # ---- keep -----------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write ``config.json`` and ``model.safetensors``; a model saved there is replaced.

        Of processes that trained together the first one writes.
        """
        self._fitted()
        world = World.join(self._device())
        config = {
            "estimator": type(self).__name__,
            "settings": self.get_params() | self._fixed,
            "classes": self.classes_.tolist(),
        }
        tensors = storage.to_tensors("network", self.network.state_dict())
        if world.first:
            tokens = {"tokens": self._tokens.to_tensor()}
            storage.save_folder(Path(folder), config, tensors | tokens)
        world.wait()

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = "cpu") -> "TextClassifier":
        """A saved model, on the CPU unless told otherwise."""
        config, tensors = storage.load_folder(Path(folder))
        cls._check_kind(config, folder)
        try:
            model = cls(**config["settings"])
            model.device = device
            model._fixed = {name: getattr(model, name) for name in _NETWORK}
            model.classes_ = np.array(config["classes"])
            model._tokens = Tokens.from_tensor(tensors["tokens"])
            model.network = model._new_network().to(model._device())
            model.network.load_state_dict(storage.strip_prefix("network", tensors))
            model.history = []
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise storage.damaged(Path(folder), error) from error
        return model


def _errors(network: nn.Module, batch: TextBatch) -> tuple[Tensor, Tensor]:
    """How many texts are classed wrongly."""
    wrong = network(batch.tokens).argmax(-1) != batch.labels
    return wrong.sum(), torch.full_like(wrong.sum(), len(wrong))


def _own(value: Any) -> Any:
    """A value of Python's own for one of numpy's."""
    return value.item() if isinstance(value, np.generic) else value


def _listed(name: str, values: Any) -> list:
    """A list, array, Series or column as a list of Python's own values."""
    if isinstance(values, str | bytes | dict) or not hasattr(values, "__iter__"):
        raise FighterError(f"{name} is {type(values).__name__} {values!r:.60}: needs a list")
    if getattr(values, "ndim", 1) != 1 or hasattr(values, "columns"):
        raise FighterError(f"{name} is a table or has several axes: needs one column")
    for method in ("tolist", "to_list", "to_pylist"):  # numpy and pandas, polars, pyarrow
        if hasattr(values, method):
            return getattr(values, method)()
    return list(values)


def _strings(texts: Any) -> list[str]:
    texts = _listed("texts", texts)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise FighterError(f"texts[{i}] is {text!r} ({type(text).__name__}): needs a string")
    return texts


def _classes(labels: Any) -> list:
    labels = [_own(label) for label in _listed("labels", labels)]
    for i, label in enumerate(labels):
        if not isinstance(label, str | int | float) or label != label:
            raise FighterError(
                f"labels[{i}] is {label!r} ({type(label).__name__}): needs a string or a number"
            )
        if isinstance(label, str) != isinstance(labels[0], str):
            raise FighterError(
                f"labels[0] is {labels[0]!r} and labels[{i}] is {label!r}: needs all strings, or "
                "all numbers"
            )
    return labels


def _check_pairs(texts: list[str], labels: list) -> None:
    if not texts:
        raise FighterError("texts is empty: needs one text at least")
    if len(texts) != len(labels):
        raise FighterError(f"{len(texts)} texts and {len(labels)} labels: needs a label for each")
