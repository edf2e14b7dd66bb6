"""Record where a number comes from, so that it can be measured again."""

import datetime
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from .. import __version__


def provenance(
    program: str, device: str, arguments: Sequence[str] | None = None
) -> dict[str, object]:
    """Return command line, commit, date, device and versions.

    The command line is ``program`` and ``arguments`` (default: those of this process).
    """
    name = torch.cuda.get_device_name() if device.startswith("cuda") else platform.machine()
    given = sys.argv[1:] if arguments is None else arguments
    return {
        "command": shlex.join([*program.split(), *given]),
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": f"{device}: {name}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def commit() -> str:
    """Return the commit of this code, or the version of a copy without its git history.

    The environment variable ``FIGHTER_COMMIT`` overrides both.
    """
    if given := os.environ.get("FIGHTER_COMMIT"):
        return given
    # An installed copy may lie inside the repository of another project: ask for this file.
    if _git("ls-files", Path(__file__).name):
        return _git("describe", "--always", "--dirty")
    return f"version {__version__}"


def _git(*arguments: str) -> str:
    """Return what git prints in this folder; empty where git is not installed."""
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return ""
    return done.stdout.strip()
