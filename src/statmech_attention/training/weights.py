"""Gradient descent on all weights of (8) with fixed attention, in path form (5): the posterior's mode."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.checks import Key
from statmech_attention.model.network import Weights, forward_paths, sample_weights, scaled
from statmech_attention.theory.problem import Problem, need_problem

_RATE = 0.03  # of Adam at first, in units of a prior deviation


class TrainedWeights(NamedTuple):
    r"""End of a gradient descent.

    Attributes:
        weights: `Weights`, for `forward_paths` on test inputs.
        objective: before every step, $-\ln p(\Theta | D)$ up to a constant.
        gradient_norm: norm of the gradient at the end, relative to that of the weight decay; 0 at
            the mode.
    """

    weights: Weights
    objective: Float[Array, " steps"]
    gradient_norm: Float[Array, ""]


def train_weights(problem: Problem, *, key: Key, steps: int = 2000) -> TrainedWeights:
    r"""Minimise $\frac{1}{2T} \sum_\mu |f(x_\mu) - y_\mu|^2 + \sum_l \frac{|\Theta_l|^2}{2\sigma_l^2}$,
    minus the logarithm of (8).

    Adam on all examples at once, from a draw of the prior, with a cosine decay of the rate. The end
    is the likeliest network, not a typical one: the posterior mean and the theory average over
    networks with noisy weights.

    Args:
        problem: a `Problem` with a temperature and whole widths.
        key: a JAX random key, for the initial weights.
        steps: number of steps, at least 1.

    Returns:
        `TrainedWeights`; look at its `gradient_norm`.
    """
    problem = need_problem(problem, "width", "temperature")
    steps = checks.whole("steps", steps)
    key, architecture, inputs = checks.key("key", key), problem.architecture, problem.attentioned
    features = inputs.values.shape[-1]
    start = sample_weights(key=key, layers=inputs.layers, width=architecture.widths, features=features)
    return _descended(start, inputs, problem.labels, problem.temperature, steps, architecture.stage_variances)


@partial(jax.jit, static_argnames="steps")
def _descended(white: Weights, inputs, labels, temperature, steps: int, variances) -> TrainedWeights:
    def objective(white):
        away = forward_paths(scaled(white, variances), inputs) - labels
        return 0.5 * jnp.sum(away**2) / temperature + 0.5 * optax.tree.norm(white, squared=True)

    white, values = descent(objective, white, _RATE, steps)
    left = optax.tree.norm(jax.grad(objective)(white)) / optax.tree.norm(white)
    return TrainedWeights(scaled(white, variances), values, left)


def descent(function: Callable[[Any], Array], start: Any, rate, steps: int) -> tuple[Any, Float[Array, " steps"]]:
    """The end of Adam's descent, at a rate that falls to zero along a cosine, and the value before each step."""
    optimiser = optax.adam(optax.cosine_decay_schedule(rate, steps))

    def step(state, _):
        point, internal = state
        value, gradient = jax.value_and_grad(function)(point)
        updates, internal = optimiser.update(gradient, internal)
        return (optax.apply_updates(point, updates), internal), value

    (point, _), values = jax.lax.scan(step, (start, optimiser.init(start)), None, length=steps)
    return point, values
