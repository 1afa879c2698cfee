"""Trust-region Newton minimisation of a smooth function, in pure JAX.

Two ways to solve the quadratic model within the radius: exactly, from the eigenvectors of a
dense Hessian, or by truncated conjugate gradients from Hessian-vector products alone.
"""

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class Outcome(IntEnum):
    """Reason why a minimisation ended."""

    CONVERGED = 0
    RUNNING = 1
    MAX_STEPS = 2
    STALLED = 3
    NOT_FINITE = 4


class Minimum(NamedTuple):
    """End of a minimisation; `gradient_norm` is the largest entry."""

    point: Float[Array, " coordinates"]
    value: Float[Array, ""]
    gradient_norm: Float[Array, ""]
    steps: Int[Array, ""]
    outcome: Int[Array, ""]
    curvature: Any


class _State(NamedTuple):
    """The best point so far with its derivatives, and the trial step from it with its promised reduction."""

    point: Float[Array, " coordinates"]
    value: Float[Array, ""]
    gradient: Float[Array, " coordinates"]
    curvature: Any
    radius: Float[Array, ""]
    step: Float[Array, " coordinates"]
    promised: Float[Array, ""]
    steps: Int[Array, ""]
    outcome: Int[Array, ""]


_LARGEST_RADIUS = 10.0
_SMALLEST_RADIUS = 1e-12
_CALM_RADIUS = 1e-3  # where the gradient is small, to tell a minimum from a saddle


def minimise(
    derivatives: Callable,
    model_step: Callable,
    start: Float[Array, " coordinates"],
    tolerance: Float[Array, ""],
    max_steps: Int[Array, ""],
) -> Minimum:
    """Minimise a function from its first two derivatives.

    `derivatives(point)` returns value, gradient and curvature;
    `model_step(gradient, curvature, radius)` a step no longer than the radius and the reduction
    that it promises. Converged: the largest gradient entry is at most `tolerance`, and the model
    promises no further descent along negative curvature. The start is the first trial of the loop,
    so that either function is compiled once.
    """
    advance = partial(
        _advance, derivatives=derivatives, model_step=model_step, tolerance=tolerance, max_steps=max_steps
    )
    zero, nothing = jnp.zeros_like(start), jnp.zeros((), start.dtype)
    none = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(derivatives, start)[2])
    first = _State(start, nothing, zero, none, nothing + 1, zero, nothing, jnp.int32(-1), jnp.int32(Outcome.RUNNING))
    last = jax.lax.while_loop(lambda state: state.outcome == Outcome.RUNNING, advance, first)
    gradient_norm = jnp.max(jnp.abs(last.gradient))
    return Minimum(last.point, last.value, gradient_norm, last.steps, last.outcome, last.curvature)


def _advance(state: _State, derivatives, model_step, tolerance, max_steps) -> _State:
    """Try the step, keep the better point, adapt the radius, and propose the next step."""
    first = state.steps < 0
    trial = state.point + state.step
    value, gradient, curvature = derivatives(trial)
    gained = state.value - value
    # Close to the minimum values differ by rounding alone; then the gradient decides.
    rounding = 1e-12 * (1 + jnp.abs(state.value))
    calmer = jnp.max(jnp.abs(gradient)) < jnp.max(jnp.abs(state.gradient))
    finite = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))
    ratio = jnp.where(finite, gained / jnp.maximum(state.promised, jnp.finfo(value.dtype).tiny), -1.0)
    flat = finite & (state.promised <= rounding)
    accept = first | jnp.where(flat, calmer, ratio > 0.1)
    length = jnp.linalg.norm(state.step)
    at_edge = length > 0.9 * state.radius
    radius = jnp.where(accept, state.radius, 0.25 * jnp.minimum(length, state.radius))
    radius = jnp.where(accept & ~flat & (ratio < 0.25), 0.5 * length, radius)
    radius = jnp.where(accept & (ratio > 0.75) & at_edge, jnp.minimum(3 * state.radius, _LARGEST_RADIUS), radius)
    radius = jnp.where(first, state.radius, radius)
    point, value, gradient, curvature = jax.tree.map(
        lambda new, old: jnp.where(accept, new, old),
        (trial, value, gradient, curvature),
        (state.point, state.value, state.gradient, state.curvature),
    )
    steps = state.steps + 1

    # A saddle has a small gradient too; the model tells it from a minimum.
    small = jnp.max(jnp.abs(gradient)) <= tolerance
    radius = jnp.where(small, jnp.minimum(radius, _CALM_RADIUS), radius)
    step, promised = model_step(gradient, curvature, radius)
    minimum = small & (promised <= 1e-3 * tolerance + 1e-12 * (1 + jnp.abs(value)))
    finite = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))
    outcome = jnp.select(
        [~finite, minimum, radius < _SMALLEST_RADIUS, steps >= max_steps],
        [jnp.int32(o) for o in (Outcome.NOT_FINITE, Outcome.CONVERGED, Outcome.STALLED, Outcome.MAX_STEPS)],
        jnp.int32(Outcome.RUNNING),
    )
    return _State(point, value, gradient, curvature, radius, step, promised, steps, outcome)


