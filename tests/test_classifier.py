import inspect
import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from fighter import FighterError, TextClassifier
from fighter.data.datasets import catalogue
from fighter.data.text import PAD, TextBatch
from fighter.models.text import BLOCKS

from .forecasting.test_storage import change, read, rewrite
from .training.nets import same_weights

SUBJECTS = {"sea": "ship wave sailor harbour", "sky": "cloud wing pilot runway"}


def sentences(count: int = 120, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts of two subjects with words of both kinds around, and the subject of each."""
    draw = np.random.default_rng(seed)
    labels = [list(SUBJECTS)[i % 2] for i in range(count)]
    return [
        " ".join(
            [
                *draw.choice(["the", "a", "of", "and", "then"], draw.integers(1, 9)),
                *draw.choice(SUBJECTS[label].split(), 2),
            ]
        )
        for label in labels
    ], labels


def tiny(**settings) -> TextClassifier:
    small = {"width": 16, "heads": 2, "max_length": 12, "dropout": 0.1, "word_dropout": 0.1}
    small["tokens"] = "word"
    quick = {"max_epochs": 4, "batch_size": 16, "lr": 0.01, "ema": 0.8, "patience": 100}
    return TextClassifier(**{**small, **quick, "verbose": False, "device": "cpu", **settings})


@pytest.fixture(scope="module")
def fitted() -> TextClassifier:
    return tiny(max_epochs=12).fit(*sentences())


def test_learns_two_subjects(fitted):
    texts, labels = sentences(60, seed=1)
    assert fitted.score(texts, labels) == 1
    assert fitted.classes_.tolist() == ["sea", "sky"]
    found, shares = fitted.predict(texts), fitted.predict_proba(texts)
    assert found.tolist() == labels
    assert shares.shape == (60, 2)
    assert shares.sum(1) == pytest.approx(np.ones(60))
    assert (fitted.classes_[shares.argmax(1)] == found).all()
    wrong = ["sky" if label == "sea" else "sea" for label in labels[:15]]
    assert fitted.score(texts, wrong + labels[15:]) == 0.75
    assert fitted.score(texts[:2], ["sea", "no such class"]) == 0.5


def test_real_news(data_dir):
    """2,000 articles of four classes, as many of each."""

    def news(part, count):
        table = catalogue.load("agnews", data_dir, part=part).sample(count, random_state=0)
        return (table.title + " " + table.description).str.strip(), table.label

    model = tiny(width=32, max_length=48, max_epochs=3, ema=0.98)
    model.fit(*news("train_partial", 2000))
    assert model.score(*news("test", 1000)) > 0.8
    assert min(record["validation"] for record in model.history) < 0.25


@pytest.mark.parametrize("model", BLOCKS)
def test_every_model_learns(model, tmp_path):
    texts, labels = sentences()
    classifier = tiny(model=model, max_epochs=8).fit(texts, labels)
    assert classifier.score(*sentences(60, seed=1)) > 0.9
    classifier.save(tmp_path)
    assert (TextClassifier.load(tmp_path).predict(texts) == classifier.predict(texts)).all()


@pytest.mark.parametrize(
    "convert", [list, tuple, np.array, pd.Series, pl.Series, pa.array, lambda v: iter(list(v))]
)
def test_any_kind_of_list(convert):
    texts, labels = sentences(40)
    numbers = [7 if label == "sea" else 3 for label in labels]
    expected = tiny(max_epochs=1).fit(texts, numbers)
    found = tiny(max_epochs=1).fit(convert(texts), convert(numbers))
    assert found.classes_.tolist() == [3, 7]
    assert same_weights(expected.network, found.network)
    assert (found.predict(convert(texts)) == expected.predict(texts)).all()
    assert found.score(convert(texts), convert(numbers)) == expected.score(texts, numbers)


@pytest.mark.parametrize(
    "labels", [[True, False], [0.5, 1.5], ["b", "ä"], [np.int8(1), np.int8(-1)], ["", "x"]]
)
def test_any_kind_of_label(labels, tmp_path):
    texts, subjects = sentences(40)
    labels = [labels[subject == "sky"] for subject in subjects]
    model = tiny(max_epochs=8).fit(texts, labels)
    assert model.score(texts, labels) == 1
    assert model.predict(texts).tolist() == [np.array(v).item() for v in labels]
    model.save(tmp_path)
    after = TextClassifier.load(tmp_path)
    assert after.classes_.dtype == model.classes_.dtype
    assert after.predict(texts).tolist() == model.predict(texts).tolist()


def test_same_seed_same_bits():
    state = torch.get_rng_state()
    first, second, other = (tiny(seed=seed).fit(*sentences()) for seed in (0, 0, 1))
    assert same_weights(first.network, second.network)
    assert first.history == second.history
    assert not same_weights(first.network, other.network)
    assert torch.equal(torch.get_rng_state(), state)  # the user's random numbers are left alone


def test_a_text_gets_the_same_probabilities_alone_and_in_a_batch(fitted):
    """On the CPU a batch is cut to its longest text, which must not matter."""
    texts = ["ship", "cloud of", "the " * 30 + "wave", "", "quite unheard of"]
    together = fitted.predict_proba(texts)
    alone = np.concatenate([fitted.predict_proba([text]) for text in texts])
    assert alone == pytest.approx(together, rel=1e-4)
    assert np.isfinite(together).all()
    uncut = torch.full((1, 12), PAD, dtype=torch.int32)
    uncut[0, :1] = fitted._tokens.rows(["ship"], 1)
    with torch.no_grad():
        logits = fitted.network.eval()(uncut)
    assert logits.softmax(1)[0].numpy() == pytest.approx(together[0], rel=1e-4)
    assert fitted.predict([]).shape == (0,)
    assert fitted.predict_proba([]).shape == (0, 2)


def test_the_rest_of_a_long_text_is_not_read(fitted):
    read = "ship " * 12
    assert (fitted.predict_proba([read + "pilot runway"]) == fitted.predict_proba([read])).all()


def test_objective_is_smoothed_cross_entropy():
    logits = torch.tensor([[2.0, 0.0, -1.0], [0.5, 0.5, 3.0]])
    batch = TextBatch(torch.ones(2, 1, dtype=torch.int32), torch.tensor([0, 1]))
    total, count = tiny(label_smoothing=0.3)._objective(lambda _: logits, batch)
    log = logits.log_softmax(1)
    wanted = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]])
    assert total.item() == pytest.approx(-(wanted * log).sum().item())
    assert count.item() == 2


def test_validation_is_the_share_of_errors_on_texts_not_learned_from():
    texts, labels = sentences(100)
    model = tiny(validation=0.2).fit(texts, labels)
    for record in model.history:
        wrong = record["validation"] * 20  # a fifth of either class
        assert wrong == pytest.approx(round(wrong))
    assert tiny(validation=0).fit(texts, labels).history[-1]["validation"] is None
    flipped = tiny(max_epochs=12).fit(texts, np.random.default_rng(0).permutation(labels))
    assert flipped.history[-1]["best"] > 0.1  # nothing can be known of them


def test_the_vocabulary_leaves_out_held_out_texts():
    """Each text has its own word; the words of held-out texts must be unknown."""
    texts, labels = sentences(50)
    model = tiny(max_epochs=1, validation=0.2).fit(
        [f"{text} own{i}" for i, text in enumerate(texts)], labels
    )
    known = [f"own{i}" in model._tokens.tokenizer.get_vocab() for i in range(50)]
    assert sum(known) == 40


def test_on_epoch_sees_the_weights_that_would_be_kept():
    texts, labels = sentences(60)
    model, seen = tiny(), []

    def look(record):
        record["here"] = model.score(texts, labels)
        seen.append(model.network.state_dict()["head.weight"].clone())

    model.fit(texts, labels, on_epoch=look)
    assert [record["epoch"] for record in model.history] == [1, 2, 3, 4]
    assert model.history[-1]["here"] > model.history[0]["here"]
    scores = [record["validation"] for record in model.history]
    assert torch.equal(seen[scores.index(min(scores))], model.network.head.weight)
    plain = tiny().fit(texts, labels)  # looking changes nothing
    assert same_weights(plain.network, model.network)


# ---- settings -----------------------------------------------------------------------------


def test_get_params_makes_an_equal_classifier():
    model = tiny(kappa=2, tokens="subword")
    clone = TextClassifier(**model.get_params(deep=False))
    assert clone.get_params() == model.get_params()
    assert list(model.get_params()) == list(inspect.signature(TextClassifier).parameters)
    assert repr(TextClassifier(kappa=2, lr=0.1)) == "TextClassifier(kappa=2, lr=0.1)"


def test_numpy_numbers_work_as_settings(tmp_path):
    numbers = {"kappa": np.int64(2), "max_length": np.int64(6), "dropout": np.float32(0.1)}
    model = tiny(max_epochs=np.int64(1), seed=np.int64(3), **numbers).fit(*sentences(40))
    model.save(tmp_path)
    assert TextClassifier.load(tmp_path).kappa == 2


def test_set_params_takes_effect_at_the_next_fit(tmp_path):
    texts, labels = sentences(40)
    model = tiny().fit(texts, labels)
    before = model.predict_proba(texts)
    assert model.set_params(width=8, model="transformer", max_length=3) is model
    assert (model.predict_proba(texts) == before).all()
    model.save(tmp_path)
    assert (TextClassifier.load(tmp_path).predict_proba(texts) == before).all()
    for wrong, argument in (({"lr": 0.5, "width": 0}, "width"), ({"depth": 3}, "depth")):
        with pytest.raises(FighterError) as error:
            model.set_params(**wrong)
        assert error.value.argument == argument
    assert model.lr == 0.01
    assert model.fit(texts, labels).network.embed.weight.shape[1] == 8


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        ({"model": "lstm"}, "model"),
        ({"tokens": "char"}, "tokens"),
        ({"kappa": 0}, "kappa"),
        ({"layers": True}, "layers"),
        ({"max_length": 2.5}, "max_length"),
        ({"vocabulary": 2}, "vocabulary"),
        ({"heads": 3}, "heads"),
        ({"dropout": 1}, "dropout"),
        ({"word_dropout": -0.1}, "word_dropout"),
        ({"label_smoothing": "a"}, "label_smoothing"),
        ({"validation": None}, "validation"),
    ],
)
def test_wrong_settings_are_named(wrong, argument):
    with pytest.raises(FighterError) as error:
        tiny(**wrong)
    assert (error.value.argument, error.value.value) == (argument, wrong[argument])


@pytest.mark.parametrize(
    ("texts", "labels", "argument", "message"),
    [
        ([], [], "texts", "empty"),
        (["a", "b"], [0], "labels", "1 for 2 texts"),
        (["a", 5], [0, 1], "texts", r"number 1 is 5 \(int\)"),
        (["a", None], [0, 1], "texts", r"number 1 is None \(NoneType\)"),
        (pd.Series(["a", float("nan")]), [0, 1], "texts", "number 1 is nan"),
        (["a", "b"], [1, 1], "labels", "all 2 are 1: needs two classes"),
        (["a", "b"], [1, None], "labels", "number 1 is None"),
        (["a", "b"], [1.0, float("nan")], "labels", "number 1 is nan"),
        (["a", "b"], [1, (2, 3)], "labels", r"number 1 is \(2, 3\) \(tuple\)"),
        (["a", "b"], [1, "b"], "labels", "number 0 is 1 and number 1 is 'b'"),
        ("a text", [1], "texts", "str 'a text'"),
        (["a"], 1, "labels", "int 1"),
        (pd.DataFrame({"x": ["a"]}), [1], "texts", "table"),
        (pl.DataFrame({"x": ["a"]}), [1], "texts", "table"),
        (np.array([["a"]]), [1], "texts", "several axes"),
    ],
)
def test_wrong_data_is_named(texts, labels, argument, message, fitted):
    calls = [tiny().fit] if "classes" in message else [tiny().fit, fitted.score]
    for call in calls:
        with pytest.raises(FighterError, match=message) as error:
            call(texts, labels)
        assert error.value.argument == argument


def test_everything_needs_a_fit_first(tmp_path):
    model = tiny()
    for call in (
        lambda: model.predict(["a"]),
        lambda: model.predict_proba(["a"]),
        lambda: model.score(["a"], [1]),
        lambda: model.save(tmp_path / "m"),
    ):
        with pytest.raises(FighterError, match="has not been fitted"):
            call()
    assert not (tmp_path / "m").exists()
    with pytest.raises(FighterError, match="needs a folder"):
        model.fit(*sentences(), tensorboard=True)


def test_a_failed_fit_leaves_the_model_as_it_was():
    texts, labels = sentences(40)
    model = tiny().fit(texts, labels)
    before = model.predict_proba(texts)
    with pytest.raises(FighterError, match="needs two classes"):
        model.fit(["a", "b"], ["x", "x"])
    with pytest.raises(FighterError, match=r"loss became (nan|inf)"):
        model.set_params(lr=1e30).fit(["other words", "and more"] * 10, ["x", "y"] * 10)
    assert (model.predict_proba(texts) == before).all()


def test_nothing_is_printed_unasked(capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tiny().fit(*sentences(40)).predict(["ship"])
    assert capfd.readouterr() == ("", "")


def test_a_handful_of_texts_is_enough():
    texts = ["good film", "fine film", "bad film", "poor film"]
    model = tiny(max_epochs=60, word_dropout=0, dropout=0).fit(texts, [1, 1, 0, 0])
    assert model.history[-1]["validation"] is None  # too few to hold any out
    assert model.predict(texts).tolist() == [1, 1, 0, 0]


# ---- save and load ------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"tokens": "subword", "vocabulary": 60}])
def test_predictions_are_bit_equal_after_loading(tmp_path, settings):
    texts, labels = sentences(60)
    before = tiny(**settings).fit(texts, labels)
    before.save(tmp_path / "m")
    after = TextClassifier.load(tmp_path / "m")
    assert same_weights(before.network, after.network)
    others = [*texts, "never seen zebra", "", "Ship &amp; #39;wave"]
    assert (after.predict_proba(others) == before.predict_proba(others)).all()
    assert after.get_params() == before.get_params()
    after.save(tmp_path / "again")
    names = ("config.json", "model.safetensors")
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == list(names)
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "m" / name).read_bytes()
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    assert config["classes"] == ["sea", "sky"]
    assert config["settings"]["width"] == 16
    assert after.fit(texts, labels).score(texts, labels) > 0.9


def test_damaged_and_foreign_models_are_refused(tmp_path, fitted):
    with pytest.raises(FighterError, match="holds no saved model"):
        TextClassifier.load(tmp_path / "nowhere")
    fitted.save(tmp_path)
    config, _ = read(tmp_path)
    rewrite(tmp_path, change(config, "NextClassifier", "estimator"))
    with pytest.raises(FighterError, match="holds a NextClassifier, not a TextClassifier"):
        TextClassifier.load(tmp_path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("settings", "kappa"), 10**9), (("settings", "layers"), 10**9), (("classes",), ["sea"]),
        (("settings", "width"), 10**9), (("settings", "max_length"), 10**9), (("classes",), 3),
        (("settings", "heads"), 0), (("settings", "dropout"), "x"), (("classes", 0), []),
        (("classes",), ["sky", "sea"]), (("classes", 0), None), (("settings", "seed"), {}),
        (("settings",), []),
    ],
)  # fmt: skip
def test_a_config_that_does_not_fit_is_refused(tmp_path, fitted, path, value):
    fitted.save(tmp_path)
    config, _ = read(tmp_path)
    rewrite(tmp_path, change(config, value, *path))
    with pytest.raises(FighterError, match="damaged model"):
        TextClassifier.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("tokens", lambda t: t[:-1]),
        ("tokens", lambda t: t.float()),
        ("tokens", lambda t: t * 0),
        ("tokens", lambda t: None),
        ("network.head.bias", lambda t: None),
        ("network.head.bias", lambda t: t * np.nan),
        ("network.head.bias", lambda t: t[:1]),
        ("network.head.bias", lambda t: t.double()),
    ],
)
def test_tensors_that_do_not_fit_are_refused(tmp_path, fitted, name, damage):
    fitted.save(tmp_path)
    _, tensors = read(tmp_path)
    changed = {**tensors, name: damage(tensors[name])}
    rewrite(tmp_path, tensors={k: v for k, v in changed.items() if v is not None})
    with pytest.raises(FighterError, match="damaged model"):
        TextClassifier.load(tmp_path)


def test_a_token_beyond_the_vocabulary_is_refused(tmp_path, fitted):
    fitted.save(tmp_path)
    _, tensors = read(tmp_path)
    text = bytes(tensors["tokens"].tolist()).replace(b'"ship":', b'"ship":9999')
    rewrite(tmp_path, tensors={**tensors, "tokens": torch.tensor(list(text), dtype=torch.uint8)})
    with pytest.raises(FighterError, match="damaged model"):
        TextClassifier.load(tmp_path)


def test_one_changed_bit_is_noticed(tmp_path, fitted):
    fitted.save(tmp_path)
    weights = tmp_path / "model.safetensors"
    whole = weights.read_bytes()
    for place in np.random.default_rng(0).integers(0, 8 * len(whole), 40):
        byte, bit = divmod(int(place), 8)
        weights.write_bytes(whole[:byte] + bytes([whole[byte] ^ 1 << bit]) + whole[byte + 1 :])
        with pytest.raises(FighterError):
            TextClassifier.load(tmp_path)


def test_folders_of_others_and_unknown_devices_are_refused(tmp_path, fitted):
    (tmp_path / "metrics.jsonl").write_text('{"accuracy": 1}')
    with pytest.raises(FighterError, match="is not a saved model"):
        tiny().fit(*sentences(60), folder=tmp_path)
    with pytest.raises(FighterError, match="is not a saved model"):
        fitted.save(tmp_path)
    assert (tmp_path / "metrics.jsonl").read_text() == '{"accuracy": 1}'
    fitted.save(tmp_path / "m")
    with pytest.raises(FighterError) as error:
        TextClassifier.load(tmp_path / "m", device="gpu")
    assert error.value.argument == "device"


class Killed(BaseException):
    pass


@pytest.mark.parametrize("moment", [1, 2, 4])
def test_an_interrupted_run_resumes(tmp_path, moment):
    """It ends with the weights of an uninterrupted run."""
    texts, labels = sentences(60)
    expected = tiny().fit(texts, labels)

    def kill(record):
        if record["epoch"] == moment:
            raise Killed

    with pytest.raises(Killed):
        tiny().fit(texts, labels, folder=tmp_path, on_epoch=kill)
    resumed = []
    model = tiny().fit(
        texts, labels, folder=tmp_path, on_epoch=lambda r: resumed.append(r["epoch"])
    )
    assert resumed == list(range(moment, 5))
    assert same_weights(model.network, expected.network)
    assert model.history == expected.history
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "config.json",
        "metrics.jsonl",
        "model.safetensors",
    ]
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == expected.history
    assert (TextClassifier.load(tmp_path).predict(texts) == expected.predict(texts)).all()


def test_a_checkpoint_of_other_settings_or_data_is_refused(tmp_path):
    texts, labels = sentences(60)

    def kill(record):
        if record["epoch"] == 2:
            raise Killed

    with pytest.raises(Killed):
        tiny().fit(texts, labels, folder=tmp_path, on_epoch=kill)
    for changed in ({"kappa": 2}, {"label_smoothing": 0.2}, {"word_dropout": 0.2}):
        with pytest.raises(FighterError, match="other settings"):
            tiny(**changed).fit(texts, labels, folder=tmp_path)
    with pytest.raises(FighterError, match="other data"):
        tiny().fit(texts, labels[::-1], folder=tmp_path)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("model", BLOCKS)
def test_on_cuda(tmp_path, model):
    """Steps are recorded there: the last, shorter batch and the padding must not disturb that."""
    texts, labels = sentences(500)
    settings = {"model": model, "device": "cuda", "max_epochs": 5, "max_length": 40}
    classifier = tiny(**settings).fit(texts, labels)
    assert classifier.score(*sentences(60, seed=1)) > 0.9
    classifier.save(tmp_path)
    on_cpu = TextClassifier.load(tmp_path).predict_proba(texts)
    assert on_cpu == pytest.approx(classifier.predict_proba(texts), abs=0.05)  # bfloat16
