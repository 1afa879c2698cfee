"""What tasks of hidden Markov chains share: noisy tokens of hidden states, positions, heads, and draws of all of it."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from statmech_attention import checks
from statmech_attention.arguments import Arrays
from statmech_attention.checks import Key
from statmech_attention.compiling import quick_jit
from statmech_attention.model.attention import attention_from_products
from statmech_attention.model.paths import AttentionedInputs, attentioned_inputs


class HiddenMarkovSample(NamedTuple):
    """Examples of the task.

    Attributes:
        inputs: `(examples, tokens, features)`, tokens with the beginning-of-sequence token first.
        labels: `(examples,)`, +1 for slow chains and -1 for fast ones; of several classes `(examples, classes)`.
        hidden: `(examples, length)`, the hidden states, +1 and -1; of several classes 0, 1, ..
    """

    inputs: Float[Array, "examples tokens features"]
    labels: Float[Array, "examples *classes"]
    hidden: Num[Array, "examples length"]


class HiddenMarkovTrial(NamedTuple):
    """One draw of data, seen along the attention paths of one draw of heads.

    Attributes:
        train: attentioned training inputs.
        labels: training labels, `(examples,)`, or `(examples, classes)`.
        test: attentioned test inputs.
        test_labels: test labels, `(test examples,)`, or `(test examples, classes)`.
    """

    train: AttentionedInputs
    labels: Float[Array, "examples *classes"]
    test: AttentionedInputs
    test_labels: Float[Array, "test_examples *classes"]


class HiddenChains(ABC):
    """A task whose tokens are noisy feature vectors of hidden states; its frozen dataclass has the fields named here."""

    classes: int
    length: int
    token_size: int
    slow: float | int
    fast: float | int
    parallel_noise: float | int
    perpendicular_noise: float | int
    hardness: float | int

    def __post_init__(self):
        for name in ("classes", "length", "token_size"):
            checks.whole(name, getattr(self, name), 2)
        if self.token_size % self.classes:
            raise ValueError(
                f"token_size: wanted a multiple of {self.classes}, as many entries for each state, got {self.token_size}."
            )
        for name in ("parallel_noise", "perpendicular_noise"):
            checks.at_least(name, getattr(self, name), 0)
        checks.positive("hardness", self.hardness)
        for name in ("slow", "fast"):
            number = checks.real(getattr(self, name))
            if number is None or not 0 <= number <= 1:
                raise ValueError(f"{name}: wanted a probability in [0, 1], got {getattr(self, name)!r}.")

    @abstractmethod
    def sample(self, key: Key, examples) -> HiddenMarkovSample:
        """Draw examples."""

    @abstractmethod
    def _designed_heads(self) -> list[Float[np.ndarray, "features features"]]:
        """Query-key products of the designed heads of layer 1."""

    def heads(self, key: Key) -> tuple[Float[Array, "_heads features features"], ...]:
        """Two layers of heads: the designed ones of layer 1 and a random one; a uniform head and a random one.

        Args:
            key: a JAX random key, for the random heads.

        Returns:
            Query-key products, arrays `(heads, features, features)` for `attention_from_products`.
        """
        key = checks.key("key", key)
        return _with_random(key, np.stack(self._designed_heads()), self.uniform_head()[None], *self._scales())

    @property
    def states(self) -> Float[np.ndarray, "states token_size"]:
        r"""The feature vectors $v_0, .., v_{C-1}$ of the states, orthogonal, $|v_s|^2$ = `token_size`."""
        return np.sqrt(self.classes) * np.repeat(np.eye(self.classes), self.token_size // self.classes, axis=1)

    @property
    def tokens(self) -> int:
        """Number of tokens, the beginning-of-sequence token included."""
        return self.length + 1

    @property
    def features(self) -> int:
        """$N_0$, entries of a token with its position."""
        return self.token_size + self.tokens

    def trial(
        self,
        key: Key,
        examples: int = 100,
        test_examples: int = 1000,
        *,
        products: Arrays | None = None,
        readout: str | int = "last",
    ) -> HiddenMarkovTrial:
        """Draw training and test data and heads, and look at the data along all attention paths.

        Args:
            key: a JAX random key; the same key gives the same data for any heads and readout.
            examples: number of training examples.
            test_examples: number of test examples.
            products: of queries and keys, one array a layer; those of `heads` with a key of their own where None.
            readout: the token that is read out, as in `attentioned_inputs`.

        Returns:
            `HiddenMarkovTrial`.

        Raises:
            ValueError: fewer than one example, an unknown readout, products of the wrong shape.
        """
        train_key, test_key, heads_key = jax.random.split(checks.key("key", key), 3)
        train, test = self.sample(train_key, examples), self.sample(test_key, test_examples)
        attention = attention_from_products(self.heads(heads_key) if products is None else products)
        seen, seen_test = (attentioned_inputs(data.inputs, attention, readout=readout) for data in (train, test))
        return HiddenMarkovTrial(seen, train.labels, seen_test, test.labels)

    def uniform_head(self) -> Float[np.ndarray, "features features"]:
        """Designed head of layer 2: attend all tokens alike."""
        return self._product(np.zeros((self.token_size,) * 2), np.ones((self.tokens,) * 2))

    def random_head(self, key: Key) -> Float[Array, "features features"]:
        """A head of Gaussian entries, each block scaled so that its logits are of order one.

        Args:
            key: a JAX random key.

        Returns:
            `(features, features)`.
        """
        return _random_head(checks.key("key", key), *self._scales())

    def _inputs(self, key: Key, which: Int[Array, "examples length"]) -> Float[Array, "examples tokens features"]:
        """Feature vectors of hidden states with noise, the empty token in front, and positions."""
        return _noisy(key, which, self.states, float(self.parallel_noise), float(self.perpendicular_noise))

    def _scales(self) -> tuple[float, Float[np.ndarray, " features"]]:
        """What a standard normal head is multiplied with: the hardness, and a number for each of its rows and columns."""
        return float(self.hardness), np.repeat([self.token_size**-0.5, 1.0], [self.token_size, self.tokens])

    def _one_step_back(self) -> Float[np.ndarray, "tokens tokens"]:
        """Positions of a head that looks one token back where nothing speaks against it, else at the empty token."""
        positions = np.eye(self.tokens, k=1)
        # Query 1 has the empty token one step before it: the row of the empty token wins there.
        positions[0, 1:] = 1.5
        return positions

    def _product(self, features, positions) -> Float[np.ndarray, "features features"]:
        zero = np.zeros((self.token_size, self.tokens))
        return self.hardness * np.block([[features, zero], [zero.T, positions]])


@quick_jit(effort=0)
def _with_random(key, designed, uniform, hardness, scale):
    """Two layers of designed heads, each with a random one behind them."""
    random = jax.vmap(_random_head.__wrapped__, in_axes=(0, None, None))(jax.random.split(key), hardness, scale)
    return tuple(jnp.concatenate([heads, one[None]]) for heads, one in zip((designed, uniform), random, strict=True))


@quick_jit(effort=0)
def _random_head(key, hardness, scale):
    return hardness * jax.random.normal(key, scale.shape * 2) * jnp.outer(scale, scale)


@quick_jit()
def _noisy(key, which, states, parallel_noise, perpendicular_noise):
    """`HiddenChains._inputs`."""
    examples, length = which.shape
    white = jax.random.normal(key, (examples, length, states.shape[1]))
    states = states.astype(white.dtype)
    parallel = white @ states.T @ states / states.shape[1]
    tokens = states[which] + parallel_noise * parallel + perpendicular_noise * (white - parallel)
    tokens = jnp.pad(tokens, ((0, 0), (1, 0), (0, 0)))
    positions = jnp.broadcast_to(jnp.eye(length + 1), (examples, length + 1, length + 1))
    return jnp.concatenate([tokens, positions], axis=-1)
