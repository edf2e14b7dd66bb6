from itertools import pairwise

import pytest
import torch

from fighter import FighterError
from fighter.models import Task, build_core, reformer
from fighter.models.reformer import COLUMNS, ReformerBlock, ReformerEncoder, lsh_hop

from ..contract.test_models import SMALL
from ..nn.test_layer import double
from ..pairs import pairs

BATCH, HEADS, WIDTH = 2, 3, 4


def lsh_attention(qk, v, rotations, **options):
    return lsh_hop(qk, rotations, **options)(v)


def draw(nodes, rounds=2, columns=8):
    shape = (BATCH, HEADS, nodes)
    qk, v = torch.randn(*shape, WIDTH).double(), torch.randn(*shape, 5).double()
    return qk, v, torch.randn(HEADS, rounds, WIDTH, columns).double()


def attend(qk, v, pairs):
    """Compute shared-QK attention over the pairs; a node without any sees itself."""
    logits = WIDTH**-0.5 * qk @ (qk / qk.norm(dim=-1, keepdim=True)).mT
    alone = torch.eye(qk.shape[2], dtype=torch.bool)
    logits = logits.masked_fill(~pairs, -1e30).masked_fill(alone, -1e5)
    return logits.softmax(-1) @ v


def everybody(qk, mask=None):
    nodes = qk.shape[2]
    pairs = torch.ones(BATCH, 1, nodes, nodes, dtype=torch.bool)
    return pairs if mask is None else pairs & mask[:, None, None] & mask[:, None, :, None]


