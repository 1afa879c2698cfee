"""Attention heads beside a skip connection: a residual layer."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from statmech_attention.layers.heads import Heads


@dataclass(frozen=True, repr=False)
class SkipHeads(Heads):
    r"""$x^l = x^{l-1} + \frac{1}{\sqrt{N H}} \sum_h V^{(h)} x^{l-1} \Omega^{(h)}$: (2) beside a skip connection.

    A path goes along the skip, branch 0, or through a head. $U^{(l)}$ has $U^{(l+1)}$ in its first
    block.

    Attributes:
        count: $H$; a layer with 0 heads changes nothing.
        values: $d$, the dimension of a head's values, as for `Heads`; the skip has the full width.

    Raises:
        ValueError: numbers out of range.
    """

    keeps = True
    least = 0
    divisor = 1

    def mixing(self, deviation):
        return np.diag([1.0] + [deviation] * self.count)

    @property
    def branch_heads(self):
        return (-1, *range(self.count))

    @property
    def gains(self):
        return (1.0, *(1 / math.sqrt(self.count) for _ in range(self.count)))

    def forward(self, values, hidden, matrix):
        return hidden + super().forward(values, hidden, matrix) if self.count else hidden

    def attended(self, columns, matrix):
        along = columns[:, None]
        return jnp.concatenate([along, super().attended(columns, matrix)], axis=1) if self.count else along
