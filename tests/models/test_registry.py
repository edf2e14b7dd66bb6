import json
from dataclasses import FrozenInstanceError, asdict, fields, replace

import pytest
import torch

from fighter.errors import FighterError
from fighter.models import MODELS, Core, PatchTST, Task, build_core, find_model

each = pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
TASK = Task(lookback=12, horizon=4, series=3)


def test_columns_of_forecast_tables():
    assert {name: config.column for name, config in MODELS.items()} == {
        "fighter": "Fighter", "autoformer": "Autoformer", "cyclenet": "CycleNet",
        "dlinear": "DLinear", "gcn": "GCN", "gfsa": "GFSA", "informer": "Informer",
        "itransformer": "iTransformer", "linear": "Linear", "mean": "WindowMean",
        "naive": "SeasonalNaive", "normlin": "NormLin", "patchtst": "PatchTST",
        "pretrained": "Pretrained", "reformer": "Reformer", "repeat": "RepeatLast",
        "seq2seq": "Seq2Seq", "transformer": "Transformer",
    }  # fmt: skip


@each
def test_a_config_builds_its_core(config):
    core = config().build(TASK)
    assert isinstance(core, Core)
    assert type(core) is config.network
    assert core.trainable == config.trainable == bool(list(core.parameters()))


@each
def test_a_config_is_an_immutable_value_that_json_can_carry(config):
    first = config()
    assert first == config()
    assert hash(first) == hash(config())
    assert config(**json.loads(json.dumps(asdict(first)))) == first
    for field in fields(first):
        with pytest.raises(FrozenInstanceError):
            setattr(first, field.name, 3)


def test_models_are_found_by_name_or_config():
    assert find_model("patchtst") == PatchTST()
    config = PatchTST(patch=4)
    assert find_model(config) is config


@pytest.mark.parametrize(
    ("name", "near"), [("patchTST", "patchtst"), ("lstm", None), (["x"], None)]
)
def test_an_unknown_model_is_answered_with_the_names(name, near):
    with pytest.raises(FighterError, match=r"needs one of fighter, autoformer") as error:
        find_model(name)
    assert error.value.argument == "model"
    assert (f"Did you mean '{near}'?" in str(error.value)) == (near is not None)


def test_an_unknown_option_is_answered_with_the_options():
    with pytest.raises(FighterError, match="DLinear has kernel") as error:
        build_core("dlinear", TASK, depth=2)
    assert (error.value.argument, error.value.value) == ("depth", 2)
    with pytest.raises(FighterError, match="Linear has no settings"):
        build_core("linear", TASK, depth=2)


def test_a_core_is_built_by_name_with_options():
    torch.manual_seed(3)
    first = build_core("patchtst", TASK, patch=4, width=16)
    torch.manual_seed(3)
    second = replace(PatchTST(patch=4), width=16).build(TASK)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
