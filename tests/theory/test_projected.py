"""A projected network: against all pairs, against paths, and where it leaves something out."""

import pickle
import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from attention_book.theory.solvable_model import SolvableModel
from statmech_attention.pruning import head_worth
from statmech_attention.theory.kernels import projected
from statmech_attention.theory.kernels.of_tokens import kernel_of_tokens

FEATURES, VARIANCE, TWO = 3, (1.3, 0.7, 1.2, 0.9), (sma.SkipHeads(2),) * 2


def texts(examples, lengths=(3, 5), layers=TWO, seed=0, scale=1.0, readout="mean", seen=sma.token_inputs):
    """Random tokens of mixed lengths with random attention."""
    draw = np.random.default_rng(seed)
    longest = max(lengths)
    mask = np.arange(longest) < draw.integers(lengths[0], longest + 1, examples)[:, None]
    shape = (examples, longest, longest)
    heads = [layer if isinstance(layer, int) else layer.count for layer in layers if not isinstance(layer, sma.Outputs)]
    matrices = [np.exp(draw.normal(size=(examples, count, *shape[1:]))) * mask[:, None, :, None] for count in heads]
    attention = [matrix / matrix.sum(axis=2, keepdims=True) for matrix in matrices]
    tokens = scale * draw.normal(size=(examples, longest, FEATURES))
    return seen(tokens, attention, layers=layers, readout=readout, mask=mask)


@pytest.fixture(scope="module")
def words():
    return texts(30)


@pytest.fixture(scope="module")
def labels():
    return np.sign(np.random.default_rng(1).normal(size=24))


@pytest.fixture(scope="module")
def network(words):
    return sma.projection(words, variance=VARIANCE)


def test_with_all_components_kernels_are_those_of_all_pairs(words, network):
    train, test = words.take(range(24)), words.take(range(24, 30))
    seen = network(train)
    assert network.lost == (0.0, 0.0)
    assert seen.left_out < 1e-14
    for left, right in ((train, train), (test, train)):
        found = sma.kernel(network(left), seen if left is train else network(right), variance=VARIANCE)
        np.testing.assert_allclose(found, kernel_of_tokens(left, right, VARIANCE), rtol=0, atol=1e-13)


