r"""The interface of a kind of layer, from which the package derives everything else.

A chain is the input projection (1), layers $l = 1..L$, and a readout. Layer $l$ takes tokens of
width $N_l$ to tokens of width $N_{l+1}$. The theory reads the chain from above. Let
$w^p \in \mathbb R^{N_{l+1}}$ be the effective weights of the partial paths $p$ through the layers
above, $(h_{l+1}, .., h_L)$ and the output. The layer makes several rows of each, its *branches*:

    w^{bp} = sum_s M_bs g^{sp}  in R^{N_l},        b = 1..branches, s = 1..seeds.

The *seeds* $g^{sp}$ are $w^p V_s / (\sigma_l \sqrt{N_{l+1}})$, one for every value matrix $V_s$,
whose entries are $\mathcal N(0, \sigma_l^2)$ independently; a kind that `keeps` has one seed more,
the first, which is $w^p$ itself. The *mixing* $M$ holds numbers alone. A kind gives

(a) its forward map, `forward`, and the map of the readout's columns through its attention matrices,
    `attended`: (2), (7);
(b) `seeds`, `keeps` and `mixing`: with $U^{(l+1)} = A_{l+1} A_{l+1}^\top$ they give the order
    parameter,

        U^(l) = A_l A_l^T,      A_l = (M (x) A_{l+1}) F_l,

    with a lower triangular $F_l$ of one row for every seed and column of $A_{l+1}$. A kept seed has
    its rows in the span of $w$, where $F_l$ is known: its first rows are $[I\ 0]$, and stay so;
(c) from (b) alone, its entropy $|F_l|^2 - 2 \sum_i \ln F_{l,ii}$ over the rows that are not kept;
(d) from (b) alone, its exact law at finite width: entry $i$ of the diagonal, counted from 0 over
    all columns, is $\chi_{N_l - i} / \sqrt{N_l}$, what lies below is $\mathcal N(0, 1/N_l)$, and
    $F_l$ has as many columns as it has rows, but $N_l$ at most;
(e) the factor that a path takes from every branch, `gains` over the root of `divisor`: what all
    branches share goes into the divisor, so that plain heads have gains of 1; beside a skip, which
    has no $1/\sqrt H$, it stands in the gains;
(f) for weights: `value_matrices`, how many there are, in one array `(matrices, N_{l+1}, N_l)`, or
    in two, see below; all are Gaussian;
(g) for pruning: `branch_heads`, the head that a branch passes through; `with_heads`, the layer
    with some of its heads;
(h) `gates`, how many factors of every token a kind takes in place of attention; it acts on every token alone.

A kind whose values pass through a narrow space on their way, $V_s \to O_s V_s$ with $O_s$ of
`inner` $= d$ columns, has an *inner stage* of parallel blocks. The seeds are made in two steps,

    g^{sp} = O_s^T w^p / sqrt(N_{l+1})  in R^d,      V_s^T g^{sp} / sqrt(d)  in R^{N_l},

and every block has an order parameter of its own, $G_s = g^s \cdot g^s / d$; $g$ of different
blocks live in different spaces.

(i) From `inner` alone: entries of $O_s$ and of $V_s$ are $\mathcal N(0, \sigma_l)$, so that their
    product has the variance $\sigma_l^2$ that a matrix $V_s$ without an inner stage would have.
    With $C_s = \sigma_l^{1/2} A_{l+1} F_s$,

        G_s = C_s C_s^T,      A_l = (sum over seeds of M_bs C_s side by side) F_l,

    where $C_s = A_{l+1}$ for a kept seed, $M$ has $\sigma_l^{1/2}$ in place of $\sigma_l$ in it,
    and the $F_s$ are factors as $F_l$ is, of width $d$ in place of $N_l$, in (c) and (d).

A readout gives (b), and `axes`, the axes of a label. Nothing else in the package knows one kind
from another.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention import checks


class Kind(ABC):
    """(b): how the order parameter of a layer comes from that of the layer above."""

    keeps: ClassVar[bool] = False

    @property
    def inner(self) -> int | float | None:
        """$d$, the width of the inner stage that the seeds with values pass through; None without one."""
        return None

    @property
    def skeleton(self) -> Any:
        """The same kind with an inner width of 1, which determines shapes."""
        return self

    def weight_shapes(self, width_in: int, width_out: int) -> "tuple[int, int, int] | Narrow":
        """Shapes of the arrays of weights; of $V$ and $O$ for an inner stage."""
        if self.inner is None:
            return (self.value_matrices, width_out, width_in)
        count, inner = self.value_matrices, checks.whole("values, of weights", self.inner)
        shapes: Any = (count, inner, width_in), (count, width_out, inner)
        return Narrow(*shapes)

    @property
    @abstractmethod
    def value_matrices(self) -> int:
        """Number of Gaussian matrices: the seeds that are not kept."""

    def mixing(self, deviation: float) -> Float[np.ndarray, "branches seeds"]:
        r"""$M$, with the standard deviation $\sigma_l$ of the values in it; a kept seed comes first and without it.

        Here every branch is a seed of its own.
        """
        return np.diag([1.0] * self.keeps + [deviation] * self.value_matrices)

    @property
    def seeds(self) -> int:
        """Number of rows of independent origin per row above."""
        return self.keeps + self.value_matrices

    @property
    def branches(self) -> int:
        """Number of partial paths per partial path above."""
        return len(self.mixing(1.0))


class Layer(Kind):
    """A layer between the input projection and the readout; kinds are frozen dataclasses derived from it."""

    @property
    @abstractmethod
    def branch_heads(self) -> tuple[int, ...]:
        """For every branch the head that it passes through, counted from 0; -1 where it passes through none."""

    @property
    @abstractmethod
    def gains(self) -> tuple[float, ...]:
        """Factors of the branches in a path's coefficient, before division by the root of `divisor`."""

    @property
    @abstractmethod
    def divisor(self) -> int:
        r"""A whole number that divides the kernel: $H$ for the $1/\sqrt H$ of (2)."""

    @abstractmethod
    def forward(
        self,
        values: "Float[Array, 'matrices width_out width_in'] | Narrow",
        hidden: Float[Array, "examples tokens width_in"],
        matrix: Float[Array, "examples heads tokens tokens"] | Float[Array, "examples tokens gates"] | None,
    ) -> Float[Array, "examples tokens width_out"]:
        r"""$x^l$ from $x^{l-1}$, as in (2), $1/\sqrt{N_l}$ included; `matrix` is None without heads and gates."""

    @abstractmethod
    def attended(
        self,
        columns: Float[Array, "examples partial tokens"],
        matrix: Float[Array, "examples heads tokens tokens"] | Float[Array, "examples tokens gates"] | None,
    ) -> Float[Array, "examples branches partial tokens"]:
        r"""The columns $\Omega^{(l,h)} c$ of every branch $b$ and column $c$ from above, as in (7)."""

    @property
    def heads(self) -> int:
        """Attention matrices that the layer takes."""
        return len(set(self.branch_heads) - {-1})

    @property
    def gates(self) -> int:
        """Factors of every token that the layer takes; none where tokens meet."""
        return 0

    @property
    def fewest(self) -> int:
        """Number of heads that have to stay: one, unless a branch goes past them."""
        return int(-1 not in self.branch_heads)

    @property
    def shorthand(self):
        """The layer as an entry of `layers`."""
        return self

    def with_heads(self, heads: Sequence[int]) -> "Layer":
        """The layer with some heads, in the order given; by default only its `count` changes."""
        kind: Any = self  # a dataclass
        return replace(kind, count=len(heads)) if self.heads else self

    def keep(self, heads: Sequence[int]) -> "Part":
        """The rest of the layer with only some of its heads, in the order given."""
        beside = [branch for branch, head in enumerate(self.branch_heads) if head < 0]
        branches = (*beside, *(self.branch_heads.index(head) for head in heads))
        matrices = heads if self.value_matrices == self.heads else range(self.value_matrices)
        return Part(self.with_heads(heads), branches, tuple(matrices))


