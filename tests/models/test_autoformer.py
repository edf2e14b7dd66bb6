"""Decomposition, correlation and aggregation against plain sums; the blocks."""

import pytest
import torch

from fighter import FighterError
from fighter.models.autoformer import (
    AutoCorrelation,
    AutoformerBlock,
    AutoformerDecoderBlock,
    SeasonalNorm,
    aggregate,
    choose_delays,
    correlate,
    decompose,
)


def auto_correlation(q, k, v, factor=3.0):
    return aggregate(v, *choose_delays(q, k, factor), q.shape[1])


def series(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("nodes", [1, 2, 3, 8, 31])
def test_the_trend_is_a_moving_average(nodes):
    x = series(2, nodes, 3)
    for kernel in (1, 4, 5, 25):
        seasonal, trend = decompose(x, kernel)
        half = (min(kernel, nodes) - 1) // 2
        places = torch.arange(nodes)[:, None] + torch.arange(-half, half + 1)
        torch.testing.assert_close(trend, x[:, places.clamp(0, nodes - 1)].mean(2))
        torch.testing.assert_close(seasonal + trend, x)


def test_a_line_is_all_trend_and_a_sine_with_the_period_of_the_kernel_has_none():
    t = torch.arange(40, dtype=torch.float64)[None, :, None]
    _, trend = decompose(3 * t - 7, 9)
    torch.testing.assert_close(trend[:, 4:-4], (3 * t - 7)[:, 4:-4])
    _, trend = decompose(torch.sin(2 * torch.pi * t / 9), 9)
    torch.testing.assert_close(trend[:, 4:-4], torch.zeros(1, 32, 1, dtype=torch.float64))


def test_padding_does_not_enter_the_trend():
    mask = torch.arange(12) < torch.tensor([[7], [12], [0]])
    x = series(3, 12, 2) * mask[..., None]
    seasonal, trend = decompose(x, 5, mask)
    for step in range(7):
        near = x[0, max(step - 2, 0) : min(step + 3, 7)]
        before = x[0, :1].expand(max(2 - step, 0), -1)  # the first value is repeated
        torch.testing.assert_close(trend[0, step], torch.cat([before, near]).mean(0))
    torch.testing.assert_close(trend[1], decompose(x[1:2], 5)[1][0])
    torch.testing.assert_close(seasonal + trend, x)
    assert not trend[0, 7:].any()
    assert not trend[2].any()


@pytest.mark.parametrize("nodes", [1, 2, 9, 16])
def test_the_correlation_is_the_direct_sum(nodes):
    q, k = series(2, nodes, 3), series(2, nodes, 3)
    wanted = torch.stack(
        [sum((q[:, t] * k[:, t - lag]).mean(-1) for t in range(nodes)) for lag in range(nodes)], 1
    )
    torch.testing.assert_close(correlate(q, k), wanted)


@pytest.mark.parametrize("others", [4, 9])
def test_the_correlation_at_some_delays_and_with_fewer_keys(others):
    q, k = series(2, 9, 3), series(2, others, 3)
    filled = torch.cat([k, torch.zeros(2, 9 - others, 3, dtype=torch.float64)], 1)
    delays = torch.tensor([[8, 0, 3], [2, 5, 1]])
    wanted = correlate(q, filled).gather(1, delays)
    torch.testing.assert_close(correlate(q, k, delays), wanted)


@pytest.mark.parametrize("period", [5, 7, 12])
def test_the_correlation_finds_the_period(period):
    cycle = series(period, 4)
    x = (cycle.repeat(5, 1) + 0.3 * series(5 * period, 4))[None]
    found = correlate(x, x)[0]
    assert int(found[1:].argmax() + 1) % period == 0
    shifted = x.roll(3, 1)
    assert correlate(shifted, x)[0].topk(5).indices.remainder(period).eq(3).all()


def test_aggregation_is_the_sum_of_rolls():
    v, weights = series(3, 11, 2), series(3, 4).softmax(-1)
    delays = torch.stack([torch.randperm(11)[:4] for _ in range(3)])
    wanted = torch.stack(
        [sum(w * v[b].roll(-int(d), 0) for w, d in zip(weights[b], delays[b], strict=True))
         for b in range(3)]
    )  # fmt: skip
    torch.testing.assert_close(aggregate(v, delays, weights), wanted)


def test_a_roll_by_the_period_returns_the_series():
    x = series(1, 6, 3).repeat(1, 4, 1)
    torch.testing.assert_close(aggregate(x, torch.tensor([[6]]), x.new_ones(1, 1)), x)
    # With as many delays as periods, 0 and 6 and 12 and 18 are the strongest, each exact.
    torch.testing.assert_close(auto_correlation(x, x, x, factor=4 / 3.17), x)
    y = x * torch.tensor([1.0, 1, 1, 1, 1, 2]).repeat(4)[:, None]
    assert not torch.allclose(auto_correlation(x, x.roll(1, 1), y, factor=4 / 3.17), y)


def test_values_are_weighted_by_the_softmax_over_the_strongest_delays():
    q, k, v = (series(2, 10, 3) for _ in range(3))
    found = correlate(q, k)
    wanted = torch.zeros_like(v)
    for b in range(2):
        delays = found[b].argsort(descending=True)[:4]  # ⌊2 ln 10⌋
        for w, d in zip(found[b][delays].softmax(0), delays, strict=True):
            wanted[b] += w * v[b].roll(-int(d), 0)
    torch.testing.assert_close(auto_correlation(q, k, v, factor=2), wanted)
    alone = auto_correlation(q[:1], k[:1], v[:1], factor=2)
    torch.testing.assert_close(alone, wanted[:1])


def test_half_precision_stays_close():
    q, k, v = (series(2, 13, 4).bfloat16() for _ in range(3))
    y = auto_correlation(q, k, v)
    assert y.dtype == torch.bfloat16
    exact = auto_correlation(q.double(), k.double(), v.double())
    torch.testing.assert_close(y.double(), exact, rtol=1e-2, atol=1e-2)


def test_gradients_agree_with_finite_differences():
    q, k, v = (series(1, 7, 2).requires_grad_() for _ in range(3))
    assert torch.autograd.gradcheck(lambda q, k, v: auto_correlation(q, k, v, 2), (q, k, v))


def test_another_sequence_is_cut_to_its_last_steps_or_extended_by_zeros():
    attention = AutoCorrelation(4).double()
    x, memory = series(2, 6, 4), series(2, 9, 4)
    torch.testing.assert_close(attention(x, memory), attention(x, memory[:, 3:]))
    filled = torch.cat([memory[:, :4], torch.zeros(2, 2, 4, dtype=torch.float64)], 1)
    torch.testing.assert_close(attention(x, memory[:, :4]), attention(x, filled))
    torch.testing.assert_close(attention(x), attention(x, x))


def test_the_encoder_block_is_the_two_lines_of_the_paper():
    block = AutoformerBlock(4, heads=2, hidden_width=8, dropout=0.0, kernel=5).double()
    x = series(2, 15, 4)
    s, _ = decompose(block.attention(x) + x, 5)
    torch.testing.assert_close(block(x), decompose(block.ffn(s) + s, 5)[0])
    torch.testing.assert_close(block(x + 10), block(x))  # a constant is removed with the trend


def test_padding_has_no_effect_on_the_block():
    block = AutoformerBlock(4, heads=2, hidden_width=8, dropout=0.1).eval()
    mask = torch.arange(12) < torch.tensor([[7], [12]])
    x = torch.randn(2, 12, 4)
    y = block(x, mask)
    other = block(torch.where(mask[..., None], x, float("nan")), mask)
    assert torch.equal(other, y)
    assert not y[0, 7:].any()
    torch.testing.assert_close(block(x[1:]), y[1:])  # a full mask equals no mask


def test_season_and_trend_of_the_decoder_block_add_up():
    block = AutoformerDecoderBlock(4, 4, hidden_width=8, dropout=0.0, kernel=5).double()
    block.trend.weight.data = torch.eye(4, dtype=torch.float64).repeat(1, 3)
    block.ffn[2].weight.data.zero_()
    x, memory = series(2, 9, 4), series(2, 12, 4)
    y, trend = block(x, memory)
    s, _ = decompose(x + block.attention(x), 5)
    added = block.attention(x) + block.cross(s, memory)
    torch.testing.assert_close(y + trend, x + added)


def test_the_decoder_block_is_the_three_lines_of_the_paper():
    block = AutoformerDecoderBlock(4, 2, hidden_width=8, dropout=0.0, kernel=5).double()
    x, memory = series(2, 9, 4), series(2, 12, 4)
    s, first = decompose(x + block.attention(x), 5)
    s, second = decompose(s + block.cross(s, memory), 5)
    s, third = decompose(s + block.ffn(s), 5)
    trend = block.trend(torch.cat([first, second, third], -1))
    torch.testing.assert_close(block(x, memory), (s, trend))


def test_the_final_norm_has_mean_zero_over_time():
    y = SeasonalNorm(4).double()(series(2, 9, 4) + 3)
    torch.testing.assert_close(y.mean(1), torch.zeros(2, 4, dtype=torch.float64))


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: AutoCorrelation(4, factor=0), "factor"),
        (lambda: AutoformerBlock(4, hidden_width=4, dropout=0.0, kernel=0), "kernel"),
        (lambda: AutoformerDecoderBlock(4, 2, hidden_width=4, dropout=0.0, kernel=0.5), "kernel"),
    ],
)
def test_errors_name_the_argument(call, argument):
    with pytest.raises(FighterError) as error:
        call()
    assert error.value.argument == argument
