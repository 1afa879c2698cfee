"""Hidden Markov chains of several classes: tell on a ring of states the step that is taken most often.

For two classes the chains are those of `hidden_markov`.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.arguments import Numbers, Whole
from statmech_attention.checks import Key
from statmech_attention.compiling import quick_jit
from statmech_attention.tasks._hidden_chains import HiddenChains, HiddenMarkovSample


@dataclass(frozen=True)
class HiddenMarkovClasses(HiddenChains):
    r"""Hidden chains on a ring of $C$ states, $s_{t+1} = s_t + k_t \bmod C$; the class $c$ is the likeliest step.

    In class 0 the state stays with probability 1 - `slow`, in class $c \ge 1$ it takes step $c$ with probability `fast`; all
    other steps are equally likely. The first state is uniform, and so is every later one: single tokens do not tell the class.
    Tokens are as in `HiddenMarkov`, whose chains these are for $C = 2$.

    Attributes:
        classes: $C$, number of classes and of hidden states, at least 2.
        length: number of visible states of a chain, at least 2.
        token_size: entries of a token before the position is appended, a multiple of $C$. $v_s$ is $\sqrt C$ on the $s$-th
            part of them.
        slow: probability to change the hidden state in class 0.
        fast: probability of step $c$ in class $c \ge 1$.
        parallel_noise: $\sigma_\parallel$, noise within the space of the $v_s$.
        perpendicular_noise: $\sigma_\perp$, noise outside that space.
        hardness: $\beta$, the inverse temperature of every head's softmax.

    Raises:
        ValueError: numbers out of range.
    """

    classes: int = 3
    length: int = 30
    token_size: int = 210
    slow: float | int = 0.3
    fast: float | int = 0.7
    parallel_noise: float | int = 1.0
    perpendicular_noise: float | int = 1.0
    hardness: float | int = 10.0

    @property
    def steps(self) -> Float[np.ndarray, "classes steps"]:
        """The probability of every step in every class."""
        usual = np.array([1 - self.slow] + [self.fast] * (self.classes - 1), float)
        same = np.eye(self.classes)
        return same * usual[:, None] + (1 - same) * (1 - usual[:, None]) / (self.classes - 1)

    @property
    def transitions(self) -> Float[np.ndarray, "classes states states"]:
        """The transition matrices, from the state of the second axis to that of the third."""
        places = np.arange(self.classes)
        return self.steps[:, (places[None, :] - places[:, None]) % self.classes]

    def sample(self, key: Key, examples: Whole) -> HiddenMarkovSample:
        r"""Draw examples, as many of each class (the first classes have one more each), in random order.

        Labels are one-hot less their mean, $y_{\mu c} = \delta_{c c_\mu} - 1/C$.

        Args:
            key: a JAX random key.
            examples: how many, at least 1.

        Returns:
            `HiddenMarkovSample`, with labels `(examples, classes)` and hidden states 0 .. $C - 1$.

        Raises:
            ValueError: fewer than one example.
        """
        key, examples = checks.key("key", key), checks.whole("examples", examples)
        noise, labels, hidden = _chains(key, self.steps, examples, self.length)
        return HiddenMarkovSample(self._inputs(noise, hidden), labels, hidden)

    def class_probabilities(self, inputs: Numbers) -> Float[Array, "examples classes"]:
        r"""$p(c \mid x)$ by the forward algorithm: $a_{t+1}(s') = p(x_{t+1} | s') \sum_s a_t(s)\, T^{(c)}_{s s'}$, $p(x|c) = \sum_s a_T(s)$.

        What somebody would say who knows how the data are drawn. No network can be right more often.

        Args:
            inputs: `(examples, tokens, features)`, as drawn by `sample`.

        Returns:
            Probabilities, `(examples, classes)`.

        Raises:
            ValueError: inputs of another shape.
        """
        inputs = checks.array("inputs", inputs, "examples tokens features")
        if inputs.shape[1:] != (self.tokens, self.features):
            raise ValueError(
                f"inputs: wanted {self.tokens} tokens of {self.features} features, got {inputs.shape[1:]}."
            )
        with np.errstate(divide="ignore"):
            logs = np.log(self.transitions)
        states = self.states / max(self.parallel_noise, 1e-6) ** 2
        return _class_probabilities(inputs[:, 1:, : self.token_size], states, logs)

    def _designed_heads(self) -> list[Float[np.ndarray, "features features"]]:
        """Heads for the steps 0 .. $C - 2$: the last one is what the others leave over. For two classes this is the paper's."""
        return [self.step_head(step) for step in range(self.classes - 1)]

    def step_head(self, step: Whole) -> Float[np.ndarray, "features features"]:
        """Look one token back if the state took this step from there, at the empty token otherwise.

        Args:
            step: 0 .. $C - 1$.

        Returns:
            `(features, features)`.

        Raises:
            ValueError: no such step.
        """
        if not checks.is_whole(step, 0) or step >= self.classes:
            raise ValueError(f"step: wanted a whole number in 0..{self.classes - 1}, got {step!r}.")
        came = np.roll(np.eye(self.classes), int(step), axis=1)  # from the state of the row
        fit = (self.classes * came - 1) / (self.classes - 1)
        dual = self.states / self.token_size
        return self._product(dual.T @ fit @ dual, self._one_step_back())


@quick_jit(static=("examples", "length"), effort=0)
def _chains(key, steps, examples, length):
    """A key for the noise, labels, and hidden states."""
    order, first, switches, noise = jax.random.split(key, 4)
    count = len(steps)
    classes = jax.random.permutation(order, jnp.arange(examples) * count // examples)
    start = jax.random.randint(first, (examples, 1), 0, count)
    # The unit interval is shared out to the steps 1, 2, .., and what is left to step 0.
    borders = jnp.cumsum(steps[classes][:, None, 1:], axis=-1)
    uniform = jax.random.uniform(switches, (examples, length - 1, 1))
    step = 1 + jnp.sum(uniform >= borders, axis=-1)
    hidden = (start + jnp.pad(jnp.cumsum(step, axis=1), ((0, 0), (1, 0)))) % count
    return noise, jax.nn.one_hot(classes, count, dtype=float) - 1 / count, hidden


@quick_jit()
def _class_probabilities(tokens, states, logs):
    """The forward algorithm, with feature vectors over the noise's variance and logarithms of the transition matrices."""
    # Up to what is the same for all states; noise outside the plane of states says nothing about them.
    fit = tokens @ states.T
    fit = fit - jnp.max(fit, axis=-1, keepdims=True)

    def step(forward, seen):
        arrived = jax.nn.logsumexp(forward[..., None] + logs[None], axis=-2)
        return arrived + seen[:, None], None

    begin = jnp.repeat(fit[:, None, 0], len(logs), axis=1)
    end, _ = jax.lax.scan(step, begin, jnp.moveaxis(fit[:, 1:], 1, 0))
    return jax.nn.softmax(jax.nn.logsumexp(end, axis=-1), axis=-1)
