"""A solution and batches of them."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma

PHYSICS = {"width": 6.0, "temperature": 0.3}


def problem(heads=(2, 2), seed=0, examples=5):
    rng = np.random.default_rng(seed)
    chain = sma.layers.Chain.of(heads)
    seen = sma.AttentionedInputs(jnp.asarray(rng.normal(size=(examples, chain.paths, 7))), chain.shorthand)
    return seen, rng.normal(size=(examples, *chain.readout.axes))


@pytest.fixture(scope="module")
def sweep():
    return sma.solve_sweep(sma.Problem(*problem()), widths=[np.inf, 6.0, 3.0], temperatures=[0.3, 1.0])


@pytest.fixture(scope="module")
def batch():
    """Over seeds: each with inputs of its own."""
    (one, labels), (other, others) = problem(), problem(seed=1)
    inputs = jax.tree.map(lambda *leaves: jnp.stack(leaves), one, other)
    return jax.vmap(lambda xi, y: sma.solve(sma.Problem(xi, y, **PHYSICS), throw=False))(
        inputs, jnp.stack([labels, others])
    )


def test_converged(sweep):
    assert sweep.converged.shape == (3, 2) and bool(jnp.all(sweep.converged))
    short = sma.solve(sma.Problem(*problem(), **PHYSICS), max_steps=1, throw=False)
    assert not short.converged and "max steps after 1 steps" in repr(short)


def test_the_text_of_a_solution_names_its_problem_and_its_outcome(sweep, batch):
    single = sweep[1, 0]
    assert repr(single).startswith("Solution(layers=(2, 2), 5 examples, N=6, T=0.3: converged after ")
    assert "batch (3, 2), layers=(2, 2), 5 examples, N=3..inf, T=0.3..1: 6 of 6 converged" in repr(sweep)
    assert all(len(repr(found)) < 150 for found in (single, sweep, batch))
    traced = []
    jax.jit(lambda found: traced.append(repr(found)) or found.action)(single)
    assert traced == ["Solution(layers=(2, 2), traced)"]


def test_a_batch_predicts_as_its_members_do(sweep, batch):
    test = np.random.default_rng(9).normal(size=(3, 4, 7))
    for found, places in ((sweep, [(0, 1), (2, 0)]), (batch, [(1,)])):
        together = found.predict(test, paths=[0, 2])
        for place in places:
            for one, other in zip(together, found[place].predict(test, paths=[0, 2]), strict=True):
                np.testing.assert_allclose(one[place], other, rtol=1e-9, atol=1e-12)


def test_a_member_of_a_sweep_has_the_problem_that_was_solved(sweep):
    one = sweep[1, 1].problem
    assert (one.width, one.temperature, one.variance) == ((6.0,) * 3, 1.0, (1.0,) * 4)
    np.testing.assert_array_equal(sma.solve(one).action, sma.solve(one.replace(width=6)).action)


def test_evidence_of_every_solution_of_a_batch(sweep, batch):
    found = sma.log_evidence(sweep)
    for place in np.ndindex(3, 2):
        np.testing.assert_allclose(found[place], sma.log_evidence(sweep[place]), rtol=1e-12)
        one = sweep[place]
        widths = [float(number) for number in one.problem.width]
        if np.isfinite(widths[0]):  # all are alike, and there are seven rows of free coordinates
            wanted = -widths[0] / 2 * (one.action - 7) - 5 / 2 * np.log(2 * np.pi)
        else:
            gram = sma.kernel(one.problem.attentioned, one.problem.attentioned, one.order_parameter)
            covariance = gram + one.problem.temperature * np.eye(5)
            quadratic = one.problem.labels @ np.linalg.solve(covariance, one.problem.labels)
            wanted = -0.5 * (np.linalg.slogdet(covariance)[1] + quadratic + 5 * np.log(2 * np.pi))
        np.testing.assert_allclose(found[place], wanted, rtol=1e-9)
    np.testing.assert_allclose(sma.log_evidence(batch)[1], sma.log_evidence(batch[1]), rtol=1e-12)


@pytest.mark.parametrize("index", [(3,), (0, 2), -4])
def test_what_a_batch_does_not_have(sweep, index):
    with pytest.raises(IndexError):
        sweep[index]
    with pytest.raises(IndexError):
        sweep[0, 0][0]


def test_sweeps_of_traced_numbers(sweep):
    @jax.jit
    def traced(widths, temperatures):
        return sma.solve_sweep(sma.Problem(*problem()), widths=widths, temperatures=temperatures, throw=False)

    found = traced(np.array([6.0, 3.0]), np.array([0.3, 1.0]))
    assert bool(jnp.all(found.converged))
    np.testing.assert_allclose(found.action, sweep.action[1:], rtol=1e-9)
    np.testing.assert_allclose(found.order_parameter, sweep.order_parameter[1:], rtol=1e-5, atol=1e-6)
    heads = sma.solve_sweep(sma.Problem(*problem()), widths=[6.0, 3.0], temperatures=np.array([0.3, 1.0]))
    np.testing.assert_allclose(heads.action, sweep.action[1:], rtol=1e-12)


def test_an_exception_travels_between_processes_with_its_solution():
    with pytest.raises(sma.NotConverged) as caught:
        sma.solve(sma.Problem(*problem(), width=6.0, temperature=0.01), max_steps=1)
    found = pickle.loads(pickle.dumps(caught.value))
    assert str(found) == str(caught.value)
    np.testing.assert_array_equal(found.solution.order_parameter, caught.value.solution.order_parameter)


def test_a_pickle_is_refused_in_single_precision(sweep, tmp_path):
    path = tmp_path / "solution.pkl"
    path.write_bytes(pickle.dumps(sweep[1, 0]))
    code = f"import pickle; print(pickle.load(open({str(path)!r}, 'rb')).action.dtype)"
    environment = os.environ | {"PYTHONPATH": str(Path(sma.__file__).parents[1])}
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], env=environment | {"JAX_ENABLE_X64": on}, capture_output=True, text=True
        )
        for on in ("1", "0")
    ]
    assert runs[0].stdout == "float64\n"
    assert "unpickling: wanted float64" in runs[1].stderr and "set JAX_ENABLE_X64=1 for workers" in runs[1].stderr
