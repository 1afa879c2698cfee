"""Periodic orbits of the mean field and their Floquet multipliers."""

import jax.numpy as jnp
import numpy as np

from statmech_attention import dmft


def periodic_orbit(model, window, period: int, *, max_steps: int = 50):
    r"""Point of a periodic orbit, stable or not, close to a window: $\Phi^p(X) = X$ by Newton's method with (B12)."""
    state, slot, size = window.newest_first(), int(window.slot), model.window * model.features
    for _ in range(max_steps):
        matrices, there = _around(model, dmft.window_from_attention(model, state, slot=slot), period)
        product = np.eye(size)
        for matrix in matrices:
            product = matrix @ product
        miss = np.asarray(there.newest_first() - state).ravel()
        if np.max(np.abs(miss)) < 1e-13:
            return there
        move = np.linalg.solve(product - np.eye(size), -miss)
        # Never further than the overlaps reach: far from the orbit a full step may leave the domain.
        state = state + (move / max(1.0, np.max(np.abs(move)))).reshape(state.shape)
    raise ValueError(f"window: wanted a point close to an orbit of period {period}, got none. Start closer to it.")


def floquet_multipliers(model, window, period: int, *, turns: int = 100) -> np.ndarray:
    r"""Eigenvalues of $J_{t+p-1} \cdots J_{t+1} J_t$, (B12), along a periodic orbit, largest first.

    They span more orders of magnitude than a product of matrices can hold. So an orthonormal basis
    is carried around the orbit until it returns to itself in blocks of multipliers of like modulus,
    and the eigenvalues are computed per block. $|\mu_i|^{1/p} = e^{\lambda_i}$. Multipliers that a
    single step shrinks by more than $10^{15}$ are rounding noise.
    """
    matrices, there = _around(model, window, period)
    miss = float(jnp.max(jnp.abs(there.newest_first() - window.newest_first())))
    if not miss < 1e-6:
        raise ValueError(
            f"window: wanted a point of an orbit of period {period}, got one that comes back {miss:.1e} away."
        )
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=matrices[0].shape))[0]
    for _ in range(turns):
        first, triangles = basis, []
        for matrix in matrices:
            basis, triangle = np.linalg.qr(matrix @ basis)
            triangles.append(triangle)
    found = [_eigenvalues(first.T @ basis, triangles, block) for block in _block_ranges(first.T @ basis)]
    values = np.concatenate(found)
    return values[np.argsort(-np.abs(values), kind="stable")]


def _around(model, window, period: int):
    """Return the Jacobians of the next `period` steps, and the window after them."""
    matrices = []
    for _ in range(period):
        matrices.append(np.asarray(dmft.jacobian(model, window)))
        window = dmft.advance(model, window, steps=1)
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
