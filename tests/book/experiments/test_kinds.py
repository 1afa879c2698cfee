"""Networks with skips through training, theory and pruning; records of plain heads keep their names."""

import numpy as np
import pytest

import statmech_attention as sma
from attention_book import experiments, results
from attention_book.experiments import reading
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
