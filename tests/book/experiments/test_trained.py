"""Recorded training: done once, again when parameters or the revision change, and resumed."""

import sys

import numpy as np
import pytest

from attention_book import experiments, results
from attention_book.experiments import trained
from attention_book.locks import Busy
from attention_book.training import load_network, train

from .shared import *  # noqa: F403

EXPERIMENT = "Trained"
SETTINGS = dict(layers=1, heads=2, width=12, dimension=4, epochs=1, batch=32, learning_rate=3e-4, weight_decay=5e-5)
SETTINGS |= dict(validate_every=2)
WRONG = [
    {"layers": 0},
    {"epochs": 0},
    {"learning_rate": 0.0},
]


def test_the_network_is_that_of_the_training_itself(tmp_path, make, suite):
    path = make(tmp_path, seed=3).run(progress=False)
    assert path.name == "network-1x2-seed3.nc"
    options = {name: value for name, value in SETTINGS.items() if name not in ("layers", "heads")}
    wanted = train(suite.task, suite.split, layers=(2,), seed=3, progress=False, **options).network()
    found = load_network(path)
    np.testing.assert_array_equal(found.vectors, wanted.vectors)
    np.testing.assert_array_equal(found.queries[0], wanted.queries[0])
    np.testing.assert_array_equal(found.curve, wanted.curve)
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == [path.name]


@pytest.mark.skipif(sys.platform == "win32", reason="no locks")
def test_two_runs_do_not_make_the_same_record(tmp_path, make, monkeypatch):
    refused = []

    def meanwhile(*arguments, **options):
        with pytest.raises(Busy, match="network-1x2.*: another process is at it. Wait until it is done") as caught:
            make(tmp_path).run(progress=False)
        refused.append(caught.value)
        return train(*arguments, **options)

    monkeypatch.setattr(trained, "train", meanwhile)
    path = make(tmp_path).run(progress=False)
    assert len(refused) == 2 and path.is_file() and not list((tmp_path / "checkpoints").iterdir())


def test_biases_are_recorded_where_there_are_any(tmp_path, make):
    without = make(tmp_path)
    assert "biases" not in without.parameters
    path = make(tmp_path, biases=True).run(progress=False)
    assert results.record(path)["parameters"]["biases"] is True and load_network(path).offsets is not None
    assert without.reason and not experiments.experiment_of(path).reason


def test_other_parameters_and_revisions_are_reasons(recorded, make, monkeypatch):
    assert make(recorded.parent, learning_rate=1e-3).reason == "learning_rate was 0.0003"
    monkeypatch.setattr(experiments.Trained, "revision", 2)
    assert make(recorded.parent).reason == "revision 2 has other numbers than 1"


def test_a_recheck_agrees_and_finds_other_numbers(recorded, make):
    recheck = make(recorded.parent).recheck()
    assert recheck.what == "the losses after 20 steps" and recheck.difference < recheck.tolerance
    assert make(recorded.parent, learning_rate=1e-2).recheck().difference > recheck.tolerance


def test_an_interrupted_run_goes_on_and_ends_the_same(recorded, make, tmp_path, monkeypatch):
    def until_killed(*arguments, **options):
        train(*arguments, **options, stop_after=2)
        raise KeyboardInterrupt

    training = make(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(trained, "train", until_killed)
        with pytest.raises(KeyboardInterrupt):
            training.run(progress=False)
    (state,) = (tmp_path / "checkpoints").rglob("*.npz")
    # Another training leaves it alone.
    make(tmp_path, learning_rate=1e-3).run(progress=False)
    assert state.exists()
    parts, whole = load_network(training.run(progress=False)), load_network(recorded)
    np.testing.assert_array_equal(parts.vectors, whole.vectors)
    np.testing.assert_array_equal(parts.curve, whole.curve)
    assert not state.exists()
