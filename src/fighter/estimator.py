"""What every estimator does alike: settings in and out, its name, the device it works on."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch

from .errors import FighterError
from .training import World


class Estimator:
    """Settings are the arguments of ``__init__`` and are kept under their names."""

    device: str | None

    @classmethod
    def _settings(cls) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(cls).parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings as they were given."""
        del deep  # there is nothing inside to descend into; scikit-learn's tools pass it
        return {name: getattr(self, name) for name in self._settings()}

    def set_params(self, **settings: Any) -> Self:
        """Change settings; they take effect at the next ``fit``."""
        known = self._settings()
        for name in settings:
            if name not in known:
                raise FighterError(f"there is no setting {name!r}; there are {', '.join(known)}")
        type(self)(**{**self.get_params(), **settings})  # refuses what is wrong, before any is set
        vars(self).update(settings)
        return self

    def __repr__(self) -> str:
        """Only what differs from the defaults."""
        defaults = {name: repr(p.default) for name, p in self._settings().items()}
        shown = {name: repr(value) for name, value in self.get_params().items()}
        changed = [f"{name}={value}" for name, value in shown.items() if value != defaults[name]]
        return f"{type(self).__name__}({', '.join(changed)})"

    @classmethod
    def _check_kind(cls, config: Mapping[str, Any], folder: str | Path) -> None:
        """Refuse what another estimator has saved."""
        kind = config.get("estimator", "Forecaster")  # which did not always write its name
        if kind not in (known.__name__ for known in cls.__mro__):
            raise FighterError(
                f"{folder} holds a {kind}, not a {cls.__name__}: load it with "
                f"fighter.{kind}.load({str(folder)!r})"
            )

    def _device(self) -> torch.device:
        device = torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        if device.type == "cuda" and device.index is None:
            return torch.device("cuda", World.local_rank())
        return device
