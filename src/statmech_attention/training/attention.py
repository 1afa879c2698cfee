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

The order parameters minimise the action, $-\frac N2 S^*(\theta) = \max_U [-\frac N2 S(U, \theta)]$:
a climb in $\theta$ and $U$ together ends at the same maximum, and solves no saddle point on its way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.theory.evidence import log_evidence
from statmech_attention.theory.levels.levels import prior_deviations
from statmech_attention.theory.levels.paths import full_rank, order_parameters
from statmech_attention.theory.prepared import action_of_rows
from statmech_attention.theory.problem import Problem, need_examples, need_problem
from statmech_attention.theory.saddle_point import solve
from statmech_attention.theory.solution import Solution


@dataclass(frozen=True)
class LearnedAttention:
    r"""End of a climb.

    Attributes:
        theta: where the climb ends.
        solution: the `Solution` there.
        log_posterior: $\ln p(\theta)$ plus the log evidence (L1) at the order parameters of every
            step, a lower bound; last at the end, at the saddle point.
    """

    theta: Any
    solution: Solution
    log_posterior: Float[np.ndarray, " steps"]


def learn_attention(
    problem_of: Callable[..., Problem],
    theta: Any,
    *,
    data: tuple = (),
    log_prior: Callable[[Any], Any] | None = None,
    steps: int = 300,
    learning_rate: float = 0.1,
) -> LearnedAttention:
    r"""Climb $\ln p(Y | \theta) + \ln p(\theta)$ with Adam, in $\theta$ and the order parameters together.

    The rate falls to zero along a cosine. A maximum over many parameters with few examples is no
    posterior: the evidence can rise by hundreds of nats while the test accuracy stays at chance.
    Then use few parameters, more examples, or `sampling.attention_posterior`.

    Args:
        problem_of: a function that JAX can trace, from $\theta$ and `data` to a `Problem` with width
            and temperature. Inputs, labels, temperature and variances may depend on them; width and
            layers do not. The climb is compiled once per function and shapes.
        theta: a pytree of float64 arrays to start from.
        data: further arguments of `problem_of`, arrays or pytrees of them.
        log_prior: $\ln p(\theta)$ up to a constant; flat if None.
        steps: number of steps, at least 1.
        learning_rate: Adam's first; in units of the prior's deviation for the order parameters.

    Raises:
        ValueError: `problem_of` gives no `Problem`; $\theta$ is not of float64 arrays.
        NotConverged: as `solve`, at the end.
        FloatingPointError: the log posterior is not finite.
    """
    rate = checks.positive("learning_rate", learning_rate)
    checks.function("problem_of", problem_of, "of theta that gives a Problem")
    if log_prior is not None:
        checks.function("log_prior", log_prior, "of theta that gives a number")
    checks.instance("data", data, tuple, list, instead="Write data=(x,) for one argument.")
    if not jax.tree.leaves(theta):
        raise ValueError(f"theta: wanted arrays to start from, got {theta!r}.")
    for leaf in jax.tree.leaves(theta):
        checks.array("theta", leaf, " ".join(["axis"] * np.ndim(leaf)))
        checks.need_double("theta", jnp.asarray(leaf))
    functions = {"problem_of": problem_of, "log_prior": log_prior}
    theta, point, values = _climb(theta, data, rate, steps=checks.whole("steps", steps), **functions)
    values = np.asarray(values)
    if not np.all(np.isfinite(values)):
        step = int(np.argmin(np.isfinite(values)))
        raise FloatingPointError(f"the log posterior is {values[step]} after {step} steps. Lower learning_rate.")
    problem = problem_of(theta, *data)
    solution = solve(problem, start=order_parameters(point, full_rank(problem.architecture)))
    end = log_evidence(solution) + (0.0 if log_prior is None else log_prior(theta))
    return LearnedAttention(theta, solution, np.append(values, end))


@partial(jax.jit, static_argnames=("problem_of", "log_prior", "steps"))
def _climb(theta, data, rate, *, problem_of, log_prior, steps: int):
    """The end of a climb, the point of the order parameters there, and the log posterior before every step."""
    first = need_problem(problem_of(theta, *data), "width", "temperature")
    architecture = need_examples(first, "attention that is learned").architecture
    deviation = prior_deviations(jnp.array(architecture.stage_widths, float), full_rank(architecture))

    def loss(both):
        theta, point = both
        prior = 0.0 if log_prior is None else log_prior(theta)
        return -_log_evidence(problem_of(theta, *data), deviation * point) - prior

    (theta, point), losses = _descent(loss, (theta, jnp.zeros_like(deviation)), rate, steps)
    return theta, deviation * point, -losses


def _log_evidence(problem: Problem, point) -> Float[Array, ""]:
    r"""$-\frac N2 (S(U) - S_0) - \frac P2 \ln 2\pi$ at a point; stages of infinite width stay at the prior."""
    return -action_of_rows(problem).half(point) - 0.5 * problem.labels.size * np.log(2 * np.pi)


def _descent(function: Callable[[Any], Array], start: Any, rate, steps: int) -> tuple[Any, Float[Array, " steps"]]:
    """The end of Adam's descent, at a rate that falls to zero along a cosine, and the value before each step."""
    optimiser = optax.adam(optax.cosine_decay_schedule(rate, steps))

    def step(state, _):
        point, internal = state
        value, gradient = jax.value_and_grad(function)(point)
        updates, internal = optimiser.update(gradient, internal)
        return (optax.apply_updates(point, updates), internal), value

    (point, _), values = jax.lax.scan(step, (start, optimiser.init(start)), None, length=steps)
    return point, values
