"""Models with further hops: they start as published, and are their formulas once trained."""

import pytest
import torch

from fighter import FighterError
from fighter.explain import trace
from fighter.models import MODELS, ITransformer, PatchTST, Task
from fighter.models import reformer as reformer_module
from fighter.models.autoformer import AutoCorrelation, choose_delays
from fighter.models.informer import ProbSparse, prob_sparse_hop
from fighter.models.reformer import LSHAttention, lsh_hop
from fighter.models.registry import models_with
from fighter.models.seq2seq import Attention
from fighter.nn import TransformerEncoder, to_fighter
from fighter.nn._checks import split_heads

from ..pairs import pairs
from ..plug.literal import multi_hop_heads, train_hops

SMALL = {"width": 8, "heads": 2, "layers": 1}
KINDS = ["patchtst", "itransformer", "informer", "reformer", "autoformer", "seq2seq"]
TASK = Task(lookback=12, horizon=4, series=3, outputs=2, context=2)


def build(kind, kappa=2, **options):
    torch.manual_seed(0)
    return MODELS[kind](**SMALL, kappa=kappa, **options).build(TASK).eval()


def forecast(core, seed=1):
    draw = torch.Generator().manual_seed(seed)
    past, context = torch.randn(2, 12, 3, generator=draw), torch.randn(2, 2, generator=draw)
    return core(past, context)


def test_these_models_take_kappa():
    assert {*KINDS} | {"fighter", "gcn"} == {*models_with("kappa")}


@pairs(kind=KINDS, kappa=[3, 4])
def test_a_model_starts_as_published_with_its_gradients(kind, kappa):
    old, new = build(kind), build(kind, kappa)
    before, after = forecast(old), forecast(new)
    torch.testing.assert_close(after, before, atol=1e-6, rtol=1e-6)
    for y in (before, after):
        y.square().mean().backward()
    grads = {name: p.grad for name, p in new.named_parameters()}
    for name, p in old.named_parameters():
        torch.testing.assert_close(grads.pop(name), p.grad, atol=1e-6, rtol=1e-5)
    assert grads
    assert all("hops." in name and grad.abs().max() > 0 for name, grad in grads.items())
    train_hops(new)
    assert (forecast(new) - before).abs().max() > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_weights_without_further_hops_load(kind):
    old, new = build(kind), build(kind, 3)
    result = new.load_state_dict(old.state_dict(), strict=False)
    assert not result.unexpected_keys
    assert all(".hops." in name for name in result.missing_keys)
    assert not any("hops" in name for name in old.state_dict())


@pytest.mark.parametrize("wrong", [0, 1, 2.5, None])
def test_kappa_below_2_is_refused(wrong):
    with pytest.raises(FighterError) as caught:
        PatchTST(kappa=wrong)
    assert caught.value.argument == "kappa"
    assert ITransformer(kappa=3).describe() == "itransformer, kappa 3"


MASK = torch.arange(10) < torch.tensor([[10], [7]])


@pairs(kappa=[3, 4], masked=[False, True], causal=[False, True])
def test_informer_is_its_formula(kappa, masked, causal):
    attend = ProbSparse(1.0).eval()
    layer = Attention(8, 2, attend, kappa=kappa).double()
    train_hops(layer)
    x, mask = torch.randn(2, 10, 8).double(), MASK if masked else None
    q, k, v = (split_heads(f(x), 2) for f in (layer.query, layer.key, layer.value))
    hop = prob_sparse_hop(q, k, mask, causal, width=10, factor=1.0)
    a = hop(torch.eye(10).double().expand(2, 2, 10, 10))
    torch.testing.assert_close(a.sum(-1), torch.ones(2, 2, 10).double())
    heads = multi_hop_heads(a, v, x, layer.hops.weights())
    expected = layer.out(heads.transpose(1, 2).flatten(2))
    rows = MASK if masked else slice(None)
    torch.testing.assert_close(layer(x, mask=mask, causal=causal)[rows], expected[rows])


@pairs(kappa=[3, 4], masked=[False, True], way=["stored", "sorted"], nodes=[10, 8])
def test_reformer_is_its_formula(kappa, masked, way, nodes, monkeypatch):
    monkeypatch.setattr(reformer_module, "STORE_UP_TO", 1024 if way == "stored" else 0)
    layer = LSHAttention(8, 2, bucket_size=2, rounds=2, kappa=kappa).double().eval()
    train_hops(layer)
    x, mask = torch.randn(2, nodes, 8).double(), MASK[:, :nodes] if masked else None
    qk, v = (split_heads(f(x), 2) for f in (layer.qk, layer.value))
    eye = torch.eye(nodes).double().expand(2, 2, nodes, nodes)
    a = lsh_hop(qk, layer.rotations, bucket_size=2, mask=mask)(eye)
    assert (a == 0).any(), "hashing must leave pairs out"
    heads = multi_hop_heads(a, v, x, layer.hops.weights())
    expected = layer.out(heads.transpose(1, 2).flatten(2))
    rows = MASK[:, :nodes] if masked else slice(None)
    torch.testing.assert_close(layer(x, mask)[rows], expected[rows])


@pytest.mark.parametrize("kappa", [3, 4])
def test_autoformer_is_its_formula(kappa):
    layer = AutoCorrelation(8, 2.0, kappa).double()
    train_hops(layer)
    x = torch.randn(2, 9, 8).double()
    delays, weights = choose_delays(layer.query(x), layer.key(x), 2.0)
    expected = []
    for b in range(2):
        a = torch.zeros(9, 9).double()
        for delay, weight in zip(delays[b].tolist(), weights[b], strict=True):
            for step in range(9):
                a[step, (step + delay) % 9] += weight
        y = a @ layer.value(x)[b]
        for power, w in enumerate(layer.hops.weights(), start=2):
            y = y + torch.linalg.matrix_power(a, power) @ x[b] @ w.T
        expected.append(layer.out(y))
    torch.testing.assert_close(layer(x), torch.stack(expected))


@pytest.mark.parametrize("heads", [1, 2])
def test_an_encoder_with_further_hops_becomes_a_fighter(heads):
    encoder = TransformerEncoder([3, 8, 8, 2], heads=heads, kappa=4).double().eval()
    train_hops(encoder)
    fighter = to_fighter(encoder)
    assert [layer.powers for layer in fighter.layers] == [(0, 1, 2, 3)] * 2 + [(0,)]
    x = torch.randn(2, 7, 3).double()
    torch.testing.assert_close(fighter(x), encoder(x))


@pytest.mark.parametrize("kind", KINDS)
def test_a_forecast_is_split_exactly(kind):
    core = build(kind, 3).double()
    train_hops(core)
    past = torch.randn(12, 3).double()
    found = trace(core, core, past, lambda y: y[2, 1, 0])
    total = found.inputs.sum() + found.constant
    torch.testing.assert_close(total, core(past[None])[0, 2, 1, 0])
    if kind in ("patchtst", "itransformer"):
        (layer,) = found.layers
        assert layer.parts.powers == (1, 2)
        torch.testing.assert_close(layer.edges.sum() + layer.rest, total)
        assert layer.edges[:, :, 1].abs().sum() > 0
        assert found.inputs[2].abs().sum() > 0
