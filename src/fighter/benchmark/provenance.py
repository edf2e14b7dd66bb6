"""Where a number comes from: enough to measure it again."""

import datetime
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

import torch

from .. import __version__


def provenance(program: str, device: str) -> dict[str, object]:
    """Command line of this process (what ``program`` was called with), code, date and machine."""
    name = torch.cuda.get_device_name() if device.startswith("cuda") else platform.machine()
    return {
        "command": shlex.join([*program.split(), *sys.argv[1:]]),
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": f"{device}: {name}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def commit() -> str:
    """The commit of this code; of a copy without its history the version.

    ``FIGHTER_COMMIT`` says it where the copy cannot know.
    """
    if given := os.environ.get("FIGHTER_COMMIT"):
        return given
    # An installed copy may lie within the repository of something else: is this file in it?
    if _git("ls-files", Path(__file__).name):
        return _git("describe", "--always", "--dirty")
    return f"version {__version__}"


def _git(*arguments: str) -> str:
    """What git says of this folder; nothing where there is no git."""
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return ""
    return found.stdout.strip()
