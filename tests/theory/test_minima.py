"""Minima of the action against formulas, a second minimiser, a curve of one variable and separate code."""

from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from chains import on_chains
from scipy.linalg import solve_triangular
from scipy.stats import ortho_group

import statmech_attention as sma
from attention_book.theory.solvable_model import SolvableModel
from statmech_attention.layers.chains import Chain, order_parameters_on
from statmech_attention.theory import minima
from statmech_attention.theory.problem import warn_of_large_labels
from statmech_attention.theory.search import _renumbered

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


def test_the_maximum_of_the_evidence_is_at_the_lowest_minimum():
    problem, _, _ = drawn(*TWO[2])
    best = sma.maximise_evidence(problem, chosen="temperature")
    prior, lowest = sma.solve(best.solution.problem), minima(best.solution.problem)[0]
    assert (prior.start, lowest.start) == ("prior", "narrow") and (prior.starts, lowest.starts > 1) == (1, True)
    assert sma.log_evidence(prior) + 10 < best.log_evidence == pytest.approx(float(sma.log_evidence(lowest)), abs=1e-6)


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


def test_a_label_along_a_weak_direction_of_a_single_path():
    """Every strong direction without a label adds a step upwards to this curve of one variable, and a label a dip."""
    sizes, squares, width = np.append(np.full(20, 100.0), 0.01), np.append(np.zeros(20), 600.0), 10
    inputs = np.diag(np.sqrt(len(sizes) * sizes))[:, None]
    found = minima(sma.Problem(inputs, np.sqrt(squares), layers=(1,), width=width, temperature=1.0))
    u = np.exp(np.linspace(-12, 12, 480_001))
    seen = 1 + u[:, None] * sizes
    curve = 2 * np.sqrt(u) - np.log(u) + np.sum(np.log(seen) + squares / seen, axis=1) / width
    low = np.flatnonzero((curve[1:-1] < curve[:-2]) & (curve[1:-1] < curve[2:])) + 1
    low = low[np.argsort(curve[low])]
    np.testing.assert_allclose([one.action for one in found], curve[low], rtol=0, atol=1e-8)
    np.testing.assert_allclose([one.order_parameter.item() for one in found], u[low], rtol=1e-4)
    np.testing.assert_allclose(curve[low], [62.7440, 66.1773], rtol=0, atol=1e-4)


def with_small_inputs(chain):
    """The problem of a chain, in which labels are large against the kernel."""
    train, labels, _ = chain.problem()
    return sma.Problem(0.03 * train.values, labels, layers=chain.heads, width=4.0, temperature=1e-3)


