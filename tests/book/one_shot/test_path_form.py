"""The network in path form: outputs and gradients against the network layer by layer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from attention_book.one_shot.path_form import initial, outputs, trained_network
from attention_book.one_shot.sequences import normalised_patches
from statmech_attention.layers import Chain, Heads, Linear, SkipHeads

from .conftest import SKIPS, parameters_of, relative

HEADS = [(3, 1, 2), SKIPS, (2, SkipHeads(3), Linear()), (Heads(2, values=3), SkipHeads(1, values=5))]


def both_outputs(task, heads, examples=9):
    """The network in path form on compact tokens and layer by layer on full ones, as functions of the parameters."""
    sample = task.sample(jax.random.key(4), examples, classes=range(24))
    sequences = sample.sequences
    patches = normalised_patches(task.compact, sequences.drawings, jnp.float32)

    def by_paths(parameters):
        return outputs(parameters, task.compact, patches, sequences.first, Chain.of(heads))

    def by_layers(parameters):
        # In double precision: what is compared is the error of the path form alone.
        inputs, parameters = sample.inputs, jax.tree.map(lambda array: array.astype(jnp.float64), parameters)
        sides = ([layer for layer in side if len(layer)] for side in (parameters.queries, parameters.keys))
        attention = sma.attention_from_queries_and_keys(*sides)
        return sma.forward(parameters.weights(), inputs, attention, readout="mean", layers=heads)

    return by_paths, by_layers, sample


@pytest.mark.parametrize("heads", HEADS)
def test_outputs_and_gradients_in_path_form_are_those_layer_by_layer(task, heads):
    by_paths, by_layers, sample = both_outputs(task, heads)
    parameters = parameters_of(heads)

    def both(function):
        def loss(parameters):
            found = function(parameters)
            return jnp.mean((found - sample.labels.astype(found.dtype)) ** 2), found

        return jax.jit(jax.grad(loss, has_aux=True))(parameters)

    (found, values), (wanted, others) = both(by_paths), both(by_layers)
    assert values.dtype == jnp.float32 and relative(values, others) < 1e-5
    for name, one, other in zip(parameters._fields, found, wanted, strict=True):
        for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            assert left.dtype == jnp.float32 and left.shape == right.shape
            assert not left.size or relative(left, right) < 1e-5, name


def test_initial_parameters_have_the_prior_variance_of_a_third():
    parameters = initial(jax.random.key(0), (2,), 200, 50, 192)
    for array, inputs in ((parameters.queries[0], 192), (parameters.values[0], 200), (parameters.projection, 192)):
        assert 0.99 < float(jnp.max(jnp.abs(array))) * np.sqrt(inputs) <= 1
    # Uniform in plus or minus one: the prior variance that training starts from is a third.
    assert float(jnp.var(parameters.weights().values[0])) == pytest.approx(1 / 3, rel=0.02)


@pytest.mark.parametrize("heads", [(2, 3), SKIPS])
def test_biases_in_path_form_are_those_of_a_network_with_one_more_feature(task, heads):
    """The projection's bias is a weight on a feature that is 1 in every token and that queries and keys do not see."""
    parameters = jax.tree.map(lambda array: 3 * array, initial(jax.random.key(1), heads, 20, 8, 192, biases=True))
    plain = initial(jax.random.key(1), heads, 20, 8, 192)
    assert relative(parameters.projection, 3 * plain.projection) == 0
    by_paths, _, sample = both_outputs(task, heads)
    found = jax.jit(by_paths)(parameters)
    blind = [
        [jnp.pad(layer, ((0, 0), (0, 0), (0, 1))) for layer in side] for side in (parameters.queries, parameters.keys)
    ]
    wider = parameters._replace(projection=jnp.column_stack([parameters.projection, parameters.projection_bias]))
    inputs = jnp.concatenate([sample.inputs, jnp.ones((*sample.inputs.shape[:2], 1))], axis=2)
    attention = sma.attention_from_queries_and_keys(*blind)
    wanted = sma.forward(wider.weights(), inputs, attention, readout="mean", layers=heads) + parameters.readout_bias
    assert relative(found, wanted) < 1e-5
    network = trained_network(parameters, layers=heads)
    seen = sma.attentioned_inputs(sample.inputs, network.attention, readout="mean", layers=heads)
    assert relative(network.outputs(seen), wanted) < 1e-5
