"""The criterion beside the exact posterior: with two minima, on labels of random networks, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from attention_book.theory.solvable_model import SolvableModel
from statmech_attention.theory.corrections import corrected


def error(solution, test, points=64):
    """Distance of the mean output from importance sampling, in posterior standard deviations."""
    key = jax.random.key(0)
    exact = sma.sampling.importance(solution.problem, key=key, points=points, test=test, anneal=False, warn=False)
    plain = solution.predict(test)
    return float(np.sqrt(np.mean((plain.mean - exact.output.mean) ** 2) / np.mean(plain.variance)))


def test_a_solution_in_the_higher_of_two_minima_is_not_trusted():
    numbers = {"examples": 100, "features": 400, "width": 10.0, "temperature": 0.05}
    problem, test, labels = SolvableModel([[1, 0.999], [0.999, 1]], [0.5, 0.0], **numbers).sample(jax.random.key(0), 60)
    solution = sma.solve(problem)
    found = sma.criterion(solution, test)
    assert len(found.minima) == 2 and not found.is_lowest and found.shares[0] > 0.99
    assert found.r == pytest.approx(error(solution, test), rel=0.05) and found.r > 0.5
    said = f"2 minima, and the solution from prior is not the lowest, r = {found.r:.2g}: "
    assert str(found) == said + f"take .lowest, which has r = {found.r_lowest:.2g}."
    assert found.r_lowest / 2 < error(found.lowest, test) < 2 * found.r_lowest < 0.1
    right = [float(sma.accuracy(one.predict(test).mean, labels)) for one in (solution, found.lowest)]
    assert right[0] < 0.7 and right[1] > 0.98
    again = sma.criterion(found.lowest, test)
    assert (
        again.is_lowest
        and again.r == pytest.approx(found.r_lowest, rel=1e-6)
        and str(again).endswith("take the theory as it is.")
    )


def test_shares_of_minima_of_like_evidence_are_those_of_the_posterior():
    """To leading order the lower minimum has four fifths; the exact mean output is between those of both."""
    numbers = {"examples": 100, "features": 400, "width": 10.0, "temperature": 0.25}
    problem, test, _ = SolvableModel([[1, 0.999], [0.999, 1]], [0.5, 0.0], **numbers).sample(jax.random.key(0), 60)
    found = sma.criterion(sma.solve(problem), test)
    assert len(found.minima) == 2 and np.isclose(sum(found.shares), 1)
    leading = [float(sma.log_evidence(one)) for one in found.minima]
    assert 1 / (1 + np.exp(leading[1] - leading[0])) > 0.75
    exact = sma.sampling.importance(problem, key=jax.random.key(1), points=256, test=test, anneal=False, warn=False)
    low, high = (np.asarray(corrected(one, test=test).prediction.mean) for one in found.minima)
    share = (exact.output.mean - high) @ (low - high) / np.sum((low - high) ** 2)
    assert found.shares[0] == pytest.approx(share, abs=0.08) and share < 0.67
    assert found.r == pytest.approx(error(found.solution, test, points=256), rel=0.15)


@pytest.mark.parametrize(("width", "temperature"), [(4, 0.01), (4, 0.3), (16, 0.01), (16, 0.3)])
def test_r_is_the_size_of_the_error_on_labels_of_random_networks(width, temperature):
    random = np.random.default_rng(width)
    x = random.normal(size=(12, 4, 3))
    weights = sma.sample_weights(key=jax.random.key(width), layers=(2, 2), width=width, features=3)
    labels = sma.model.forward_paths(weights, sma.AttentionedInputs(jnp.asarray(x), (2, 2)))[:8]
    labels = np.asarray(labels) + np.sqrt(temperature) * random.normal(size=8)
    problem = sma.Problem(x[:8], labels, layers=(2, 2), width=width, temperature=temperature)
    found = sma.criterion(sma.solve(problem), x[8:])
    assert len(found.minima) == 1 and found.is_lowest and found.r == pytest.approx(found.r_lowest, rel=1e-6)
    assert found.r / 2 < error(found.solution, x[8:]) < 2 * found.r
    advice = "take the theory as it is" if found.r <= 0.1 else "sample the exact posterior"
    assert str(found) == f"one minimum, r = {found.r:.2g}: {advice}."


def test_what_has_no_correction_is_refused():
    random = np.random.default_rng(0)
    x = random.normal(size=(6, 2, 3))
    problem = sma.Problem(x, np.ones(6), layers=(2,), width=4.0, temperature=0.1)
    with pytest.raises(ValueError, match="solution: wanted a finite width, got infinity"):
        sma.criterion(sma.solve(problem.replace(width=np.inf)), x)
    with pytest.raises(ValueError, match="solution: wanted a single solution, got a batch"):
        sma.criterion(sma.solve_sweep(problem, widths=[4.0], temperatures=[0.1]), x)
    with pytest.raises(ValueError, match="solution: wanted Solution, got Problem. Take sma.solve"):
        sma.criterion(problem, x)


@pytest.mark.slow
def test_on_tokens_it_is_what_it_is_along_paths():
    random = np.random.default_rng(0)
    tokens, maps = random.normal(size=(9, 3, 2)), random.dirichlet(np.ones(3), (9, 2, 3)).swapaxes(2, 3)

    def found(make):
        known, new = (make(tokens[part], [maps[part]]) for part in (slice(6), slice(6, 9)))
        return sma.criterion(
            sma.solve(sma.Problem(known, np.ones(6), width=8.0, temperature=0.1), tolerance=1e-10), new
        )

    one, other = found(sma.token_inputs), found(sma.attentioned_inputs)
    assert one.is_lowest and one.r == pytest.approx(other.r, rel=1e-4) and str(one) == str(other)
