"""Hidden Markov chains: tell slow chains from fast ones through noise.

Section 4.1 and appendix G of Tiberi et al. (2024): the data, and heads given by their query-key products.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from statmech_attention import _checks
from statmech_attention.attention import attention_from_products
from statmech_attention.paths import AttentionedInputs, attentioned_inputs

Key = PRNGKeyArray | UInt32[Array, "2"]


class HiddenMarkovSample(NamedTuple):
    """Examples of the task.

    Attributes:
        inputs: `(examples, tokens, features)`, tokens with the beginning-of-sequence token first.
        labels: `(examples,)`, +1 for slow chains and -1 for fast ones.
        hidden: `(examples, length)`, the hidden states, +1 and -1.
    """

    inputs: Float[Array, "examples tokens features"]
    labels: Float[Array, " examples"]
    hidden: Float[Array, "examples length"]


class HiddenMarkovTrial(NamedTuple):
    """One draw of data, seen along the attention paths of one draw of heads.

    Attributes:
        train: attentioned training inputs.
        labels: training labels, `(examples,)`.
        test: attentioned test inputs.
        test_labels: test labels, `(test examples,)`.
    """

    train: AttentionedInputs
    labels: Float[Array, " examples"]
    test: AttentionedInputs
    test_labels: Float[Array, " test_examples"]


@dataclass(frozen=True)
class HiddenMarkov:
    r"""Hidden chains $s_t = \pm 1$ seen as tokens $x_t = v_{s_t} + \eta_t$; the label is how often they switch.

    Every token carries a one-hot position, and a beginning-of-sequence token of zeros stands in front:
    $N_0$ = `token_size` + `length` + 1 features, `length` + 1 tokens.

    Attributes:
        length: number of visible states of a chain, at least 2.
        token_size: entries of a token before the position is appended, even. $v_\pm$ is $\sqrt 2$ on one half of them.
        slow: probability to switch the hidden state in class +1.
        fast: the same in class -1.
        parallel_noise: $\sigma_\parallel$, noise within the plane of $v_+$ and $v_-$.
        perpendicular_noise: $\sigma_\perp$, noise outside that plane.
        hardness: $\beta$, the inverse temperature of every head's softmax.

    Raises:
        ValueError: numbers out of range.
    """

    length: int = 30
    token_size: int = 200
    slow: float | int = 0.3
    fast: float | int = 0.7
    parallel_noise: float | int = 1.0
    perpendicular_noise: float | int = 1.0
    hardness: float | int = 10.0

    def __post_init__(self):
        for name, least in (("length", 2), ("token_size", 2)):
            value = getattr(self, name)
            if not _checks.whole(value, least):
                raise ValueError(f"{name}: wanted a whole number of at least {least}, got {value!r}.")
        if self.token_size % 2:
            raise ValueError(f"token_size: wanted an even number, half for each state, got {self.token_size}.")
        for name in ("slow", "fast"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: wanted a probability in [0, 1], got {getattr(self, name)!r}.")
        for name in ("parallel_noise", "perpendicular_noise"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name}: wanted a finite number of at least 0, got {getattr(self, name)!r}.")
        _checks.positive("hardness", self.hardness)

    @property
    def tokens(self) -> int:
        """Number of tokens, the beginning-of-sequence token included."""
        return self.length + 1

    @property
    def features(self) -> int:
        """$N_0$, entries of a token with its position."""
        return self.token_size + self.tokens

    @property
    def states(self) -> Float[Array, "2 token_size"]:
        r"""The feature vectors $v_+$ and $v_-$, orthogonal, $|v_\pm|^2$ = `token_size`."""
        first = jnp.arange(self.token_size) < self.token_size // 2
        return jnp.sqrt(2.0) * jnp.stack([first, ~first]).astype(float)

    def sample(self, key: Key, examples) -> HiddenMarkovSample:
        """Draw examples, half of each class (an odd one out is slow), in random order.

        Args:
            key: a JAX random key.
            examples: how many, at least 1.

        Returns:
            `HiddenMarkovSample`.

        Raises:
            ValueError: fewer than one example.
        """
        if not _checks.whole(examples, 1):
            raise ValueError(f"examples: wanted a whole number of at least 1, got {examples!r}.")
        order, first, switches, noise = jax.random.split(key, 4)
        labels = jax.random.permutation(order, jnp.where(jnp.arange(examples) < (examples + 1) // 2, 1.0, -1.0))
        rate = jnp.where(labels > 0, self.slow, self.fast)
        start = jax.random.rademacher(first, (examples, 1), dtype=float)
        switched = jax.random.uniform(switches, (examples, self.length - 1)) < rate[:, None]
        hidden = jnp.concatenate([start, start * jnp.cumprod(jnp.where(switched, -1.0, 1.0), axis=1)], axis=1)

        white = jax.random.normal(noise, (examples, self.length, self.token_size))
        parallel = white @ self.states.T @ self.states / self.token_size
        tokens = jnp.where(hidden[..., None] > 0, self.states[0], self.states[1])
        tokens = tokens + self.parallel_noise * parallel + self.perpendicular_noise * (white - parallel)
        tokens = jnp.pad(tokens, ((0, 0), (1, 0), (0, 0)))
        positions = jnp.broadcast_to(jnp.eye(self.tokens), (examples, self.tokens, self.tokens))
        return HiddenMarkovSample(jnp.concatenate([tokens, positions], axis=-1), labels, hidden)

    def trial(
        self, key: Key, examples: int = 100, test_examples: int = 1000, *, heads=None, readout: str | int = "last"
    ) -> HiddenMarkovTrial:
        """Draw training and test data and heads, and look at the data along all attention paths.

        Args:
            key: a JAX random key; the same key gives the same data for any heads and readout.
            examples: number of training examples.
            test_examples: number of test examples.
            heads: query-key products, one array a layer; those of `heads` with a key of their own where None.
            readout: the token that is read out, as in `attentioned_inputs`.

        Returns:
            `HiddenMarkovTrial`.

        Raises:
            ValueError: fewer than one example, an unknown readout, heads of the wrong shape.
        """
        train_key, test_key, heads_key = jax.random.split(key, 3)
        train, test = self.sample(train_key, examples), self.sample(test_key, test_examples)
        attention = attention_from_products(self.heads(heads_key) if heads is None else heads)
        seen, seen_test = (attentioned_inputs(data.inputs, attention, readout) for data in (train, test))
        return HiddenMarkovTrial(seen, train.labels, seen_test, test.labels)

    def heads(self, key: Key) -> tuple[Float[Array, "heads features features"], ...]:
        """The paper's two layers of two heads: in each the designed head first, a random one second.

        Args:
            key: a JAX random key, for the random heads.

        Returns:
            Two arrays `(2, features, features)` for `attention_from_products`.
        """
        first, second = jax.random.split(key)
        return (
            jnp.stack([self.neighbour_head(), self.random_head(first)]),
            jnp.stack([self.uniform_head(), self.random_head(second)]),
        )

    def neighbour_head(self) -> Float[Array, "features features"]:
        """Designed head of layer 1: look one token back if its state is the same, at the empty token otherwise."""
        difference = self.states[0] - self.states[1]
        # Signs of states: +-1 on noiseless tokens.
        sign = difference / (difference @ difference / 2)
        back = jnp.eye(self.tokens, k=1)
        nowhere = jnp.zeros((self.tokens, self.tokens)).at[0, 1:].set(1.5)
        # Query 1 has the empty token one step before it: the row of the empty token wins there.
        position = jnp.where(nowhere > 0, nowhere, back)
        return self._product(jnp.outer(sign, sign), position)

    def uniform_head(self) -> Float[Array, "features features"]:
        """Designed head of layer 2: attend all tokens alike."""
        return self._product(jnp.zeros((self.token_size,) * 2), jnp.ones((self.tokens, self.tokens)))

    def random_head(self, key: Key) -> Float[Array, "features features"]:
        """A head of Gaussian entries, each block scaled so that its logits are of order one.

        Args:
            key: a JAX random key.

        Returns:
            `(features, features)`.
        """
        scale = jnp.concatenate([jnp.full(self.token_size, self.token_size**-0.5), jnp.ones(self.tokens)])
        return self.hardness * jax.random.normal(key, (self.features,) * 2) * jnp.outer(scale, scale)

    def _product(self, features, positions):
        zero = jnp.zeros((self.token_size, self.tokens))
        return self.hardness * jnp.block([[features, zero], [zero.T, positions]])
