"""The theory without paths against the theory of paths, and against networks drawn from the prior."""

import pickle
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import brute_force

import statmech_attention as sma
from attention_book.theory.solvable_model import SolvableModel
from statmech_attention.pruning import head_worth
from statmech_attention.theory import NotConverged
from statmech_attention.theory.levels.features import carried

LENGTHS = [4, 2, 3, 4, 1, 2]
# Layers, readout, outputs, widths: at most 27 paths.
CHAINS = {
    "heads": ([("heads", 3), ("heads", 3)], "last", None, (3.0, 2.0, 4.0)),
    "skips": ([("skip", 2), ("skip", 2), ("skip", 2)], "mean", None, (3.0,) * 4),
    "all kinds, two outputs": ([("heads", 2), ("skip", 2), ("linear", 1)], "mean", 2, (2.0, 3.0, 3.0, 2.0)),
    "skip below, three outputs": ([("skip", 1), ("heads", 2)], "first", 3, (3.0, 3.0, 2.0)),
    "narrow heads": ([("narrow skip", 2), ("heads", 2), ("narrow heads", 2)], "mean", None, (3.0, 3.0, 2.0, 4.0)),
    "narrow skips": ([("narrow skip", 2), ("narrow skip", 2)], "first", None, (3.0, 3.0, 3.0)),
    "narrow heads, two outputs": ([("narrow heads", 2), ("narrow skip", 1)], "last", 2, (3.0, 2.0, 2.0)),
    "an empty skip": ([("skip", 0), ("heads", 2)], "first", None, (3.0, 3.0, 2.0)),
}
FURTHER = ("skip below, three outputs", "narrow heads", "narrow heads, two outputs", "an empty skip")


def arguments(layers, readout, outputs, lengths, seed):
    """Random arguments of `attentioned_inputs`, sentences of unequal lengths."""
    rng, tokens = np.random.default_rng(seed), max(lengths)
    mask = np.arange(tokens) < np.array(lengths)[:, None]
    inputs = rng.normal(size=(*mask.shape, 3))
    matrices = [one * mask[:, None, :, None] for one in brute_force.attention(rng, layers, *mask.shape)]
    matrices = [one / one.sum(axis=2, keepdims=True) for one in matrices if one.shape[1]]
    chain = brute_force.shorthand(layers, outputs)
    return {"inputs": inputs, "attention": matrices, "layers": chain, "readout": readout, "mask": mask}


def setting(name, seed=0):
    """Training and test arguments, labels and numbers of a chain."""
    layers, readout, outputs, widths = CHAINS[name]
    rng = np.random.default_rng(seed)
    labels = 2 * rng.normal(size=(6,) if outputs is None else (6, outputs))
    variance = tuple(rng.uniform(0.5, 2.0, len(layers) + 2))
    seen = (arguments(layers, readout, outputs, one, seed + 1) for one in (LENGTHS, [1, 3, 4]))
    return *seen, labels, {"width": widths, "temperature": 0.1, "variance": variance}


@pytest.mark.parametrize("name", CHAINS)
def test_kernel_of_infinite_width_is_that_of_all_paths(name):
    train, test, _, numbers = setting(name)
    if name == "heads":  # frozen norms too
        rng = np.random.default_rng(3)
        for one in (train, test):
            one["scales"] = [rng.uniform(0.5, 2.0, one["mask"].shape) for _ in range(2)]
            one["norm"] = "pre"
    variance = numbers["variance"]
    seen, others = (sma.attentioned_inputs(**one) for one in (train, test))
    order_parameter = sma.theory.gp_order_parameters(layers=train["layers"], variance=variance)[0]
    expected = sma.kernel(seen, others, order_parameter, variance=variance)
    for one, other in ((seen, others), (sma.token_inputs(**train), sma.token_inputs(**test))):
        np.testing.assert_allclose(sma.kernel(one, other, variance=variance), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "layers",
    [
        [("skip", 2), ("heads", 2), ("skip", 1)],
        # Narrow heads have the same covariance, although the outputs of a wide network are no longer Gaussian.
        [("narrow skip", 2), ("narrow heads", 2), ("skip", 1)],
    ],
)
def test_kernel_of_infinite_width_is_the_covariance_of_sampled_networks(layers):
    draws = 10_000
    given = arguments(layers, "mean", None, [3, 3], 5)
    variance = (1.0, 0.7, 1.3, 0.8, 1.0)
    rng = np.random.default_rng(1)
    projection, values, readout = brute_force.weights(rng, layers, (4, 4, 3, 3), None, variance, 3, draws=(draws,))
    weights = sma.model.Weights(*jax.tree.map(jnp.asarray, (projection, tuple(values), readout)))

    def outputs(weights):
        options = {"layers": given["layers"], "readout": "mean"}
        return sma.forward(weights, given["inputs"], given["attention"], **options)

    products = np.asarray(jax.vmap(outputs)(weights))
    products = products[:, :, None] * products[:, None, :]
    rows = sma.token_inputs(**given)
    apart = products.mean(axis=0) - sma.kernel(rows, rows, variance=variance)
    assert np.all(np.abs(apart) < 4 * products.std(axis=0) / np.sqrt(draws))


