"""The command line: parse arguments, call the library, print."""

from .main import main

__all__ = ["main"]
