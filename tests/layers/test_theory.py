"""The theory of mixed chains: the action and its minimum against brute force, derivatives, limits, the predictor."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from layers import brute_force
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory import coordinates
from statmech_attention.theory.derivatives import dense_hessian, factored_derivatives, hessian_product, problem_of
from statmech_attention.theory.kernels import Reduced, kernel_inputs

EXAMPLES, FEATURES, TEMPERATURE = 6, 3, 0.2
VARIANCES = (0.8, 1.5, 0.6, 1.2, 0.9)
PLAIN, WIDTH = (2,), (8.0, 8.0)


def drawn(layers, outputs, seed=7, examples=EXAMPLES):
    """Attentioned inputs, labels, and more inputs for testing."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(examples + 2, len(brute_force.paths(layers)), FEATURES))
    labels = rng.normal(size=(examples,) if outputs is None else (examples, outputs))
    return values[:examples], labels, values[examples:]


@pytest.mark.parametrize("name", brute_force.CHAINS)
def test_action_agrees_with_brute_force(name):
    layers, widths, outputs = brute_force.CHAINS[name]
    architecture = Architecture.of(brute_force.spelled(layers, outputs), widths, VARIANCES[: len(layers) + 2])
    inputs, labels, _ = drawn(layers, outputs)
    factors = coordinates.full_rank(architecture)
    point = 0.4 * np.random.default_rng(8).normal(size=factors.coordinates)
    overlaps = coordinates.order_parameters(jnp.asarray(point), factors)
    options = {
        "width": widths,
        "temperature": TEMPERATURE,
        "variance": architecture.variances,
        "heads": architecture.heads,
    }
    found = sma.action(inputs, labels, overlaps, **options)
    plain = [np.asarray(one) for one in overlaps]
    wanted = brute_force.action(plain, inputs, labels, layers, outputs, widths, architecture.variances, TEMPERATURE)
    assert float(found) == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("name", ["two outputs", "a skip below", "narrow heads below", "narrow skips"])
def test_the_saddle_point_is_that_of_brute_force(name):
    """And so are energy and entropy there, mean and variance of the output, and the kernel."""
    layers, _, outputs = brute_force.CHAINS[name]
    widths = (9.0, 9.0, 9.0 if layers[-1][0] == "narrow skip" else 5.0)[: len(layers) + 1]
    variances = VARIANCES[: len(layers) + 2]
    inputs, labels, test = drawn(layers, outputs)
    heads = brute_force.spelled(layers, outputs)
    options = {"heads": heads, "width": widths, "temperature": TEMPERATURE, "variance": variances}
    found = sma.solve(inputs, labels, **options, method="dense")
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
    assert found.kernel(test, inputs).shape == (len(test), *axes, len(inputs), *axes)
    np.testing.assert_allclose(found.kernel(test, inputs).reshape(kernel.shape), kernel, rtol=1e-10, atol=1e-12)

    products = sma.solve(inputs, labels, **options, method="products")
    np.testing.assert_allclose(products.order_parameter, found.order_parameter, atol=1e-6)


def test_derivatives_agree_with_automatic_differentiation():
    layers, outputs, widths, variances = [("heads", 2), ("skip", 1)], 2, (9.0, 5.0, 5.0), VARIANCES[:4]
    architecture = Architecture.of(brute_force.spelled(layers, outputs), widths, variances)
    values, labels, _ = drawn(layers, outputs)
    xi = sma.AttentionedInputs(jnp.asarray(values), architecture.heads)
    problem = problem_of(Reduced(kernel_inputs(xi), jnp.asarray(labels).reshape(-1)), xi, TEMPERATURE, architecture)
    factors = coordinates.full_rank(architecture)
    point = jnp.asarray(0.4 * np.random.default_rng(8).normal(size=factors.coordinates))

    @jax.jit
    def wanted(point):
        def action(point):
            overlaps = coordinates.order_parameters(point, factors)
            return sma.action(xi, labels, overlaps, width=widths, temperature=TEMPERATURE, variance=variances)

        return action(point), jax.grad(action)(point), jax.hessian(action)(point)

    @jax.jit
    def found(point):
        value, gradient, curvature = factored_derivatives(point, problem, factors)
        products = jax.lax.map(lambda v: hessian_product(v, curvature, problem, factors), jnp.eye(len(point)))
        *two, dense = dense_hessian(point, problem, factors)
        return (*two, dense.hessian), (value, gradient, products)

    by_autodiff = wanted(point)
    for by_hand in found(point):
        for one, other in zip(by_hand, by_autodiff, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)


@pytest.fixture(scope="module")
def plain():
    """One layer of two heads, inputs of four paths of which it sees the first two or every other one."""
    values, labels, test = drawn([("heads", 2), ("skip", 1)], None)

    def solved(paths, labels=labels):
        return sma.solve(values[:, paths], labels, heads=PLAIN, width=WIDTH, temperature=TEMPERATURE)

    return values, labels, test, solved


def test_a_skip_whose_heads_have_no_variance_is_one_layer_less(plain):
    values, labels, test, solved = plain
    heads, variance = (2, sma.SkipHeads(1)), (1.0, 1.0, 1e-10, 1.0)
    found = sma.solve(values, labels, heads=heads, width=8.0, temperature=TEMPERATURE, variance=variance)
    less = solved([0, 2])
    np.testing.assert_allclose(found.order_parameter[::2, ::2], less.order_parameter, rtol=1e-6)
    np.testing.assert_allclose(found.predict(test).mean, less.predict(test[:, [0, 2]]).mean, rtol=1e-6, atol=1e-8)


