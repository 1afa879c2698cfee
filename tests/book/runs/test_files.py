"""Files are there whole or not at all, also after a kill and on a full disk."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention.records import replacing

SOURCE = Path(__file__).parents[3] / "src"
HANG = """
import sys, time
from statmech_attention.records import replacing
with replacing(sys.argv[1]) as temporary:
    temporary.write_text("half")
    print("there", flush=True)
    time.sleep(60)
"""
# In a process of its own: what went wrong here once ended the process, after the error had been caught.
FILL = """
import gc, resource, sys
from pathlib import Path
import numpy as np, xarray as xr
from attention_book.runs import results
from attention_book.runs.checkpoints import load_state, save_state

folder, numbers = Path(sys.argv[1]), np.random.default_rng(0).random
write = {
    "one.nc": lambda size: results.save(xr.Dataset({"a": ("x", numbers(size))}), folder / "one.nc", parameters={}),
    "state.npz": lambda size: save_state(folder / "state.npz", numbers(size), {}),
}
for one in write.values():
    one(1000)
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
for one in write.values():
    try:
        one(400_000)
    except OSError as error:
        print(error)
    gc.collect()
print(results.load(folder / "one.nc").sizes["x"], len(load_state(folder / "state.npz", np.zeros(0), {})))
print(sorted(file.name for file in folder.iterdir()))
"""


def test_killed_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "one.nc"
    path.write_text("old")
    command, environment = [sys.executable, "-c", HANG, str(path)], os.environ | {"PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout.readline() == "there\n"
        process.send_signal(signal.SIGKILL)
    assert path.read_text() == "old"


def test_failed_write_leaves_what_was_there_and_no_temporary_file(tmp_path):
    path = tmp_path / "folder" / "one"
    with replacing(path) as temporary:
        temporary.write_text("old")
    with pytest.raises(KeyError), replacing(path) as temporary:
        temporary.write_text("new")
        raise KeyError("something")
    assert path.read_text() == "old" and list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_records_and_checkpoints_that_do_not_fit_on_the_disk_leave_the_old_ones(tmp_path):
    command, environment = [sys.executable, "-c", FILL, str(tmp_path)], os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    *errors, sizes, names = done.stdout.splitlines()
    assert len(errors) == 2 and all("could not be written: File too large" in error for error in errors)
    assert sizes == "1000 1000" and names == "['one.nc', 'state.npz']"


@pytest.fixture
def solution():
    inputs = np.random.default_rng(0).normal(size=(6, 4, 3))
    return sma.solve(sma.Problem(inputs, [1, -1, 1, 1, -1, -1], layers=(2, 2), width=4, temperature=0.3))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # h5netcdf closes what it cannot open
def test_flipped_bit_in_a_solution_is_refused_or_changes_nothing(solution, tmp_path):
    path = sma.save(solution, tmp_path / "one.nc")
    content, wanted, refused = path.read_bytes(), jax.tree.leaves(solution), 0
    generator = np.random.default_rng(1)
    for place, bit in np.stack([generator.integers(len(content), size=200), generator.integers(8, size=200)], 1):
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(bit)
        path.write_bytes(flipped)
        try:
            found = sma.load(path)
        except ValueError:
            refused += 1
            continue
        assert all(map(np.array_equal, jax.tree.leaves(found), wanted)) and found.start == solution.start
        assert found.problem.layers == solution.problem.layers
    assert refused > 10


@pytest.mark.parametrize("mask", [0o077, 0o002])
def test_files_follow_the_umask(mask, solution, tmp_path):
    before = os.umask(mask)
    try:
        path = sma.save(solution, tmp_path / "one.nc")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_home_folder_is_the_one_of_the_user(solution, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    sma.save(solution, "~/runs/one.nc")
    assert sma.load("~/runs/one.nc").action == solution.action and (tmp_path / "runs" / "one.nc").is_file()
