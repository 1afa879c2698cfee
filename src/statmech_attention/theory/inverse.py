r"""Order parameters back to a point of the good coordinates: the factors $F_l$ of `coordinates`, from above.

$F_l F_l^\top = B^+ U^{(l)} B^{+\top}$ with $B = M_l \otimes A_{l+1}$, whose pseudo-inverse inverts
the mixing and then solves with the triangular factors above. Order parameters that no network of
these layers has are refused.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.compiling import quick_jit
from statmech_attention.layers.kind import mixed
from statmech_attention.theory.coordinates import Factors, order_parameter_factors
from statmech_attention.theory.kernels import check_semi_definite

_LARGEST_MISFIT = 1e-6  # of order parameters to their chain, relative


def point_of(order_parameters, factors: Factors, name: str = "order_parameters") -> Float[Array, " coordinates"]:
    """The good coordinates of given order parameters; the inverse of `coordinates.order_parameters`.

    Raises:
        ValueError: order parameters of other shapes, or that no network of these layers has, under
            the `name` that they have for the caller.
    """
    overlaps = _checked(order_parameters, factors, name)
    point, misfits = _point_and_misfits(overlaps, factors)
    if checks.concrete(misfits):
        # From above: a fault there spoils all below.
        for number, misfit in reversed(list(enumerate(np.asarray(misfits)))):
            if not misfit < _LARGEST_MISFIT:
                wanted = "one of a network of these layers" if np.isfinite(misfit) else "a positive definite matrix"
                raise ValueError(f"{name}[{number}]: wanted {wanted}, got another {factors.stages[number].name}.")
    return point


@quick_jit()
def _point_and_misfits(overlaps: list, factors: Factors):
    """The point of order parameters, and how far those at the point are from each of them, relative to its size."""
    relative: list = [None] * len(overlaps)
    for stage in reversed(range(len(overlaps))):

        def factor(overlap, stage=stage):
            # B^+ U B^+^T, which is F F^T
            half = _seeds_of(overlap, stage, relative, factors)
            return jnp.linalg.cholesky(_seeds_of(half.T, stage, relative, factors))

        relative[stage] = (jax.vmap(factor) if factors.stages[stage].inner else factor)(overlaps[stage])
    found = []
    for triangle, kept in zip(relative, factors.kept, strict=True):
        rows, columns = np.tril_indices(triangle.shape[-1], -1)
        free = rows >= kept
        diagonal = jnp.diagonal(triangle, axis1=-2, axis2=-1)[..., kept:]
        found += [jnp.log(diagonal).reshape(-1), triangle[..., rows[free], columns[free]].reshape(-1)]
    point = jnp.concatenate(found)
    pairs = zip(order_parameter_factors(point, factors), overlaps, strict=True)
    return point, jnp.stack([jnp.max(jnp.abs(one @ one.mT - two)) / jnp.max(jnp.abs(two)) for one, two in pairs])


def _seeds_of(rows: Float[Array, "partial columns"], stage: int, relative: list, factors: Factors):
    r"""The pseudo-inverse of `branch_rows` times `rows`, with the factors above."""
    (_, kind, inner), width = factors.stages[stage], rows.shape[1]
    if inner:
        return _solved(factors.scaled(stage, rows[None], -1)[0], stage + 1, relative, factors)
    seeds = mixed(np.linalg.pinv(factors.mixing(stage)), rows.reshape(kind.branches, -1, width))
    seeds = factors.scaled(stage, seeds, -1)
    if stage + 1 == len(relative):
        return seeds.reshape(-1, width)
    if kind.inner is None:
        return jnp.concatenate([_solved(one, stage + 1, relative, factors) for one in seeds])
    kept = [_solved(one, stage + 2, relative, factors) for one in seeds[: kind.keeps]]
    within = enumerate(seeds[kind.keeps :])
    return jnp.concatenate([*kept, *(_solved(one, stage + 1, relative, factors, block) for block, one in within)])


def _solved(
    rows: Float[Array, "partial columns"], stage: int, relative: list, factors: Factors, block: int | None = None
):
    """The pseudo-inverse of a stage's $A$, or of one of the $C$ of an inner stage, times `rows`."""
    factor = relative[stage] if block is None else relative[stage][block]
    return solve_triangular(factor, _seeds_of(rows, stage, relative, factors), lower=True)


def _checked(order_parameters, factors: Factors, given: str) -> list:
    """Validate types, sizes and symmetry; return the order parameters as matrices."""
    partial, outputs = factors.chain.partial_paths, factors.chain.readout.axes
    names = ", ".join(stage.name for stage in factors.stages)
    if not isinstance(order_parameters, (tuple, list)) or len(order_parameters) != len(factors.stages):
        raise ValueError(f"{given}: wanted a tuple of {len(factors.stages)}, {names}, got another object.")
    overlaps = []
    for number, (value, stage) in enumerate(zip(order_parameters, factors.stages, strict=True)):
        name, size = f"{given}[{number}]", partial[stage.place + stage.inner]
        scalar = stage.place == len(partial) - 1 and not outputs
        value = checks.array(name, value, "" if scalar else "heads " * stage.inner + "paths paths", double=True)
        value = value[None, None] if scalar else value
        shape = (*([stage.kind.value_matrices] if stage.inner else []), size, size)
        if value.shape != shape:
            raise ValueError(f"{name}: wanted {stage.name} of shape {shape}, got {value.shape}.")
        check_semi_definite(name, value)
        overlaps.append(value)
    return overlaps