def found(qk, rotations, bucket_size, mask=None):
    """Return which pairs any round finds, one by one as the docstring defines them."""
    nodes, chunk = qk.shape[2], 2 * bucket_size
    chunks = -(-nodes // chunk)
    pairs = torch.zeros(BATCH, HEADS, nodes, nodes, dtype=torch.bool)
    for b in range(BATCH):
        real = [i for i in range(nodes) if mask is None or mask[b, i]]
        for h in range(HEADS):
            for rotation in rotations[h]:
                turned = qk[b, h] @ rotation[:, :chunks]
                bucket = torch.cat([turned, -turned], -1).argmax(-1).tolist()
                bucket = bucket if chunks > 1 else [0] * nodes
                order = sorted(real, key=lambda i, bucket=bucket: (bucket[i], i))
                at = {i: place // chunk for place, i in enumerate(order)}
                for i in real:
                    for j in real:
                        near = at[i] == at[j] or (at[i] - 1) % chunks == at[j]
                        pairs[b, h, i, j] |= bucket[i] == bucket[j] and near
    return pairs


@pytest.fixture(params=["stored", "sorted"], autouse=True)
def way(request, monkeypatch):
    """Run each test for both ways: the graph of few nodes is stored, many nodes are sorted."""
    if request.param == "sorted":
        monkeypatch.setattr(reformer, "STORE_UP_TO", 0)


@pairs(sizes=[(24, 2), (23, 2), (17, 4), (9, 1), (8, 2)], rounds=[1, 2, 5], masked=[False, True])
def test_it_is_the_softmax_over_all_pairs_that_any_round_finds(sizes, rounds, masked):
    nodes, bucket_size = sizes
    qk, v, rotations = draw(nodes, rounds)
    qk.requires_grad_(), v.requires_grad_()
    mask = torch.arange(nodes) < torch.tensor([[nodes], [nodes - 5]]) if masked else None
    pairs = found(qk, rotations, bucket_size, mask)
    assert 0 < pairs.sum() < pairs.numel()
    o = lsh_attention(qk, v, rotations, bucket_size=bucket_size, mask=mask)
    seen = torch.ones(BATCH, nodes, dtype=torch.bool) if mask is None else mask
    wanted = attend(qk, v, pairs)
    torch.testing.assert_close(o.movedim(1, 2)[seen], wanted.movedim(1, 2)[seen])
    by_o, by_wanted = (
        torch.autograd.grad(y.movedim(1, 2)[seen].pow(3).sum(), (qk, v)) for y in (o, wanted)
    )
    torch.testing.assert_close(by_o, by_wanted)


@pytest.mark.parametrize("nodes", [1, 2, 11, 12])
def test_one_chunk_is_full_attention(nodes):
    qk, v, rotations = draw(nodes)
    o = lsh_attention(qk, v, rotations, bucket_size=6)
    torch.testing.assert_close(o, attend(qk, v, everybody(qk)))


def test_more_rounds_come_closer_to_full_attention():
    qk, v, rotations = draw(48, rounds=64)
    full = attend(qk, v, everybody(qk))
    errors = [
        (lsh_attention(qk, v, rotations[:, :rounds], bucket_size=8) - full).norm() / full.norm()
        for rounds in (1, 4, 16, 64)
    ]
    assert all(more < 0.75 * fewer for fewer, more in pairwise(errors))
    assert errors[-1] < 0.2 * errors[0]


def test_a_node_without_others_sees_itself():
    qk = torch.eye(WIDTH).double().repeat_interleave(2, 0)[None, None, :7]  # the last has no twin
    v = torch.randn(1, 1, 7, 3).double()
    o = lsh_attention(qk, v, torch.eye(WIDTH).double()[None], bucket_size=1)
    twins = [1, 0, 3, 2, 5, 4, 6]
    torch.testing.assert_close(o, v[:, :, twins])


@pytest.mark.parametrize(
    ("content", "bucket_size"), [(7.0, 2), (float("nan"), 2), (float("nan"), 16)]
)
def test_padding_reaches_neither_outputs_nor_weights(content, bucket_size):
    encoder = ReformerEncoder(
        8, 2, heads=2, hidden_width=16, dropout=0.0, bucket_size=bucket_size, rounds=2
    )
    encoder = double(encoder)
    mask = torch.arange(19) < torch.tensor([[19], [11], [1]])
    x = torch.randn(3, 19, 8, dtype=torch.float64)

    def run(fill):
        encoder.zero_grad()
        y = encoder(x.masked_fill(~mask[..., None], fill), mask)[mask]
        y.square().sum().backward()
        return y, [p.grad.clone() for p in encoder.parameters()]

    (clean, clean_gradients), (dirty, dirty_gradients) = run(0.0), run(content)
    assert torch.isfinite(clean).all()
    torch.testing.assert_close(dirty, clean)
    torch.testing.assert_close(dirty_gradients, clean_gradients)
    if bucket_size == 16:  # one chunk with or without the padding
        torch.testing.assert_close(clean[19:30], encoder(x[1:2, :11])[0])


def block(**options):
    small = {"heads": 2, "hidden_width": 16, "dropout": 0.0, "bucket_size": 2, "rounds": 2}
    return double(ReformerBlock(8, **{**small, **options}))


def test_layers_can_be_inverted():
    layers = [block() for _ in range(3)]
    x1, x2 = torch.randn(2, 3, 19, 8, dtype=torch.float64)
    y1, y2 = x1, x2
    for layer in layers:
        y1, y2 = layer.pair(y1, y2)
    assert (y1 - x1).abs().max() > 0.1
    for layer in reversed(layers):
        y1, y2 = layer.inverse(y1, y2)
    torch.testing.assert_close((y1, y2), (x1, x2), rtol=0, atol=1e-10)


def test_gradients_are_those_of_the_reversible_layer():
    """Compute them as the paper does: only the output is kept, the rest is recomputed from it."""
    layer = block()
    x1, x2 = (x.requires_grad_() for x in torch.randn(2, 3, 19, 8, dtype=torch.float64))
    y1, y2 = layer.pair(x1, x2)
    g1, g2 = torch.randn_like(y1), torch.randn_like(y2)
    leaves = [x1, x2, *layer.parameters()]
    wanted = torch.autograd.grad([y1, y2], leaves, [g1, g2])

    weights = list(layer.parameters())
    y1, y2 = y1.detach().requires_grad_(), y2.detach()
    feed = layer._feed(y1)
    back, *by_feed = torch.autograd.grad(feed, [y1, *weights], g2, allow_unused=True)
    g1 = g1 + back
    x2 = (y2 - feed).detach().requires_grad_()
    attended = layer._attend(x2, None)
    back, *by_attention = torch.autograd.grad(attended, [x2, *weights], g1, allow_unused=True)
    both = [b if a is None else a for a, b in zip(by_feed, by_attention, strict=True)]
    torch.testing.assert_close(wanted, (g1, g2 + back, *both))


def test_rotations_are_drawn_in_training_and_fixed_in_evaluation():
    layer, x = block(), torch.randn(2, 30, 8, dtype=torch.float64)
    assert torch.equal(layer(x), layer(x))
    torch.testing.assert_close(layer(x)[1:], layer(x[1:]))
    torch.manual_seed(5)
    assert torch.equal(block().attention.rotations, layer.attention.rotations)
    assert not any("rotations" in name for name in layer.state_dict())
    layer.train()
    assert not torch.equal(layer(x), layer(x))


def test_a_sequence_may_have_more_chunks_than_columns():
    layer = block(bucket_size=1)
    x = torch.randn(1, 2 * (COLUMNS + 3), 8, dtype=torch.float64)
    assert layer(x).isfinite().all()


def test_half_precision_stays_close():
    layer, x = block(bucket_size=16).float(), torch.randn(2, 30, 8)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    torch.testing.assert_close(y, layer(x), rtol=0.05, atol=0.05)


def test_the_forecast_is_read_from_the_last_positions():
    task = Task(lookback=20, horizon=4, series=3, outputs=2, context=2)
    core = build_core("reformer", task, **SMALL).eval()
    past, context = torch.randn(2, 20, 3), torch.randn(2, 2)
    x = core.embed(torch.cat([past, torch.zeros(2, 4, 3)], 1)) + core.position
    x = x + core.context(context)[:, None]
    wanted = core.head(core.norm(core.encoder(x)[:, -4:])).unflatten(-1, (3, 2))
    torch.testing.assert_close(core(past, context), wanted)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: block(heads=3), "heads"),
        (lambda: block(rounds=0), "rounds"),
        (lambda: block(bucket_size=0), "bucket_size"),
        (lambda: block()(torch.randn(2, 5, 7)), "x"),
        (lambda: block()(torch.randn(2, 5, 8), torch.ones(1, 1, 5, 5, dtype=torch.bool)), "mask"),
    ],
)
def test_errors_name_the_argument(call, argument):
    with pytest.raises(FighterError) as error:
        call()
    assert error.value.argument == argument
