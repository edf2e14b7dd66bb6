"""Graphs and hop shares of models with further hops."""

import pytest
import torch
from torch import nn

from fighter.errors import FighterError
from fighter.explain import HopDiagnostics, trace
from fighter.plug import graphs, replace_attention

from .language import build, inputs_of, transformers
from .literal import train_hops


def encoder(width=8):
    layer = nn.TransformerEncoderLayer(width, 2, 12, batch_first=True, norm_first=True)
    return replace_attention(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), 4)


def test_the_graphs_are_those_that_torch_returns():
    layer = replace_attention(nn.MultiheadAttention(8, 2, batch_first=True))
    train_hops(layer)
    x = torch.randn(3, 5, 8)
    (found,) = graphs(layer, x, x, x)
    weights = layer(x, x, x, average_attn_weights=False)[1]
    torch.testing.assert_close(found.graph, weights)
    assert found.powers == (1, 2)
    assert repr(found) == "<AttentionGraph '': 3 × 2 heads, 5 nodes>"


@pytest.mark.parametrize("kind", ["bert", "vit", "gpt2", "llama"])
@pytest.mark.parametrize("function", ["eager", "sdpa"])
def test_the_graphs_are_those_that_transformers_returns(kind, function):
    model = replace_attention(build(kind, attn_implementation=function))
    train_hops(model)
    inputs = inputs_of(kind, padded=True)
    found = graphs(model, **inputs)
    model.set_attn_implementation("eager")
    attentions = model(**inputs, output_attentions=True).attentions
    assert len(found) == len(attentions) == 2
    rows = torch.ones(2, 5 if kind == "vit" else 6, dtype=torch.bool)
    rows = inputs.get("attention_mask", rows).bool()
    for one, weights in zip(found, attentions, strict=True):
        for sequence in range(2):
            seen = rows[sequence]
            torch.testing.assert_close(
                one.graph[sequence][:, seen], weights[sequence][:, seen], atol=1e-5, rtol=1e-4
            )


def test_shares_start_at_the_first_hop_and_are_those_of_explain():
    model = encoder().train()
    x = torch.randn(2, 5, 8)
    for found in graphs(model, x):
        torch.testing.assert_close(found.shares(), torch.tensor([[1.0, 0, 0], [1, 0, 0]]))
    assert model.training
    train_hops(model)
    mask = torch.arange(5) < torch.tensor([[5], [3]])
    first, second = graphs(model, x)
    assert (first.name, second.name) == ("layers.0.self_attn", "layers.1.self_attn")
    for seen in (None, mask):
        diagnostics = second.diagnose(seen)
        assert isinstance(diagnostics, HopDiagnostics)
        torch.testing.assert_close(second.shares(seen), diagnostics.norm_share)
        torch.testing.assert_close(second.shares(seen).sum(1), torch.ones(2))
        assert (second.shares(seen) > 0.01).all()


def test_the_terms_add_up_to_the_output_of_the_heads():
    layer = replace_attention(nn.MultiheadAttention(8, 2, batch_first=True), 4)
    train_hops(layer)
    x = torch.randn(3, 5, 8)
    (found,) = graphs(layer, x, x, x)
    terms = zip(found.parts.graphs(), found.parts.values, strict=True)
    heads = torch.stack([a @ v for a, v in terms]).sum(0)
    y = layer.out_proj(heads.transpose(1, 2).flatten(2))
    torch.testing.assert_close(y, layer(x, x, x)[0], atol=1e-5, rtol=1e-5)


def test_long_sequences_have_graphs_too():
    layer = replace_attention(nn.MultiheadAttention(8, 2, batch_first=True))
    x = torch.randn(1, 301, 8)
    (found,) = graphs(layer, x, x, x, need_weights=False)
    torch.testing.assert_close(found.graph.mean(1), layer(x, x, x)[1], atol=1e-5, rtol=1e-4)


def test_a_trace_splits_the_output_of_a_model_with_further_hops():
    model = encoder().double().eval()
    train_hops(model)
    x = torch.randn(5, 8).double()
    found = trace(model, model, x, lambda y: y[4, 0])
    total = found.inputs.sum() + found.constant
    torch.testing.assert_close(total, model(x[None])[0, 4, 0])


def test_what_has_no_graph_is_refused():
    with pytest.raises(FighterError, match="replace_attention") as caught:
        graphs(nn.MultiheadAttention(8, 2), torch.randn(5, 8))
    assert caught.value.argument == "model"
    model, cache = replace_attention(build("gpt2")), transformers.DynamicCache()
    tokens = inputs_of("gpt2")["input_ids"]
    model(tokens, past_key_values=cache)
    with pytest.raises(FighterError, match="past_key_values"):
        graphs(model, tokens[:, :1], past_key_values=cache)
