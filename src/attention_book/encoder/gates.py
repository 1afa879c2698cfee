"""Linear classifiers on an encoder's tokens: with heads masked, and with all weights trained further."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int

from attention_book.encoder.encoding import encode
from attention_book.encoder.inputs import Words
from attention_book.encoder.layers import Encoder, embedded, mean_token, through_layers
from attention_book.encoder.probes import Probe
from attention_book.encoder.tokens import Tokens
from statmech_attention.pruning import removal_order

POOLED, FIRST = "pooled", "first"  # what is read out: the mean token, of length 1, or the last layer's first token
_BATCH = 50
_PADDED = 4  # sentences are padded to a multiple of so many tokens
_PADDED_STEPS = 16  # the same in training; a program of a step takes longer to compile
_SPREAD = 0.02  # of the readout's weights before training, as in BERT


class Classifier(NamedTuple):
    """An encoder with a linear function behind it."""

    encoder: Encoder
    readout: str  # `POOLED` or `FIRST`
    probe: Probe  # its sign is the class, its size the log odds

    def outputs(self, tokens: Tokens, gates) -> Float[np.ndarray, "networks examples"]:
        """The probe's outputs with factors on the heads, see `features`."""
        return self.probe(features(self.encoder, tokens, self.readout, gates))


def features(encoder: Encoder, tokens: Tokens, readout: str, gates) -> Float[np.ndarray, "networks examples width"]:
    """Readouts of the encoder with gates on its heads, `(networks, layers, heads)`; 0 masks a head."""
    gates = np.asarray(gates, encoder.words.dtype)
    changed = np.any(gates != 1, axis=2)
    lowest = np.where(changed.any(axis=1), changed.argmax(axis=1), encoder.depth)
    readouts = np.zeros((len(gates), len(tokens), encoder.words.shape[1]))
    for places, part in alike(tokens):
        whole = encode(encoder, part, batch=len(part))
        entering = jnp.moveaxis(jnp.concatenate([whole.embeddings[:, None], whole.hidden], axis=1), 1, 0)
        mask = jnp.asarray(part.mask)
        for network, (own, first) in enumerate(zip(gates, lowest, strict=True)):
            readouts[network, places] = _read(encoder, entering, mask, own, first, readout=readout)[: len(places)]
    return readouts


def taylor_in_encoder(classifier: Classifier, tokens: Tokens, labels) -> Float[np.ndarray, " heads"]:
    r"""Slopes of the log loss in the heads' gates: $\frac1P \sum_\mu |\partial \ell_\mu / \partial g|$ at $g = 1$.

    Source: Michel et al. (2019), section 4.1.
    """
    encoder = classifier.encoder
    sums = np.zeros((encoder.depth, encoder.heads))
    kind = encoder.words.dtype
    weights, intercept = (jnp.asarray(array, kind) for array in classifier.probe[:2])
    for places, part in alike(tokens):
        own = jnp.asarray(np.resize(labels[places], len(part)), kind)
        ids, mask = jnp.asarray(part.ids), jnp.asarray(part.mask)
        slopes = _slopes(encoder, weights, intercept, ids, mask, own, readout=classifier.readout)
        sums += np.abs(np.asarray(slopes, float)[: len(places)]).sum(axis=0)
    return sums.ravel() / len(tokens)


def gates_of(scores, kept: int, encoder: Encoder) -> Float[np.ndarray, "layers heads"]:
    """Gates that keep the heads of the highest scores."""
    order = np.append(removal_order(scores, layers=(len(scores),)), np.argmax(scores))
    gates = np.zeros(len(scores))
    gates[order[len(order) - kept :]] = 1
    return gates.reshape(encoder.depth, encoder.heads)


def lowest_layers(encoder: Encoder, count: int) -> Encoder:
    """The encoder without all layers above the first ones."""
    return replace(encoder, layers=jax.tree.map(lambda leaf: leaf[:count], encoder.layers))


def alike(tokens: Tokens) -> Iterator[tuple[Int[np.ndarray, " places"], Tokens]]:
    """Batches of sentences of like length, with their places; the last one repeats sentences."""
    rows = np.argsort(tokens.lengths, kind="stable")
    for start in range(0, len(rows), _BATCH):
        places = rows[start : start + _BATCH]
        yield places, tokens[np.resize(places, _BATCH)].trimmed(_PADDED)


def read_out(hidden, mask, readout: str):
    """Readout of the last layer's output, `(examples, tokens, width)`."""
    return mean_token(hidden, mask) if readout == POOLED else hidden[:, 0]


@partial(jax.jit, static_argnames="readout")
def _read(encoder, entering, mask, gates, first, *, readout):
    """Readout, computed from the layer `first` on; `entering` has all layers' inputs, and the output."""

    def layer(number, hidden):
        alone = replace(encoder, layers=jax.tree.map(lambda weights: weights[number][None], encoder.layers))
        return through_layers(alone, hidden, mask, head_gates=gates[number][None])[0][0]

    return read_out(jax.lax.fori_loop(first, encoder.depth, layer, entering[first]), mask, readout)


@partial(jax.jit, static_argnames="readout")
def _slopes(encoder, weights, intercept, ids, mask, labels, *, readout):
    def loss(gates, ids, mask, label):
        hidden, *_ = through_layers(encoder, embedded(encoder, ids[None]), mask[None], head_gates=gates)
        output = read_out(hidden[-1], mask[None], readout)[0] @ weights + intercept
        return jnp.logaddexp(0.0, -label * output)

    whole = jnp.ones((encoder.depth, encoder.heads), encoder.words.dtype)
    return jax.vmap(jax.grad(loss), (None, 0, 0, 0))(whole, ids, mask, labels)


class FineTuned(NamedTuple):
    """A fine-tuned encoder."""

    classifier: Classifier  # encoder and readout
    losses: Float[np.ndarray, " epochs"]  # mean log loss of the training sentences as they were met, by epoch


def fine_tuned(words: Words, *, seed: int, epochs: int, rate: float, batch: int, gates=None) -> FineTuned:
    """Train an encoder further by Adam on the mean log loss, without dropout; heads of gate 0 stay out."""
    random, count = np.random.default_rng(seed), len(words.labels)
    kind = words.encoder.words.dtype
    gates = gates if gates is None else jnp.asarray(gates, kind)
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
            part = words.tokens[rows].trimmed(_PADDED_STEPS)
            given = jnp.asarray(part.ids), jnp.asarray(part.mask), jnp.asarray(words.labels[rows], kind)
            parameters, internal, value = step(parameters, internal, *given, gates)
            met.append(float(value))
        losses.append(np.mean(met))
    encoder, readout, intercept = parameters
    probe = Probe(np.asarray(readout, float), float(intercept), 0.0)
    return FineTuned(Classifier(encoder, FIRST, probe), np.array(losses))


def _step(optimiser, parameters, internal, ids, mask, labels, gates):
    def loss(parameters):
        encoder, readout, intercept = parameters
        hidden, *_ = through_layers(encoder, embedded(encoder, ids), mask, head_gates=gates)
        return jnp.mean(jnp.logaddexp(0.0, -labels * (hidden[-1, :, 0] @ readout + intercept)))

    value, slopes = jax.value_and_grad(loss)(parameters)
    updates, internal = optimiser.update(slopes, internal)
    return optax.apply_updates(parameters, updates), internal, value
