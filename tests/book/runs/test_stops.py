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
from attention_book.runs import notebooks, results

SOURCE = Path(__file__).parents[3] / "src"
# The last cell waits in the first two runs, for somebody to stop them.
NOTEBOOK = """---
kernelspec: {name: python3, display_name: Python 3, language: python}
---

```{code-cell} ipython3
:tags: [parameters]

output: str = "x.nc"  # the record, as a path
```

```{code-cell} ipython3
import numpy as np

numbers = np.random.default_rng(0).normal(size=5)
```

```{code-cell} ipython3
import time
from pathlib import Path

if (stops := len(list(Path().glob("stopped*")))) < 2:
    Path(f"stopped{stops}").touch()
    time.sleep(100)

import xarray as xr

from attention_book.runs import results

results.save(xr.Dataset({"numbers": ("entry", numbers)}), output, parameters=globals())
```
"""
# Waits for somebody to kill it before it writes a second checkpoint.
TRAINING = {"layers": (2,), "width": 16, "dimension": 4, "seed": 3, "batch": 8, "validate_every": 10, "epochs": 3}
TRAIN = f"""
import sys, time
from attention_book.one_shot import OneShot, glyph_split, glyphs, train, training
save = training.save_state
training.save_state = lambda path, *rest: time.sleep(100) if path.exists() else save(path, *rest)
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


@pytest.mark.slow
def test_record_of_a_run_that_was_stopped_twice_has_the_bits_of_one_that_was_not(results_root):
    (results_root / "tiny.md").write_text(NOTEBOOK)
    record = results_root / "x.nc"
    for number, stop in enumerate((signal.SIGTERM, signal.SIGKILL)):
        command = ["-m", "attention_book", "run", "tiny.md", "-o", f"{number}.ipynb"]
        with started(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            wait_for(results_root / f"stopped{number}", process)
            process.send_signal(stop)
            said = process.communicate(timeout=60)[1]
        assert not record.exists() and not list(results_root.glob("*.part"))
        if stop == signal.SIGTERM:
            assert process.returncode == 130 and "interrupted; the notebook up to there is in 0.ipynb" in said
            assert not list(results_root.glob("*.lock"))
    notebooks.run("tiny.md", output="2.ipynb")
    assert not list(results_root.glob("*.lock"))
    np.testing.assert_array_equal(results.load(record)["numbers"], np.random.default_rng(0).normal(size=5))


def test_killed_training_goes_on_from_its_checkpoint_with_the_same_bits(tmp_path):
    path = tmp_path / "state.npz"
    with started("-c", TRAIN, path) as process:
        wait_for(path, process)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert [entry.name for entry in tmp_path.iterdir() if entry.suffix != ".part"] == ["state.npz"]
    task = OneShot(glyphs(12, 3, seed=2))
    split, options = glyph_split(task.images), {**TRAINING, "progress": False}
    again, whole = train(task, split, **options, checkpoint=path), train(task, split, **options)
    for found, wanted in zip(jax.tree.leaves(again.parameters), jax.tree.leaves(whole.parameters), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(again.curve, whole.curve)
    assert again.finished and (again.best_step, again.steps) == (whole.best_step, whole.steps)
