"""Labels with a noise of their own: each example's variance in units of the temperature."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.theory.kernels.regression import Regression


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WeightedLabels:
    r"""Gaussian noise of variance $T \nu_\mu$, $Y \sim \mathcal N(0, K + T \nu)$.

    An example of weight $w$ has $\nu = 1 / w$. One that is seen $n$ times with the same label has $\nu = 1 / n$,
    up to a constant of the evidence.

    Attributes:
        noise: $\nu_\mu > 0$, `(examples,)`, of all outputs of an example.
    """

    noise: Float[Array | np.ndarray, " examples"]
    gaussian: ClassVar[bool] = True

    def checked(self, labels) -> "WeightedLabels":
        """The same with its noise as an array, one number per example."""
        noise = checks.array("noise", self.noise, "examples", double=True)
        checks.same("energy", "noises", len(noise), "examples", len(labels))
        if checks.concrete(noise) and np.min(np.asarray(noise)) <= 0:
            raise ValueError(f"noise: wanted positive numbers, got {np.min(np.asarray(noise)):g}. Leave examples out.")
        return WeightedLabels(noise)

    def fitted(self, kernel: Float[Array, "rows rows"], temperature: Any, labels) -> Regression:
        """Regression with $K + T \\nu$."""
        return Regression.of(kernel, temperature * jnp.repeat(self.noise, len(labels) // len(self.noise)), labels)

    def nats(self, kernel: Float[Array, "rows rows"], temperature: Any, labels) -> Float[Array, ""]:
        """(12) with $T \\nu$ in place of $T$."""
        return self.fitted(kernel, temperature, labels).nats
