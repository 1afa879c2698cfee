"""Networks with attention far from uniform, and what they do without some heads, run layer by layer."""

import jax
import jax.numpy as jnp
import numpy as np

import statmech_attention as sma
from attention_book.one_shot import path_contributions
from attention_book.one_shot.path_form import initial
from statmech_attention.layers import Chain

EXAMPLES, TOKENS, FEATURES, WIDTH = 40, 5, 12, 8
CHAIN = (2, sma.SkipHeads(2), sma.Linear(), sma.Outputs(3))


def network_of(heads):
    """A network with attention far from uniform, as `Weights` and as what is stored of it, and inputs and labels."""
    keys = jax.random.split(jax.random.key(sum(Chain.of(heads).heads)), 3)
    parameters = jax.tree.map(lambda array: 3.0 * array, initial(keys[0], heads, WIDTH, 4, FEATURES))
    parameters = jax.tree.map(lambda array: array.astype(jnp.float64), parameters)
    inputs = jax.random.normal(keys[1], (EXAMPLES * TOKENS * FEATURES,)).reshape(EXAMPLES, TOKENS, FEATURES)
    labels = jnp.where(jax.random.bernoulli(keys[2], 0.5, (EXAMPLES,)), 1.0, -1.0)
    return parameters, inputs, labels


def forward_with_heads_silenced(parameters, inputs, removed):
    """Layer by layer: the heads' values at zero, and every layer's 1/sqrt(H) turned into that of the heads left."""
    values, factor, number = [], 1.0, 0
    for layer in parameters.weights().values:
        layer = np.array(layer)
        count, left = len(layer), len(layer)
        for head in range(count):
            if number in removed:
                layer[head] = 0
                left -= 1
            number += 1
        factor *= np.sqrt(count / left)
        values.append(jnp.asarray(layer))
    weights = parameters.weights()._replace(values=tuple(values))
    attention = sma.attention_from_queries_and_keys(parameters.queries, parameters.keys)
    return factor * sma.forward(weights, inputs, attention, readout="mean")


def right_answers(parameters, inputs, labels, removed):
    outputs = np.asarray(forward_with_heads_silenced(parameters, inputs, removed))
    return (np.sign(outputs) == np.asarray(labels)).astype(float)


def contributions_of(parameters, inputs):
    attention = sma.attention_from_queries_and_keys(parameters.queries, parameters.keys)
    attentioned = sma.attentioned_inputs(inputs, attention, readout="mean")
    return path_contributions(parameters.weights(), attentioned)


def chain_network():
    """A network with a skip, a linear block and three outputs, its attention, inputs and labels of classes."""
    keys = jax.random.split(jax.random.key(9), 4)
    weights = sma.sample_weights(key=keys[0], layers=CHAIN, width=WIDTH, features=FEATURES)
    inputs = jax.random.normal(keys[1], (EXAMPLES * TOKENS * FEATURES,)).reshape(EXAMPLES, TOKENS, FEATURES)
    shape = EXAMPLES, 2, TOKENS, TOKENS
    logits = (jax.random.normal(key, (np.prod(shape),)).reshape(shape) for key in jax.random.split(keys[2]))
    matrices = [jax.nn.softmax(one, axis=2) for one in logits]
    labels = jnp.eye(3)[jax.random.randint(keys[3], (EXAMPLES,), 0, 3)]
    return weights, inputs, matrices, labels


def silenced(weights, inputs, matrices, removed):
    """Layer by layer: values at zero, and the values of the heads left of a layer times sqrt(H / H')."""
    values = []
    for place, block in enumerate(weights.values):
        heads = [head for head in range(2) if place == 2 or 2 * place + head not in removed]
        factor = np.sqrt(2 / max(len(heads), 1)) if place < 2 else 1.0
        mask = jnp.asarray([float(head in heads) for head in range(len(block))])
        values.append(factor * mask[:, None, None] * block)
    return sma.forward(weights._replace(values=tuple(values)), inputs, matrices, layers=CHAIN)
