r"""The law of the order parameters at finite width, in Bartlett's factors or in standard normals.

Given the layer above, the rows of the effective weights are Gaussian, so at every width
$U^{(l)} | U^{(l+1)} \sim \mathcal W_{d_l}(N_l, \Sigma_l / N_l)$ for a layer of heads. In the good
coordinates of the action the factors $F_l$ are independent: entry $i$ of the diagonal, counted from
0, is $\chi_{N_l - i} / \sqrt{N_l}$, the entries below are $\mathcal N(0, 1/N_l)$. If $N_l$ is
smaller than the number of rows, $F_l$ has only $N_l$ columns. In a layer with a skip the first rows
are known, and the others have the same law. Narrow heads have a stage of their own, with one factor
of this law per head and $d$ in place of $N_l$: widths below are those of all stages.

For $N_l < d_l$ the last entry on the diagonal is $|\mathcal N(0, 1/N_l)|$. Its logarithm puts a
wall where the entry vanishes, and beyond the wall lies another part of the posterior: the rows
below with the other sign in that column. A Markov chain in the logarithm hardly ever gets around
it. So narrow networks are sampled in $N_l$ standard normal numbers per free row of $F_l$, and $d$
per row of every $F_h$. Row $i$ is these numbers over $\sqrt{N_l}$, the effective weights in a frame
that the layers above fix; for $N_l > d_l$ it ends on the diagonal, at the norm of all remaining
numbers: the same law, with $U = F F^\top$ as before, and no wall.
"""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import gammaincinv, gammaln, ndtri

from statmech_attention.model.architecture import Architecture
from statmech_attention.sampling._chains import whole_widths
from statmech_attention.theory.levels.levels import Levels
from statmech_attention.theory.levels.paths import PathLevels, branch_rows, factor_shapes, overlaps_of


def bartlett(architecture: Architecture) -> PathLevels:
    """Shapes of the factors of a network with whole, finite widths."""
    return factor_shapes(architecture, whole_widths(architecture))


def prior_constant(widths, levels: Levels) -> float:
    """Constant that makes the two terms above minus the logarithm of a normalised density over points."""
    logs, widths = levels.logarithms, np.asarray(widths, float)[levels.stage]
    width, degrees = widths[logs], (widths - levels.place)[logs]
    chi = (degrees / 2 - 1) * math.log(2) + gammaln(degrees / 2) - degrees / 2 * np.log(width) + width / 2
    return float(np.sum(chi) - 0.5 * np.sum(np.log(widths[~logs] / (2 * math.pi))))


def prior_points(
    uniforms: Float[np.ndarray, "*points coordinates"], widths, levels: Levels
) -> Float[np.ndarray, "*points coordinates"]:
    """Points of the chain from uniform numbers in (0, 1), by the inverse of its distribution function."""
    logs, widths = levels.logarithms, np.asarray(widths, float)[levels.stage]
    points = ndtri(uniforms) / np.sqrt(widths)
    degrees = widths[logs] - levels.place[logs]
    points[..., logs] = 0.5 * np.log(2 * gammaincinv(degrees / 2, uniforms[..., logs]) / widths[logs])
    return points


def normal_count(widths: tuple[int, ...], factors: PathLevels) -> int:
    """Number of standard normal coordinates of a point: one per free row and neuron."""
    each = zip(widths, factors.shapes, strict=True)
    return sum(width * shape.blocks * (shape.size - shape.kept) for width, shape in each)


def order_parameters_of_normals(
    point: Float[Array, " numbers"], widths: tuple[int, ...], factors: PathLevels
) -> tuple[Float[Array, "..."], ...]:
    """$(U^{(1)}, .., U^{(L+1)})$ of standard normal numbers, the last a scalar for one output.

    From $A_1, .., A_{L+1}$, each `(partial paths, rank)`, and the $C_h$ of inner stages, from above. The
    numbers of the lowest stage come first.
    """
    chain, left = [jnp.ones((1, 1))], point
    for stage in reversed(range(len(widths))):
        shape, width = factors.shapes[stage], widths[stage]
        free = shape.size - shape.kept
        left, own = jnp.split(left, [len(left) - width * shape.blocks * free])
        numbers = own.reshape(shape.blocks, free, width) / np.sqrt(width)
        triangles = _rows(numbers, shape.kept, shape.rank)
        if not factors.chain.stages[stage].inner:  # one factor, below the rows that are kept
            triangles = jnp.concatenate([jnp.eye(shape.kept, shape.rank), triangles[0]])
        chain.insert(0, branch_rows(stage, chain, factors) @ triangles)
    return overlaps_of(chain[:-1], factors)


def _rows(numbers: Float[Array, "blocks free width"], kept: int, rank: int) -> Float[Array, "blocks free rank"]:
    """The free rows of a stage's factors."""
    _, free, width = numbers.shape
    if width <= kept + free:  # as many columns as neurons
        return numbers
    place, column = kept + np.arange(free)[:, None], np.arange(width)[None, :]
    norms = jnp.sqrt(jnp.sum(jnp.where(column >= place, numbers, 0.0) ** 2, axis=-1))
    lower = jnp.where(column < place, numbers, 0.0)[..., :rank]
    return jnp.where(column[:, :rank] == place, norms[..., None], lower)
