r"""Draws of all weights from their posterior (8), exact, without paths and without tuning.

The output is linear in the weights of one layer, given all others: with the tokens $x_{l-1}$ below and the
derivative $\delta_l = \partial f / \partial x_l$ above, the values enter by
$\sum_{ht} \delta_{lt}^\top V^h (x_{l-1} \Omega^h)_t / \sqrt{N H}$. So their posterior is Gaussian. A sweep draws
one layer after the other from the readout down, a Gibbs sampler.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from statmech_attention.theory import Prediction


class Network(NamedTuple):
    """Layers of heads, with a skip beside every one or none, and a readout of the last token."""

    attention: Sequence[Float[np.ndarray, "examples heads tokens tokens"]]  # key before query
    skips: bool
    width: int
    variance: float  # of the projection; all others are 1


class Sampling(NamedTuple):
    """Markov chains side by side, and their random numbers."""

    rng: np.random.Generator
    chains: int
    warmup: int
    draws: int


def output_draws(
    network: Network,
    inputs: Float[np.ndarray, "examples tokens features"],
    labels: Float[np.ndarray, " training"],
    temperature: float,
    sampling: Sampling,
) -> Prediction:
    """Mean and variance of every output given drawn values and readout, `(chains, draws, examples)`.

    The projection is integrated out. The first examples are those that have labels.
    """
    rng, chains, width = sampling.rng, sampling.chains, network.width
    tokens = inputs * np.sqrt(network.variance / inputs.shape[2])
    projection = rng.normal(size=(chains, inputs.shape[2], width))
    values = [rng.normal(size=(chains, layer.shape[1] * width, width)) for layer in network.attention]
    seen: list[Prediction] = []
    for sweep in range(sampling.warmup + sampling.draws):
        hidden, attended = _up(network, tokens @ projection[:, None], values)
        slope = _down(network, hidden, attended, values, labels, temperature, rng)
        features = (tokens.mT @ slope).reshape(chains, len(inputs), -1)
        projection = _drawn(features[:, : len(labels)], labels, temperature, rng).reshape(projection.shape)
        if sweep >= sampling.warmup:
            seen.append(_regression(features, labels, temperature))
    return Prediction(*(np.stack(each, axis=1) for each in zip(*seen, strict=True)))


def _up(network: Network, hidden, values):
    """Tokens before every layer and after the last, `(chains, examples, tokens, width)`; and what heads read."""
    every, attended = [hidden], []
    for attention, value in zip(network.attention, values, strict=True):
        examples, heads, tokens, _ = attention.shape
        rows = attention.mT.reshape(examples, heads * tokens, tokens) @ hidden
        rows = rows.reshape(*rows.shape[:2], heads, tokens, -1).swapaxes(2, 3)
        attended.append(rows.reshape(*rows.shape[:3], -1) / np.sqrt(heads * network.width))
        hidden = attended[-1] @ value[:, None] + (hidden if network.skips else 0.0)
        every.append(hidden)
    return every, attended


def _down(network: Network, hidden, attended, values, labels, temperature, rng):
    """Draw the readout, then the values from above, in place; the derivative by the tokens below all layers."""
    known, root = len(labels), np.sqrt(network.width)
    slope = np.zeros_like(hidden[-1])
    slope[:, :, -1] = _drawn(hidden[-1][:, :known, -1] / root, labels, temperature, rng)[:, None] / root
    for layer in reversed(range(len(values))):
        attention, seen = network.attention[layer], attended[layer]
        design = (seen[:, :known].mT @ slope[:, :known]).reshape(len(seen), known, -1)
        beside = np.sum(slope * hidden[layer], axis=(2, 3))[:, :known] if network.skips else 0.0
        values[layer] = _drawn(design, labels - beside, temperature, rng).reshape(values[layer].shape)
        examples, heads, tokens, _ = attention.shape
        back = slope @ values[layer].mT[:, None] / np.sqrt(heads * network.width)
        back = back.reshape(*back.shape[:3], heads, -1).swapaxes(2, 3).reshape(*back.shape[:2], heads * tokens, -1)
        back = attention.swapaxes(1, 2).reshape(examples, tokens, -1) @ back
        slope = back + slope if network.skips else back
    return slope


def _drawn(design, wanted, temperature, rng):
    """Standard normals given that `wanted` is `design` times them plus noise: a draw of the prior, corrected."""
    prior = rng.normal(size=(len(design), design.shape[2]))
    noise = np.sqrt(temperature) * rng.normal(size=design.shape[:2])
    missed = wanted - (design @ prior[..., None])[..., 0] - noise
    gram = design @ design.mT + temperature * np.eye(design.shape[1])
    return prior + (design.mT @ np.linalg.solve(gram, missed[..., None]))[..., 0]


def _regression(features, labels, temperature) -> Prediction:
    """Mean (9) and variance (30) of the outputs."""
    known = len(labels)
    kernel = features @ features[:, :known].mT
    gram = kernel[:, :known] + temperature * np.eye(known)
    solved = np.linalg.solve(gram, kernel.mT).mT
    return Prediction(solved @ labels, np.sum(features**2, axis=-1) - np.sum(solved * kernel, axis=-1))
