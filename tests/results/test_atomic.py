"""Files that are there whole or not at all: what a kill leaves, two writers, names that cannot be written."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from statmech_attention.files import replacing

SOURCE = Path(__file__).parents[2] / "src"
HANG = """
import sys, time
from pathlib import Path
from statmech_attention.files import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    print("there", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def writer(tmp_path):
    """Another process in the middle of a write of `one[1].nc`."""
    command = [sys.executable, "-c", HANG, str(tmp_path / "one[1].nc")]
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout.readline() == "there\n"
        yield process
        process.kill()


def names(folder: Path) -> list[str]:
    return sorted(re.sub(r"\.[^.]+\.part$", ".*.part", file.name) for file in folder.iterdir())


def write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text)


@pytest.mark.skipif(sys.platform == "win32", reason="no locks and no such signal")
def test_what_a_kill_left_goes_with_the_next_write_of_that_file(tmp_path, writer):
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert names(tmp_path) == ["one[1].nc.*.part"]
    write(tmp_path / "one1.nc", "another")
    assert names(tmp_path) == ["one1.nc", "one[1].nc.*.part"]
    until = time.monotonic() + 10  # a busy machine may take a moment to give up a dead process's lock
    while names(tmp_path) != ["one1.nc", "one[1].nc"] and time.monotonic() < until:
        write(tmp_path / "one[1].nc", "whole")
    assert names(tmp_path) == ["one1.nc", "one[1].nc"] and (tmp_path / "one[1].nc").read_text() == "whole"


def test_what_another_process_writes_stays(tmp_path, writer):
    write(tmp_path / "one[1].nc", "mine")
    assert names(tmp_path) == ["one[1].nc", "one[1].nc.*.part"]


def test_an_error_leaves_what_was_there(tmp_path):
    write(tmp_path / "one", "old")
    with pytest.raises(KeyError), replacing(tmp_path / "one") as temporary:
        temporary.write_text("new")
        raise KeyError("something")
    assert names(tmp_path) == ["one"] and (tmp_path / "one").read_text() == "old"


def test_bad_places_are_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="folder: wanted the name of a file, got a folder"):
        write(tmp_path / "folder", "text")
    (tmp_path / "file").write_text("kept")
    with pytest.raises(OSError, match="nothing was written") as caught:
        write(tmp_path / "file" / "one", "text")
    assert caught.value.filename == str(tmp_path / "file" / "one")
    assert names(tmp_path) == ["file", "folder"]
