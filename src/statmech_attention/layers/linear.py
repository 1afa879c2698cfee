"""A linear block: one matrix for all tokens."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from statmech_attention.layers.kind import Layer, root


@dataclass(frozen=True)
class Linear(Layer):
    r"""$x^l = \frac{1}{\sqrt{N_l}} V x^{l-1}$: one matrix for all tokens, without attention."""

    value_matrices = 1
    branch_heads = (-1,)
    gains = (1.0,)
    divisor = 1

    def mixing(self, deviation):
        return np.array([[deviation]])

    def forward(self, values, hidden, matrix):
        return jnp.einsum("mn,etn->etm", values[0], hidden) / root(values.shape[2])

    def attended(self, columns, matrix):
        return columns[:, None]
