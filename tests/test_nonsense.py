"""Every public function on every kind of nonsense: only errors of the house."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(sys.platform == "win32", reason="no alarm to end a loop that does not")
def test_only_errors_of_the_house():
    # In a process of its own, where nothing checks types before the functions do.
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(ROOT / "tests" / "nonsense.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-2000:]}"
    assert not done.stdout
