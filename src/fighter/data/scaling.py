"""Scaling of series, fitted on the training rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..errors import FighterError

Array = TypeVar("Array", np.ndarray, Tensor)
Kind = Literal["standard", "minmax", "none"]


@dataclass(frozen=True)
class Scaler:
    """Scales each series to ``(x - shift) / scale``.

    ``Scaler.fit(panel.values[train], panel.observed[train])`` uses the mean and the standard
    deviation, ``kind="minmax"`` the minimum and the range. A constant series has scale 1; a series
    without an observed value has shift 0 and scale 1. The bounds of the series are kept here too,
    see :mod:`fighter.data.bounds`.
    """

    BOUNDS: ClassVar = ("floor", "given_bounds", "bounds")

    shift: np.ndarray  # float64 [N] (or [N, P] for covariates)
    scale: np.ndarray
    bounds: np.ndarray | None = None  # float64 [2, N], in the units of the values: natural ones
    floor: np.ndarray | None = None  # [2, N]: a lower bound of finished forecasts
    given_bounds: np.ndarray | None = None  # [2, N]: bounds that the user gave

    @classmethod
    def fit(
        cls, values: np.ndarray, observed: np.ndarray | None = None, kind: Kind = "standard"
    ) -> "Scaler":
        """Fit on the ``observed`` cells of ``values``, ``[rows, N]`` or ``[rows, N, P]``."""
        values = np.asarray(values, np.float64)
        seen = np.ones(values.shape, bool) if observed is None else np.asarray(observed, bool)
        any_seen = seen.any(axis=0)
        if kind == "standard":
            count = np.maximum(seen.sum(axis=0), 1)
            # A power of two is exact, and keeps the squares of large and tiny values in range.
            power = np.frexp(np.abs(np.where(seen, values, 0.0)).max(axis=0, initial=0.0))[1]
            unit = np.ldexp(np.where(seen, values, 0.0), -power)
            mean = unit.sum(axis=0) / count
            spread = np.sqrt((np.where(seen, unit - mean, 0.0) ** 2).sum(axis=0) / count)
            shift, scale = np.ldexp(mean, power), np.ldexp(spread, power)
        elif kind == "minmax":
            shift = np.where(seen, values, np.inf).min(axis=0, initial=np.inf)
            largest = np.where(seen, values, -np.inf).max(axis=0, initial=-np.inf)
            scale = largest - np.where(any_seen, shift, 0.0)
        elif kind == "none":
            shift, scale = np.zeros(values.shape[1:]), np.ones(values.shape[1:])
        else:
            raise FighterError("needs 'standard', 'minmax' or 'none'", argument="kind", value=kind)
        shift = np.where(any_seen, shift, 0.0)
        # Rounding gives a constant series a tiny spread; dividing by it would amplify noise.
        flat = ~any_seen | ~(scale > 1e-12 * np.abs(shift))
        return cls(shift, np.where(flat, 1.0, scale))

    def transform(self, values: Array, axis: int = -1) -> Array:
        """Scale ``values``, whose series lie along ``axis``; keep their type and dtype."""
        shift, scale = self._like(values, axis)
        return (values - shift) / scale

    def inverse(self, values: Array, axis: int = -1) -> Array:
        """Undo :meth:`transform`."""
        shift, scale = self._like(values, axis)
        return values * scale + shift

    def select(self, series: np.ndarray) -> "Scaler":
        """Return the scaler of the series with these numbers."""
        picked = {
            name: array[:, series] if name in self.BOUNDS else array[series]
            for name, array in self.state().items()
        }
        return Scaler(**picked)

    @classmethod
    def join(cls, parts: Sequence["Scaler"]) -> "Scaler":
        """Join the scalers of some series each."""
        states = [part.state() for part in parts]
        joined = {name: np.concatenate([s[name] for s in states], -1) for name in states[0]}
        return cls(**joined)

    def state(self) -> dict[str, np.ndarray]:
        """Return arrays from which :meth:`from_state` makes the same scaler."""
        return {name: array for name, array in vars(self).items() if array is not None}

    @classmethod
    def from_state(cls, state: Mapping[str, np.ndarray]) -> "Scaler":
        """Make a scaler from its :meth:`state`."""
        return cls(**{name: np.asarray(array, np.float64) for name, array in state.items()})

    def _like(self, values: Array, axis: int) -> tuple[Array, Array]:
        """Return shift and scale in the type of ``values``, shaped to run along ``axis``."""
        first = axis % values.ndim + 1 - self.shift.ndim  # the axes of the scaler end at ``axis``
        if first < 0 or values.shape[first : first + self.shift.ndim] != self.shift.shape:
            fitted = f"the scaler was fitted on series of shape {self.shift.shape}"
            came = f"values of shape {tuple(values.shape)}"
            raise FighterError(f"{fitted}; {came} do not have that shape at axis {axis}")
        shape = self.shift.shape + (1,) * (values.ndim - first - self.shift.ndim)
        pair = self.shift.reshape(shape), self.scale.reshape(shape)
        if isinstance(values, Tensor):
            return tuple(torch.as_tensor(p, dtype=values.dtype, device=values.device) for p in pair)  # pyright: ignore[reportReturnType]
        dtype = values.dtype if values.dtype.kind == "f" else np.float64
        return tuple(p.astype(dtype) for p in pair)  # pyright: ignore[reportReturnType]
