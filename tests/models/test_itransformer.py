import torch

from fighter.models import Task, build_core

from ..contract.test_models import SMALL

TASK = Task(lookback=20, horizon=4, series=3, outputs=2, context=2, period=5)
PAST, CONTEXT = torch.randn(2, 20, 3), torch.randn(2, 2)


def test_series_mix_and_are_treated_alike():
    core, order = build_core("itransformer", TASK, **SMALL).eval(), [2, 0, 1]
    y = core(PAST, CONTEXT)
    torch.testing.assert_close(core(PAST[:, :, order], CONTEXT), y[:, :, order])
    moved = core(PAST + torch.tensor([0.0, 0.0, 1.0]), CONTEXT)
    assert not torch.allclose(moved[:, :, :2], y[:, :, :2])


def test_itransformer_is_one_map_an_encoder_and_one_map():
    core = build_core("itransformer", TASK, **SMALL).eval()
    x = core.encoder(core.embed(PAST.mT) + core.context(CONTEXT)[:, None])
    torch.testing.assert_close(
        core(PAST, CONTEXT), core.head(x).unflatten(-1, (4, 2)).transpose(1, 2)
    )
