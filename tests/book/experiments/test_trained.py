"""Recorded training: done once, done again when parameters or the revision change, and gone on with after an interruption."""

import sys

import numpy as np
import pytest

from attention_book import experiments
from attention_book.experiments import trained
from attention_book.locks import Busy
from attention_book.training import train
from statmech_attention import results
from statmech_attention.training import load_network

SETTINGS = dict(layers=1, heads=2, width=12, dimension=4, epochs=1, batch=32, learning_rate=3e-4, weight_decay=5e-5)
SETTINGS |= dict(validate_every=2)


@pytest.fixture
def counted(monkeypatch):
    """The trainings that were begun."""
    calls = []

    def counting(*arguments, **options):
        if "stop_after" not in options:  # not the opening
            calls.append(options)
        return train(*arguments, **options)

    monkeypatch.setattr(trained, "train", counting)
    return calls


def test_the_network_is_that_of_the_training_itself(tmp_path, small, suite):
    path = small("Trained", tmp_path, seed=3, **SETTINGS).run(progress=False)
    assert (
        path == experiments.experiment_file("network", tmp_path, layers=1, heads=2, seed=3)
        and path.name == "network-1x2-seed3.nc"
    )
    options = {name: value for name, value in SETTINGS.items() if name not in ("layers", "heads")}
    wanted = train(suite.task, suite.split, heads=(2,), seed=3, progress=False, **options).network()
    found = load_network(path)
    np.testing.assert_array_equal(found.vectors, wanted.vectors)
    np.testing.assert_array_equal(found.queries[0], wanted.queries[0])
    np.testing.assert_array_equal(found.curve, wanted.curve)
    record = results.record(path)
    assert record["seed"] == 3 and record["parameters"]["data"] == "glyphs" and record["maker"] == "network"
    assert record["revision"] == experiments.Trained.revision and record["wall_seconds"] > 0
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == [path.name]


def test_it_is_done_once_and_again_when_a_parameter_changes(tmp_path, small, counted):
    for changed, wanted in [({}, 1), ({}, 1), ({"learning_rate": 1e-3}, 2), ({"learning_rate": 1e-3}, 2)]:
        small("Trained", tmp_path, **(SETTINGS | changed)).run(progress=False)
        assert len(counted) == wanted


@pytest.mark.skipif(sys.platform == "win32", reason="no locks")
def test_two_runs_do_not_make_the_same_record(tmp_path, small, monkeypatch):
    refused = []

    def meanwhile(*arguments, **options):
        with pytest.raises(Busy, match="network-1x2.*: another process is at it. Wait until it is done") as caught:
            small("Trained", tmp_path, **SETTINGS).run(progress=False)
        refused.append(caught.value)
        return train(*arguments, **options)

    monkeypatch.setattr(trained, "train", meanwhile)
    path = small("Trained", tmp_path, **SETTINGS).run(progress=False)
    assert len(refused) == 2 and path.is_file() and not list((tmp_path / "checkpoints").iterdir())


def test_biases_are_recorded_where_there_are_any(tmp_path, small):
    without = small("Trained", tmp_path, **SETTINGS)
    assert "biases" not in without.parameters
    path = small("Trained", tmp_path, biases=True, **SETTINGS).run(progress=False)
    assert results.record(path)["parameters"]["biases"] is True and load_network(path).offsets is not None
    assert without.reason and not experiments.experiment_of(path).reason


def test_it_is_done_again_when_its_numbers_are_meant_to_change(tmp_path, small, counted, monkeypatch):
    training = small("Trained", tmp_path, **SETTINGS)
    training.run(progress=False)
    monkeypatch.setattr(experiments.Trained, "revision", 2)
    assert training.reason == "revision 2 has other numbers than 1"
    training.run(progress=False)
    assert len(counted) == 2 and training.reason == ""


def test_losses_computed_again_tell_another_training(tmp_path, small, monkeypatch):
    training = small("Trained", tmp_path, **SETTINGS)
    training.run(progress=False)
    again = training.again()
    assert again.what == "the losses after 20 steps" and again.difference < again.tolerance
    other = small("Trained", tmp_path, **(SETTINGS | {"learning_rate": 1e-2}))
    assert other.again().difference > again.tolerance


def test_an_interrupted_training_goes_on(tmp_path, small, monkeypatch):
    whole = load_network(small("Trained", tmp_path / "whole", seed=1, **SETTINGS).run(progress=False))

    def until_killed(*arguments, **options):
        train(*arguments, **options, stop_after=2)
        raise KeyboardInterrupt

    training = small("Trained", tmp_path / "parts", seed=1, **SETTINGS)
    with monkeypatch.context() as patch:
        patch.setattr(trained, "train", until_killed)
        with pytest.raises(KeyboardInterrupt):
            training.run(progress=False)
    state, clock = sorted((tmp_path / "parts" / "checkpoints").rglob("network.*"), reverse=True)[-2:][::-1]
    assert {state.suffix, clock.suffix} == {".npz", ".seconds"} and not training.path.exists()
    # Whatever was trained otherwise is left alone.
    small("Trained", tmp_path / "parts", seed=1, **(SETTINGS | {"learning_rate": 1e-3})).run(progress=False)
    assert state.exists()
    parts = load_network(training.run(progress=False))
    np.testing.assert_array_equal(parts.vectors, whole.vectors)
    np.testing.assert_array_equal(parts.curve, whole.curve)
    assert not state.exists()


def test_wrong_input_is_refused_before_training(tmp_path, counted):
    wrong = experiments.Trained(folder=tmp_path, data="cats", kind="heads", seed=0, **SETTINGS)
    with pytest.raises(ValueError, match=r"wanted one of omniglot, glyphs, got 'cats'"):
        wrong.run()
    assert not counted
