"""The sum of the problems of parts against the problem of all examples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention.sampling._bartlett import bartlett
from statmech_attention.sampling._density import posterior_density
from statmech_attention.theory.outputs import cross_kernels, output
from statmech_attention.theory.prepared import prepared

RNG = np.random.default_rng(5)
EXAMPLES, FEATURES = 83, 3
VALUES = RNG.normal(size=(EXAMPLES, 4, FEATURES))
LABELS = np.sign(VALUES[:, 0, 0] + VALUES[:, 1, 1] + RNG.normal(size=EXAMPLES))
NUMBERS = {"width": 9, "temperature": 0.3, "variance": (1.1, 0.9, 1.2, 0.8)}
CHAINS = {"heads": (2, 2), "outputs": (2, sma.Heads(2, values=4), sma.Outputs(2))}
EXACT = {"rtol": 1e-10, "atol": 1e-10}
SOLVE = {"tolerance": 1e-12}


def labels_of(layers):
    if not isinstance(layers[-1], sma.Outputs):
        return LABELS
    return np.stack([LABELS, VALUES[:, 2, 1]], axis=1)


def whole(name="heads", **changes):
    return sma.Problem(VALUES, labels_of(CHAINS[name]), layers=CHAINS[name], **NUMBERS | changes)


def chunks(name="heads", sizes=(20, 3, 40, 1, 19)):
    labels, start = labels_of(CHAINS[name]), 0
    for size in sizes:
        yield VALUES[start : start + size], labels[start : start + size]
        start += size


def added(name="heads", **changes):
    return sum(sma.Problem(*chunk, layers=CHAINS[name], **NUMBERS | changes) for chunk in chunks(name))


def equal(found, wanted, **tolerance):
    for pair in zip(*map(jax.tree.leaves, (found, wanted)), strict=True):
        np.testing.assert_allclose(*pair, **EXACT | tolerance)


@pytest.mark.parametrize("name", CHAINS)
def test_the_theory_of_a_sum_is_that_of_the_whole_array(name):
    problem, reference = added(name), whole(name)
    outputs = reference.attentioned.chain.outputs
    assert problem.labels.shape[0] == 4 * FEATURES + outputs and problem.examples == EXAMPLES
    assert f"{EXAMPLES} examples in {4 * FEATURES + outputs} rows" in repr(problem)
    found, wanted = sma.solve(problem, **SOLVE), sma.solve(reference, **SOLVE)
    equal(found.order_parameters, wanted.order_parameters, rtol=1e-8, atol=1e-8)  # what the solver stops at
    for number in ("action", "energy", "entropy"):
        equal(getattr(found, number), getattr(wanted, number))
    test = RNG.normal(size=(5, 4, FEATURES))
    equal(sma.log_evidence(found, corrected=True), sma.log_evidence(wanted, corrected=True), rtol=1e-9)
    equal(found.predict(test), wanted.predict(test), rtol=1e-8, atol=1e-8)
    # At the same order parameters there is nothing but rounding.
    overlap = wanted.order_parameter
    equal(sma.theory.energy(problem, overlap), sma.theory.energy(reference, overlap))
    equal(
        sma.kernel_regression(problem, overlap).predict(test),
        sma.kernel_regression(reference, overlap).predict(test),
    )


def test_the_posterior_of_a_reduced_problem_is_that_of_its_examples():
    test = sma.AttentionedInputs(jnp.asarray(VALUES[:3]), CHAINS["outputs"])

    def told(problem):
        factors = bartlett(problem.architecture)
        action = posterior_density(problem, factors).action
        point = jnp.asarray(0.3 * np.random.default_rng(6).normal(size=factors.coordinates))
        kernels = cross_kernels(problem.attentioned, test, problem.variance)

        @jax.jit
        def numbers(point):
            density = jax.value_and_grad(action.potential)(point)
            return density, output(action.overlap(point), action.energy, kernels)

        return numbers(point)

    equal(told(added("outputs")), told(whole("outputs")))


def test_sweep_and_evidence_maximum_count_the_examples_rotated_away():
    problem, reference = added(), whole()
    sweeps = [
        sma.solve_sweep(one, widths=[20, 5, np.inf], temperatures=[0.1, 1.0], **SOLVE) for one in (problem, reference)
    ]
    equal(*(sma.log_evidence(one) for one in sweeps))
    assert sweeps[0][1, 0].problem.examples == EXAMPLES
    fits = [sma.maximise_evidence(one, tolerance=1e-11) for one in (problem, reference)]
    assert fits[0].temperature == pytest.approx(fits[1].temperature, rel=1e-4)
    assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, rel=1e-9)


@pytest.mark.slow
def test_batches_and_gradients_go_through_a_reduced_problem():
    problem = added()
    batch = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), problem)
    found = jax.vmap(lambda one: sma.solve(one, throw=False))(batch)
    equal(sma.log_evidence(found)[1], sma.log_evidence(sma.solve(problem)), rtol=1e-9)
    assert float(found[1].problem.examples) == EXAMPLES

    def nats(temperature, one):
        return sma.log_evidence(sma.solve(one.replace(temperature=temperature), throw=False, **SOLVE))

    slopes = [jax.jit(jax.grad(nats))(0.3, one) for one in (problem, whole())]
    assert float(slopes[0]) == pytest.approx(float(slopes[1]), rel=1e-8)


@pytest.mark.parametrize(("more", "reduced"), [(0, False), (1, True)])
def test_a_sum_is_reduced_where_it_has_more_rows_than_columns(more, reduced):
    rows = 4 * FEATURES + 1 + more
    parts = (sma.Problem(VALUES[some], LABELS[some], layers=(2, 2), **NUMBERS) for some in (slice(5), slice(5, rows)))
    found = sum(parts)
    assert (found.count is not None) == reduced and len(found.labels) == 4 * FEATURES + 1 and found.examples == rows


def test_order_and_grouping_of_parts_change_rounding_alone():
    parts = [sma.Problem(*one, layers=(2, 2), **NUMBERS) for one in chunks()]
    forward, backward = sum(parts), sum(parts[::-1])
    tree = (parts[4] + parts[2]) + ((parts[0] + parts[3]) + parts[1])
    overlap = np.eye(4) + 0.3
    for one in (backward, tree, forward.reduce()):
        equal(sma.theory.energy(one, overlap), sma.theory.energy(forward, overlap), rtol=1e-12)
    # Leaving a part out is adding the others.
    others = np.r_[0:20, 23:83]
    left = sma.Problem(VALUES[others], LABELS[others], layers=(2, 2), **NUMBERS)
    equal(sma.theory.energy(sum(parts[:1] + parts[2:]), overlap), sma.theory.energy(left, overlap))


def test_fewer_heads_see_the_same_rows_and_new_examples_are_refused():
    problem, reference = added(), whole()
    smaller = [one.replace(attentioned=one.attentioned.keep_heads(((0, 1), (0,)))) for one in (problem, reference)]
    overlap = np.eye(2) + 0.2
    equal(*(sma.theory.energy(one, overlap) for one in smaller))
    for changes in ({"labels": problem.labels}, {"attentioned": VALUES, "labels": LABELS, "layers": (2, 2)}):
        with pytest.raises(ValueError, match="^replace: wanted the rows of a reduced problem"):
            problem.replace(**changes)
    for call in (
        lambda: sma.select_heads(problem, keep=1),
        lambda: sma.training.learn_attention(lambda theta: problem, {"a": jnp.zeros(1)}),
    ):
        with pytest.raises(ValueError, match="^problem: wanted single examples for"):
            call()


def test_problems_and_their_solutions_are_saved_whole(tmp_path):
    for name in CHAINS:
        problem = added(name)
        loaded = sma.load(sma.save(problem, tmp_path / f"{name}.nc"))
        equal(loaded, problem, rtol=0, atol=0)
        assert loaded.layers == problem.layers and loaded.examples == EXAMPLES
    plain = whole(width=None, temperature=None)
    loaded = sma.load(sma.save(plain, tmp_path / "plain.nc"))
    assert loaded.count is None and loaded.width is None and loaded.temperature is None
    solution = sma.solve(added())
    loaded = sma.load(sma.save(solution, tmp_path / "solution.nc"))
    equal(loaded, solution, rtol=0, atol=0)
    assert loaded.problem.examples == EXAMPLES


def test_a_feature_far_smaller_than_the_others_is_kept():
    """It alone carries the labels, which the temperature lets it show."""
    rng = np.random.default_rng(8)
    labels = np.where(np.arange(12) % 2, 1.0, -1.0)
    values = np.concatenate([rng.normal(size=(12, 1, 3)), 1e-5 * labels[:, None, None]], axis=2)
    problem = sma.Problem(values, labels, layers=(1,), width=5.0, temperature=1e-10)
    action, _ = prepared(problem, "dense")
    wanted = problem.examples * sma.theory.energy(problem, np.eye(1))
    alone = sma.Problem(values * [1, 1, 1, 0], labels, layers=(1,), width=5.0, temperature=1e-10)
    without = problem.examples * sma.theory.energy(alone, np.eye(1))
    assert float(action.nats(jnp.zeros(2))) == pytest.approx(float(wanted), rel=1e-5)
    assert abs(float(without - wanted)) > 0.1 * abs(float(wanted))
