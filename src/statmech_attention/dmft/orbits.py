"""Periodic orbits of the mean field: their period, the orbit itself, and its Floquet multipliers."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Complex, Int

from statmech_attention import checks
from statmech_attention.dmft import _map
from statmech_attention.dmft._batches import in_pieces
from statmech_attention.dmft.lyapunov import jacobian
from statmech_attention.dmft.mean_field import advance
from statmech_attention.dmft.model import Dynamics, need_one
from statmech_attention.dmft.windows import Window, newest_first, window_from_attention


@checks.objects
def period(
    model: Dynamics, window: Window, *, longest: int = 1024, tolerance: float = 1e-9
) -> Int[np.ndarray, "*batch"]:
    r"""The smallest $p$ with $\max |X_{t+p} - X_t| \le$ `tolerance` and, unless $\epsilon = 0$, the slot of $t$ again.

    Args:
        model: `Dynamics`.
        window: on the attractor; a transient that has not died out to the tolerance hides a period.
        longest: the longest period looked for.
        tolerance: of every entry of the state.

    Returns:
        `(*batch,)`; 0 where the state does not come back.

    Raises:
        ValueError: numbers out of range, a window of another shape than the model's.
    """
    run = partial(
        _first_return, most=checks.whole("longest", longest), tolerance=checks.positive("tolerance", tolerance)
    )
    return np.asarray(in_pieces(run, model, window)).reshape(model.shape)


@checks.objects
def periodic_orbit(model: Dynamics, window: Window, period: int, *, max_steps: int = 50) -> Window:
    r"""A point of a periodic orbit, stable or not: $\Phi^p(X) = X$ by Newton's method, with the Jacobian (B12).

    Args:
        model: `Dynamics` of one network.
        window: a point close by; its slot is kept.
        period: $p$; a multiple of $L$, unless $\epsilon = 0$.
        max_steps: of Newton's method.

    Returns:
        `Window` on the orbit.

    Raises:
        ValueError: a batch of networks, a period that the slots do not have; no orbit found.
    """
    _one_orbit(model, period)
    state, slot, size = window.newest_first(), int(window.slot), model.window * model.features
    for _ in range(checks.whole("max_steps", max_steps)):
        here = window_from_attention(model, state, slot=slot)
        there, product = here, np.eye(size)
        for _ in range(period):
            product = np.asarray(jacobian(model, there)) @ product
            there = advance(model, there, steps=1)
        miss = np.asarray(there.newest_first() - state).ravel()
        if np.max(np.abs(miss)) < 1e-13:
            return there
        move = np.linalg.solve(product - np.eye(size), -miss)
        # Never further than the overlaps reach: far from the orbit a full step may leave the domain.
        state = state + (move / max(1.0, np.max(np.abs(move)))).reshape(state.shape)
    raise ValueError(
        f"window: wanted a point close to an orbit of period {period}, got none within {max_steps} steps of Newton's "
        f"method (miss {np.max(np.abs(miss)):.1e}). Start closer, from a window that `advance` has brought there."
    )


@checks.objects
def floquet_multipliers(
    model: Dynamics, window: Window, period: int, *, turns: int = 100
) -> Complex[np.ndarray, " state"]:
    r"""Eigenvalues of $J_{t+p-1} \cdots J_{t+1} J_t$ along a periodic orbit, of (B12), the largest first.

    They span far more orders of magnitude than a product of matrices can hold. So an orthonormal basis is carried around the orbit
    until it comes back to itself, in blocks of multipliers of like modulus; each block's eigenvalues are computed by
    themselves. $|\mu_i|^{1/p} = e^{\lambda_i}$. Multipliers that a single step shrinks by more than $10^{15}$ are rounding noise.

    Args:
        model: `Dynamics` of one network.
        window: a point of the orbit; see `periodic_orbit`.
        period: $p$.
        turns: times around the orbit for the basis to settle.

    Returns:
        `(L M,)` complex numbers.

    Raises:
        ValueError: a batch of networks, a period that the slots do not have, a window that is not on such an orbit.
    """
    _one_orbit(model, period)
    matrices, there = [], window
    for _ in range(period):
        matrices.append(np.asarray(jacobian(model, there)))
        there = advance(model, there, steps=1)
    miss = float(jnp.max(jnp.abs(there.newest_first() - window.newest_first())))
    if not miss < 1e-6:
        raise ValueError(
            f"window: wanted a point of an orbit of period {period}, got one that comes back {miss:.1e} away. "
            "Take it from periodic_orbit, or advance it further."
        )
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=matrices[0].shape))[0]
    for _ in range(checks.whole("turns", turns)):
        first, triangles = basis, []
        for matrix in matrices:
            basis, triangle = np.linalg.qr(matrix @ basis)
            triangles.append(triangle)
    found = [_eigenvalues(first.T @ basis, triangles, block) for block in _block_ranges(first.T @ basis)]
    values = np.concatenate(found)
    return values[np.argsort(-np.abs(values), kind="stable")]


def _block_ranges(turned) -> list[slice]:
    """Diagonal blocks that a turn around the orbit does not mix."""
    size, edges = len(turned), [0]
    for place in range(1, size):
        if np.max(np.abs(turned[place:, :place])) < 1e-8:
            edges.append(place)
    return [slice(start, stop) for start, stop in zip(edges, [*edges[1:], size], strict=True)]


def _eigenvalues(turned, triangles, block: slice):
    """Of the product on one block: all factors are block triangular. The scale is kept as a logarithm."""
    product, logarithm = np.eye(block.stop - block.start), 0.0
    for triangle in triangles:
        product = triangle[block, block] @ product
        scale = np.max(np.abs(product))
        if scale == 0:
            return np.zeros(len(product), complex)
        product, logarithm = product / scale, logarithm + np.log(scale)
    return np.linalg.eigvals(turned[block, block] @ product).astype(complex) * np.exp(logarithm)


def _one_orbit(model: Dynamics, period) -> None:
    """Refuse a batch of networks, and periods that the slots do not have."""
    need_one(model)
    checks.whole("period", period)
    if period % model.window and float(model.epsilon) != 0:
        raise ValueError(
            f"period: wanted a multiple of the window, {model.window}, got {period}: slots have to come back, too."
        )


@jax.jit
def _first_return(laws, rings, most, tolerance):
    size = rings.keys.shape[0]

    def body(number, state):
        rings, found = state
        rings, *_ = _map.step(laws, rings)
        back = jnp.max(jnp.abs(newest_first(rings.attention, rings.slot, 0) - first), axis=(0, 1)) <= tolerance
        back = back & ((number % size == 0) | (laws.epsilon == 0))
        return rings, jnp.where((found == 0) & back, number, found)

    first = newest_first(rings.attention, rings.slot, 0)
    return jax.lax.fori_loop(1, most + 1, body, (rings, jnp.zeros(first.shape[-1], dtype=int)))[1]
