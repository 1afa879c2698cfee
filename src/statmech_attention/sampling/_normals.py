r"""The order parameters of narrow layers from standard normal numbers, without logarithms.

Of a layer with fewer neurons than rows, $N_l < d_l$, the last entry on the diagonal of Bartlett's factor is
$|\mathcal N(0, 1/N_l)|$. Its logarithm puts a wall where the entry vanishes, and what lies beyond the wall is another part of
the posterior: the rows below with the other sign in that column. A Markov chain in the logarithm hardly ever gets round it.

Here a layer has $N_l$ standard normal numbers for each free row of $F_l$, and narrow heads $d$ for each row of every $F_h$. Row $i$ is these numbers over $\sqrt{N_l}$, which is the
effective weights in a frame that the layers above fix; where $N_l > d_l$ it ends on the diagonal, at the norm of all that is left:
the same law, $\chi_{N_l - i}$, with $U = F F^\top$ as before, and no wall that separates anything.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.theory.coordinates import Factors, branch_rows, overlaps_of


def normal_count(widths: tuple[int, ...], factors: Factors) -> int:
    """Number of standard normal coordinates of a point: one per free row and neuron."""
    shapes = zip(widths, factors.blocks, factors.sizes, factors.kept, strict=True)
    return sum(width * blocks * (size - kept) for width, blocks, size, kept in shapes)


def order_parameters_of_normals(
    point: Float[Array, " numbers"], widths: tuple[int, ...], factors: Factors
) -> tuple[Float[Array, "..."], ...]:
    """$(U^{(1)}, .., U^{(L+1)})$ of standard normal numbers, the last a scalar for one output."""
    return overlaps_of(_factors(point, widths, factors), factors)


def order_parameter_of_normals(point, widths: tuple[int, ...], factors: Factors) -> Float[Array, "paths paths"]:
    """$U = U^{(1)}$ alone."""
    factor, *_ = _factors(point, widths, factors)
    return factor @ factor.T


def _factors(point, widths: tuple[int, ...], factors: Factors) -> list:
    """$A_1, .., A_{L+1}$, each `(partial paths, rank)`, and the $C_h$ of inner stages."""
    found, end = [jnp.ones((1, 1))], point.shape[0]
    shapes = zip(factors.stages, widths, factors.blocks, factors.sizes, factors.ranks, factors.kept, strict=True)
    for number, (stage, width, blocks, size, rank, kept) in reversed(list(enumerate(shapes))):
        start = end - width * blocks * (size - kept)
        numbers = point[start:end].reshape(blocks, size - kept, width) / np.sqrt(width)
        if stage.inner:
            factor = jax.vmap(lambda own, rank=rank: _rows(own, 0, rank))(numbers)
        else:
            factor = jnp.concatenate([jnp.eye(kept, rank), _rows(numbers[0], kept, rank)])
        found.insert(0, branch_rows(number, found, factors) @ factor)
        end = start
    return found[:-1]


def _rows(numbers: Float[Array, "free width"], kept: int, rank: int) -> Float[Array, "free rank"]:
    """The free rows of a layer's factor."""
    free, width = numbers.shape
    if width <= kept + free:  # as many columns as neurons
        return numbers
    place, column = kept + np.arange(free)[:, None], np.arange(width)[None, :]
    norms = jnp.sqrt(jnp.sum(jnp.where(column >= place, numbers, 0.0) ** 2, axis=1))
    lower = jnp.where(column < place, numbers, 0.0)[:, :rank]
    return jnp.where(column[:, :rank] == place, norms[:, None], lower)
