"""Rules that the network over tokens must obey with any kind of block."""

import pytest
import torch

from fighter.data.text import PAD, UNKNOWN
from fighter.errors import FighterError
from fighter.models.text import BLOCKS, TextNet

VOCABULARY, CLASSES, LENGTH = 50, 3, 96
each = pytest.mark.parametrize("model", BLOCKS)


def build(model: str = "fighter", **options) -> TextNet:
    torch.manual_seed(0)
    sizes = {"max_length": LENGTH, "width": 16, "heads": 2, "layers": 2, **options}
    network = TextNet(VOCABULARY, CLASSES, model=model, **sizes)
    for weight in (network.embed.weight, network.position):
        torch.nn.init.normal_(weight)  # larger, so that differences show
    return network


def texts_of(*lengths: int, width: int = LENGTH) -> torch.Tensor:
    rows = torch.full((len(lengths), width), PAD, dtype=torch.int32)
    for i, length in enumerate(lengths):
        rows[i, :length] = torch.randint(UNKNOWN, VOCABULARY, (length,), dtype=torch.int32)
    return rows


@each
def test_a_text_without_padding_is_classified_by_the_formula(model):
    network = build(model).eval()
    (tokens,) = texts_of(LENGTH)
    x = network.embed.weight[tokens.long()] + network.position
    for block in network.blocks:
        x = block(x[None], None)[0]
    x = torch.nn.functional.gelu(x) if model == "autoformer" else x
    expected = x.mean(0) @ network.head.weight.T + network.head.bias
    torch.testing.assert_close(network(tokens[None])[0], expected)
    assert network(tokens[None]).shape == (1, CLASSES)


@each
def test_the_amount_of_padding_has_no_effect(model):
    network = build(model).eval()
    rows = texts_of(1, 4, 37, 70, 96)
    together = network(rows)
    assert together.isfinite().all()
    for row, expected in zip(rows, together, strict=True):
        length = int((row != PAD).sum())
        alone = network(row[None, :length])[0]
        torch.testing.assert_close(alone, expected, rtol=1e-5, atol=1e-6)


@each
def test_the_content_of_padding_has_no_effect(model):
    network = build(model).eval()
    rows = texts_of(3, 40, 96)
    before = network(rows)
    with torch.no_grad():
        network.embed.weight[PAD] = float("nan")
    assert torch.equal(network(rows), before)


@each
def test_gradients_reach_every_parameter(model):
    network = build(model, dropout=0.1, word_dropout=0.0)
    network(texts_of(1, 4, 96)).square().sum().backward()
    for name, parameter in network.named_parameters():
        if name.endswith("key.bias"):
            continue  # it shifts a whole row of logits, which softmax cancels
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name
    assert not network.embed.weight.grad[PAD].any()


@each
def test_order_matters(model):
    network = build(model).eval()
    rows = texts_of(8)[:, :8]
    assert not torch.allclose(network(rows.flip(1)), network(rows), atol=1e-3)


def test_a_share_of_the_words_is_dropped_in_training_only():
    network = build(word_dropout=0.25, max_length=400)
    rows = texts_of(*[300] * 20, width=400).clamp(max=VOCABULARY - 1)
    rows[rows == UNKNOWN] = 2
    seen = []
    network.embed.register_forward_hook(lambda _, given, __: seen.append(given[0]))
    network(rows)
    network.eval()(rows)
    trained, evaluated = seen
    assert torch.equal(evaluated, rows)
    dropped = trained != rows
    assert (trained[dropped] == UNKNOWN).all()
    assert dropped[:, :300].float().mean() == pytest.approx(0.25, abs=0.03)
    assert not dropped[:, 300:].any()


def test_kappa_is_passed_to_the_blocks():
    assert [block.powers for block in build(kappa=4).blocks] == [(0, 1, 2, 3)] * 2


def test_an_unknown_model_is_answered_with_the_names():
    with pytest.raises(FighterError, match="fighter, transformer, informer") as error:
        build("lstm")
    assert error.value.argument == "model"
