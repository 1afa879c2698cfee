"""Attention heads, each with values of its own: equation (2)."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from statmech_attention import checks
from statmech_attention.layers.kind import Layer, root


@dataclass(frozen=True)
class Heads(Layer):
    r"""$x^l = \frac{1}{\sqrt{N_l H}} \sum_h V^{(h)} x^{l-1} \Omega^{(h)}$, (2); a whole number in `heads` stands for it.

    Attributes:
        count: $H$, at least 1.
    """

    count: int
    fewest = 1

    def __post_init__(self):
        object.__setattr__(self, "count", checks.whole("Heads", self.count))

    @property
    def value_matrices(self):
        return self.count

    def mixing(self, deviation):
        return deviation * np.eye(self.count)

    @property
    def branch_heads(self):
        return tuple(range(self.count))

    @property
    def gains(self):
        return (1.0,) * self.count

    @property
    def divisor(self):
        return self.count

    @property
    def spelled(self):
        return self.count if type(self) is Heads else self

    def forward(self, values, hidden, matrix):
        attended = jnp.einsum("esn,ehst->ehtn", hidden, matrix)
        return jnp.einsum("hmn,ehtn->etm", values, attended) / root(values.shape[0] * values.shape[2])

    def attended(self, columns, matrix):
        return jnp.einsum("ehst,edt->ehds", matrix, columns)