# "heads", "skips" and "narrow skips" are solved both ways below.
@pytest.mark.parametrize(
    "name",
    ["all kinds, two outputs", *(pytest.param(name, marks=pytest.mark.slow) for name in FURTHER)],
)
def test_solution_in_all_directions_is_that_of_all_paths(name):
    train, test, labels, numbers = setting(name)
    problem = sma.Problem(sma.attentioned_inputs(**train), labels, **numbers)
    expected = sma.solve(problem, tolerance=1e-10)
    found = sma.solve(sma.Problem(sma.token_inputs(**train), labels, **numbers), tolerance=1e-9)
    assert found.converged and found.settled and found.directions.change == 0
    np.testing.assert_allclose(sma.log_evidence(found), sma.log_evidence(expected), rtol=1e-9, atol=1e-8)
    wanted, got = expected.predict(sma.attentioned_inputs(**test)), found.predict(sma.token_inputs(**test))
    np.testing.assert_allclose(got.mean, wanted.mean, atol=1e-8)
    np.testing.assert_allclose(got.variance, wanted.variance, atol=1e-8)
    np.testing.assert_allclose(found.action, expected.action, rtol=1e-9)
    np.testing.assert_allclose(found.left_out(), expected.left_out(), atol=1e-7)
    corrected = sma.log_evidence(expected, corrected=True)
    np.testing.assert_allclose(sma.log_evidence(found, corrected=True), corrected, rtol=1e-8, atol=1e-7)


@pytest.mark.slow
def test_both_kinds_have_the_same_derivatives_through_the_minimum():
    """Of predictions, in the logarithms of temperature and width and in the labels, at held directions."""
    layers, labels = [("skip", 1), ("heads", 2)], 2 * np.random.default_rng(0).normal(size=6)
    train, test = (arguments(layers, "mean", None, lengths, 1) for lengths in (LENGTHS, [1, 3, 4]))

    def made(make, log_temperature, log_width, labels):
        numbers = {"temperature": jnp.exp(log_temperature), "width": jnp.exp(log_width), "variance": 1.3}
        return sma.Problem(make, labels, **numbers)

    def curves(inputs, new, compiled=lambda function: function, **options):
        def mean(log_temperature, log_width, labels):
            problem = made(inputs, log_temperature, log_width, labels)
            return sma.solve(problem, throw=False, tolerance=1e-10, **options).predict(new).mean[0]

        def slope(*at):
            slopes = jax.grad(mean, (0, 1, 2))(*at)
            return slopes[0], slopes

        return compiled(jax.grad(slope, has_aux=True))(np.log(0.3), np.log(5.0), jnp.asarray(labels))

    paths, tokens = (
        (sma.attentioned_inputs(**one) for one in (train, test)),
        [sma.token_inputs(**one) for one in (train, test)],
    )
    start = sma.solve(made(tokens[0], np.log(0.3), np.log(5.0), labels), tolerance=1e-10)
    expected, found = curves(*paths, compiled=jax.jit), curves(*tokens, start=start)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)


def test_gram_matrices_of_all_levels_are_those_of_all_paths():
    """(K1) with the order parameters of `solve`: of two layers, the lower and the upper one."""
    train, _, labels, numbers = setting("heads")
    found = sma.solve(sma.Problem(sma.token_inputs(**train), labels, **numbers), tolerance=1e-10)
    expected = sma.solve(sma.Problem(sma.attentioned_inputs(**train), labels, **numbers), tolerance=1e-10)
    np.testing.assert_allclose(sma.log_evidence(found), sma.log_evidence(expected), rtol=1e-9, atol=1e-8)
    weights = np.stack([np.eye(4)[[length - 1]][0] for length in LENGTHS])  # the token that is read
    upper = np.einsum("ehkq,eq->ehk", train["attention"][1], weights)
    lower = np.einsum("ehkq,egq->ehgk", train["attention"][0], upper).reshape(6, 9, 4)
    for level, seen, heads in ((2, upper, 3), (1, lower, 9)):
        rows = seen.transpose(0, 2, 1).reshape(24, -1)
        overlap = np.asarray(expected.order_parameters[level - 1])
        np.testing.assert_allclose(found.gram(level), rows @ overlap @ rows.T / heads, atol=1e-7)


