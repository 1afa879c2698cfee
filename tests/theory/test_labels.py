"""Labels that are not outputs with noise of one variance: at `solve`, evidence, minima and predictions."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from scipy.stats import multivariate_normal

import statmech_attention as sma
from statmech_attention.theory import Regression

RNG = np.random.default_rng(0)
VALUES, TEST = RNG.normal(size=(7, 4, 3)), RNG.normal(size=(3, 4, 3))
CLASSES = np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0])
OPTIONS = {"layers": (2, 2), "temperature": 0.3}


def test_an_example_with_half_the_noise_counts_as_two():
    twice = np.array([0, 0, 1, 2, 2, 3, 4, 5, 6])
    noise = np.where(np.isin(np.arange(7), [0, 2]), 0.5, 1.0)
    wanted = sma.solve(sma.Problem(VALUES[twice], CLASSES[twice], width=5, **OPTIONS), tolerance=1e-10)
    problem = sma.Problem(VALUES, CLASSES, width=5, **OPTIONS)
    found = sma.solve(problem, energy=sma.WeightedLabels(noise), tolerance=1e-10)
    np.testing.assert_allclose(found.order_parameter, wanted.order_parameter, atol=1e-8)
    np.testing.assert_allclose(found.predict(TEST).mean, wanted.predict(TEST).mean, atol=1e-8)
    np.testing.assert_allclose(found.predict(TEST).variance, wanted.predict(TEST).variance, atol=1e-8)
    (lowest,) = sma.minima(found.problem)
    assert float(lowest.excess) == pytest.approx(float(found.excess), abs=1e-9)


@pytest.mark.parametrize("outputs", [(), (2,)])
def test_evidence_of_weighted_labels_is_that_of_the_normal_law(outputs):
    labels, noise = RNG.normal(size=(7, *outputs)), RNG.uniform(0.2, 3.0, 7)
    layers = (2, 2, *map(sma.Outputs, outputs))
    problem = sma.Problem(
        VALUES, labels, width=np.inf, layers=layers, temperature=0.3, energy=sma.WeightedLabels(noise)
    )
    found = sma.solve(problem)
    kernel = np.asarray(sma.kernel(problem.attentioned, problem.attentioned)).reshape(labels.size, -1)
    covariance = kernel + 0.3 * np.diag(np.repeat(noise, labels.size // 7))
    wanted = multivariate_normal(np.zeros(labels.size), covariance).logpdf(labels.reshape(-1))
    assert float(sma.log_evidence(found)) == pytest.approx(wanted)


def laplace(kernel, temperature, labels):
    """The evidence of classes by SciPy's minimiser and a determinant, in separate code."""
    inverse = np.linalg.inv(kernel)

    def misfit(outputs):
        return np.sum(np.logaddexp(0, -labels * outputs / temperature)) + 0.5 * outputs @ inverse @ outputs

    found = scipy.optimize.minimize(misfit, 0 * labels, method="BFGS", options={"gtol": 1e-9}).x
    chance = 1 / (1 + np.exp(labels * found / temperature))
    curvature = np.diag(chance * (1 - chance)) / temperature**2
    return -misfit(found) - 0.5 * np.linalg.slogdet(np.eye(len(labels)) + kernel @ curvature)[1], found


def test_evidence_and_outputs_of_classes_are_those_of_laplaces_method():
    problem = sma.Problem(VALUES, CLASSES, width=np.inf, **OPTIONS, energy=sma.LogisticLabels())
    found = sma.solve(problem)
    kernel = np.asarray(sma.kernel(problem.attentioned, problem.attentioned))
    evidence, outputs = laplace(kernel, 0.3, CLASSES)
    assert float(sma.log_evidence(found)) == pytest.approx(evidence, abs=1e-7)
    np.testing.assert_allclose(found.predict(VALUES).mean, outputs, atol=1e-5)


@pytest.mark.parametrize("temperature", [0.1, 0.3, 1.0])
def test_second_derivative_of_laplaces_method_is_that_of_differences(temperature):
    """In the size of the kernel, to which two exact steps of Newton's method are needed; one has the first."""
    rows = VALUES.reshape(7, -1)
    kernel, step = rows @ rows.T / 6, 1e-2

    def nats(size):
        return sma.LogisticLabels().nats(size * jnp.asarray(kernel), temperature, jnp.asarray(CLASSES))

    ends = [-2 * laplace(size * kernel, temperature, CLASSES)[0] for size in (1 - step, 1.0, 1 + step)]
    slope, bend = (ends[2] - ends[0]) / (2 * step), (ends[2] - 2 * ends[1] + ends[0]) / step**2
    assert float(jax.grad(nats)(1.0)) == pytest.approx(slope, abs=1e-3)
    assert float(jax.grad(jax.grad(nats))(1.0)) == pytest.approx(bend, abs=1e-2)


