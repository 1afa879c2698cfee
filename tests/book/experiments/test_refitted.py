"""Values refitted after heads are removed: kernel regression on the residuals, and the whole network."""

import numpy as np
import pytest

import statmech_attention as sma
from attention_book.experiments.refitted import _best
from attention_book.pruning import predictor_vectors

from .conftest import network_in, random_network
from .shared import *  # noqa: F403
from .shared import test_an_interrupted_run_goes_on_and_ends_the_same  # noqa: F401

EXPERIMENT = "Refitted"
SETTINGS = dict(layers=2, heads=2, examples=40, test_examples=60, temperatures=[0.1])
WRONG = [{"heads": 1}, {"examples": 1}, {"temperatures": [0.0]}]


def prepare(folder, seed=7):
    network_in(folder, (2, 2), seed)


def test_the_values_left_are_those_of_kernel_regression_on_the_residuals(recorded, found, make):
    network, experiment = random_network((2, 2)), make(recorded.parent)
    samples = list(experiment._sequences(0, 40))
    inputs = np.concatenate([one.inputs for one in samples])
    labels = np.concatenate([one.labels for one in samples])
    assert found["removed"].values.tolist() == [[0], [1], [2], [3]]
    fewer = sma.keep_heads(network, sma.pruning.kept_heads(network.layers, [1]))
    seen = sma.attentioned_inputs(inputs, fewer.attention, readout="mean")
    residual = labels - np.asarray(fewer.outputs(seen))
    # The ridge is that of the whole network, whose kernel has twice the heads in its factor.
    regression = sma.Problem(seen, residual, temperature=0.1 * 2)
    vectors = np.asarray(fewer.vectors) + np.asarray(predictor_vectors(regression, np.eye(2)))
    test, test_labels = experiment._seen(2)
    outputs = np.einsum("epi,pi->e", np.asarray(test.values)[:, [0, 1]], vectors)
    if np.isfinite(float(found["temperature"][1])):
        hits = sma.accuracy(outputs, test_labels)
        assert float(found["refitted"][1]) == pytest.approx(float(hits), abs=1e-12)
    always = experiment._seen(1), (test, test_labels)
    moments = experiment._moments(lambda: None)
    again, _ = _best([0.1], network, np.array([1]), moments, *always)
    assert again == float(found["refitted"][1])
    cut = sma.accuracy(fewer.outputs(sma.AttentionedInputs(test.values[:, [0, 1]], fewer.layers)), test_labels)
    assert float(found["cut"][1]) == pytest.approx(float(cut))
    assert float(found["whole_cut"]) == pytest.approx(float(sma.accuracy(network.outputs(test), test_labels)))
    assert found["seconds"].shape == (15, 2) and found["flops"][1] < found["flops"][0]
