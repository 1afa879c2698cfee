r"""The saddle point: order parameters that minimise the action, for one network or a whole sweep.

Equation (11). Small problems take Newton steps with the exact Hessian, large ones conjugate gradients
with exact Hessian-vector products; both within a trust region, in the good coordinates.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from statmech_attention import checks
from statmech_attention.arguments import Attentioned, Begin, Layers, Number, Numbers, PerLayer, Whole, Widths, Word
from statmech_attention.theory.coordinates import Factors, full_rank, stacked
from statmech_attention.theory.derivatives import ActionProblem, prepared, problem_of
from statmech_attention.theory.inverse import point_of
from statmech_attention.theory.kernels import checked_problem
from statmech_attention.theory.minimum import Found, minimum_of
from statmech_attention.theory.solution import Solution, raise_unless_converged

_LARGEST_BATCHED = 2**17  # entries of the inputs; a batch waits for its slowest member, which costs more than it saves


def solve(
    attentioned: Attentioned,
    labels: Numbers,
    *,
    width: PerLayer,
    temperature: Number,
    variance: PerLayer = 1.0,
    layers: Layers | None = None,
    start: Begin | None = None,
    tolerance: Number = 1e-8,
    max_steps: Whole = 200,
    method: Word = "auto",
    throw: bool = True,
) -> Solution:
    r"""$U = \mathrm{argmin}\, S$, $S(U) = \mathcal L(U) + \alpha E(U)$, $\alpha = P / N$: equation (11).

    Works under `jax.vmap` (over seeds, labels, widths, temperatures) with `throw=False`; values cannot be
    checked there, so look at `converged`. `jax.grad`, `jax.jvp` and what is made of them give derivatives of the order
    parameters, and of all that follows from them, in inputs, labels, temperature, widths and variances, by the implicit
    function theorem, see `theory.minimum`: NaN where it did not converge, none in a head's value dimension.

    Args:
        attentioned: training inputs, `AttentionedInputs`, or an array `(examples, paths, features)` with `layers`.
        labels: $Y$, `(examples,)`, or `(examples, outputs)`; +-1 for classification, any numbers for regression.
        width: $N$ or $(N_1, .., N_{L+1})$; infinity is the Gaussian-process limit, but for heads of a finite value dimension, whose order parameters still move.
        temperature: $T > 0$.
        variance: $\sigma^2$ or $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$.
        layers: only for plain arrays, $(H_1, .., H_L)$, or layers of other kinds among them.
        start: where to begin, a `Solution` of a neighbouring width or temperature, or order parameters; the
            Gaussian-process limit where None. There are no derivatives in it.
        tolerance: largest gradient entry, in the good coordinates, that counts as converged. The action is in units of the
            largest width: heads with values of dimension $d$ are known to about `tolerance` times $N_{max} / d$.
        max_steps: trial steps before giving up.
        method: "dense" for the exact Hessian, "products" for Hessian-vector products only, "auto" for the
            cheaper of the two at this size.
        throw: raise where it did not converge; with False the `Solution` carries the outcome.

    Returns:
        `Solution`.

    Raises:
        ValueError: wrong shapes, NaN or infinity, $T \le 0$, $N \le 0$, float32, a start of the wrong size.
        NotConverged: the tolerance was not reached; says why and carries the solution.

    Inside `jax.jit`, `jax.vmap` and the like nothing can be raised when the numbers come: `throw=True` is refused there.

    Source: Tiberi et al. (2024), equations (11), (12), (32); the coordinates and the Newton steps are ours.
    """
    inputs, labels, architecture = checked_problem(attentioned, labels, layers, width, variance)
    temperature = checks.positive("temperature", temperature)
    _check_options(tolerance, max_steps, method)
    factors = full_rank(architecture)
    point = _start(start, factors)
    data, pairs, dense = prepared(inputs, labels, method)
    problem = problem_of(data, inputs, temperature, architecture, pairs)
    found = minimum_of(problem, point, tolerance, max_steps, factors, dense)
    width = tuple(jnp.asarray(number, float) for number in architecture.widths)
    solution = solution_of(found, inputs, labels, problem.temperature, width, architecture.variances)
    if throw:
        raise_unless_converged(solution)
    return solution


def solve_sweep(
    attentioned: Attentioned,
    labels: Numbers,
    *,
    widths: Widths,
    temperatures: Numbers,
    variance: PerLayer = 1.0,
    layers: Layers | None = None,
    tolerance: Number = 1e-8,
    max_steps: Whole = 200,
    method: Word = "auto",
    throw: bool = True,
    progress: bool | None = None,
) -> Solution:
    """`solve` for every pair of a width and a temperature, each width warm-started from the next larger one.

    Args:
        attentioned: training inputs, `AttentionedInputs`, or an array `(examples, paths, features)` with `layers`.
        labels: $Y$, `(examples,)`, or `(examples, outputs)`.
        widths: widths in any order, each a number or $(N_1, .., N_{L+1})$.
        temperatures: temperatures in any order.
        variance: as for `solve`.
        layers: only for plain arrays.
        tolerance: as for `solve`.
        max_steps: as for `solve`.
        method: as for `solve`.
        throw: as for `solve`.
        progress: show a bar; where None, on a terminal only.

    Returns:
        A `Solution` with leading axes (widths, temperatures), in the order given.

    Raises:
        ValueError: as for `solve`, or an empty list.
        NotConverged: as for `solve`.
    """
    widths = checks.listed("widths", widths, "widths")
    temperatures = checks.listed("temperatures", temperatures, "temperatures")
    _check_options(tolerance, max_steps, method)
    checked = [checked_problem(attentioned, labels, layers, width, variance) for width in widths]
    (inputs, labels, _), architectures = checked[0], [architecture for *_, architecture in checked]
    heat = stacked([checks.positive("temperatures", temperature) for temperature in temperatures])
    data, pairs, dense = prepared(inputs, labels, method)
    factors = full_rank(architectures[0])  # widths do not enter, so that another one never recompiles

    points = np.zeros((len(temperatures), factors.coordinates))
    found: list = [None] * len(widths)
    track: list[tuple] = []
    widest = [architecture.widest for architecture in architectures]
    # Traced widths have no order: each starts from the one before.
    by_width = (
        sorted(range(len(widths)), key=widest.__getitem__, reverse=True)
        if checks.concrete(*widest)
        else range(len(widths))
    )
    for index in tqdm(by_width, desc="widths", disable=None if progress is None else not progress):
        problem = problem_of(data, inputs, heat, architectures[index], pairs)
        points = _extrapolated(track, architectures[index].widest, points)
        found[index] = _minimise_batch(problem, points, tolerance, max_steps, factors, dense)
        track.append((architectures[index].widest, found[index].minimum.point))
    grid = jnp.broadcast_to(heat, (len(widths), len(temperatures)))
    rows = jnp.stack([stacked(architecture.widths) for architecture in architectures], axis=1)
    width = tuple(jnp.broadcast_to(row[:, None], grid.shape) for row in rows)
    solution = solution_of(_stacked(found), inputs, labels, grid, width, architectures[0].variances)
    if throw:
        raise_unless_converged(solution)
    return solution


def _minimise_batch(problem: ActionProblem, starts, tolerance, max_steps, factors: Factors, dense: bool) -> Found:
    """One compiled loop over the temperatures of a small problem; those of a large one one after the other."""
    options = (tolerance, max_steps, factors, dense)
    if not dense or problem.inputs.size > _LARGEST_BATCHED:
        each = zip(problem.temperature, starts, strict=True)
        return _stacked([minimum_of(problem._replace(temperature=one), start, *options) for one, start in each])
    return _minimise_together(problem, starts, *options)


@partial(jax.jit, static_argnames="dense")
def _minimise_together(problem, starts, tolerance, max_steps, factors: Factors, dense: bool):
    axes: Any = ActionProblem._make(0 if name == "temperature" else None for name in ActionProblem._fields)
    return jax.vmap(lambda one, start: minimum_of(one, start, tolerance, max_steps, factors, dense), (axes, 0))(
        problem, starts
    )


def _stacked(found: list) -> Found:
    known = checks.concrete(*jax.tree.leaves(found))
    stack = (lambda *leaves: jnp.asarray(np.stack(leaves))) if known else (lambda *leaves: jnp.stack(leaves))
    return jax.tree.map(stack, *found)


def _extrapolated(track: list, width, points):
    """Where to start at a width: along the line in ln N through the two next larger ones, from the next where there is one."""
    if not track:
        return points
    (*_, (near, point)) = track
    far, other = track[-2] if len(track) > 1 else (near, point)
    if not checks.concrete(near, far, width) or not near < far < np.inf:
        return point
    point, other = (np.asarray(one) if checks.concrete(one) else one for one in (point, other))
    return point + (point - other) * (np.log(near / width) / np.log(far / near))


def _check_options(tolerance, max_steps, method) -> None:
    checks.positive("tolerance", tolerance)
    if checks.concrete(max_steps):
        checks.whole("max_steps", max_steps)
    checks.choice("method", method, ("auto", "dense", "products"))


def _start(start, factors: Factors):
    if start is None:
        return jnp.zeros(factors.coordinates)
    try:
        return point_of(start.order_parameters if isinstance(start, Solution) else start, factors)
    except ValueError as error:  # by the name that it has here
        raise ValueError(str(error).replace("order_parameters", "start")) from None


def solution_of(found: Found, inputs, labels, temperature, width, variances) -> Solution:
    """What was found, with what it was found for."""
    minimum = found.minimum
    return Solution(
        found.order_parameters,
        minimum.value,
        found.energy,
        found.entropy,
        minimum.gradient_norm,
        minimum.steps,
        minimum.outcome,
        inputs,
        labels,
        temperature,
        width,
        tuple(jnp.broadcast_to(jnp.asarray(number, float), temperature.shape) for number in variances),
    )