def solved(temperature, **options):
    """A solution with classes at finite width."""
    problem = sma.Problem(VALUES, CLASSES, width=3.0, layers=(2,) * 2, temperature=temperature)
    return sma.solve(problem, energy=sma.LogisticLabels(), tolerance=1e-9, **options)


@pytest.mark.slow
def test_the_minimum_with_classes_is_that_of_another_minimiser():
    found, other = solved(0.3), solved(0.3, method="gradients")
    np.testing.assert_allclose(other.order_parameter, found.order_parameter, atol=1e-7)


def test_the_minimum_with_classes_has_the_evidence_of_laplaces_method_and_derivatives():
    found = solved(0.3)
    kernel = np.asarray(sma.kernel(found.problem.attentioned, found.problem.attentioned, found.order_parameter))
    evidence, _ = laplace(kernel, 0.3, CLASSES)
    bulk = -1.5 * float(
        found.entropy - sma.theory.entropy(sma.theory.gp_order_parameters(layers=(2, 2)), layers=(2, 2))
    )
    assert float(sma.log_evidence(found)) == pytest.approx(evidence + bulk, abs=1e-6)
    slope = jax.grad(lambda temperature: sma.log_evidence(solved(temperature, throw=False)))(0.3)
    difference = (sma.log_evidence(solved(0.3001)) - sma.log_evidence(solved(0.2999))) / 2e-4
    assert float(slope) == pytest.approx(float(difference), rel=1e-5)
    assert float(found.slopes()["temperature"]) == pytest.approx(float(slope), rel=1e-6)


@pytest.mark.parametrize(
    "energy",
    [sma.LogisticLabels(), pytest.param(sma.WeightedLabels(RNG.uniform(0.5, 2.0, 7)), marks=pytest.mark.slow)],
    ids=["classes", "weighted"],
)
def test_both_kinds_of_inputs_take_both_energies(energy):
    tokens, maps = RNG.normal(size=(7, 3, 2)), [RNG.dirichlet(np.ones(3), (7, 2, 3)).swapaxes(2, 3)]
    found, expected = (
        sma.solve(sma.Problem(make(tokens, maps), CLASSES, width=4, temperature=0.3), energy=energy, tolerance=1e-9)
        for make in (sma.token_inputs, sma.attentioned_inputs)
    )
    assert float(sma.log_evidence(found)) == pytest.approx(float(sma.log_evidence(expected)), abs=1e-8)
    np.testing.assert_allclose(found.left_out(), expected.left_out(), atol=1e-6)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Twice:
    """An energy of a user's own: every label was seen twice."""

    gaussian = True

    def checked(self, labels):
        return self

    def fitted(self, kernel, temperature, labels):
        return Regression.of(kernel, 0.5 * temperature, labels)

    def nats(self, kernel, temperature, labels):
        return self.fitted(kernel, temperature, labels).nats


def test_an_energy_of_a_users_own_needs_four_lines():
    problem = sma.Problem(VALUES, CLASSES, width=5, **OPTIONS)
    found, expected = sma.solve(problem, energy=Twice()), sma.solve(problem.replace(temperature=0.15))
    np.testing.assert_allclose(found.order_parameter, expected.order_parameter, atol=1e-8)
    np.testing.assert_allclose(sma.log_evidence(found), sma.log_evidence(expected), rtol=1e-10)


def test_energies_that_do_not_fit_are_refused():
    problem = sma.Problem(VALUES, CLASSES, width=5, **OPTIONS)
    with pytest.raises(ValueError, match="energy: wanted the same number in noises and examples"):
        problem.replace(energy=sma.WeightedLabels(np.ones(3)))
    with pytest.raises(ValueError, match="noise: wanted positive numbers"):
        problem.replace(energy=sma.WeightedLabels(np.arange(7.0)))
    with pytest.raises(ValueError, match="labels: wanted"):
        problem.replace(labels=2 * CLASSES, energy=sma.LogisticLabels())
    with pytest.raises(ValueError, match="energy: wanted noise of one variance in both"):
        problem.replace(energy=sma.LogisticLabels()) + problem
    with pytest.raises(ValueError, match="energy: wanted Gaussian noise"):
        sma.posterior(problem.replace(energy=sma.LogisticLabels()), key=jax.random.key(0))
    assert problem.replace(energy=sma.WeightedLabels(jnp.ones(7))).reduce().labels.shape == (7,)
