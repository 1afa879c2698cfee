"""Fixed points and periodic orbits of the mean field: onset of oscillations, period, orbit, Floquet multipliers."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Complex, Int

from statmech_attention import checks
from statmech_attention.dmft import _map
from statmech_attention.dmft._batches import in_pieces
from statmech_attention.dmft.averages import pair_correlations
from statmech_attention.dmft.lyapunov import jacobian
from statmech_attention.dmft.mean_field import advance
from statmech_attention.dmft.model import Dynamics, need_one
from statmech_attention.dmft.patterns import Patterns
from statmech_attention.dmft.windows import Window, window_from_attention


class Onset(NamedTuple):
    r"""Loss of stability of the silent fixed point of the network without positions.

    Attributes:
        beta: $\beta_0$; infinite if the fixed point is stable at all $\beta$.
        frequency: $\theta / 2 \pi$ per step, from 0 to 1/2, of the multiplier $e^{i \theta}$ that
            leaves the unit circle.
    """

    beta: float
    frequency: float


@checks.objects
def onset(patterns: Patterns) -> Onset:
    r"""Return the smallest $\beta$ at which
    $\lambda^L = \frac{\beta c}{L} \sum_{d<L} \lambda^{L-1-d}$, (N2), has $|\lambda| = 1$.

    For $\lambda = e^{i \theta}$ the sum is geometric,
    $\beta c = L\, e^{i (L+1) \theta / 2} \sin \frac{\theta}{2} / \sin \frac{L \theta}{2}$, (N2a):
    the angle of the eigenvalue $c$ of $C^{vo}$ gives $\theta$, its modulus $\beta$. With positions
    of weight $\epsilon$ and uniform attention the onset is at $\beta_0 / (1 - \epsilon)$, (N4).

    Args:
        patterns: `Patterns` with known values, not traced.
    """
    size, found = patterns.window, [Onset(np.inf, np.nan)]
    for c in np.linalg.eigvals(np.asarray(pair_correlations(patterns.value, patterns.output))):
        if abs(c) < 1e-12:
            continue
        for turn in range(-2 * size - 2, 2 * size + 3):
            theta = 2 * (np.angle(c) + np.pi * turn) / (size + 1)
            if not -1e-12 <= theta <= 2 * np.pi - 1e-12:
                continue
            up, down = np.sin(theta / 2), np.sin(size * theta / 2)
            ratio = 1 / size if theta < 1e-12 else up / down if abs(down) > 1e-12 else np.inf
            if np.isfinite(ratio) and (ratio > 0) == (turn % 2 == 0):
                frequency = theta / (2 * np.pi)
                found.append(Onset(float(size * abs(ratio) / abs(c)), float(min(frequency, 1 - frequency))))
    return min(found, key=lambda one: one.beta)


@checks.objects
def period(
    model: Dynamics, window: Window, *, longest: int = 1024, tolerance: float = 1e-9
) -> Int[np.ndarray, "*batch"]:
    r"""Return the smallest $p$ with $\max |X_{t+p} - X_t| \le$ `tolerance` and, unless $\epsilon = 0$, the same slot.

    Args:
        window: `Window` on the attractor; a transient above the tolerance hides a period.
        longest: the longest period looked for.
        tolerance: of every entry of the state.

    Returns:
        `(*batch,)`; 0 where the state does not return.
    """
    run = partial(
        _first_return, most=checks.whole("longest", longest), tolerance=checks.positive("tolerance", tolerance)
    )
    return np.asarray(in_pieces(run, model, window)).reshape(model.shape)


@checks.objects
def periodic_orbit(model: Dynamics, window: Window, period: int, *, max_steps: int = 50) -> Window:
    r"""Return a point of a periodic orbit, stable or not: $\Phi^p(X) = X$ by Newton's method with (B12).

    Args:
        model: `Dynamics` of one network.
        window: `Window` close to the orbit; its slot is kept.
        period: $p$; a multiple of $L$, unless $\epsilon = 0$.
        max_steps: of Newton's method.

    Raises:
        ValueError: a period that the slots do not have, no orbit found.
    """
    _one_orbit(model, period)
    state, slot, size = window.newest_first(), int(window.slot), model.window * model.features
    for _ in range(checks.whole("max_steps", max_steps)):
        matrices, there = _around(model, window_from_attention(model, state, slot=slot), period)
        product = np.eye(size)
        for matrix in matrices:
            product = matrix @ product
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
    r"""Return the eigenvalues of $J_{t+p-1} \cdots J_{t+1} J_t$, (B12), along a periodic orbit, largest first.

    They span more orders of magnitude than a product of matrices can hold. So an orthonormal basis
    is carried around the orbit until it returns to itself in blocks of multipliers of like modulus,
    and the eigenvalues are computed per block. $|\mu_i|^{1/p} = e^{\lambda_i}$. Multipliers that a
    single step shrinks by more than $10^{15}$ are rounding noise.

    Args:
        model: `Dynamics` of one network.
        window: a point of the orbit; see `periodic_orbit`.
        period: $p$.
        turns: times around the orbit for the basis to settle.

    Returns:
        `(L M,)` complex numbers.

    Raises:
        ValueError: a period that the slots do not have, a window off such an orbit.
    """
    _one_orbit(model, period)
    matrices, there = _around(model, window, period)
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


def _around(model: Dynamics, window: Window, period: int) -> tuple[list[np.ndarray], Window]:
    """Return the Jacobians of the next `period` steps, and the window after them."""
    matrices = []
    for _ in range(period):
        matrices.append(np.asarray(jacobian(model, window)))
        window = advance(model, window, steps=1)
    return matrices, window


def _block_ranges(turned) -> list[slice]:
    """Return the diagonal blocks that a turn around the orbit does not mix."""
    size = len(turned)
    edges = [0, *(place for place in range(1, size) if np.max(np.abs(turned[place:, :place])) < 1e-8), size]
    return [slice(start, stop) for start, stop in zip(edges, edges[1:], strict=False)]


def _eigenvalues(turned, triangles, block: slice):
    """Return the eigenvalues of the product on one block, whose scale is kept as a logarithm."""
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
            f"period: wanted a multiple of the window, {model.window}, got {period}: slots must return, too."
        )


@jax.jit
def _first_return(laws, rings, most, tolerance):
    size = rings.keys.shape[0]

    def body(number, state):
        rings, found = state
        rings, *_ = _map.step(laws, rings)
        back = jnp.max(jnp.abs(_map.newest_first(rings.attention, rings.slot, 0) - first), axis=(0, 1)) <= tolerance
        back = back & ((number % size == 0) | (laws.epsilon == 0))
        return rings, jnp.where((found == 0) & back, number, found)

    first = _map.newest_first(rings.attention, rings.slot, 0)
    return jax.lax.fori_loop(1, most + 1, body, (rings, jnp.zeros(first.shape[-1], dtype=int)))[1]
