"""The training loop: AdamW, warm-up and cosine, averaged weights, early stopping."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..data.windows import Windows
from ..errors import FighterError
from . import checkpoint as disk
from .forecasts import autocast, score
from .losses import Loss, make_loss
from .parallel import World
from .progress import MetricLog, Progress

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


def train(
    network: nn.Module,
    windows: Windows,
    validation: Windows | None,
    recipe: Recipe,
    *,
    offset: int = 0,
    world: World = World(),  # noqa: B008
    folder: Path | None = None,
    tensorboard: bool = False,
    verbose: bool = False,
    settings: str = "",
) -> list[dict[str, Any]]:
    """Train in place and leave the weights of the best epoch in ``network``.

    Without validation windows the last epoch is the best. ``offset`` is the place of the windows'
    first row on the time axis that the network's cycle is counted on. In ``folder`` a checkpoint is
    kept after every epoch: a run that was cut off goes on from there and ends where it would have
    ended. One of other data, or of other ``settings`` (whatever describes the network), is refused.
    Who has put the result in a safe place calls :func:`forget`.

    Returns:
        One record per epoch: loss, validation score, learning rate. Seconds are not in it, so that
        two runs with one seed have equal records.
    """
    devices = [windows.values.device] if windows.values.is_cuda else []
    with torch.random.fork_rng(devices=devices):  # the user's random numbers are not touched
        run = _Run(network, windows, recipe, world, offset)
        checkpoint = None
        if folder is not None:
            checkpoint = folder / CHECKPOINT
            run.identity = {
                "settings": f"{recipe} {settings}",
                "data": disk.fingerprint(windows, validation),
            }
            if checkpoint.exists():
                run.resume(checkpoint)
            run.check_together()
        log = MetricLog(folder if world.first else None, tensorboard, run.history)
        bar = Progress(verbose and world.first, recipe.epochs, run.steps, run.epoch)
        try:
            while run.epoch < recipe.epochs and run.since_best < recipe.patience:
                record = run.one_epoch(validation, bar)
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
        self, network: nn.Module, windows: Windows, recipe: Recipe, world: World, offset: int
    ):
        self.network, self.windows, self.recipe, self.world = network, windows, recipe, world
        self.offset = offset
        self.loss: Loss = make_loss(recipe.loss, recipe.quantiles)
        self.steps = -(-len(windows) // recipe.batch_size)
        learned = [p for p in network.parameters() if p.requires_grad]
        self.optimiser = None
        if learned:
            fused = windows.values.device.type in ("cpu", "cuda")  # one pass over the weights
            self.optimiser = torch.optim.AdamW(
                learned, recipe.lr, weight_decay=recipe.weight_decay, fused=fused
            )
        self.step = self.epoch = self.since_best = 0
        self.best_score = math.inf
        self.average = {k: v.detach().clone() for k, v in network.state_dict().items()}
        self.best = self.average  # until the first epoch has one to keep
        self.history: list[dict[str, Any]] = []
        self.identity: dict[str, str] = {}  # what a checkpoint must have in common with this run
        self.module = network
        if learned:
            compiled = torch.compile(network) if recipe.compile else network
            self.module = world.wrap(compiled)  # type: ignore[arg-type]

    def one_epoch(self, validation: Windows | None, bar: Progress) -> dict[str, Any]:
        self.network.train()
        # Every epoch has seeds of its own, so that a run that goes on needs no random states.
        order = torch.Generator().manual_seed(self.recipe.seed + self.epoch)
        torch.manual_seed(self.recipe.seed + 7_919 * self.epoch + 1_000_003 * self.world.rank)
        total = torch.zeros((), dtype=torch.float64, device=self.windows.values.device)
        for index in self.windows.batches(self.recipe.batch_size, order):
            if self.optimiser is not None:
                total += self.one_step(self.optimiser, index)
            self.step += 1
            bar.step()
        self.epoch += 1
        self.network.zero_grad()  # to free the memory for validation
        own = self.swap(self.average)
        result = None
        if validation is not None:
            result = score(self.network, validation, self.loss, self.world, self.offset)
        if result is None or result < self.best_score or self.epoch == 1:
            self.best_score = math.inf if result is None else result
            self.best = {k: v.clone() for k, v in self.average.items()}
            self.since_best = 0
        else:
            self.since_best += 1
        self.swap(own)
        record = {
            "epoch": self.epoch,
            "loss": (total / self.steps).item(),
            "validation": result,
            "best": None if result is None else self.best_score,
            "lr": self.rate(),
        }
        self.history.append(record)
        for name in ("loss", "validation"):
            if record[name] is not None and not math.isfinite(record[name]):
                raise FighterError(
                    f"the {name.replace('loss', 'training')} loss became {record[name]} in epoch "
                    f"{self.epoch}: lower lr={self.recipe.lr}, or look for extreme values in the "
                    "data"
                )
        return record

    def one_step(self, optimiser: torch.optim.Optimizer, index: Tensor) -> Tensor:
        optimiser.zero_grad()  # first, to free the memory for the forward pass
        mine = self.world.share(index)
        # Where windows are fewer than processes, one that has none takes part with weight zero.
        batch = self.windows.gather(mine if len(mine) else index[:1])
        for group in optimiser.param_groups:
            group["lr"] = self.rate()
        with autocast(batch.past.device):
            forecast = self.module(batch, batch.start + self.offset)
        part, count = self.loss(forecast.float(), batch.future, batch.future_observed)
        if not len(mine):
            part, count = 0 * part, 0 * count
        everywhere = count if self.world.size == 1 else self.world.sum(count)[0].to(part.dtype)
        loss = part / everywhere.clamp(min=1)  # the mean over the whole batch, whoever holds it
        (loss * self.world.size).backward()  # wrap() averages over processes
        nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.clip)
        optimiser.step()
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
        decay = min(self.recipe.ema, (1 + self.step) / (10 + self.step)) if self.recipe.ema else 0.0
        for name, value in self.network.state_dict().items():
            if value.is_floating_point():
                self.average[name].lerp_(value, 1 - decay)
            else:
                self.average[name].copy_(value)

    def swap(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Put ``state`` into the network and give back what was there."""
        own = {k: v.detach().clone() for k, v in self.network.state_dict().items()}
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
        device = self.windows.values.device
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
        here = torch.tensor(float(self.epoch), device=self.windows.values.device)
        if self.world.sum(here).item() != self.world.size * self.epoch:
            raise FighterError(
                f"process {self.world.rank} goes on after epoch {self.epoch} and others do not: "
                "folder= must be a place that all machines share"
            )
