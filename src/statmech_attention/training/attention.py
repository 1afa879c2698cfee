r"""Attention learned by the evidence: queries and keys, positions, inverse temperatures, mixtures.

Let $\theta$ be whatever fixes the attention. At fixed attention the values and the readout
integrate out as in the whole theory, so under the posterior (8) of all weights

    p(theta | D)  is proportional to  p(theta) p(Y | theta),

with $\ln p(Y | \theta) = -\frac N2 (S^*(\theta) - S_0) - \frac P2 \ln 2\pi$ to leading order in
$N$. The order parameters are stationary, so the gradient needs no derivative of them:

    d ln p(Y | theta) / d theta  =  -(1/2) tr[(R - v v^T) dK(U*, theta) / d theta],   v = R Y,

with $R = (K + T)^{-1}$: one saddle point, one factorisation, and one backward pass through the
attention. With more examples $P$ than features $D$ of all paths together, $K = Z Z^\top$ is
replaced by the matrix $Z^\top Z$ of $D$ rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.installed import need, progress_bar

need("train", "learn_attention")

import optax

from statmech_attention import checks
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.action import entropy, gp_order_parameters
from statmech_attention.theory.evidence import label_nats
from statmech_attention.theory.problem import Problem, need_examples, need_problem
from statmech_attention.theory.saddle_point import solve
from statmech_attention.theory.solution import Solution


@dataclass(frozen=True)
class LearnedAttention:
    r"""End of a climb.

    Attributes:
        theta: of the largest log posterior met on the way.
        solution: the `Solution` there.
        log_posterior: $\ln p(Y | \theta) + \ln p(\theta)$ before every step, and at the end.
    """

    theta: Any
    solution: Solution
    log_posterior: Float[np.ndarray, " steps"]


@checks.flags
def learn_attention(
    problem_of: Callable[[Any], Problem],
    theta: Any,
    *,
    log_prior: Callable[[Any], Any] | None = None,
    steps: int = 300,
    learning_rate: float = 0.1,
    progress: bool | None = None,
) -> LearnedAttention:
    r"""Climb $\ln p(Y | \theta) + \ln p(\theta)$ with Adam.

    A maximum over many parameters with few examples is no posterior: the evidence can rise by a
    thousand nats while the test accuracy stays at chance. Then use few parameters, more examples,
    or `sampling.attention_posterior`.

    Args:
        problem_of: a function that JAX can trace, from $\theta$ to a `Problem` with width and
            temperature. Inputs, temperature and variances may depend on $\theta$; labels, width and
            layers do not.
        theta: a pytree of float64 arrays to start from.
        log_prior: $\ln p(\theta)$ up to a constant; flat if None.
        steps: number of steps, at least 1.
        learning_rate: Adam's.
        progress: show a bar; if None, on a terminal only.

    Raises:
        ValueError: `problem_of` gives no `Problem`; $\theta$ is not of float64 arrays.
        NotConverged: as `solve`.
        FloatingPointError: the log posterior is not finite.
    """
    climb, optimiser = (
        _Evidence(problem_of, theta, log_prior),
        optax.adam(checks.positive("learning_rate", learning_rate)),
    )
    advance = jax.jit(optimiser.update)
    internal, values, solution = optimiser.init(theta), [], None
    best: tuple[float, Any, Any] = (-np.inf, theta, None)
    for step in progress_bar(range(checks.whole("steps", steps) + 1), "steps", progress):
        value, gradient, solution = climb(theta, start=solution)
        values.append(value)
        if not np.isfinite(value):
            raise FloatingPointError(f"the log posterior is {value} after {step} steps. Lower learning_rate.")
        if value > best[0]:
            best = value, theta, solution
        updates, internal = advance(jax.tree.map(jnp.negative, gradient), internal)
        theta = optax.apply_updates(theta, updates)
    return LearnedAttention(best[1], best[2], np.array(values))


def attention_evidence(problem_of: Callable[[Any], Problem], theta: Any) -> tuple[Float[Array, ""], Any]:
    r"""Return $\ln p(Y | \theta)$ to leading order in $N$, and its gradient in $\theta$ at fixed order parameters.

    Args:
        problem_of, theta: as in `learn_attention`.

    Raises:
        ValueError, NotConverged: as `learn_attention`.
    """
    value, gradient, _ = _Evidence(problem_of, theta, None)(theta)
    return jnp.asarray(value), gradient


class _Evidence:
    """Value and gradient in theta, compiled once; the saddle point in between is solved as by `solve`."""

    def __init__(self, problem_of, theta, log_prior):
        checks.function("problem_of", problem_of)
        if log_prior is not None:
            checks.function("log_prior", log_prior)
        for leaf in jax.tree.leaves(theta):
            if getattr(leaf, "dtype", None) != jnp.float64:
                raise ValueError(
                    f"theta: wanted float64 arrays, got {leaf!r:.60}. Call sma.enable_x64() before making them."
                )
        first = need_problem(problem_of(theta), "width", "temperature")
        need_examples(first, "attention that is learned")
        self.labels, self.width, self.layers = first.labels, first.width, first.layers

        def numbers(theta):
            problem = problem_of(theta)
            rest = problem.temperature, *problem.variance
            prior = 0.0 if log_prior is None else log_prior(theta)
            return (
                problem.attentioned.values,
                jnp.stack([jnp.asarray(one, float) for one in rest]),
                jnp.asarray(prior, float),
            )

        def pull_back(theta, slopes):
            return jax.vjp(numbers, theta)[1]((*slopes, jnp.ones(())))[0]

        self.numbers, self.pull_back = jax.jit(numbers), jax.jit(pull_back)

    def __call__(self, theta, start=None) -> tuple[float, Any, Solution]:
        values, rest, prior = self.numbers(theta)
        temperature, *variance = map(float, rest)
        inputs = AttentionedInputs(values, self.layers)
        problem = Problem.tree_unflatten(None, (inputs, self.labels, self.width, temperature, tuple(variance)))
        solution = solve(problem, start=start)
        slopes = _slopes(values, rest, self.labels, solution.order_parameters, layers=self.layers, width=self.width)
        return float(solution.log_evidence() + prior), self.pull_back(theta, slopes), solution


@partial(jax.jit, static_argnames=("layers", "width"))
def _slopes(values, rest, labels, order_parameters, *, layers, width):
    """Derivatives of the log evidence in inputs, temperature and variances at fixed order parameters."""

    def log_evidence(values, rest):
        variance, known = tuple(rest[1:]), order_parameters
        infinite = not np.all(np.isfinite(width))
        if infinite:  # they are the prior's, and move with its variances
            known = gp_order_parameters(layers, variance=variance)
        bulk = 0.0 if infinite else max(width) * entropy(known, width=width, variance=variance, layers=layers)
        return -0.5 * (bulk + label_nats(AttentionedInputs(values, layers), labels, rest[0], variance, known[0]))

    return jax.grad(log_evidence, argnums=(0, 1))(values, rest)
