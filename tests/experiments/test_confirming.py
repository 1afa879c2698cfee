"""Records of earlier code: confirmed where part of them comes out the same, refused where it does not."""

import importlib

import numpy as np
import pytest
import xarray as xr

from statmech_attention import experiments, results
from statmech_attention.tasks import OneShot, OneShotSuite, TestSet, glyph_split, glyphs

MODULES = [
    importlib.import_module(f"statmech_attention.experiments.{name}")
    for name in ("trained", "theory", "one_shot_sampling", "confirming")
]
TRAINING = dict(data="glyphs", layers=1, heads=2, width=12, dimension=4, epochs=1, batch=32, validate_every=2)
THEORY = dict(data="glyphs", layers=1, heads=2, draws=2, examples=20, test_examples=30)
THEORY |= dict(widths=(100, 10), temperatures=(0.5, 0.05))


@pytest.fixture(scope="module")
def suite():
    task = OneShot(glyphs(24, 4))
    split = glyph_split(task.images)
    return OneShotSuite(task, split, {"glyphs": TestSet(task, split.test, split.test)})


@pytest.fixture
def recorded(tmp_path, monkeypatch, suite):
    """A folder with a network and a theory, and how to make both of another code."""
    for module in MODULES:
        monkeypatch.setattr(module, "one_shot_suite", {"glyphs": suite}.__getitem__)
    experiments.trained(tmp_path, seed=0, progress=False, **TRAINING)
    experiments.theory(tmp_path, seed=0, progress=False, **THEORY)

    def code_changes():
        monkeypatch.setattr(results.store, "code_hash", lambda modules: "another code")

    return tmp_path, code_changes


def parameters(folder, experiment):
    return results.record(experiments.experiment_file(experiment, folder, 1, 2, 0))["parameters"]


def changed(folder, experiment, name):
    """A record with a slightly different number in it."""
    path = experiments.experiment_file(experiment, folder, 1, 2, 0)
    dataset, record = results.load(path), results.record(path)
    dataset[name] = dataset[name] * (1 + 1e-3)
    results.save(dataset, path, parameters=record["parameters"], modules=record["modules"])


@pytest.mark.parametrize("experiment", ["network", "theory"])
def test_what_comes_out_the_same_stands(recorded, experiment):
    folder, code_changes = recorded
    code_changes()
    path, made = experiments.experiment_file(experiment, folder, 1, 2, 0), parameters(folder, experiment)
    before = results.load(path)
    assert not results.is_current(path, made)
    difference = experiments.confirm(path, progress=False)
    assert difference < (1e-6 if experiment == "network" else 1e-9)
    assert results.is_current(path, made) and results.load(path).identical(before)
    assert results.record(path)["confirmed"][0]["difference"] == difference
    other = ({"network", "theory"} - {experiment}).pop()
    assert not results.is_current(experiments.experiment_file(other, folder, 1, 2, 0), parameters(folder, other))


@pytest.mark.parametrize(
    ("experiment", "name"), [("network", "validation_loss"), ("theory", "action"), ("theory", "gp_accuracy")]
)
def test_what_does_not_is_refused(recorded, experiment, name):
    folder, code_changes = recorded
    path = experiments.experiment_file(experiment, folder, 1, 2, 0)
    changed(folder, experiment, name)
    code_changes()
    with pytest.raises(ValueError, match="differs by .*of itself, more than .*Run it again."):
        experiments.confirm(path, progress=False)
    assert results.record(path)["confirmed"] == [] and np.isfinite(results.load(path)[name]).all()


def test_a_theory_of_another_network_and_other_experiments_are_refused(recorded):
    folder, _ = recorded
    changed(folder, "network", "vectors")
    path = experiments.experiment_file("theory", folder, 1, 2, 0)
    with pytest.raises(ValueError, match="the theory of another network"):
        experiments.confirm(path, progress=False)
    for modules, name in ((["kernels"], "kernels"), (None, "None")):
        other = results.save(results.load(path), folder / "other.nc", parameters={}, modules=modules)
        with pytest.raises(ValueError, match=f"got one of {name}. Run it again instead."):
            experiments.confirm(other)
    with pytest.raises(FileNotFoundError, match="no recorded result there"):
        experiments.confirm(folder / "nothing.nc")


DIAGRAM = dict(networks=9, transient=50, steps=60, levels=41, gammas=3, count=2, parts=4, progress=False)


@pytest.mark.parametrize("diagram", ["bifurcation", "continuation", "exponents", "phases"])
def test_a_diagram_is_confirmed_by_its_first_part(tmp_path, monkeypatch, diagram):
    path = experiments.dynamics(tmp_path, diagram=diagram, **DIAGRAM)
    monkeypatch.setattr(results.store, "code_hash", lambda modules: "another code")
    assert experiments.confirm(path) == 0 and results.is_current(path, results.record(path)["parameters"])
    dataset, record = results.load(path), results.record(path)
    dataset["beta"] = dataset["beta"] + 1e-3
    results.save(dataset, path, parameters=record["parameters"], modules=record["modules"])
    with pytest.raises(ValueError, match="3 networks of lowest beta differs by"):
        experiments.confirm(path)


CHAINS = dict(chains=2, warmup=8, draws=6, progress=False)
CHAIN_WEIGHTS = dict(width=2, network="good and denoising", temperature=1.0, examples=6, test_examples=5, **CHAINS)
ON_A_NETWORK = dict(data="glyphs", layers=1, heads=2, widths=(10,), **CHAINS)


@pytest.mark.parametrize(
    ("experiment", "settings", "name"),
    [("sampling", CHAIN_WEIGHTS, "order_parameter"), ("one_shot_sampling", ON_A_NETWORK, "potential")],
)
def test_samples_are_confirmed_by_their_first_draws(recorded, experiment, settings, name):
    folder, code_changes = recorded
    path = getattr(experiments, experiment)(folder, **settings)
    code_changes()
    assert experiments.confirm(path, progress=False) == 0
    dataset, record = results.load(path), results.record(path)
    assert results.is_current(path, record["parameters"])
    dataset[name] = dataset[name] * (1 + 1e-3)
    results.save(dataset, path, parameters=record["parameters"], modules=record["modules"])
    with pytest.raises(ValueError, match="4 draws of all chains differs by"):
        experiments.confirm(path, progress=False)


def test_samples_on_another_network_are_refused(recorded):
    folder, _ = recorded
    theory = parameters(folder, "theory")
    made = {**{name: theory[name] for name in ("layers", "heads", "seed")}, "widths": [10.0], "network": "another"}
    path = results.save(xr.Dataset(), folder / "x.nc", parameters=made, modules=["experiments.one_shot_sampling"])
    with pytest.raises(ValueError, match="samples of another network than network-1x2-seed0.nc"):
        experiments.confirm(path, progress=False)
