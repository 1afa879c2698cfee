"""The recorded experiment on an encoder's attention, at tiny size with a random encoder and made-up sentences."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from attention_book import results, tasks
from attention_book.experiments.encoded_heads import CHOSEN_BY
from attention_book.experiments.encoded_inputs import STEP, encoded_task, stored_inputs, words
from attention_book.measures import training_kernel

from ..tasks.encoded import encoded_sentences
from .shared import *  # noqa: F403

EXPERIMENT = "EncodedHeads"
SETTINGS = dict(seed=0, task="made", layers=[0, 1], examples=30, validation_examples=20, test_examples=40)
SETTINGS |= dict(labels=[10, 30, 50], directions=6, head_dimension=4, widths=[100, 10], temperatures=[1.0, 0.1])
SETTINGS |= dict(kept_deep=[3], kept_flat=[2], random=1, steps=20, stored=True)
WRONG = [{"task": "weather"}, {"labels": [5]}, {"widths": [0.5]}, {"kept_deep": [0]}, {"steps": 0}]


@pytest.fixture(scope="module")
def found(recorded):
    return results.load(recorded).sel(chosen_by="evidence")


@pytest.fixture(scope="module")
def experiment(recorded, make):
    return make(recorded.parent)


@pytest.fixture(scope="module")
def problems(experiment):
    encoded = experiment.encoded()
    return {network: experiment.problem(encoded, network) for network in ("deep", "flat")}


def test_one_pass_gives_what_the_encoder_and_its_networks_give_one_by_one():
    read = words("made", 3, 25, 20)
    networks = {"deep": [0, 1], "flat": [range(2)]}
    found = encoded_task(read, networks, fitted=15, directions=5)
    np.testing.assert_allclose(found.pooled, tasks.encode(read.encoder, read.tokens).pooled, rtol=1e-6)
    for name, layers in networks.items():
        parts = read.tokens[np.arange(15)], read.tokens[np.arange(15, 45)]
        wanted = encoded_sentences(read.encoder, *parts, layers, directions=5)
        values = np.concatenate([wanted.train.values, wanted.test.values])
        inputs = np.asarray(found.networks[name].values)
        assert found.networks[name].layers == wanted.train.layers
        assert found.variance_lost[name] == pytest.approx(wanted.features.variance_lost, rel=1e-6)
        # Directions have a sign that nothing decides.
        signs = np.sign(np.sum(inputs * values, axis=(0, 1)))
        assert np.abs(inputs - signs * values).max() < 0.51 * STEP
        np.testing.assert_array_equal(inputs / STEP, np.round(inputs / STEP))


def test_the_grid_is_that_of_the_theory(found, problems):
    one = found
    for network, width in (("deep", 100.0), ("flat", 10.0)):
        problem = problems[network]
        solution = sma.solve(sma.Problem(problem.train, problem.labels, width=width, temperature=0.1))
        here = one.sel({f"width_{network}": width, "temperature": 0.1})
        assert float(here[f"log_evidence_{network}"]) == pytest.approx(float(sma.log_evidence(solution)), abs=1e-5)
        np.testing.assert_allclose(
            here[f"score_{network}"].sel(definition="both"),
            sma.head_scores(solution.order_parameter, layers=solution.problem.layers),
            atol=1e-3,
        )
        right = float(sma.accuracy(solution.predict(problem.test).mean, problem.test_labels))
        assert float(here[f"accuracy_{network}"]) == right
        right = float(sma.accuracy(solution.predict(problem.validation).mean, problem.validation_labels))
        assert float(here[f"validation_accuracy_{network}"]) == right
    limit = sma.solve(sma.Problem(problems["deep"].train, problems["deep"].labels, width=np.inf, temperature=1.0))
    at = one.sel(width_deep=np.inf, temperature=1.0)
    assert float(at["log_evidence_deep"]) == pytest.approx(float(sma.log_evidence(limit)), rel=1e-9)
    assert float(at["score_deep"].min()) == 1.0


def test_accuracy_by_labels_is_at_the_temperature_of_the_largest_evidence(found, experiment):
    one, encoded = found, experiment.encoded()
    problem = experiment.problem(encoded, "deep", 10)
    for name, width in (("theory", 10), ("gp", np.inf)):
        solved = [
            sma.solve(sma.Problem(problem.train, problem.labels, width=width, temperature=heat)) for heat in (0.1, 1.0)
        ]
        best = max(solved, key=lambda solution: float(sma.log_evidence(solution)))
        right = float(sma.accuracy(best.predict(problem.test).mean, problem.test_labels))
        assert float(one[f"{name}_by_labels"].sel(labels=10)) == right
    best = one["log_evidence_deep"].sel(width_deep=10.0).idxmax("temperature")
    whole = one["accuracy_deep"].sel(width_deep=10.0, temperature=best)
    assert float(one["theory_by_labels"].sel(labels=30)) == float(whole)
    assert np.isnan(one["theory_by_labels"].sel(labels=50)) and one["gp_by_labels"].notnull().all()


@pytest.mark.parametrize(("network", "by"), [("deep", "evidence"), ("flat", "validation")])
def test_heads_kept_are_learned_again_without_the_others(recorded, problems, network, by):
    one, problem = results.load(recorded).sel(chosen_by=by), problems[network]
    heat, chooses = float(one[f"chosen_temperature_{network}"]), one[f"{CHOSEN_BY[by]}_{network}"]
    assert heat == float(chooses.sel({f"width_{network}": 10.0}).idxmax("temperature"))
    for name in ("both", "Taylor by layer", "greedy"):
        scores = one[f"head_score_{network}"].sel({f"criterion_{network}": name}).values
        size = 3 if network == "deep" else 2
        removed = sma.pruning.removal_order(scores, layers=problem.train.layers)[: len(scores) - size]
        kept = sma.pruning.kept_heads(problem.train.layers, removed)
        smaller, test = sma.keep_heads(problem.train, kept), sma.keep_heads(problem.test, kept)
        solution = sma.solve(sma.Problem(smaller, problem.labels, width=10, temperature=heat))
        right = float(sma.accuracy(solution.predict(test).mean, problem.test_labels))
        place = {f"order_{network}": name, f"kept_{network}": size}
        assert float(one[f"learned_{network}"].sel(place)) == pytest.approx(right, abs=1e-6)


def test_heads_are_masked_by_brute_force(found, problems):
    """The theory's predictor without heads is kernel regression whose test kernel lacks their paths."""
    one, problem = found, problems["deep"]
    heat = float(one["chosen_temperature_deep"])
    solution = sma.solve(sma.Problem(problem.train, problem.labels, width=10, temperature=heat))
    gram = np.asarray(training_kernel(solution)) + heat * np.eye(30)
    order = sma.pruning.removal_order(one["head_score_deep"].sel(criterion_deep="both").values, layers=(3, 3))
    for removals in (1, 3):
        left = [[head for head in range(3) if 3 * layer + head not in order[:removals]] for layer in range(2)]
        paths = [3 * first + second for first, second in itertools.product(*left)]
        across = np.zeros((40, 30))
        for path in paths:
            row = jnp.einsum("q,eqi->ei", solution.order_parameter[path], problem.train.values)
            across += np.asarray(problem.test.values[:, path] @ row.T)
        outputs = across @ np.linalg.solve(gram, problem.labels)
        right = np.mean(np.sign(outputs) == problem.test_labels)
        curve = one["masked_deep"].sel(order_deep="both")
        assert float(curve[removals]) == pytest.approx(right, abs=1e-6)