@pytest.mark.slow
def test_gram_matrices_of_several_outputs_lead_from_the_readout_to_the_kernel():
    """At the top $U$ of the outputs, at the token that is read; at the bottom, by (K2), the kernel of all paths."""
    train, _, labels, numbers = setting("skip below, three outputs")
    inputs, seen = sma.token_inputs(**train), sma.attentioned_inputs(**train)
    found = sma.solve(sma.Problem(inputs, labels, **numbers), tolerance=1e-10)
    expected = sma.solve(sma.Problem(seen, labels, **numbers), tolerance=1e-10)
    read = np.tile(np.eye(4)[0], 6)  # the first token
    top = np.kron(np.outer(read, read), expected.order_parameters[-1])
    np.testing.assert_allclose(found.gram(3), top, atol=1e-7)
    tokens = np.where(train["mask"][..., None], train["inputs"], 0.0).reshape(24, 3)
    products = np.kron(tokens @ tokens.T / 3, np.ones((3, 3))) * found.gram(1)
    kernel = numbers["variance"][0] * products.reshape(6, 4, 3, 6, 4, 3).sum(axis=(1, 4))
    wanted = sma.kernel(seen, seen, expected.order_parameter, variance=numbers["variance"])
    np.testing.assert_allclose(kernel, wanted, atol=1e-7)
    with pytest.raises(ValueError, match="level: wanted a whole number of at least 1 and at most 3"):
        found.gram(4)


def test_gram_matrices_of_narrow_heads_lead_to_the_kernel_of_all_paths():
    """By (K2), at the bottom, where what each head lets through is not the prior's."""
    layers, widths = [("narrow skip", 2)], (3.0, 3.0)
    train = arguments(layers, "mean", None, LENGTHS, 1)
    inputs, seen = sma.token_inputs(**train), sma.attentioned_inputs(**train)
    labels, numbers = 2 * np.random.default_rng(0).normal(size=6), {"width": widths, "temperature": 0.1}
    found, expected = (sma.solve(sma.Problem(one, labels, **numbers), tolerance=1e-10) for one in (inputs, seen))
    tokens = np.where(train["mask"][..., None], train["inputs"], 0.0).reshape(24, 3)
    kernel = (tokens @ tokens.T / 3 * found.gram(1)).reshape(6, 4, 6, 4).sum(axis=(1, 3))
    np.testing.assert_allclose(kernel, sma.kernel(seen, seen, expected.order_parameter), atol=1e-7)
    levels, ranked = found.landscape.levels, found.directions.ranked
    same = carried(found.point, levels, levels, [level.passed for level in ranked.levels])
    np.testing.assert_allclose(same, found.point, rtol=0, atol=1e-9)


def test_heads_that_share_values_have_no_gates(monkeypatch):
    from layers.test_new_kind import SharedValues

    train, _, labels, _ = setting("heads")
    tokens = sma.token_inputs(**train | {"layers": (SharedValues(3), 3)})
    slopes = sma.solve(sma.Problem(tokens, labels, width=5, temperature=0.1)).slopes()
    assert "gates" not in slopes and slopes["variance"].shape == (4,)


