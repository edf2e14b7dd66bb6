"""The errors a user can meet. Every message names what came and what is needed."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class FighterError(ValueError):
    """Fighter was given something it cannot work with."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that ends a message about an unknown name; nothing if no known one is near."""
    folded = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1)
    return f" Did you mean {folded[near[0]]!r}?" if near else ""


@contextmanager
def needs_extra(package: str, extra: str) -> Iterator[None]:
    """Import an optional package; if it is missing, say which extra brings it."""
    try:
        yield
    except ImportError as error:
        raise FighterError(
            f"this needs {package}, which is not installed: pip install 'fighter[{extra}]'"
        ) from error
