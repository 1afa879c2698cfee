"""Random chains of layers, for tests that should hold of every one of them."""

import os
import random
from typing import NamedTuple

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from layers import brute_force

import statmech_attention as sma

EXAMPLES, TOKENS, FEATURES, TEMPERATURE = 5, 4, 3, 0.3
LAYERS = [("heads", 1), ("heads", 2), ("heads", 3), ("linear", 1), ("skip", 1), ("skip", 2)]
LAYERS += [("narrow heads", 1), ("narrow heads", 2), ("narrow skip", 1)]


class Chain(NamedTuple):
    """Layers as `brute_force` has them, the number of outputs or None, and numbers of which no two are alike."""

    layers: list
    outputs: int | None
    widths: tuple
    variances: tuple
    seed: int

    @property
    def heads(self):
        return brute_force.shorthand(self.layers, self.outputs)

    @property
    def counts(self):
        """The number of heads in every layer."""
        return [0 if name == "linear" else count for name, count in self.layers]

    @property
    def least(self):
        """For every layer how many heads it must keep."""
        return [int("heads" in name) for name, _ in self.layers]

    @property
    def physics(self):
        return {"width": self.widths, "temperature": TEMPERATURE, "variance": self.variances}

    def some_heads(self):
        """For every layer some of its heads, in a random order."""
        rng = np.random.default_rng(self.seed)
        counts = zip(self.counts, self.least, strict=True)
        return tuple(
            tuple(rng.permutation(count)[: rng.integers(least, count + 1)].tolist()) for count, least in counts
        )

    def problem(self):
        """Attentioned inputs for training, labels, and attentioned inputs for testing."""
        rng = np.random.default_rng(self.seed)
        values = rng.normal(size=(EXAMPLES + 2, len(brute_force.paths(self.layers)), FEATURES))
        labels = rng.normal(size=(EXAMPLES,) if self.outputs is None else (EXAMPLES, self.outputs))
        train, test = (sma.AttentionedInputs(jnp.asarray(one), self.heads) for one in np.split(values, [EXAMPLES]))
        return train, labels, test

    def network(self):
        """Weights of the prior, as `brute_force` has them and as the package does, inputs and attention matrices."""
        rng = np.random.default_rng(self.seed)
        plain = brute_force.weights(rng, self.layers, self.widths, self.outputs, self.variances, FEATURES)
        weights = sma.model.Weights(*jax.tree.map(jnp.asarray, (plain[0], tuple(plain[1]), plain[2])))
        matrices = brute_force.attention(rng, self.layers, EXAMPLES, TOKENS)
        return plain, weights, rng.normal(size=(EXAMPLES, TOKENS, FEATURES)), matrices


def chain_of(layers, outputs, seed):
    """A chain with random widths and variances; a skip leaves the width as it is."""
    rng, widths = np.random.default_rng(seed), [3]
    for name, _ in layers:
        widths.append(widths[-1] if "skip" in name else int(rng.integers(2, 7)))
    return Chain(layers, outputs, tuple(widths), tuple(rng.uniform(0.5, 2.0, len(layers) + 2)), seed)


def random_chain(seed, paths=8):
    """A chain of at most so many paths, each output a path of its own."""
    rng = np.random.default_rng(seed)
    outputs, layers = (None, 2)[rng.integers(2)], None
    while layers is None or (outputs or 1) * len(brute_force.paths(layers)) > paths:
        layers = [LAYERS[one] for one in rng.integers(len(LAYERS), size=rng.integers(1, 4))]
    return chain_of(layers, outputs, seed)


# All kinds of layers are among these two.
ALWAYS = [
    chain_of([("heads", 2), ("narrow skip", 1), ("linear", 1)], None, 1),
    chain_of([("skip", 1), ("narrow heads", 2)], 2, 2),
]


# The same chains for all tests, which share their programs; others in another session, but on CI.
SESSION = 0 if os.environ.get("CI") else random.randrange(10**6)


def on_chains(count, always=ALWAYS):
    """Decorate a test of `chain`, on `count` random ones too; no smaller one is searched."""

    def decorated(test):
        test = hypothesis.given(chain=st.integers(SESSION, SESSION + 10**6).map(random_chain))(test)
        for chain in always:
            test = hypothesis.example(chain=chain)(test)
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)[: 1 + bool(count)]
        return hypothesis.seed(SESSION)(hypothesis.settings(max_examples=max(count, 1), phases=phases)(test))

    return decorated
