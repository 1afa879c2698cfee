"""Continuation of attractors and power spectra of the mean field's time series."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from tqdm import tqdm

from statmech_attention.dmft import Dynamics, Window


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
