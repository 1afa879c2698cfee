r"""Labels of classes, $p(y = \pm 1 | f) = 1 / (1 + e^{-y f / T})$, by Laplace's approximation in the outputs.

At the mode $\hat f$ of $\ln p(Y | f) - \frac12 f^\top K^{-1} f$, with $W = -\partial^2 \ln p(Y | f)$ there,

    ln p(Y | K) = ln p(Y | f) - 1/2 f^T K^-1 f - 1/2 ln det(1 + W^1/2 K W^1/2),

and new outputs are those of a regression on the targets $\hat f + W^{-1} \nabla \ln p$ with the noise $W^{-1}$.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.theory.kernels.regression import Regression

_STEPS = 100  # of Newton's method at most
_STILL = 1e-10  # a step that ends it
_EXACT = 2  # further steps, which have the mode's first two derivatives


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LogisticLabels:
    """Classes +1 and -1 of every output; the temperature is the scale of an output.

    Source: Rasmussen and Williams, "Gaussian processes for machine learning" (2006), section 3.4.
    """

    gaussian: ClassVar[bool] = False

    def checked(self, labels) -> "LogisticLabels":
        """The same, for labels that are all +1 or -1."""
        checks.labels(labels, len(labels), signs=True, axes=labels.shape[1:])
        return self

    def fitted(self, kernel: Float[Array, "rows rows"], temperature: Any, labels) -> Regression:
        """Regression on the targets at the mode."""
        outputs = kernel @ _mode(kernel, temperature, labels)
        slope, curvature = _slopes(outputs, temperature, labels)
        return Regression.of(kernel, 1 / curvature, outputs + slope / curvature)

    def nats(self, kernel: Float[Array, "rows rows"], temperature: Any, labels) -> Float[Array, ""]:
        """Laplace's approximation, twice differentiable in everything."""
        solved = _mode(kernel, temperature, labels)
        outputs = kernel @ solved
        _, curvature = _slopes(outputs, temperature, labels)
        volume = Regression.of(kernel, 1 / curvature, outputs).logdet + jnp.sum(jnp.log(curvature))
        likelihood = jnp.sum(jax.nn.log_sigmoid(labels * outputs / temperature))
        return volume + solved @ outputs - 2 * likelihood - len(labels) * jnp.log(2 * jnp.pi)


def _slopes(outputs, temperature, labels):
    """Gradient and minus the curvature of the log likelihood, which is kept positive."""
    chance = jax.nn.sigmoid(-labels * outputs / temperature)
    return labels * chance / temperature, jnp.maximum(chance * (1 - chance), 1e-12) / temperature**2


def _mode(kernel, temperature, labels) -> Float[Array, " rows"]:
    """$K^{-1} \\hat f$ by Newton's method."""

    def newton(solved, kernel, temperature):
        outputs = kernel @ solved
        slope, curvature = _slopes(outputs, temperature, labels)
        return Regression.of(kernel, 1 / curvature, outputs).solve(outputs + slope / curvature)

    def better(carry):
        solved, _, count = carry
        step = newton(solved, *still) - solved
        return solved + step, jnp.max(jnp.abs(step)), count + 1

    still = jax.lax.stop_gradient((kernel, temperature))
    start = jnp.zeros_like(labels), jnp.asarray(jnp.inf), 0
    solved, *_ = jax.lax.while_loop(lambda carry: (carry[1] > _STILL) & (carry[2] < _STEPS), better, start)
    for _ in range(_EXACT):
        solved = newton(solved, kernel, temperature)
    return solved
