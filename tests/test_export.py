"""Every function that JAX traces lowers for GPUs and TPUs; no such device is needed."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampling.problem import inputs

import statmech_attention as sma
from statmech_attention import dmft, sampling
from statmech_attention.sampling import _chains, evidence, order_parameters, weights
from statmech_attention.sampling import attention as learned
from statmech_attention.theory import corrections
from statmech_attention.theory.kernels import in_blocks, projected
from statmech_attention.theory.levels import new_tokens
from statmech_attention.training import attention as trained
from statmech_attention.training import learn_attention

TRAIN, LABELS, TEST = inputs(2)
PROBLEM = sma.Problem(TRAIN, LABELS, layers=(2,), width=3, temperature=0.2)
TOKENS = np.random.default_rng(0).normal(size=(3, 4, 5))
MODEL = dmft.dynamics(dmft.published_patterns(), beta=1.0, gamma=2.0, epsilon=0.1)
KEY = jax.random.key(0)
FEW = sma.SamplerSettings(draws=4, chains=2, warmup=2, warn=False)


class Exported(Exception):  # noqa: N818
    """Raised once a program is exported, in place of running it."""


def export(function, *arguments):
    leaves, tree = jax.tree.flatten(arguments)  # export fills pytrees with what fails the type checks of tests

    def flat(*leaves):
        return jax.tree.leaves(function(*tree.unflatten(leaves)))

    assert jax.export.export(jax.jit(flat), platforms=("cuda", "tpu"))(*leaves).platforms == ("cuda", "tpu")


def attentioned(weights, tokens):
    attention = sma.attention_from_queries_and_keys([weights], [weights])
    return sma.attentioned_inputs(tokens, attention, readout="mean").values


def network(tokens):
    attention = sma.attention_from_queries_and_keys([jnp.ones((2, 3, 5))], [jnp.ones((2, 3, 5))])
    return sma.forward(sma.sample_weights(key=KEY, layers=(2,), width=4, features=5), tokens, attention, readout="mean")


def solved(problem):
    solution = sma.solve(problem, throw=False)
    scores = sma.head_scores(solution.order_parameter, layers=problem.layers)
    return sma.log_evidence(solution), sma.log_evidence(solution, corrected=True), solution.predict(TEST), scores


def swept(problem):
    return sma.solve_sweep(problem, widths=[3.0, 30.0], temperatures=[0.1, 1.0], throw=False).predict(TEST)


def at_order_parameter(problem, overlap):
    found = sma.kernel_regression(problem, overlap).predict(TEST), sma.theory.action(problem, (overlap, 1.0))
    return *found, sma.kernel(TRAIN, TEST, overlap, layers=(2,))


def dynamics(window):
    window = dmft.advance(MODEL, window, steps=3)
    return dmft.step(MODEL, window)[1], dmft.trajectory(MODEL, window, steps=2)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (attentioned, (np.ones((2, 3, 5)), TOKENS)),
        (network, (TOKENS,)),
        (solved, (PROBLEM,)),
        (swept, (PROBLEM,)),
        (at_order_parameter, (PROBLEM, np.eye(2))),
        (dynamics, (dmft.initial_window(MODEL),)),
        (lambda key: sma.tasks.HiddenMarkov(length=5, token_size=4).sample(3, key=key).inputs, (KEY,)),
    ],
)
def test_functions_of_model_theory_dynamics_and_tasks(function, arguments):
    export(function, *arguments)


def problem_of(theta):
    seen = sma.attentioned_inputs(TOKENS, sma.attention_from_queries_and_keys([theta["q"]], [theta["q"]]))
    return sma.Problem(seen, np.array([1.0, -1.0, 1.0]), width=3, temperature=0.2)


THETA = {"q": jnp.ones((2, 2, 3, 5))}
PRIOR = {"log_prior": lambda theta: -jnp.sum(theta["q"] ** 2)}


@pytest.mark.parametrize(
    ("module", "sampler"),
    [
        (order_parameters, lambda: sampling.posterior(PROBLEM, key=KEY, settings=FEW)),
        (order_parameters, lambda: sampling.tempered_posterior(PROBLEM, key=KEY, settings=FEW)),
        (weights, lambda: sampling.weights_posterior(PROBLEM, key=KEY, test=TEST, settings=FEW)),
        (learned, lambda: sampling.attention_posterior(problem_of, THETA, key=KEY, settings=FEW, **PRIOR)),
    ],
)
def test_chains_of_the_samplers(module, sampler, monkeypatch):
    def run(transition, data, starts, key, settings):
        begin, advance = _chains._compiled(transition, True)
        first = _chains._keys(key, settings.chains), starts, data
        export(begin, *first)
        export(advance, jax.eval_shape(begin, *first), data, 5, 1)
        raise Exported

    monkeypatch.setattr(module, "run", run)
    with pytest.raises(Exported):
        sampler()


@pytest.mark.parametrize(
    ("module", "name", "call"),
    [
        (evidence, "_weighted", lambda: sampling.importance(PROBLEM, key=KEY, points=4, test=TEST)),
        (trained, "_climb", lambda: learn_attention(problem_of, {"q": THETA["q"][0]}, steps=2, **PRIOR)),
    ],
    ids=["importance", "learn_attention"],
)
def test_programs_of_functions_that_cannot_be_traced_as_a_whole(module, name, call, monkeypatch):
    program = getattr(module, name)

    def exported(*arguments, **static):
        export(lambda *arguments: program(*arguments, **static), *arguments)
        raise Exported

    monkeypatch.setattr(module, name, exported)
    with pytest.raises(Exported):
        call()


@pytest.mark.parametrize("number", [np.float32, np.float64])
def test_kernels_in_blocks_and_a_pass_of_a_projected_network(number):
    maps = [np.ones((4, 3, 5, 5), number)] * 2
    blocks, ones = [np.ones((3, 1, 3), number), np.ones((3, 3, 4), number)], [np.ones(3, number)] * 2
    rows = np.ones((4, 5, 6), number), np.ones((4, 5), number)
    pull = np.ones((4, 6, 4), number), np.ones(4, number)
    export(partial(projected._passed), (maps, *rows), blocks, ones, ones)
    export(partial(projected._pulled), (maps, *rows), blocks, ones, ones, pull)
    beside = np.ones((4, 5, 6 + 3 * 2), number), rows[1]  # two columns of every level
    for program, others in (
        (in_blocks._kernel, rows),
        (in_blocks._slopes_of_blocks, rows),
        (new_tokens._limits, beside),
    ):
        export(partial(program, keeps=(1, 0)), (maps, *rows), (maps, *others), ones)


def test_corrections():
    solution = sma.solve(PROBLEM)
    export(corrections._corrected.__wrapped__, *_arguments(solution))


def _arguments(solution):
    problem = solution.problem
    factors = sma.theory.levels.paths.full_rank(problem.architecture)
    action = sampling._density.posterior_density(problem, factors).action
    return jnp.zeros(factors.coordinates), action, None
