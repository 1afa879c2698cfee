"""Attractors of the mean field over its parameters, their continuation, and power spectra of time series."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from tqdm import tqdm

from statmech_attention import dmft
from statmech_attention.dmft import Dynamics, Regime, Window

_CHUNK = 500  # steps that are processed together


class Bifurcation(NamedTuple):
    """Visited values of the semantic output overlaps, on levels from minus `limit` to `limit`.

    `sections` holds the values at times when another overlap was close to zero.
    """

    visited: Bool[np.ndarray, "*batch features levels"]
    sections: Bool[np.ndarray, "*batch pairs levels"]
    limit: float
    window: Window  # the last one

    @property
    def values(self) -> Float[np.ndarray, " levels"]:
        """The value of each level."""
        return np.linspace(-self.limit, self.limit, self.visited.shape[-1])


class Attractors(NamedTuple):
    """Attractors of a batch of networks: `Regime` as a whole number, period (0 without a return), exponents."""

    regime: Int[np.ndarray, "*batch"]
    period: Int[np.ndarray, "*batch"]
    exponents: Float[Array, "*batch count"]
    errors: Float[Array, "*batch count"]
    rounding: Float[Array, "*batch count"]
    window: Window  # the last one


def bifurcation_diagram(
    model: Dynamics, window: Window, *, transient: int, steps: int, pairs, thickness=1e-3, levels=2001, limit=1.0
) -> Bifurcation:
    r"""Mark the values that $m^{o}_a = \langle W^o_a \tanh \rangle$ takes after a transient, and in sections."""

    window = dmft.advance(model, window, steps=transient)
    visited = np.zeros((*model.shape, model.features, levels), dtype=bool)
    sections = np.zeros((*model.shape, len(pairs), levels), dtype=bool)
    for done in range(0, steps, _CHUNK):
        some = min(_CHUNK, steps - done)
        window, kept = dmft.trajectory(model, window, steps=some, keep="output_words", last=True)
        overlaps = np.asarray(kept.output_words)
        places = np.rint((overlaps / limit + 1) * (levels - 1) / 2).astype(np.int32)
        inside = (places >= 0) & (places < levels)
        for feature in range(model.features):
            _mark(visited[..., feature, :], places[..., feature], inside[..., feature])
        for number, (feature, other) in enumerate(pairs):
            near = inside[..., feature] & (np.abs(overlaps[..., other]) <= thickness)
            _mark(sections[..., number, :], places[..., feature], near)
    return Bifurcation(visited, sections, limit, window)


def _mark(table, places, where) -> None:
    """Set `table[*network, place]` for the networks and steps in `where`."""
    networks = [axis[where] for axis in np.indices(places.shape)[:-1]]
    table[(*networks, places[where])] = True


def attractors(
    model: Dynamics, window: Window, *, transient: int, steps: int, count: int = 2, longest: int = 1024
) -> Attractors:
    """Return period, Lyapunov exponents and regime after a transient.

    Where the state returns and no exponent is above zero, the regime is periodic however slowly it attracts.
    """
    window = dmft.advance(model, window, steps=transient)
    returns = dmft.period(model, window, longest=longest)
    spectrum = dmft.lyapunov_spectrum(model, window, steps=steps, count=count)
    found = dmft.regimes(spectrum)
    growing = (found == Regime.CHAOTIC) | (found == Regime.HYPERCHAOTIC)
    return Attractors(np.where((returns > 0) & ~growing, int(Regime.PERIODIC), found), returns, *spectrum)


def continuation(model: Dynamics, window: Window, measure: Callable) -> Any:
    """Apply `measure` of (model, window) along a model's last axis, from where the neighbour ended."""
    if len(model.shape) < 2:
        raise ValueError(
            f"model: wanted networks in an array (ways, networks), got a batch of shape {model.shape}. "
            "One way up and one down is beta=np.stack([betas, betas[::-1]])."
        )
    ways = len(model.shape) - 1
    parameters = {name: np.broadcast_to(getattr(model, name), model.shape) for name in ("beta", "gamma", "epsilon")}
    found = []
    for number in tqdm(range(model.shape[-1]), unit="network", disable=None):
        one = measure(model.at(**{name: values[..., number] for name, values in parameters.items()}), window)
        window = one.window
        rest, structure = jax.tree.flatten(one._replace(window=None))
        found.append([np.asarray(part) for part in rest])
    parts = [np.stack(part, axis=ways) if part[0].ndim >= ways else part[0] for part in zip(*found, strict=True)]
    return jax.tree.unflatten(structure, parts)._replace(window=window)


@partial(jax.jit, static_argnames=("axis", "hann"))
def power_spectrum(
    series: Float[Array | np.ndarray, "*shape"], *, axis: int = -1, hann: bool = False
) -> tuple[Float[Array, " frequencies"], Float[Array, "*other"]]:
    r"""Return frequencies per step and $S(f) = \frac1T | \sum_t m_t e^{-2 \pi i f t} |^2$.

    With `hann` the mean is subtracted and steps have weights $\sqrt{2/3}\, (1 - \cos \frac{2 \pi
    t}{T})$.
    """
    steps = series.shape[axis]
    if hann:
        shape = [1] * series.ndim
        shape[axis] = steps
        weights = np.sqrt(2 / 3) * (1 - np.cos(2 * np.pi * np.arange(steps) / steps))
        series = (series - jnp.mean(series, axis=axis, keepdims=True)) * weights.reshape(shape)
    return jnp.fft.rfftfreq(steps), jnp.abs(jnp.fft.rfft(series, axis=axis)) ** 2 / steps
