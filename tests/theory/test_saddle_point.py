"""The saddle point against a second minimiser, closed forms, symmetries and limits: equation (11)."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from compilations import compilations
from scipy.optimize import brentq
from scipy.stats import multivariate_normal

import statmech_attention as sma
from statmech_attention.theory.prepared import prepared

# The problem most tests share, so that it is compiled once: six examples, four paths, five features.
EXAMPLES, HEADS, FEATURES = 6, (2, 2), 5
OPTIONS = {"width": 4.0, "temperature": 0.1}
VARIANCES = (0.7, 1.3, 0.9, 1.6)


def draw(seed, heads=HEADS, examples=EXAMPLES, features=FEATURES):
    """Attentioned inputs with a common part in all paths, and labels +-1 of both kinds."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(examples, math.prod(heads), features)) + rng.normal(size=(examples, 1, features))
    return sma.AttentionedInputs(jnp.asarray(values), heads), np.where(np.arange(examples) % 2, 1.0, -1.0)


def assert_same(found, wanted, tolerance=1e-8):
    for one, other in zip(found.order_parameters, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * np.max(np.abs(other)))


@pytest.fixture(scope="module")
def solution():
    return sma.solve(sma.Problem(*draw(70), **OPTIONS))


@pytest.fixture(scope="module")
def chains():
    """A small hidden Markov problem."""
    task = sma.tasks.HiddenMarkov(length=5, token_size=4)
    keys = jax.random.split(jax.random.key(71), 2)
    sample = task.sample(12, key=keys[0])
    attention = sma.attention_from_products(task.heads(key=keys[1]))
    return sma.attentioned_inputs(sample.inputs, attention), sample.labels


# Second opinions.


@pytest.mark.parametrize(
    ("heads", "widths", "variances"),
    [
        (HEADS, (2, 7, 4), VARIANCES),
        ((2, 1, 3), (7, 5, 9, 6), (0.7, 1.3, 0.9, 1.6, 0.8)),
    ],
)
def test_scipy_finds_the_same_minimum_in_other_variables(heads, widths, variances):
    xi, labels = draw(73, heads)
    wanted = reference.saddle_point(np.asarray(xi.values), labels, heads, widths, variances, 0.1)
    assert_same(sma.solve(sma.Problem(xi, labels, width=widths, temperature=0.1, variance=variances)), wanted)


def test_scipy_finds_the_same_minimum_on_hidden_markov_chains(chains):
    xi, labels = chains
    wanted = reference.saddle_point(np.asarray(xi.values), np.asarray(labels), HEADS, (6,) * 3, (1.0,) * 4, 0.01)
    assert_same(sma.solve(sma.Problem(xi, labels, width=6, temperature=0.01)), wanted)


@pytest.mark.parametrize(("width", "label", "temperature"), [(1.0, 2.0, 0.1), (3.0, 0.3, 0.5), (0.2, 5.0, 0.01)])
def test_one_path_and_one_example_solve_a_scalar_equation(width, label, temperature):
    # The readout's equation gives u = sqrt(sigma_a^2 U / sigma_1^2); U then solves slope(U) = 0.
    inputs = np.array([[[1.0, -2.0, 0.5]]])
    first, value, last = 0.6, 1.7, 0.4
    gain = first * np.sum(inputs**2) / 3

    def slope(u):
        noise = gain * u + temperature
        return 1 / math.sqrt(value * last * u) - 1 / u + gain / width * (1 / noise - label**2 / noise**2)

    root = brentq(slope, 1e-6, 1e6, xtol=1e-14, rtol=1e-14)
    found = sma.solve(
        sma.Problem(inputs, [label], width=width, temperature=temperature, variance=(first, value, last), layers=(1,))
    )
    assert float(found.order_parameter[0, 0]) == pytest.approx(root, rel=1e-8)
    assert float(found.order_parameters[1]) == pytest.approx(math.sqrt(last * root / value), rel=1e-8)


# The ways to solve agree with each other.


def test_inputs_with_fewer_directions_than_features_lose_nothing(chains):
    xi, labels = chains
    rotation, _ = np.linalg.qr(np.random.default_rng(74).normal(size=(40, 40)))
    # The same examples in forty features: zeros appended, then rotated; (10) divides by the number of features.
    missing = 40 - xi.values.shape[-1]
    wide = np.pad(np.asarray(xi.values), ((0, 0), (0, 0), (0, missing))) @ rotation
    wide *= math.sqrt(40 / xi.values.shape[-1])
    found = sma.solve(sma.Problem(wide, labels, width=6, temperature=0.01, layers=HEADS))
    assert_same(found, sma.solve(sma.Problem(xi, labels, width=6, temperature=0.01)).order_parameters)


