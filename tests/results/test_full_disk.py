"""A disk that is full, or a file that may not grow: a clear error, nothing half-written, and Python lives on."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither")

SOURCE = Path(__file__).parents[2] / "src"
SMALL, LARGE = 1_000, 400_000  # numbers; the second are more than fit
LIMIT = 2**20

# In a process of its own: what went wrong here once ended the process, after the error had been caught.
WRITE = f"""
import gc, resource, sys
from pathlib import Path
import numpy as np, xarray as xr
from attention_book import results
from attention_book.checkpoints import load_state, save_state

numbers = np.random.default_rng(0).random
small, large = ({SMALL}, {LARGE})
def attempt(folder, limit):
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
for folder, limit in zip(sys.argv[1:], (0, {LIMIT})):
    attempt(Path(folder), limit)
"""


@contextmanager
def small_disk(folder: Path):
    """A file system of 1 MB, which only root may make; why not, where there is none."""
    try:
        options = ["-t", "tmpfs", "-o", f"size={LIMIT}", "tmpfs"]
        subprocess.run(["mount", *options, str(folder)], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        yield f"no file system of 1 MB can be mounted here: {getattr(error, 'stderr', None) or error}"
        return
    try:
        yield ""
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What was printed of writing to either folder, and why the first may have been as large as any."""
    folders = [tmp_path_factory.mktemp(name) for name in ("disk", "limit")]
    with small_disk(folders[0]) as missing:
        command = [sys.executable, "-c", WRITE, *map(str, folders)]
        environment = os.environ | {"PYTHONPATH": str(SOURCE)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return (lines[:4], lines[4:]), missing


def check(lines: list[str], reason: str) -> None:
    *errors, sizes, names = lines
    assert len(errors) == 2
    assert all(reason in error for error in errors)
    assert sizes == f"{SMALL} {SMALL}" and names == "['one.nc', 'state.npz']"


def test_a_full_disk(written):
    (lines, _), missing = written
    if missing:
        pytest.skip(missing)
    check(lines, "No space left on device")


def test_a_limit_on_the_size_of_files(written):
    (_, lines), _ = written
    check(lines, "File too large")
