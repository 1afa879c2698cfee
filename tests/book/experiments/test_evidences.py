"""Recorded evidences at tiny size: those of the functions called directly, computed again, and done draw by draw."""

import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import statmech_attention as sma
from attention_book import experiments
from statmech_attention import sampling

from .shared import *  # noqa: F403

EXPERIMENT = "Evidences"
SETTINGS = dict(seed=1, draws=2, examples=12, test_examples=20, widths=[30, 10], temperatures=[0.3, 0.1], points=8)
WRONG = [{"draws": 0}, {"widths": []}, {"temperatures": [0.0]}, {"points": 2}]


def test_the_record_has_evidence_and_accuracy(recorded, found):
    assert recorded.name == "evidences-examples12-seed1.nc"
    assert found.log_evidence.shape == (2, 2, 2) and found.gp_log_evidence.shape == (2, 2)
    assert found.width.values.tolist() == [10, 30] and found.temperature.values.tolist() == [0.1, 0.3]
    trial = experiments.sampling_trial(2, examples=12, test_examples=20)
    one = found.sel(draw=1, width=30, temperature=0.3)
    solved = sma.solve(sma.Problem(trial.train, trial.labels, width=30, temperature=0.3))
    assert float(one.accuracy) == float(sma.accuracy(solved.predict(trial.test).mean, trial.test_labels))
    key = jax.random.split(jax.random.fold_in(jax.random.fold_in(jax.random.key(1), 1), 30), 2)[1]
    problem = sma.Problem(trial.train, trial.labels, width=30, temperature=0.3)
    wanted = sampling.importance(problem, key=jax.random.split(key, 1)[0], points=8, warn=False)
    assert (float(one.log_evidence), float(one.error)) == wanted.log_evidence
    for name in ("effective_size", "laplace", "theory"):
        assert float(one[name]) == getattr(wanted, name)


def test_the_gp_limit_is_that_of_scipy(found):
    trial = experiments.sampling_trial(1, examples=12, test_examples=20)
    overlap, *_ = sma.theory.gp_order_parameters((2, 2))
    gram = np.asarray(sma.kernel(trial.train, trial.train, overlap)) + 0.1 * np.eye(12)
    wanted = multivariate_normal.logpdf(np.asarray(trial.labels), np.zeros(12), gram)
    assert float(found.gp_log_evidence[0, 0]) == pytest.approx(wanted, rel=1e-10)
    mean = np.asarray(sma.kernel(trial.test, trial.train, overlap)) @ np.linalg.solve(gram, np.asarray(trial.labels))
    assert float(found.gp_accuracy[0, 0]) == np.mean(np.sign(mean) == np.asarray(trial.test_labels))
