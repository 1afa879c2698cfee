"""Networks with skips through training, theory and pruning; records of plain heads keep their names."""

import jax
import numpy as np
import pytest

import statmech_attention as sma
from attention_book import experiments, results
from attention_book.experiments import reading
from attention_book.measures import centred_alignment
from attention_book.training import load_network
from statmech_attention.layers import SkipHeads

SKIPS = (SkipHeads(2), SkipHeads(2))
NETWORK = dict(layers=2, heads=2, seed=1, kind="skip")
TRAINING = dict(width=12, dimension=4, epochs=1, batch=32, validate_every=2, learning_rate=3e-4, weight_decay=5e-5)
THEORY = dict(draws=1, widths=(200, 20), temperatures=(0.1, 1.0), examples=30, test_examples=40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, small):
    """All three records of a network with skips."""
    place = tmp_path_factory.mktemp("skips")
    small("Trained", place, **NETWORK, **TRAINING).run(progress=False)
    small("Theory", place, **NETWORK, **THEORY).run(progress=False)
    small("Pruning", place, **NETWORK, examples=40, test_examples=40).run(progress=False)
    return place


def test_records_say_their_kind(folder, small):
    names = ("network", "pruning", "theory")
    paths = [experiments.experiment_file(name, folder, layers=2, heads=2, seed=1, kind="skip") for name in names]
    assert sorted(folder.glob("*.nc")) == paths and paths[0].name == "network-2x2-skip-seed1.nc"
    assert all(results.record(path)["parameters"]["kind"] == "skip" for path in paths)
    assert reading.recorded_files("network", folder, "skip") == paths[:1]
    assert reading.recorded_files("network", folder) == []
    assert list(reading.recorded_theories(folder, "skip")) == ["2x2-skip-seed1"]
    with pytest.raises(FileNotFoundError, match="no recorded theory"):
        reading.recorded_theories(folder)
    assert small("Theory", folder, **NETWORK, **THEORY).reason == ""
    assert small("Theory", folder, **(NETWORK | {"kind": "heads"}), **THEORY).reason == "not there"


def test_the_theory_is_that_of_solver_and_predictor(folder, suite):
    network = load_network(folder / "network-2x2-skip-seed1.nc")
    found = results.load(folder / "theory-2x2-skip-seed1.nc")
    assert network.layers == SKIPS and found.sizes["path"] == 9
    key = jax.random.fold_in(jax.random.key(1), 0)
    train_key, _, test_key, _ = jax.random.split(key, 4)
    train, test = suite.train(train_key, 30), suite.test(test_key, 40, "new")
    xi, seen = (
        sma.attentioned_inputs(one.inputs, network.attention, readout="mean", layers=network.layers)
        for one in (train, test)
    )
    temperature = found["best_temperature"].sel(draw=0, width=20).item()
    one = found.sel(draw=0, width=20)
    solution = sma.solve(sma.Problem(xi, train.labels, width=20, temperature=temperature))
    np.testing.assert_allclose(one["action"].sel(temperature=temperature), solution.action, rtol=1e-8)
    np.testing.assert_allclose(one["order_parameter"], solution.order_parameter, atol=1e-6)
    wanted = sma.accuracy(solution.predict(seen).mean, test.labels)
    assert one["accuracy"].sel(temperature=temperature, test_set="new").item() == pytest.approx(
        float(wanted), abs=1e-12
    )
    np.testing.assert_allclose(one["alignment"], centred_alignment(solution.kernel(), train.labels), rtol=1e-5)


def test_the_pruning_is_that_of_smaller_networks(folder, suite):
    network = load_network(folder / "network-2x2-skip-seed1.nc")
    found = results.load(folder / "pruning-2x2-skip-seed1.nc")
    # All heads of a layer with a skip may go.
    assert found["removed"].values.tolist() == [0, 1, 2, 3, 4] and found.sizes["head"] == 4
    samples = list(experiments.pruning_samples(suite, "new", examples=40, seed=1))
    order = found["greedy_order"].values
    for removed, wanted in enumerate(found["greedy_curve"].values[0]):
        smaller = sma.prune(network, order[:removed])
        right = []
        for sample in samples:
            xi = sma.attentioned_inputs(sample.inputs, smaller.attention, readout="mean", layers=smaller.layers)
            right.append(np.sign(smaller.outputs(xi)) == np.asarray(sample.labels))
        assert np.mean(right) == pytest.approx(wanted, abs=1e-12)
    theory = results.load(folder / "theory-2x2-skip-seed1.nc")["order_parameter"].values
    wanted = sma.head_scores(theory[0, 0].astype(float), layers=SKIPS, definition="either")
    np.testing.assert_allclose(found["theory_score"].sel(definition="either")[0, 0], wanted)
