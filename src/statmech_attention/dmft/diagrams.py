r"""Diagrams of the mean field over its parameters: bifurcations, continuation, regimes; and spectra of a time series."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from tqdm import tqdm

from statmech_attention import _checks
from statmech_attention.dmft._batches import in_pieces
from statmech_attention.dmft.lyapunov import LyapunovSpectrum, lyapunov_spectrum, regimes
from statmech_attention.dmft.mean_field import advance, advance_rings, run_rings
from statmech_attention.dmft.model import Dynamics, laws_of
from statmech_attention.dmft.orbits import period
from statmech_attention.dmft.windows import Window, batch_first, rings_of, window_of

_CHUNK = 500  # steps that are looked at together


class Bifurcation(NamedTuple):
    r"""Where an attractor goes, on a grid of values of the semantic output overlaps $\langle W^o_a \tanh \rangle$.

    Attributes:
        visited: `(*batch, features, levels)`, whether an overlap took a value.
        sections: `(*batch, pairs, levels)`, the same at times when another overlap was close to zero.
        values: `(levels,)`, the values that levels stand for.
        window: the last `Window`.
    """

    visited: Bool[np.ndarray, "*batch features levels"]
    sections: Bool[np.ndarray, "*batch pairs levels"]
    values: Float[np.ndarray, " levels"]
    window: Window


class Attractors(NamedTuple):
    """What the attractors of a batch of networks are.

    Attributes:
        regime: `(*batch,)`, `Regime` as a whole number.
        period: `(*batch,)`, 0 where the state did not come back.
        spectrum: `LyapunovSpectrum`.
        window: the last `Window`.
    """

    regime: Int[np.ndarray, "*batch"]
    period: Int[np.ndarray, "*batch"]
    spectrum: LyapunovSpectrum
    window: Window


def bifurcation_diagram(
    model: Dynamics,
    window: Window,
    *,
    transient: int,
    steps: int,
    pairs=((0, 1), (0, 2), (1, 0), (2, 0)),
    width: float = 1e-3,
    levels: int = 2001,
    limit: float = 1.0,
    progress: bool | None = False,
) -> Bifurcation:
    r"""Values that $m^{o}_a = \langle W^o_a \tanh \rangle$ takes after a transient, and a section through them.

    The section for a pair $(a, b)$ holds the values of $m^o_a$ at times when $|m^o_b| \le$ `width`. What is kept does not grow
    with the number of steps.

    Args:
        model: `Dynamics`, a batch over $\beta$, for example.
        window: where to start, one for all or one each.
        transient: steps that are dropped.
        steps: steps that are looked at.
        pairs: pairs $(a, b)$ of features for `sections`; those of features that there are not are left out.
        width: of the section.
        levels: how many values, evenly from -`limit` to `limit`, a value counts for the nearest.
        limit: 1 holds all; less is a closer look, and what is outside is left out.
        progress: True or False for a progress bar over parts of the batch or none, None for one on a terminal.

    Returns:
        `Bifurcation`.

    Raises:
        ValueError: numbers out of range, a window of another shape than the model's.
    """
    for name, number, least in (("transient", transient, 0), ("steps", steps, 1), ("levels", levels, 2)):
        if not _checks.whole(number, least):
            raise ValueError(f"{name}: wanted a whole number of at least {least}, got {number!r}.")
    width, limit = _checks.positive("width", width), _checks.positive("limit", limit)
    pairs = np.array([pair for pair in pairs if max(pair) < model.features], dtype=int).reshape(-1, 2)

    def run(laws, rings):
        rings = advance_rings(laws, rings, transient)
        visited = np.zeros((model.features, laws.beta.size, levels), dtype=bool)
        sections = np.zeros((len(pairs), laws.beta.size, levels), dtype=bool)
        for done in range(0, steps, _CHUNK):
            rings, kept = run_rings(laws, rings, steps=min(_CHUNK, steps - done), keep=("output_words",))
            overlaps = np.moveaxis(np.asarray(kept["output_words"]), 1, 0)
            places = np.rint((overlaps / limit + 1) * (levels - 1) / 2).astype(np.int32)
            inside = (places >= 0) & (places < levels)
            for feature, (place, kept_ones) in enumerate(zip(places, inside, strict=True)):
                _mark(visited[feature], place, kept_ones)
            for number, (feature, other) in enumerate(pairs):
                _mark(sections[number], places[feature], inside[feature] & (np.abs(overlaps[other]) <= width))
        return np.moveaxis(visited, 1, 2), np.moveaxis(sections, 1, 2), rings

    visited, sections, rings = in_pieces(run, laws_of(model), rings_of(window, model), progress=progress)
    found = (np.asarray(batch_first(part, model.shape)) for part in (visited, sections))
    return Bifurcation(*found, np.linspace(-limit, limit, levels), window_of(rings, model))


def continuation(model: Dynamics, window: Window, measure: Callable, *, progress: bool | None = False) -> Any:
    r"""Follow attractors along a parameter, up and down: every network starts where its neighbour ended.

    Where the two ways disagree there is more than one attractor.

    Args:
        model: `Dynamics` with one axis, along which to go.
        window: where both ways start: one window.
        measure: of (model, window); its result has a field `window`, as those of `bifurcation_diagram`, `attractors` and
            `lyapunov_spectrum`, with their other arguments filled in by `functools.partial`.
        progress: True or False for a progress bar or none, None for one on a terminal.

    Returns:
        What `measure` returns, with axes `(2, batch)` in front of its arrays: the way up and the way down, both in the order
        of `model`; arrays without a batch are as they are.

    Raises:
        ValueError: a model without an axis, or with several.
    """
    if len(model.shape) != 1:
        raise ValueError(f"model: wanted networks along one axis, got a batch of shape {model.shape}.")
    (size,) = model.shape
    parameters = {name: np.broadcast_to(getattr(model, name), model.shape) for name in ("beta", "gamma", "epsilon")}
    found = []
    for number in tqdm(range(size), unit="network", disable=None if progress is None else not progress):
        both = np.array([number, size - 1 - number])
        one = measure(model.at(**{name: values[both] for name, values in parameters.items()}), window)
        window = one.window
        found.append(jax.tree.map(np.asarray, one))

    def together(*parts):
        if parts[0].shape[:1] != (2,):
            return parts[-1]
        up, down = np.stack(parts, axis=1)
        return np.stack([up, down[::-1]])

    return jax.tree.map(together, *found)


def attractors(
    model: Dynamics,
    window: Window,
    *,
    transient: int,
    steps: int,
    count: int = 2,
    discard: int = 1000,
    blocks: int = 10,
    longest: int = 1024,
    threshold: float = 1e-4,
    confidence: float = 3.0,
    progress: bool | None = False,
) -> Attractors:
    r"""Period, Lyapunov exponents and regime after a transient, over $\beta$, or over $\gamma$ and $\beta$, or any batch.

    Args:
        model: `Dynamics`.
        window: where to start, one for all or one each.
        transient: steps that are dropped.
        steps: over which exponents are averaged.
        count: exponents to compute, at least 2.
        discard, blocks: as for `lyapunov_spectrum`.
        longest: the longest period looked for.
        threshold, confidence: as for `regimes`.
        progress: True or False for progress bars over parts of the batch or none, None for them on a terminal.

    Returns:
        `Attractors`.

    Raises:
        ValueError: numbers out of range, a window of another shape than the model's.
    """
    window = advance(model, window, transient, progress=progress)
    returns = period(model, window, most=longest)
    spectrum = lyapunov_spectrum(model, window, steps, count=count, discard=discard, blocks=blocks, progress=progress)
    return Attractors(regimes(spectrum, threshold=threshold, confidence=confidence), returns, spectrum, spectrum.window)


@partial(jax.jit, static_argnames="axis")
def power_spectrum(
    series: Float[Array, "*shape"], axis: int = -1
) -> tuple[Float[Array, " frequencies"], Float[Array, "*shape"]]:
    r"""$S(f) = \frac1T \left| \sum_t m_t e^{-2 \pi i f t} \right|^2$ at $f = 0, \frac1T, .., \frac12$ a step; the mean is not taken off.

    Args:
        series: values at $T$ steps.
        axis: of the steps.

    Returns:
        Frequencies, and the spectrum along `axis`.
    """
    steps = series.shape[axis]
    return jnp.fft.rfftfreq(steps), jnp.abs(jnp.fft.rfft(series, axis=axis)) ** 2 / steps


@partial(jax.jit, static_argnames=("lags", "axis"))
def autocorrelation(series: Float[Array, "*shape"], lags: int, axis: int = -1) -> Float[Array, "*shape"]:
    r"""$R_\ell = \sum_{t=0}^{T-1-\ell} m_t m_{t+\ell}$ for $\ell = 0 ..$ `lags` $- 1$; not normalised, the mean is not taken off.

    Args:
        series: values at $T$ steps.
        lags: how many, at most $T$.
        axis: of the steps.

    Returns:
        $R$ along `axis`.

    Raises:
        ValueError: more lags than steps, or none.
    """
    steps = series.shape[axis]
    if not _checks.whole(lags, 1) or lags > steps:
        raise ValueError(f"lags: wanted a whole number from 1 to the {steps} steps, got {lags!r}.")
    # As many zeros behind, so that the end does not meet the beginning.
    power = jnp.abs(jnp.fft.rfft(series, 2 * steps, axis=axis)) ** 2
    return jax.lax.slice_in_dim(jnp.fft.irfft(power, 2 * steps, axis=axis), 0, lags, axis=axis)


def _mark(table, places, where) -> None:
    """Set `table[network, place]` for all steps and networks that count."""
    networks = np.broadcast_to(np.arange(table.shape[0]), places.shape)
    table[networks[where], places[where]] = True
