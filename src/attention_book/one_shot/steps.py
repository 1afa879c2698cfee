"""Many steps of training in one compiled function, and validation in another."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float32, Int32

from attention_book.one_shot.path_form import Parameters, outputs
from attention_book.one_shot.sequences import CompactTokens, Sequences, draw_sequences, normalised_patches
from statmech_attention.layers.chains import Chain
from statmech_attention.theory.kernels.regression import hit

_VALIDATION_BATCH = 256


class State(NamedTuple):
    """Variables of the training."""

    parameters: Parameters
    optimiser: Any
    sums: Float32[Array, "3"]  # losses, right answers and examples since the last validation


class Data(NamedTuple):
    """Source of the training sequences."""

    compact: CompactTokens
    starts: Int32[Array, " boundaries"]  # first drawing of each class
    pairs: Int32[Array, "pairs 2"]  # of training classes


def adam(learning_rate, weight_decay) -> optax.GradientTransformation:
    """Return Adam on the gradient plus `weight_decay` times the parameters."""
    return optax.chain(optax.add_decayed_weights(weight_decay), optax.adam(learning_rate))


@partial(jax.jit, static_argnames=("layers", "batch"), donate_argnames="state")
def advance(
    state: State, data: Data, order, draw, step, place, count, *, layers: Chain, batch: int, rates: tuple
) -> State:
    """Take `count` steps, with the same result for any division of steps among calls.

    `step` is the first step's number in the run, `place` its number in the epoch; `state` is used
    up: its memory holds the result.
    """

    def body(number, state):
        chosen = jax.lax.dynamic_slice(order, ((place + number) * batch,), (batch,))
        # The -1 that fill up the last batch of an epoch do not count.
        counts = (chosen >= 0).astype(jnp.float32)
        pairs = data.pairs[jnp.maximum(chosen, 0)]
        sequences = draw_sequences(jax.random.fold_in(draw, step + number), pairs, pairs, data.starts)
        patches = normalised_patches(data.compact, sequences.drawings, jnp.float32)

        def loss(parameters):
            predicted = outputs(parameters, data.compact, patches, sequences.first, layers)
            squares = jnp.sum(counts * (predicted - sequences.labels) ** 2)
            hits = jnp.sum(counts * hit(predicted, sequences.labels))
            return squares / jnp.sum(counts), jnp.stack([squares, hits, jnp.sum(counts)])

        gradient, sums = jax.grad(loss, has_aux=True)(state.parameters)
        updates, internal = adam(*rates).update(gradient, state.optimiser, state.parameters)
        return State(optax.apply_updates(state.parameters, updates), internal, state.sums + sums)

    return jax.lax.fori_loop(0, count, body, state)


@partial(jax.jit, static_argnames=("pairs", "padded"))
def shuffled(key, pairs: int, padded: int) -> Int32[Array, " padded"]:
    """Numbers of all pairs in random order, filled up with -1."""
    order = jax.random.permutation(key, jnp.arange(pairs, dtype=jnp.int32))
    return jnp.pad(order, (0, padded - pairs), constant_values=-1)


@partial(jax.jit, static_argnames="layers")
def _validate_batches(
    parameters: Parameters, compact: CompactTokens, sequences: Sequences, layers: Chain
) -> Float32[Array, "2"]:
    def batch(part):
        patches = normalised_patches(compact, part.drawings, jnp.float32)
        predicted = outputs(parameters, compact, patches, part.first, layers)
        # The label 0 marks examples that fill up the last batch.
        counts = part.labels**2
        squares = jnp.sum(counts * (predicted - part.labels) ** 2)
        return jnp.stack([squares, jnp.sum(counts * hit(predicted, part.labels))])

    return jnp.sum(jax.lax.map(batch, sequences), axis=0)


def validate(
    parameters: Parameters, compact: CompactTokens, sequences: Sequences, layers: Chain
) -> tuple[float, float]:
    """Mean loss and accuracy on given sequences."""
    count = len(sequences.labels)
    batch = min(_VALIDATION_BATCH, count)
    padding = -count % batch

    def batches(array):
        padded = jnp.pad(array, ((0, padding),) + ((0, 0),) * (array.ndim - 1))
        return padded.reshape(-1, batch, *array.shape[1:])

    sums = np.asarray(_validate_batches(parameters, compact, jax.tree.map(batches, sequences), layers), np.float64)
    return float(sums[0] / count), float(sums[1] / count)