# The number of heads, and a head of the second layer whose gate is moved.
@pytest.mark.parametrize(
    ("name", "heads", "gate"),
    [("skip below, three outputs", 3, 2), pytest.param("narrow skips", 4, 3, marks=pytest.mark.slow)],
)
def test_slopes_of_the_evidence_are_those_of_the_theory_of_paths(name, heads, gate):
    train, _, labels, numbers = setting(name)
    problem = sma.Problem(sma.attentioned_inputs(**train), labels, **numbers)
    found = sma.solve(sma.Problem(sma.token_inputs(**train), labels, **numbers), tolerance=1e-9)
    np.testing.assert_allclose(sma.log_evidence(found), sma.log_evidence(sma.solve(problem)), rtol=1e-9, atol=1e-8)
    slopes = found.slopes()
    assert slopes["gates"].shape == (heads,)

    def difference(changed, step=1e-4):
        ends = (sma.log_evidence(sma.solve(problem.replace(**changed(1 + sign * step)))) for sign in (1, -1))
        return float(next(ends) - next(ends)) / (2 * step)

    colder = difference(lambda factor: {"temperature": 0.1 * factor})
    np.testing.assert_allclose(0.1 * slopes["temperature"], colder, rtol=1e-5)
    wider = difference(lambda factor: {"width": tuple(factor * one for one in numbers["width"])})
    np.testing.assert_allclose(np.dot(slopes["width"], numbers["width"]), wider, rtol=1e-5)

    def gated(gate):  # its root multiplies the second head of the second layer
        matrices = [train["attention"][0], train["attention"][1] * np.sqrt([1.0, gate])[:, None, None]]
        return {"attentioned": sma.attentioned_inputs(**train | {"attention": lambda _: matrices})}

    np.testing.assert_allclose(slopes["gates"][gate], difference(gated), rtol=1e-5)
    for place, unit in enumerate(np.eye(len(numbers["variance"]))):
        moved = difference(lambda factor, unit=unit: {"variance": tuple(numbers["variance"] * factor**unit)})
        np.testing.assert_allclose(slopes["variance"][place] * numbers["variance"][place], moved, rtol=1e-5)


