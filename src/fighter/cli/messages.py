"""What is said, by whom, and in which words."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import DataWarning, FighterError
from .options import in_flags


def is_first() -> bool:
    """Whether this process speaks and writes for all that ``torchrun`` started."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def plain_words() -> Iterator[None]:
    """Errors in the words of the command line, and what was found in the data told once."""
    told = set()
    show = warnings.showwarning

    def show_note(message: Any, category: Any, *rest: Any) -> None:
        if category is not DataWarning:
            show(message, category, *rest)
        elif is_first() and (note := in_flags(str(message))) not in told:
            told.add(note)
            print(f"note: {note}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always", DataWarning)
        warnings.showwarning = show_note
        try:
            yield
        except FighterError as error:
            raise FighterError(in_flags(str(error))) from error
