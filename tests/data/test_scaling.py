import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fighter.data.scaling import Scaler
from fighter.errors import FighterError

tables = hnp.arrays(np.float64, (20, 3), elements=st.floats(-1e6, 1e6))
masks = hnp.arrays(np.bool_, (20, 3))


@given(tables, masks, st.sampled_from(["standard", "minmax", "none"]))
def test_inverse_undoes_transform(values, observed, kind):
    scaler = Scaler.fit(values, observed, kind)
    np.testing.assert_allclose(
        scaler.inverse(scaler.transform(values)), values, rtol=1e-9, atol=1e-6
    )


@given(tables, masks)
def test_standard_scaling_agrees_with_a_loop(values, observed):
    scaler = Scaler.fit(values, observed)
    for i in range(3):
        seen = values[observed[:, i], i]
        if seen.size and seen.std() > 1e-6 * max(abs(seen.mean()), 1):
            np.testing.assert_allclose(
                [scaler.shift[i], scaler.scale[i]], [seen.mean(), seen.std()]
            )


def test_unobserved_values_do_not_count():
    values = np.array([[1.0], [3.0], [-9999.0]])
    scaler = Scaler.fit(values, values > 0)
    assert (scaler.shift[0], scaler.scale[0]) == (2.0, 1.0)


@pytest.mark.parametrize("kind", ["standard", "minmax"])
def test_constant_single_and_unobserved_series(kind):
    values = np.array([[0.1, 5.0, 7.0], [0.1, 6.0, 7.0], [0.1, 6.0, 7.0]])
    observed = np.array([[1, 1, 0], [1, 0, 0], [1, 0, 0]], bool)
    scaler = Scaler.fit(values, observed, kind)
    np.testing.assert_array_equal(scaler.scale, [1, 1, 1])
    np.testing.assert_allclose(scaler.shift, [0.1, 5, 0])


def test_minmax_scales_to_zero_and_one():
    scaled = Scaler.fit(np.arange(10.0)[:, None], kind="minmax").transform(np.arange(10.0)[:, None])
    assert (scaled.min(), scaled.max()) == (0, 1)


def test_tensors_are_scaled_along_an_axis():
    rng = np.random.default_rng(0)
    scaler = Scaler.fit(rng.normal(5, 3, (50, 4)))
    batch = torch.from_numpy(rng.normal(5, 3, (2, 7, 4, 3)).astype(np.float32))
    scaled = scaler.transform(batch, axis=-2)  # [B, H, N, Q]
    assert scaled.dtype == torch.float32
    np.testing.assert_allclose(
        scaled[..., 0], scaler.transform(batch[..., 0].numpy()), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(scaler.inverse(scaled, axis=-2), batch, rtol=1e-4, atol=1e-5)


def test_each_covariate_is_scaled_by_itself():
    values = np.random.default_rng(0).normal(3, 2, (50, 4, 2))
    scaled = Scaler.fit(values).transform(values)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)


def test_a_scaler_is_restored_from_its_state():
    scaler = Scaler.fit(np.random.default_rng(0).normal(size=(9, 2)))
    again = Scaler.from_state(scaler.state())
    np.testing.assert_array_equal(again.scale, scaler.scale)
    np.testing.assert_array_equal(again.select(np.array([1])).shift, scaler.shift[1:])


def test_wrong_shapes_and_kinds_are_refused():
    scaler = Scaler.fit(np.ones((3, 4)))
    with pytest.raises(FighterError, match=r"\(4,\).*\(3, 5\)"):
        scaler.transform(np.ones((3, 5)))
    with pytest.raises(FighterError, match="'standard', 'minmax' or 'none'") as error:
        Scaler.fit(np.ones((3, 4)), kind="robust")
    assert (error.value.argument, error.value.value) == ("kind", "robust")


@pytest.mark.parametrize("size", [1e-300, 1e-50, 1e-43, 1e-20, 1e20, 1e150, 1e300])
def test_the_size_of_the_values_does_not_matter(size):
    values = np.random.default_rng(0).normal(3, 1, (50, 2))
    expected = Scaler.fit(values).transform(values)
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(Scaler.fit(values * size).transform(values * size), expected)
