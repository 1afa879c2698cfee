"""The problems that are solved: the hidden Markov chain task, and random inputs of any size."""

import jax
import jax.numpy as jnp
import numpy as np

import statmech_attention as sma


def make(name: str, *, examples: int, heads: tuple[int, ...], features: int):
    """Attentioned inputs and labels.

    Args:
        name: "hidden Markov" for the task of the book, whose heads and features are fixed, or "random".
        examples: $P$.
        heads: $(H_1, .., H_L)$.
        features: $N_0$.

    Returns:
        `AttentionedInputs` and labels `(examples,)`.
    """
    if name == "hidden Markov":
        return _hidden_markov(examples, heads, features)
    return _random(examples, heads, features)


def _hidden_markov(examples: int, heads, features: int):
    key_train, key_heads = jax.random.split(jax.random.key(0))
    task = sma.tasks.HiddenMarkov(token_size=features - 31)
    train = task.sample(key_train, examples)
    attentioned = sma.attentioned_inputs(train.inputs, sma.attention_from_products(task.heads(key_heads)))
    if attentioned.heads != tuple(heads):
        raise ValueError(f"heads: wanted {attentioned.heads}, those of the task, got {tuple(heads)}.")
    return attentioned, train.labels


def _random(examples: int, heads, features: int):
    """Gaussian inputs, correlated across paths; the labels are those of a linear teacher on the first path, one in ten wrong."""
    random = np.random.default_rng(0)
    shared = random.normal(size=(examples, 1, features))
    inputs = shared + random.normal(size=(examples, int(np.prod(heads)), features))
    labels = np.sign(inputs[:, 0] @ random.normal(size=features))
    labels *= np.where(random.random(examples) < 0.1, -1.0, 1.0)
    return sma.AttentionedInputs(jnp.asarray(inputs), tuple(heads)), jnp.asarray(labels)
