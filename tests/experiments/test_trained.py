"""Recorded training: done once, done again when parameters or code change, and gone on with after an interruption."""

import importlib

import numpy as np
import pytest

from statmech_attention import experiments, results
from statmech_attention.tasks import OneShot, OneShotSuite, TestSet, glyph_split, glyphs
from statmech_attention.training import load_network, train

trained = importlib.import_module("statmech_attention.experiments.trained")  # the function has the same name

SETTINGS = dict(data="glyphs", layers=1, heads=2, width=12, dimension=4, epochs=1, batch=32, validate_every=2)
TRAINED = dict(width=12, dimension=4, epochs=1, batch=32, validate_every=2)


@pytest.fixture(scope="module")
def suite():
    """As the suite of glyphs, with few of them."""
    task = OneShot(glyphs(24, 4))
    split = glyph_split(task.images)
    return OneShotSuite(task, split, {"glyphs": TestSet(task, split.test, split.test)})


@pytest.fixture
def small(monkeypatch, suite):
    monkeypatch.setattr(trained, "one_shot_suite", {"glyphs": suite}.__getitem__)


@pytest.fixture
def counted(monkeypatch):
    """The number of trainings that were begun."""
    calls = []

    def counting(*arguments, **options):
        calls.append(options)
        return train(*arguments, **options)

    monkeypatch.setattr(trained, "train", counting)
    return calls


def test_the_network_is_that_of_the_training_itself(tmp_path, small, suite):
    path = experiments.trained(tmp_path, seed=3, **SETTINGS)
    assert path == experiments.network_file(tmp_path, 1, 2, 3) and path.name == "network-1x2-seed3.nc"
    wanted = train(suite.task, suite.split, heads=(2,), seed=3, **TRAINED).network()
    found = load_network(path)
    np.testing.assert_array_equal(found.vectors, wanted.vectors)
    np.testing.assert_array_equal(found.queries[0], wanted.queries[0])
    np.testing.assert_array_equal(found.curve, wanted.curve)
    record = results.record(path)
    assert record["seed"] == 3 and record["parameters"]["data"] == "glyphs" and record["modules"]
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == [path.name]


def test_it_is_done_once_and_again_when_a_parameter_changes(tmp_path, small, counted):
    for changed, wanted in [({}, 1), ({}, 1), ({"learning_rate": 1e-3}, 2), ({"learning_rate": 1e-3}, 2)]:
        experiments.trained(tmp_path, seed=0, **SETTINGS, **changed)
        assert len(counted) == wanted


def test_it_is_done_again_when_its_code_changes(tmp_path, small, counted, monkeypatch):
    experiments.trained(tmp_path, seed=0, **SETTINGS)
    for module in (results, trained):
        monkeypatch.setattr(module, "code_hash", lambda modules: "another code")
    experiments.trained(tmp_path, seed=0, **SETTINGS)
    assert len(counted) == 2


def test_an_interrupted_training_goes_on(tmp_path, small, monkeypatch):
    whole = load_network(experiments.trained(tmp_path / "whole", seed=1, **SETTINGS))

    def until_killed(*arguments, **options):
        train(*arguments, **options, stop_after=2)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(trained, "train", until_killed)
        with pytest.raises(KeyboardInterrupt):
            experiments.trained(tmp_path / "parts", seed=1, **SETTINGS)
    (state,) = (tmp_path / "parts" / "checkpoints").iterdir()
    # Whatever was trained otherwise is left alone.
    assert not experiments.network_file(tmp_path / "parts", 1, 2, 1).exists()
    parts = load_network(experiments.trained(tmp_path / "parts", seed=1, **SETTINGS))
    np.testing.assert_array_equal(parts.vectors, whole.vectors)
    np.testing.assert_array_equal(parts.curve, whole.curve)
    assert not state.exists()


def test_wrong_input_is_refused_before_training(tmp_path, counted):
    with pytest.raises(ValueError, match=r"wanted one of omniglot, glyphs, got 'cats'"):
        experiments.trained(tmp_path, **{**SETTINGS, "data": "cats"})
    assert not counted
