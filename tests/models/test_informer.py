"""Sparse attention against full attention, row by row; distilling; the blocks."""

import pytest
import torch

from fighter import FighterError
from fighter.models import Task, build_core
from fighter.models.informer import (
    Distil,
    InformerBlock,
    ProbSparse,
    _sample_keys,
    prob_sparse_hop,
    sample_size,
)
from fighter.models.seq2seq import Attention, DecoderBlock, full_attention

from ..pairs import pairs

NODES = 24
SIZES = {"width": 16, "heads": 2}


def heads_of(nodes=NODES, batch=3, heads=2, width=4):
    return (torch.randn(batch, heads, nodes, width, dtype=torch.float64) for _ in range(3))


def prob_sparse_attention(q, k, v, mask=None, causal=False, **options):
    return prob_sparse_hop(q, k, mask, causal, **options)(v)


def padding(kind, nodes=NODES):
    """Mask three sequences: padding at the end, padding at both ends and inside, none."""
    if kind is None:
        return None
    mask = torch.ones(3, nodes, dtype=torch.bool)
    mask[0, nodes // 2 :] = False
    mask[1, [0, 1, 5, nodes - 1]] = False
    return mask


def visible(mask, causal, nodes=NODES):
    """Return which pairs may look at each other, ``[batch, 1, nodes, nodes]``."""
    pairs = torch.ones(3, 1, nodes, nodes, dtype=torch.bool)
    pairs = pairs if mask is None else pairs & mask[:, None, None]
    return pairs.tril() if causal else pairs


masks_and_causal = pairs(kind=[None, "padding"], causal=[False, True])
with_sampling = pairs(kind=[None, "padding"], causal=[False, True], random=[False, True])


@masks_and_causal
def test_full_attention_is_the_formula_also_between_two_sequences(kind, causal):
    q, k, v = heads_of()
    mask = padding(kind)
    logits = q @ k.mT / 2
    wanted = logits.masked_fill(~visible(mask, causal), -1e300).softmax(-1) @ v
    rows = slice(None) if mask is None or not causal else slice(2, None)  # row 0 of 1 sees nobody
    torch.testing.assert_close(
        full_attention(q, k, v, mask, causal)[:, :, rows], wanted[:, :, rows]
    )
    if not causal:
        torch.testing.assert_close(full_attention(q[:, :, :7], k, v, mask), wanted[:, :, :7])


@with_sampling
def test_with_every_query_chosen_it_is_full_attention(kind, causal, random):
    q, k, v = heads_of()
    mask = padding(kind)
    y = prob_sparse_attention(q, k, v, mask, causal, factor=100, random=random)
    wanted = full_attention(q, k, v, mask, causal)
    counts = slice(None) if mask is None else mask[:, None].expand(-1, 2, -1)
    torch.testing.assert_close(y[counts], wanted[counts])


@with_sampling
def test_chosen_queries_get_full_attention_and_the_others_the_mean(kind, causal, random):
    q, k, v = heads_of()
    mask, u = padding(kind), sample_size(2, NODES)
    y = prob_sparse_attention(q, k, v, mask, causal, factor=2, random=random)
    full = full_attention(q, k, v, mask, causal)
    pairs = visible(mask, causal).double()
    mean = pairs / pairs.sum(-1, keepdim=True).clamp(min=1) @ v
    counts = torch.ones(3, NODES, dtype=torch.bool) if mask is None else mask
    is_full, is_mean = ((y - rows).abs().amax(-1) < 1e-12 for rows in (full, mean))
    seen_self = counts[:, None].expand_as(is_full)
    assert (is_full | is_mean)[seen_self].all()
    chosen = (is_full & ~is_mean & seen_self).sum(-1)  # a first row may be both
    assert 0 < u < NODES // 2
    assert (chosen <= u).all()
    assert (chosen >= u - (2 if causal else 0)).all()


@masks_and_causal
def test_the_chosen_queries_have_the_largest_measure(kind, causal):
    q, k, v = heads_of()
    mask, u = padding(kind), sample_size(2, NODES)
    sample = _sample_keys(q, mask, u, random=False)
    y = prob_sparse_attention(q, k, v, mask, causal, factor=2)
    full = full_attention(q, k, v, mask, causal)
    for b, h in [(b, h) for b in range(3) for h in range(2)]:
        measure = torch.full((NODES,), -torch.inf)
        for i in range(NODES):
            keys = [
                j
                for j in sample[b].tolist()
                if (mask is None or mask[b, [i, j]].all()) and (j <= i or not causal)
            ]
            scores = k[b, h, keys] @ q[b, h, i] / 2
            if keys:
                measure[i] = scores.max() - scores.mean()
        chosen = measure.topk(u).indices
        torch.testing.assert_close(y[b, h, chosen], full[b, h, chosen])


def test_the_fixed_sample_is_spread_over_the_keys_that_are_not_padding():
    mask = torch.arange(100) < torch.tensor([[100], [50], [4]])
    sample = _sample_keys(torch.zeros(3, 1, 100, 1), mask, 10, random=False).sort().values
    assert (sample.diff() > 0).all()
    for row, length in zip(sample[:2], (100, 50), strict=True):
        ends = torch.tensor([-1]), row, torch.tensor([length])
        assert torch.cat(ends).diff().max() <= 2.5 * length / 10
    assert {0, 1, 2, 3} <= set(sample[2].tolist())  # all there are


def test_the_sample_is_random_in_training_and_fixed_otherwise():
    q, k, v = heads_of(nodes=64)
    module = ProbSparse(1)

    def attend(q, k, v):
        return module(q, k)(v)

    drawn = {attend(q, k, v).sum().item() for _ in range(8)}
    assert len(drawn) > 1
    module.eval()
    assert torch.equal(attend(q, k, v), attend(q, k, v))
    alone = attend(*(x[1:2] for x in (q, k, v)))
    torch.testing.assert_close(alone, attend(q, k, v)[1:2])


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_those_of_chosen_rows_and_means(causal):
    q, k, v = (x.requires_grad_() for x in heads_of())
    y = prob_sparse_attention(q, k, v, causal=causal, factor=2)
    pairs = visible(None, causal)
    full = (q @ k.mT / 2).masked_fill(~pairs, -torch.inf).softmax(-1)
    chosen = (y - full @ v).abs().amax(-1, keepdim=True) < 1e-12
    assert 0 < chosen.double().mean() < 0.5
    literal = torch.where(chosen, full, pairs / pairs.sum(-1, keepdim=True)) @ v
    got, wanted = (torch.autograd.grad(x.pow(3).sum(), (q, k, v)) for x in (y, literal))
    torch.testing.assert_close(got, wanted)


def test_gradients_agree_with_finite_differences():
    q, k, v = (x[:1, :, :9].clone().requires_grad_() for x in heads_of())
    mask = torch.arange(9)[None] < 7
    assert torch.autograd.gradcheck(
        lambda q, k, v: prob_sparse_attention(q, k, v, mask, True, factor=1)[:, :, :7], (q, k, v)
    )


@pytest.mark.parametrize("nodes", [1, 2, 3, 12, 13])
def test_distilling_is_convolution_elu_and_pool(nodes):
    distil = Distil(4).double()
    x = torch.randn(2, nodes, 4, dtype=torch.float64)
    weight, bias = distil.conv.weight, distil.conv.bias
    z = sum(x.roll(1 - i, 1) @ weight[:, :, i].T for i in range(3)) + bias
    z = torch.nn.functional.elu(distil.norm(z))
    wanted = torch.stack([z[:, max(i - 1, 0) : i + 2].amax(1) for i in range(0, nodes, 2)], 1)
    torch.testing.assert_close(distil(x), wanted)


def test_all_nodes_are_chosen_if_they_are_few():
    q, k, v = heads_of()
    mask = torch.arange(NODES) < torch.tensor([[3], [6], [NODES]])
    y = prob_sparse_attention(q, k, v, mask, factor=2)
    full = full_attention(q, k, v, mask)
    for b, length in ((0, 3), (1, 6)):
        torch.testing.assert_close(y[b, :, :length], full[b, :, :length])


def test_padding_has_no_effect_on_the_block():
    block = InformerBlock(8, heads=2, hidden_width=16, dropout=0.1, factor=1).eval()
    mask = padding("padding")
    x = torch.randn(3, NODES, 8)
    other = torch.where(mask[..., None], x, float("nan"))
    torch.testing.assert_close(block(other, mask)[mask], block(x, mask)[mask], rtol=0, atol=0)
    changed = x.clone()
    changed[0, 0] += 1
    assert not torch.equal(block(changed, mask)[0, 1:6], block(x, mask)[0, 1:6])


def test_a_decoder_block_sees_earlier_steps_and_all_of_the_memory():
    block = DecoderBlock(8, heads=2, hidden_width=16, dropout=0.0).double()
    x = torch.randn(2, 10, 8, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(2, 7, 8, dtype=torch.float64, requires_grad=True)
    y = block(x, memory)[:, 4].sum()
    by_x, by_memory = (g.abs().amax((0, 2)) for g in torch.autograd.grad(y, (x, memory)))
    assert (by_x[:5] > 0).all()
    assert not by_x[5:].any()
    assert (by_memory > 0).all()


def test_informer_distils_between_layers_and_attends_sparsely():
    task = Task(12, 5, 3)
    lengths = []
    core = build_core("informer", task, **SIZES, layers=3)
    core.encoder.register_forward_hook(lambda *given: lengths.append(given[2].shape[1]))
    core(torch.randn(2, 12, 3))
    assert lengths == [3]  # 12, 6, 3
    for options in ({"layers": 1}, {"layers": 3, "distil": False}):
        core = build_core("informer", task, **SIZES, **options)
        assert not any(isinstance(part, Distil) for part in core.modules())
        sparse = sum(isinstance(part, ProbSparse) for part in core.modules())
        assert sparse == options["layers"] + 1


def test_informer_with_every_query_chosen_is_seq2seq():
    task = Task(12, 5, 3, context=2)
    plain = build_core("seq2seq", task, **SIZES).eval()
    sparse = build_core("informer", task, **SIZES, factor=100, distil=False).eval()
    sparse.load_state_dict(plain.state_dict())
    past, context = torch.randn(2, 12, 3), torch.randn(2, 2)
    torch.testing.assert_close(sparse(past, context), plain(past, context))


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: ProbSparse(0), "factor"),
        (lambda: Attention(6, 4), "heads"),
        (
            lambda: InformerBlock(4, heads=2, hidden_width=4, dropout=0.0)(
                torch.randn(1, 3, 4), torch.ones(1, 1, 3, 3, dtype=torch.bool)
            ),
            "mask",
        ),
    ],
)
def test_errors_name_the_argument(call, argument):
    with pytest.raises(FighterError) as error:
        call()
    assert error.value.argument == argument
