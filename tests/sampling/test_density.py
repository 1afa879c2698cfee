"""The posterior's energy, gradient and Hessian against the action's own and automatic differentiation."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention.sampling import _bartlett, _density
from statmech_attention.sampling._modes import gaussians_at_modes
from statmech_attention.theory.levels import levels

HEADS, WIDTH, VARIANCE, TEMPERATURE = (2, 2), 9.0, 1.3, 0.1


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(5)
    numbers = {"width": WIDTH, "temperature": TEMPERATURE, "variance": VARIANCE}
    return sma.Problem(rng.normal(size=(6, 4, 3)), rng.normal(size=6), layers=HEADS, **numbers)


@pytest.fixture(params=["action", "automatic"])
def data(request, problem):
    """Both ways to the Hessian at a mode."""
    found = _density.posterior_density(problem, _bartlett.bartlett(problem.architecture))
    return found if request.param == "action" else found._replace(search=None)


def plain(point, problem, factors):
    """The potential by automatic differentiation alone."""
    energy = sma.theory.energy(problem, factors.overlap(levels.entries(point, factors)))
    chain = 0.5 * levels.excess_entropy(point, jnp.full(3, WIDTH), factors) + levels.order_one(point, factors)
    return chain + 0.5 * len(problem.labels) * energy


@partial(jax.jit, static_argnames="factors")
def derivatives(point, problem, factors):
    """Value, gradient and Hessian: in one program, since every operation alone would be compiled, too."""
    arguments = (point, problem, factors)
    return plain(*arguments), jax.grad(plain)(*arguments), jax.hessian(plain)(*arguments)


def test_value_gradient_and_hessian_agree_with_automatic_differentiation(problem):
    factors = _bartlett.bartlett(problem.architecture)
    potential = _density.posterior_density(problem, factors).action.potential
    point = 0.3 * jnp.asarray(np.random.default_rng(6).normal(size=factors.coordinates))

    @jax.jit
    def found(point):
        return levels.differentiated(potential, point)

    value, gradient, curvature = found(point)
    wanted = derivatives(point, problem, factors)
    assert float(value) == pytest.approx(float(wanted[0]), rel=1e-12)
    np.testing.assert_allclose(gradient, wanted[1], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(curvature, wanted[2], rtol=1e-8, atol=1e-8)


def test_the_mode_is_one_and_its_root_whitens(problem, data):
    factors = _bartlett.bartlett(problem.architecture)
    found = jax.tree.map(lambda leaf: leaf[0], gaussians_at_modes(problem, data))
    _, gradient, hessian = derivatives(found.mode, problem, factors)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-5)
    curvature = found.root.T @ hessian @ found.root
    np.testing.assert_allclose(curvature, np.eye(factors.coordinates), atol=1e-8)
    assert float(found.logdet) == pytest.approx(np.linalg.slogdet(found.root)[1], rel=1e-9)