def test_order_parameters_in_another_order_of_heads_and_outputs_have_the_kernel_in_theirs():
    """Three heads in a cycle, whose inverse is another one."""
    layers, order, random = (3, sma.SkipHeads(2), sma.Outputs(2)), ((2, 0, 1), (1, 0)), np.random.default_rng(0)
    weights = sma.sample_weights(key=jax.random.key(0), layers=layers, width=9, features=4)
    overlaps = sma.model.network.weights_order_parameters(weights, layers=layers)
    inputs, axes = (
        sma.AttentionedInputs(jnp.asarray(random.normal(size=(5, 9, 4))), layers),
        ortho_group.rvs(2, random_state=1),
    )
    ordered = sma.kernel(inputs.keep_heads(order), inputs.keep_heads(order), overlaps[0])
    back = _renumbered(overlaps, inputs.chain, order, axes)
    turned = np.einsum("ca,eafb,db->ecfd", axes, ordered, axes)
    np.testing.assert_allclose(sma.kernel(inputs, inputs, back[0]), turned, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:labels:UserWarning")
@on_chains(2)
def test_minima_do_not_depend_on_how_heads_are_numbered(chain):
    problem, random = with_small_inputs(chain), np.random.default_rng(chain.seed)
    order = [random.permutation(count).tolist() for count in chain.counts]
    other = problem.replace(attentioned=problem.attentioned.keep_heads(order))
    found, again = minima(problem), minima(other)
    assert [one.starts for one in found] == [one.starts for one in again]
    whole = problem.attentioned.chain
    for one, renumbered in zip(found, again, strict=True):
        assert abs(one.action - renumbered.action) < 1e-7 * (1 + abs(one.action))
        wanted = order_parameters_on(one.order_parameters, whole, whole.keep(order)[1])
        for overlap, known in zip(renumbered.order_parameters, wanted, strict=True):
            np.testing.assert_allclose(overlap, known, rtol=0, atol=1e-4 * np.max(np.abs(known)))


@pytest.mark.parametrize("turned", ["numbered otherwise", "rotated"])
def test_minima_do_not_depend_on_the_axes_of_the_outputs(turned):
    random, layers = np.random.default_rng(5), (2, sma.Heads(2, values=2), sma.Outputs(2))
    inputs = random.normal(size=(10, 1, 6)) + 0.1 * random.normal(size=(10, 4, 6))
    labels = random.choice([-1.0, 1.0], size=(10, 2))
    axes = np.eye(2)[::-1] if turned == "numbered otherwise" else ortho_group.rvs(2, random_state=0)
    numbers = {"layers": layers, "width": 3.0, "temperature": 0.01}
    found, again = (minima(sma.Problem(inputs, seen, **numbers)) for seen in (labels, labels @ axes))
    assert [one.starts for one in found] == [one.starts for one in again]
    for one, other in zip(found, again, strict=True):
        assert abs(one.action - other.action) < 1e-9
        by_output = one.order_parameter.reshape(4, 2, 4, 2)
        wanted = np.einsum("acbd,cs,dt->asbt", by_output, axes, axes).reshape(8, 8)
        np.testing.assert_allclose(other.order_parameter, wanted, rtol=0, atol=1e-4 * np.max(wanted))


@pytest.mark.filterwarnings("ignore:labels:UserWarning")
def test_the_numbering_of_heads_alone_changes_where_solve_ends():
    """Were it otherwise, the test above could not fail."""
    ends = set()
    for number in range(12):
        random = np.random.default_rng([8, number])
        layers = ((2, 2), (2, sma.SkipHeads(2)), (2, 2, 2), (4,))[random.integers(4)]
        inputs = random.normal(size=(7, Chain.of(layers).paths, 3)) * 10 ** random.uniform(-3, -0.5)
        labels = random.choice([-1.0, 1.0], size=7)
        numbers = {"width": random.uniform(3, 10), "temperature": 10 ** random.uniform(-4, -2)}
        problem = sma.Problem(inputs, labels, layers=layers, **numbers)
        turned = problem.attentioned.keep_heads([range(count)[::-1] for count in problem.attentioned.chain.heads])
        apart = sma.solve(problem).action - sma.solve(problem.replace(attentioned=turned)).action
        ends.add(bool(abs(apart) > 1e-3))
    assert ends == {False, True}


def test_large_labels_are_warned_of():
    inputs, labels = np.random.default_rng(0).normal(size=(7, 4, 3)), np.resize([1.0, -1.0], 7)
    numbers = {"layers": (2, 2), "width": 3.0, "temperature": 1e-3}
    sma.solve(sma.Problem(0.1 * inputs, labels, **numbers))
    for search in (sma.solve, minima):
        with pytest.warns(UserWarning, match=r"wanted \|Y\|\^2 of the order of tr\(K \+ T\), got [1-9]\d\d times"):
            search(sma.Problem(0.03 * inputs, labels, **numbers))


@pytest.mark.parametrize("outputs", [(), (sma.Outputs(2),)])
def test_the_warning_of_large_labels_counts_every_output(outputs):
    random, layers, variance = np.random.default_rng(0), (sma.SkipHeads(2), 2, *outputs), (1.3, 0.7, 1.2, 0.9)
    inputs = sma.AttentionedInputs(jnp.asarray(random.normal(size=(7, 6, 3))), layers)
    labels = random.normal(size=(7, *(one.count for one in outputs)))
    kernel = np.asarray(sma.kernel(inputs, inputs, variance=variance)).reshape(labels.size, -1)
    ratio = np.sum(labels**2) / (np.trace(kernel) + 0.2 * labels.size)
    for times, warned in ((299, False), (301, True)):
        large = np.sqrt(times / ratio) * labels
        problem = sma.Problem(inputs, large, width=5.0, temperature=0.2, variance=variance)
        with pytest.warns(UserWarning, match=f"got {times} times") if warned else nullcontext():
            warn_of_large_labels(problem)