@pytest.mark.parametrize("heads", [(2, 1), pytest.param((2, sma.Outputs(2)), marks=pytest.mark.slow)])
def test_more_examples_than_features_of_all_paths_are_rotated_away_and_lose_nothing(heads):
    rng = np.random.default_rng(75)
    inputs, labels = rng.normal(size=(40, 2, 3)), rng.normal(size=40 if heads == (2, 1) else (40, 2))
    outputs = labels.size // 40
    options = {"layers": heads, "width": 5.0, "temperature": 0.1, "variance": 0.7}
    left = prepared(sma.Problem(inputs, labels, **options), "products")[0].energy
    assert left.inputs[0].shape == ((6 + outputs) * outputs, 3, 2 * outputs)
    assert float(np.sum(left.labels**2)) == pytest.approx(np.sum(labels**2), rel=1e-12)
    found = sma.solve(sma.Problem(inputs, labels, **options))
    # What is traced is not looked at, so that nothing is rotated away.
    whole = jax.jit(lambda values: sma.solve(sma.Problem(values, labels, **options), throw=False))(jnp.asarray(inputs))
    assert_same(found, whole.order_parameters, 1e-8)
    for name in ("action", "energy", "entropy"):
        assert float(getattr(found, name)) == pytest.approx(float(getattr(whole, name)), rel=1e-10)
    wanted = sma.theory.action(sma.Problem(inputs, labels, **options), found.order_parameters)
    assert float(found.action) == pytest.approx(float(wanted), rel=1e-10)