def exact_step(
    gradient: Float[Array, " coordinates"], hessian: Float[Array, "coordinates coordinates"], radius: Float[Array, ""]
):
    """The minimiser of the quadratic model in the ball (Moré and Sorensen 1983), and what it promises."""
    # eigh of a matrix with NaN never returns on some LAPACKs.
    values, vectors = jnp.linalg.eigh(jnp.where(jnp.all(jnp.isfinite(hessian)), hessian, jnp.eye(len(hessian))))
    components = vectors.T @ gradient
    lowest = jnp.maximum(0.0, -values[0])

    def at(shift):
        denominator = values + shift
        safe = jnp.where(denominator > 0, denominator, 1.0)
        return jnp.where(denominator > 0, -components / safe, 0.0)

    def halve(_, bracket):
        low, high = bracket
        middle = 0.5 * (low + high)
        too_long = jnp.linalg.norm(at(middle)) > radius
        return jnp.where(too_long, middle, low), jnp.where(too_long, high, middle)

    newton = at(0.0)
    inside = (values[0] > 0) & (jnp.linalg.norm(newton) <= radius)
    upper = lowest + jnp.linalg.norm(gradient) / radius
    _, shift = jax.lax.fori_loop(0, 60, halve, (lowest, upper))
    edge = at(shift)
    # The hard case: no gradient along the most negative direction; walk along it to the edge.
    missing = jnp.sqrt(jnp.maximum(radius**2 - edge @ edge, 0.0))
    toward = jnp.where(components[0] > 0, -missing, missing)
    edge = edge.at[0].add(jnp.where(values[0] < 0, toward, 0.0))
    step = jnp.where(inside, newton, edge)
    promised = -(components @ step + 0.5 * jnp.sum(values * step**2))
    return vectors @ step, promised


def truncated_step(
    gradient: Float[Array, " coordinates"],
    product: Callable,
    scale: Float[Array, " coordinates"],
    radius: Float[Array, ""],
    max_products: int,
    tolerance: float | Float[Array, ""] = 0.0,
):
    """Preconditioned conjugate gradients cut off at the radius or at negative curvature (Steihaug 1983).

    `product` multiplies a vector with the Hessian; `scale` is a positive diagonal to divide by. The
    ball is measured in the scaled norm. A residual far below the `tolerance` of the gradient is not
    sought.
    """
    scaled = gradient / scale
    size = jnp.sqrt(gradient @ scaled)
    goal = jnp.maximum(jnp.minimum(0.1, jnp.sqrt(size)) * size, jnp.minimum(0.1 * size, 0.3 * tolerance))

    def edge(step, direction):
        a, b, c = direction @ (scale * direction), step @ (scale * direction), step @ (scale * step) - radius**2
        return (-b + jnp.sqrt(jnp.maximum(b**2 - a * c, 0.0))) / a

    def body(state):
        step, curved, residual, direction, count, _ = state
        image = product(direction)
        curving = direction @ image
        size = residual @ (residual / scale)
        length = size / jnp.where(curving > 0, curving, 1.0)
        outside = jnp.sum(scale * (step + length * direction) ** 2) >= radius**2
        stop = (curving <= 0) | outside
        length = jnp.where(stop, edge(step, direction), length)
        step, curved, residual = step + length * direction, curved + length * image, residual + length * image
        new_size = residual @ (residual / scale)
        direction = -residual / scale + new_size / size * direction
        return step, curved, residual, direction, count + 1, stop | (jnp.sqrt(new_size) <= goal)

    zero = jnp.zeros_like(gradient)
    start = (zero, zero, gradient, -scaled, jnp.int32(0), ~(gradient @ scaled > 0))
    step, curved, *_ = jax.lax.while_loop(lambda s: ~s[5] & (s[4] < max_products), body, start)
    return step, -(gradient @ step + 0.5 * step @ curved)
