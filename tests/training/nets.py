"""A small network and windows for training it."""

import torch

from fighter.data.windows import Windows
from fighter.models import ForecastNet, Task, build_core
from fighter.training import Recipe, train

LOOKBACK, HORIZON, SERIES = 8, 4, 2


def network(seed: int = 0, dropout: float = 0.2, members: int = 1) -> ForecastNet:
    torch.manual_seed(seed)
    task = Task(LOOKBACK, HORIZON, SERIES)
    options = {"width": 16, "heads": 2, "dropout": dropout, "members": members}
    core = build_core("fighter", task, **options)
    return ForecastNet(core, period=6)


def windows(rows: int = 60, seed: int = 0, missing: bool = False, device: str = "cpu") -> Windows:
    draw = torch.Generator().manual_seed(seed)
    step = torch.arange(float(rows))[:, None]
    values = torch.sin(step + torch.arange(SERIES)) + 0.3 * torch.randn(
        rows, SERIES, generator=draw
    )
    observed = torch.rand(rows, SERIES, generator=draw) > 0.3 if missing else None
    observed = None if observed is None else observed.to(device)
    return Windows.over(values.to(device), observed, LOOKBACK, HORIZON)


def recipe(**changes) -> Recipe:
    return Recipe(**{"epochs": 4, "batch_size": 16, "patience": 100, **changes})


def trained(rows=60, net=None, steps=None, missing=False, device="cpu", **options):
    """Train on three quarters of the rows, validate on the rest; return network and history."""
    net = (network() if net is None else net).to(device)
    everything = windows(rows, missing=missing, device=device)
    cut = 3 * rows // 4
    history = train(
        net,
        everything.within(slice(0, cut)),
        everything.within(slice(cut, None)),
        steps or recipe(),
        **options,
    )
    return net, history


def same_weights(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    first, second = a.state_dict(), b.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)
