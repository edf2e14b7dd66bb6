"""nn.MultiheadAttention and torch's encoders with further hops."""

import copy
import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn

from fighter.errors import FighterError
from fighter.plug import hop_weights, load_hop_weights, replace_attention, restore_attention

from ..pairs import pairs
from .literal import multi_hop_heads, train_hops

WIDTH, HEADS = 8, 2
HIDDEN = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
CAUSAL = nn.Transformer.generate_square_subsequent_mask(5)


def attention(**options) -> nn.MultiheadAttention:
    made = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, **options)
    if made.in_proj_bias is not None:  # torch starts it at zero
        nn.init.normal_(made.in_proj_bias)
    return made


def encoder(**options) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 12, batch_first=True, **options)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=not options.get("norm_first"))


@pairs(
    weights=[False, True], causal=[False, True], padding=[False, True], bias=[False, True],
    kappa=[2, 3, 4], mode=[True, False],
)  # fmt: skip
def test_an_attention_starts_as_the_original_with_its_gradients(
    weights, causal, padding, bias, kappa, mode
):
    old = attention(bias=bias).train(mode)
    new = replace_attention(copy.deepcopy(old), kappa)
    options = {
        "need_weights": weights, "is_causal": causal, "attn_mask": CAUSAL if causal else None,
        "key_padding_mask": torch.zeros(2, 5).masked_fill(HIDDEN, -torch.inf) if padding else None,
    }  # fmt: skip
    results = []
    for module in (old, new):
        x = torch.randn(2, 5, WIDTH, generator=torch.Generator().manual_seed(1)).requires_grad_()
        y, graph = module(x, x, x, **options)
        y.square().mean().backward()
        results.append((y, graph, x.grad, *(p.grad for p in old.parameters())))
        if module is old:
            old_grads = {name: p.grad for name, p in module.named_parameters()}
    for name, p in new.named_parameters():
        if "hops" not in name:
            torch.testing.assert_close(p.grad, old_grads[name], atol=1e-6, rtol=1e-6)
        else:
            assert p.grad.abs().max() > 0, "a hop must be able to leave zero"
    for before, after in zip(*(result[:3] for result in results), strict=True):
        if before is not None:
            torch.testing.assert_close(after, before, atol=1e-6, rtol=1e-6)


@pairs(batch_first=[False, True], batched=[False, True], average=[False, True])
def test_every_layout_is_kept(batch_first, batched, average):
    old = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first)
    new = replace_attention(copy.deepcopy(old))
    x = torch.randn(*([3] if batched else []), 5, WIDTH)
    before = old(x, x, x, average_attn_weights=average)
    after = new(x, x, x, average_attn_weights=average)
    torch.testing.assert_close(after, before, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("kappa", [3, 4])
@pytest.mark.parametrize("masks", ["none", "padding", "pairs", "both"])
def test_a_trained_attention_is_the_formula(kappa, masks):
    layer = replace_attention(attention().double(), kappa)
    train_hops(layer)
    x, q_k = torch.randn(2, 5, WIDTH).double(), torch.randn(2, 5, WIDTH).double()
    hidden = HIDDEN if masks in ("padding", "both") else None
    pairs_mask = torch.randn(2 * HEADS, 5, 5).double() if masks in ("pairs", "both") else None
    with torch.no_grad():
        added = torch.zeros(2, HEADS, 5, 5).double()
        if pairs_mask is not None:
            added = added + pairs_mask.view(2, HEADS, 5, 5)
        if hidden is not None:
            added = added.masked_fill(hidden[:, None, None], -torch.inf)
        parts = zip(layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3), strict=True)
        q, k, v = (
            (t @ w.T + b).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for t, (w, b) in zip((q_k, q_k, x), parts, strict=True)
        )
        a = (q @ k.mT / 2 + added).softmax(-1)
        heads = multi_hop_heads(a, v, x, layer.hops.weights())
        expected = layer.out_proj(heads.transpose(1, 2).flatten(2))
    got, weights = layer(q_k, q_k, x, key_padding_mask=hidden, attn_mask=pairs_mask)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(weights, a.mean(1))
    fast, none = layer(
        q_k, q_k, x, key_padding_mask=hidden, attn_mask=pairs_mask, need_weights=False
    )
    torch.testing.assert_close(fast, expected)
    assert none is None


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # torch's own
@pairs(norm_first=[False, True], mask=[False, True], grad=[False, True], dropout=[0.0, 0.1])
def test_an_encoder_starts_as_the_original_past_its_fused_kernel(norm_first, mask, grad, dropout):
    old = encoder(norm_first=norm_first, dropout=dropout).eval()
    new = replace_attention(copy.deepcopy(old))
    x = torch.randn(2, 5, WIDTH)
    hidden = HIDDEN if mask else None
    seen = ~HIDDEN if mask else slice(None)
    with torch.set_grad_enabled(grad):
        before = old(x, src_key_padding_mask=hidden)[seen]
        torch.testing.assert_close(
            new(x, src_key_padding_mask=hidden)[seen], before, atol=1e-6, rtol=1e-6
        )
        train_hops(new)
        assert (new(x, src_key_padding_mask=hidden)[seen] - before).abs().max() > 1e-3


