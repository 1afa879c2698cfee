"""Settings of every test. The package must not be imported here: its run-time type checks are switched on later."""

import ctypes
import gc
import os
import shutil
from pathlib import Path

from compiled import share, share_cores

PROGRAMS = Path(__file__).parents[1] / ".cache" / "compiled"
MOST_KEPT = 2**30  # bytes of compiled programs; beyond it they are all compiled again

# Workers and the processes that tests start find what others compiled. To be set before JAX is imported.
share(os.environ, PROGRAMS)
# Nearly all of the tests' time is compilation, of programs that run once; so do JAX's own tests.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("MALLOC_ARENA_MAX", "2")  # for the workers: the compiler's threads leave less behind
if "PYTEST_XDIST_WORKER" not in os.environ:
    held = Path(os.environ["JAX_COMPILATION_CACHE_DIR"])
    if held.is_dir() and sum(file.stat().st_size for file in held.iterdir()) > MOST_KEPT:
        shutil.rmtree(held, ignore_errors=True)
else:
    share_cores(os.environ, int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))

import hypothesis
import jax
import pytest

jax.config.update("jax_enable_x64", True)
# A tenth of the time of tracing would go into looking for garbage among all that was compiled.
gc.set_threshold(100_000, 20, 100)
# In arrays over (examples, paths, ...) an axis that is silently stretched is the bug to expect.
jax.config.update("jax_numpy_rank_promotion", "raise")

# Compiling takes longer than any deadline. On CI the same examples every time.
hypothesis.settings.register_profile("local", deadline=None, max_examples=20)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=20, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


# The files that take longest, begun first: else all workers would wait for one of these at the end.
LONGEST = (
    "test_workflow",
    "book/test_solvable_model",
    "layers/test_sampling",
    "test_random_chains",
    "test_book",
    "test_compiling",
    "book/experiments/test_learned",
    "training/test_attention",
)
PLACES = {f"tests/{name}.py": place for place, name in enumerate(LONGEST)}


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: PLACES.get(item.nodeid.partition("::")[0], len(PLACES)))


def pytest_collection_finish():
    """What was imported stays: let no search for garbage go through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _room_for_the_next_module():
    yield
    _forget_compiled(1000)


@pytest.fixture(autouse=True)
def _room_for_the_next_test():
    """Less often: what tests of a module have compiled they share."""
    yield
    _forget_compiled(1600)


def _forget_compiled(roomy: int) -> None:
    """Compiled functions stay in memory, gigabytes of them in the end; forgotten ones are read again from their folder.

    Every one holds memory maps, too, of which Linux gives a process 65,530; without one left it crashes.

    Args:
        roomy: MB that the process may hold before it forgets.
    """
    held = Path("/proc/self/statm")
    if held.exists() and int(held.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > roomy * 2**20:
        jax.clear_caches()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # the allocator would keep it


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
