"""Forecasting networks: a batch of windows in, ``[batch, horizon, series, outputs]`` out.

A core maps the normalised past to the normalised future; :class:`ForecastNet` puts the same
normalisation, cycle and covariates around every core, so that cores can be compared. The options
of each model are a dataclass, such as ``Fighter(kappa=4)``, which builds its core for a task.
"""

from .autoformer import Autoformer
from .base import Core, ModelConfig, Task
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
from .registry import MODELS, build_core, find_model
from .seq2seq import Seq2Seq
from .transformer import Transformer
from .zero_shot import Pretrained

__all__ = [
    "GCN", "GFSA", "MODELS", "Autoformer", "Core", "CycleNet", "DLinear", "Fighter", "ForecastNet",
    "ITransformer", "Informer", "Linear", "ModelConfig", "NormLin", "PatchTST", "Pretrained",
    "Reformer",
    "RepeatLast", "SeasonalNaive", "Seq2Seq", "Task", "Transformer", "WindowMean", "build_core",
    "find_model",
]  # fmt: skip
