"""Summaries of a solution, and its file."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention import pruning
from statmech_attention.layers import Linear

PHYSICS = {"width": 6.0, "temperature": 0.3}


def problem(heads=(2, 2), seed=0, examples=5):
    rng = np.random.default_rng(seed)
    chain = sma.layers.chain(heads)
    seen = sma.AttentionedInputs(jnp.asarray(rng.normal(size=(examples, chain.paths, 7))), chain.spelled)
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
    assert not short.converged and "max steps after 1 steps" in repr(short) and "max steps" in short.summary()


def test_texts_are_short_and_true(sweep, batch):
    single = sweep[1, 0]
    assert repr(single).startswith("Solution(layers=(2, 2), 5 examples, N=6, T=0.3: converged after ")
    assert "batch (3, 2), layers=(2, 2), 5 examples, N=3..inf, T=0.3..1: 6 of 6 converged" in repr(sweep)
    for found in (single, sweep, batch):
        assert len(repr(found)) < 150
        lines = found.summary().splitlines()
        assert len(lines) <= 12 and max(map(len, lines)) <= 110
    text = single.summary()
    for number in (single.action, single.energy, single.entropy, single.log_evidence()):
        assert f"{float(number):.6g}" in text
    assert " ".join(f"{score:.2f}" for score in single.head_scores()) in text
    traced = []
    jax.jit(lambda found: traced.append((repr(found), found.summary())) or found.action)(single)
    assert traced == [("Solution(layers=(2, 2), 5 examples, traced)", "layers=(2, 2), 5 examples, traced")]


def test_no_heads_have_no_scores():
    assert "head scores" not in sma.solve(sma.Problem(*problem((Linear(),)), **PHYSICS)).summary()


def test_evidence_of_every_solution_of_a_batch(sweep, batch):
    found = sweep.log_evidence()
    for place in np.ndindex(3, 2):
        np.testing.assert_allclose(found[place], pruning.log_evidence(sweep[place]), rtol=1e-12)
        one = sweep[place]
        widths = [float(number) for number in one.width]
        if np.isfinite(widths[0]):  # all are alike, and there are seven rows of free coordinates
            wanted = -widths[0] / 2 * (one.action - 7) - 5 / 2 * np.log(2 * np.pi)
        else:
            covariance = one.kernel() + one.temperature * np.eye(5)
            quadratic = one.labels @ np.linalg.solve(covariance, one.labels)
            wanted = -0.5 * (np.linalg.slogdet(covariance)[1] + quadratic + 5 * np.log(2 * np.pi))
        np.testing.assert_allclose(found[place], wanted, rtol=1e-9)
    np.testing.assert_allclose(batch.log_evidence()[1], batch[1].log_evidence(), rtol=1e-12)


def test_scores_of_every_solution_of_a_batch(sweep):
    for options in ({}, {"definition": "either"}, {"normalised": False}):
        found = sweep.head_scores(**options)
        assert found.shape == (3, 2, 4)
        np.testing.assert_allclose(
            found[2, 1], sma.head_scores(sweep.order_parameter[2, 1], layers=(2, 2), **options), rtol=1e-12
        )
    whole = np.abs(np.asarray(sweep.order_parameter[2, 1]))
    first = whole[:2, :2].sum()  # the paths through the first head of layer 1
    np.testing.assert_allclose(sweep.head_scores(normalised=False)[2, 1, 0], first, rtol=1e-12)
    with pytest.raises(ValueError, match="definition: wanted one of both, either, got 'all'"):
        sweep.head_scores(definition="all")


def test_traced_numbers_are_not_written(sweep):
    with pytest.raises(ValueError, match="solution: wanted known numbers, got traced ones"):
        jax.jit(lambda found: found.to_xarray().action.values)(sweep)


@pytest.mark.parametrize("index", [(3,), (0, 2), -4, "a", 1.0])
def test_what_a_batch_does_not_have(sweep, index):
    with pytest.raises(IndexError, match=r"solution: wanted an index into a batch of shape \(3, 2\), got"):
        sweep[index]
    with pytest.raises(IndexError, match="solution: wanted a batch to take something from, got a single one"):
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
