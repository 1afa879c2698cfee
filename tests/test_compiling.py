"""`quick_jit` gives the numbers of `jax.jit`, and batches of factorisations suit the backend."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampling import problem

import statmech_attention as sma
from statmech_attention import compiling
from statmech_attention.compiling import map_factorisations, quick_jit


def test_quick_jit_works_within_every_transformation(optimised):
    quick = quick_jit(static=("power",))(lambda x, power: jnp.sin(x) ** power)
    at = np.array([0.3, 0.7])
    np.testing.assert_allclose(quick(at, 2), np.sin(at) ** 2, rtol=1e-14)
    for transformed in (jax.jit, jax.vmap, lambda f: jax.jit(jax.vmap(f)), lambda f: lambda x: jax.lax.map(f, x)):
        np.testing.assert_allclose(transformed(lambda x: quick(x, power=2))(at), np.sin(at) ** 2, rtol=1e-14)
    np.testing.assert_allclose(jax.grad(lambda x: quick(x, 2))(0.3), np.sin(0.6), rtol=1e-14)
    np.testing.assert_allclose(jax.jit(lambda x: x + quick(0.3, 1))(1.0), 1 + np.sin(0.3), rtol=1e-14)


def test_quick_jit_has_its_own_options_unless_another_function_is_traced(optimised, monkeypatch):
    monkeypatch.setattr(compiling, "_OPTIONS", {"no_such_option": True})
    quick = quick_jit()(jnp.sin)
    with pytest.raises(Exception, match="no_such_option"):
        quick(0.3)
    for traced in (jax.jit(quick), jax.jit(lambda _: quick(0.3)), lambda x: jax.vmap(quick)(jnp.full(1, x))[0]):
        np.testing.assert_allclose(traced(0.3), np.sin(0.3), rtol=1e-14)


@pytest.mark.slow
def test_batches_of_factorisations_as_on_an_accelerator_give_the_same_numbers(monkeypatch, request):
    train, labels, test = problem.inputs(2)
    found = sma.Problem(train, labels, layers=(2,), width=5, temperature=problem.TEMPERATURE)
    solution, key = sma.solve(found), jax.random.key(0)

    def numbers():
        jax.clear_caches()  # the backend decides when a function is compiled
        matrices = jnp.tile(jnp.eye(2), (6, 1, 1))
        batched = "f64[4,2,2]" in str(jax.make_jaxpr(lambda x: map_factorisations(jnp.linalg.cholesky, x))(matrices))
        importance = sma.sampling.importance(found, key=key, points=4, test=test, warn=False)
        return batched, jax.tree.leaves((importance, sma.sampling.corrected(solution, test=test)))

    batched, one_by_one = numbers()
    assert not batched
    request.addfinalizer(jax.clear_caches)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(compiling, "_AT_ONCE", 4)  # five coordinates are a batch and what remains
    batched, together = numbers()
    assert batched
    for one, other in zip(one_by_one, together, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-12)
