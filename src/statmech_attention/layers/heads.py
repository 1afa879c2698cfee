"""Attention heads: equation (2)."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from statmech_attention import checks
from statmech_attention.layers.kind import Layer, Narrow, root


@dataclass(frozen=True, repr=False)
class Heads(Layer):
    r"""$x^l = \frac{1}{\sqrt{N_l H}} \sum_h V^{(h)} x^{l-1} \Omega^{(h)}$, (2); a whole number in
    `layers` stands for it.

    With a value dimension $d$, as in `Heads(4, values=32)`, the layer is
    $x^l = \frac{1}{\sqrt{N_l d H}} \sum_h O^{(h)} V^{(h)} x^{l-1} \Omega^{(h)}$ with $V^{(h)}$ of
    $d$ rows and $O^{(h)}$ of $d$ columns, each with entries of variance $\sigma_l$: for
    $d \to \infty$ a full matrix of variance $\sigma_l^2$. The theory allows infinite $N_l$ with
    finite $d$, where only the order parameters within the heads move.

    Attributes:
        count: $H$, at least 1.
        values: $d \ge 1$, or None for full matrices; any number in the theory, a whole one for
            weights and samplers.

    Raises:
        ValueError: numbers out of range.
    """

    count: int
    values: int | float | None = field(default=None, kw_only=True)
    least: ClassVar[int] = 1

    def __post_init__(self):
        name = type(self).__name__
        object.__setattr__(self, "count", checks.whole(name, self.count, self.least))
        if self.values is None:
            return
        number = checks.positive(f"{name}, values", self.values)
        if not checks.concrete(number) or number < 1:
            raise ValueError(f"values: wanted a known head dimension of at least 1, got {number!r}. Leave values out.")
        number = int(number) if number == int(number) else number
        object.__setattr__(self, "values", number if self.count else None)  # without heads nothing is narrow

    def __repr__(self):
        narrow = "" if self.values is None else f", values={self.values}"
        return f"{type(self).__name__}(count={self.count}{narrow})"

    @property
    def inner(self):
        return self.values

    @property
    def skeleton(self):
        return self if self.values is None else replace(self, values=1)

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
    def shorthand(self):
        return self.count if type(self) is Heads and self.values is None else self

    def forward(self, values, hidden, matrix):
        if isinstance(values, Narrow):
            narrow = jnp.einsum("hkn,esn->ehsk", values.values, hidden)
            attended = jnp.einsum("ehsk,ehst->ehtk", narrow, matrix)
            scale = root(values.shape[0] * values.shape[2] * values.values.shape[1])
            return jnp.einsum("hmk,ehtk->etm", values.outputs, attended) / scale
        attended = jnp.einsum("esn,ehst->ehtn", hidden, matrix)
        return jnp.einsum("hmn,ehtn->etm", values, attended) / root(values.shape[0] * values.shape[2])

    def attended(self, columns, matrix):
        return jnp.einsum("ehst,edt->ehds", matrix, columns)