@pytest.mark.parametrize("name", [pytest.param("narrow heads", marks=pytest.mark.slow), "all kinds, two outputs"])
def test_slopes_in_the_attention_are_those_of_the_theory_of_paths(name):
    train, _, labels, numbers = setting(name)
    rng, mask = np.random.default_rng(1), train["mask"]
    problem = sma.Problem(sma.token_inputs(**train), labels, **numbers)
    slopes = sma.solve(problem, tolerance=1e-9).attention_slopes()
    with_heads = [one for one in slopes if one.shape[1]]
    assert [one.shape for one in with_heads] == [one.shape for one in train["attention"] if one.shape[1]]
    for place, found in enumerate(with_heads):
        step = rng.normal(size=found.shape) * mask[:, None, :, None] * mask[:, None, None]

        def evidence(size, place=place, step=step):
            moved = list(train["attention"])
            moved[place] = moved[place] + size * step
            paths = sma.attentioned_inputs(**train | {"attention": lambda _: moved})
            return float(sma.log_evidence(sma.solve(sma.Problem(paths, labels, **numbers), tolerance=1e-10)))

        expected = (evidence(1e-4) - evidence(-1e-4)) / 2e-4
        np.testing.assert_allclose(np.sum(found * step), expected, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def many():
    """81 paths with skips, 20 sentences: more paths than directions; and the solution in all of them."""
    given = arguments([("skip", 2)] * 4, "first", None, [3, 4] * 10, 7)
    rows = sma.token_inputs(**given)
    labels = np.sign(np.random.default_rng(2).normal(size=20))
    problem = sma.Problem(rows, labels, width=5, temperature=0.1)
    return problem, sma.solve(problem)


def test_few_directions_say_by_how_much_more_would_change_predictions(many):
    problem, whole = many
    assert whole.directions.count > 16
    with pytest.raises(NotConverged, match="Allow more directions") as caught:
        sma.solve(problem, directions=16)
    few = caught.value.solution
    assert np.isinf(few.directions.change) and not few.settled
    np.testing.assert_allclose(few.action, whole.action, atol=0.05 * whole.action)
    size = np.sqrt(np.mean(whole.left_out() ** 2))
    assert np.sqrt(np.mean((few.left_out() - whole.left_out()) ** 2)) < 0.1 * size
    assert "not settled" in repr(few)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.solution.action == few.action


def test_a_point_that_is_carried_to_the_same_features_stays(many):
    _, whole = many
    levels = whole.landscape.levels
    found = carried(whole.point, levels, levels, [level.passed for level in whole.directions.ranked.levels])
    assert np.max(np.abs(whole.point)) > 0.1
    np.testing.assert_allclose(found, whole.point, rtol=0, atol=1e-9)


def test_left_out_predictions_are_those_of_the_other_examples(many):
    problem, whole = many
    kernel = np.asarray(whole.regression.factor @ whole.regression.factor.T) - 0.1 * np.eye(20)
    for place in (0, 7):
        rest = np.arange(20) != place
        inverse = np.linalg.inv(kernel[np.ix_(rest, rest)] + 0.1 * np.eye(19))
        np.testing.assert_allclose(
            whole.left_out()[place], kernel[place, rest] @ inverse @ np.asarray(problem.labels)[rest]
        )


def test_left_out_predictions_of_two_outputs_are_those_without_both():
    train, _, labels, numbers = setting("all kinds, two outputs")
    problem = sma.Problem(sma.token_inputs(**train), labels, **numbers)
    found = sma.solve(problem)
    covariance = np.asarray(found.regression.factor @ found.regression.factor.T).reshape(6, 2, 6, 2)
    assert np.max(np.abs(covariance[:, 0, :, 1])) > 0.01, "outputs are correlated"
    for place in range(6):
        rest = np.arange(6) != place
        inverse = np.linalg.inv(covariance[rest][:, :, rest].reshape(10, 10))
        mean = covariance[place][:, rest].reshape(2, 10) @ inverse @ labels[rest].ravel()
        np.testing.assert_allclose(found.left_out()[place], mean)


@pytest.mark.slow
def test_a_narrower_network_leads_to_the_other_minimum_as_with_paths():
    """Two tokens, each seen by a head: a weak signal in noise that both share."""
    sizes = {"examples": 100, "features": 400, "width": 10.0, "temperature": 0.05}
    known = SolvableModel([[1, 0.999], [0.999, 1]], [0.5, 0.0], **sizes).sample(jax.random.key(0), 2)[0]
    matrices = np.broadcast_to(np.eye(2)[:, :, None], (100, 2, 2, 2))
    rows = sma.token_inputs(known.attentioned.values, [matrices], readout="first")
    problem = sma.Problem(rows, known.labels, width=10, temperature=0.05)
    expected = {one.start: float(sma.log_evidence(one)) for one in sma.minima(known)}
    assert expected["narrow"] > expected["prior"] + 10
    lowest, upper = sma.minima(problem)
    assert (lowest.start, upper.start) == ("narrow", "prior")
    for found in (lowest, upper):
        np.testing.assert_allclose(sma.log_evidence(found), expected[found.start], atol=1e-4)
    alone = sma.solve(problem)
    assert alone.directions.lower == pytest.approx(float(upper.excess - lowest.excess), rel=1e-4)
    assert "S is lower by" in repr(alone) and "S is lower by" not in repr(lowest)


@pytest.mark.parametrize(("examples", "where"), [(20, "lower"), (10, "higher")])
def test_a_narrower_network_leads_to_another_minimum_lower_or_higher(examples, where):
    """A weak signal in noise that two heads share."""
    rng, labels = np.random.default_rng(0), np.where(np.arange(examples) % 2, 1.0, -1.0)
    values = np.repeat(rng.normal(size=(examples, 1, 4 * examples)), 2, axis=1)
    values[:, 1] += 0.05 * rng.normal(size=(examples, 4 * examples))
    values[:, 0, 0] += 0.5 * labels
    matrices = [np.broadcast_to(np.eye(2)[:, :, None], (examples, 2, 2, 2))]
    rows, seen = (make(values, matrices, readout="first") for make in (sma.token_inputs, sma.attentioned_inputs))
    problem = sma.Problem(rows, labels, width=2, temperature=0.05)
    alone, both = sma.solve(problem), sma.minima(problem)
    apart = {one.start: float(one.excess) for one in both}
    assert alone.directions.lower == pytest.approx(apart["prior"] - apart["narrow"], rel=1e-6)
    assert f"; from a narrower network S is {where} by {abs(alone.directions.lower):.2g}: see minima" in repr(alone)
    of_paths = [float(one.excess) for one in sma.minima(problem.replace(attentioned=seen))]
    np.testing.assert_allclose([one.excess for one in both], of_paths, atol=1e-6)


def test_minima_say_that_both_starts_end_in_one_minimum(many):
    problem, whole = many
    (only,) = sma.minima(problem)
    assert only.starts == 2
    np.testing.assert_allclose(only.excess, whole.excess, rtol=1e-8)


def test_sweep_from_wide_to_narrow_ends_where_a_solve_does(many):
    problem, whole = many
    batch = sma.solve_sweep(problem, widths=(5, 20), temperatures=(0.1, 0.3))
    assert batch.excess.shape == (2, 2) and np.all(batch.converged)
    narrow, wide = batch[0, 0], batch[1, 0]
    np.testing.assert_allclose(narrow.action, whole.action, rtol=1e-8)
    assert wide.action < narrow.action
    np.testing.assert_allclose(sma.log_evidence(batch)[1, 0], sma.log_evidence(wide))
    alone = sma.solve(problem.replace(width=20), settle=0.0)
    np.testing.assert_allclose(wide.left_out(), alone.left_out(), atol=1e-6)
    with pytest.raises(ValueError, match="predict: wanted a single solution"):
        batch.predict(problem.attentioned)


def test_a_start_with_few_directions_gets_as_many_as_are_asked_for(many):
    problem, whole = many
    few = sma.solve(problem, directions=16, throw=False)
    found = sma.solve(problem, start=few)
    assert found.directions.count == whole.directions.count
    np.testing.assert_allclose(found.excess, whole.excess, rtol=1e-8)
    assert (found.start, whole.start) == ("given", "prior")


@pytest.mark.parametrize(
    ("layers", "width"),
    [
        pytest.param((sma.Heads(2, values=1), 2), 1e5, marks=pytest.mark.slow),
        pytest.param((sma.Heads(1, values=2), 2), 1e6, marks=pytest.mark.slow),
        ((2, 2), (1e6, 3, 1e6)),
    ],
)
def test_narrow_heads_and_layers_between_wide_ones_are_solved(layers, width):
    """The first step of L-BFGS has length one, which would move logarithms of narrow stages by hundreds."""
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(12, 3, 4)), np.sign(rng.normal(size=12))
    maps = [rng.dirichlet(np.ones(3), (12, 2, 3)).swapaxes(2, 3)] * 2
    maps = [one[:, : getattr(layer, "heads", 2)] for layer, one in zip(layers, maps, strict=True)]
    found, expected = (
        sma.solve(sma.Problem(make(x, maps, layers=layers), labels, width=width, temperature=0.01))
        for make in (sma.token_inputs, sma.attentioned_inputs)
    )
    np.testing.assert_allclose(sma.log_evidence(found), sma.log_evidence(expected), atol=1e-6)
    if width == 1e6:  # layers of unequal numbers of heads
        assert [one.shape[1] for one in found.attention_slopes()] == [1, 2]


