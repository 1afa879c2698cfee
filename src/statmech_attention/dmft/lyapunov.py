r"""Lyapunov exponents of the mean field, and the regime of an attractor.

The state is $X_t = (\hat A_t, .., \hat A_{t-L+1})$, $ML$ numbers. The slots advance whatever the
state; their exponents, all zero, are left out.
"""

from enum import IntEnum
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from statmech_attention import checks
from statmech_attention.dmft import _map
from statmech_attention.dmft.model import Dynamics, laws_of, need_dynamics
from statmech_attention.dmft.windows import Window, after_attention, batch_first, rings_of, window_of

# Exponents per step within it count as zero: it is above what 10,000 steps leave undecided on a torus.
THRESHOLD = 5e-4
_BLOCKS = 10  # parts of a run whose scatter gives the errors
_ERRORS = 3.0  # standard errors on either side of an exponent that may be


class Regime(IntEnum):
    """Kind of an attractor; UNDECIDED where the errors of its exponents allow more than one."""

    PERIODIC = 0
    QUASI_PERIODIC = 1
    CHAOTIC = 2
    HYPERCHAOTIC = 3
    UNDECIDED = 4


class LyapunovSpectrum(NamedTuple):
    r"""Lyapunov exponents with their errors.

    Attributes:
        exponents: `(*batch, count)`, $\lambda_1, \lambda_2, ..$ per step.
        errors: standard errors, from averages over blocks of the run; they do not contain a
            transient that is not yet over.
        rounding: bound on the shift by rounding. Where attention is all but one-hot, the map
            forgets most directions at once; exponents below those of the few left are rounding
            noise, too large.
        window: the last `Window`, from which a run can go on.
    """

    exponents: Float[Array, "*batch count"]
    errors: Float[Array, "*batch count"]
    rounding: Float[Array, "*batch count"]
    window: Window


def jacobian(model: Dynamics, window: Window) -> Float[Array, "*batch state state"]:
    r"""Return $\partial X_{t+1} / \partial X_t$, (B12).

    With the newest attention as $d = 0$ and $g = \gamma / \sqrt M$, the rows of $\hat A_{t+1}$ are
    $w_d V^{(d)}_{ac} + w_d (v_{d,a} - \hat A_a)\, g \sum_b q_b K^{(d)}_{bc}
    + \delta_{d0} \sum_\tau w_\tau (v_{\tau,a} - \hat A_a)\, g \sum_b k_{\tau,b} Q_{bc}$,
    $X^{(d)}_{bc} = (1-\epsilon) \beta \langle W^x_b W^o_c (1 - \tanh^2) \rangle$. The other rows
    are ones below the diagonal.

    Args:
        window: `Window`, of which $\hat A$ alone is used: all tokens are generated from it.

    Returns:
        `(*batch, L M, L M)`; row and column $dM + a$ are $\hat A_{a,t-d}$.
    """
    return batch_first(_jacobian(laws_of(model), rings_of(window, model)), model.shape)


