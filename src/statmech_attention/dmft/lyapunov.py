r"""Lyapunov exponents of the mean field, and the regime that they tell.

The state is $X_t = (\hat A_t, .., \hat A_{t-L+1})$, $ML$ numbers. The slots move on by themselves, whatever the state; their
exponents, all zero, are left out.
"""

from enum import IntEnum
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from statmech_attention import checks
from statmech_attention.dmft import _map, _tangent
from statmech_attention.dmft._batches import in_pieces
from statmech_attention.dmft.model import Dynamics, laws_of
from statmech_attention.dmft.windows import Window, batch_first, newest_first, rings_of, window_of

THRESHOLD = (
    5e-4  # a step; what counts as zero, everywhere in the book: above what 10 000 steps leave undecided on a torus
)


class Regime(IntEnum):
    """What an attractor is; UNDECIDED where the errors of its exponents allow more than one answer."""

    PERIODIC = 0
    QUASI_PERIODIC = 1
    CHAOTIC = 2
    HYPERCHAOTIC = 3
    UNDECIDED = 4


class LyapunovSpectrum(NamedTuple):
    r"""Lyapunov exponents with their errors.

    Attributes:
        exponents: `(*batch, count)`, $\lambda_1, \lambda_2, ..$ a step.
        errors: standard errors, from averages over blocks of the run. They say nothing of a transient not yet over.
        rounding: how far rounding may have moved each. Where attention is all but one-hot, the map forgets most directions at
            once, and exponents below those of the few that are left are rounding noise: they come out too large.
        window: the last `Window`; a run can go on from it.
    """

    exponents: Float[Array, "*batch count"]
    errors: Float[Array, "*batch count"]
    rounding: Float[Array, "*batch count"]
    window: Window


@checks.objects
def jacobian(model: Dynamics, window: Window) -> Float[Array, "*batch state state"]:
    r"""$\partial X_{t+1} / \partial X_t$, of which the rows of $\hat A_{t+1}$ are, for the window's $\hat A_d$, newest $d = 0$,

    $w_d V^{(d)}_{ac} + w_d (v_{d,a} - \hat A_a)\, g \sum_b q_b K^{(d)}_{bc} + \delta_{d0} \sum_\tau w_\tau (v_{\tau,a} - \hat A_a)\, g \sum_b k_{\tau,b} Q_{bc}$,

    $X^{(d)}_{bc} = (1-\epsilon) \beta \langle W^x_b W^o_c (1 - \tanh^2) \rangle$, $g = \gamma / \sqrt M$, (B12). The others are ones below the diagonal.

    Args:
        model: `Dynamics`.
        window: `Window`; its $\hat A$ alone count, and all tokens are taken to be generated from them.

    Returns:
        `(*batch, L M, L M)`, the newest $\hat A$ first in rows and columns: entry $dM + a$ is $\hat A_{a,t-d}$.

    Raises:
        ValueError: a window of another shape than the model's.
    """
    return batch_first(_jacobian(laws_of(model), rings_of(window, model)), model.shape)


