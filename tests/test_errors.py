import pickle

import numpy as np
import pytest

from fighter.errors import FighterError, check_bool, check_count, check_number


def test_counts_are_whole_numbers_from_the_least_on():
    assert check_count("kappa", 1) == 1
    assert check_count("kappa", 0, least=0) == 0
    assert type(check_count("kappa", np.int64(3))) is int
    for value in (0, -1, 2.0, True, "3", None):
        with pytest.raises(FighterError, match="at least 1") as error:
            check_count("kappa", value)
        assert (error.value.argument, error.value.value) == ("kappa", value)
    with pytest.raises(FighterError, match="at least 2"):
        check_count("power", 1, least=2)


def test_numbers_fulfil_their_condition():
    for value in (1, 0.5, np.float32(0.25)):
        check_number("factor", value, "a number above 0", lambda c: c > 0)
    for value in (0, -1.0, float("nan"), True, "1", None):
        with pytest.raises(FighterError, match="needs a number above 0") as error:
            check_number("factor", value, "a number above 0", lambda c: c > 0)
        assert error.value.argument == "factor"


def test_only_true_and_false_are_bools():
    check_bool("plain", True)
    for value in (1, "yes", None):
        with pytest.raises(FighterError) as error:
            check_bool("plain", value)
        assert error.value.argument == "plain"


def test_the_message_names_argument_value_and_reason():
    error = FighterError("needs at least 1", argument="horizon", value=0)
    assert str(error) == "horizon=0: needs at least 1"
    assert str(FighterError("leave them out", argument="static")) == "static: leave them out"
    assert str(FighterError("the file is empty")) == "the file is empty"
    assert FighterError("needs a name", argument="unique_id", value=None).args == (
        "unique_id=None: needs a name",
    )
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.argument, again.value) == (str(error), "horizon", 0)
