"""Settings of every test. The package must not be imported here: its run-time type checks are switched on later."""

import gc
import os
from pathlib import Path

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


@pytest.fixture(autouse=True, scope="module")
def _room_for_compiled_code():
    """Every compiled function holds memory maps, of which Linux gives a process 65,530; without one left it crashes."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_bytes().splitlines()) > 20_000:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def results_root(tmp_path, monkeypatch):
    """An empty folder that is also the current one, so that a test can leave files in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
