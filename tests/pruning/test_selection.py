"""Heads to keep, on made attention where the heads that help are known."""

import math

import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention.pruning import kernel_worth
from statmech_attention.pruning.features import fitted_features
from statmech_attention.pruning.fits import at_infinite_width, on_tokens

EXAMPLES, TOKENS, FEATURES, HEADS, USEFUL = 80, 6, 8, 6, (1, 4)


def attention_to(places, examples):
    """Heads that look mostly at one token each, at the others alike."""
    matrix = np.full((examples, len(places), TOKENS, TOKENS), 0.1 / (TOKENS - 1))
    for head, place in enumerate(places):
        matrix[:, head, place] = 0.9
    return matrix


def made(seed, examples, random_labels=False):
    """The label is set by the first feature of token 3 alone; heads 1 and 4 look there, the others at noise."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.resize([1.0, -1.0], examples))
    inputs = rng.normal(size=(examples, TOKENS, FEATURES))
    inputs[:, 3, 0] = (rng.choice([1.0, -1.0], examples) if random_labels else labels) * 2.5
    return inputs, [attention_to([0, 3, 1, 2, 3, 5], examples)], labels


def posed(inputs, attention, labels, layers=None, temperature=0.1):
    seen = sma.attentioned_inputs(inputs, attention, layers=layers, readout="first")
    return sma.Problem(seen, labels, width=10, temperature=temperature)


def test_the_heads_that_see_the_label_are_kept():
    found = sma.select_heads(posed(*made(0, EXAMPLES)), keep=2, components=FEATURES)
    assert {*found.kept} == {*USEFUL} and found.scores.max() == 1.0
    np.testing.assert_array_equal(found.scores[found.kept], np.sort(found.scores)[::-1][:2])
    assert found.accuracy.mean > 0.9
    assert np.isclose(found.difference.mean, found.accuracy.mean - found.accuracy_of_all.mean)
    assert found.difference.error <= found.accuracy.error + found.accuracy_of_all.error
    assert np.all(found.kept_in_folds[[*USEFUL]] == 1) and np.isclose(found.kept_in_folds.sum(), 2)


def test_the_accuracy_is_that_of_new_examples(optimised):
    """The whole procedure, on fresh examples, within the standard errors of both."""
    inputs, attention, labels = made(1, EXAMPLES)
    inputs = inputs + np.random.default_rng(9).normal(scale=2.0, size=inputs.shape)  # harder
    known = posed(inputs, attention, labels)
    found = sma.select_heads(known, keep=2, components=FEATURES)
    fresh, others, wanted = made(2, 1000)
    fresh = fresh + np.random.default_rng(10).normal(scale=2.0, size=fresh.shape)
    seen, tested = (sma.keep_heads(one.attentioned, found.kept) for one in (known, posed(fresh, others, wanted)))
    solution = sma.solve(known.replace(attentioned=seen))
    right = float(sma.accuracy(solution.predict(tested).mean, wanted))
    error = math.hypot(found.accuracy.error, math.sqrt(right * (1 - right) / 1000))
    assert 0.6 < right < 0.95
    assert abs(found.accuracy.mean - right) < 3 * error
    assert np.isclose(found.difference.mean, found.accuracy.mean - found.accuracy_of_all.mean)


def test_the_temperature_is_that_of_the_largest_evidence_of_the_examples_fitted():
    """Folds, features, temperatures, heads and predictions by hand, and the columns of the token read alone."""
    inputs, attention, labels = made(5, 24)
    inputs = inputs + np.random.default_rng(6).normal(scale=2.0, size=inputs.shape)  # so that some answers are wrong
    columns = attention[0][..., 0]
    flat = sma.Problem(np.einsum("ehk,ekd->ehd", columns, inputs), labels, width=10, layers=(HEADS,))
    found = sma.select_heads(flat, keep=2, components=3, folds=2, seed=7)

    def best(train, own):
        features = fitted_features(train, 3)
        known = sma.Problem(features.of(train), own, width=10)
        solved = sma.solve_sweep(known, widths=[10], temperatures=[0.01, 0.03, 0.1, 0.3, 1.0, 3.0], tolerance=1e-6)[0]
        return solved[int(np.argmax(sma.log_evidence(solved)))], features

    def scores(solution):
        options = {"layers": solution.problem.layers, "definition": "both"}
        return np.asarray(sma.head_scores(solution.order_parameter, **options))

    seen = posed(inputs, attention, labels).attentioned
    order = np.random.default_rng(7).permutation(24)
    place, hits, times = np.zeros(24, int), np.zeros((2, 24)), np.zeros(HEADS)
    for sign in (-1, 1):
        place[[number for number in order if labels[number] == sign][1::2]] = 1
    for fold in range(2):
        parts = [
            sma.model.AttentionedInputs(seen.values[chosen], seen.layers) for chosen in (place != fold, place == fold)
        ]
        whole, features = best(parts[0], labels[place != fold])
        kept = np.sort(np.argsort(-scores(whole))[:2])
        times[kept] += 0.5
        few = [part.keep_heads((kept.tolist(),)) for part in parts]
        smaller, own = best(few[0], labels[place != fold])
        outputs = smaller.predict(own.of(few[1])).mean, whole.predict(features.of(parts[1])).mean
        hits[:, place == fold] = np.sign(outputs) == labels[place == fold]
    np.testing.assert_array_equal([found.accuracy.mean, found.accuracy_of_all.mean], hits.mean(axis=1))
    np.testing.assert_array_equal(found.kept_in_folds, times)
    assert found.difference.error == pytest.approx(np.std(hits[0] - hits[1], ddof=1) / math.sqrt(24))
    every = best(seen, labels)[0]
    assert found.temperature == float(every.problem.temperature) and found.majority == 0.5
    np.testing.assert_allclose(found.scores, scores(every), rtol=1e-3)


def test_labels_that_nothing_tells_are_guessed_at_half():
    """Choosing and learning on the examples that are then tested would give more."""
    found = sma.select_heads(posed(*made(3, EXAMPLES, random_labels=True)), keep=2, components=FEATURES)
    for accuracy in (found.accuracy, found.accuracy_of_all):
        assert abs(accuracy.mean - 0.5) < 3 * max(accuracy.error, 0.5 / math.sqrt(EXAMPLES))
    assert np.isclose(found.difference.mean, found.accuracy.mean - found.accuracy_of_all.mean)
    times = found.kept_in_folds  # two heads in every fold, not the same ones
    assert np.isclose(times.sum(), 2) and np.any((times > 0) & (times < 1))


def test_two_layers_and_several_classes():
    rng = np.random.default_rng(4)
    classes = rng.permutation(np.resize([0, 1, 2], 42))
    inputs = rng.normal(size=(42, TOKENS, 4))
    inputs[:, 3, :3] += 4 * np.eye(3)[classes]
    attention = [attention_to([0, 3], 42), attention_to([0, 1], 42)]
    known = posed(inputs, attention, np.eye(3)[classes] - 1 / 3, layers=(2, 2, sma.Outputs(3)))
    found = sma.select_heads(known, keep=2, components=4, folds=2)
    assert found.kept.shape == (2,) and 1 in found.kept and found.scores.shape == (4,)
    assert 0.6 < found.accuracy.mean <= 1


def test_labels_of_one_class_and_other_bad_input_are_refused():
    inputs, attention, labels = made(0, 12)
    good = posed(inputs, attention, labels)
    for options, message in (
        ({"keep": 7}, "keep: wanted a whole number of at least 1 and at most 6, got 7"),
        ({"keep": 2, "folds": 7}, "folds: wanted a whole number of at least 2 and at most 6, got 7"),
    ):
        with pytest.raises(ValueError, match=message):
            sma.select_heads(good, **options)
    with pytest.raises(ValueError, match="keep: wanted at least 2 heads"):
        sma.select_heads(posed(inputs, attention * 2, labels), keep=1)
    with pytest.raises(ValueError, match="labels: wanted at least two classes"):
        sma.select_heads(good.replace(labels=np.ones(12)), keep=2)
    with pytest.raises(ValueError, match="labels: wanted"):
        sma.select_heads(good.replace(labels=3 * labels), keep=2)


@pytest.mark.parametrize("definition", ["derivative", "removal"])
def test_without_paths_the_heads_that_see_the_label_are_kept(definition):
    """Two layers beside skips; the heads of the first layer see the label only through those of the second."""
    inputs, attention, labels = made(3, EXAMPLES)
    layers = (sma.SkipHeads(3), sma.SkipHeads(HEADS))
    attention = [attention_to([1, 2, 5], EXAMPLES), *attention]
    tokens = sma.token_inputs(inputs, attention, layers=layers, readout="first")
    found = sma.select_heads(sma.Problem(tokens, labels), keep=2, definition=definition)
    assert {*found.kept} == {3 + head for head in USEFUL} and found.scores.max() == 1.0
    assert found.accuracy.mean > 0.9 and found.temperature > 0
    assert np.all(found.kept_in_folds[[3 + head for head in USEFUL]] == 1)


@pytest.mark.parametrize("definition", ["derivative", "removal"])
def test_where_no_head_helps_the_least_harmful_is_kept(definition):
    """The label is in the token that is read, so that heads add noise beside the skip."""
    rng = np.random.default_rng(1)
    inputs, maps = rng.normal(size=(60, 6, 8)), rng.dirichlet(np.ones(6), (60, 4, 6)).swapaxes(2, 3) * (1 - np.eye(6))
    maps, labels = maps / maps.sum(axis=2, keepdims=True), np.sign(inputs[:, 0, 0])
    tokens = sma.token_inputs(inputs, [maps], layers=[sma.SkipHeads(4)], readout="first")
    kernel, heads = sma.kernel(tokens, tokens), sma.pruning.head_kernels(tokens, tokens)
    worth = kernel_worth(kernel, heads, labels)
    worth = worth.slopes if definition == "derivative" else worth.losses
    assert worth.max() < 0
    with pytest.warns(UserWarning, match=r"No head has a positive worth.* The 1 kept harm least"):
        found = sma.select_heads(sma.Problem(tokens, labels), keep=1, definition=definition)
    assert found.kept == [worth.argmax()] and found.scores.min() == -1
    np.testing.assert_allclose(found.scores, worth / np.abs(worth).max(), rtol=1e-6)


def test_heads_that_share_keys_and_values_are_kept_together():
    inputs, attention, labels = made(0, EXAMPLES)
    tokens = sma.token_inputs(inputs, attention, layers=(sma.SkipHeads(HEADS),), readout="first")
    problem = sma.Problem(tokens, labels)
    found = sma.select_heads(problem, keep=4, groups=2)
    sums = found.scores.reshape(-1, 2).sum(axis=1)
    assert {*found.kept} == {0, 1, 4, 5} and sums.argmin() == 1
    assert np.all(found.kept_in_folds[::2] == found.kept_in_folds[1::2])
    assert found.heads[found.kept].tolist() == [[0, head] for head in found.kept]
    with pytest.raises(ValueError, match="keep: wanted whole groups of 2 heads, got 3"):
        sma.select_heads(problem, keep=3, groups=2)
    with pytest.raises(ValueError, match="groups: wanted a divisor of the heads of every layer"):
        sma.select_heads(problem, keep=4, groups=4)


def test_at_finite_width_heads_are_scored_by_the_solution_on_tokens():
    inputs, attention, labels = made(3, 40)
    tokens = sma.token_inputs(inputs, attention, layers=(sma.SkipHeads(HEADS),), readout="first")
    problem = sma.Problem(tokens, labels, width=5.0, temperature=0.3)
    fit, train, test = on_tokens(problem, "derivative"), np.arange(20), np.arange(20, 40)  # as many as in a fold
    solution = sma.solve(sma.Problem(tokens.take(train), labels[train], width=5.0, temperature=0.3))
    np.testing.assert_allclose(fit(train).scores(), sma.pruning.head_worth(solution, removal=False).slopes, rtol=1e-6)
    np.testing.assert_allclose(fit(train).outputs(test), solution.predict(tokens.take(test)).mean, rtol=1e-6)
    kept = sma.select_heads(problem, keep=2, folds=2).kept
    assert {*kept} == {*USEFUL}
    with pytest.raises(ValueError, match="components: wanted along paths alone"):
        sma.select_heads(problem, keep=2, components=3)


def test_without_paths_the_accuracy_is_that_of_the_network_of_infinite_width_with_paths():
    """Held-out outputs of one fold by kernel regression on attentioned inputs, at the same numbers."""
    inputs, attention, labels = made(4, EXAMPLES, random_labels=True)
    inputs[:, 2, 1] += 1.5 * labels
    options = {"layers": (sma.SkipHeads(HEADS),), "readout": "mean"}
    problem = sma.Problem(sma.token_inputs(inputs, attention, **options), labels)
    fit, train, test = at_infinite_width(problem, "removal"), np.arange(60), np.arange(60, EXAMPLES)
    kept = fit(train).scores().argsort()[-2:]
    seen = sma.attentioned_inputs(inputs, attention, **options)
    seen = seen.keep_heads((np.sort(kept).tolist(),))
    order_parameter = sma.theory.gp_order_parameters(layers=seen.layers)[0]
    kernel = np.asarray(sma.kernel(seen, seen, order_parameter))
    none = np.zeros((0, 60, 60))
    best = kernel_worth(kernel[:60, :60], none, labels[train])
    inverse = np.linalg.inv(best.scale * kernel[:60, :60] + best.temperature * np.eye(60))
    expected = best.scale * kernel[60:, :60] @ inverse @ labels[train]
    np.testing.assert_allclose(fit(train, kept).outputs(test), expected, rtol=1e-8, atol=1e-10)
    with pytest.raises(ValueError, match="definition: wanted"):
        sma.select_heads(problem, keep=2, definition="both")