def test_many_blocks_of_examples_are_triangulated_one_after_the_other():
    rng = np.random.default_rng(76)
    inputs, labels = rng.normal(size=(5000, 2, 3)), rng.normal(size=5000)  # three blocks
    problem = sma.Problem(inputs, labels, width=5.0, temperature=0.1, layers=(2,))
    left = prepared(problem, "products")[0].energy
    flat, short = inputs.reshape(5000, 6), np.swapaxes(left.inputs[0], 1, 2).reshape(7, 6)
    np.testing.assert_allclose(short.T @ short, flat.T @ flat, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(short.T @ left.labels, flat.T @ labels, rtol=1e-10, atol=1e-10)


def test_a_sweep_takes_the_options_of_a_solve():
    xi, labels = draw(78)
    options = {"widths": [3.0, 8.0], "temperatures": [0.2]}
    found = sma.solve_sweep(sma.Problem(xi, labels), method="products", **options)
    wanted = sma.solve_sweep(sma.Problem(xi, labels), method="dense", **options)
    np.testing.assert_allclose(found.action, wanted.action, rtol=1e-10)
    short = sma.solve_sweep(sma.Problem(xi, labels), max_steps=1, throw=False, **options)
    assert np.all(short.outcome == sma.Outcome.MAX_STEPS)


def test_other_numbers_of_the_same_shapes_compile_nothing():
    xi, labels = draw(70)

    def solved(width, temperature, variance, sign):
        sma.solve(sma.Problem(xi, sign * labels, width=width, temperature=temperature, variance=variance))
        sma.solve_sweep(
            sma.Problem(xi, labels, variance=variance), widths=[width, 3.0], temperatures=[temperature, 0.5]
        )

    solved(4.0, 0.1, 1.0, 1.0)
    before = compilations()
    solved(7, 0.3, (0.5, *(1.2,) * (len(HEADS) + 1)), -1.0)
    assert compilations() == before


def test_another_number_of_examples_compiles_nothing_and_has_its_solution():
    """Rows of zeros change nothing: the reference's Gaussian has no such rows."""
    xi, labels = draw(77, examples=30)
    values = np.asarray(xi.values)

    def evidence(count):
        problem = sma.Problem(values[:count], labels[:count], layers=HEADS, **OPTIONS)
        sma.solve_sweep(problem, widths=[5.0], temperatures=[0.1]).predict(values[:20])
        found = sma.solve(problem, tolerance=1e-11)
        return found, found.predict(values[: count - 5]), sma.log_evidence(found, corrected=True)

    evidence(30)
    before = compilations()
    found, prediction, _ = evidence(26)
    assert compilations() == before
    inputs, test, overlap = values[:26], values[:21], np.asarray(found.order_parameter)
    covariance = reference.kernel(inputs, inputs, overlap, HEADS, 1.0) + 0.1 * np.eye(26)
    density = multivariate_normal(mean=np.zeros(26), cov=covariance).logpdf(labels[:26])
    assert float(found.energy) == pytest.approx(-2 / 26 * density - math.log(2 * math.pi), rel=1e-12)
    mean, variance = reference.predict(inputs, labels[:26], test, overlap, HEADS, 0.1, 1.0)
    np.testing.assert_allclose(prediction.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(prediction.variance, variance, rtol=1e-9, atol=1e-12)
    # What is traced is not padded.
    options = {"layers": HEADS, **OPTIONS}
    alone = jax.jit(lambda x: sma.solve(sma.Problem(x, labels[:26], **options), tolerance=1e-11, throw=False))(inputs)
    assert_same(found, alone.order_parameters, 1e-12)
    assert float(found.action) == pytest.approx(float(alone.action), rel=1e-14)


def test_a_warm_start_takes_fewer_steps_to_the_same_minimum(solution):
    problem = sma.Problem(*draw(70), width=4.2, temperature=0.1)
    near, cold = sma.solve(problem, start=solution), sma.solve(problem)
    assert near.steps < cold.steps
    assert_same(near, cold.order_parameters)


@pytest.mark.parametrize("start", range(3))
def test_any_start_ends_in_the_same_minimum(solution, start):
    order_parameters = reference.random_order_parameters(np.random.default_rng(start), HEADS)
    assert_same(sma.solve(sma.Problem(*draw(70), **OPTIONS), start=order_parameters), solution.order_parameters)


def test_a_sweep_equals_separate_solves():
    xi, labels = draw(70)
    widths, temperatures = [3.0, (20.0, 5.0, 10.0), math.inf], [0.5, 0.1]
    sweep = sma.solve_sweep(sma.Problem(xi, labels), widths=widths, temperatures=temperatures)
    assert sweep.action.shape == (3, 2)
    assert sweep.order_parameter.shape == (3, 2, 4, 4)
    test = draw(72)[0]
    predictions = sweep.predict(test)
    for row, width in enumerate(widths):
        for column, temperature in enumerate(temperatures):
            alone = sma.solve(sma.Problem(xi, labels, width=width, temperature=temperature))
            one = sweep[row, column]
            assert_same(one, alone.order_parameters)
            assert float(one.action) == pytest.approx(float(alone.action), rel=1e-12)
            assert one.problem.temperature == temperature
            assert one.problem.width == alone.problem.width
            mean, variance = alone.predict(test)
            np.testing.assert_allclose(predictions.mean[row, column], mean, rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(predictions.variance[row, column], variance, rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(one.predict(test).mean, mean, rtol=1e-6, atol=1e-8)
    assert sweep[1].action.shape == (2,)


# Limits.


def test_infinite_width_is_the_gaussian_process_limit():
    found = sma.solve(sma.Problem(*draw(70), width=math.inf, temperature=0.1, variance=VARIANCES))
    assert_same(found, reference.gp_order_parameters(HEADS, VARIANCES), 1e-14)
    assert found.steps == 0


def test_order_parameters_approach_the_gp_limit_as_one_over_the_width():
    widths = np.logspace(3, 6, 4)
    sweep = sma.solve_sweep(sma.Problem(*draw(70)), widths=widths, temperatures=[0.5, 0.1], tolerance=1e-12)
    for overlaps in sweep[:, 1].order_parameters:
        size = 1 if overlaps.ndim == 1 else overlaps.shape[-1]
        flat = np.asarray(overlaps).reshape(4, size, size) - np.eye(size)
        slope = np.polyfit(np.log(widths), np.log(np.linalg.norm(flat, axis=(1, 2))), 1)[0]
        assert slope == pytest.approx(-1, abs=0.01)


# Symmetries.


def test_scaling_inputs_and_variances_scales_what_lies_below_them():
    # Every factor multiplies the kernel; temperature and squared labels can undo it.
    xi, labels = draw(70)
    inputs, factors = 2.0, np.array([1.0, 0.5, 1.5, 3.0])
    total = inputs**2 * math.prod(factors)
    one = sma.solve(sma.Problem(xi, labels, variance=VARIANCES, **OPTIONS))
    other = sma.solve(
        sma.Problem(
            inputs * xi.values,
            math.sqrt(total) * labels,
            width=4.0,
            temperature=total * 0.1,
            variance=factors * VARIANCES,
            layers=HEADS,
        )
    )
    wanted = [math.prod(factors[layer + 1 :]) * u for layer, u in enumerate(one.order_parameters)]
    assert_same(other, wanted, 1e-7)


# Hard cases.


def seen_twice(contradicting=False, **sizes):
    """Three examples or more, each of them twice, the second time with the opposite label if they are to contradict."""
    xi, labels = draw(70, **({"examples": 3} | sizes))
    once = np.asarray(xi.values)
    return once, labels, np.concatenate([once, once]), np.concatenate([labels, -labels if contradicting else labels])


@pytest.mark.parametrize("method", ["dense", "products", "gradients"])
def test_duplicate_examples_at_small_temperature_still_solve(method):
    # Seen twice at T is seen once at T / 2, up to a constant; the second kernel is nearly singular.
    once, labels, twice, both = seen_twice()
    found = sma.solve(sma.Problem(twice, both, width=4.0, temperature=1e-8, layers=HEADS), method=method)
    assert found.gradient_norm <= 1e-8
    assert_same(found, reference.saddle_point(once, labels, HEADS, (4,) * 3, (1.0,) * 4, 0.5e-8), 1e-6)


@pytest.mark.parametrize(("method", "fewest"), [("dense", 1), ("products", 5)])
def test_a_kernel_singular_but_for_rounding_says_why_it_does_not_solve(method, fewest):
    # K + T keeps two or three digits of T: the gradient is not known to the tolerance, but for dense luck.
    # With more rows than (path, feature) those seen twice would be rotated away.
    once, labels, twice, both = seen_twice(examples=30, features=30)
    raised = []
    for temperature in (1e-13, 5e-14, 2e-14, 1e-14, 5e-15):
        problem = sma.Problem(twice, both, width=4.0, temperature=temperature, layers=HEADS)
        try:
            solution = sma.solve(problem, method=method)
        except sma.NotConverged as error:
            wanted = rf"not reached at T = {temperature:g}, .*[Rr]aise (max_steps|the temperature)"
            raised, solution = [*raised, re.search(wanted, str(error))], error.solution
            assert solution.outcome in (sma.Outcome.STALLED, sma.Outcome.MAX_STEPS)
            assert solution.gradient_norm > 1e-8
        expected = reference.saddle_point(once, labels, HEADS, (4,) * 3, (1.0,) * 4, temperature / 2)
        # The backward error of a Cholesky factor acts like a change of T by so much.
        gram = sma.kernel(problem.attentioned, problem.attentioned, solution.order_parameter)
        assert_same(solution, expected, len(gram) * np.finfo(float).eps * np.linalg.norm(gram, 2) / temperature)
    assert len(raised) >= fewest and all(raised)


@pytest.mark.parametrize("contradicting", [False, True])
def test_a_singular_kernel_says_why_it_does_not_solve(contradicting):
    _, _, twice, both = seen_twice(contradicting, examples=30, features=30)
    with pytest.raises(sma.NotConverged, match=r"not reached at T = 1e-300, N = 4, 4, 4 .*Raise the temp") as caught:
        sma.solve(sma.Problem(twice, both, width=4.0, temperature=1e-300, layers=HEADS))
    assert caught.value.solution.outcome in (sma.Outcome.NOT_FINITE, sma.Outcome.STALLED)


def test_running_out_of_steps_raises_and_carries_the_solution_so_far():
    problem = sma.Problem(*draw(70), **OPTIONS)
    with pytest.raises(sma.NotConverged, match=r"\(1 of 1 solves\).*after 1 steps\. The steps ran out") as caught:
        sma.solve(problem, max_steps=1)
    partial = caught.value.solution
    assert partial.outcome == sma.Outcome.MAX_STEPS
    assert partial.steps == 1
    assert partial.gradient_norm > 1e-8
    kept = sma.solve(problem, max_steps=1, throw=False)
    assert_same(kept, partial.order_parameters, 1e-14)
    # What was found so far is a good start.
    assert sma.solve(problem, start=partial).outcome == sma.Outcome.CONVERGED