def test_a_wide_linear_block_changes_nothing(plain):
    values, labels, _, solved = plain
    wanted, errors = solved([0, 1]).order_parameter, []
    for width in (1e2, 1e3):
        options = {"heads": (2, sma.Linear()), "width": (8.0, 8.0, width), "temperature": TEMPERATURE}
        found = sma.solve(values[:, :2], labels, **options, tolerance=1e-10)
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
    found = sma.solve(apart, both, heads=(*PLAIN, sma.Outputs(2)), **options)
    overlap = found.order_parameter.reshape(2, 2, 2, 2)
    np.testing.assert_allclose(overlap[:, 0, :, 1], 0.0, atol=1e-7)
    for output in range(2):
        alone = sma.solve(apart, both[:, output], heads=PLAIN, **options)
        np.testing.assert_allclose(overlap[:, output, :, output], alone.order_parameter, atol=1e-7)


def test_one_output_by_name_is_the_scalar_output(plain):
    values, labels, test, solved = plain
    options = {"heads": (*PLAIN, sma.Outputs(1)), "width": WIDTH, "temperature": TEMPERATURE}
    found, scalar = sma.solve(values[:, :2], labels[:, None], **options), solved([0, 1])
    np.testing.assert_allclose(found.order_parameter, scalar.order_parameter, rtol=1e-10)
    assert found.order_parameters[-1].shape == (1, 1) and float(found.action) == pytest.approx(float(scalar.action))
    np.testing.assert_allclose(found.predict(test[:, :2]).mean[:, 0], scalar.predict(test[:, :2]).mean, rtol=1e-9)


def test_sweeps_and_batches_have_several_outputs_too(plain):
    values, *_, test, _ = plain
    labels = jnp.asarray(np.random.default_rng(9).normal(size=(3, EXAMPLES, 2)))
    options = {"heads": (2, sma.Outputs(2)), "temperature": TEMPERATURE}

    def one(labels):
        return sma.solve(values[:, :2], labels, width=8.0, **options, throw=False)

    batch, single = jax.vmap(one)(labels), one(labels[1])
    np.testing.assert_allclose(batch.order_parameter[1], single.order_parameter, rtol=1e-7)
    assert batch.predict(test[:, :2]).mean.shape == (3, 2, 2)
    np.testing.assert_allclose(batch[1].predict(test[:, :2]).mean, single.predict(test[:, :2]).mean, rtol=1e-6)
    sweep = sma.solve_sweep(
        values[:, :2], labels[1], heads=options["heads"], widths=[8.0], temperatures=[TEMPERATURE, 1.0]
    )
    np.testing.assert_allclose(sweep[0, 0].order_parameter, single.order_parameter, rtol=1e-7)
    assert sweep.predict(test[:, :2]).variance.shape == (1, 2, 2, 2)


def test_a_subset_of_paths_keeps_all_outputs():
    layers, outputs = [("heads", 2), ("skip", 1)], 2
    train, labels, test = drawn(layers, outputs)
    heads = brute_force.spelled(layers, outputs)
    overlap = np.cov(np.random.default_rng(1).normal(size=(8, 20)))
    found = sma.predict(train, labels, test, overlap, temperature=TEMPERATURE, heads=heads, paths=[1, 2])
    kept = np.repeat(np.isin(np.arange(4), [1, 2]), 2).astype(float)
    mean, _ = brute_force.predict(train, labels, test, overlap * np.outer(kept, kept), layers, outputs, TEMPERATURE)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9, atol=1e-11)
    with pytest.raises(ValueError, match=r"paths: wanted different indices out of 0\.\.3, .* got \[4\]"):
        sma.predict(train, labels, test, overlap, temperature=TEMPERATURE, heads=heads, paths=[4])


def test_accuracy_of_several_outputs_counts_the_largest():
    means = np.array([[3.0, 1.0, 2.0], [0.0, 1.0, 1.0], [0.0, 0.0, 5.0], [1.0, 1.0, 1.0]])
    labels = 2 * np.eye(3)[[0, 2, 1, 0]] - 1
    assert float(sma.accuracy(means, labels)) == pytest.approx((1 + 0.5 + 0 + 1 / 3) / 4)
    with pytest.raises(ValueError, match="labels: wanted one largest label per example"):
        sma.accuracy(means, np.zeros((4, 3)))


BAD = [
    (np.zeros(EXAMPLES), (2, sma.Outputs(2)), r"labels: wanted shape \(examples, outputs\), got \(6,\)"),
    (np.zeros((EXAMPLES, 3)), (2, sma.Outputs(2)), "labels: wanted the same number in the outputs axis .* got 3 and 2"),
    (np.zeros((EXAMPLES, 2)), (2,), r"labels: wanted shape \(examples\), .* end heads with Outputs\(C\)"),
    (np.zeros((EXAMPLES + 1, 2)), (2, sma.Outputs(2)), "labels: wanted the same number in labels and the inputs"),
    (np.zeros(EXAMPLES), (sma.SkipHeads(2),), "the paths axis and the paths of heads=.*got 2 and 3"),
]


@pytest.mark.parametrize(("labels", "heads", "message"), BAD, ids=range(len(BAD)))
def test_labels_and_inputs_that_do_not_fit_the_chain_are_refused(labels, heads, message):
    inputs = np.ones((EXAMPLES, 2, FEATURES))
    with pytest.raises(ValueError, match=message):
        sma.solve(inputs, labels, heads=heads, width=4.0, temperature=1.0)