def test_long_sequences_use_fused_attention_and_give_the_same():
    layer = replace_attention(attention())
    train_hops(layer)
    x = torch.randn(1, 300, WIDTH)
    torch.testing.assert_close(
        layer(x, x, x, need_weights=False)[0], layer(x, x, x)[0], atol=1e-5, rtol=1e-5
    )


def test_second_derivatives_need_a_stored_graph():
    layer = replace_attention(attention())
    train_hops(layer)
    x = torch.randn(1, 260, WIDTH, requires_grad=True)

    def slope():
        y = layer(x, x, x, need_weights=False)[0].square().sum()
        return torch.autograd.grad(y, x, create_graph=True)[0].square().sum()

    with pytest.raises(FighterError, match="'stored'"):
        slope().backward()
    layer.backend = "stored"
    slope().backward()
    assert x.grad.isfinite().all()


COMPILED = """
import torch
from fighter.plug import replace_attention
layer = replace_attention(torch.nn.MultiheadAttention(8, 2, batch_first=True))
torch.nn.init.normal_(layer.hops["2"].weight)
compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
x, hidden = torch.randn(2, 5, 8), torch.arange(5) > torch.tensor([[5], [2]])
for options in ({}, {"key_padding_mask": hidden}, {"need_weights": False}):
    torch.testing.assert_close(compiled(x, x, x, **options), layer(x, x, x, **options))
"""


@pytest.mark.slow
def test_a_compiled_attention_is_one_graph_and_equals_the_eager_one():
    # In its own process, because the compiler cannot trace the shape checks of the tests.
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_vmap_takes_a_mask_for_each_batch():
    layer = replace_attention(attention())
    train_hops(layer)
    x, hidden = torch.randn(3, 2, 5, WIDTH), torch.zeros(3, 2, 5, dtype=torch.bool)
    hidden[1, 0, 3:] = True

    def attend(x, hidden):
        return layer(x, x, x, key_padding_mask=hidden, need_weights=False)[0]

    expected = torch.stack([attend(*each) for each in zip(x, hidden, strict=True)])
    torch.testing.assert_close(torch.vmap(attend)(x, hidden), expected)


@pytest.mark.parametrize("nodes", [5, 300])
def test_dropout_of_the_graph_stays(nodes):
    layer = replace_attention(attention(dropout=0.5))
    x = torch.randn(1, nodes, WIDTH)
    first, second = (layer(x, x, x, need_weights=False)[0] for _ in range(2))
    assert not torch.allclose(first, second)
    layer.eval()
    first, second = (layer(x, x, x, need_weights=False)[0] for _ in range(2))
    assert torch.equal(first, second)


