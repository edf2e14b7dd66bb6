"""The training loop: AdamW, warm-up and cosine, averaged weights, early stopping."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import FighterError
from . import checkpoint as disk
from .inference import autocast, score
from .losses import Objective, forecast_objective
from .parallel import World
from .progress import MetricLog, Progress
from .steps import CapturedStep, Examples

CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class Recipe:
    """How to train. One sentence a number.

    Args:
        epochs: passes over the training windows, at most.
        batch_size: windows per step, over all processes together.
        lr: learning rate at the top of the cosine.
        warmup: steps that the learning rate takes to get there.
        weight_decay: of AdamW.
        clip: largest norm of a gradient.
        ema: weight of the past in the average of weights, which is what is evaluated and kept;
            0 for none. It begins lower, so that the first weights are forgotten.
        patience: epochs without a better validation score after which training stops.
        loss: of the point forecast, mae or mse.
        discount: step h of a forecast weighs as 1 / (1 + discount (h - 1)) in training, all the
            same in validation.
        quantiles: levels of the other outputs.
        compile: compile the network (CUDA).
        seed: of the order of windows and of dropout.
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
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "patience"):
            if getattr(self, name) < 1:
                raise FighterError(f"{name}={getattr(self, name)}: needs at least 1")
        if not 0 <= self.ema < 1:
            raise FighterError(f"ema={self.ema}: needs a number from 0 to below 1")
        if not self.lr > 0:
            raise FighterError(f"lr={self.lr}: needs a number above 0")
        if not 0 <= self.discount < math.inf:
            raise FighterError(f"discount={self.discount}: needs 0 or more")


def train(
    network: nn.Module,
    data: Examples,
    validation: Examples | None,
    recipe: Recipe,
    *,
    start_step: int = 0,
    objective: Objective | None = None,
    measure: Objective | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    world: World = World(),  # noqa: B008
    folder: Path | None = None,
    tensorboard: bool = False,
    verbose: bool = False,
    settings: str = "",
) -> list[dict[str, Any]]:
    """Train in place and leave the weights of the best epoch in ``network``.

    What is made small is ``objective``; without one, the recipe's loss of a forecasting network
    (``offset``: the place of the windows' first row on the time axis that its cycle is counted on).
    The best epoch is that of the lowest ``measure`` (without one, the objective, every step of a
    forecast weighing the same) over ``validation``; without validation data it is the last.
    ``on_epoch`` is called with each record while the weights to be judged are in the network.

    In ``folder`` a checkpoint is kept after every epoch: a run that was cut off goes on from there
    and ends where it would have ended. One of other data, or of other ``settings`` (whatever
    describes the network), is refused. Who has put the result in a safe place calls :func:`forget`.

    Returns:
        One record per epoch: loss, validation score, learning rate. Seconds are not in it, so that
        two runs with one seed have equal records.
    """
    devices = [data.device] if data.device.type == "cuda" else []
    measure = measure or objective or forecast_objective(recipe.loss, recipe.quantiles, start_step)
    objective = objective or forecast_objective(
        recipe.loss, recipe.quantiles, start_step, recipe.discount, per_member=True
    )
    with torch.random.fork_rng(devices=devices):  # the user's random numbers are not touched
        run = _Run(network, data, recipe, world, objective, measure)
        checkpoint = None
        if folder is not None:
            checkpoint = folder / CHECKPOINT
            run.identity = {
                "settings": f"{recipe} {settings}",
                "data": disk.fingerprint(data, validation),
            }
            if checkpoint.exists():
                run.resume(checkpoint)
            run.check_together()
        log = MetricLog(folder if world.first else None, tensorboard, run.history)
        bar = Progress(verbose and world.first, recipe.epochs, run.steps, run.epoch)
        try:
            while run.epoch < recipe.epochs and run.since_best < recipe.patience:
                record = run.one_epoch(validation, bar, on_epoch)
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
        return run.history


def forget(folder: Path) -> None:
    """Remove the checkpoint of a run whose result is kept elsewhere."""
    disk.remove(folder / CHECKPOINT)


