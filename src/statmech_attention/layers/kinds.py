"""The kinds of layers: attention heads (2), alone or beside a skip; gated units; a linear block; readouts (4)."""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import jax.numpy as jnp

from statmech_attention import checks
from statmech_attention.layers.kind import Layer, Narrow, Readout, root


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


@dataclass(frozen=True, repr=False)
class SkipHeads(Heads):
    r"""$x^l = x^{l-1} + \frac{1}{\sqrt{N H}} \sum_h V^{(h)} x^{l-1} \Omega^{(h)}$: (2) beside a skip connection.

    A path goes along the skip, branch 0, or through a head. $U^{(l)}$ has $U^{(l+1)}$ in its first
    block.

    Attributes:
        count: $H$; a layer with 0 heads changes nothing.
        values: $d$, the dimension of a head's values, as for `Heads`; the skip has the full width.
    """

    keeps = True
    least = 0
    divisor = 1

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


@dataclass(frozen=True, repr=False)
class Gated(SkipHeads):
    r"""$x^l_t = x^{l-1}_t + \frac{1}{\sqrt{N M}} \sum_m O^{(m)} g^m_t V^{(m)} x^{l-1}_t$: a feed-forward block.

    Unit $m$ of a block $x + W_2 \varphi(W_1 x)$ has the activation $\varphi(h) = g(h)\, h$ with the gate
    $g(h) = \varphi(h) / h$, frozen at the values of a given network: the normal distribution function for GELU, a
    step for ReLU, the gate branch for GLU. So a unit is a head of value dimension one, $O^{(m)}$ a column of $W_2$
    and $V^{(m)}$ a row of $W_1$, whose attention $g^m_t \delta_{tt'}$ is diagonal. The mean of the order parameter is

        G_{l-1} = G_l + sigma_l^2 Gamma o G_l,      Gamma[mu t, nu s] = 1/M sum_m g^m_{mu t} g^m_{nu s}.

    Attributes:
        count: $M$, units; the layer takes gates `(examples, tokens, units)`, and no attention.
        values: 1, or None for units that the theory leaves at their prior, as if each had a full matrix: all of
            them can share a width, as many units do.

    Source: for gates common to all units Li, Sompolinsky, NeurIPS (2022); for layers ours.
    """

    values: int | float | None = field(default=1, kw_only=True)
    least = 1

    @property
    def gates(self):
        return self.count

    @property
    def branches(self):
        return 1 + self.count

    @property
    def branch_heads(self):
        return (-1,) * (1 + self.count)

    def forward(self, values, hidden, matrix):
        if isinstance(values, Narrow):
            units = jnp.einsum("mkn,etn->etmk", values.values, hidden)
            moved = jnp.einsum("mok,etmk->eto", values.outputs, matrix[..., None] * units)
            return hidden + moved / root(units.shape[2] * hidden.shape[2] * units.shape[3])
        moved = jnp.einsum("mon,etm,etn->eto", values, matrix, hidden, optimize="optimal")
        return hidden + moved / root(values.shape[0] * values.shape[2])

    def attended(self, columns, matrix):
        gated = matrix.swapaxes(1, 2)[:, :, None] * columns[:, None]
        return jnp.concatenate([columns[:, None], gated], axis=1)


@dataclass(frozen=True)
class Linear(Layer):
    r"""$x^l = \frac{1}{\sqrt{N_l}} V x^{l-1}$: one matrix for all tokens, without attention."""

    value_matrices = 1
    branch_heads = (-1,)
    gains = (1.0,)
    divisor = 1

    def forward(self, values, hidden, matrix):
        return jnp.einsum("mn,etn->etm", values[0], hidden) / root(values.shape[2])

    def attended(self, columns, matrix):
        return columns[:, None]


@dataclass(frozen=True)
class OneOutput(Readout):
    r"""$f(x) = a \cdot x^L_{t^*} / \sqrt{N_{L+1}}$, (4): the default readout. $U^{(L+1)}$ is a scalar."""

    value_matrices = 1
    axes = ()
    shorthand = ()


@dataclass(frozen=True)
class Outputs(Readout):
    r"""$f_c(x) = a_c \cdot x^L_{t^*} / \sqrt{N_{L+1}}$, $c = 1..C$: the last of `layers`.
    $U^{(L+1)}$ is a $C \times C$ matrix.

    Labels are `(examples, C)`. In $U$ the output is the fastest index of a path.

    Attributes:
        count: $C$, at least 1.
    """

    count: int

    def __post_init__(self):
        object.__setattr__(self, "count", checks.whole("Outputs", self.count))

    @property
    def value_matrices(self):
        return self.count

    @property
    def axes(self):
        return (self.count,)

    @property
    def shorthand(self):
        return (self,)
