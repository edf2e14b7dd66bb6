"""Where a number comes from: enough to measure it again."""

import datetime
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

import torch


def provenance(device: str) -> dict[str, object]:
    commit = os.environ.get("FIGHTER_COMMIT")  # for a copy of the code without its history
    if not commit:
        git = ["git", "describe", "--always", "--dirty"]
        commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    module = Path(sys.argv[0]).stem
    name = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    return {
        "command": shlex.join(["python", "-m", f"benchmarks.{module}", *sys.argv[1:]]),
        "commit": commit or "unknown",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": f"{device}: {name}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