@checks.objects
def lyapunov_spectrum(
    model: Dynamics,
    window: Window,
    *,
    steps: int,
    count: int | None = None,
    discard: int = 1000,
    blocks: int = 10,
    progress: bool | None = None,
) -> LyapunovSpectrum:
    r"""$\lambda_i = \frac1T \sum_t \ln |R_{t,ii}|$, where $Q_{t+1} R_t = J_t Q_t$ with the Jacobian (B12).

    Args:
        model: `Dynamics`.
        window: where to start, past the transient; see `advance`.
        steps: $T$, rounded up to whole blocks.
        count: how many exponents, the largest; all $ML$ where None. Two cost far less than twelve.
        discard: steps in which the directions turn before anything is counted.
        blocks: parts of the run, whose scatter gives the errors; they have to be longer than correlations last.
        progress: True or False for a progress bar over parts of the batch or none, None for one on a terminal.

    Returns:
        `LyapunovSpectrum`.

    Raises:
        ValueError: numbers out of range, a window of another shape than the model's.
    """
    steps, count, discard, blocks = spectrum_numbers(model, steps, count, discard, blocks)
    run = partial(_spectrum, length=-(-steps // blocks), discard=discard, count=count, blocks=blocks)
    rings, means, rounding = in_pieces(run, model, window, copies=count, progress=progress)
    exponents = jnp.mean(means, axis=0)
    # A map that forgets a direction altogether has an exponent of minus infinity, without error.
    errors = jnp.std(jnp.where(jnp.isfinite(means), means, 0.0), axis=0, ddof=1) / np.sqrt(blocks)
    errors = jnp.where(jnp.isfinite(exponents), errors, 0.0)
    exponents, errors, rounding = (batch_first(part, model.shape) for part in (exponents, errors, rounding))
    return LyapunovSpectrum(exponents, errors, rounding, window_of(rings, model))


def spectrum_numbers(model: Dynamics, steps, count, discard, blocks, fewest: int = 1) -> tuple[int, int, int, int]:
    """Numbers of `lyapunov_spectrum`, checked: steps, at least `fewest` exponents, steps discarded, blocks."""
    size = model.window * model.features
    steps, discard = checks.whole("steps", steps), checks.whole("discard", discard, 0)
    count, blocks = checks.whole("count", size if count is None else count, fewest), checks.whole("blocks", blocks, 2)
    if count > size:
        raise ValueError(f"count: wanted at most {size}, as many as numbers in the state, got {count}.")
    return steps, count, discard, blocks


@checks.objects
def regimes(
    spectrum: LyapunovSpectrum, *, threshold: float = THRESHOLD, standard_errors: float = 3.0
) -> Int[np.ndarray, "*batch"]:
    r"""Tell regimes by $\lambda_1$ and $\lambda_2$: above `threshold` they count as positive, within it as zero.

    Periodic: $\lambda_1$ negative. Quasi-periodic: $\lambda_1$ zero. Chaotic: $\lambda_1$ positive, $\lambda_2$ not. Hyperchaotic: both
    positive. Undecided: `standard_errors` of them (and rounding) to either side of an exponent allow more than one of these.

    Args:
        spectrum: of two exponents at least.
        threshold: what counts as zero, a step. A transient, or a slow turn of the directions, of $O(1/T)$ has to be below it.
        standard_errors: how many make sure of a sign.

    Returns:
        `Regime` as whole numbers, `(*batch,)`.

    Raises:
        ValueError: a single exponent, numbers out of range.
    """
    if spectrum.exponents.shape[-1] < 2:
        raise ValueError("spectrum: wanted two exponents at least, got one. Compute it with count=2.")
    threshold = checks.positive("threshold", threshold)
    standard_errors = checks.positive("standard_errors", standard_errors)
    middle = np.asarray(spectrum.exponents)
    doubt = standard_errors * np.asarray(spectrum.errors) + np.asarray(spectrum.rounding)
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
    slot = (rings.slot + 1) % size
    tokens, slopes = _tangent.past_slopes(laws, rings.attention)
    overlaps, mine = tokens.overlaps, slopes[slot]
    keys, values, query = overlaps[:, _map.KEY], overlaps[:, _map.VALUE], overlaps[slot, _map.QUERY]
    shares, attention = _map.attend(laws, query, keys, values, size, slot)
    after = _map.Rings(keys, values, rings.attention.at[slot].set(attention), slot, jnp.asarray(size))
    past = _tangent.Slopes(slopes[:, _map.KEY], slopes[:, _map.VALUE])
    rows = _tangent.blocks(laws, query, mine[_map.QUERY], after, past, shares)
    top = jnp.moveaxis(newest_first(rows, slot, 0), 1, 0).reshape(features, size * features, batch)
    below = jnp.eye((size - 1) * features, size * features)[..., None]
    return jnp.concatenate([top, jnp.broadcast_to(below, (*below.shape[:2], batch))])


@jax.jit(static_argnames=("count", "blocks"))
def _spectrum(laws, rings, *, length, discard, count, blocks):
    size, features, batch = rings.keys.shape
    # Directions with a part along everything: those of the axes could stay within an invariant subspace.
    first = np.linalg.qr(np.random.default_rng(0).normal(size=(size * features, count)))[0].T
    directions = jnp.broadcast_to(first.reshape(count, size, features, 1), (count, size, features, batch))

    def turn(_, state):
        tangent, logs, rounding = state
        tangent = _tangent.step(laws, tangent)
        directions, lengths, doubts = _tangent.orthonormal(tangent.directions)
        return tangent._replace(directions=directions), logs + jnp.log(lengths), rounding + doubts

    def block(state, _):
        tangent, rounding = state
        tangent, logs, rounding = jax.lax.fori_loop(0, length, turn, (tangent, nothing, rounding))
        return (tangent, rounding), logs / length

    nothing = jnp.zeros((count, batch))
    tangent = _tangent.begin(laws, rings, directions)
    tangent = jax.lax.fori_loop(0, discard, turn, (tangent, nothing, nothing))[0]
    (tangent, rounding), means = jax.lax.scan(block, (tangent, nothing), None, length=blocks)
    # Directions are built on those before them: what rounding does to one it does to all that follow.
    rounding = jax.lax.cummax(rounding / (blocks * length), axis=0)
    return tangent.rings, means, rounding
