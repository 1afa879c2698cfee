r"""Heads masked in the encoder itself: what a linear classifier on its tokens loses without them, nothing learned again.

A masked head's output is multiplied with 0. Layers below the lowest masked one are computed once, and sentences of like length
together, so that the 72 heads of all-MiniLM-L6-v2 cost as much as 42 passes.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from attention_book.experiments.linear_probes import Probe
from attention_book.tasks import Encoder, Tokens, encode
from attention_book.tasks._encoder_layers import embedded, mean_token, through_layers

POOLED, FIRST = "pooled", "first"  # what is read out: the mean token, of length 1, or the last layer's first token
_BATCH = 50
_PADDED = 4  # sentences are padded to a multiple of so many tokens


class Classifier(NamedTuple):
    """An encoder with a linear function behind it.

    Attributes:
        encoder: its weights.
        readout: `POOLED` or `FIRST`.
        probe: of what is read out; its sign is the class, its size the log odds.
    """

    encoder: Encoder
    readout: str
    probe: Probe

    def outputs(self, tokens: Tokens, gates) -> Float[np.ndarray, "networks examples"]:
        """The probe's outputs with factors on the heads, see `features`."""
        return self.probe(features(self.encoder, tokens, self.readout, gates))


def features(encoder: Encoder, tokens: Tokens, readout: str, gates) -> Float[np.ndarray, "networks examples width"]:
    """What is read out of the encoder, with factors on its heads.

    Args:
        encoder: its weights.
        tokens: sentences.
        readout: `POOLED` or `FIRST`.
        gates: `(networks, layers, heads)`, factors of the heads' outputs: 0 masks a head, 1 leaves it.

    Returns:
        `(networks, examples, width)`.
    """
    gates = np.asarray(gates, encoder.words.dtype)
    changed = np.any(gates != 1, axis=2)
    lowest = np.where(changed.any(axis=1), changed.argmax(axis=1), encoder.depth)
    found = np.zeros((len(gates), len(tokens), encoder.words.shape[1]))
    for places, part in alike(tokens):
        whole = encode(encoder, part, batch=len(part))
        entering = jnp.moveaxis(jnp.concatenate([whole.embeddings[:, None], whole.hidden], axis=1), 1, 0)
        mask = jnp.asarray(part.mask)
        for network, (own, first) in enumerate(zip(gates, lowest, strict=True)):
            found[network, places] = _read(encoder, entering, mask, own, first, readout=readout)[: len(places)]
    return found


def taylor_in_encoder(classifier: Classifier, tokens: Tokens, labels) -> Float[np.ndarray, " heads"]:
    r"""$\frac1P \sum_\mu |\partial \ell_\mu / \partial g|$ with $\ell = \ln(1 + e^{-y f})$ and a gate $g$ on a head's output, at 1.

    Args:
        classifier: encoder and probe.
        tokens: sentences.
        labels: +1 or -1.

    Returns:
        `(all heads,)`.

    Source: Michel et al. (2019), section 4.1.
    """
    encoder = classifier.encoder
    sums = np.zeros((encoder.depth, encoder.heads))
    kind = encoder.words.dtype
    weights, intercept = (jnp.asarray(one, kind) for one in classifier.probe[:2])
    for places, part in alike(tokens):
        own = jnp.asarray(np.resize(labels[places], len(part)), kind)
        ids, mask = jnp.asarray(part.ids), jnp.asarray(part.mask)
        slopes = _slopes(encoder, weights, intercept, ids, mask, own, readout=classifier.readout)
        sums += np.abs(np.asarray(slopes, float)[: len(places)]).sum(axis=0)
    return sums.ravel() / len(tokens)


def log_loss(outputs, labels) -> Float[np.ndarray, "*networks examples"]:
    r"""$\ln(1 + e^{-y f})$ of every sentence."""
    return np.logaddexp(0, -labels * outputs)


def alike(tokens: Tokens) -> Iterator[tuple[Int[np.ndarray, " places"], Tokens]]:
    """Batches of sentences of like length, with their places; the last is filled up with sentences of its own."""
    rows = np.argsort(tokens.lengths, kind="stable")
    for start in range(0, len(rows), _BATCH):
        places = rows[start : start + _BATCH]
        yield places, tokens[np.resize(places, _BATCH)].trimmed(_PADDED)


def read_out(hidden, mask, readout: str):
    """Of the last layer's output, `(examples, tokens, width)`."""
    return mean_token(hidden, mask) if readout == POOLED else hidden[:, 0]


@partial(jax.jit, static_argnames="readout")
def _read(encoder, entering, mask, gates, first, *, readout):
    """From the layer `first` on; `entering` has what enters every layer, and what leaves the last one."""

    def layer(number, hidden):
        alone = replace(encoder, layers=jax.tree.map(lambda weights: weights[number][None], encoder.layers))
        return through_layers(alone, hidden, mask, head_gates=gates[number][None])[0][0]

    return read_out(jax.lax.fori_loop(first, encoder.depth, layer, entering[first]), mask, readout)


@partial(jax.jit, static_argnames="readout")
def _slopes(encoder, weights, intercept, ids, mask, labels, *, readout):
    def loss(gates, ids, mask, label):
        hidden, _ = through_layers(encoder, embedded(encoder, ids[None]), mask[None], head_gates=gates)
        output = read_out(hidden[-1], mask[None], readout)[0] @ weights + intercept
        return jnp.logaddexp(0.0, -label * output)

    whole = jnp.ones((encoder.depth, encoder.heads), encoder.words.dtype)
    return jax.vmap(jax.grad(loss), (None, 0, 0, 0))(whole, ids, mask, labels)