def lyapunov_spectrum(
    model: Dynamics,
    window: Window,
    *,
    steps: int,
    count: int | None = None,
    discard: int = 1000,
) -> LyapunovSpectrum:
    r"""Return $\lambda_i = \frac1T \sum_t \ln |R_{t,ii}|$, where $Q_{t+1} R_t = J_t Q_t$ with the Jacobian (B12).

    Args:
        window: the initial `Window`, past the transient; see `advance`.
        steps: $T$, rounded up to a multiple of 10, the parts whose scatter gives the errors: each
            should be longer than correlations last.
        count: number of exponents, the largest; if None, all $ML$. Two cost far less than twelve.
        discard: steps in which the directions turn before averages begin.
    """
    size = need_dynamics(model).window * model.features
    steps, discard = checks.whole("steps", steps), checks.whole("discard", discard, 0)
    count = checks.whole("count", size if count is None else count, 1, size)  # numbers in the state
    sizes = dict(length=-(-steps // _BLOCKS), discard=discard, count=count)
    rings, means, rounding = _spectrum(laws_of(model), rings_of(window, model), **sizes)
    exponents = jnp.mean(means, axis=0)
    # A map that forgets a direction altogether has an exponent of minus infinity, without error.
    errors = jnp.std(jnp.where(jnp.isfinite(means), means, 0.0), axis=0, ddof=1) / np.sqrt(_BLOCKS)
    errors = jnp.where(jnp.isfinite(exponents), errors, 0.0)
    exponents, errors, rounding = (batch_first(part, model.shape) for part in (exponents, errors, rounding))
    return LyapunovSpectrum(exponents, errors, rounding, window_of(rings, model))


def regimes(spectrum: LyapunovSpectrum, *, threshold: float = THRESHOLD) -> Int[np.ndarray, "*batch"]:
    r"""Classify attractors by $\lambda_1$ and $\lambda_2$, which count as zero within `threshold`.

    Periodic: $\lambda_1$ negative. Quasi-periodic: $\lambda_1$ zero. Chaotic: $\lambda_1$ positive,
    $\lambda_2$ not. Hyperchaotic: both positive. Undecided: three standard errors (and rounding) on
    either side of the exponents allow more than one of these.

    Args:
        spectrum: at least two exponents.
        threshold: per step; it has to exceed the $O(1/T)$ of a transient or of slowly turning
            directions.

    Returns:
        `Regime` as whole numbers, `(*batch,)`.
    """
    checks.instance("spectrum", spectrum, LyapunovSpectrum, instead="Write dmft.lyapunov_spectrum(model, window, ..).")
    threshold = checks.positive("threshold", threshold)
    middle = np.asarray(spectrum.exponents)
    doubt = _ERRORS * np.asarray(spectrum.errors) + np.asarray(spectrum.rounding)
    low, high = middle - doubt, middle + doubt
    positive, not_positive = low > threshold, high < threshold
    answers = {
        Regime.PERIODIC: high[..., 0] < -threshold,
        Regime.QUASI_PERIODIC: (low[..., 0] > -threshold) & not_positive[..., 0],
        Regime.CHAOTIC: positive[..., 0] & not_positive[..., 1],
        Regime.HYPERCHAOTIC: positive[..., 0] & positive[..., 1],
    }
    return np.select(list(answers.values()), list(answers), Regime.UNDECIDED).astype(int)


@jax.jit
def _jacobian(laws, rings):
    size, features, batch = rings.keys.shape
    axes = jnp.eye(size * features).reshape(-1, size, features, 1)
    axes = jnp.broadcast_to(_map.newest_first(axes, rings.slot, 1), (*axes.shape[:3], batch))
    tangent = _map.begin_tangent(laws, after_attention(laws, rings.attention, rings.slot), axes)
    tangent = _map.step_tangent(laws, tangent)
    columns = _map.newest_first(tangent.directions, tangent.rings.slot, 1)
    return jnp.moveaxis(columns.reshape(size * features, size * features, batch), 0, 1)


@jax.jit(static_argnames="count")
def _spectrum(laws, rings, *, length, discard, count):
    size, features, batch = rings.keys.shape
    # Directions with a part along everything: those of the axes could stay within an invariant subspace.
    first = np.linalg.qr(np.random.default_rng(0).normal(size=(size * features, count)))[0].T
    directions = jnp.broadcast_to(first.reshape(count, size, features, 1), (count, size, features, batch))

    def turn(_, state):
        tangent, logs, rounding = state
        tangent = _map.step_tangent(laws, tangent)
        directions, lengths, doubts = _map.orthonormal(tangent.directions)
        return tangent._replace(directions=directions), logs + jnp.log(lengths), rounding + doubts

    def block(state, _):
        tangent, rounding = state
        tangent, logs, rounding = jax.lax.fori_loop(0, length, turn, (tangent, nothing, rounding))
        return (tangent, rounding), logs / length

    nothing = jnp.zeros((count, batch))
    tangent = _map.begin_tangent(laws, rings, directions)
    tangent = jax.lax.fori_loop(0, discard, turn, (tangent, nothing, nothing))[0]
    (tangent, rounding), means = jax.lax.scan(block, (tangent, nothing), None, length=_BLOCKS)
    # Rounding of one direction acts on all that follow, which are made orthogonal to it.
    rounding = jax.lax.cummax(rounding / (_BLOCKS * length), axis=0)
    return tangent.rings, means, rounding
