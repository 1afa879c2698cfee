"""Densities of two modes: the evidence on a grid and basin by basin, and chains from both modes."""

import jax
import numpy as np
import pytest
from scipy.stats import chi

import statmech_attention as sma
from attention_book.theory.solvable_model import SolvableModel
from benchmarks import searches
from statmech_attention.sampling import evidence as evidences
from statmech_attention.sampling._bartlett import bartlett
from statmech_attention.sampling._density import posterior_density
from statmech_attention.sampling._modes import gaussians_at_modes
from tests.sampling.annealed_weights import log_evidence

sampling = sma.sampling
TAU, LOAD = 0.6 * 0.01598, 27.0  # one layer of one path without noise: between its two spinodals


def one_path(width):
    """The path is the labels themselves, of a size that has two minima; and its exact log evidence, mean and shares."""
    examples = round(LOAD * width)
    y = np.where(np.arange(examples) % 2, 1.0, -1.0)
    problem = sma.Problem(np.sqrt(TAU / examples) * y[:, None, None], y, layers=(1,), width=width, temperature=1.0)
    ticks = np.linspace(-2.0, 2.5, 2001)
    prior = chi.logpdf(np.sqrt(width) * np.exp(ticks), width) + 0.5 * np.log(width) + ticks
    overlap = np.exp(2 * (ticks[:, None] + ticks[None, :]))
    spread = 1 + TAU * overlap
    nats = np.log(spread) + examples / spread + examples * np.log(2 * np.pi)
    logs = prior[:, None] + prior[None, :] - 0.5 * nats
    weights = np.exp(logs - logs.max())
    evidence = np.log(weights.sum() * (ticks[1] - ticks[0]) ** 2) + logs.max()
    weights /= weights.sum()
    return problem.reduce(), evidence, np.sum(weights * overlap), np.sum(weights[overlap > 20])


@pytest.mark.parametrize("width", [20, 300])
def test_evidence_and_mean_over_both_modes_agree_with_a_grid(width):
    problem, evidence, overlap, share = one_path(width)
    assert share > 0.3
    found = sampling.importance(problem, key=jax.random.key(0), points=64, warn=False)
    assert found.modes == 2
    assert abs(found.log_evidence.mean - evidence) < 4 * found.log_evidence.error < 0.03
    assert abs(found.order_parameter.mean.item() - overlap) < 4 * found.order_parameter.error.item()


def test_chains_start_in_both_modes():
    """At width 300 they never cross; at 20 they do, and find the share of each mode."""
    problem, *_ = one_path(300)
    few = sma.SamplerSettings(draws=100, warmup=50, warn=False)
    found = sampling.posterior(problem, key=jax.random.key(0), settings=few)
    apart = found["order_parameter"].mean("draw").values.ravel()
    assert np.all(apart[::2] > 40) and np.all(apart[1::2] < 4)
    assert found.attrs["modes"] == 2 and "2 modes, which sampling.importance weighs" in found.attrs["warning"]
    assert sma.sampling.r_hat(found["order_parameter"]).item() > 5

    problem, _, overlap, share = one_path(20)
    found = sampling.posterior(problem, key=jax.random.key(1), settings=sma.SamplerSettings(draws=4000, warn=False))
    high = sampling.estimate((found["order_parameter"] > 20).astype(float))
    mean = sampling.estimate(found["order_parameter"])
    assert found.attrs["modes"] == 2 and high.error < 0.03
    assert abs(high.mean.item() - share) < 4 * high.error and abs(mean.mean.item() - overlap) < 4 * mean.error


def two_paths(rho, signal, examples, width, temperature):
    """Two paths of which one has to be subtracted, with four features per example."""
    sizes = {"examples": examples, "features": 4 * examples, "width": float(width), "temperature": temperature}
    return SolvableModel([[1, rho], [rho, 1]], [signal, 0.0], **sizes).sample(jax.random.key(0), 10)[0]


NUMBERS = 0.999, 0.5, 100, 10, 0.05  # correlation, signal, P, N, T


