"""Tests that every recorded experiment passes. A file imports them, and gives `make` and `WRONG`.

`make(folder, **changes)` is the experiment at tiny size, in a folder with all that it needs;
`WRONG` are changes that are refused. The test of an interruption is for parts that use earlier ones.
"""

import shutil

import numpy as np
import pytest

from attention_book import results
from attention_book.experiments import experiment_of
from attention_book.experiments.experiment import _Kept

__all__ = [
    "test_a_recheck_agrees_and_finds_other_numbers",
    "test_it_is_done_once_and_known_by_its_record",
    "test_wrong_parameters_are_refused",
]


def numbers(path):
    return {name: one.values for name, one in results.load(path).items() if not str(name).endswith("seconds")}


def test_it_is_done_once_and_known_by_its_record(recorded, make):
    experiment, written, made = make(recorded.parent), recorded.stat().st_mtime_ns, results.record(recorded)
    assert experiment.run(progress=False) == recorded and recorded.stat().st_mtime_ns == written
    assert made["maker"] == experiment.name and made["seed"] == experiment.seed and made["wall_seconds"] > 0
    rebuilt = experiment_of(recorded)
    assert type(rebuilt) is type(experiment) and rebuilt.parameters == experiment.parameters
    assert not rebuilt.reason and not rebuilt.missing
    assert not list((recorded.parent / "checkpoints").iterdir())


def test_a_recheck_agrees_and_finds_other_numbers(recorded, make, tmp_path):
    recheck = make(recorded.parent).recheck()
    assert recheck.difference < 0.1 * recheck.tolerance and recheck.what
    for path in recorded.parent.glob("*.nc"):
        shutil.copy(path, tmp_path)
    dataset, made = results.load(recorded), results.record(recorded)
    for name, one in dataset.items():
        if one.dtype.kind == "f" and "temperature" not in str(name):
            dataset[name] = 2 * one
    kept = {name: made[name] for name in ("parameters", "inputs", "revision", "maker")}
    results.save(dataset, tmp_path / recorded.name, **kept)
    recheck = make(tmp_path).recheck()
    assert recheck.difference > recheck.tolerance


def test_an_interrupted_run_goes_on_and_ends_the_same(recorded, make, tmp_path, monkeypatch):
    """Killed in its second part: the first one is kept."""
    done, original = [], _Kept._timed

    def killed_in_the_second(kept, part, step, file):
        done.append(part.name)
        if len(done) == 2:
            raise KeyboardInterrupt
        original(kept, part, step, file)

    monkeypatch.setattr(_Kept, "_timed", killed_in_the_second)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path).run(progress=False)
    assert not (tmp_path / recorded.name).exists()
    found, wanted = numbers(make(tmp_path).run(progress=False)), numbers(recorded)
    assert done[1] == done[2] and len({*done}) == len(done) - 1
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-9)


def test_wrong_parameters_are_refused(make, wrong, tmp_path):
    *changes, message = wrong if isinstance(wrong, tuple) else (wrong, f"^{next(iter(wrong))}: wanted")
    with pytest.raises(ValueError, match=message):
        make(tmp_path, **changes[0]).run(progress=False)
    assert not list(tmp_path.glob("checkpoints/*/*.nc"))
