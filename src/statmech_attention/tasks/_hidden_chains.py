"""What tasks of hidden Markov chains share: noisy tokens of hidden states, positions, heads, and draws of all of it."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from statmech_attention import checks
from statmech_attention.checks import Key
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
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name}: wanted a finite number of at least 0, got {getattr(self, name)!r}.")
        checks.positive("hardness", self.hardness)
        for name in ("slow", "fast"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: wanted a probability in [0, 1], got {getattr(self, name)!r}.")

    @abstractmethod
    def sample(self, key: Key, examples) -> HiddenMarkovSample:
        """Draw examples."""

    @abstractmethod
    def _designed_heads(self) -> list[Float[Array, "features features"]]:
        """Query-key products of the designed heads of layer 1."""

    def heads(self, key: Key) -> tuple[Float[Array, "_heads features features"], ...]:
        """Two layers of heads: the designed ones of layer 1 and a random one; a uniform head and a random one.

        Args:
            key: a JAX random key, for the random heads.

        Returns:
            Query-key products, arrays `(heads, features, features)` for `attention_from_products`.
        """
        first, second = jax.random.split(key)
        return (
            jnp.stack([*self._designed_heads(), self.random_head(first)]),
            jnp.stack([self.uniform_head(), self.random_head(second)]),
        )

    @property
    def states(self) -> Float[Array, "states token_size"]:
        r"""The feature vectors $v_0, .., v_{C-1}$ of the states, orthogonal, $|v_s|^2$ = `token_size`."""
        part = jnp.ones((1, self.token_size // self.classes))
        return jnp.sqrt(float(self.classes)) * jnp.kron(jnp.eye(self.classes), part)

    @property
    def tokens(self) -> int:
        """Number of tokens, the beginning-of-sequence token included."""
        return self.length + 1

    @property
    def features(self) -> int:
        """$N_0$, entries of a token with its position."""
        return self.token_size + self.tokens

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

    def _inputs(self, key: Key, seen: Float[Array, "examples length token_size"]) -> Float[Array, "..."]:
        """Feature vectors with noise, the empty token in front, and positions."""
        examples = len(seen)
        white = jax.random.normal(key, (examples, self.length, self.token_size))
        parallel = white @ self.states.T @ self.states / self.token_size
        tokens = seen + self.parallel_noise * parallel + self.perpendicular_noise * (white - parallel)
        tokens = jnp.pad(tokens, ((0, 0), (1, 0), (0, 0)))
        positions = jnp.broadcast_to(jnp.eye(self.tokens), (examples, self.tokens, self.tokens))
        return jnp.concatenate([tokens, positions], axis=-1)

    def _one_step_back(self) -> Float[Array, "tokens tokens"]:
        """Positions of a head that looks one token back where nothing speaks against it, else at the empty token."""
        back = jnp.eye(self.tokens, k=1)
        nowhere = jnp.zeros((self.tokens, self.tokens)).at[0, 1:].set(1.5)
        # Query 1 has the empty token one step before it: the row of the empty token wins there.
        return jnp.where(nowhere > 0, nowhere, back)

    def _product(self, features, positions):
        zero = jnp.zeros((self.token_size, self.tokens))
        return self.hardness * jnp.block([[features, zero], [zero.T, positions]])