def test_modes_are_at_the_minima_and_as_heavy():
    problem = two_paths(*NUMBERS)
    factors = bartlett(problem.architecture)
    found = gaussians_at_modes(problem, posterior_density(problem, factors))
    mass = found.logdet - found.potential
    basins = [float(sma.log_evidence(one, corrected=True)) for one in sma.minima(problem)]
    assert len(found.mode) == len(basins) == 2
    assert abs(np.ptp(mass) - np.ptp(basins)) < 0.05 * np.ptp(basins) and np.ptp(basins) > 1.5


def test_the_evidence_is_that_of_the_lowest_minimum():
    """The branch of the prior is off by 45 nats."""
    problem = two_paths(*NUMBERS)
    found = sampling.importance(problem, key=jax.random.key(0), points=16, warn=False)
    prior, lowest = (
        float(sma.log_evidence(one, corrected=True)) for one in (sma.solve(problem), sma.minima(problem)[0])
    )
    assert abs(found.log_evidence.mean - lowest) < 0.1 and abs(found.laplace - lowest) < 0.1
    assert lowest > prior + 40


def test_one_mode_where_there_is_one():
    problem, *_ = one_path(20)
    hot = problem.replace(temperature=10.0)
    assert len(sma.minima(hot)) == 1
    found = sampling.importance(hot, key=jax.random.key(0), points=16, warn=False)
    assert found.modes == 1
    assert (
        sampling.posterior(
            hot, key=jax.random.key(0), settings=sma.SamplerSettings(draws=10, warmup=10, warn=False)
        ).modes
        == 1
    )


def test_the_error_of_annealed_evidence_is_that_of_lognormal_replicates(monkeypatch):
    """Replicates whose evidences differ by a factor of e: without the second term the error would be .25, not .31."""
    problem, random = two_paths(*NUMBERS), np.random.default_rng(0)
    monkeypatch.setattr(evidences, "annealed", lambda *_, **given: (random.normal(size=given["replicates"]), {}))
    found = [evidences._from_prior(jax.random.key(0), 64, problem, None, None) for _ in range(1000)]
    spread = np.std([one.log_evidence for one in found])
    assert np.sqrt(np.mean([one.error**2 for one in found])) == pytest.approx(spread, rel=0.12)


@pytest.mark.parametrize(("error", "wins"), [(0.1, "second"), (3.0, "first")])
def test_the_larger_evidence_wins_only_where_errors_do_not_explain_it(error, wins):
    """Five nats apart; else that of more independent draws."""
    both = {
        name: evidences._Averages(log_evidence, error, {}, size, False)
        for name, log_evidence, size in (("first", -10.0, 1000.0), ("second", -5.0, 10.0))
    }
    assert evidences._better(*both.values()) is both[wins] is evidences._better(*reversed(both.values()))


@pytest.mark.slow
def test_importance_surrounds_the_modes_of_two_outputs():
    """The prior and a narrower network lead to two of them, in both of which one output is learned at most."""
    problem = searches.problem("2 outputs", 0).replace(width=6)
    known = sma.minima(problem)
    lowest, *higher = (float(sma.log_evidence(one, corrected=True)) for one in known)
    assert len(known) == 3 and lowest > max(higher) + 2 and known[0].start == "labels"
    found = sampling.importance(problem, key=jax.random.key(0), points=16, warn=False)
    assert found.modes == 3 and not found.annealed
    assert abs(found.log_evidence.mean - found.laplace) < 1 and abs(found.log_evidence.mean - lowest) < 1.2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:labels.*many minima:UserWarning")
def test_the_evidence_of_a_narrow_network_is_that_of_its_weights():
    """Gaussians around the minima alone have an effective size of five here."""
    problem = searches.problem("large labels", 8).replace(width=3.0)
    found = sampling.importance(problem, key=jax.random.key(0), points=256, warn=False)
    separate = log_evidence(problem, (2, 2), key=jax.random.key(1), networks=500, kept=0.85)
    assert found.annealed and found.effective_size > 100
    assert abs(found.log_evidence.mean - separate) < 4 * np.hypot(found.log_evidence.error, 0.1) < 0.6
