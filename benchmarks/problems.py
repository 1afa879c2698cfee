"""The problems that are solved: the hidden Markov chain task, one-shot images, and random inputs of any size."""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import statmech_attention as sma
from attention_book.experiments import experiment_of

ROOT = Path(__file__).resolve().parents[1]


def make(name: str, *, examples: int, heads: tuple[int, ...], features: int):
    """Return attentioned inputs and labels of "hidden Markov", "images" (both of fixed heads) or a "random" problem."""
    if name == "hidden Markov":
        return _hidden_markov(examples, heads, features)
    return _images(examples, heads) if name == "images" else _random(examples, heads, features)


def _images(examples: int, heads):
    """Return the first training sequences of the recorded theory of the one-shot network of 16 paths."""
    theory = experiment_of(ROOT / "results" / "one_shot" / "theory-2x4-seed0.nc")
    train = theory.draw(0).train
    if train.inputs.heads != tuple(heads) or len(train.labels) != examples:
        raise ValueError(
            f"heads, examples: wanted {train.inputs.heads} and {len(train.labels)}, got {heads}, {examples}."
        )
    return train.inputs, train.labels


def _hidden_markov(examples: int, heads, features: int):
    key_train, key_heads = jax.random.split(jax.random.key(0))
    task = sma.tasks.HiddenMarkov(token_size=features - 31)
    train = task.sample(key_train, examples)
    attentioned = sma.attentioned_inputs(train.inputs, sma.attention_from_products(task.heads(key_heads)))
    if attentioned.heads != tuple(heads):
        raise ValueError(f"heads: wanted {attentioned.heads}, those of the task, got {tuple(heads)}.")
    return attentioned, train.labels


def _random(examples: int, heads, features: int):
    """Return Gaussian inputs, correlated across paths, and labels by a linear teacher on the first path, one in ten wrong."""
    random = np.random.default_rng(0)
    shared = random.normal(size=(examples, 1, features))
    inputs = shared + random.normal(size=(examples, int(np.prod(heads)), features))
    labels = np.sign(inputs[:, 0] @ random.normal(size=features))
    labels *= np.where(random.random(examples) < 0.1, -1.0, 1.0)
    return sma.AttentionedInputs(jnp.asarray(inputs), tuple(heads)), jnp.asarray(labels)


@functools.cache
def checksum() -> np.ndarray:
    """Actions at the saddle points of the hidden Markov problem."""
    inputs, labels = make("hidden Markov", examples=100, heads=(2, 2), features=231)
    return np.array([sma.solve(inputs, labels, width=width, temperature=0.01).action for width in (1000, 100, 10)])
