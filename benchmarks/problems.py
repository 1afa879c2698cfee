"""The problems that are solved: hidden Markov chains, one-shot images, and random inputs."""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import statmech_attention as sma
from attention_book.one_shot import draw_of
from attention_book.tasks import one_shot_suite
from attention_book.training import load_network

ROOT = Path(__file__).resolve().parents[1]


def make(name: str, *, examples: int, heads: tuple[int, ...], features: int):
    """Return inputs and labels of "hidden Markov", "images" (of fixed heads) or "random"."""
    if name == "hidden Markov":
        return _hidden_markov(examples, heads, features)
    return _images(examples, heads) if name == "images" else _random(examples, heads, features)


def _images(examples: int, heads):
    """Return the first training sequences of the recorded theory of a network of 16 paths."""
    network = load_network(ROOT / "results" / "one_shot" / "network-2x4-seed0.nc")
    train = draw_of(one_shot_suite("omniglot"), network, seed=0, number=0, examples=600, tests=1, sets=1).train
    if train.inputs.layers != tuple(heads) or len(train.labels) != examples:
        raise ValueError(
            f"heads, examples: wanted {train.inputs.layers} and {len(train.labels)}, got {heads}, {examples}."
        )
    return train.inputs, train.labels


def _hidden_markov(examples: int, heads, features: int):
    key_train, key_heads = jax.random.split(jax.random.key(0))
    task = sma.tasks.HiddenMarkov(token_size=features - 31)
    train = task.sample(key_train, examples)
    attentioned = sma.attentioned_inputs(train.inputs, sma.attention_from_products(task.heads(key_heads)))
    if attentioned.layers != tuple(heads):
        raise ValueError(f"heads: wanted {attentioned.layers}, those of the task, got {tuple(heads)}.")
    return attentioned, train.labels


def _random(examples: int, heads, features: int):
    """Return inputs correlated across paths, and labels of a linear teacher on one path."""
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
    return np.array(
        [sma.solve(sma.Problem(inputs, labels, width=width, temperature=0.01)).action for width in (1000, 100, 10)]
    )