def test_restoring_gives_the_original_back():
    old = encoder(dropout=0.0)
    new = replace_attention(copy.deepcopy(old))
    train_hops(new)
    restored = restore_attention(new)
    assert str(restored) == str(old)
    assert restored.use_nested_tensor == old.use_nested_tensor
    assert restored.state_dict().keys() == old.state_dict().keys()
    x = torch.randn(2, 5, WIDTH)
    assert torch.equal(restored.eval()(x), old.eval()(x))


def test_state_dicts_keep_their_names_and_old_ones_load():
    old = encoder()
    new = replace_attention(copy.deepcopy(old), kappa=4)
    more = new.state_dict().keys() - old.state_dict().keys()
    assert more == hop_weights(new).keys()
    assert more == {f"layers.{i}.self_attn.hops.{p}.weight" for i in (0, 1) for p in (2, 3)}
    result = new.load_state_dict(old.state_dict(), strict=False)
    assert set(result.missing_keys) == more
    assert not result.unexpected_keys


def test_hop_weights_load_by_themselves():
    old = encoder()
    new, other = (replace_attention(copy.deepcopy(old)) for _ in range(2))
    train_hops(new)
    load_hop_weights(other, new.state_dict())
    torch.testing.assert_close(dict(other.state_dict()), dict(new.state_dict()), rtol=0, atol=0)
    few = replace_attention(copy.deepcopy(old), where="layers.1.*")
    with pytest.raises(FighterError, match=r"layers\.0"):
        load_hop_weights(few, hop_weights(new))
    with pytest.raises(FighterError, match="has no"):
        load_hop_weights(new, hop_weights(few))
    wrong = {name: weight[:2] for name, weight in hop_weights(new).items()}
    with pytest.raises(FighterError, match=r"\[2, 8\]"):
        load_hop_weights(new, wrong)


def test_a_replaced_model_can_be_copied_pickled_and_cast():
    new = replace_attention(encoder()).eval()
    train_hops(new)
    x = torch.randn(2, 5, WIDTH)
    for other in (copy.deepcopy(new), pickle.loads(pickle.dumps(new))):
        assert torch.equal(other(x), new(x))
    assert {p.dtype for p in new.to(torch.bfloat16).parameters()} == {torch.bfloat16}
    half = replace_attention(encoder().to(torch.bfloat16))
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}


def test_where_chooses():
    patterns = ["layers.0.*", ("layers.0.self_attn",), lambda name: "0" in name]
    for where in patterns:
        new = replace_attention(encoder(), where=where)
        assert [*hop_weights(new)] == ["layers.0.self_attn.hops.2.weight"]
    with pytest.raises(FighterError, match=r"layers\.0\.self_attn") as caught:
        replace_attention(encoder(), where="decoder.*")
    assert caught.value.argument == "where"


def test_attention_to_another_sequence_stays_as_it_is():
    decoder = nn.TransformerDecoderLayer(WIDTH, HEADS, 12, batch_first=True)
    assert [*hop_weights(replace_attention(decoder))] == ["self_attn.hops.2.weight"]
    layer = replace_attention(attention())
    x = torch.randn(1, 5, WIDTH)
    with pytest.raises(FighterError, match="not self-attention") as caught:
        layer(x, x.clone(), x)
    assert caught.value.argument == "query"


@pytest.mark.parametrize("options", [{"add_bias_kv": True}, {"add_zero_attn": True}])
def test_a_graph_that_is_not_square_is_refused(options):
    with pytest.raises(FighterError, match="where=") as caught:
        replace_attention(attention(**options))
    assert caught.value.argument == "model"


def test_what_cannot_be_replaced_is_refused():
    with pytest.raises(FighterError, match="no self-attention"):
        replace_attention(nn.Linear(2, 2))
    with pytest.raises(FighterError, match="restore_attention"):
        replace_attention(replace_attention(attention()))
    with pytest.raises(FighterError) as caught:
        replace_attention(attention(), kappa=1)
    assert caught.value.argument == "kappa"
    with pytest.raises(FighterError, match=r"torch\.nn\.Module"):
        replace_attention("bert")