@pytest.mark.parametrize("width", [15.0, 40.0])
def test_with_all_components_a_solution_is_that_of_all_pairs(words, network, labels, width):
    train, test = words.take(range(24)), words.take(range(24, 30))
    pairs = sma.Problem(train, labels, width=width, temperature=0.1, variance=VARIANCE)
    exact, found = sma.solve(pairs), sma.solve(pairs.replace(attentioned=network(train)))
    assert found.settled
    assert float(found.excess) == pytest.approx(float(exact.excess), abs=1e-9)
    assert float(sma.log_evidence(found, corrected=True)) == pytest.approx(
        float(sma.log_evidence(exact, corrected=True)), abs=1e-6
    )
    for one, other in zip(found.predict(test), exact.predict(test), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-7)
    np.testing.assert_allclose(found.predict(network(test)).mean, found.predict(test).mean, rtol=0, atol=1e-13)
    worth, known = head_worth(found, inputs=train), head_worth(exact)
    np.testing.assert_allclose(worth.slopes, known.slopes, rtol=0, atol=1e-5)
    np.testing.assert_allclose(worth.losses, known.losses, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_several_outputs_and_heads_of_a_value_dimension(labels):
    layers = (sma.Heads(2, values=3), sma.SkipHeads(2), sma.Outputs(2))
    words = texts(30, layers=layers[:2])
    words = replace(words, chain=sma.token_inputs(np.ones((1, 2, FEATURES)), _even(1, 2), layers=layers).chain)
    train, test = words.take(range(24)), words.take(range(24, 30))
    two = np.stack([labels, labels[::-1]], axis=1)
    pairs = sma.Problem(train, two, width=20.0, temperature=0.2)
    exact = sma.solve(pairs)
    found = sma.solve(pairs.replace(attentioned=sma.projection(train)(train)))
    assert float(found.excess) == pytest.approx(float(exact.excess), abs=1e-8)
    np.testing.assert_allclose(found.predict(test).mean, exact.predict(test).mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.predict(test).variance, exact.predict(test).variance, rtol=0, atol=1e-6)


def _even(examples, tokens):
    return [np.full((examples, 2, tokens, tokens), 1 / tokens)] * 2


CHAINS = [
    ((sma.SkipHeads(2),) * 3, 0),  # 27 paths
    pytest.param((sma.Heads(3, values=2), sma.SkipHeads(3)), 2, marks=pytest.mark.slow),  # 12 paths
]


@pytest.mark.parametrize(("layers", "outputs"), CHAINS)
def test_new_texts_are_as_along_paths_in_all_directions_that_labels_feel(layers, outputs):
    """Three texts of three features see nine directions; new texts see more, and so do these without a head."""
    chain = (*layers, *map(sma.Outputs, range(outputs, 1, -1)))
    paths, words = (texts(9, layers=chain, seen=seen) for seen in (sma.attentioned_inputs, sma.token_inputs))
    train, test = (sma.AttentionedInputs(part, paths.layers) for part in (paths.values[:3], paths.values[3:]))
    labels = np.random.default_rng(2).normal(size=(3, 2) if outputs else 3)
    variance = (1.3, *np.linspace(0.7, 1.2, len(layers)), 0.9)
    problem = sma.Problem(train, labels, width=5.0, temperature=0.1, variance=variance)
    exact = sma.solve(problem, tolerance=1e-10)
    wanted, known = exact.predict(test), head_worth(exact)
    seen = problem.replace(attentioned=sma.projection(words, variance=variance)(words.take(range(3))))
    found = sma.solve(seen, directions=11, tolerance=1e-10)
    assert found.directions.count == 11 < seen.attentioned.values.shape[2] == paths.values.shape[1]
    for one, other in zip(found.predict(words.take(range(3, 9))), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-8)
    worth = head_worth(found, inputs=words.take(range(3)))
    np.testing.assert_allclose(worth.slopes, known.slopes, rtol=0, atol=1e-8)
    np.testing.assert_allclose(worth.losses, known.losses, rtol=0, atol=1e-7)
    assert np.abs(known.losses).max() > 0.05


def test_new_texts_in_few_directions_are_not_worse_than_at_the_prior_beside_them():
    words, labels = texts(46, layers=CHAINS[0][0]), np.sign(np.random.default_rng(1).normal(size=6))
    train, test = words.take(range(6)), words.take(range(6, 46))
    network = sma.projection(words)
    problem = sma.Problem(network(train), labels, width=5.0, temperature=0.1)
    exact, values, errors = sma.solve(problem).predict(test).mean, np.asarray(network(test).values), []
    for count in (2, 12):
        found = sma.solve(problem, directions=count, throw=False)
        gram, top = found.landscape.overlap(found.point)
        free = found.directions.ranked.columns[-1][:, :count]
        beside = top.item() * (np.eye(27) - free @ free.T) + free @ gram @ free.T
        cross = np.einsum("eia,ab,pib->ep", values, beside, problem.attentioned.values)
        means = cross @ np.asarray(found.regression.solve(jnp.asarray(labels))), found.predict(test).mean
        errors.append([np.sqrt(np.mean((mean - exact) ** 2)) for mean in means])
        assert errors[-1][1] < 1.01 * errors[-1][0]
    assert errors[-1][1] < 0.8 * errors[-1][0]


@pytest.mark.slow
def test_without_a_head_the_minimum_is_that_of_the_same_branch():
    """Three tokens, each seen by a head: a weak signal in noise that all share, which has two minima."""
    sizes = {"examples": 100, "features": 400, "width": 10.0, "temperature": 0.05}
    noise = 0.999 + 0.001 * np.eye(3)
    paths = SolvableModel(noise, [0.5, 0.0, 0.0], **sizes).sample(jax.random.key(0), 2)[0]
    matrices = np.broadcast_to(np.eye(3)[:, :, None], (100, 3, 3, 3))
    words = sma.token_inputs(paths.attentioned.values, [matrices], readout="first")
    seen = sma.Problem(sma.projection(words)(words), paths.labels, width=10, temperature=0.05)
    starts = ("narrow", "prior")
    for start, found, known in zip(starts, sma.minima(seen), sma.minima(paths), strict=True):
        assert found.start == known.start == start
        worth, wanted = head_worth(found, inputs=words), head_worth(known)
        np.testing.assert_allclose(worth.losses, wanted.losses, rtol=0, atol=1e-6)
        assert (worth.losses[0] > 10) == (start == "narrow")


def test_training_inputs_as_new_ones_have_the_training_kernel_in_few_directions_too(words, network, labels):
    """But for what components leave out of an example, which is its own."""
    fewer = sma.projection(words.take(range(24)), 4, variance=VARIANCE)
    for count, each in ((24, network), (24, fewer), (2, network)):
        train, labels = words.take(range(count)), labels[:count]
        seen = each(train)
        problem = sma.Problem(seen, labels, width=15.0, temperature=0.1, variance=VARIANCE)
        found = sma.solve(problem, directions=3, throw=False)
        assert found.directions.count == 3 and not found.settled
        known = np.asarray(found.regression.factor @ found.regression.factor.T)
        kernel = known - 0.1 * np.eye(count)
        _, outputs = found.landscape.overlap(found.point)
        own = VARIANCE[0] * outputs.item() * np.asarray(seen.rest)
        cross = kernel - np.diag(own)
        new = found.predict(train)
        np.testing.assert_allclose(new.mean, cross @ np.linalg.solve(known, labels), rtol=0, atol=1e-10)
        variance = np.diag(kernel) - np.sum(cross * np.linalg.solve(known, cross.T).T, axis=1)
        np.testing.assert_allclose(new.variance, variance, rtol=0, atol=1e-10)


def test_rows_of_rank_below_the_components_leave_nothing_out():
    words = texts(6, layers=(sma.SkipHeads(6),) * 3)  # 343 paths, and at most 30 rows
    seen = sma.projection(words, 40)(words)
    assert seen.left_out < 1e-12
    np.testing.assert_allclose(sma.kernel(seen, seen), sma.kernel(words, words), rtol=0, atol=1e-12)


def test_what_is_left_out_is_positive_and_its_diagonal_is_exact():
    words = texts(40, layers=(sma.SkipHeads(4),) * 3, lengths=(4, 9))
    exact, last = sma.kernel(words, words), np.inf
    for components in (4, 16, 64):
        seen = sma.projection(words, components)(words)
        plain = np.asarray(sma.kernel(seen, seen))
        np.testing.assert_allclose(np.diag(plain), np.diag(exact), rtol=1e-13)
        left = exact - plain + np.diag(seen.rest)
        assert np.linalg.eigvalsh(left)[0] > -1e-12 * np.trace(exact)
        assert seen.left_out == pytest.approx(np.trace(left) / np.trace(exact), abs=1e-13)
        assert seen.left_out < last
        last = seen.left_out


def test_components_are_those_of_examples_of_which_most_is_left_out(monkeypatch):
    words = texts(300, seed=2)
    rare = np.zeros(300, bool)
    rare[[7, 150, 290]] = True
    maps = [(group, rare[words.order[place : place + len(group.maps[0])]]) for group, place in _places(words)]
    groups = [group._replace(maps=tuple(_turned(layer, some) for layer in group.maps)) for group, some in maps]
    words = replace(words, groups=tuple(groups))
    shares = []
    for worst in (0.0, 0.5):
        monkeypatch.setattr(projected, "_SEEN_WORST", worst)
        seen = sma.projection(words, 5)(words)
        shares.append(np.asarray(seen.rest / seen.own)[rare].mean())
    assert shares[1] < 0.8 * shares[0]


def _places(words):
    """Groups, and how many examples are before them."""
    counts = np.cumsum([0] + [len(group.maps[0]) for group in words.groups])
    return zip(words.groups, counts.tolist(), strict=False)


def _turned(layer, some):
    """The maps with signs that alternate over queries in some examples."""
    signs = np.where(np.arange(layer.shape[-1]) % 2, -1.0, 1.0)
    return np.where(some[:, None, None, None], layer * signs, layer)


@pytest.fixture(scope="module")
def many(network):
    words = texts(90, seed=4)
    return words, np.sign(np.random.default_rng(5).normal(size=90))


@pytest.mark.slow
def test_parts_add_in_any_order_and_a_reduced_problem_is_the_same(network, many):
    words, labels = many
    numbers = {"width": 20.0, "temperature": 0.2, "variance": VARIANCE}
    whole = sma.Problem(network(words), labels, **numbers)
    parts = [sma.Problem(network(words.take(some)), labels[some], **numbers) for some in (range(50), range(50, 90))]
    sums = [sum(parts), sum(parts[::-1]), pickle.loads(pickle.dumps(parts[0])) + parts[1], whole.reduce()]
    solution, new = sma.solve(whole), texts(5, seed=6)
    for part in sums:
        assert part.examples == 90
        assert len(part.labels) == FEATURES * 9 + 1
        found = sma.solve(part)
        assert float(found.excess) == pytest.approx(float(solution.excess), abs=1e-9)
        assert float(sma.log_evidence(found)) == pytest.approx(float(sma.log_evidence(solution)), abs=1e-8)
        np.testing.assert_allclose(found.predict(new).mean, solution.predict(new).mean, rtol=0, atol=1e-6)


def test_reduced_rows_take_the_mean_of_what_is_left_out(many):
    words, labels = many
    network = sma.projection(words, 4, variance=VARIANCE)
    seen = network(words)
    problem = sma.Problem(seen, labels, width=np.inf, temperature=0.2, variance=VARIANCE)
    reduced = problem.reduce()
    assert reduced.attentioned.own == pytest.approx(float(seen.rest.mean()))
    parts = [range(30), range(30, 90)]
    numbers = {"width": np.inf, "temperature": 0.2, "variance": VARIANCE}
    added = sum(sma.Problem(network(words.take(some)), labels[some], **numbers).reduce() for some in parts)
    assert float(added.attentioned.own) == pytest.approx(float(seen.rest.mean()))
    rest = float(seen.rest.mean()) * VARIANCE[0] * VARIANCE[-1]
    plain = np.asarray(sma.kernel(seen, network(words), variance=VARIANCE)) + (0.2 + rest) * np.eye(90)
    nats = -0.5 * (labels @ np.linalg.solve(plain, labels) + np.linalg.slogdet(plain)[1] + 90 * np.log(2 * np.pi))
    assert float(sma.log_evidence(sma.solve(reduced))) == pytest.approx(nats, abs=1e-9)


def test_a_stream_is_seen_part_by_part(network, many):
    words, _ = many
    whole, parts = network(words), network(words.take(some) for some in (range(40), range(40, 90)))
    np.testing.assert_allclose(parts.values, whole.values, rtol=0, atol=1e-14)
    np.testing.assert_allclose(parts.own, whole.own, rtol=0, atol=1e-13)
    single = network(words, single=True)
    assert single.values.dtype == jnp.float64
    np.testing.assert_allclose(single.values, whole.values, rtol=0, atol=3e-6)


@pytest.fixture
def unasked(monkeypatch, words, labels):
    """A problem, its solution with all pairs of tokens, and new texts, where few tokens are many."""
    import statmech_attention.theory.on_tokens as on_tokens

    problem = sma.Problem(words.take(range(24)), labels, width=15.0, temperature=0.1, variance=VARIANCE)
    exact = sma.solve(problem)
    monkeypatch.setattr(on_tokens, "PAIRED", 10)
    return problem, exact, words.take(range(24, 30))


def test_many_tokens_are_projected_without_being_asked(unasked):
    problem, exact, test = unasked
    found = sma.solve(problem)
    assert found.problem.projected
    np.testing.assert_allclose(found.predict(test).mean, exact.predict(test).mean, rtol=0, atol=1e-6)
    colder = sma.solve(problem.replace(temperature=0.08), start=found)
    assert colder.problem.attentioned is found.problem.attentioned
    limit = sma.solve(problem.replace(width=np.inf))
    assert limit.problem.projected
    few = sma.solve(problem, directions=3, throw=False)  # which nothing is compared with
    assert (few.settled, few.directions.change) == (False, np.inf)


def test_components_that_change_predictions_are_not_settled(unasked, monkeypatch):
    """By what the last doubling of the components changed predictions of infinite width, though all directions move."""
    import statmech_attention.theory.on_tokens as on_tokens

    problem, *_ = unasked
    monkeypatch.setattr(on_tokens, "_COMPONENTS", (1, 2))
    found = sma.solve(problem, throw=False)
    kernels = (
        np.asarray(sma.kernel(seen, seen, variance=VARIANCE)) + 0.1 * np.eye(24)
        for seen in (
            sma.projection(problem.attentioned, count, variance=VARIANCE)(problem.attentioned) for count in (1, 2)
        )
    )
    before, after = (
        problem.labels - np.linalg.solve(kernel, problem.labels) / np.diag(np.linalg.inv(kernel)) for kernel in kernels
    )
    assert found.directions.change == pytest.approx(np.linalg.norm(after - before) / np.linalg.norm(after), rel=1e-8)
    assert not found.settled and found.directions.change > 0.1


@pytest.mark.slow
def test_sweeps_searches_and_the_criterion_project_many_tokens_too(unasked):
    problem, exact, test = unasked
    swept = sma.solve_sweep(problem, widths=[15.0, 30.0], temperatures=[0.1])
    np.testing.assert_allclose(swept[0, 0].predict(test).mean, exact.predict(test).mean, rtol=0, atol=1e-6)
    best = sma.maximise_evidence(problem, chosen="temperature").solution
    assert best.problem.projected
    assert np.isclose(sma.criterion(sma.solve(problem), test).r, sma.criterion(exact, test).r, rtol=1e-4)


def test_derivatives_of_the_evidence_are_those_of_differences(network, words, labels):
    seen = network(words.take(range(24)))
    problem = sma.Problem(seen, labels, width=15.0, temperature=0.1, variance=VARIANCE)
    slope, step = sma.solve(problem).slopes()["temperature"], 1e-5
    ends = [sma.log_evidence(sma.solve(problem.replace(temperature=0.1 + sign * step))) for sign in (1, -1)]
    assert float(slope) == pytest.approx(float(ends[0] - ends[1]) / (2 * step), rel=1e-4)


def _worth(network, words, parts):
    """Worth of a reduced problem by these parts."""
    problem = sma.Problem(network(words), np.ones(30), width=np.inf, temperature=1, variance=VARIANCE)
    return head_worth(sma.solve(problem.reduce()), inputs=parts)


@pytest.mark.parametrize(
    ("call", "words_of"),
    [
        (lambda network, words, labels: sma.projection(np.ones(3)), "inputs: wanted TokenInputs, got ndarray"),
        (lambda network, words, labels: sma.projection(words, 0), "components: wanted a whole number"),
        (lambda network, words, labels: network(texts(3, layers=(3, 3))), "inputs: wanted layers"),
        (lambda network, words, labels: network(iter([])), "inputs: wanted at least one part"),
        (lambda network, words, labels: sma.Problem(network(words), np.ones(30)), "variance: wanted (0.7, 1.2)"),
        (
            lambda network, words, labels: sma.solve(
                sma.Problem(network(words), np.ones(30), width=9, temperature=1, variance=VARIANCE)
            ).gram(1),
            "gram: wanted all pairs of tokens",
        ),
        (
            lambda network, words, labels: _worth(network, words, iter([])),
            "inputs: wanted parts that can be read again",
        ),
        (lambda network, words, labels: _worth(network, words, words), "inputs: wanted parts of a reduced problem"),
        (
            lambda network, words, labels: _worth(network, words, [(words.take([0]), [1.0])]),
            "inputs: wanted all 30 examples that were solved, got 1",
        ),
        (
            lambda network, words, labels: sma.kernel(network(words), sma.projection(words)(words)),
            "others: wanted inputs seen by the same projection",
        ),
    ],
)
def test_what_does_not_fit_is_refused(network, words, labels, call, words_of):
    with pytest.raises(ValueError, match=re.escape(words_of)):
        call(network, words, labels)


@pytest.mark.parametrize("reduced", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_what_is_seen_and_its_solution_are_saved_whole(many, tmp_path, reduced):
    words, labels = many
    network, new = sma.projection(words, 6, variance=VARIANCE), texts(5, seed=6)
    problem = sma.Problem(network(words), labels, width=20.0, temperature=0.2, variance=VARIANCE)
    solution = sma.solve(problem.reduce() if reduced else problem)
    again = sma.load(sma.save(solution, tmp_path / "one.nc"))
    assert isinstance(again, sma.Solution)
    assert again.problem.projected
    assert again.problem.examples == 90
    assert float(again.landscape.value(again.point)) == float(solution.landscape.value(solution.point))
    assert float(solution.excess) == pytest.approx(float(solution.landscape.value(solution.point)), abs=1e-10)
    np.testing.assert_array_equal(again.predict(new).mean, solution.predict(new).mean)
    hotter = [sma.solve(one.problem.replace(temperature=0.3), start=one) for one in (again, solution)]
    assert float(hotter[0].excess) == float(hotter[1].excess)
    assert isinstance(sma.load(sma.save(problem, tmp_path / "two.nc")), sma.Problem)


@pytest.mark.parametrize(("width", "components"), [pytest.param(20.0, 9, marks=pytest.mark.slow), (np.inf, 4)])
def test_worth_of_reduced_rows_is_that_of_their_examples(many, width, components):
    words, labels = many
    network = sma.projection(words, components, variance=VARIANCE)
    problem = sma.Problem(network(words), labels, width=width, temperature=0.2, variance=VARIANCE)
    parts = [(words.take(some), labels[some]) for some in (range(50), range(50, 90))]
    reduced = head_worth(sma.solve(problem.reduce()), inputs=parts)
    if components == 9:  # nothing is left out, and all examples alike
        whole = head_worth(sma.solve(problem), inputs=words)
        np.testing.assert_allclose(reduced.slopes, whole.slopes, rtol=0, atol=1e-6)
        np.testing.assert_allclose(reduced.losses, whole.losses, rtol=0, atol=1e-6)
        return

    def nats(gates):
        parts = [sma.Problem(network.gated(words, gates), labels, width=width, temperature=0.2, variance=VARIANCE)]
        return float(sma.log_evidence(sma.solve(sum(parts).reduce())))

    for head in (0, 3):  # of four, one in each layer
        wanted = []
        for value in (1.001, 0.999, 1.0, 0.0):
            gates = [np.ones(3), np.ones(3)]
            gates[head // 2][1 + head % 2] = value
            wanted.append(nats(gates))
        assert reduced.slopes[head] == pytest.approx((wanted[0] - wanted[1]) / 0.002, rel=1e-4)
        assert reduced.losses[head] == pytest.approx(wanted[2] - wanted[3], abs=1e-7)
