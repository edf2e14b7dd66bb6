"""The errors and warnings a user can meet. Every message names what came and what is needed."""

import difflib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, Self

_MISSING: Any = object()


class FighterError(ValueError):
    """Fighter was given something it cannot work with.

    The message is ``argument=value: reason`` where an argument is at fault, else the reason alone.

    Args:
        reason: what is wrong and what is needed, such as "needs a whole number of at least 1".
        argument: name of the argument at fault, if there is one.
        value: what was passed for it; left out of the message unless given.
    """

    def __init__(self, reason: str, *, argument: str | None = None, value: Any = _MISSING):
        self.reason, self.argument = reason, argument
        self.value = None if value is _MISSING else value
        shown = "" if value is _MISSING else f"={value!r}"
        super().__init__(reason if argument is None else f"{argument}{shown}: {reason}")


class DataWarning(UserWarning):
    """Something in the data that a person should know about."""


class Settings:
    """A dataclass of settings that refuses unknown ones with advice."""

    def __new__(cls, *_: Any, **settings: Any) -> Self:
        """Refuse settings that do not exist."""
        for name, value in settings.items():
            if name not in cls.setting_names():
                raise FighterError(cls.advise(name), argument=name, value=value)
        return super().__new__(cls)

    @classmethod
    def setting_names(cls) -> list[str]:
        """Return the names of the constructor's arguments."""
        return [f.name for f in fields(cls) if f.init]  # pyright: ignore[reportArgumentType]

    @classmethod
    def advise(cls, name: str) -> str:
        """Say what to do about a setting that does not exist."""
        known = cls.setting_names()
        have = f"{cls.__name__} has {', '.join(known) or 'no settings'}"
        return f"there is no such setting.{did_you_mean(name, known) or f' {have}'}"


def check_count(name: str, value: object, least: int = 1) -> int:
    """Return ``value`` if it is a whole number of at least ``least``, else raise."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise FighterError(f"needs a whole number of at least {least}", argument=name, value=value)
    return int(value)


def check_number(name: str, value: object, needed: str, fine: Callable[[float], bool]) -> None:
    """Raise unless ``value`` is a number for which ``fine`` holds; ``needed`` says which."""
    if isinstance(value, bool) or not isinstance(value, Real) or not fine(float(value)):
        raise FighterError(f"needs {needed}", argument=name, value=value)


def check_bool(name: str, value: object) -> None:
    """Raise unless ``value`` is True or False."""
    if not isinstance(value, bool):
        raise FighterError("needs True or False", argument=name, value=value)


def warn_user(text: str) -> None:
    """Issue a :class:`DataWarning` that points at the user's line, outside this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("fighter."):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, DataWarning, stacklevel=level)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question to end a message about an unknown name; empty if no known name is close."""
    folded = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1)
    return f" Did you mean {folded[near[0]]!r}?" if near else ""


@contextmanager
def needs_extra(package: str, extra: str) -> Iterator[None]:
    """Run an import of an optional package; if it is missing, name the extra that installs it."""
    try:
        yield
    except ImportError as error:
        raise FighterError(
            f"this needs {package}, which is not installed: pip install 'fighter[{extra}]'"
        ) from error
