import torch

from fighter.models import Task, build_core

from ..contract.test_models import SMALL

TASK = Task(lookback=20, horizon=4, series=3, outputs=2, context=2, period=5)
PAST, CONTEXT = torch.randn(2, 20, 3), torch.randn(2, 2)


def test_the_transformer_is_an_encoder_between_linear_maps():
    core = build_core("transformer", TASK, **SMALL).eval()
    x = core.encoder(core.embed(PAST) + core.position + core.context(CONTEXT)[:, None])
    y = core.head((x.mT @ core.over_time.weight.T + core.over_time.bias).mT)
    torch.testing.assert_close(core(PAST, CONTEXT), y.unflatten(-1, (3, 2)))


def test_without_a_forecaster_the_width_is_128_and_the_dropout_one_tenth():
    (first, _) = build_core("transformer", TASK).encoder.layers
    assert (first.width, first.dropout.p, first.ffn1.out_features) == (128, 0.1, 512)
