"""Encoders and decoders of Hugging Face transformers with further hops."""

import copy
import pickle
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from fighter.errors import FighterError
from fighter.plug import hop_weights, load_hop_weights, replace_attention, restore_attention

from ..pairs import pairs
from .language import build, inputs_of
from .literal import multi_hop_heads, train_hops

KINDS = ["bert", "vit", "gpt2", "llama"]
FUNCTIONS = ["eager", "sdpa"]


def run(model, inputs):
    return model(**inputs)[0]


@pairs(kind=KINDS, function=FUNCTIONS, padded=[False, True], kappa=[2, 3, 4])
def test_a_model_starts_as_the_original_with_its_gradients(kind, function, padded, kappa):
    old = build(kind, attn_implementation=function)
    new = replace_attention(copy.deepcopy(old), kappa)
    inputs = inputs_of(kind, padded)
    before, after = run(old, inputs), run(new, inputs)
    torch.testing.assert_close(after, before, atol=1e-6, rtol=1e-6)
    gain = torch.randn_like(before) / before.numel()
    (before * gain).sum().backward()
    (after * gain).sum().backward()
    grads = {name: p.grad for name, p in new.named_parameters()}
    for name, p in old.named_parameters():
        torch.testing.assert_close(grads.pop(name), p.grad, atol=1e-6, rtol=1e-6)
    assert len(grads) == 2 * (kappa - 2)
    assert all(grad.abs().max() > 0 for grad in grads.values())


@pytest.mark.parametrize("kappa", [3, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_a_trained_attention_is_the_formula(kind, kappa):
    model = replace_attention(build(kind, attn_implementation="eager"), kappa)
    train_hops(model)
    base = getattr(model, "model", getattr(model, "transformer", model))
    layer = next(m for m in base.modules() if hasattr(m, "hops"))
    inner = {"bert": "value", "gpt2": "c_attn"}.get(kind, "v_proj")
    seen = {}
    getattr(layer, inner).register_forward_hook(lambda _, args, y: seen.update(x=args[0], v=y))
    layer.register_forward_hook(lambda _, args, y: seen.update(out=y[0], a=y[1]))
    model(**inputs_of(kind, padded=True))
    a, x, v = seen["a"], seen["x"], seen["v"]
    v = v.chunk(3, -1)[2] if kind == "gpt2" else v
    v = v.unflatten(-1, (-1, 4)).transpose(1, 2)
    groups = a.shape[1] // v.shape[1]
    assert groups == (2 if kind == "llama" else 1)
    heads = multi_hop_heads(a, v.repeat_interleave(groups, 1), x, layer.hops.weights(), groups)
    expected = heads.transpose(1, 2).flatten(2)
    out = {"bert": nn.Identity(), "gpt2": getattr(layer, "c_proj", None)}.get(kind)
    expected = (out or layer.o_proj)(expected)
    torch.testing.assert_close(seen["out"], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_both_functions_of_attention_agree(kind):
    model = replace_attention(build(kind, attn_implementation="eager"))
    train_hops(model)
    inputs = inputs_of(kind)
    with torch.no_grad():
        eager = run(model, inputs)
        model.set_attn_implementation("sdpa")
        torch.testing.assert_close(run(model, inputs), eager, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_restoring_gives_the_original_back(kind):
    old = build(kind)
    new = replace_attention(copy.deepcopy(old))
    train_hops(new)
    restored = restore_attention(copy.deepcopy(new))
    assert str(restored) == str(old)
    assert restored.state_dict().keys() == old.state_dict().keys()
    assert torch.equal(run(restored, inputs_of(kind)), run(old, inputs_of(kind)))
    assert new.state_dict().keys() > old.state_dict().keys()


@pytest.mark.parametrize("kind", KINDS)
def test_weights_keep_their_names_and_old_ones_load(kind):
    old = build(kind)
    new = replace_attention(build(kind, seed=1))
    result = new.load_state_dict(old.state_dict(), strict=False)
    assert set(result.missing_keys) == hop_weights(new).keys()
    assert not result.unexpected_keys
    torch.testing.assert_close(
        run(new, inputs_of(kind)), run(old, inputs_of(kind)), atol=1e-6, rtol=1e-6
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_comes_back(kind, tmp_path):
    model = replace_attention(build(kind))
    train_hops(model)
    model.save_pretrained(tmp_path)
    save_file(hop_weights(model), tmp_path / "hops.safetensors")
    loaded = replace_attention(type(model).from_pretrained(tmp_path))
    load_hop_weights(loaded, load_file(tmp_path / "hops.safetensors"))
    assert torch.equal(run(loaded.eval(), inputs_of(kind)), run(model, inputs_of(kind)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_replaced_model_can_be_copied_and_pickled(kind):
    model = replace_attention(build(kind))
    train_hops(model)
    expected = run(model, inputs_of(kind))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(run(other, inputs_of(kind)), expected)
        assert not hop_weights(restore_attention(other))


def test_training_moves_the_hops():
    model = replace_attention(build("gpt2")).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tokens = inputs_of("gpt2")["input_ids"]
    losses = []
    for _ in range(5):
        loss = model(tokens, labels=tokens).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    assert all(weight.abs().max() > 0 for weight in hop_weights(model).values())


def test_gradient_checkpointing_gives_the_same_gradients():
    model = replace_attention(build("llama")).train()
    train_hops(model)
    tokens = inputs_of("llama")["input_ids"]
    grads = []
    for checkpointed in (False, True):
        if checkpointed:
            model.activation_checkpointing_enable()
        model.zero_grad()
        model(tokens, labels=tokens).loss.backward()
        grads.append({name: p.grad.clone() for name, p in model.named_parameters()})
    torch.testing.assert_close(grads[1], grads[0])


def test_attention_to_another_sequence_stays_as_it_is():
    model = replace_attention(build("bart"))
    assert not [name for name in hop_weights(model) if "encoder_attn" in name]
    assert len(hop_weights(model)) == 2
    alone = replace_attention(build("bart").model.decoder.layers[0].encoder_attn)
    x = torch.randn(1, 5, 16)
    with pytest.raises(FighterError, match="where=") as caught:
        alone(x, key_value_states=x.clone())
    assert caught.value.argument == "key_value_states"


def test_an_old_version_of_transformers_is_named(monkeypatch):
    import fighter.plug

    monkeypatch.delattr(fighter.plug, "hugging_face")
    monkeypatch.setitem(sys.modules, "fighter.plug.hugging_face", None)  # its import fails
    with pytest.raises(FighterError, match=r"transformers>=5"):
        replace_attention(build("bert"))


def test_attention_that_goes_past_its_function_is_refused():
    model = build("gpt2", reorder_and_upcast_attn=True)
    with pytest.raises(FighterError, match="reorder_and_upcast_attn"):
        replace_attention(model)
