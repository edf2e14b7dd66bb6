"""All models by name."""

from collections.abc import Mapping
from typing import Any

from ..errors import FighterError, did_you_mean
from .autoformer import Autoformer
from .base import Core, ModelConfig, Task
from .fighter import Fighter
from .gcn import GCN
from .gfsa import GFSA
from .informer import Informer
from .itransformer import ITransformer
from .linear import CycleNet, DLinear, Linear
from .naive import RepeatLast, SeasonalNaive, WindowMean
from .normlin import NormLin
from .patchtst import PatchTST
from .reformer import Reformer
from .seq2seq import Seq2Seq
from .transformer import Transformer
from .zero_shot import Pretrained

MODELS: Mapping[str, type[ModelConfig]] = {
    config.name: config
    for config in (
        Fighter, Autoformer, CycleNet, DLinear, GCN, GFSA, Informer, ITransformer, Linear,
        WindowMean, SeasonalNaive, NormLin, PatchTST, Pretrained, Reformer, RepeatLast, Seq2Seq,
        Transformer,
    )
}  # fmt: skip


def find_model(model: str | ModelConfig) -> ModelConfig:
    """Return the config of a model by its name; a config is returned as it is."""
    if isinstance(model, ModelConfig):
        return model
    if not isinstance(model, str) or model not in MODELS:
        hint = did_you_mean(str(model), MODELS)
        reason = f"needs one of {', '.join(MODELS)}{hint and '.' + hint}"
        raise FighterError(reason, argument="model", value=model)
    return MODELS[model]()


def models_with(setting: str) -> list[str]:
    """Return the names of the models that have a setting."""
    return [name for name, config in MODELS.items() if setting in config.setting_names()]


def build_core(name: str, task: Task, **options: Any) -> Core:
    """Build the network of a model by name; the options are the fields of its config."""
    return type(find_model(name))(**options).build(task)
