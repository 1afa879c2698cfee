"""Starts of the search for minima against their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import statmech_attention as sma
from attention_book.theory.solvable_model import SolvableModel
from statmech_attention.theory.levels.levels import entries
from statmech_attention.theory.levels.paths import factors_of_entries, full_rank
from statmech_attention.theory.search import search
from statmech_attention.theory.starts import order_of_heads, starts


def problem_of(size=1.0, heads=4):
    rng = np.random.default_rng(3)
    values, labels = rng.normal(size=(12, heads, 5)), size * rng.normal(size=12)
    return sma.Problem(values, labels, layers=(heads,), width=6, temperature=0.2)


def raised(problem):
    """What the starts along labels add to the identity, in the lowest stage."""
    factors = full_rank(problem.architecture)
    points = [one.point for one in starts(problem, factors) if one.name == "labels"]
    lowest = [np.asarray(factors_of_entries(entries(jnp.asarray(point), factors), factors)[0]) for point in points]
    return [factor @ factor.T - np.eye(len(factor)) for factor in lowest]


@pytest.mark.parametrize(("size", "sizes"), [(1.0, 1), (100.0, 2)])
def test_starts_raise_the_prior_along_the_two_best_directions_and_both(size, sizes):
    problem = problem_of(size=size)
    values, labels = np.asarray(problem.attentioned.values), np.asarray(problem.labels)
    pull = np.einsum("e,epi->ip", labels, values)
    moment = np.einsum("epi,eqi->pq", values, values)
    _, vectors = scipy.linalg.eigh(pull.T @ pull, moment)
    wanted = [vector / np.linalg.norm(vector) for vector in vectors.T[:-3:-1]]
    added = raised(problem)
    assert [np.linalg.matrix_rank(one, tol=1e-6) for one in added] == [1] * 2 * sizes + [2] * sizes
    for one, vector in zip(added[::sizes], wanted, strict=False):
        np.testing.assert_allclose(one, 30 * np.outer(vector, vector), atol=0.1)
    traces = [np.trace(one) / np.linalg.matrix_rank(one, tol=1e-6) for one in added]
    assert len(set(np.round(traces, 6))) == sizes and min(traces) == pytest.approx(30)


def test_the_order_of_heads_is_that_of_the_slopes_of_the_energy():
    problem = problem_of(heads=5)
    slopes = np.diagonal(jax.grad(lambda overlap: sma.theory.energy(problem, overlap))(jnp.eye(5)))
    assert order_of_heads(problem, np.eye(5)) == (tuple(np.argsort(slopes).tolist()),)
    assert slopes.min() < 0 < slopes.max()


@pytest.mark.parametrize(("narrower", "found"), [(None, ["prior", "narrow"]), (2.0, ["prior"])])
def test_the_narrower_network_is_narrow_enough_to_leave_the_branch_of_the_prior(narrower, found, monkeypatch):
    model = SolvableModel(
        [[1, 0.999], [0.999, 1]], [0.5, 0.0], examples=100, features=400, width=20.0, temperature=0.05
    )
    problem = model.sample(jax.random.key(0), 2)[0]
    if narrower is not None:
        monkeypatch.setattr("statmech_attention.theory.starts.NARROWER", narrower)

    def two(problem, factors):
        return [one for one in starts(problem, factors) if one.name in ("prior", "narrow")]

    assert [one.start for one in search(problem, two)] == found
