import numpy as np
import pytest

from fighter.errors import FighterError
from fighter.models import (
    GCN,
    GFSA,
    Autoformer,
    DLinear,
    Fighter,
    Informer,
    NormLin,
    PatchTST,
    Reformer,
    Seq2Seq,
    Task,
    Transformer,
)
from fighter.models.base import value_or


@pytest.mark.parametrize(
    ("config", "options", "argument"),
    [
        (PatchTST, {"width": 0}, "width"),
        (PatchTST, {"width": 20}, "heads"),
        (PatchTST, {"heads": 3}, "heads"),
        (PatchTST, {"heads": None}, "heads"),
        (PatchTST, {"layers": 0}, "layers"),
        (PatchTST, {"layers": 1.5}, "layers"),
        (PatchTST, {"hidden_width": 0}, "hidden_width"),
        (PatchTST, {"dropout": 1.1}, "dropout"),
        (PatchTST, {"dropout": -0.1}, "dropout"),
        (PatchTST, {"dropout": "0.1"}, "dropout"),
        (PatchTST, {"patch": 0}, "patch"),
        (PatchTST, {"stride": 0}, "stride"),
        (Transformer, {"width": 20}, "heads"),
        (Transformer, {"dropout": 2}, "dropout"),
        (Fighter, {"kappa": True}, "kappa"),
        (Fighter, {"channels": 0}, "channels"),
        (Seq2Seq, {"decoder_layers": 0}, "decoder_layers"),
        (Seq2Seq, {"label": 0}, "label"),
        (Informer, {"factor": 0}, "factor"),
        (Informer, {"distil": 1}, "distil"),
        (Autoformer, {"factor": -1}, "factor"),
        (Autoformer, {"kernel": 0}, "kernel"),
        (Reformer, {"rounds": 0}, "rounds"),
        (Reformer, {"bucket_size": 0}, "bucket_size"),
        (GFSA, {"power": 1}, "power"),
        (GCN, {"lags": 0}, "lags"),
        (GCN, {"kappa": 0}, "kappa"),
        (DLinear, {"kernel": 0}, "kernel"),
        (NormLin, {"hidden_width": -1}, "hidden_width"),
    ],
)
def test_a_config_checks_its_values(config, options, argument):
    with pytest.raises(FighterError) as error:
        config(**options)
    assert error.value.argument == argument


def test_numbers_of_numpy_become_numbers_of_python():
    config = PatchTST(width=np.int64(16), dropout=np.float32(0.5))
    assert type(config.width) is int
    assert config.build(Task(12, 4, 3)).dropout.p == 0.5


def test_heads_of_autoformer_need_not_divide_the_width():
    assert Autoformer(width=20).build(Task(12, 4, 3)).embed.values.out_features == 20


@pytest.mark.parametrize(("options", "hidden_width"), [({}, 64), ({"hidden_width": 10}, 10)])
def test_the_width_inside_feed_forward_networks(options, hidden_width):
    block = Seq2Seq(width=16, **options).block
    assert block == {"heads": 8, "hidden_width": hidden_width, "dropout": 0.1, "kappa": 2}
    assert PatchTST(width=16).block["hidden_width"] == 32


def test_a_value_or_its_default():
    assert value_or(None, 3) == 3
    assert value_or(0, 3) == 0
