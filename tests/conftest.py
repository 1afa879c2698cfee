"""Settings of every test. The package must not be imported here: its run-time type checks are switched on later."""

import ctypes
import gc
import os
import resource
from pathlib import Path

# To be set before JAX is imported. Nearly all of the tests' time is compilation, of programs that run once.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".cache" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# Programs that are not inspected need not say which line each of their operations comes from.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
# A second thread waits for the first one's small matrices, at the cost of a processor.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("NPROC", "1")  # threads of XLA

import hypothesis
import jax
import pytest
import threadpoolctl

# Plugins may have imported NumPy before.
threadpoolctl.threadpool_limits(int(os.environ["OPENBLAS_NUM_THREADS"]), "blas")

jax.config.update("jax_enable_x64", True)
# In arrays over (examples, paths, ...) an axis that is silently stretched is the bug to expect.
jax.config.update("jax_numpy_rank_promotion", "raise")

# Compiling takes longer than any deadline. On CI the same examples every time.
hypothesis.settings.register_profile("local", deadline=None, max_examples=20)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=20, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_collection_finish():
    """Look for garbage less often, and not among modules: tracing makes a million objects, most of which live."""
    gc.freeze()
    gc.set_threshold(50_000)


def most_held():
    """Return the memory at which a process forgets: a third of all for all of them, from one GiB to two."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    share = os.sysconf("SC_PHYS_PAGES") * resource.getpagesize() // (3 * processes)
    return min(max(share, 2**30), 2**31)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown():
    """Forget programs where a process holds much: each has memory maps, too, of which Linux gives it 65,530.

    A GiB has about 6,000 of them by JAX 0.9, and 20,000 by 0.12. glibc keeps what is freed, until it is asked to give
    it back.
    """
    held = Path("/proc/self/statm")
    if held.exists() and int(held.read_text().split()[1]) * resource.getpagesize() > most_held():
        jax.clear_caches()
        gc.collect()
        give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if give_back:
            give_back(0)


@pytest.fixture
def optimised():
    """For a test whose programs run for longer than it takes to compile them well."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] != "0")


@pytest.fixture
def results_root(tmp_path, monkeypatch):
    """An empty folder that is also the current one, so that a test can leave files in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
