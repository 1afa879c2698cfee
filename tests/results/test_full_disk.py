"""A disk that is full, or a file that may not grow: a clear error, nothing half-written, and Python lives on."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
SMALL, LARGE = 1_000, 400_000  # numbers; the second are more than fit
LIMIT = 2**20

# In a process of its own: what went wrong here once ended the process, after the error had been caught.
WRITE = f"""
import gc, resource, sys
from pathlib import Path
import numpy as np, xarray as xr
from attention_book import results
from statmech_attention.files import load_state, save_state

folder, limit = Path(sys.argv[1]), int(sys.argv[2])
numbers = np.random.default_rng(0).random
small, large = ({SMALL}, {LARGE})
results.save(xr.Dataset({{"a": ("x", numbers(small))}}), folder / "one.nc", parameters={{}})
save_state(folder / "state.npz", numbers(small), {{}})
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
for write in (
    lambda: results.save(xr.Dataset({{"a": ("x", numbers(large))}}), folder / "one.nc", parameters={{}}),
    lambda: save_state(folder / "state.npz", numbers(large), {{}}),
):
    try:
        write()
        print("written")
    except OSError as error:
        print(error.errno, error)
    gc.collect()
print(results.load(folder / "one.nc").sizes["x"], len(load_state(folder / "state.npz", np.zeros(0), {{}})))
print(sorted(file.name for file in folder.iterdir()))
"""


def written(folder: Path, limit: int) -> list[str]:
    command = [sys.executable, "-c", WRITE, str(folder), str(limit)]
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@contextmanager
def small_disk(folder: Path):
    """A file system of 1 MB, which only root may make."""
    try:
        options = ["-t", "tmpfs", "-o", f"size={LIMIT}", "tmpfs"]
        subprocess.run(["mount", *options, str(folder)], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system of 1 MB can be mounted here: {getattr(error, 'stderr', None) or error}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def check(lines: list[str], folder: Path, reason: str) -> None:
    *errors, sizes, names = lines
    assert len(errors) == 2
    for error, name in zip(errors, ("one.nc", "state.npz"), strict=True):
        assert reason in error and "nothing was written" in error and str(folder / name) in error
    assert sizes == f"{SMALL} {SMALL}" and names == "['one.nc', 'state.npz']"


def test_a_full_disk(tmp_path):
    with small_disk(tmp_path):
        check(written(tmp_path, 0), tmp_path, "No space left on device")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_a_limit_on_the_size_of_files(tmp_path):
    check(written(tmp_path, LIMIT), tmp_path, "File too large")
