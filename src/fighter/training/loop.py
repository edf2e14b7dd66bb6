"""The training loop: AdamW, warm-up and cosine, averaged weights, early stopping."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .._files import CHECKPOINT
from ..errors import FighterError, check_count
from . import checkpoint as disk
from .inference import autocast, score
from .losses import Objective, forecast_objective
from .optimiser import AdamW
from .parallel import World, own_random_state
from .progress import MetricLog, Progress
from .steps import CapturedStep, Examples

Record = dict[str, Any]
OnEpoch = Callable[[Record], None]


@dataclass(frozen=True)
class Recipe:
    """How to train a network.

    Args:
        epochs: passes over the training windows, at most (default: 20).
        batch_size: windows per step, over all processes together (default: 32).
        lr: peak learning rate, after warm-up (default: 1e-3).
        warmup: steps of linear warm-up, at most a tenth of all steps (default: 200).
        weight_decay: weight decay of AdamW (default: 0).
        clip: largest norm of the gradient (default: 1).
        ema: decay of the exponential moving average of the weights, which is evaluated and kept;
            0 turns it off. The decay starts lower, so that the average forgets the first weights
            (default: 0.9995).
        patience: epochs without a better validation score before training stops (default: 5).
        loss: loss of the point forecast, "mae" or "mse" (default: "mae").
        discount: weight of step h of a forecast in training, 1 / (1 + discount (h - 1));
            validation weighs all steps the same (default: 0).
        quantiles: levels of the outputs after the point forecast (default: none).
        compile: compile the network (default: False).
        time_budget: seconds to train for, at most; the learning rate falls in time for it
            (default: no limit).
        seed: seed of the order of windows and of dropout (default: 0).
    """

    epochs: int = 20
    batch_size: int = 32
    lr: float = 1e-3
    warmup: int = 200
    weight_decay: float = 0.0
    clip: float = 1.0
    ema: float = 0.9995
    patience: int = 5
    loss: Literal["mae", "mse"] = "mae"
    discount: float = 0.0
    quantiles: tuple[float, ...] = ()
    compile: bool = False
    time_budget: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "patience"):
            check_count(name, getattr(self, name))
        if not 0 <= self.ema < 1:
            raise FighterError("needs a number from 0 to below 1", argument="ema", value=self.ema)
        if not self.lr > 0:
            raise FighterError("needs a number above 0", argument="lr", value=self.lr)
        if not 0 <= self.discount < math.inf:
            raise FighterError("needs 0 or more", argument="discount", value=self.discount)


def train(
    network: nn.Module,
    data: Examples,
    validation: Examples | None,
    recipe: Recipe,
    *,
    start_step: int = 0,
    objective: Objective | None = None,
    measure: Objective | None = None,
    on_epoch: OnEpoch | None = None,
    world: World = World(),  # noqa: B008
    folder: Path | None = None,
    overwrite: bool = False,
    tensorboard: bool = False,
    verbose: bool = False,
    settings: str = "",
) -> list[Record]:
    """Train ``network`` in place and leave it with the weights of the best epoch, in eval mode.

    The best epoch has the lowest ``measure`` over ``validation``; without validation data it is the
    last. An interrupted run resumes from its checkpoint in ``folder`` with the same result as an
    uninterrupted one. Remove the checkpoint once the trained model has been saved.

    Args:
        network: the network to train.
        data: training examples.
        validation: validation examples, or None.
        recipe: how to train.
        start_step: step of the first row of the windows on the training time axis (default: 0).
        objective: what to minimise (default: the recipe's loss of a forecast).
        measure: what to compare epochs by (default: the objective, without discount).
        on_epoch: called with each record while the evaluated weights are in the network.
        world: the processes that train together (default: this one alone).
        folder: where to keep metrics and a checkpoint of every epoch (default: nowhere).
        overwrite: start again if the checkpoint belongs to another run or is damaged (default:
            False, refuse it).
        tensorboard: also write TensorBoard's format (default: False).
        verbose: show progress (default: False).
        settings: description of the network. A checkpoint of other settings, another recipe or
            other data is refused.

    Returns:
        One record per epoch: loss, validation score, learning rate. It holds no times, so that two
        runs with the same seed have equal records.
    """
    measure = measure or objective or forecast_objective(recipe.loss, recipe.quantiles, start_step)
    objective = objective or forecast_objective(
        recipe.loss, recipe.quantiles, start_step, recipe.discount, per_member=True
    )
    with own_random_state(data.device):
        run = _Run(network, data, recipe, world, objective)
        evaluate = None
        if validation is not None:
            evaluate = partial(score, data=validation, measure=measure, world=world)
        checkpoint = None if folder is None else folder / CHECKPOINT
        if checkpoint is not None:
            digest = disk.fingerprint(data, validation)
            run.identity = {"settings": f"{recipe} {settings}", "data": digest}
            if checkpoint.exists():
                try:
                    run.resume(checkpoint)
                except FighterError:
                    if not overwrite:
                        raise
            run.check_together()
        log = MetricLog(folder if world.first else None, tensorboard, run.history)
        bar = Progress(verbose and world.first, recipe.epochs, run.steps, run.epoch)
        try:
            while (
                run.epoch < recipe.epochs
                and run.since_best < recipe.patience
                and run.time_spent() < 1
            ):
                record = run.one_epoch(evaluate, bar, on_epoch)
                if checkpoint is not None:
                    world.wait()
                    if world.first:
                        run.save(checkpoint)
                log.write(record)
                bar.epoch(record)
        finally:
            bar.close()
            log.close()
        network.load_state_dict(run.best)
        network.eval()
        return run.history


# What a checkpoint holds beside tensors, and of which type.
_COUNTERS = {
    "step": int, "epoch": int, "since_best": int, "best_score": float, "history": list,
    "identity": dict, "seconds": float,
}  # fmt: skip


class _Run:
    """The complete state of a training run."""

    def __init__(
        self, network: nn.Module, data: Examples, recipe: Recipe, world: World, objective: Objective
    ):
        self.network, self.data, self.recipe, self.world = network, data, recipe, world
        self.objective = objective
        self.steps = -(-len(data) // recipe.batch_size)
        cuda = data.device.type == "cuda"
        # Numbers that change from step to step are tensors on CUDA, where steps are recorded.
        self.lr: Tensor | float = torch.tensor(recipe.lr, device=data.device) if cuda else recipe.lr
        self.mixing: Tensor | float = torch.tensor(1.0, device=data.device) if cuda else 1.0
        self.step = self.epoch = self.since_best = 0
        self.best_score = math.inf
        self.live = network.state_dict()  # shares the memory of the weights, so it follows them
        self.average = self.weights()
        self.best = self.average  # until the end of the first epoch
        self.history: list[Record] = []
        self.identity: dict[str, str] = {}  # must be equal in a checkpoint that is resumed
        self.module, self.optimiser = network, None
        self.one_step: Callable[[Tensor], Tensor] | None = None
        self.seconds, self.start = 0.0, time.monotonic()  # before an interruption, and since
        if trainable := [p for p in network.parameters() if p.requires_grad]:
            self.optimiser = AdamW(trainable, recipe.weight_decay)
            compiled = torch.compile(network) if recipe.compile else network
            self.module = world.wrap(compiled)  # type: ignore[arg-type]
            self.one_step = partial(self.compute, self.optimiser)
            if cuda and world.size == 1 and not recipe.compile:
                self.one_step = CapturedStep(self.one_step, recipe.batch_size)

    def one_epoch(
        self, evaluate: Callable[[nn.Module], float] | None, bar: Progress, on_epoch: OnEpoch | None
    ) -> Record:
        self.network.train()
        # Every epoch has its own seeds, so that a resumed run needs no random states.
        order = torch.Generator().manual_seed(self.recipe.seed + self.epoch)
        torch.manual_seed(self.recipe.seed + 7_919 * self.epoch + 1_000_003 * self.world.rank)
        total = torch.zeros((), dtype=torch.float64, device=self.data.device)
        steps = 0
        for index in self.data.batches(self.recipe.batch_size, order):
            if self.one_step is not None:
                self.set_rates()
                total += self.one_step(index)
            self.step += 1
            steps += 1
            bar.step()
            if self.time_spent() >= 1:
                break
        self.epoch += 1
        self.network.zero_grad()  # frees memory for validation
        if not self.recipe.ema:
            self.average = self.weights()
        own = self.swap(self.average)
        self.network.eval()
        result = None if evaluate is None else evaluate(self.network)
        self.since_best += 1
        if result is None or result < self.best_score or self.epoch == 1:
            self.best_score = math.inf if result is None else result
            self.best = {k: v.clone() for k, v in self.average.items()}
            self.since_best = 0
        record = {
            "epoch": self.epoch,
            "loss": (total / steps).item(),
            "validation": result,
            "best": None if result is None else self.best_score,
            "lr": self.rate(),
        }
        for name in ("loss", "validation"):
            if record[name] is not None and not math.isfinite(record[name]):
                what = f"the {name.replace('loss', 'training')} loss became {record[name]}"
                where = f"in epoch {self.epoch} at learning rate {self.recipe.lr:g}"
                remedy = "set a lower one, or look for extreme values in the data"
                raise FighterError(f"{what} {where}: {remedy}")
        if on_epoch is not None:
            on_epoch(record)
        self.swap(own)
        self.history.append(record)
        return record

    def set_rates(self) -> None:
        """Set the learning rate and the weight of the next step in the average of weights."""
        decay = min(self.recipe.ema, (1 + self.step) / (10 + self.step))
        if isinstance(self.lr, Tensor) and isinstance(self.mixing, Tensor):
            self.lr.fill_(self.rate())
            self.mixing.fill_(1 - decay)
        else:
            self.lr, self.mixing = self.rate(), 1 - decay

    def compute(self, optimiser: AdamW, index: Tensor) -> Tensor:
        """Make one step on the examples number ``index`` and return the loss."""
        optimiser.zero_grad()  # first, to free memory for the forward pass
        mine = self.world.share(index)
        # With fewer examples than processes, a process without one takes part with weight zero.
        batch = self.data.gather(mine if len(mine) else index[:1])
        with autocast(self.data.device):
            part, count = self.objective(self.module, batch)
        if not len(mine):
            part, count = 0 * part, 0 * count
        terms = count if self.world.size == 1 else self.world.sum(count)[0].to(part.dtype)
        loss = part / terms.clamp(min=1)  # the mean over the whole batch of all processes
        (loss * self.world.size).backward()  # wrap() averages over processes
        nn.utils.clip_grad_norm_(optimiser.weights, self.recipe.clip)
        optimiser.step(self.lr)
        if self.recipe.ema:
            self.update_average()
        return loss.detach() if self.world.size == 1 else self.world.sum(loss)[0]

    def rate(self) -> float:
        """Return the learning rate: linear warm-up, then half a cosine down to a hundredth."""
        recipe, last, spent = self.recipe, self.recipe.epochs * self.steps, self.time_spent()
        warmup = min(recipe.warmup, max(last // 10, 1))
        if self.step < warmup and spent < 0.1:
            return recipe.lr * max((self.step + 1) / warmup, 10 * spent)
        progress = max((self.step - warmup) / max(last - warmup, 1), spent)
        return recipe.lr * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0))))

    def time_spent(self) -> float:
        """Return the share of the time budget that is spent, by the clock of rank 0."""
        if self.recipe.time_budget is None:
            return 0.0
        seconds = self.seconds + time.monotonic() - self.start
        if self.world.size > 1:
            here = torch.tensor(seconds if self.world.first else 0.0, device=self.data.device)
            seconds = self.world.sum(here).item()
        return seconds / self.recipe.time_budget

    @torch.no_grad()
    def update_average(self) -> None:
        for name, value in self.live.items():
            if value.is_floating_point():
                self.average[name].lerp_(value, self.mixing)
            else:
                self.average[name].copy_(value)

    def weights(self) -> dict[str, Tensor]:
        """Copy the weights of the network."""
        return {name: value.clone() for name, value in self.live.items()}

    def swap(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Load ``state`` into the network and return the weights it had."""
        own = self.weights()
        self.network.load_state_dict(state)
        return own

    def save(self, path: Path) -> None:
        parts = {"network": self.live, "average": self.average, "best": self.best}
        if self.optimiser is not None:
            parts["optimiser"] = self.optimiser.tensors()
        state = {name: getattr(self, name) for name in _COUNTERS}
        state["seconds"] = self.seconds + time.monotonic() - self.start
        disk.save(disk.pack(parts), state, path)

    def resume(self, path: Path) -> None:
        """Take over the state in a checkpoint; if that fails, this run is as it was before."""
        tensors, state = disk.load(path)
        written, device = state.get("identity"), self.data.device
        for name, value in self.identity.items():
            if not isinstance(written, dict) or written.get(name) != value:
                remedy = f"resume with the same {name}, or {disk.START_AGAIN}"
                raise FighterError(f"{path} was written by a run with other {name}: {remedy}")
        try:
            self.check_counters(state)
            parts = [disk.unpack(part, tensors) for part in ("network", "average", "best")]
            for part in parts:
                disk.check_like(part, self.live)
            moments = disk.unpack("optimiser", tensors)
            if self.optimiser is not None:
                self.optimiser.load(moments)
        except Exception as error:
            raise disk.damaged(path, error) from error
        self.network.load_state_dict(parts[0])
        self.average, self.best = ({k: v.to(device) for k, v in p.items()} for p in parts[1:])
        vars(self).update(state)

    def check_counters(self, state: Record) -> None:
        """Raise ValueError unless the counters in a checkpoint have their types and agree."""
        if state.keys() != _COUNTERS.keys():
            raise ValueError(f"it holds {sorted(state)}, not {sorted(_COUNTERS)}")
        for name, kind in _COUNTERS.items():
            if type(state[name]) is not kind:
                raise ValueError(f"{name} is {state[name]!r:.40}")
        epoch, records = state["epoch"], state["history"]
        if not (
            1 <= epoch <= self.recipe.epochs
            and epoch <= state["step"] <= epoch * self.steps  # a time budget ends an epoch early
            and 0 <= state["since_best"] < epoch
            and not math.isnan(state["best_score"])
            and 0 <= state["seconds"] < math.inf
            and [r.get("epoch") for r in records] == list(range(1, epoch + 1))
            and all({"loss", "validation", "best", "lr"} <= r.keys() for r in records)
        ):
            raise ValueError("its counters contradict each other")

    def check_together(self) -> None:
        """Check that all processes resume from the same epoch."""
        epoch = torch.tensor(float(self.epoch), device=self.data.device)
        if self.world.sum(epoch).item() != self.world.size * self.epoch:
            here = f"process {self.world.rank} resumes after epoch {self.epoch}"
            remedy = "use a folder that all machines share"
            raise FighterError(f"{here} and others do not: {remedy}", argument="folder")
