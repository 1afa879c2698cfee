"""Files are there whole or not at all."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from statmech_attention.files import replacing

HANG = """
import sys, time
from statmech_attention.files import replacing
with replacing(sys.argv[1]) as temporary:
    temporary.write_text("half")
    print("there", flush=True)
    time.sleep(60)
"""


def test_a_killed_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "one.nc"
    path.write_text("old")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    command = [sys.executable, "-c", HANG, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout.readline() == "there\n"
        process.send_signal(signal.SIGKILL)
    assert path.read_text() == "old"


def test_an_error_leaves_what_was_there_and_no_temporary_file(tmp_path):
    path = tmp_path / "one"
    path.write_text("old")
    with pytest.raises(KeyError), replacing(path) as temporary:
        temporary.write_text("new")
        raise KeyError("something")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_write_makes_folders_and_replaces_the_file(tmp_path):
    path = tmp_path / "folder" / "one"
    for text in ("old", "new"):
        with replacing(path) as temporary:
            temporary.write_text(text)
    assert path.read_text() == "new" and list(path.parent.iterdir()) == [path]
