"""torch.export and ONNX of models with further hops, with any batch and any number of nodes."""

import subprocess
import sys
from pathlib import Path

import pytest

from .exporting import CHECKS

NEEDED = {"onnx": ("onnxscript", "onnxruntime"), "transformers": ("transformers",)}


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
def test_an_exported_model_computes_the_same(check):
    for package in NEEDED.get(check.rpartition("-")[2], ()):
        pytest.importorskip(package, reason=f"{package} is not installed")
    command = [sys.executable, "-m", "tests.plug.exporting", check]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
