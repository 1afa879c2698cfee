"""Settings of every test. The package must not be imported here: its run-time type checks are switched on later."""

import ctypes
import gc
import os
import shutil
import sys
from pathlib import Path

from compiled import share

PROGRAMS = Path(__file__).parents[1] / ".cache" / "compiled"
MOST_KEPT = 2**30  # bytes of compiled programs; beyond it they are all compiled again
ROOMY = 1200 * 2**20  # bytes a process may hold before it forgets what it compiled

# Workers and the processes that tests start find what others compiled. To be set before JAX is imported.
share(os.environ, PROGRAMS)
if "PYTEST_XDIST_WORKER" not in os.environ:
    held = Path(os.environ["JAX_COMPILATION_CACHE_DIR"])
    if held.is_dir() and sum(file.stat().st_size for file in held.iterdir()) > MOST_KEPT:
        shutil.rmtree(held, ignore_errors=True)
else:
    # Linear algebra of several workers, with threads that wait by spinning, would take the cores from each other.
    threads = str(max(1, os.cpu_count() // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])))
    for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # XLA reads the first
        os.environ.setdefault(name, threads)

import hypothesis
import jax
import pytest

jax.config.update("jax_enable_x64", True)
# In arrays over (examples, paths, ...) an axis that is silently stretched is the bug to expect.
jax.config.update("jax_numpy_rank_promotion", "raise")

# Compiling takes longer than any deadline. On CI the same examples every time.
hypothesis.settings.register_profile("local", deadline=None, max_examples=20)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=20, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(autouse=True)
def _room_for_compiled_code():
    """Compiled functions stay in memory, 2 GB of them in an hour; forgotten ones are read again from the shared folder."""
    yield
    held = Path("/proc/self/statm")
    if held.exists() and int(held.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > ROOMY:
        jax.clear_caches()
        gc.collect()
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)  # the allocator would keep it


@pytest.fixture
def results_root(tmp_path, monkeypatch):
    """An empty folder that is also the current one, so that a test can leave files in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
