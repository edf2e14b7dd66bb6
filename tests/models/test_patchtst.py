import torch

from fighter.models import Task, build_core

from ..contract.test_models import SMALL

TASK = Task(lookback=20, horizon=4, series=3, outputs=2, context=2, period=5)
PAST, CONTEXT = torch.randn(2, 20, 3), torch.randn(2, 2)


def test_patches_overlap_and_the_last_value_is_repeated():
    core = build_core("patchtst", TASK, **SMALL)
    patches = core.patches(torch.arange(20.0).reshape(1, 20, 1))
    assert patches[0, 0, :, 0].tolist() == [0, 8]
    assert patches[0, 0, 1].tolist() == [*range(8, 20), *[19] * 4]
    long = build_core("patchtst", Task(96, 4, 1), **SMALL)
    assert long.patches(torch.randn(1, 96, 1)).shape == (1, 1, 12, 16)  # ⌊(96 - 16) / 8⌋ + 2


def test_series_are_independent_and_treated_alike():
    core, order = build_core("patchtst", TASK, **SMALL).eval(), [2, 0, 1]
    y = core(PAST, CONTEXT)
    torch.testing.assert_close(core(PAST[:, :, order], CONTEXT), y[:, :, order])
    moved = core(PAST + torch.tensor([0.0, 0.0, 1.0]), CONTEXT)
    torch.testing.assert_close(moved[:, :, :2], y[:, :, :2])


def test_a_patch_is_at_most_the_lookback_and_a_stride_at_most_a_patch():
    core = build_core("patchtst", Task(5, 2, 1), **SMALL)
    assert (core.patch, core.stride) == (5, 5)