def test_a_network_that_lets_nothing_through_stays_at_the_prior():
    rng = np.random.default_rng(0)
    maps = [rng.dirichlet(np.ones(3), (5, 2, 3)).swapaxes(2, 3), np.zeros((5, 2, 3, 3))]
    tokens = sma.token_inputs(rng.normal(size=(5, 3, 4)), lambda _: maps)
    found = sma.solve(sma.Problem(tokens, np.ones(5), width=5, temperature=0.1))
    assert float(found.gradient_norm) == 0 and not np.any(np.asarray(found.predict(tokens).mean))


@pytest.mark.filterwarnings("ignore:labels")
def test_large_labels_that_cannot_be_fitted_stall_and_what_the_message_advises_helps():
    """Three labels, but two features of one path: rounding of the misfit hides gradients below 1e-5."""
    rng = np.random.default_rng(3)
    tokens, labels = rng.normal(size=(3, 1, 2)), np.array([1.0, 1.0, -1.0])
    inputs, seen = (make(tokens, [np.ones((3, 1, 1, 1))]) for make in (sma.token_inputs, sma.attentioned_inputs))
    large = sma.Problem(inputs, 1000 * labels, width=5, temperature=0.1)
    with pytest.raises(NotConverged, match="rounding limits.*Raise the temperature, scale the labels down, or accept"):
        sma.solve(large)
    assert sma.solve(large.replace(temperature=1000.0)).converged
    assert sma.solve(large.replace(labels=3 * labels)).converged
    rough, exact = sma.solve(large, tolerance=1e-2), sma.solve(large.replace(attentioned=seen))
    np.testing.assert_allclose(rough.excess, exact.excess, rtol=1e-9)


def test_training_inputs_as_new_ones_have_the_training_kernel(many):
    problem, whole = many
    expected = whole.regression.predict(
        whole.regression.factor @ whole.regression.factor.T - 0.1 * jnp.eye(20),
        jnp.ones(20),
    )
    np.testing.assert_allclose(whole.predict(problem.attentioned).mean, expected.mean, atol=1e-6)


