"""Records computed again: what stands and what does not."""

import sys
from functools import cache

import numpy as np
import pytest
import verify
import xarray as xr

from attention_book import results
from attention_book.experiments import HiddenMarkovWeights, experiment_of
from attention_book.experiments.experiment import difference, largest_difference

SETTINGS = dict(width=2, seed=3, network="all", noise=1.0, temperature=1.0, examples=6, test_examples=5)
SETTINGS |= dict(chains=2, warmup=20, draws=20, thinning=1)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return HiddenMarkovWeights(folder=tmp_path_factory.mktemp("verified"), **SETTINGS).run(progress=False)


def rewritten(path, target, **facts):
    """The record with other numbers or facts in it."""
    dataset, made = results.load(path), results.record(path)
    dataset["opening_potential"] = dataset["opening_potential"] * facts.pop("factor", 1.0)
    kept = {name: made[name] for name in ("parameters", "inputs", "revision", "maker")} | facts
    return results.save(dataset, target / path.name, **kept)


def test_a_record_stands(recorded):
    assert experiment_of(recorded) == HiddenMarkovWeights(folder=recorded.parent, **SETTINGS)
    good, said = verify.verify(recorded)
    assert good and said.startswith("4 draws of 2 chains: differs by 0.0e+00 (at most 1e-06)")


def test_other_numbers_do_not(recorded, tmp_path):
    good, said = verify.verify(rewritten(recorded, tmp_path, factor=1.001))
    assert not good and "differs by 1.0e-03" in said


def test_nor_does_one_of_an_earlier_revision(recorded, tmp_path):
    good, said = verify.verify(rewritten(recorded, tmp_path, revision=0))
    assert not good and said == "out of date: revision 1 has other numbers than 0"


def test_nor_what_nobody_made_or_can_read(recorded, tmp_path):
    good, said = verify.verify(rewritten(recorded, tmp_path, maker="somebody"))
    assert not good and "got one of somebody" in said
    other = rewritten(recorded, tmp_path, parameters={**results.record(recorded)["parameters"], "of_old": 1})
    good, said = verify.verify(other)
    assert not good and "of_old" in said
    broken = tmp_path / "broken.nc"
    broken.write_bytes(recorded.read_bytes()[:-100])
    assert not verify.verify(broken)[0]


def test_the_command_prints_a_line_each_and_fails_if_one_differs(recorded, tmp_path, monkeypatch, capsys):
    wrong = rewritten(recorded, tmp_path, factor=1.001)
    monkeypatch.setattr(sys, "argv", ["verify.py", str(recorded), str(wrong), "--jobs", "1"])
    assert verify.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and lines[0].startswith("ok   ") and lines[1].startswith("BAD  ")
    assert lines[2].startswith("1 of 2 records stand")


@pytest.fixture(scope="module")
def records():
    """The provenance of every record in the repository."""
    return {path: results.record(path) for path in verify.RESULTS.rglob("*.nc")}


def test_what_is_looked_at_quickly_is_there(records):
    assert all((verify.RESULTS / name).is_file() for name in verify.QUICK)
    makers = {made["maker"] for made in records.values()}
    quick = {records[verify.RESULTS / name]["maker"] for name in verify.QUICK}
    # The test sets of a pruning take longer, and so do samples on images and fine-tuning; points and
    # selections on an encoder's attention need all sentences encoded; a learning curve its streams.
    assert makers - quick == {"learning_curve", "points", "pruning", "removed", "samples", "selection", "tuned"}


def test_every_record_says_who_made_it_and_of_what(records):
    digest = cache(results.digest)
    for path, made in records.items():
        assert made["revision"] >= 1 and made["maker"] and "source" not in made and "modules" not in made
        for name, used in made["inputs"].items():
            assert digest(experiment_of(path).sources[name]) == used, path


@pytest.mark.parametrize(
    ("found", "recorded", "wanted"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.002], [1.0, 2.0], 1e-3),
        ([1.0, np.nan], [1.0, np.nan], 0.0),
        ([1.0, np.nan], [1.0, 2.0], np.inf),
        ([np.inf, 1.0], [np.inf, 1.0], 0.0),
        ([1.0], [1.0, 2.0], np.inf),
        ([0, 3], [0, 4], 0.25),
    ],
)
def test_the_difference_is_relative_to_the_largest_number(found, recorded, wanted):
    assert difference(found, recorded) == pytest.approx(wanted)


def test_the_largest_difference_is_that_of_the_worst_variable():
    one = xr.Dataset({"a": ("x", [1.0, 2.0]), "b": 3.0})
    other = xr.Dataset({"a": ("x", [1.0, 2.0]), "b": 4.0})
    assert largest_difference(one, other, ["a"]) == 0 and largest_difference(one, other, ["a", "b"]) == 0.25