class _Run:
    """The state of a run, all of it."""

    def __init__(
        self,
        network: nn.Module,
        data: Examples,
        recipe: Recipe,
        world: World,
        objective: Objective,
        measure: Objective,
    ):
        self.network, self.data, self.recipe, self.world = network, data, recipe, world
        self.objective, self.measure = objective, measure
        self.steps = -(-len(data) // recipe.batch_size)
        trainable = [p for p in network.parameters() if p.requires_grad]
        cuda = data.device.type == "cuda"
        # What changes from step to step is a tensor on CUDA, where steps are recorded.
        self.lr: Tensor | float = torch.tensor(recipe.lr, device=data.device) if cuda else recipe.lr
        self.mixing: Tensor | float = torch.tensor(1.0, device=data.device) if cuda else 1.0
        self.optimiser = None
        if trainable:
            fused = data.device.type in ("cpu", "cuda")  # one pass over the weights
            self.optimiser = torch.optim.AdamW(
                trainable, self.lr, weight_decay=recipe.weight_decay, fused=fused, capturable=cuda
            )
        self.step = self.epoch = self.since_best = 0
        self.best_score = math.inf
        self.average = self.weights()
        self.best = self.average  # until the first epoch has one to keep
        self.history: list[dict[str, Any]] = []
        self.identity: dict[str, str] = {}  # what a checkpoint must have in common with this run
        self.module = network
        if trainable:
            compiled = torch.compile(network) if recipe.compile else network
            self.module = world.wrap(compiled)  # type: ignore[arg-type]
        self.one_step: Callable[[Tensor], Tensor] | None = None
        if self.optimiser is not None:
            self.one_step = partial(self.compute, self.optimiser)
            if cuda and world.size == 1 and not recipe.compile:
                self.one_step = CapturedStep(self.one_step, recipe.batch_size)

    def one_epoch(
        self,
        validation: Examples | None,
        bar: Progress,
        on_epoch: Callable[[dict[str, Any]], None] | None,
    ) -> dict[str, Any]:
        self.network.train()
        # Every epoch has seeds of its own, so that a run that goes on needs no random states.
        order = torch.Generator().manual_seed(self.recipe.seed + self.epoch)
        torch.manual_seed(self.recipe.seed + 7_919 * self.epoch + 1_000_003 * self.world.rank)
        total = torch.zeros((), dtype=torch.float64, device=self.data.device)
        for index in self.data.batches(self.recipe.batch_size, order):
            if self.one_step is not None:
                self.set_rates()
                total += self.one_step(index)
            self.step += 1
            bar.step()
        self.epoch += 1
        self.network.zero_grad()  # to free the memory for validation
        if not self.recipe.ema:
            self.average = self.weights()
        own = self.swap(self.average)
        result = None
        if validation is not None:
            result = score(self.network, validation, self.measure, self.world)
        if result is None or result < self.best_score or self.epoch == 1:
            self.best_score = math.inf if result is None else result
            self.best = {k: v.clone() for k, v in self.average.items()}
            self.since_best = 0
        else:
            self.since_best += 1
        record = {
            "epoch": self.epoch,
            "loss": (total / self.steps).item(),
            "validation": result,
            "best": None if result is None else self.best_score,
            "lr": self.rate(),
        }
        for name in ("loss", "validation"):
            if record[name] is not None and not math.isfinite(record[name]):
                raise FighterError(
                    f"the {name.replace('loss', 'training')} loss became {record[name]} in epoch "
                    f"{self.epoch}: lower lr={self.recipe.lr}, or look for extreme values in the "
                    "data"
                )
        if on_epoch is not None:
            on_epoch(record)
        self.swap(own)
        self.history.append(record)
        return record

    def set_rates(self) -> None:
        """Learning rate and weight of the new in the average, for the step to come."""
        decay = min(self.recipe.ema, (1 + self.step) / (10 + self.step))
        if isinstance(self.lr, Tensor) and isinstance(self.mixing, Tensor):
            self.lr.fill_(self.rate())
            self.mixing.fill_(1 - decay)
        else:
            self.lr, self.mixing = self.rate(), 1 - decay

    def compute(self, optimiser: torch.optim.Optimizer, index: Tensor) -> Tensor:
        """One step on the examples number ``index``; the loss."""
        optimiser.zero_grad()  # first, to free the memory for the forward pass
        mine = self.world.share(index)
        # Where examples are fewer than processes, one that has none takes part with weight zero.
        batch = self.data.gather(mine if len(mine) else index[:1])
        for group in optimiser.param_groups:
            group["lr"] = self.lr
        with autocast(self.data.device):
            part, count = self.objective(self.module, batch)
        if not len(mine):
            part, count = 0 * part, 0 * count
        everywhere = count if self.world.size == 1 else self.world.sum(count)[0].to(part.dtype)
        loss = part / everywhere.clamp(min=1)  # the mean over the whole batch, whoever holds it
        (loss * self.world.size).backward()  # wrap() averages over processes
        nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.clip)
        optimiser.step()
        if self.recipe.ema:
            self.update_average()
        return loss.detach() if self.world.size == 1 else self.world.sum(loss)[0]

    def rate(self) -> float:
        """Linear warm-up, then half a cosine down to a hundredth."""
        recipe, last = self.recipe, self.recipe.epochs * self.steps
        warmup = min(recipe.warmup, max(last // 10, 1))
        if self.step < warmup:
            return recipe.lr * (self.step + 1) / warmup
        way = (self.step - warmup) / max(last - warmup, 1)
        return recipe.lr * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(way, 1.0))))

    @torch.no_grad()
    def update_average(self) -> None:
        for name, value in self.network.state_dict().items():
            if value.is_floating_point():
                self.average[name].lerp_(value, self.mixing)
            else:
                self.average[name].copy_(value)

    def weights(self) -> dict[str, Tensor]:
        """A copy of what is in the network."""
        return {k: v.detach().clone() for k, v in self.network.state_dict().items()}

    def swap(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Put ``state`` into the network and give back what was there."""
        own = self.weights()
        self.network.load_state_dict(state)
        return own

    def save(self, path: Path) -> None:
        tensors = {
            **disk.pack("network", self.network.state_dict()),
            **disk.pack("average", self.average),
            **disk.pack("best", self.best),
        }
        if self.optimiser is not None:
            tensors |= disk.pack("optimiser", disk.optimiser_tensors(self.optimiser))
        counters = ("step", "epoch", "since_best", "best_score", "history")
        state = {name: getattr(self, name) for name in counters}
        disk.save(tensors, {**state, "identity": self.identity}, path)

    def resume(self, path: Path) -> None:
        tensors, state = disk.load(path)
        written = state.pop("identity", {})
        for name, value in self.identity.items():
            if written.get(name) != value:
                raise FighterError(
                    f"{path} was written by a run with other {name}: "
                    "go on with the same, or remove it to begin anew"
                )
        device = self.data.device
        for name, value in state.items():
            setattr(self, name, value)
        try:
            self.network.load_state_dict(disk.unpack("network", tensors))
        except RuntimeError as error:
            raise FighterError(
                f"{path} belongs to another network: remove it to begin anew"
            ) from error
        self.average = {k: v.to(device) for k, v in disk.unpack("average", tensors).items()}
        self.best = {k: v.to(device) for k, v in disk.unpack("best", tensors).items()}
        if self.optimiser is not None:
            disk.restore_optimiser(self.optimiser, disk.unpack("optimiser", tensors))

    def check_together(self) -> None:
        """All processes must go on from the same epoch."""
        here = torch.tensor(float(self.epoch), device=self.data.device)
        if self.world.sum(here).item() != self.world.size * self.epoch:
            raise FighterError(
                f"process {self.world.rank} goes on after epoch {self.epoch} and others do not: "
                "folder= must be a place that all machines share"
            )