@pytest.mark.parametrize("name", [pytest.param("skips", marks=pytest.mark.slow), "narrow heads"])
def test_infinite_width_is_kernel_regression_but_for_narrow_heads(name):
    train, test, labels, numbers = setting(name)
    numbers["width"] = np.inf
    expected = sma.solve(sma.Problem(sma.attentioned_inputs(**train), labels, **numbers), tolerance=1e-10)
    found = sma.solve(sma.Problem(sma.token_inputs(**train), labels, **numbers), tolerance=1e-10)
    np.testing.assert_allclose(sma.log_evidence(found), sma.log_evidence(expected))
    assert bool(jnp.any(found.point != 0)) == (name == "narrow heads")
    wanted = expected.predict(sma.attentioned_inputs(**test))
    np.testing.assert_allclose(found.predict(sma.token_inputs(**test)).mean, wanted.mean, atol=1e-9)


def test_what_does_not_fit_is_refused(many):
    problem, whole = many
    others = sma.token_inputs(**arguments([("heads", 2)], "first", None, [3, 2], 1))
    with pytest.raises(ValueError, match="test: wanted layers"):
        whole.predict(others)
    with pytest.raises(ValueError, match="others: wanted layers .* and 3 features as in training, got .* and 2"):
        sma.kernel(others, replace(others, tokens=others.tokens[:, :2]))
    with pytest.raises(ValueError, match="start: wanted"):
        sma.solve(problem.replace(variance=2.0), start=whole)
    with pytest.raises(ValueError, match="attentioned: wanted attentioned_inputs"):
        problem.reduce()
    along = sma.Problem(np.ones((2, 2, 3)), [1.0, -1.0], width=5, temperature=0.1, layers=(2,))
    with pytest.raises(ValueError, match="directions: wanted for token_inputs alone"):
        sma.solve(along, directions=3)
    with pytest.raises(AttributeError, match=r"tokens have no paths. Take \.gram"):
        whole.order_parameter  # noqa: B018
    with pytest.raises(ValueError, match="order_parameter: tokens have no paths"):
        sma.kernel(problem.attentioned, problem.attentioned, np.eye(2))
    with pytest.raises(ValueError, match="paths: tokens have no paths"):
        whole.predict(problem.attentioned, paths=[0])
    with pytest.raises(ValueError, match="gram: wanted a solution of token_inputs"):
        sma.solve(along).gram(1)
    for option, wrong in {"tolerance": "1e-6", "max_steps": 1.5, "throw": "no", "settle": -1.0}.items():
        with pytest.raises(ValueError, match=f"{option}: wanted"):
            sma.solve(problem, **{option: wrong})
    with pytest.raises(ValueError, match="already have layers"):
        problem.replace(layers=(2,))
    with pytest.raises(ValueError, match="at most 10000 paths.*token_inputs"):
        sma.attentioned_inputs(**arguments([("heads", 7)] * 5, "first", None, [1, 1], 1))


def test_some_examples_and_some_heads_are_those_of_smaller_inputs():
    """Examples taken in any order; heads taken as from the paths, with the factors of fewer heads."""
    train, _, _, numbers = setting("all kinds, two outputs")
    inputs, kept, some = sma.token_inputs(**train), ((1,), (0,), ()), [4, 0, 3]
    few = {name: train[name][some] for name in ("inputs", "mask")} | {
        "attention": [m[some] for m in train["attention"]]
    }
    expected = sma.attentioned_inputs(**train | few).keep_heads(kept)
    order_parameter = sma.theory.gp_order_parameters(layers=expected.layers, variance=numbers["variance"])[0]
    kernel = sma.kernel(expected, expected, order_parameter, variance=numbers["variance"])
    found = inputs.take(some).keep_heads(kept)
    assert found.layers == expected.layers and len(found) == 3
    found = sma.kernel(found, found, variance=numbers["variance"])
    np.testing.assert_allclose(found, kernel, rtol=1e-12, atol=1e-12)


def test_examples_are_taken_by_number_or_by_booleans():
    train, *_ = setting("skips")
    inputs = sma.token_inputs(**train)
    some = np.array([True, False, False, True, True, False])
    whole, taken = (sma.kernel(one, inputs) for one in (inputs, inputs.take(some)))
    np.testing.assert_allclose(taken, whole[some], rtol=1e-12, atol=1e-14)
    for wrong in ([0.7], [6], [-1], some[:3], []):
        with pytest.raises(ValueError, match="examples: wanted"):
            inputs.take(wrong)


