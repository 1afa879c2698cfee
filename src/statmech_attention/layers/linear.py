"""A linear block: one matrix for all tokens."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from statmech_attention.layers.kind import Layer, root


@dataclass(frozen=True)
class Linear(Layer):
    r"""$x^l = \frac{1}{\sqrt{N_l}} V x^{l-1}$: as one head that attends from every token to itself; it takes no attention."""

    @property
    def value_matrices(self):
        return 1

    def mixing(self, deviation):
        return np.array([[deviation]])

    @property
    def branch_heads(self):
        return (-1,)

    @property
    def gains(self):
        return (1.0,)

    @property
    def divisor(self):
        return 1

    def forward(self, values, hidden, matrix):
        return jnp.einsum("mn,etn->etm", values[0], hidden) / root(values.shape[2])

    def attended(self, columns, matrix):
        return columns[:, None]
