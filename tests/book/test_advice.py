"""What pages advise, tried on cases that no page has."""

import jax
import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss

import statmech_attention as sma
from attention_book.theory.solvable_model import SolvableModel


def labelled(seed, count, cut=0.0):
    """Random inputs along three paths, of which two show the class; +1 above a cut."""
    x = np.random.default_rng(seed).normal(size=(count, 3, 5))
    return x, np.where(x[:, 0, 0] + 0.5 * x[:, 1, 1] > cut, 1.0, -1.0)


@pytest.mark.parametrize("seed", [0, 1])
def test_unequal_classes_need_their_mean_taken_away(seed):
    x, y = labelled(seed, 700, cut=1.0)

    def right(labels, mean):
        problem = sma.Problem(x[:100], labels[:100], layers=(3,), width=10.0, temperature=0.1)
        return np.mean(np.sign(sma.solve(problem).predict(x[100:]).mean + mean) == y[100:])

    guess, mean = np.mean(y[100:] < 0), y[:100].mean()
    assert right(y, 0.0) < guess < right(y - mean, mean) - 0.03


@pytest.mark.parametrize("seed", [0, 1])
def test_a_constant_feature_does_so_for_a_classifier(seed):
    x, y = labelled(seed, 700, cut=1.0)
    more = np.concatenate([x, np.ones((700, 3, 1))], axis=2)
    model = sma.AttentionPathsClassifier(layers=(3,), width=10.0, temperature=0.1)
    plain, constant = (model.fit(one[:100], y[:100]).score(one[100:], y[100:]) for one in (x, more))
    assert plain < np.mean(y[100:] < 0) < constant - 0.03


@pytest.mark.parametrize("seed", [0, 1])
def test_own_evidence_keeps_heads_that_repeat_one_another(seed):
    random = np.random.default_rng(seed)
    first, second = random.normal(size=(2, 700, 5))
    y = np.sign(first[:, 0] + 0.7 * second[:, 0])
    copies = [first + 0.5 * random.normal(size=(700, 5)) for _ in range(5)]
    x = np.stack([*copies, second, *random.normal(size=(6, 700, 5))], axis=1)

    def problem(heads, width):
        options = {"layers": (len(heads),), "width": width, "temperature": 0.3}
        return sma.Problem(x[:200][:, heads], y[:200], **options)

    kept = sma.select_heads(problem(list(range(12)), 10.0), keep=2).kept
    alone = [sma.log_evidence(sma.solve(problem([head], np.inf))) for head in range(12)]
    own = np.argsort(alone)[-2:]
    assert 5 in kept and 5 not in own
    right = [
        np.mean(np.sign(sma.solve(problem(list(heads), 10.0)).predict(x[200:][:, heads]).mean) == y[200:])
        for heads in (kept, own)
    ]
    assert right[0] > right[1] + 0.05


def test_the_next_order_moves_the_share_of_two_minima_by_two_nats_at_most():
    """Of the draws with two minima, over width, load, correlation, signal and temperature."""
    random, moved = np.random.default_rng(0), []
    for number in range(40):
        width, near, signal, heat = (random.uniform(*ends) for ends in ((4, 12), (-2.3, -2), (0.5, 0.9), (0.02, 0.06)))
        numbers = {"examples": 48, "features": 192, "width": width, "temperature": heat}
        noise = 1 - 10**near
        problem = SolvableModel([[1, noise], [noise, 1]], [signal, 0.0], **numbers).sample(jax.random.key(number))[0]
        found = sma.minima(problem)
        if len(found) == 2:
            low, high = (float(sma.log_evidence(one, corrected=True)) for one in found)
            ahead = width / 2 * float(found[1].action - found[0].action)
            moved.append(low - high - ahead)
            assert ahead < 7 or high - low < np.log(0.01)
        if len(moved) == 8:
            break
    assert len(moved) == 8 and np.max(np.abs(moved)) < 2


def mean_output(levels, label, width, temperature):
    """The exact mean along one path and one layer, from both order parameters on a grid."""
    z = np.stack(np.meshgrid(*2 * [np.linspace(-5, 5, 801)], indexing="ij"), axis=-1)
    logs = 2 * z.sum(axis=-1)
    some = np.linspace(logs.min(), logs.max(), 4000)
    noisy = np.multiply.outer(np.exp(some), levels) + temperature
    energy = np.sum(np.log(noisy) + label**2 / noisy, axis=1)
    entropy = np.sum(np.exp(2 * z) - 2 * z, axis=-1)
    exponent = -(width * entropy + np.interp(logs, some, energy)) / 2
    weight = np.exp(exponent - exponent.max())
    weight /= weight.sum()
    return [np.sum(weight * np.interp(logs, some, 1 - temperature / one)) for one in noisy.T] * label


@pytest.mark.parametrize(("strong", "square", "width"), [(0, 300.0, 3.0), (5, 220.0, 10.0), (8, 874.0, 30.0)])
def test_r_is_the_error_of_one_path_with_one_minimum_and_with_two(strong, square, width):
    levels, label = np.append(np.full(strong, 100.0), 0.01), np.append(np.zeros(strong), square**0.5)
    x = np.diag(np.sqrt(len(levels) * levels))[:, None, :]
    found = sma.criterion(sma.solve(sma.Problem(x, label, layers=(1,), width=width, temperature=1.0)), x)
    assert len(found.minima) == (2 if strong == 8 else 1)
    exact = mean_output(levels, label, width, 1.0)
    for one, r in ((found.solution, found.r), (found.lowest, found.r_lowest)):
        plain = one.predict(x)
        error = np.sqrt(np.mean((plain.mean - exact) ** 2) / np.mean(plain.variance))
        assert r / 2 < error < 2 * r and (r > 0.1 or error < 0.2)


def test_two_hundred_labels_calibrate_a_classifier_that_is_not_sure_enough():
    (x, y), (new, wanted) = labelled(0, 200), labelled(1, 1000)
    model = sma.AttentionPathsClassifier(layers=(3,), width=10.0, temperature=0.35)
    says = [one.fit(x, y).predict_proba(new)[:, 1] for one in (model, CalibratedClassifierCV(model, cv=3))]
    assert np.mean(np.maximum(says[0], 1 - says[0])) < np.mean((says[0] > 0.5) == (wanted > 0)) - 0.1
    assert log_loss(wanted, says[1]) < log_loss(wanted, says[0]) - 0.05
