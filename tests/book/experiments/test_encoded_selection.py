"""Selection of an encoder's heads, at tiny size with a random encoder and made-up sentences, by brute force."""

import itertools

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import xarray as xr

import statmech_attention as sma
from attention_book import experiments, results
from attention_book.experiments.encoded_selection import diagonal
from attention_book.pruning.kernel_weights import kernel_weights

from .shared import *  # noqa: F403
from .shared import test_an_interrupted_run_goes_on_and_ends_the_same  # noqa: F401

EXPERIMENT, HEATS = "EncodedSelection", [0.1, 1.0]
SETTINGS = dict(seed=0, task="made", split=[50, 40], layers=[0, 1], examples=30, validation_examples=20, directions=6)
SETTINGS |= dict(temperatures=HEATS, width=10, kept_deep=[3], kept_flat=[2], random=1)
WRONG = [{"task": "weather"}, {"split": [60]}, {"width": 0}, {"kept_deep": [0]}, {"random": 0}]


def prepare(folder):
    """Scores as `EncodedHeads` records them; any numbers will do."""
    draws, columns = np.random.default_rng(5), {}
    for network in ("deep", "flat"):
        axes = ("chosen_by", f"criterion_{network}", f"head_{network}")
        columns[f"head_score_{network}"] = (axes, draws.random((2, 2, 6)))
    names = {f"criterion_{network}": ["both", "Taylor"] for network in ("deep", "flat")}
    source = xr.Dataset(columns, {"chosen_by": ["evidence", "validation"], **names})
    results.save(source, folder / "encoder-made-seed0.nc", parameters={})


@pytest.fixture(scope="module")
def problems(recorded):
    return experiments.experiment_of(recorded).problems()


def log_density(problem, paths, heat):
    """Labels under a Gaussian process with the mean of the paths' kernels."""
    values = np.asarray(problem.train.values)[:, paths]
    gram = np.einsum("epi,fpi->ef", values, values) / (values.shape[1] * values.shape[2])
    return scipy.stats.multivariate_normal.logpdf(problem.labels, cov=gram + heat * np.eye(30))


@pytest.mark.parametrize("network", ["flat", "deep"])
def test_own_evidence_and_forward_selection_by_brute_force(found, problems, network):
    problem = problems[network]
    number = {"flat": 6, "deep": 9}[network]

    def paths(heads):
        """Of the deep network heads 0 to 2 are the first layer's, 3 to 5 the second's; path 3 h + g."""
        if network == "flat":
            return list(heads)
        return [3 * h + g - 3 for h, g in itertools.product(heads, heads) if h < 3 <= g]

    everyone = tuple(range(6))
    alone = [
        paths((head, *(other for other in everyone if number == 9 and (other < 3) != (head < 3)))) for head in everyone
    ]
    wanted = [max(log_density(problem, one, heat) for heat in HEATS) for one in alone]
    scores = {
        str(name): found[f"head_score_{network}"].sel({f"criterion_{network}": name}).values
        for name in found[f"criterion_{network}"].values
    }
    np.testing.assert_allclose(scores["own evidence"], wanted, rtol=1e-5)

    starts = [(head,) for head in everyone] if network == "flat" else [(h, g) for h in range(3) for g in range(3, 6)]
    chosen = max(starts, key=lambda heads: max(log_density(problem, paths(heads), heat) for heat in HEATS))
    heat = max(HEATS, key=lambda heat: log_density(problem, paths(chosen), heat))
    others = [head for head in everyone if head not in chosen]
    added = max(others, key=lambda head: log_density(problem, paths((*chosen, head)), heat))
    assert {*np.flatnonzero(scores["forward selection"])} == {*chosen, added}


def test_heads_kept_are_fitted_again_at_a_temperature_of_their_own(recorded, found, problems):
    problem, size = problems["flat"], 2
    before = results.load(recorded.with_name("encoder-made-seed0.nc")).sel(chosen_by="evidence", criterion_flat="both")
    orders = {
        "both": before["head_score_flat"].values,
        "own evidence": found["head_score_flat"].sel(criterion_flat="own evidence").values,
        "random 0": np.random.default_rng(0).random(6),
    }
    for order, scores in orders.items():
        kept = sorted(np.argsort(-scores)[:size].tolist())
        smaller = problem.keep_heads((tuple(kept),))
        for way, width in (("limit", np.inf), ("theory", 10)):
            solved = [
                sma.solve(sma.Problem(smaller.train, problem.labels, width=width, temperature=heat)) for heat in HEATS
            ]
            best = max(solved, key=lambda one: float(sma.log_evidence(one)))
            here = found.sel(order_flat=order, kept_flat=size, way_flat=way, chosen_by="evidence")
            assert float(here["temperature_kept_flat"]) == float(best.problem.temperature)
            assert float(here["log_evidence_kept_flat"]) == pytest.approx(float(sma.log_evidence(best)), abs=1e-4)
            right = float(sma.accuracy(best.predict(smaller.test).mean, problem.test_labels))
            assert float(here["right_flat"].mean()) / 2 == pytest.approx(right)


def test_the_diagonal_theory_is_a_minimum_of_the_action_among_diagonal_matrices(problems):
    """Of the library's action, minimised without gradients over diagonal order parameters of two layers."""
    problem, width = problems["deep"], 5.0
    at = sma.Problem(problem.train, problem.labels, width=width, temperature=0.3)

    def action(logs):
        first, second, last = np.split(np.exp(logs), [9, 12])
        return float(sma.theory.action(at, (np.diag(first), np.diag(second), last[0])))

    found = diagonal(problem, width, [0.3])
    start = np.append(np.log(np.diag(found.order_parameter)), np.zeros(4))
    # The inner ones are not returned: they are found here, the outer ones confirmed.
    end = scipy.optimize.minimize(action, start, method="BFGS", options={"gtol": 1e-5})
    np.testing.assert_allclose(np.exp(end.x[:9]), np.diag(found.order_parameter), rtol=2e-3)


def test_kernel_weights_are_those_of_the_function(found, problems):
    fit = kernel_weights(sma.Problem(problems["deep"].train, problems["deep"].labels))
    here = found.sel(whole_deep="kernel weights")
    assert float(here["log_evidence_whole_deep"]) == pytest.approx(fit.log_evidence)
    weights = np.asarray(fit.weights).reshape(3, 3)
    sums = np.concatenate([weights.sum(axis=1), weights.sum(axis=0)])
    scores = found["head_score_deep"].sel(criterion_deep="kernel weights")
    np.testing.assert_allclose(scores, sums / sums.max(), rtol=1e-5)
    at = sma.Problem(problems["deep"].train, problems["deep"].labels, temperature=fit.temperature)
    mean = sma.kernel_regression(at, fit.order_parameter).predict(problems["deep"].test).mean
    assert float(here["right_whole_deep"].mean()) / 2 == float(sma.accuracy(mean, problems["deep"].test_labels))