class Part(NamedTuple):
    """The rest of a layer: the smaller layer, and the branches and value matrices that stay."""

    layer: Layer
    branches: tuple[int, ...]
    matrices: tuple[int, ...]


class Readout(Kind):
    """The end of a chain: what reads the last layer's token out."""

    @property
    @abstractmethod
    def axes(self) -> tuple[int, ...]:
        """Axes of one example's label: none, or the number of outputs."""

    @property
    @abstractmethod
    def shorthand(self) -> tuple:
        """The readout as entries of `layers`, a tuple."""


def root(number: int) -> float:
    """A Python float keeps the arrays' own precision; a NumPy scalar would promote float32."""
    return float(np.sqrt(number))


class Narrow(NamedTuple):
    """Matrices $O^{(h)} V^{(h)}$ of rank $d$ in place of full value matrices."""

    values: Float[Array, "*batch _matrices _d _width_in"]
    outputs: Float[Array, "*batch _matrices _width_out _d"]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the products $O V$."""
        return (*self.outputs.shape[:-1], self.values.shape[-1])


def seeds_from(
    rows: Float[Array, "partial width_out"], weights: Float[Array, "matrices width_out width_in"] | Narrow, root=root
) -> tuple[Float[Array, "..."], ...]:
    r"""The seeds $V_s^\top w / \sqrt{N_{l+1}}$, `(matrices, partial, N_l)`, then those of an inner
    stage, `(matrices, partial, d)`.
    """
    if not isinstance(weights, Narrow):
        return (jnp.einsum("dm,hmn->hdn", rows, weights) / root(weights.shape[1]),)
    inner = jnp.einsum("dm,hmk->hdk", rows, weights.outputs) / root(rows.shape[1])
    return jnp.einsum("hdk,hkn->hdn", inner, weights.values) / root(inner.shape[2]), inner


def mixed(
    mixing: Float[np.ndarray, "branches seeds"], seeds: Float[Array, "seeds rows columns"]
) -> Float[Array, "..."]:
    """The branches $\\sum_s M_{bs} g^s$, `(branches, rows, columns)`."""
    diagonal = np.diagonal(mixing)
    if mixing.shape[0] == mixing.shape[1] and np.array_equal(mixing, np.diag(diagonal)):
        return jnp.asarray(diagonal, seeds.dtype)[:, None, None] * seeds
    return jnp.einsum("bs,sac->bac", jnp.asarray(mixing, seeds.dtype), seeds)
