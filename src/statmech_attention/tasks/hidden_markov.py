"""Hidden Markov chains: tell slow chains from fast ones through noise.

Section 4.1 and appendix G of Tiberi et al. (2024): the data, and heads given by their query-key products.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from statmech_attention import checks
from statmech_attention.arguments import Whole
from statmech_attention.checks import Key
from statmech_attention.compiling import quick_jit
from statmech_attention.tasks._hidden_chains import HiddenChains, HiddenMarkovSample


@dataclass(frozen=True)
class HiddenMarkov(HiddenChains):
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

    classes = 2  # and states, v_+ before v_-
    length: int = 30
    token_size: int = 200
    slow: float | int = 0.3
    fast: float | int = 0.7
    parallel_noise: float | int = 1.0
    perpendicular_noise: float | int = 1.0
    hardness: float | int = 10.0

    def sample(self, key: Key, examples: Whole) -> HiddenMarkovSample:
        """Draw examples, half of each class (an odd one out is slow), in random order.

        Args:
            key: a JAX random key.
            examples: how many, at least 1.

        Returns:
            `HiddenMarkovSample`.

        Raises:
            ValueError: fewer than one example.
        """
        key, examples = checks.key("key", key), checks.whole("examples", examples)
        noise, labels, hidden, states = _chains(key, float(self.slow), float(self.fast), examples, self.length)
        return HiddenMarkovSample(self._inputs(noise, states), labels, hidden)

    def _designed_heads(self) -> list[Float[np.ndarray, "features features"]]:
        """The paper's: `neighbour_head` alone."""
        return [self.neighbour_head()]

    def neighbour_head(self) -> Float[np.ndarray, "features features"]:
        """Designed head of layer 1: look one token back if its state is the same, at the empty token otherwise."""
        difference = self.states[0] - self.states[1]
        # Signs of states: +-1 on noiseless tokens.
        sign = difference / (difference @ difference / 2)
        return self._product(np.outer(sign, sign), self._one_step_back())


@quick_jit(static=("examples", "length"), effort=0)
def _chains(key, slow, fast, examples, length):
    """A key for the noise, labels, hidden states as signs and as places in `HiddenMarkov.states`."""
    order, first, switches, noise = jax.random.split(key, 4)
    labels = jax.random.permutation(order, jnp.where(jnp.arange(examples) < (examples + 1) // 2, 1.0, -1.0))
    rate = jnp.where(labels > 0, slow, fast)
    start = jax.random.rademacher(first, (examples, 1), dtype=float)
    switched = jax.random.uniform(switches, (examples, length - 1)) < rate[:, None]
    hidden = jnp.concatenate([start, start * jnp.cumprod(jnp.where(switched, -1.0, 1.0), axis=1)], axis=1)
    return noise, labels, hidden, (hidden < 0).astype(int)
