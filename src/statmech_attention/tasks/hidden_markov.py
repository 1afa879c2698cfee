"""Classify noisy hidden Markov chains by the steps of their states: Tiberi et al. (2024), section 4.1, appendix G."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from statmech_attention import checks
from statmech_attention.checks import Key
from statmech_attention.compiling import quick_jit
from statmech_attention.model import AttentionedInputs, attention_from_products, attentioned_inputs


class HiddenMarkovSample(NamedTuple):
    r"""Examples of the task.

    Attributes:
        inputs: `(examples, tokens, features)`, the beginning-of-sequence token first.
        labels: `(examples,)`, +1 for slow chains and -1 for fast ones; of more than two classes
            `(examples, classes)`, one-hot minus their mean, $y_{\mu c} = \delta_{c c_\mu} - 1/C$.
        hidden: `(examples, length)`, the hidden states, +1 and -1; of more than two classes 0 ..
            $C - 1$.
    """

    inputs: Float[Array, "examples tokens features"]
    labels: Float[Array, "examples *classes"]
    hidden: Num[Array, "examples length"]


class HiddenMarkovTrial(NamedTuple):
    """One draw of data along the attention paths of one draw of heads.

    Attributes:
        train: attentioned training inputs.
        labels: training labels, `(examples,)` or `(examples, classes)`.
        test: attentioned test inputs.
        test_labels: test labels.
    """

    train: AttentionedInputs
    labels: Float[Array, "examples *classes"]
    test: AttentionedInputs
    test_labels: Float[Array, "test_examples *classes"]


@dataclass(frozen=True)
class HiddenMarkov:
    r"""Hidden chains on a ring of $C$ states, $s_{t+1} = s_t + k_t \bmod C$; the class $c$ is the likeliest step.

    In class 0 the state stays with probability 1 - `slow`; in class $c \ge 1$ it takes step $c$
    with probability `fast`; all other steps are equally likely. Two classes are slow and fast
    chains $s_t = \pm 1$. The first state is uniform, and so is every later one: single tokens do
    not depend on the class. Tokens are $x_t = v_{s_t} + \eta_t$ with a one-hot position, after a
    beginning-of-sequence token of zeros: `length` + 1 tokens of $N_0$ = `token_size` + `length` + 1
    features.

    Attributes:
        length: number of visible states of a chain, at least 2.
        token_size: entries of a token before the position, a multiple of $C$. $v_s$ is $\sqrt C$ on
            the $s$-th part of them ($v_+$ before $v_-$).
        slow: probability to change the hidden state in class 0.
        fast: probability of step $c$ in class $c \ge 1$.
        parallel_noise: $\sigma_\parallel$, noise within the space of the $v_s$.
        perpendicular_noise: $\sigma_\perp$, noise outside that space.
        hardness: $\beta$, the inverse temperature of every head's softmax.
        classes: $C$, number of classes and of hidden states, at least 2.

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
    classes: int = 2

    def __post_init__(self):
        for name in ("classes", "length", "token_size"):
            object.__setattr__(self, name, checks.whole(name, getattr(self, name), 2))
        if self.token_size % self.classes:
            raise ValueError(
                f"token_size: wanted a multiple of {self.classes}, as many entries for each state, got "
                f"{self.token_size}."
            )
        checks.positive("hardness", self.hardness)
        limits = {"parallel_noise": np.inf, "perpendicular_noise": np.inf, "slow": 1, "fast": 1}
        for name, most in limits.items():
            if not 0 <= (number := getattr(self, name)) <= most or number == np.inf:
                raise ValueError(f"{name}: wanted a number in [0, {most}], got {number!r}.")

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

    @property
    def steps(self) -> Float[np.ndarray, "classes steps"]:
        """The probability of every step in every class."""
        usual = np.array([1 - self.slow] + [self.fast] * (self.classes - 1), float)
        other = np.array([self.slow] + [1 - self.fast] * (self.classes - 1), float) / (self.classes - 1)
        return np.where(np.eye(self.classes, dtype=bool), usual[:, None], other[:, None])

    @property
    def transitions(self) -> Float[np.ndarray, "classes states states"]:
        """The transition matrices, from the state of the second axis to that of the third."""
        places = np.arange(self.classes)
        return self.steps[:, (places[None, :] - places[:, None]) % self.classes]

    def sample(self, key: Key, examples: int) -> HiddenMarkovSample:
        """Draw examples, as many of each class (the first classes have one more each), in random order.

        Raises:
            ValueError: fewer than one example.
        """
        key, examples = checks.key("key", key), checks.whole("examples", examples)
        noise, labels, hidden, states = _chains(key, self.steps, examples, self.length)
        inputs = _noisy(noise, states, self.states, float(self.parallel_noise), float(self.perpendicular_noise))
        return HiddenMarkovSample(inputs, labels, hidden)

    def trial(
        self,
        key: Key,
        examples: int = 100,
        test_examples: int = 1000,
        *,
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
        train, test = self.sample(train_key, examples), self.sample(test_key, test_examples)
        attention = attention_from_products(self.heads(heads_key) if products is None else products)
        seen, seen_test = (attentioned_inputs(data.inputs, attention, readout=readout) for data in (train, test))
        return HiddenMarkovTrial(seen, train.labels, seen_test, test.labels)

    def heads(self, key: Key) -> tuple[Float[Array, "_heads features features"], ...]:
        """Draw two layers: `step_head` of steps 0 .. C - 2 and a random head; the uniform head and a random head.

        Returns:
            Query-key products, arrays `(heads, features, features)` for `attention_from_products`.
        """
        designed = np.stack([self.step_head(step) for step in range(self.classes - 1)]), self.uniform_head()[None]
        random = (self.random_head(one)[None] for one in jax.random.split(checks.key("key", key)))
        return tuple(jnp.concatenate(pair) for pair in zip(designed, random, strict=True))

    def step_head(self, step: int) -> Float[np.ndarray, "features features"]:
        """Return a head of layer 1: attend one token back if the state took this step from there, else the empty token.

        Step 0, the same state, is the paper's.

        Raises:
            ValueError: no step in 0 .. C - 1.
        """
        step = checks.whole("step", step, 0, self.classes - 1)
        came = np.roll(np.eye(self.classes), step, axis=1)  # from the state of the row
        fit = (self.classes * came - 1) / (self.classes - 1)
        whole = self.states.sum(axis=0)
        dual = self.states / (whole @ whole / self.classes)
        positions = np.eye(self.tokens, k=1)
        # Query 1 has the empty token one step before it: the row of the empty token wins there.
        positions[0, 1:] = 1.5
        return self._product(dual.T @ fit @ dual, positions)

    def uniform_head(self) -> Float[np.ndarray, "features features"]:
        """Return a head of layer 2: attend all tokens alike."""
        return self._product(np.zeros((self.token_size,) * 2), np.ones((self.tokens,) * 2))

    def random_head(self, key: Key) -> Float[Array, "features features"]:
        """Draw a head of Gaussian entries, each block scaled so that its logits are of order one."""
        scale = np.repeat([self.token_size**-0.5, 1.0], [self.token_size, self.tokens])
        return jax.random.normal(checks.key("key", key), scale.shape * 2) * (self.hardness * np.outer(scale, scale))

    def _product(self, features, positions) -> Float[np.ndarray, "features features"]:
        zero = np.zeros((self.token_size, self.tokens))
        return self.hardness * np.block([[features, zero], [zero.T, positions]])


@quick_jit(static=("examples", "length"))
def _chains(key, steps, examples, length):
    """Draw chains; return a key for the noise, labels, and hidden states as in samples and as places in `states`."""
    order, first, switches, noise = jax.random.split(key, 4)
    count = len(steps)
    classes = jax.random.permutation(order, jnp.arange(examples) * count // examples)
    if count == 2:
        start = (1 - jax.random.rademacher(first, (examples, 1), dtype=int)) // 2
    else:
        start = jax.random.randint(first, (examples, 1), 0, count)
    # The unit interval is divided among the steps 1, 2, .., and the rest belongs to step 0.
    borders = jnp.cumsum(steps[classes][:, None, 1:], axis=-1)
    uniform = jax.random.uniform(switches, (examples, length - 1, 1))
    step = 1 + jnp.sum(uniform >= borders, axis=-1)
    states = (start + jnp.pad(jnp.cumsum(step, axis=1), ((0, 0), (1, 0)))) % count
    if count == 2:
        return noise, 1.0 - 2.0 * classes, 1.0 - 2.0 * states, states
    return noise, jax.nn.one_hot(classes, count, dtype=float) - 1 / count, states, states


@quick_jit()
def _noisy(key, which, states, parallel_noise, perpendicular_noise):
    """Return tokens of hidden states with noise, the empty token in front, and positions."""
    examples, length = which.shape
    white = jax.random.normal(key, (examples, length, states.shape[1]))
    states = states.astype(white.dtype)
    parallel = white @ states.T @ states / states.shape[1]
    tokens = states[which] + parallel_noise * parallel + perpendicular_noise * (white - parallel)
    tokens = jnp.pad(tokens, ((0, 0), (1, 0), (0, 0)))
    positions = jnp.broadcast_to(jnp.eye(length + 1), (examples, length + 1, length + 1))
    return jnp.concatenate([tokens, positions], axis=-1)