def test_scores_by_brute_force(found, problems):
    one, problem = found, problems["deep"]
    scores = {
        str(name): one["head_score_deep"].sel(criterion_deep=name).values for name in one["criterion_deep"].values
    }
    heat = float(one["chosen_temperature_deep"])
    solution = sma.solve(sma.Problem(problem.train, problem.labels, width=10, temperature=heat))
    overlap, paths = np.asarray(solution.order_parameter), np.arange(9).reshape(3, 3)
    through = [*paths, *paths.T]
    lost, aligned = [], []
    centring = np.eye(30) - 1 / 30
    centred = centring @ problem.labels
    for head, own in enumerate(through):
        smaller = sma.pruning.without_head(problem.train, head)
        without = sma.solve(sma.Problem(smaller, problem.labels, width=10, temperature=heat))
        lost.append(float(sma.log_evidence(solution) - sma.log_evidence(without)))
        flat = np.asarray(problem.train.values)[:, own].reshape(30, -1)
        gram = centring @ flat @ flat.T @ centring
        aligned.append(centred @ gram @ centred / (np.linalg.norm(gram) * centred @ centred))
    np.testing.assert_allclose(scores["evidence lost"], lost, atol=0.01)
    np.testing.assert_allclose(scores["alignment"], aligned, rtol=1e-5)
    sums = np.array([np.abs(overlap[np.ix_(own, own)]).sum() for own in through])
    np.testing.assert_allclose(scores["both"], sums / sums.max(), rtol=1e-3)

    def mean_output(inputs, gates):
        values = np.asarray(inputs.values) * np.outer(gates[:3], gates[3:]).reshape(1, 9, 1)
        across = np.einsum("epi,pq,mqi->em", values, overlap, np.asarray(problem.train.values)) / (6 * 9)
        return across @ np.linalg.solve(
            np.asarray(training_kernel(solution)) + heat * np.eye(30),
            problem.labels,
        )

    slopes, step = [], 1e-5
    for head in range(6):
        more, less = ((mean_output(problem.train, np.ones(6) + sign * step * np.eye(6)[head])) for sign in (1, -1))
        slopes.append(np.mean(np.abs(((more - problem.labels) ** 2 - (less - problem.labels) ** 2) / (2 * step))))
    np.testing.assert_allclose(scores["Taylor"], slopes, rtol=1e-3)
    layers = np.concatenate([part / np.linalg.norm(part) for part in np.split(np.array(slopes), 2)])
    np.testing.assert_allclose(scores["Taylor by layer"], layers, rtol=1e-3)


def test_what_is_stored_is_what_was_solved(found, problems):
    kept = stored_inputs(found)
    np.testing.assert_array_equal(kept.train.values, problems["deep"].train.values)
    np.testing.assert_array_equal(kept.test.values, problems["deep"].test.keep_heads(kept.kept).values)
    assert kept.train.layers == (3, 3) and sum(map(len, kept.kept)) == 3
    with pytest.raises(ValueError, match="recorded: wanted a record with a task stored"):
        stored_inputs(found.drop_vars("stored_inputs"))
