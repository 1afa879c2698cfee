"""Runs and trainings that are stopped in the middle go on, and end with the same bits as those that were not."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from attention_book.one_shot import OneShot, glyph_split, glyphs, train
from attention_book.runs import notebooks, results, workflow

SOURCE = Path(__file__).parents[3] / "src"
# The last cell waits in the first run that gets there, for somebody to stop it.
NOTEBOOK = """---
kernelspec: {name: python3, display_name: Python 3, language: python}
---

```{code-cell} ipython3
:tags: [parameters]

draw: int = 0  # a draw, in [0, 10]
output: str = "x.nc"  # the record, as a path
```

```{code-cell} ipython3
import numpy as np

numbers = np.random.default_rng(draw).normal(size=5)
```

```{code-cell} ipython3
import time
from pathlib import Path

if draw == 1 and not Path("stopped").exists():
    Path("stopped").touch()
    time.sleep(100)

import xarray as xr

from attention_book.runs import results

results.save(xr.Dataset({"numbers": ("entry", numbers)}), output, parameters=globals())
```
"""
# In a process of its own, as in the run notebook `train`, with the settings that the test has, too.
TRAINING = {"layers": (2,), "width": 16, "dimension": 4, "seed": 3, "batch": 8, "validate_every": 10, "epochs": 3}
TRAIN = f"""
import sys
from attention_book.one_shot import OneShot, glyph_split, glyphs, train
task = OneShot(glyphs(12, 3, seed=2))
train(task, glyph_split(task.images), **{TRAINING}, progress=False, checkpoint=sys.argv[1])
"""


def started(*arguments, **options):
    """A process of this Python that finds the packages."""
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "JAX_ENABLE_X64": "1"}
    return subprocess.Popen([sys.executable, *map(str, arguments)], env=environment, **options)


def wait_for(path, process):
    """Wait until a file is there."""
    for _ in range(600):
        if path.exists():
            return
        assert process.poll() is None, f"ended without {path.name}"
        time.sleep(0.1)
    raise AssertionError(f"no {path.name} in a minute")


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGKILL])
def test_record_of_a_run_that_was_stopped_has_the_bits_of_one_that_was_not(stop, results_root):
    (results_root / "tiny.md").write_text(NOTEBOOK)
    line = {"record": "tiny", "run": "tiny", "pieces": {"draw": [0, 1]}}
    (one,) = workflow.records({"folder": str(results_root / "results"), "runs": [line]})
    (first, first_given), (second, second_given) = one.runs()
    notebooks.run("tiny.md", {**first_given, "output": first}, output="first.ipynb")
    there = first.read_bytes()
    command = ["-m", "attention_book", "run", "tiny.md", "-p", "draw=1", "-p", f"output={second}", "-o", "x.ipynb"]
    with started(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for(results_root / "stopped", process)
        process.send_signal(stop)
        said = process.communicate(timeout=60)[1]
    assert not second.exists() and not list(results_root.rglob("*.part"))
    if stop == signal.SIGTERM:
        assert process.returncode == 130 and "interrupted; the notebook up to there is in x.ipynb" in said
        assert not list(results_root.rglob("*.lock"))
    notebooks.run("tiny.md", {**second_given, "output": second}, output="x.ipynb", overwrite=True)
    assert first.read_bytes() == there and not list(results_root.rglob("*.lock"))
    workflow.combine(one.path, ["draw"], [first, second])
    wanted = [np.random.default_rng(draw).normal(size=5) for draw in (0, 1)]
    np.testing.assert_array_equal(results.load(one.path)["numbers"], wanted)


def test_killed_training_goes_on_from_its_checkpoint_with_the_same_bits(tmp_path):
    path = tmp_path / "state.npz"
    with started("-c", TRAIN, path) as process:
        wait_for(path, process)
        process.kill()
    assert [entry.name for entry in tmp_path.iterdir() if entry.suffix != ".part"] == ["state.npz"]
    task = OneShot(glyphs(12, 3, seed=2))
    split, options = glyph_split(task.images), {**TRAINING, "progress": False}
    again, whole = train(task, split, **options, checkpoint=path), train(task, split, **options)
    for found, wanted in zip(jax.tree.leaves(again.parameters), jax.tree.leaves(whole.parameters), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(again.curve, whole.curve)
    assert again.finished and (again.best_step, again.steps) == (whole.best_step, whole.steps)