def test_numbers_of_examples_are_spread_over_their_tokens():
    given = arguments([("heads", 2)], "first", None, LENGTHS, 1)
    rows = sma.token_inputs(**given | {"inputs": np.broadcast_to(np.arange(6.0)[:, None, None], (6, 4, 1))})
    np.testing.assert_array_equal(rows.spread(np.arange(6.0)), rows.tokens[:, 0])


def test_attention_that_was_read_comes_whole_or_in_batches():
    train, *_ = setting("skips")
    reads = [sma.model.ReadAttention(*(take(train, part))) for part in (slice(0, 2), slice(2, 6))]
    options = {"layers": train["layers"], "readout": "mean"}
    whole, parts = sma.token_inputs(**train), sma.token_inputs(iter(reads), **options)
    np.testing.assert_allclose(sma.kernel(whole, parts), sma.kernel(whole, whole))


def take(given, part):
    """Tokens, matrices and mask of some examples."""
    return given["inputs"][part], tuple(one[part] for one in given["attention"]), given["mask"][part]


@pytest.mark.slow
def test_tokens_and_their_solution_are_saved_whole(many, tmp_path):
    problem, whole = many
    for thing in (problem, whole):
        again = sma.load(sma.save(thing, tmp_path / "one.nc"))
        assert repr(again) == repr(thing)
    np.testing.assert_array_equal(again.point, whole.point)
    np.testing.assert_allclose(sma.log_evidence(again), sma.log_evidence(whole), atol=1e-9)
    test = problem.attentioned.take([3, 5])
    np.testing.assert_allclose(again.predict(test).mean, whole.predict(test).mean, atol=1e-10)
    narrower = sma.solve(again.problem.replace(width=4), start=again, throw=False)
    assert narrower.action > whole.action


def test_a_network_without_a_head_has_as_many_directions_as_the_one_with_it():
    rows = sma.token_inputs(**arguments([("skip", 2)] * 2, "first", None, [3, 4] * 10, 7))
    labels = np.sign(np.random.default_rng(2).normal(size=20))
    found = sma.solve(sma.Problem(rows, labels, width=5, temperature=0.1), directions=2, throw=False)
    worth = head_worth(found)
    assert [one.directions.count for one in worth.without] == [2] * 4
    smaller = sma.solve(found.problem.replace(attentioned=rows.without_head(1, 0)), directions=2, throw=False)
    assert worth.losses[2] == pytest.approx(float(sma.log_evidence(found) - sma.log_evidence(smaller)), abs=1e-6)


def test_directions_are_found_anew_where_a_search_ends():
    """Two of them, sought at T = 10 first, where labels feel others than at the end."""
    rows = sma.token_inputs(**arguments([("skip", 2)] * 2, "first", None, [3, 4] * 10, 7))
    labels = np.sign(np.random.default_rng(2).normal(size=20))
    problem = sma.Problem(rows, labels, width=5, temperature=10.0)
    best = sma.maximise_evidence(problem, chosen="temperature", directions=2)
    again = sma.solve(best.solution.problem, directions=2, throw=False)
    assert 0.5 < best.temperature < 2
    np.testing.assert_allclose(best.solution.excess, again.excess, rtol=0, atol=1e-3)


@pytest.mark.parametrize("width", [pytest.param(3.0, marks=pytest.mark.slow), np.inf])
def test_maximum_of_the_evidence_is_that_of_the_theory_of_paths(width):
    train, _, labels, _ = setting("skips")
    tokens, paths = (make(**train) for make in (sma.token_inputs, sma.attentioned_inputs))
    found = sma.maximise_evidence(sma.Problem(tokens, labels, width=width, temperature=0.3))
    start = sma.Problem(paths, labels, width=width, temperature=0.3)
    there = found.solution.problem
    expected = value(start, there)
    for place in range(2):
        assert value(start, there, np.eye(2)[place]) < expected > value(start, there, -np.eye(2)[place])
    np.testing.assert_allclose(found.log_evidence, expected, atol=1e-5)
    assert set(found.slopes) == {"temperature", "variance[0]"} and max(map(abs, found.slopes.values())) < 1e-3
    with pytest.raises(ValueError, match="chosen: wanted"):
        sma.maximise_evidence(there, chosen="width")


def value(problem, at, step=(0.0, 0.0)):
    """The evidence of the theory of paths at the numbers of another problem, moved by a hundredth."""
    colder, larger = np.exp(0.01 * np.asarray(step))
    variance = (at.variance[0] * larger, *at.variance[1:])
    return float(sma.log_evidence(sma.solve(problem.replace(temperature=at.temperature * colder, variance=variance))))
