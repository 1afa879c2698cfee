"""Two minima of the action against formulas, a second minimiser and a closed form."""

import jax
import numpy as np
import pytest
import scipy.optimize
from scipy.linalg import solve_triangular

import statmech_attention as sma
from attention_book.solvable_model import SolvableModel
from statmech_attention.theory.saddle_point import minima

# Correlation, signal, P, N, T of data with four features per example, and the accuracies of the minima.
TWO = [(0.99, 0.5, 200, 20, 0.05), (0.99, 1.0, 200, 67, 0.03), (0.999, 0.5, 100, 10, 0.05)]


def drawn(rho, signal, examples, width, temperature, key=0):
    numbers = {"examples": examples, "features": 4 * examples, "width": float(width), "temperature": temperature}
    model = SolvableModel([[1, rho], [rho, 1]], [signal, 0.0], **numbers)
    return model.sample(jax.random.key(key), 1000)


def action_of(problem):
    """(11) for one layer of two paths as a function of U, from NumPy alone; the readout's scale u is eliminated."""
    x, y, T = np.asarray(problem.attentioned.values), np.asarray(problem.labels), problem.temperature
    products = np.einsum("iaj,kbj->abik", x, x, optimize=True) / (2 * x.shape[2])

    def action(U):
        kernel = np.tensordot(U, products) + T * np.eye(len(y))
        factor = np.linalg.cholesky(kernel)
        energy = 2 * np.sum(np.log(np.diag(factor))) + np.sum(solve_triangular(factor, y, lower=True) ** 2)
        u = (np.sqrt(1 + 4 * np.trace(U)) - 1) / 2
        entropy = np.trace(U) / u - np.linalg.slogdet(U)[1] + u + np.log(u)
        return entropy + energy / problem.width[0]

    return action


@pytest.mark.parametrize("numbers", TWO)
def test_a_second_minimum_is_found_and_is_one_of_the_formula(numbers):
    problem, test, labels = drawn(*numbers)
    found = minima(problem)
    assert len(found) == 2 and found[0].action < found[1].action
    accuracies = sorted(float(sma.accuracy(one.predict(test).mean, labels)) for one in found)
    assert accuracies[0] < 0.7 and accuracies[1] > 0.98
    action = action_of(problem)
    for one in found:
        lower = np.linalg.cholesky(np.asarray(one.order_parameter))

        def action_at(entries):
            factor = np.array([[entries[0], 0.0], [entries[1], entries[2]]])
            return action(factor @ factor.T)

        here = np.array([lower[0, 0], lower[1, 0], lower[1, 1]])
        lowest = scipy.optimize.minimize(action_at, here, method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-10})
        assert abs(action_at(here) - lowest.fun) < 1e-7
        assert abs(action_at(here) - float(one.action)) < 1e-8


def test_fit_ends_at_the_lowest_minimum():
    problem, _, _ = drawn(*TWO[2])
    fitted = sma.fit(problem, chosen="temperature")
    prior, lowest = sma.solve(fitted.solution.problem), minima(fitted.solution.problem)[0]
    assert (prior.start, lowest.start) == ("prior", "narrow")
    assert (
        sma.log_evidence(prior) + 10 < fitted.log_evidence == pytest.approx(float(sma.log_evidence(lowest)), abs=1e-6)
    )


def test_one_minimum_where_noise_is_less_correlated():
    problem, _, _ = drawn(0.95, 0.5, 200, 20, 0.05)
    assert len(minima(problem)) == 1
    assert len(minima(problem.replace(width=np.inf))) == 1


@pytest.mark.parametrize(("layers", "cusp"), [(1, 0.01598), (2, 0.02536), (3, 0.03052)])
def test_one_path_without_noise_has_two_minima_inside_its_window_alone(layers, cusp):
    """S(w) = l (w - ln w) + (alpha / T) / (1 + tau w^l), with l weights above V0, turns twice if tau < tau_c."""
    depth, w = layers + 1, np.linspace(1.0001, 60.0, 2_000_000)
    turning = ((depth - 1) * w - depth) / ((depth + 1) * w - depth) / w**depth
    assert turning.max() == pytest.approx(cusp, rel=2e-3)
    tau = 0.6 * turning.max()
    ends = w[:-1][np.diff(np.sign(turning - tau)) != 0]
    low, high = sorted((ends - 1) * (1 + tau * ends**depth) ** 2 / (tau * ends**depth))
    examples = 20_000
    y = np.where(np.arange(examples) % 2, 1.0, -1.0)
    x = np.sqrt(tau / examples) * y[:, None, None]
    for load, count in [(low * 0.97, 1), (low * 1.01, 2), (high * 0.99, 2), (high * 1.03, 1)]:
        problem = sma.Problem(x, y, layers=(1,) * layers, width=examples / load, temperature=1.0)
        assert len(minima(problem.reduce())) == count
