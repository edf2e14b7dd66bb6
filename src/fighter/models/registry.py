"""Forecasting networks: a batch of windows in, ``[batch, horizon, series, outputs]`` out.

A core maps the normalised past to the normalised future; :class:`ForecastNet` puts the same
normalisation, cycle and covariates around every core, so that cores can be compared.
"""

import inspect
from collections.abc import Mapping
from typing import Any

from ..errors import FighterError
from .autoformer import Autoformer
from .base import Core, Task
from .fighter import Fighter
from .gcn import GCN
from .gfsa import GFSA
from .informer import Informer
from .itransformer import ITransformer
from .linear import CycleNet, DLinear, Linear
from .naive import RepeatLast, SeasonalNaive, WindowMean
from .network import ForecastNet
from .normlin import NormLin
from .patchtst import PatchTST
from .reformer import Reformer
from .seq2seq import Seq2Seq
from .transformer import Transformer

CORES: Mapping[str, type[Core]] = {
    "fighter": Fighter,
    "autoformer": Autoformer,
    "cyclenet": CycleNet,
    "dlinear": DLinear,
    "gcn": GCN,
    "gfsa": GFSA,
    "informer": Informer,
    "itransformer": ITransformer,
    "linear": Linear,
    "mean": WindowMean,
    "naive": SeasonalNaive,
    "normlin": NormLin,
    "patchtst": PatchTST,
    "reformer": Reformer,
    "repeat": RepeatLast,
    "seq2seq": Seq2Seq,
    "transformer": Transformer,
}


def core_options(name: str) -> dict[str, Any]:
    """The options of a core by name, with their defaults."""
    task, *options = inspect.signature(CORES[name]).parameters.values()
    del task
    return {option.name: option.default for option in options}


def build_core(name: str, task: Task, **options: object) -> Core:
    """A core by name; options are those of its class."""
    if name not in CORES:
        raise FighterError(f"model={name!r}: needs one of {', '.join(CORES)}")
    known = core_options(name)
    if unknown := set(options) - set(known):
        raise FighterError(
            f"model={name!r} has no option {', '.join(sorted(unknown))}; it has "
            f"{', '.join(known) or 'none'}"
        )
    return CORES[name](task, **options)


__all__ = ["CORES", "Core", "ForecastNet", "Task", "build_core", "core_options"]
