r"""How the noise of finitely many bits spreads: covariances (G9), carried along by the derivatives (B12).

Nothing here is nonlinear: it is the first order in $N^{-1/2}$, right while deviations are small.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.dmft import _map
from statmech_attention.dmft.model import Dynamics, laws_of, need_one
from statmech_attention.dmft.network import groups_of
from statmech_attention.dmft.windows import Window, rings_of


@checks.objects
def fluctuations(model: Dynamics, window: Window, *, steps: int) -> Float[Array, "steps features features"]:
    r"""$N\, \mathrm{Cov}(m^o_t)$ of the output overlaps $m^o = N^{-1} W^o s$ about the mean field, to leading order in $1/N$, (G12).

    $\Sigma_t = A_t \Sigma_{t-1} A_t^\top + B_t Q_t B_t^\top$ for the deviations of $(m^k_\tau, m^v_\tau)$ in the window and of
    $\hat A_t$: $A$ and $B$ are the derivatives of a step by these and by the new word, $Q_t$ the covariance (G9) of a new word. Replicas
    start from the same window, $\Sigma_0 = 0$.

    Args:
        model: `Dynamics` of one network.
        window: where all replicas start.
        steps: how many, fixed at compilation.

    Returns:
        `(steps, features, features)`. The root mean square distance of an overlap from the mean field at $N$ sites is
        $\sqrt{\mathrm{tr} / (M N)}$, as long as that is small.

    Raises:
        ValueError: a batch of networks, a number of steps below 1, a window of another shape.
    """
    need_one(model)
    tables, counts = groups_of(model)
    single = model.at(beta=jnp.broadcast_to(model.beta, (1,)))
    rings = rings_of(window, single)
    return _covariances(laws_of(single), rings, tables, counts / jnp.sum(counts), steps=checks.whole("steps", steps))


@partial(jax.jit, static_argnames="steps")
def _covariances(laws: _map.Laws, rings: _map.Rings, tables, shares, *, steps):
    slots, features, _ = rings.keys.shape
    window, total = slots * features, (2 * slots + 1) * features
    flat = tables.reshape(-1, tables.shape[-1])

    def moved(state, noise, rings: _map.Rings):
        """The state (keys, values, attention) one step later, then the output overlaps of the new word, with noise on its overlaps."""
        keys, values = (part.reshape(slots, features, 1) for part in (state[:window], state[window : 2 * window]))
        slot = (rings.slot + 1) % slots
        words = _map.generate(laws, state[2 * window :, None], slot).words + noise.reshape(4, features, 1)
        after, _ = _map.append(laws, rings._replace(keys=keys, values=values), _map.mixed(laws, words, slot), slot)
        parts = (after.keys, after.values, after.attention[slot], words[_map.OUTPUT])
        return jnp.concatenate([part.ravel() for part in parts])

    def body(carry, _):
        rings, covariance = carry
        attention = rings.attention[rings.slot, :, 0]
        gains = 1 - jnp.tanh(laws.beta * (tables[_map.OUTPUT].T @ attention)) ** 2
        word = (flat * (shares * gains)[None]) @ flat.T
        state = jnp.concatenate([rings.keys.ravel(), rings.values.ravel(), attention])
        transfer, source = jax.jacfwd(moved, argnums=(0, 1))(state, jnp.zeros(len(flat)), rings)
        spread = transfer @ covariance @ transfer.T + source @ word @ source.T
        return (_map.step(laws, rings)[0], spread[:total, :total]), spread[total:, total:]

    return jax.lax.scan(body, (rings, jnp.zeros((total, total))), None, length=steps)[1]
