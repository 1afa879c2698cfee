"""The theory of mixed chains: the action and its minimum against brute force, derivatives, limits, the predictor."""

import numpy as np
import pytest

import statmech_attention as sma
from layers import brute_force

EXAMPLES, FEATURES, TEMPERATURE = 6, 3, 0.2
VARIANCES = (0.8, 1.5, 0.6, 1.2, 0.9)
PLAIN, WIDTH = (2,), (8.0, 8.0)


def drawn(layers, outputs, seed=7, examples=EXAMPLES):
    """Attentioned inputs, labels, and more inputs for testing."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(examples + 2, len(brute_force.paths(layers)), FEATURES))
    labels = rng.normal(size=(examples,) if outputs is None else (examples, outputs))
    return values[:examples], labels, values[examples:]


@pytest.mark.parametrize(
    "name", ["a skip below", "narrow heads below", pytest.param("narrow skips", marks=pytest.mark.slow)]
)
def test_the_saddle_point_is_that_of_brute_force(name):
    """And so are energy and entropy there, mean and variance of the output, and the kernel."""
    layers, _, outputs = brute_force.CHAINS[name]
    widths = (9.0, 9.0, 9.0 if layers[-1][0] == "narrow skip" else 5.0)[: len(layers) + 1]
    variances = VARIANCES[: len(layers) + 2]
    inputs, labels, test = drawn(layers, outputs)
    heads = brute_force.shorthand(layers, outputs)
    options = {"layers": heads, "width": widths, "temperature": TEMPERATURE, "variance": variances}
    problem = sma.Problem(inputs, labels, **options)
    found = sma.solve(problem, method="dense")
    wanted, value = brute_force.saddle_point(inputs, labels, layers, outputs, widths, variances, TEMPERATURE)
    assert float(found.action) == pytest.approx(value, abs=1e-9)
    for one, other in zip(found.order_parameters, wanted, strict=True):
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, atol=1e-4)

    overlaps = [np.asarray(one) for one in found.order_parameters]
    assert float(found.entropy) == pytest.approx(brute_force.entropy(overlaps, layers, widths, variances), rel=1e-10)
    energy = brute_force.energy(overlaps[0], inputs, labels, layers, outputs, TEMPERATURE, variances[0])
    assert float(found.energy) == pytest.approx(energy, rel=1e-10)
    mean, variance = brute_force.predict(
        inputs, labels, test, overlaps[0], layers, outputs, TEMPERATURE, input_variance=variances[0]
    )
    prediction = found.predict(test)
    np.testing.assert_allclose(prediction.mean, mean, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(prediction.variance, variance, rtol=1e-9, atol=1e-11)
    axes = () if outputs is None else (outputs,)
    kernel = brute_force.kernel(test, inputs, overlaps[0], layers, outputs, variances[0])
    found_kernel = sma.kernel(test, inputs, found.order_parameter, variance=variances, layers=heads)
    assert found_kernel.shape == (len(test), *axes, len(inputs), *axes)
    np.testing.assert_allclose(found_kernel.reshape(kernel.shape), kernel, rtol=1e-10, atol=1e-12)

    products = sma.solve(problem, method="products")
    np.testing.assert_allclose(products.order_parameter, found.order_parameter, atol=1e-6)


@pytest.fixture(scope="module")
def plain():
    """One layer of two heads, inputs of four paths of which it sees the first two or every other one."""
    values, labels, test = drawn([("heads", 2), ("skip", 1)], None)

    def solved(paths, labels=labels):
        return sma.solve(sma.Problem(values[:, paths], labels, layers=PLAIN, width=WIDTH, temperature=TEMPERATURE))

    return values, labels, test, solved


def test_a_skip_whose_heads_have_no_variance_is_one_layer_less(plain):
    values, labels, test, solved = plain
    heads, variance = (2, sma.SkipHeads(1)), (1.0, 1.0, 1e-10, 1.0)
    found = sma.solve(sma.Problem(values, labels, layers=heads, width=8.0, temperature=TEMPERATURE, variance=variance))
    less = solved([0, 2])
    np.testing.assert_allclose(found.order_parameter[::2, ::2], less.order_parameter, rtol=1e-6)
    np.testing.assert_allclose(found.predict(test).mean, less.predict(test[:, [0, 2]]).mean, rtol=1e-6, atol=1e-8)


def test_a_wide_linear_block_changes_nothing(plain):
    values, labels, _, solved = plain
    wanted, errors = solved([0, 1]).order_parameter, []
    for width in (1e2, 1e3):
        options = {"layers": (2, sma.Linear()), "width": (8.0, 8.0, width), "temperature": TEMPERATURE}
        found = sma.solve(sma.Problem(values[:, :2], labels, **options), tolerance=1e-10)
        errors.append(np.max(np.abs(found.order_parameter - wanted)))
    assert errors[0] < 0.05
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.1)  # a correction of first order in 1/width


def test_one_of_several_outputs_is_a_network_of_its_own_where_labels_have_nothing_in_common(plain):
    """Half of the examples live on other features than the rest; each output has labels for one half alone."""
    values, labels, _, solved = plain
    apart = np.zeros((EXAMPLES, 2, FEATURES))
    half = EXAMPLES // 2
    apart[:half, :, :2], apart[half:, :, 2:] = values[:half, :2, :2], values[half:, :2, 2:]
    both = np.zeros((EXAMPLES, 2))
    both[:half, 0], both[half:, 1] = labels[:half], labels[half:]
    options = {"width": WIDTH, "temperature": TEMPERATURE}
    found = sma.solve(sma.Problem(apart, both, layers=(*PLAIN, sma.Outputs(2)), **options))
    overlap = found.order_parameter.reshape(2, 2, 2, 2)
    np.testing.assert_allclose(overlap[:, 0, :, 1], 0.0, atol=1e-7)
    for output in range(2):
        alone = sma.solve(sma.Problem(apart, both[:, output], layers=PLAIN, **options))
        np.testing.assert_allclose(overlap[:, output, :, output], alone.order_parameter, atol=1e-7)


def test_a_subset_of_paths_keeps_all_outputs():
    layers, outputs = [("heads", 2), ("skip", 1)], 2
    train, labels, test = drawn(layers, outputs)
    overlap = np.cov(np.random.default_rng(1).normal(size=(8, 20)))
    problem = sma.Problem(train, labels, temperature=TEMPERATURE, layers=brute_force.shorthand(layers, outputs))
    found = sma.kernel_regression(problem, overlap).predict(test, paths=[1, 2])
    kept = np.repeat(np.isin(np.arange(4), [1, 2]), 2).astype(float)
    mean, _ = brute_force.predict(train, labels, test, overlap * np.outer(kept, kept), layers, outputs, TEMPERATURE)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9, atol=1e-11)


def test_accuracy_of_several_outputs_counts_the_largest():
    means = np.array([[3.0, 1.0, 2.0], [0.0, 1.0, 1.0], [0.0, 0.0, 5.0], [1.0, 1.0, 1.0]])
    labels = 2 * np.eye(3)[[0, 2, 1, 0]] - 1
    assert float(sma.accuracy(means, labels)) == pytest.approx((1 + 0.5 + 0 + 1 / 3) / 4)
    with pytest.raises(ValueError, match="labels: wanted one largest label per example"):
        sma.accuracy(means, np.zeros((4, 3)))
