"""Smaller networks, against the layer-by-layer network with the heads' values at zero."""

import jax
import jax.numpy as jnp
import numpy as np

import statmech_attention as sma
from attention_book.one_shot import load_network, masked_outputs, path_contributions, save_network, trained_network
from attention_book.one_shot.path_form import initial

from .networks import forward_with_heads_silenced, network_of

HEADS, REMOVED, KEPT = (3, 1, 2), [1, 5], [0, 2, 3, 4]


def test_smaller_network_equals_the_masked_one():
    parameters, inputs, _ = network_of(HEADS)
    weights = parameters.weights()
    wanted = forward_with_heads_silenced(parameters, inputs, REMOVED)

    def check(found):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)

    smaller = sma.keep_heads(weights, KEPT)
    assert [len(layer) for layer in smaller.values] == [2, 1, 1]
    attention = sma.attention_from_queries_and_keys(parameters.queries, parameters.keys)
    check(sma.forward(smaller, inputs, sma.keep_heads(attention, KEPT), readout="mean"))
    matrices = attention(inputs)
    check(sma.forward(smaller, inputs, sma.keep_heads(matrices, KEPT), readout="mean"))
    check(sma.forward(smaller, inputs, sma.keep_heads(list(matrices), KEPT), readout="mean"))
    products = tuple(
        jnp.einsum("hgi,hgj->hij", keys, queries) / np.sqrt(queries.shape[1])
        for keys, queries in zip(parameters.keys, parameters.queries, strict=True)
    )
    check(sma.forward(smaller, inputs, sma.keep_heads(sma.attention_from_products(products), KEPT), readout="mean"))

    attentioned = sma.attentioned_inputs(inputs, attention, readout="mean")
    check(sma.model.forward_paths(smaller, sma.keep_heads(attentioned, KEPT)))
    kept = np.ones((1, 6), bool)
    kept[0, REMOVED] = False
    check(masked_outputs(path_contributions(weights, attentioned), kept, layers=HEADS)[0])


def test_smaller_trained_network_equals_the_masked_one_and_can_be_stored(tmp_path):
    parameters, inputs, _ = network_of(HEADS)
    network = trained_network(parameters)
    wanted = forward_with_heads_silenced(parameters, inputs, REMOVED)
    smaller = load_network(save_network(sma.keep_heads(network, KEPT), tmp_path / "smaller.nc", parameters={}))
    assert smaller.vectors.nbytes <= network.vectors.nbytes and sum(smaller.layers) == 4
    attentioned = sma.attentioned_inputs(inputs, smaller.attention, readout="mean")
    np.testing.assert_allclose(smaller.outputs(attentioned), wanted, rtol=1e-10, atol=1e-12)
    # What else is stored is that of the weights left.
    left = sma.keep_heads(parameters.weights(), KEPT)
    for found, overlap in zip(smaller.order_parameters, sma.model.weights_order_parameters(left), strict=True):
        np.testing.assert_allclose(found, overlap, rtol=1e-10, atol=1e-12)
    for norms, values in zip(smaller.value_norms, left.values, strict=True):
        np.testing.assert_allclose(norms, np.linalg.norm(values, axis=(1, 2)))
    contributions = path_contributions(smaller, attentioned)
    np.testing.assert_allclose(contributions.sum(axis=1), wanted, rtol=1e-10, atol=1e-12)


def test_biases_stay_and_offsets_go_with_their_paths():
    parameters = jax.tree.map(lambda array: 3.0 * array, initial(jax.random.key(4), (2, 3), 8, 4, 12, biases=True))
    network = trained_network(parameters)
    inputs = jax.random.normal(jax.random.key(5), (30, 5, 12))
    seen = sma.attentioned_inputs(inputs, network.attention, readout="mean")
    contributions = path_contributions(network, seen)
    np.testing.assert_allclose(contributions.sum(axis=1) + network.bias, network.outputs(seen), atol=1e-6)
    smaller = sma.keep_heads(network, ((0,), (0, 2)))
    kept = np.array([[True, False, True, False, True]])
    wanted = smaller.outputs(sma.attentioned_inputs(inputs, smaller.attention, readout="mean"))
    masked = masked_outputs(contributions, kept, layers=(2, 3), bias=network.bias)[0]
    np.testing.assert_allclose(masked, wanted, atol=1e-6)
    assert abs(network.bias) > 0.01 and np.ptp(network.offsets) > 0.01
