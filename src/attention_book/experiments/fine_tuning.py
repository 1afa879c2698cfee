"""An encoder trained further on labelled sentences, all its weights, with a linear readout of its first token."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float

from attention_book.experiments.encoded_tasks import Words
from attention_book.experiments.linear_probes import Probe
from attention_book.experiments.masked_heads import FIRST, Classifier
from attention_book.tasks._encoder_layers import embedded, through_layers

_PADDED = 16  # tokens, as in `masked_heads`; a program of a step takes longer to compile
_SPREAD = 0.02  # of the readout's weights at the start, as in BERT


class FineTuned(NamedTuple):
    """A fine-tuned encoder.

    Attributes:
        classifier: encoder and readout.
        losses: mean log loss of the training sentences as they were met, by epoch.
    """

    classifier: Classifier
    losses: Float[np.ndarray, " epochs"]


def fine_tuned(words: Words, *, seed: int, epochs: int, rate: float, batch: int) -> FineTuned:
    """Adam on the mean log loss; its rate rises over a tenth of the steps and falls to 0, both linearly. No dropout.

    Args:
        words: the encoder, and the sentences to learn from.
        seed: of the readout's first weights and of the order of sentences.
        epochs: how often every sentence is met; those that fill no batch wait for the next epoch.
        rate: the largest learning rate.
        batch: sentences of a step.

    Returns:
        `FineTuned`.
    """
    random, count = np.random.default_rng(seed), len(words.labels)
    kind = words.encoder.words.dtype
    readout = jnp.asarray(_SPREAD * random.normal(size=words.encoder.words.shape[1]), kind)
    parameters = words.encoder, readout, jnp.zeros((), kind)
    steps = epochs * (count // batch)
    rising = max(1, steps // 10)
    parts = optax.linear_schedule(0.0, rate, rising), optax.linear_schedule(rate, 0.0, steps - rising)
    optimiser = optax.adam(optax.join_schedules(parts, [rising]))
    internal, losses = optimiser.init(parameters), []
    step = jax.jit(partial(_step, optimiser), donate_argnums=1)
    for _ in range(epochs):
        order, met = random.permutation(count), []
        for start in range(0, count - batch + 1, batch):
            rows = order[start : start + batch]
            part = words.tokens[rows].trimmed(_PADDED)
            given = jnp.asarray(part.ids), jnp.asarray(part.mask), jnp.asarray(words.labels[rows], kind)
            parameters, internal, value = step(parameters, internal, *given)
            met.append(float(value))
        losses.append(np.mean(met))
    encoder, readout, intercept = parameters
    probe = Probe(np.asarray(readout, float), float(intercept), 0.0)
    return FineTuned(Classifier(encoder, FIRST, probe), np.array(losses))


def _step(optimiser, parameters, internal, ids, mask, labels):
    def loss(parameters):
        encoder, readout, intercept = parameters
        hidden, _ = through_layers(encoder, embedded(encoder, ids), mask)
        return jnp.mean(jnp.logaddexp(0.0, -labels * (hidden[-1, :, 0] @ readout + intercept)))

    value, slopes = jax.value_and_grad(loss)(parameters)
    updates, internal = optimiser.update(slopes, internal)
    return optax.apply_updates(parameters, updates), internal, value
