"""The problems that are solved: hidden Markov chains and random inputs."""

import jax
import jax.numpy as jnp
import numpy as np

import statmech_attention as sma


def make(name: str, *, examples: int, heads: tuple[int, ...], features: int):
    """Return inputs and labels of "chains" or "random"."""
    if name == "random":
        return _random(examples, heads, features)
    trial = sma.tasks.HiddenMarkov(token_size=features - 31).trial(examples, 1, key=jax.random.key(0))
    if trial.train.layers != tuple(heads):
        raise ValueError(f"heads: wanted {trial.train.layers}, those of the task, got {tuple(heads)}.")
    return trial.train, trial.labels


def _random(examples: int, heads, features: int):
    """Return inputs correlated across paths, and labels of a linear teacher on one path."""
    random = np.random.default_rng(0)
    shared = random.normal(size=(examples, 1, features))
    inputs = shared + random.normal(size=(examples, int(np.prod(heads)), features))
    labels = np.sign(inputs[:, 0] @ random.normal(size=features))
    labels *= np.where(random.random(examples) < 0.1, -1.0, 1.0)
    return sma.AttentionedInputs(jnp.asarray(inputs), tuple(heads)), jnp.asarray(labels)
