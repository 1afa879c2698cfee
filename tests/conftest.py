"""Settings of every test. The package must not be imported here: its run-time type checks are switched on later."""

import os

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


@pytest.fixture
def results_root(tmp_path, monkeypatch):
    """An empty folder that is also the current one, so that a test can leave files in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
