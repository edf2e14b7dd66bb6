"""Generation with a cache gives what the full pass gives."""

import copy

import pytest
import torch

from fighter.errors import FighterError
from fighter.plug import replace_attention

from ..pairs import pairs
from .language import build, inputs_of, transformers
from .literal import train_hops

KINDS = ["gpt2", "llama"]


def trained(kind: str, kappa: int = 3, **options):
    model = replace_attention(build(kind, **options), kappa)
    train_hops(model)
    return model


def generate(model, inputs, **options):
    """Return the generated tokens and, for each, the logits of the first text."""
    options = {"max_new_tokens": 6, "do_sample": False, **options}
    found = model.generate(**inputs, **options, return_dict_in_generate=True, output_logits=True)
    return found.sequences, torch.stack(found.logits)


@pairs(kind=KINDS, padded=[False, True], kappa=[3, 4], function=["eager", "sdpa"])
def test_greedy_generation_equals_the_full_pass(kind, padded, kappa, function):
    model = trained(kind, kappa, attn_implementation=function)
    inputs = inputs_of(kind, padded)
    tokens, logits = generate(model, inputs)
    full, full_logits = generate(model, inputs, use_cache=False)
    assert torch.equal(tokens, full)
    torch.testing.assert_close(logits, full_logits, atol=1e-4, rtol=1e-4)
    plain, _ = generate(build(kind, attn_implementation=function), inputs)
    assert not torch.equal(tokens, plain), "the hops must change what is generated"


@pairs(kind=KINDS, beams=[2, 3], returned=[1, 2])
def test_beams_are_reordered(kind, beams, returned):
    model = trained(kind)
    options = {"num_beams": beams, "num_return_sequences": returned}
    inputs = inputs_of(kind, padded=True)
    with_cache, _ = generate(model, inputs, **options)
    assert torch.equal(with_cache, generate(model, inputs, use_cache=False, **options)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_assisted_generation_crops_the_cache(kind):
    model = trained(kind)
    helper = build(kind, seed=3)
    inputs = {name: x[1:] for name, x in inputs_of(kind).items()}
    tokens, _ = generate(model, inputs, assistant_model=helper)
    assert torch.equal(tokens, generate(model, inputs, use_cache=False)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_may_come_in_pieces(kind):
    model = trained(kind, 4)
    tokens = inputs_of(kind)["input_ids"]
    cache = transformers.DynamicCache()
    with torch.no_grad():
        pieces = [
            model(piece, past_key_values=cache).logits for piece in tokens.split([3, 2, 1], 1)
        ]
        torch.testing.assert_close(torch.cat(pieces, 1), model(tokens).logits, atol=1e-4, rtol=1e-4)


def test_a_step_costs_one_row_per_hop(monkeypatch):
    """Every hop of a decoded token multiplies one row of A by what the cache holds."""
    model = trained("llama", 4)
    tokens = inputs_of("llama")["input_ids"]
    cache = transformers.DynamicCache()
    with torch.no_grad():
        model(tokens, past_key_values=cache)
        shapes = []
        usual = torch.nn.functional.scaled_dot_product_attention

        def counted(q, k, v, **options):
            shapes.append((q.shape[2], v.shape[2]))
            return usual(q, k, v, **options)

        monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
        model(tokens[:, :1], past_key_values=cache)
    assert shapes == [(1, 7)] * 3 * 2  # 3 hops in 2 layers


def test_a_cache_can_be_repeated_selected_and_reset():
    model = trained("gpt2")
    tokens = inputs_of("gpt2")["input_ids"]
    last = torch.tensor([[5], [6], [7]])
    with torch.no_grad():
        cache = transformers.DynamicCache()
        model(tokens[:1], past_key_values=cache)
        other = copy.deepcopy(cache)
        cache.batch_repeat_interleave(3)
        got = model(last, past_key_values=cache).logits
        texts = torch.cat([tokens[:1].expand(3, -1), last], 1)
        torch.testing.assert_close(got, model(texts).logits[:, -1:], atol=1e-4, rtol=1e-4)
        cache.batch_select_indices(torch.tensor([2]))
        got = model(last[:1], past_key_values=cache).logits
        text = torch.cat([texts[2:], last[:1]], 1)
        torch.testing.assert_close(got, model(text).logits[:, -1:], atol=1e-4, rtol=1e-4)
        other.reset()
        got = model(tokens, past_key_values=other).logits
        torch.testing.assert_close(got, model(tokens).logits, atol=1e-5, rtol=1e-4)


def test_a_cache_that_another_model_filled_is_refused():
    tokens = inputs_of("gpt2")["input_ids"]
    for kappa in (2, 3):
        cache = transformers.DynamicCache()
        replace_attention(build("gpt2"), kappa)(tokens, past_key_values=cache)
        with pytest.raises(FighterError, match="6 positions") as caught:
            trained("gpt2", 4)(tokens, past_key_values=cache)
        assert caught.value.argument == "past_key_values"


@pytest.mark.parametrize("kind", ["mistral", "llama"])
def test_caches_that_cannot_hold_the_features_are_refused(kind):
    options = {"cache_implementation": "static"} if kind == "llama" else {}
    with pytest.raises(FighterError, match="use_cache=False") as caught:
        generate(trained(kind), inputs_of(kind), **options)
    assert caught.value.argument == "past_key_values"
    assert generate(trained(kind), inputs_of(kind), use_cache=False)[0].shape == (2, 12)


def test_a_decoder_with_an_encoder_generates():
    model = trained("bart")
    inputs = inputs_of("bart")
    for options in ({}, {"num_beams": 2}):
        tokens, _ = generate(model, inputs, **options)
        assert torch.equal(tokens, generate(model, inputs, use_cache=False, **options)[0])
