"""Stored networks: what is read is what was written, and computes the same."""

import jax
import numpy as np
import pytest

import statmech_attention as sma
from attention_book.one_shot import load_network, save_network, trained_network
from attention_book.one_shot.path_form import initial
from attention_book.runs import results
from statmech_attention.layers import Heads, Linear, SkipHeads

from .conftest import parameters_of, relative


def test_stored_network_is_small_and_gives_the_same_outputs(task, tmp_path):
    parameters = initial(jax.random.key(2), (4, 4), 64, 128, 192)
    curve = np.random.default_rng(0).random((41, 5))
    network = trained_network(parameters, curve=curve, best_step=7)
    path = save_network(network, tmp_path / "network.nc", parameters={"heads": [4, 4]}, seed=2, wall_seconds=1.5)
    assert path.stat().st_size < 2e6
    loaded = load_network(path)
    assert loaded.layers == (4, 4) and loaded.width == 64 and loaded.best_step == 7
    np.testing.assert_array_equal(loaded.curve, curve)
    sample = task.sample(jax.random.key(4), 6, classes=range(24))
    attentioned = sma.attentioned_inputs(sample.inputs, loaded.attention, readout="mean")
    wanted = sma.forward(parameters.weights(), sample.inputs, loaded.attention, readout="mean")
    assert relative(loaded.outputs(attentioned), wanted) < 1e-5
    for found, overlap in zip(
        loaded.order_parameters, sma.model.weights_order_parameters(parameters.weights()), strict=True
    ):
        np.testing.assert_allclose(found, overlap, rtol=1e-6, atol=1e-7)
    assert loaded.value_norms[1] == pytest.approx(np.linalg.norm(parameters.weights().values[1], axis=(1, 2)), rel=1e-5)
    with pytest.raises(ValueError, match="attentioned: wanted layers"):
        loaded.outputs(attentioned.keep_heads(((0, 1), (0,))))


def test_biases_are_stored(tmp_path):
    network = trained_network(initial(jax.random.key(2), (2, 2), 16, 8, 192, biases=True))
    loaded = load_network(save_network(network, tmp_path / "network.nc", parameters={}))
    np.testing.assert_array_equal(loaded.offsets, network.offsets)
    assert loaded.bias == network.bias != 0


def test_stored_networks_with_narrow_heads_skips_and_linear_blocks(task, tmp_path):
    heads = (Heads(2, values=3), SkipHeads(3), Linear())
    parameters = parameters_of(heads)
    network = trained_network(parameters, layers=heads)
    loaded = load_network(save_network(network, tmp_path / "network.nc", parameters={}))
    assert loaded.layers == heads and [len(norms) for norms in loaded.value_norms] == [2, 3, 1]
    for name in ("queries", "keys", "order_parameters", "value_norms"):
        for found, wanted in zip(getattr(loaded, name), getattr(network, name), strict=True):
            np.testing.assert_array_equal(found, wanted)
    sample = task.sample(jax.random.key(4), 6, classes=range(24))
    attentioned = sma.attentioned_inputs(sample.inputs, loaded.attention, readout="mean", layers=heads)
    wanted = sma.forward(parameters.weights(), sample.inputs, loaded.attention, readout="mean", layers=heads)
    assert relative(loaded.outputs(attentioned), wanted) < 1e-5
    for found, overlap in zip(
        loaded.order_parameters, sma.model.weights_order_parameters(parameters.weights(), layers=heads), strict=True
    ):
        np.testing.assert_allclose(found, overlap, rtol=1e-6, atol=1e-7)


def test_network_with_a_kind_that_cannot_be_read_again_is_not_stored(tmp_path):
    class Unknown(SkipHeads):
        pass

    network = trained_network(parameters_of((2, Unknown(2))), layers=(2, Unknown(2)))
    with pytest.raises(
        ValueError,
        match="layers: wanted numbers and layers of Heads, SkipHeads, .*Outputs to record, got .*Unknown",
    ):
        save_network(network, tmp_path / "network.nc", parameters={})


def test_the_first_networks_named_their_order_parameters_otherwise(tmp_path):
    network = trained_network(parameters_of((2, 3)))
    dataset = results.load(save_network(network, tmp_path / "network.nc", parameters={}))
    names = {"order_parameter": "order_parameter_1", "order_parameter_3": "readout_order_parameter"}
    loaded = load_network(results.save(dataset.rename(names), tmp_path / "first.nc", parameters={}))
    for found, wanted in zip(loaded.order_parameters, network.order_parameters, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("lost", ["keys_1", "bias", "layers"])
def test_stored_network_without_a_part_of_it_is_named(tmp_path, lost):
    network = trained_network(initial(jax.random.key(2), (2, 2), 16, 8, 192, biases=True))
    path = save_network(network, tmp_path / "network.nc", parameters={})
    dataset = results.load(path)
    if lost in dataset.attrs:
        del dataset.attrs[lost]
    else:
        dataset = dataset.drop_vars(lost)
    results.save(dataset, path, parameters={})
    with pytest.raises(ValueError, match=rf"network\.nc: a damaged network .*{lost}.*Remove this file and train again"):
        load_network(path)
