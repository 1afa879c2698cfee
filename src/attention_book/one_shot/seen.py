"""One-shot sequences as the attention of a trained network presents them."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float

from attention_book.one_shot.network import TrainedNetwork
from attention_book.one_shot.removal import predictor_vectors
from attention_book.one_shot.suites import OneShotSuite
from attention_book.one_shot.task import OneShotSample
from attention_book.theory.measures import centred_alignment, principal_overlaps
from statmech_attention import AttentionedInputs, Problem, accuracy, attentioned_inputs, kernel
from statmech_attention.model import SoftmaxAttention

_BATCH = 250  # sequences at a time: attention matrices exist for one batch at once
_PRUNED = 500


class Seen(NamedTuple):
    """Sequences as a network's attention presents them."""

    inputs: AttentionedInputs
    labels: Float[Array, " examples"]


class Draw(NamedTuple):
    """Sequences to train and to test on."""

    train: Seen
    validation: Seen  # of the validation classes
    tests: Mapping[str, Seen]  # by test set


def draw_of(
    suite: OneShotSuite,
    network: TrainedNetwork,
    *,
    seed: int,
    number: int,
    examples: int,
    tests: int,
    sets: int | None = None,
) -> Draw:
    """Draw sequences, as many for validation as of each of the first test sets, and pass them through attention."""
    key = jax.random.fold_in(jax.random.key(seed), number)
    train_key, validation_key, *test_keys = jax.random.split(key, 2 + len(suite.test_sets))
    drawn = [suite.train(train_key, examples), suite.task.sample(validation_key, tests, suite.split.validation)]
    names = list(suite.test_sets)[:sets]
    drawn += [suite.test(test_key, tests, name) for test_key, name in zip(test_keys, names, strict=False)]
    train, validation, *seen = (_seen(sample, network) for sample in drawn)
    return Draw(train, validation, dict(zip(names, seen, strict=True)))


def pruning_samples(suite: OneShotSuite, name: str | None, *, seed: int, examples: int) -> Iterator[OneShotSample]:
    """Sequences of a test set, in batches; of the validation classes if the name is None."""
    number = 0 if name is None else 1 + list(suite.test_sets).index(name)
    key = jax.random.fold_in(jax.random.key(seed), number)
    for batch, start in enumerate(range(0, examples, _PRUNED)):
        count, batch_key = min(_PRUNED, examples - start), jax.random.fold_in(key, batch)
        if name is None:
            yield suite.task.sample(batch_key, count, suite.split.validation)
        else:
            yield suite.test(batch_key, count, name)


def seen_by(network: TrainedNetwork, batches: Iterable) -> AttentionedInputs:
    """Attentioned inputs (7) of many sequences."""
    parts = [_through(network.attention, inputs, network.layers).values for inputs in batches]
    return AttentionedInputs(jnp.concatenate(parts), network.layers)


def accuracies(draw: Draw, order_parameter, temperature: float) -> list[float]:
    """Accuracy of the mean predictor (9) on the validation classes, then on every test set."""
    problem = Problem(draw.train.inputs, draw.train.labels, temperature=temperature)
    vectors = predictor_vectors(problem, order_parameter)
    every = (draw.validation, *draw.tests.values())
    return [float(accuracy(jnp.einsum("epi,pi->e", seen.inputs.values, vectors), seen.labels)) for seen in every]


def aligned(draw: Draw, order_parameter) -> xr.Dataset:
    """Overlaps of the training kernel's principal components with the labels, the largest first."""
    gram = kernel(draw.train.inputs, draw.train.inputs, order_parameter)
    eigenvalues, overlaps = principal_overlaps(gram, draw.train.labels)
    return xr.Dataset(
        {
            "eigenvalue": ("component", np.asarray(eigenvalues, np.float32)),
            "overlap": ("component", np.asarray(overlaps, np.float32)),
            "alignment": float(centred_alignment(gram, draw.train.labels)),
        }
    )


def _seen(sample: OneShotSample, network: TrainedNetwork) -> Seen:
    batches = (sample.inputs[start : start + _BATCH] for start in range(0, len(sample.labels), _BATCH))
    return Seen(seen_by(network, batches), sample.labels)


@partial(jax.jit, static_argnames="layers")
def _through(attention: SoftmaxAttention | tuple[()], inputs, layers) -> AttentionedInputs:
    return attentioned_inputs(inputs, attention, readout="mean", layers=layers)
