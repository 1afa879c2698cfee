"""Classify noisy hidden Markov chains by how often they change: Tiberi et al. (2024), section 4.1, appendix G."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.compiling import quick_jit
from statmech_attention.model import AttentionedInputs, attention_from_products, attentioned_inputs


class HiddenMarkovSample(NamedTuple):
    """Examples of the task.

    Attributes:
        inputs: `(examples, tokens, features)`, the beginning-of-sequence token first.
        labels: `(examples,)`, +1 for slow chains and -1 for fast ones.
        hidden: `(examples, length)`, the hidden states, +1 and -1.
    """

    inputs: Float[Array, "examples tokens features"]
    labels: Float[Array, " examples"]
    hidden: Float[Array, "examples length"]


class HiddenMarkovTrial(NamedTuple):
    """One draw of data along the attention paths of one draw of heads.

    Attributes:
        train: attentioned training inputs.
        labels: training labels, `(examples,)`.
        test: attentioned test inputs.
        test_labels: test labels.
    """

    train: AttentionedInputs
    labels: Float[Array, " examples"]
    test: AttentionedInputs
    test_labels: Float[Array, " test_examples"]


@dataclass(frozen=True)
class HiddenMarkov:
    r"""Hidden chains of states $s_t = \pm 1$, which change slowly in the class +1 and fast in the class -1.

    The first state is uniform, and so is every later one: single tokens do not depend on the class.
    Tokens are $x_t = v_{s_t} + \eta_t$ with a one-hot position, after a beginning-of-sequence token
    of zeros: `length` + 1 tokens of $N_0$ = `token_size` + `length` + 1 features.

    Attributes:
        length: number of visible states of a chain, at least 2.
        token_size: entries of a token before the position, an even number. $v_+$ is $\sqrt 2$ on
            the first half of them, $v_-$ on the second.
        slow: probability to change the hidden state in slow chains.
        fast: the same in fast chains.
        parallel_noise: $\sigma_\parallel$, noise within the plane of the $v_s$.
        perpendicular_noise: $\sigma_\perp$, noise outside that plane.
        hardness: $\beta$, the inverse temperature of every head's softmax.
    """

    length: int = 30
    token_size: int = 200
    slow: float | int = 0.3
    fast: float | int = 0.7
    parallel_noise: float | int = 1.0
    perpendicular_noise: float | int = 1.0
    hardness: float | int = 10.0

    def __post_init__(self):
        object.__setattr__(self, "length", checks.whole("length", self.length, 2))
        object.__setattr__(self, "token_size", 2 * checks.whole("token_size, halved", self.token_size / 2))
        checks.positive("hardness", self.hardness)
        limits = {"parallel_noise": np.inf, "perpendicular_noise": np.inf, "slow": 1, "fast": 1}
        for name, most in limits.items():
            if not 0 <= (number := getattr(self, name)) <= most or number == np.inf:
                raise ValueError(f"{name}: wanted a number in [0, {most}], got {number!r}.")

    @property
    def states(self) -> Float[np.ndarray, "states token_size"]:
        r"""The feature vectors $v_+$ and $v_-$, orthogonal, $|v_s|^2$ = `token_size`."""
        return np.sqrt(2) * np.repeat(np.eye(2), self.token_size // 2, axis=1)

    @property
    def tokens(self) -> int:
        """Number of tokens, the beginning-of-sequence token included."""
        return self.length + 1

    @property
    def features(self) -> int:
        """$N_0$, entries of a token with its position."""
        return self.token_size + self.tokens

    def sample(self, examples: int, *, key: checks.Key) -> HiddenMarkovSample:
        """Draw examples, half of each class (of an odd number one more is slow), in random order."""
        key, examples = checks.key("key", key), checks.whole("examples", examples)
        noise, fast, places = _chains(key, np.array([self.slow, self.fast], float), examples, self.length)
        inputs = _noisy(noise, places, self.states, float(self.parallel_noise), float(self.perpendicular_noise))
        return HiddenMarkovSample(inputs, 1.0 - 2.0 * fast, 1.0 - 2.0 * places)

    def trial(
        self,
        examples: int = 100,
        test_examples: int = 1000,
        *,
        key: checks.Key,
        products: Sequence[np.ndarray | Array] | None = None,
        readout: str | int = "last",
    ) -> HiddenMarkovTrial:
        """Draw training and test data and heads, and attention all data.

        The same key gives the same data for any heads, which have the query-key products `products`,
        one array per layer, or those of `heads`; `readout` as in `attentioned_inputs`.

        Raises:
            ValueError: fewer than one example, an unknown readout, products of the wrong shape.
        """
        train_key, test_key, heads_key = jax.random.split(checks.key("key", key), 3)
        train, test = self.sample(examples, key=train_key), self.sample(test_examples, key=test_key)
        attention = attention_from_products(self.heads(key=heads_key) if products is None else products)
        seen, seen_test = (attentioned_inputs(data.inputs, attention, readout=readout) for data in (train, test))
        return HiddenMarkovTrial(seen, train.labels, seen_test, test.labels)

    def heads(self, *, key: checks.Key) -> tuple[Float[Array, "_heads features features"], ...]:
        """Draw two layers: the head for unchanged states and a random head; the uniform head and a random head.

        Returns:
            Query-key products, arrays `(heads, features, features)` for `attention_from_products`.
        """
        random = (self.random_head(key=subkey) for subkey in jax.random.split(checks.key("key", key)))
        return tuple(jnp.stack(pair) for pair in zip((self.step_head(0), self.uniform_head()), random, strict=True))

    def step_head(self, step: int) -> Float[np.ndarray, "features features"]:
        """Return a head of layer 1: attend one token back if the state is the same there, else the empty token.

        With `step` 1 in place of the paper's 0: if the state is the other one.

        Raises:
            ValueError: a step other than 0 and 1.
        """
        same = 1 - 2 * checks.whole("step", step, 0, 1)
        dual = self.states / self.token_size
        positions = np.eye(self.tokens, k=1)
        # Query 1 has the empty token one step before it: the row of the empty token wins there.
        positions[0, 1:] = 1.5
        return self._product(same * dual.T @ np.array([[1, -1], [-1, 1]]) @ dual, positions)

    def uniform_head(self) -> Float[np.ndarray, "features features"]:
        """Return a head of layer 2: attend all tokens alike."""
        return self._product(np.zeros((self.token_size,) * 2), np.ones((self.tokens,) * 2))

    def random_head(self, *, key: checks.Key) -> Float[Array, "features features"]:
        """Draw a head of Gaussian entries, each block scaled so that its logits are of order one."""
        scale = np.repeat([self.token_size**-0.5, 1.0], [self.token_size, self.tokens])
        entries = jax.random.normal(checks.key("key", key), (scale.size**2,)).reshape(scale.size, -1)
        return entries * (self.hardness * np.outer(scale, scale))

    def _product(self, features, positions) -> Float[np.ndarray, "features features"]:
        zero = np.zeros((self.token_size, self.tokens))
        return self.hardness * np.block([[features, zero], [zero.T, positions]])


@quick_jit(static=("examples", "length"))
def _chains(key, rates, examples, length):
    """Draw chains; return a key for the noise, which chains are fast, and their states, 0 for +1 and 1 for -1."""
    order, first, switches, noise = jax.random.split(key, 4)
    fast = jax.random.permutation(order, jnp.arange(examples) * 2 // examples)
    start = (1 - jax.random.rademacher(first, (examples, 1), dtype=int)) // 2
    uniform = jax.random.uniform(switches, (examples * (length - 1),)).reshape(examples, -1)
    changes = jnp.cumsum(uniform < rates[fast][:, None], axis=1)
    return noise, fast, (start + jnp.pad(changes, ((0, 0), (1, 0)))) % 2


@quick_jit()
def _noisy(key, which, states, parallel_noise, perpendicular_noise):
    """Return tokens of hidden states with noise, the empty token in front, and positions."""
    examples, length = which.shape
    white = jax.random.normal(key, (examples * length * states.shape[1],)).reshape(examples, length, -1)
    states = states.astype(white.dtype)
    parallel = white @ states.T @ states / states.shape[1]
    tokens = states[which] + parallel_noise * parallel + perpendicular_noise * (white - parallel)
    tokens = jnp.pad(tokens, ((0, 0), (1, 0), (0, 0)))
    positions = jnp.broadcast_to(jnp.eye(length + 1), (examples, length + 1, length + 1))
    return jnp.concatenate([tokens, positions], axis=-1)
