"""The errors a user can meet. Every message names what came and what is needed."""

from collections.abc import Iterator
from contextlib import contextmanager


class FighterError(ValueError):
    """Fighter was given something it cannot work with."""


@contextmanager
def needs_extra(package: str, extra: str) -> Iterator[None]:
    """Import an optional package; if it is missing, say which extra brings it."""
    try:
        yield
    except ImportError as error:
        raise FighterError(
            f"this needs {package}, which is not installed: pip install 'fighter[{extra}]'"
        ) from error
