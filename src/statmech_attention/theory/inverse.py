r"""Order parameters back to a point of the good coordinates: the factors $F_l$ of `coordinates`, from above.

$F_l F_l^\top = B^+ U^{(l)} B^{+\top}$ with $B = M_l \otimes A_{l+1}$ from `branch_rows`. Order parameters
that no network of these layers has are refused.
"""

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.compiling import quick_jit
from statmech_attention.theory.coordinates import Factors, branch_rows
from statmech_attention.theory.kernels import check_semi_definite

_LARGEST_MISFIT = 1e-6  # of order parameters to their chain, relative


def point_of(order_parameters, factors: Factors, name: str = "order_parameters") -> Float[Array, " coordinates"]:
    """The good coordinates of given order parameters, called `name`; the inverse of `coordinates.order_parameters`."""
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
    above, parts, misfits = [jnp.ones((1, 1))], [], []
    for stage, overlap in reversed(list(enumerate(overlaps))):
        branches = branch_rows(stage, above, factors)
        orthogonal, triangle = jnp.linalg.qr(jnp.broadcast_to(branches, overlap.shape[:-2] + branches.shape[-2:]))
        half = solve_triangular(triangle, orthogonal.mT @ overlap)
        factor = jnp.linalg.cholesky(solve_triangular(triangle, orthogonal.mT @ half.mT))
        above.insert(0, orthogonal @ (triangle @ factor))
        misfits.insert(0, jnp.max(jnp.abs(above[0] @ above[0].mT - overlap)) / jnp.max(jnp.abs(overlap)))
        rows, columns = np.tril_indices(factor.shape[-1], -1)
        free, kept = rows >= factors.kept[stage], factors.kept[stage]
        diagonal = jnp.diagonal(factor, axis1=-2, axis2=-1)[..., kept:]
        parts = [jnp.log(diagonal).reshape(-1), factor[..., rows[free], columns[free]].reshape(-1), *parts]
    return jnp.concatenate(parts), jnp.stack(misfits)


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
