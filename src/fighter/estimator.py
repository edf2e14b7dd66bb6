"""What all estimators share: settings in and out, their printed form, their device."""

from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

import torch

from .errors import FighterError, Settings, did_you_mean
from .training import World


class Estimator(Settings):
    """A dataclass whose fields are its settings, in the manner of scikit-learn."""

    device: str | None

    def nested_settings(self) -> dict[str, Any]:
        """Return the settings that are dataclasses themselves, by name."""
        settings = {name: getattr(self, name) for name in self.setting_names()}
        return {name: value for name, value in settings.items() if is_dataclass(value)}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings as they were given.

        Args:
            deep: also return the settings inside them, such as ``model__kappa`` (default: True).
        """
        settings = {name: getattr(self, name) for name in self.setting_names()}
        if deep:
            for name, part in self.nested_settings().items():
                settings |= {f"{name}__{f.name}": getattr(part, f.name) for f in fields(part)}
        return settings

    def set_params(self, **settings: Any) -> Self:
        """Change settings, such as ``horizon`` or ``model__kappa``, for the next ``fit``."""
        known = self.get_params()
        for name, value in settings.items():
            home, _, inner = name.partition("__")
            if name not in known and not (inner and home in settings):
                reason = f"there is no such setting.{did_you_mean(name, known)}"
                raise FighterError(reason, argument=name, value=value)
        plain = {name: value for name, value in settings.items() if "__" not in name}
        changed = type(self)(**{**self.get_params(deep=False), **plain})  # checks the values
        for name, value in settings.items():
            home, _, inner = name.partition("__")
            if inner:
                part = changed.nested_settings()[home]
                if inner not in {f.name for f in fields(part)}:
                    raise FighterError("there is no such setting", argument=name, value=value)
                setattr(changed, home, replace(part, **{inner: value}))
        vars(self).update(changed.get_params(deep=False))
        return self

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn, whose searches ask for it."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(None, TargetTags(required=False), input_tags=InputTags(allow_nan=True))

    def __repr__(self) -> str:
        """Show the settings that differ from their defaults."""
        return _changed(self)

    @property
    def torch_device(self) -> torch.device:
        """The device that the settings name."""
        return resolve_device(self.device)


def resolve_device(device: str | None) -> torch.device:
    """Return a device by name; None is a GPU if there is one, else the CPU."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    try:
        found = torch.device(device or ("cuda" if gpus else "cpu"))
    except (RuntimeError, TypeError) as error:
        raise _no_device(device, "there is no such device", gpus) from error
    if found.type not in ("cpu", "cuda"):
        raise _no_device(device, "needs cpu or cuda", gpus)
    if found.type == "cpu":
        return found
    if not gpus:
        raise _no_device(device, "torch finds no GPU", gpus)
    index = World.local_rank() if found.index is None else found.index
    if index >= gpus:
        raise _no_device(device, "there is no such GPU", gpus)
    return torch.device("cuda", index)


def _no_device(device: str | None, what: str, gpus: int) -> FighterError:
    here = ", ".join(["cpu", *(["cuda"] if gpus else []), *(f"cuda:{i}" for i in range(gpus))])
    return FighterError(f"{what}; available here: {here}", argument="device", value=device)


def _changed(settings: Any) -> str:
    """Write a dataclass with those of its fields that differ from their defaults."""
    shown = []
    for f in fields(settings):
        value = getattr(settings, f.name) if f.init else f.default
        text = _changed(value) if is_dataclass(value) else repr(value)
        if f.init and repr(value) != repr(f.default):
            shown.append(f"{f.name}={text}")
    return f"{type(settings).__name__}({', '.join(shown)})"
