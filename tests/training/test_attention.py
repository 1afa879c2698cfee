"""Attention learned by the evidence: gradients, a climb, and the posterior against weights with queries and keys."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.stats import multivariate_normal

import statmech_attention as sma
from statmech_attention.sampling import attention_posterior
from statmech_attention.sampling.attention import _Law
from statmech_attention.theory.levels.levels import order_one
from statmech_attention.theory.levels.paths import full_rank, point_of
from statmech_attention.training import attention, learn_attention

TOKENS, FEATURES, DIMENSION, HEADS = 4, 3, 2, 2
LAYERS, WIDTH, DRAWS, BLOCKS = 2, 4, 10_000, 20  # of the posterior


def task(examples, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=(examples, TOKENS, FEATURES))), jnp.asarray(np.sign(rng.normal(size=examples)))


def network(inputs, labels, width, layers=1):
    """Queries and keys, the temperature and the variances as functions of theta."""

    def problem_of(theta):
        attention = sma.attention_from_queries_and_keys([theta["queries"]] * layers, [theta["keys"]] * layers)
        seen = sma.attentioned_inputs(inputs, attention, readout="mean")
        return sma.Problem(
            seen,
            labels,
            width=width,
            temperature=jnp.exp(theta.get("heat", jnp.log(0.3))),
            variance=(1.0, *(jnp.exp(theta.get("spread", jnp.zeros(()))),) * layers, 1.0),
        )

    return problem_of


def evidence(problem):
    return sma.log_evidence(sma.solve(problem, tolerance=1e-11, throw=False))


def start(seed, *axes):
    rng = np.random.default_rng(seed)
    shape = (*axes, HEADS, DIMENSION, FEATURES)
    return {name: jnp.asarray(rng.normal(size=shape)) for name in ("queries", "keys")}


def log_prior(theta):
    return -0.5 * sum(jnp.sum(array**2) for array in theta.values())


# With fewer and with more examples than features of all paths.
@pytest.mark.parametrize("examples, width", [(6, jnp.inf), (40, 10), (6, (20, 5, 8)), (40, jnp.inf)], ids=str)
def test_the_gradient_is_that_of_the_evidence(examples, width):
    layers = 2 if isinstance(width, tuple) else 1
    problem_of = network(*task(examples), width, layers)
    theta = start(1) | {"heat": jnp.asarray(-1.0), "spread": jnp.asarray(0.3)}
    solution = sma.solve(problem_of(theta))
    point = point_of(solution.order_parameters, full_rank(solution.problem.architecture))
    value, gradient = jax.value_and_grad(lambda theta: attention._log_evidence(problem_of(theta), point))(theta)
    flat, restored = ravel_pytree(theta)
    direction = jnp.asarray(np.random.default_rng(2).normal(size=flat.shape))

    def moved(step):
        return evidence(problem_of(restored(flat + step * direction)))

    np.testing.assert_allclose(value, moved(0.0), rtol=1e-12)
    slope = (moved(1e-5) - moved(-1e-5)) / 2e-5
    np.testing.assert_allclose(ravel_pytree(gradient)[0] @ direction, slope, rtol=1e-6, atol=1e-6)


def test_evidence_of_two_outputs_is_that_of_a_normal_law_at_the_prior():
    rng = np.random.default_rng(0)
    values, labels = rng.normal(size=(6, 2, 3)), rng.normal(size=(6, 2))
    problem = sma.Problem(values, labels, layers=(2, sma.Outputs(2)), width=np.inf, temperature=0.3)
    point = jnp.zeros(full_rank(problem.architecture).coordinates)
    kernel = np.einsum("mhi,nhi->mn", values, values) / 6  # over two heads and three features
    wanted = sum(multivariate_normal(np.zeros(6), kernel + 0.3 * np.eye(6)).logpdf(one) for one in labels.T)
    np.testing.assert_allclose(attention._log_evidence(problem, point), wanted, rtol=1e-10)


@pytest.mark.parametrize("width", [(20, 5, 8), jnp.inf], ids=str)
def test_the_sampled_density_is_that_of_the_action_at_variances_that_are_learned(width):
    problem_of = network(*task(6), width, 2)
    theta = start(1) | {"heat": jnp.asarray(-1.0), "spread": jnp.asarray(0.3)}
    law = _Law(problem_of, log_prior, None, problem_of(theta | {"spread": jnp.asarray(0.0)}))
    random, problem = np.random.default_rng(3), problem_of(theta)
    position = {
        name: array if name in theta else random.normal(size=array[0].shape)
        for name, array in law.starts(theta, 1).items()
    }
    record, factors = law.record(position, None, None), full_rank(problem.architecture)
    overlaps = [record[stage.variable] for stage in problem.attentioned.chain.stages]
    wanted = 0.5 * problem.examples * sma.theory.energy(problem, overlaps[0]) - log_prior(theta)
    if width == jnp.inf:
        gp = sma.theory.gp_order_parameters(layers=problem.layers, variance=problem.variance)
        np.testing.assert_allclose(overlaps[0], gp[0], rtol=1e-12)
    else:
        physics = {"layers": problem.layers, "width": width, "variance": problem.variance}
        entropy, least = sma.theory.entropy(overlaps, **physics), (4 * 20 + 2 * 5 + 8) / 20
        wanted += 0.5 * 20 * (entropy - least) + order_one(point_of(overlaps, factors), factors)
    np.testing.assert_allclose(law.potential(position, None, None), wanted, rtol=1e-10)


@pytest.mark.parametrize(
    "examples, width", [(20, 10), pytest.param(40, 1000, marks=pytest.mark.slow), (20, jnp.inf)], ids=str
)
def test_a_climb_ends_at_a_maximum_over_attention_and_order_parameters(examples, width):
    def problem_of(theta, inputs, labels):
        return network(inputs, labels, width)(theta)

    data = task(examples)
    learned = learn_attention(problem_of, start(3), data=data, log_prior=log_prior, steps=400)
    assert learned.log_posterior.shape == (401,) and learned.log_posterior[-1] > learned.log_posterior[0] + 1
    found = sma.solve(problem_of(learned.theta, *data))  # from the limit, not from the end of the climb
    np.testing.assert_allclose(sma.log_evidence(found) + log_prior(learned.theta), learned.log_posterior[-1], rtol=1e-9)
    np.testing.assert_allclose(learned.log_posterior[-2], learned.log_posterior[-1], atol=1e-3)
    slope = jax.grad(lambda theta: evidence(problem_of(theta, *data)) + log_prior(theta))(learned.theta)
    assert max(float(jnp.max(jnp.abs(one))) for one in jax.tree.leaves(slope)) < 0.05


def test_refuses_single_precision():
    with pytest.raises(ValueError, match="theta: wanted float64"):
        learn_attention(network(*task(6), 10), {"queries": jnp.zeros((2, 2, 3), jnp.float32)})


def test_a_rate_that_is_too_large_is_named():
    def problem_of(theta):
        return sma.Problem(theta["inputs"], jnp.ones(2), width=3, temperature=1e-3, layers=(1,))

    with pytest.raises(FloatingPointError, match="steps. Lower learning_rate"):
        learn_attention(problem_of, {"inputs": jnp.ones((2, 1, 2))}, learning_rate=1e200, steps=3)


@pytest.fixture(scope="module")
def weighed():
    """By block the mean likelihood of networks from the prior, and that times attention, its square, and outputs."""
    (inputs, labels), (test_inputs, _) = task(6), task(2, seed=5)

    def one(key):
        queries, keys, values = jax.random.split(key, 3)
        shape = (HEADS, DIMENSION, FEATURES)
        attention = attended(jax.random.normal(queries, shape), jax.random.normal(keys, shape))
        weights = sma.sample_weights(key=values, layers=(HEADS,) * LAYERS, width=WIDTH, features=FEATURES)
        outputs = sma.forward(weights, jnp.concatenate([inputs, test_inputs]), attention, readout="mean")
        likelihood = jnp.exp(-0.5 * jnp.sum((outputs[:6] - labels) ** 2) / 0.3)
        seen = attention(test_inputs)[0]
        return likelihood, (likelihood * seen, likelihood * seen**2, likelihood * outputs[6:])

    block = jax.jit(lambda keys: jax.tree.map(lambda all: all.mean(axis=0), jax.vmap(one)(keys)))
    return [jax.tree.map(np.asarray, block(keys)) for keys in jax.random.split(jax.random.key(9), (BLOCKS, DRAWS))]


def attended(queries, keys):
    return sma.attention_from_queries_and_keys([queries] * LAYERS, [keys] * LAYERS)


@pytest.mark.slow
@pytest.mark.usefixtures("optimised")
def test_the_posterior_is_that_of_all_weights_with_queries_and_keys(weighed):
    (inputs, labels), (test_inputs, _) = task(6), task(2, seed=5)
    ours = attention_posterior(
        network(inputs, labels, WIDTH, LAYERS),
        start(8, 4),
        log_prior=log_prior,
        key=jax.random.key(10),
        test_of=lambda theta: sma.attentioned_inputs(test_inputs, attended(**theta), readout="mean"),
        settings=sma.SamplerSettings(draws=700, warmup=300, warn=False),
    )
    seen = jax.jit(jax.vmap(jax.vmap(lambda queries, keys: attended(queries, keys)(test_inputs)[0])))
    attention = np.asarray(seen(*(jnp.asarray(ours[name].values) for name in ("queries", "keys"))))
    weight = np.array([one for one, _ in weighed])
    assert weight.sum() ** 2 / np.sum(weight**2) > 0.9 * BLOCKS
    # Heads are alike, and so is a mean of a permutation: hence the squares.
    for place, draws in enumerate((attention, attention**2, ours["output"].values)):
        found, sides = sma.sampling.estimate(draws), np.stack([one[place] for _, one in weighed])
        mean = sides.mean(axis=0) / weight.mean()
        rest = (sides - weight.reshape(-1, *(1,) * mean.ndim) * mean) / weight.mean()
        error = rest.std(axis=0, ddof=1) / np.sqrt(BLOCKS)
        np.testing.assert_array_less(np.abs(found.mean - mean), 4 * np.hypot(found.error, error))
