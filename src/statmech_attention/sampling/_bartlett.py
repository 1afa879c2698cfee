r"""The Wishart chain of the order parameters at finite width, in Bartlett's factors.

Given the layer above, the rows of the effective weights are Gaussian, so at every width
$U^{(l)} | U^{(l+1)} \sim \mathcal W_{d_l}(N_l, \Sigma_l / N_l)$. In the good coordinates
$U^{(l)} = A_l A_l^\top$, $A_l = \sigma_l (I_{H_l} \otimes A_{l+1}) F_l$, the $F_l$ are independent: entry $i$ of the
diagonal, counted from 0, is $\chi_{N_l - i} / \sqrt{N_l}$, what lies below is $\mathcal N(0, 1/N_l)$. Where $N_l$ is
smaller than the number of partial paths, $F_l$ has only $N_l$ columns and the rest stays as it is.
A point is a flat vector as in `statmech_attention.action`: for $l = 1..L+1$ the logarithms of the diagonal, then what
lies below it; where no width is short of columns, the two are the same.
"""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import gammaln

from statmech_attention import _checks
from statmech_attention._architecture import Architecture


@dataclass(frozen=True)
class Bartlett:
    """Shapes of the factors: of layer $l$'s $F_l$ the rows `sizes` and columns `ranks`, $l = 1..L+1$."""

    heads: tuple[int, ...]
    variances: tuple[float, ...]
    sizes: tuple[int, ...]
    ranks: tuple[int, ...]

    @property
    def coordinates(self) -> int:
        """How many numbers a point has."""
        return sum(rank + below for rank, below in self.counts)

    @property
    def counts(self) -> tuple[tuple[int, int], ...]:
        """Entries on the diagonal and below it, a pair a layer."""
        return tuple(
            (rank, size * rank - rank * (rank + 1) // 2) for size, rank in zip(self.sizes, self.ranks, strict=True)
        )

    @property
    def full(self) -> bool:
        """Whether every order parameter has full rank, so that the coordinates are those of the action."""
        return self.sizes == self.ranks


def bartlett(layout: Architecture) -> Bartlett:
    """Shapes of the factors of a network with whole, finite widths."""
    for width in layout.widths:
        if not _checks.concrete(width) or not _checks.whole(width, 1):
            raise ValueError(
                f"width: wanted whole numbers of at least 1 to sample, got {width}. At infinite width there is nothing to "
                "sample: use statmech_attention.solve and predict."
            )
    sizes, ranks = [1], [1]
    for heads, width in zip(reversed(layout.heads), reversed(layout.widths[:-1]), strict=True):
        sizes.insert(0, heads * ranks[0])
        ranks.insert(0, min(int(width), sizes[0]))
    return Bartlett(layout.heads, layout.variances, tuple(sizes), tuple(ranks))


def full_rank(layout: Architecture) -> Bartlett:
    """Shapes of the factors where no width is short of columns, as in the action."""
    return Bartlett(layout.heads, layout.variances, layout.partial_paths, layout.partial_paths)


def factors(point: Float[Array, " coordinates"], shape: Bartlett) -> list:
    r"""The factors $A_1, .., A_{L+1}$ of the order parameters, $A_l$ of shape `(partial paths, rank)`."""
    found = []
    for size, (logs, lower) in zip(shape.sizes, _pieces(point, shape), strict=True):
        diagonal = np.diag_indices(logs.shape[0])
        factor = jnp.zeros((size, logs.shape[0])).at[diagonal].set(jnp.exp(logs))
        found.append(factor.at[np.tril_indices(size, -1, logs.shape[0])].set(lower))
    found[-1] = math.sqrt(shape.variances[-1]) * found[-1]
    for layer in reversed(range(len(shape.heads))):
        blocks = found[layer].reshape(shape.heads[layer], shape.ranks[layer + 1], shape.ranks[layer])
        scaled = math.sqrt(shape.variances[layer + 1]) * jnp.einsum("ab,hbc->hac", found[layer + 1], blocks)
        found[layer] = scaled.reshape(-1, shape.ranks[layer])
    return found


def order_parameters(point: Float[Array, " coordinates"], shape: Bartlett) -> tuple[Float[Array, "..."], ...]:
    """$(U^{(1)}, .., U^{(L)}, U^{(L+1)})$ at a point, the last a scalar."""
    overlaps = [factor @ factor.T for factor in factors(point, shape)]
    return (*overlaps[:-1], overlaps[-1][0, 0])


def order_parameter(point: Float[Array, " coordinates"], shape: Bartlett) -> Float[Array, "paths paths"]:
    """$U = U^{(1)}$ at a point."""
    factor = factors(point, shape)[0]
    return factor @ factor.T


def chain_potential(
    point: Float[Array, " coordinates"], widths: Float[Array, " layers"], shape: Bartlett
) -> Float[Array, ""]:
    r"""$\sum_l \frac{N_l}{2} (s_l - d_l)$: half of $N$ times the entropy of (11), less its minimum."""
    total = jnp.zeros(())
    for width, (logs, lower) in zip(widths, _pieces(point, shape), strict=True):
        total = total + 0.5 * width * (jnp.sum(jnp.expm1(2 * logs) - 2 * logs) + jnp.sum(lower**2))
    return total


def chain_order_one(point: Float[Array, " coordinates"], shape: Bartlett) -> Float[Array, ""]:
    r"""$\sum_l \sum_i i \ln F_{l,ii}$: what $-\ln p$ of the chain has besides, and the action leaves out."""
    return sum(jnp.sum(np.arange(logs.shape[0]) * logs) for logs, _ in _pieces(point, shape))


def prior_constant(widths, shape: Bartlett) -> float:
    """What the two terms above lack to be minus the logarithm of a normalised density over points."""
    total = 0.0
    for width, (rank, below) in zip(np.asarray(widths, float), shape.counts, strict=True):
        degrees = width - np.arange(rank)
        chi = (degrees / 2 - 1) * math.log(2) + gammaln(degrees / 2) - degrees / 2 * math.log(width) + width / 2
        total += float(np.sum(chi)) - 0.5 * below * math.log(width / (2 * math.pi))
    return total


def _pieces(point, shape: Bartlett) -> list:
    """Logarithms of the diagonal and what lies below it, a pair a layer."""
    found, start = [], 0
    for rank, below in shape.counts:
        found.append((point[start : start + rank], point[start + rank : start + rank + below]))
        start += rank + below
    return found
