"""The table of identities holds, fails when a formula is wrong, and can be read."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from fighter.errors import FighterError
from paper.theory import (
    TOLERANCE,
    Identity,
    backward,
    check_all,
    forward,
    gradients,
    models,
    render,
)
from paper.theory.identities import IDENTITIES
from paper.theory.record import Draw, check_whole, measure, pooled_error, relative_error

FAILS_IN_PRINT = {
    "(A+I)^(κ−1) XW as a flexible GCN",
    "skip around a layer of zeros is X",
    "a ReLU residual block only raises X",
    "powers of A average its rows",
    "ReLU: σ' M W⁽¹⁾ᵢ = σ(M W⁽¹⁾ᵢ)",
    "GCN gradients, A¹ in both layers",
    "Transformer gradient, W_Q",
    "Transformer gradient, W_Q: place of σ'",
    "Transformer gradient, W_K",
    "one step on W_V and W₁ moves W_V W₁",
}

LARGEST = pytest.param(0, 64, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("seed", "size"),
    [(0, 1), (1, 1), (2, 2), (3, 3), (0, 8), (5, 8), (2**62, 13), LARGEST],
)
def test_every_corrected_form_holds(seed: int, size: int) -> None:
    identities = check_all(seed=seed, size=size)
    assert [at.name for at in identities if not at.holds] == []
    assert len({at.name for at in identities}) == len(identities) == len(IDENTITIES)
    assert all(at.paper_error is None or math.isfinite(at.paper_error) for at in identities)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_printed_forms_that_fail_are_these(seed: int) -> None:
    identities = check_all(seed=seed, size=8)
    assert {at.name for at in identities if at.paper_fails} == FAILS_IN_PRINT
    assert all(at.paper_error > 0.05 for at in identities if at.paper_fails and at.paper_error)


def test_the_same_seed_gives_the_same_table() -> None:
    assert check_all(seed=3, size=4) == check_all(seed=3, size=4)
    assert check_all(seed=3, size=4) != check_all(seed=4, size=4)


def bend(value: Any, field: str | None) -> Any:
    """Return the same gradient, one percent off."""
    if field is not None:
        return value._replace(**{field: 1.01 * getattr(value, field)})
    return [1.01 * part for part in value] if isinstance(value, list) else 1.01 * value


@pytest.mark.parametrize(
    ("function", "field", "identity"),
    [
        ("gcn_output_weights", None, backward.gcn_output_weights),
        ("gcn_hidden_weights", None, backward.gcn_hidden_weights),
        ("gcn_output_weights", None, backward.gcn_single_hop),
        ("gcn_hidden_weights", None, backward.gcn_single_hop_twice),
        ("transformer_output_weights", None, backward.transformer_output_weights),
        ("transformer_value_weights", None, backward.transformer_value_weights),
        ("transformer_query_weights", None, backward.transformer_query_softmax),
        ("transformer_query_weights", None, backward.transformer_query_gate),
        ("transformer_key_weights", None, backward.transformer_key),
        ("softmax_backward", None, backward.transformer_key),
        ("usefulness", None, backward.covariance_reading),
        ("layer_gradients", "X", backward.layer_input),
        ("layer_gradients", "W_Q", backward.layer_query),
        ("layer_gradients", "W_K", backward.layer_key),
        ("layer_gradients", "W", backward.layer_hop_weights),
        ("adjacency_gradient", None, backward.layer_query),
        ("backward_hops", None, backward.layer_hop_weights),
        ("adjacency_gradient", None, backward.layer_adjacency),
        ("softmax_shift", None, backward.layer_adjacency),
        ("layer_jacobians", "W_Q", backward.layer_per_node),
        ("layer_jacobians", "W_K", backward.layer_per_node),
        ("layer_jacobians", "W", backward.layer_per_node),
        ("horner_sums", None, forward.horner_is_sum_of_hops),
    ],
)
def test_a_wrong_gradient_is_detected(
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    field: str | None,
    identity: Callable[[Draw], Identity],
) -> None:
    right = getattr(gradients, function)
    monkeypatch.setattr(gradients, function, lambda *args: bend(right(*args), field))
    measured = identity(Draw(seed=0, size=8))
    assert not measured.holds
    assert measured.corrected_error > 1e-4
    assert "NO" in render([measured])


@pytest.mark.parametrize(
    ("function", "identity"),
    [
        ("fighter", forward.transformer_is_fighter),
        ("fighter", forward.transformer_with_biases_is_fighter),
        ("encoder", forward.reorganised_transformer),
        ("multi_hop", forward.block_form_is_sum_of_hops),
        ("multi_hop", forward.conventional_gcn_is_binomial),
        ("multi_hop", forward.hop_biases_act_by_their_sum),
    ],
)
def test_a_wrong_model_is_detected(
    monkeypatch: pytest.MonkeyPatch, function: str, identity: Callable[[Draw], Identity]
) -> None:
    right = getattr(models, function)
    monkeypatch.setattr(models, function, lambda *args: bend(right(*args), None))
    assert identity(Draw(seed=0, size=8)).corrected_error > 1e-4


def test_a_kappa_one_layer_that_mixes_nodes_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    right = models.layer
    monkeypatch.setattr(models, "layer", lambda at: right(at).cumsum(0))
    assert forward.kappa_one_has_no_graph(Draw(seed=0, size=8)).corrected_error > 1e-4


def test_errors_are_relative_and_count_wrong_shapes_and_nan() -> None:
    ten, eleven = torch.tensor([0.0, 10.0]), torch.tensor([0.0, 11.0])
    assert relative_error(eleven, ten) == pytest.approx(0.1)
    assert relative_error(ten, torch.zeros(2)) == 10
    assert pooled_error([(ten, ten), (torch.ones(1), torch.zeros(1))]) == pytest.approx(0.1)
    assert relative_error(ten, torch.zeros(1)) == math.inf
    missing = measure("n", "p", [(torch.tensor([math.nan, 0.0]), ten), (ten, ten)])
    assert not missing.holds
    assert not Identity("n", "p", None, TOLERANCE).holds
    assert not Identity("n", "p", None, 0.0).paper_fails
    assert Identity("n", "p", math.nan, 0.0).paper_fails


def test_the_table_fits_a_screen() -> None:
    lines = render(check_all()).splitlines()
    assert max(map(len, lines)) <= 120
    assert all(line == line.rstrip() for line in lines)
    body = lines[2:-2]
    assert len(body) == len(IDENTITIES)
    assert {line.index("yes") for line in body} == {lines[0].index("ok")}
    assert not any(0x300 <= ord(letter) < 0x370 for line in lines for letter in line)  # zero width
    assert lines[-1] == (
        f"{len(IDENTITIES)} identities: all corrected forms hold; "
        f"the paper's printed formula or sentence fails in {len(FAILS_IN_PRINT)}."
    )


def test_the_table_names_what_does_not_hold() -> None:
    fine = Identity("fine", "says", 0.5, 0.0)
    last = render([fine, replace(fine, name="bent", corrected_error=0.1)]).splitlines()[-1]
    assert last == (
        "2 identities: 1 corrected form does NOT hold (bent); "
        "the paper's printed formula or sentence fails in 2."
    )


@pytest.mark.parametrize("size", [0, -1, 65, True])
def test_a_size_out_of_range_is_refused(size: int) -> None:
    with pytest.raises(FighterError, match="from 1 to 64") as error:
        check_all(size=size)
    assert (error.value.argument, error.value.value) == ("size", size)


@pytest.mark.parametrize("seed", [-1, 2**63, False])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(FighterError, match="from 0 to") as error:
        check_all(seed=seed)
    assert (error.value.argument, error.value.value) == ("seed", seed)


@pytest.mark.parametrize("value", [2.5, "8", None])
def test_only_whole_numbers_are_accepted(value: object) -> None:
    with pytest.raises(FighterError) as error:
        check_whole("size", value, 1, 64)
    assert error.value.argument == "size"


def test_the_global_random_state_is_not_changed() -> None:
    before = torch.random.get_rng_state()
    check_all(size=2)
    assert torch.equal(before, torch.random.get_rng_state())
