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
from statmech_attention.theory.coordinates import Factors
from statmech_attention.theory.kernels import check_symmetric

_LARGEST_MISFIT = 1e-6  # of order parameters to their chain, relative


def point_of(order_parameters, factors: Factors) -> Float[Array, " coordinates"]:
    """The good coordinates of given order parameters; the inverse of `order_parameters`."""
    overlaps = _checked(order_parameters, factors)
    point, relative = _point_and_factors(overlaps, factors)
    if checks.concrete(*relative):
        # From above: a fault there spoils all below.
        for layer in reversed(range(len(overlaps))):
            _check_factor(overlaps[layer], relative[layer], layer, factors)
    return point


@quick_jit()
def _point_and_factors(overlaps: list, factors: Factors):
    """The point of order parameters, and their triangular factors $F_1, .., F_{L+1}$."""
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
    return jnp.concatenate(found), relative


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


def _checked(order_parameters, factors: Factors) -> list:
    """The order parameters as matrices of the right sizes."""
    partial, outputs = factors.chain.partial_paths, factors.chain.readout.axes
    last = "that of the outputs last" if outputs else "a scalar last"
    named = ", ".join(stage.name for stage in factors.stages)
    plain = len(partial) == len(factors.stages)
    wanted = f"({f'U^(1), .., U^({len(partial)})' if plain else named}) with {last}"
    if not isinstance(order_parameters, (tuple, list)):
        raise ValueError(f"order_parameters: wanted a tuple {wanted}, got {type(order_parameters).__name__}.")
    if len(order_parameters) != len(factors.stages):
        raise ValueError(f"order_parameters: wanted {len(factors.stages)}, {wanted}, got {len(order_parameters)}.")
    overlaps = []
    for number, (value, stage) in enumerate(zip(order_parameters, factors.stages, strict=True)):
        name = f"order_parameters[{number}]"
        scalar = stage.place == len(partial) - 1 and not outputs
        axes = "heads paths paths" if stage.inner else "paths paths"
        value = checks.array(name, value, "" if scalar else axes, double=True)
        value = value[None, None] if scalar else value
        size = partial[stage.place + stage.inner]
        shape = (*([stage.kind.value_matrices] if stage.inner else []), size, size)
        if value.shape != shape:
            raise ValueError(f"{name}: wanted {stage.name} of shape {shape}, got {value.shape}.")
        check_symmetric(name, value)
        overlaps.append(value)
    return overlaps


def _check_factor(overlap, factor, number: int, factors: Factors) -> None:
    """Refuse an order parameter that no network of these layers can have."""
    name, kept, (place, _, inner) = f"order_parameters[{number}]", factors.kept[number], factors.stages[number]
    factor = np.asarray(factor)
    if not np.all(np.isfinite(factor)):
        raise ValueError(f"{name}: wanted a positive definite {factors.stages[number].name}, got one that is not.")
    if inner:
        return
    if not np.allclose(factor[:kept], np.eye(kept, len(factor)), rtol=0, atol=_LARGEST_MISFIT):
        raise ValueError(
            f"{name}: wanted the block of U^({place + 1}) along the skip to be U^({place + 2}), got another."
        )
    mixing = factors.mixing(number)
    if mixing.shape[0] > mixing.shape[1]:
        projector = np.kron(mixing @ np.linalg.pinv(mixing), np.eye(len(overlap) // len(mixing)))
        if not np.allclose(projector @ overlap @ projector, overlap, rtol=0, atol=_LARGEST_MISFIT * np.max(overlap)):
            raise ValueError(
                f"{name}: wanted branches of U^({place + 1}) that share their values to be alike, got others."
            )
