"""Steps that turn a normal exactly: on a normal, and on a density far from one against its quantiles."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import loggamma

import statmech_attention as sma
from statmech_attention.sampling import _chains
from statmech_attention.sampling._hamiltonian import evaluated, hamiltonian, leap


def record(position, data):
    return {"position": position}


def normal(position, data):
    return 0.5 * position @ position


def log_gammas(position, shape):
    """Logarithms of gamma variables, shifted to the mode and scaled by the curvature there: a tail on the left."""
    logs = jnp.log(shape) + position / jnp.sqrt(shape)
    return jnp.sum(jnp.exp(logs) - shape * logs)


def drawn(potential, data, size, **numbers):
    starts, settings = np.zeros((4, size)), sma.SamplerSettings(**numbers)
    return _chains.run(hamiltonian(potential, record), (data, settings.warmup), starts, jax.random.key(3), settings)


def test_a_normal_takes_one_step_a_draw_and_accepts_it():
    found = drawn(normal, jnp.zeros(()), 3, warmup=30, draws=500)
    np.testing.assert_allclose(found["acceptance"], 1.0, rtol=1e-12)
    assert np.all(found["steps"] == 1) and not np.any(found["diverging"])
    assert sma.sampling.effective_size(found["position"]).min() > 1000
    np.testing.assert_allclose(found["potential"], 0.5 * np.sum(found["position"] ** 2, axis=-1), rtol=1e-12)


def test_the_law_of_skewed_coordinates_is_exact():
    shape = 1.5
    found = drawn(log_gammas, jnp.asarray(shape), 5, warmup=200, draws=4000)
    assert np.mean(found["steps"]) > 1.5 and 0.7 < np.mean(found["acceptance"]) < 0.97
    for share in (0.02, 0.1, 0.5, 0.9, 0.98):
        limit = np.sqrt(shape) * (loggamma(shape).ppf(share) - np.log(shape))
        below = sma.sampling.estimate((found["position"] < limit).astype(float))
        np.testing.assert_array_less(np.abs(below.mean - share), 4 * below.error)
        assert np.max(below.error) < 0.02


def test_chains_without_warmup_keep_the_first_step_size():
    found = drawn(normal, jnp.zeros(()), 2, warmup=0, draws=100)
    assert set(np.unique(found["steps"])) <= {4, 5}  # a quarter turn, 1.26 to 1.88, in steps of at most 0.4


def test_a_step_is_undone_by_one_with_the_momentum_reversed_and_keeps_the_energy():
    evaluate = partial(evaluated, lambda position, data: jnp.sum(0.5 * position**2 + jnp.cos(2 * position)), None)
    start, momentum = evaluate(jnp.array([0.3, -1.2])), jnp.array([0.5, 2.0])

    def step(part, point, momentum):
        return leap(part, lambda there: there.gradient - there.position, evaluate, point, momentum)

    there, turned = step(0.3, start, momentum)
    back, again = step(0.3, there, -turned)
    np.testing.assert_allclose(back.position, start.position, rtol=1e-12)
    np.testing.assert_allclose(-again, momentum, rtol=1e-12)
    there, turned = step(0.01, start, momentum)
    change = there.value - start.value + 0.5 * (turned @ turned - momentum @ momentum)
    assert abs(change) < 1e-4
