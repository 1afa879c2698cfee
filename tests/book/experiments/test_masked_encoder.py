"""Heads masked in a tiny random encoder, on made-up sentences, against passes from scratch."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from attention_book import tasks
from attention_book.experiments.encoded_inputs import words
from attention_book.experiments.linear_probes import Probe, logistic
from attention_book.experiments.masked_heads import Classifier, features, fine_tuned
from attention_book.pruning import predictor_contributions, taylor_importance

from ..tasks.encoded import encoded_sentences
from .shared import *  # noqa: F403

EXPERIMENT = "MaskedEncoder"
SETTINGS = dict(seed=0, task="made", split=[60, 80], examples=30, test_examples=70, directions=6, width=10)
SETTINGS |= dict(temperatures=[1.0, 0.1], kept=[4, 2], random=1, epochs=2, rate=1e-2, batch=8)
WRONG = [{"split": [60]}, {"examples": 61}, {"test_examples": 81}, {"test_examples": 11}, {"kept": [7]}, {"batch": 31}]


@pytest.fixture(scope="module")
def experiment(recorded, make):
    return make(recorded.parent)


@pytest.fixture(scope="module")
def read(experiment):
    return experiment.words()


@pytest.fixture(scope="module")
def classifiers(experiment, read):
    return {"probe": experiment.probe(read), "tuned": experiment.tuned(read).classifier}


def outputs_by_hand(classifier, tokens, gates=None):
    """A pass from scratch, all sentences padded alike."""
    seen = tasks.encode(classifier.encoder, tokens, head_gates=gates)
    tokens_out = seen.pooled if classifier.readout == "pooled" else seen.hidden[:, -1, 0]
    return np.asarray(tokens_out) @ classifier.probe.weights + classifier.probe.intercept


def test_sentences_are_the_first_ones_of_the_split(read):
    whole = words("made", 0, 60, 80)
    np.testing.assert_array_equal(read.labels, whole.labels[[*range(30), *range(60, 130)]])
    np.testing.assert_array_equal(read.tokens.ids[30], whole.tokens.ids[60])


def test_the_probe_is_logistic_regression_on_pooled_embeddings(read, classifiers):
    pooled = np.asarray(tasks.encode(read.encoder, read.tokens[np.arange(30)]).pooled, float)
    wanted = logistic(pooled, read.labels[:30])
    np.testing.assert_allclose(classifiers["probe"].probe.weights, wanted.weights, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("network", ["probe", "tuned"])
def test_what_is_lost_without_a_head_by_brute_force(found, read, classifiers, network):
    one, classifier, tests = found.sel(network=network), classifiers[network], read.tokens[np.arange(30, 100)]
    labels, gates = read.labels[30:], np.ones((2, 3))
    whole = outputs_by_hand(classifier, tests)
    assert float(one["accuracy"]) == np.mean(np.sign(whole) == labels)
    losses = np.log1p(np.exp(-labels * whole))
    assert float(one["loss"]) == pytest.approx(losses.mean(), rel=1e-9)
    for head in (1, 5):
        gates = np.ones(6)
        gates[head] = 0
        without = outputs_by_hand(classifier, tests, gates.reshape(2, 3))
        rise = np.log1p(np.exp(-labels * without)) - losses
        drop = 1.0 * (np.sign(whole) == labels) - (np.sign(without) == labels)
        fall = labels * (whole - without) / np.abs(whole).mean()
        for name, worse in (("loss_rise", rise), ("accuracy_drop", drop), ("margin_fall", fall)):
            halves = [worse[::2].mean(), worse[1::2].mean()]
            np.testing.assert_allclose(one[name][:, head], halves, atol=1e-9)
        tempered = [
            scaled_loss(without[half::2], without[1 - half :: 2], labels[half::2], labels[1 - half :: 2])
            - scaled_loss(whole[half::2], whole[1 - half :: 2], labels[half::2], labels[1 - half :: 2])
            for half in (0, 1)
        ]
        np.testing.assert_allclose(one["tempered_rise"][:, head], tempered, atol=2e-3)


def scaled_loss(outputs, others, labels, other_labels):
    """Log loss at the scale, of a fine grid, that is best for the other sentences."""
    scales = np.exp(np.linspace(-10, 10, 20_001))
    losses = np.array([np.mean(np.logaddexp(0, -scale * other_labels * others)) for scale in scales])
    return np.mean(np.logaddexp(0, -scales[np.argmin(losses)] * labels * outputs))


@pytest.mark.parametrize("network", ["probe", "tuned"])
def test_curves_by_brute_force(found, read, classifiers, network):
    one, classifier = found.sel(network=network), classifiers[network]
    train, tests = read.tokens[np.arange(30)], read.tokens[np.arange(30, 100)]
    gates = np.ones(6)
    gates[np.argsort(one["score"].sel(criterion="both").values, kind="stable")[:4]] = 0
    outputs = outputs_by_hand(classifier, tests, gates.reshape(2, 3))
    at = one.sel(order="both", kept=2)
    assert float(at["accuracy_kept"]) == np.mean(np.sign(outputs) == read.labels[30:])
    assert float(at["loss_kept"]) == pytest.approx(np.mean(np.log1p(np.exp(-read.labels[30:] * outputs))), rel=1e-9)
    if network == "tuned":
        assert one["accuracy_again"].isnull().all() and one["loss_again"].isnull().all()
        return
    learned, seen = (
        np.asarray(tasks.encode(read.encoder, part, head_gates=gates.reshape(2, 3)).pooled, float)
        for part in (train, tests)
    )
    outputs = logistic(learned, read.labels[:30], [classifier.probe.penalty])(seen)
    assert float(at["accuracy_again"]) == np.mean(np.sign(outputs) == read.labels[30:])


@pytest.mark.parametrize("network", ["probe", "tuned"])
def test_taylor_in_the_encoder_is_that_of_finite_differences(found, read, classifiers, network):
    train, step, slopes = read.tokens[np.arange(30)], 1e-5, []
    for head in range(6):
        change = step * np.eye(6)[head].reshape(2, 3)
        more, less = (
            np.log1p(np.exp(-read.labels[:30] * outputs_by_hand(classifiers[network], train, 1 + sign * change)))
            for sign in (1, -1)
        )
        slopes.append(np.mean(np.abs(more - less)) / (2 * step))
    recorded = found["score"].sel(network=network, criterion="Taylor in the encoder")
    np.testing.assert_allclose(recorded, slopes, rtol=1e-5)


@pytest.mark.parametrize("network", ["probe", "tuned"])
def test_the_theory_has_the_attention_of_the_encoder_in_question(found, read, classifiers, network):
    one, encoder = found.sel(network=network), classifiers[network].encoder
    parts = read.tokens[np.arange(30)], read.tokens[np.arange(30, 100)]
    seen = encoded_sentences(encoder, *parts, [range(2)], directions=6)
    labels = read.labels[:30]
    solved = [sma.solve(sma.Problem(seen.train, labels, width=10, temperature=heat)) for heat in (0.1, 1.0)]
    best = max(solved, key=lambda solution: float(sma.log_evidence(solution)))
    assert float(one["temperature"]) == float(best.problem.temperature)
    # Those of the record were rounded to sixteenths.
    np.testing.assert_allclose(
        one["score"].sel(criterion="both"), sma.head_scores(best.order_parameter, layers=best.problem.layers), atol=0.03
    )
    accuracy = float(sma.accuracy(best.predict(seen.test).mean, read.labels[30:]))
    assert float(one["theory_accuracy"]) == pytest.approx(accuracy, abs=0.05)
    contributions = predictor_contributions(
        sma.Problem(seen.train, labels, temperature=float(best.problem.temperature)), seen.train, best.order_parameter
    )
    taylor = taylor_importance(contributions, labels, layers=(6,))
    np.testing.assert_allclose(one["score"].sel(criterion="Taylor"), taylor, rtol=0.1)


@pytest.mark.parametrize(("network", "other"), [("probe", "tuned"), ("tuned", "probe")])
def test_mixed_theory_has_the_attention_of_one_encoder_and_the_tokens_of_the_other(
    found, read, classifiers, network, other
):
    attention = tasks.encode(classifiers[network].encoder, read.tokens).attention
    entering = tasks.encode(classifiers[other].encoder, read.tokens).embeddings
    seen = np.concatenate([np.einsum("ehk,ekd->ehd", layer[..., 0], entering) for layer in attention], axis=1)
    # Principal components over training sentences and paths, rounded to sixteenths as in the record.
    seen = seen - seen[:30].mean(axis=(0, 1))
    _, _, basis = np.linalg.svd(seen[:30].reshape(-1, 12), full_matrices=False)
    values = seen @ basis[:6].T
    values = np.round(16 * values / np.sqrt(np.mean(values[:30] ** 2))) / 16
    solved = [
        sma.solve(sma.Problem(values[:30], read.labels[:30], layers=(6,), width=10, temperature=heat))
        for heat in (0.1, 1.0)
    ]
    best = max(solved, key=lambda solution: float(sma.log_evidence(solution)))
    accuracy = float(sma.accuracy(best.predict(values[30:]).mean, read.labels[30:]))
    assert float(found["theory_accuracy_mixed"].sel(network=network)) == pytest.approx(accuracy, abs=1e-9)


def test_fine_tuning_trains_all_weights_and_is_the_same_again(read, classifiers, found):
    learned = read._replace(tokens=read.tokens[np.arange(30)], labels=read.labels[:30])
    again = fine_tuned(learned, seed=0, epochs=2, rate=1e-2, batch=8)
    for one, other in zip(*map(jax.tree.leaves, (again.classifier.encoder, classifiers["tuned"].encoder)), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(found["training_loss"], again.losses)
    # A bias of all keys shifts every query's logits alike, and turns no attention.
    without = (
        replace(encoder, layers=encoder.layers._replace(key=encoder.layers.key._replace(bias=encoder.norm.bias[None])))
        for encoder in (again.classifier.encoder, read.encoder)
    )
    for one, other in zip(*map(jax.tree.leaves, without), strict=True):
        assert float(jnp.abs(one - other).max()) > 1e-3
    longer = fine_tuned(learned, seed=0, epochs=30, rate=1e-2, batch=8)
    assert longer.losses[-1] < 0.5 * longer.losses[0]
    outputs = outputs_by_hand(longer.classifier, learned.tokens)
    assert np.mean(np.sign(outputs) == learned.labels) > 0.9


def test_a_step_of_fine_tuning_goes_down_the_gradient(read):
    """Adam's first step has the rate's size and the slope's sign; with two steps the first has rate 0."""
    learned = read._replace(tokens=read.tokens[np.arange(10)], labels=read.labels[:10])
    after = fine_tuned(learned, seed=3, epochs=2, rate=1e-3, batch=10).classifier
    probe = Probe(0.02 * np.random.default_rng(3).normal(size=12), 0.0, 0.0)
    layers = read.encoder.layers

    def loss(bias):
        encoder = replace(read.encoder, layers=layers._replace(outer=layers.outer._replace(bias=bias)))
        outputs = outputs_by_hand(Classifier(encoder, "first", probe), learned.tokens)
        return np.mean(np.log1p(np.exp(-learned.labels * outputs)))

    bias, step = np.asarray(layers.outer.bias), 1e-5
    for place in ((0, 1), (1, 4)):
        change = np.zeros_like(bias)
        change[place] = step
        slope = (loss(jnp.asarray(bias + change)) - loss(jnp.asarray(bias - change))) / (2 * step)
        moved = float(after.encoder.layers.outer.bias[place]) - bias[place]
        # Adam's memory of the first slope and of this one, the same: sign times rate.
        assert moved == pytest.approx(-1e-3 * np.sign(slope), rel=1e-3)


def test_in_single_precision_features_are_the_same(read):
    single, some = jax.tree.map(lambda one: one.astype(jnp.float32), read.encoder), read.tokens[np.arange(40)]
    gates = np.ones((2, 2, 3))
    gates[1, 0, 2] = 0
    wanted = features(read.encoder, some, "pooled", gates)
    np.testing.assert_allclose(features(single, some, "pooled", gates), wanted, atol=1e-5)


def test_what_is_not_installed_is_said(experiment, monkeypatch):
    monkeypatch.setattr("attention_book.tasks._installed.missing", lambda: ("this", "that"))
    assert replace(experiment, task="spam").missing == "this, that" and not experiment.missing
