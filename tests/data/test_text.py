import sys

import numpy as np
import pytest
import torch

from fighter.data.text import KINDS, PAD, UNKNOWN, Texts, Tokens, clean, hold_out
from fighter.errors import FighterError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("it #39;s  #36;46", "it 's  $46"),
        (" quot;Yes! quot; amp; left", ' "Yes! " & left'),
        ("A &amp; B &lt; C", "A & B < C"),
        ("&amp;quot;twice&amp;quot;", '"twice"'),
        ("#151;", "—"),  # as browsers read it
        ("&lt;A HREF=&quot;http://x.y/z?q=1&quot;&gt;DELL.O&lt;/A&gt;", " DELL.O "),
        ("<br/>new<!-- note -->line", " new line"),
        (r"prices\rise\\on", "prices rise  on"),
    ],
)
def test_remains_of_markup_are_removed(text, expected):
    assert clean(text) == expected


@pytest.mark.parametrize(
    "text",
    ["AT&T and R&D", "3 < 4 and 5 > 4", "a part; an int; or;", "issue #39 and #1;", "naïve café"],
)
def test_other_texts_are_unchanged(text):
    assert clean(text) == text


def test_words_become_ids_by_frequency():
    tokens = Tokens.learn(["the cat sat, the cat ran", "the dog"], "word")
    known = tokens.tokenizer.get_vocab()
    assert (known["[PAD]"], known["[UNK]"]) == (PAD, UNKNOWN)
    assert known["the"] == 2  # the most frequent word comes first
    assert set(known) == {"[PAD]", "[UNK]", "the", "cat", "sat", ",", "ran", "dog"}
    rows = tokens.rows(["The Cát FLEW,", "", " \t", "dog dog dog dog dog dog"], 5)
    assert rows.tolist() == [
        [known["the"], known["cat"], UNKNOWN, known[","], PAD],
        [UNKNOWN] + 4 * [PAD],
        [UNKNOWN] + 4 * [PAD],
        5 * [known["dog"]],
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_in_a_text_are_plain_words(kind):
    tokens = Tokens.from_tensor(Tokens.learn(["some [pad] words"], kind).to_tensor())
    row = tokens.rows(["[PAD]words[PAD][UNK]"], 30)[0]
    length = int((row != PAD).sum())
    assert length > 4
    assert (row[:length] != PAD).all()


def test_the_vocabulary_holds_the_most_frequent_words():
    texts = [" ".join(f"w{i}" for i in range(j)) for j in range(1, 11)]  # w0 ten times, w9 once
    tokens = Tokens.learn(texts, "word", size=5)
    assert len(tokens) == 5
    assert set(tokens.tokenizer.get_vocab()) == {"[PAD]", "[UNK]", "w0", "w1", "w2"}
    assert (tokens.rows(["w0 w2 w3"], 3)[0] == UNKNOWN).tolist() == [False, False, True]


def test_words_that_occur_once_in_many_texts_are_left_out():
    texts = ["often"] * 999 + ["once"]
    assert "once" not in Tokens.learn(texts).tokenizer.get_vocab()
    assert "once" in Tokens.learn(texts[1:]).tokenizer.get_vocab()


def test_subwords_cover_unknown_words():
    texts = ["walk walking walked talk talking talked jump"] * 50
    seen = {kind: Tokens.learn(texts, kind, 60).rows(["jumping"], 8)[0] for kind in KINDS}
    assert seen["word"].tolist() == [UNKNOWN] + 7 * [PAD]
    assert (seen["subword"] != PAD).sum() > 1
    assert UNKNOWN not in seen["subword"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_is_reproducible_and_can_be_saved(kind):
    texts = [f"word{i % 7} other{i % 11} thing{i % 5} {i}" for i in range(100)]
    tokens = Tokens.learn(texts, kind, 80)
    again = Tokens.from_tensor(tokens.to_tensor())
    assert torch.equal(Tokens.learn(texts, kind, 80).rows(texts, 9), tokens.rows(texts, 9))
    assert torch.equal(again.rows(texts, 9), tokens.rows(texts, 9))
    assert len(again) == len(tokens)


def test_an_unknown_kind_and_a_missing_package_are_refused(monkeypatch):
    with pytest.raises(FighterError, match="word, subword") as error:
        Tokens.learn(["a"], "char")
    assert (error.value.argument, error.value.value) == ("tokens", "char")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(FighterError, match="pip install tokenizers"):
        Tokens.learn(["a"])


def some(lengths=(2, 5, 3, 1), width=8) -> Texts:
    rows = torch.zeros(len(lengths), width, dtype=torch.int32)
    for i, length in enumerate(lengths):
        rows[i, :length] = torch.arange(2, 2 + length) + 10 * i
    return Texts(rows, torch.arange(len(lengths)))


def test_batches_hold_every_text_once():
    texts = some(lengths=[3] * 10)
    plain = torch.cat(list(texts.batches(4)))
    assert plain.tolist() == list(range(10))
    shuffled = [torch.cat(list(texts.batches(4, torch.Generator().manual_seed(s)))) for s in (0, 1)]
    for order in shuffled:
        assert sorted(order.tolist()) == list(range(10))
    assert shuffled[0].tolist() != shuffled[1].tolist()
    assert [len(index) for index in texts.batches(4)] == [4, 4, 2]
    assert not list(Texts(texts.tokens[:0], texts.labels[:0]).batches(4))


def test_a_batch_is_cut_to_its_longest_text():
    texts = some()
    batch = texts.gather(torch.tensor([2, 0]))
    assert batch.tokens.tolist() == [[22, 23, 24], [2, 3, PAD]]
    assert batch.labels.tolist() == [2, 0]
    assert texts.gather(torch.tensor([1])).tokens.shape == (1, 5)


def test_the_same_share_of_each_class_is_held_out():
    labels = np.repeat([0, 1, 2], [100, 30, 1])
    held = hold_out(labels, 0.2, seed=0)
    assert np.bincount(labels[held], minlength=3).tolist() == [20, 6, 0]
    assert (held == hold_out(labels, 0.2, seed=0)).all()
    assert (held != hold_out(labels, 0.2, seed=1)).any()
    assert not hold_out(labels, 0.0, seed=0).any()
    assert np.bincount(labels[~hold_out(labels, 0.99, seed=0)]).tolist() == [1, 1, 1]
