r"""Recorded runs from many starts: how long a transient lives, and what other patterns do."""

import numpy as np
import xarray as xr

from statmech_attention import dmft

NUDGE = 1e-12  # by which the starts of `lifetimes` differ
APART = 0.5  # entries of random windows go from minus this to this


def lifetimes(model, window, *, starts: int, steps: int, blocks: int) -> xr.Dataset:
    r"""The first exponent of every block of a long run, from starts that are all but the same.

    While a chaotic transient lives, starts that differ by rounding part and leave it one by one; on an attractor nothing changes any more.

    Args:
        model: `Dynamics`, `(networks,)`.
        window: the common start.
        starts: how many for each network.
        steps: of the whole run.
        blocks: parts that it is divided into; directions turn for a tenth of each before anything is counted.

    Returns:
        `beta`, and `block_exponent` `(network, start, block)`.
    """
    noise = np.random.default_rng(0).normal(size=(starts, *window.attention.shape)) * NUDGE
    betas = np.repeat(np.asarray(model.beta)[:, None], starts, axis=1)
    many = model.at(beta=betas)
    state = np.broadcast_to(np.asarray(window.newest_first()) + noise, (len(betas), *noise.shape))
    there, found = dmft.window_from_attention(many, state, slot=int(window.slot)), []
    length = steps // blocks
    for _ in range(blocks):
        part = dmft.lyapunov_spectrum(many, there, steps=length - length // 10, count=1, discard=length // 10, blocks=2)
        there = part.window
        found.append(np.asarray(part.exponents)[..., 0].astype(np.float32))
    about = {"units": "1 a step", "long_name": "first Lyapunov exponent within a block of the run"}
    values = (("network", "start", "block"), np.stack(found, axis=-1), about)
    return xr.Dataset({"beta": ("network", np.asarray(model.beta)), "block_exponent": values})


def drawn(ensemble: str, seed: int, window: int) -> dmft.Patterns:
    """Patterns of a seed: by segments or independent, with the published draws."""
    return {"segments": dmft.segment_patterns, "independent": dmft.random_patterns}[ensemble](seed=seed, window=window)


def survey(patterns, *, gamma: float, epsilon: float, scale, starts: int, transient: int, steps: int) -> xr.Dataset:
    r"""What the attractors of one set of patterns are, over $\beta$ in units of its onset $\beta_0 / (1 - \epsilon)$.

    Args:
        patterns: `Patterns`.
        gamma: $\gamma$.
        epsilon: $\epsilon$.
        scale: `(networks,)`, $\beta$ over that onset.
        starts: of every network: the first output pattern, and random windows.
        transient: steps that are dropped.
        steps: that exponents and sizes are averaged over.

    Returns:
        `onset`, `frequency`, and `(network, start)` each: `regime`, `period`, `exponents` (two) and `size`, the root mean square of
        $\hat A$ over its time average, of a hundredth of the steps.
    """
    onset, frequency = dmft.onset(patterns)
    unit = onset / (1 - epsilon) if np.isfinite(onset) else 1.0
    model = dmft.dynamics(
        patterns, beta=np.repeat(unit * np.asarray(scale)[:, None], starts, 1), gamma=gamma, epsilon=epsilon
    )
    common = dmft.advance(model, dmft.initial_window(model), steps=model.window - 1)  # the window is full
    random = np.random.default_rng(0).uniform(-APART, APART, (*model.shape, model.window, model.features))
    states = np.where(np.arange(starts)[None, :, None, None] == 0, np.asarray(common.newest_first()), random)
    begin = dmft.window_from_attention(model, states, slot=int(common.slot))
    found = dmft.attractors(model, begin, transient=transient, steps=steps)
    seen = dmft.trajectory(model, found.window, steps=max(steps // 100, 8), keep="attention").attention
    size = np.sqrt(np.mean(np.var(np.asarray(seen), axis=2), axis=2))
    axes = ("network", "start")
    values = {
        "regime": (axes, found.regime.astype(np.uint8), {"long_name": "regime, as dmft.Regime"}),
        "period": (axes, found.period.astype(np.uint16), {"long_name": "period, 0 where none was found"}),
        "exponents": ((*axes, "exponent"), np.asarray(found.exponents, np.float32), {"units": "1 a step"}),
        "size": (axes, size.astype(np.float32), {"long_name": "standard deviation of the attention over time"}),
    }
    return xr.Dataset({"onset": onset, "frequency": frequency, **values})
