r"""The saddle point: order parameters that minimise the action, for one network or a whole sweep.

Equation (11). Small problems take Newton steps with the exact Hessian, large ones conjugate gradients
with exact Hessian-vector products; both within a trust region, in the good coordinates.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from statmech_attention import checks
from statmech_attention.model.architecture import Architecture, architecture
from statmech_attention.model.paths import AttentionedInputs, as_attentioned
from statmech_attention.theory.action import coordinate_count, coordinates_of, order_parameters_at
from statmech_attention.theory.kernels import kernel_inputs
from statmech_attention.theory.minimum import compressed, is_dense, minimise_action, minimise_batch, problem_of
from statmech_attention.theory.solution import NotConverged, Solution
from statmech_attention.theory.trust_region import Minimum, Outcome

_EXPLANATIONS = {
    Outcome.MAX_STEPS: "The steps ran out. Raise max_steps, or start from the solution at a neighbouring width or "
    "temperature; if the gradient norm no longer falls, rounding limits it: raise the temperature.",
    Outcome.STALLED: "No step lowers the action any more: rounding limits the gradient, most often because the kernel is "
    "nearly singular at this temperature. Raise the temperature, or accept the gradient norm with a larger tolerance.",
    Outcome.NOT_FINITE: "The action is not finite: K + T I is not positive definite in double precision. Raise the "
    "temperature, or scale the inputs down.",
}


def solve(
    attentioned,
    labels,
    *,
    width,
    temperature,
    variance=1.0,
    heads=None,
    start=None,
    tolerance=1e-8,
    max_steps=200,
    method="auto",
    throw: bool = True,
) -> Solution:
    r"""$U = \mathrm{argmin}\, S$, $S(U) = \mathcal L(U) + \alpha E(U)$, $\alpha = P / N$: equation (11).

    Works under `jax.vmap` (over seeds, labels, widths, temperatures) with `throw=False`; values cannot be
    checked there, so look at the outcome.

    Args:
        attentioned: training inputs, `AttentionedInputs`, or an array `(examples, paths, features)` with `heads`.
        labels: $Y$, `(examples,)`, or `(examples, outputs)`; +-1 for classification, any numbers for regression.
        width: $N$ or $(N_1, .., N_{L+1})$; infinity is the Gaussian-process limit.
        temperature: $T > 0$.
        variance: $\sigma^2$ or $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$.
        heads: only for plain arrays, $(H_1, .., H_L)$, or layers of other kinds among them.
        start: where to begin, a `Solution` of a neighbouring width or temperature, or order parameters; the
            Gaussian-process limit where None.
        tolerance: largest gradient entry, in the good coordinates, that counts as converged.
        max_steps: trial steps before giving up.
        method: "dense" for the exact Hessian, "products" for Hessian-vector products only, "auto" for the
            cheaper of the two at this size.
        throw: raise where it did not converge; with False the `Solution` carries the outcome.

    Returns:
        `Solution`.

    Raises:
        ValueError: wrong shapes, NaN or infinity, $T \le 0$, $N \le 0$, float32, a start of the wrong size.
        NotConverged: the tolerance was not reached; says why and carries the solution.

    Source: Tiberi et al. (2024), equations (11), (12), (32); the coordinates and the Newton steps are ours.
    """
    inputs, labels, layout = _prepare(attentioned, labels, heads, width, variance)
    temperature = checks.positive("temperature", temperature)
    _check_options(tolerance, max_steps, method)
    point = _start(start, layout)
    problem = problem_of(_compressed(inputs), inputs, labels, temperature, layout)
    minimum, energy, entropy = minimise_action(
        problem, point, tolerance, max_steps, _static(layout), is_dense(method, problem.inputs)
    )
    solution = _solution(minimum, energy, entropy, inputs, labels, problem.temperature, layout)
    if throw and checks.concrete(minimum.outcome):
        _raise_unless_converged(solution)
    return solution


def solve_sweep(
    attentioned,
    labels,
    *,
    widths,
    temperatures,
    variance=1.0,
    heads=None,
    tolerance=1e-8,
    max_steps=200,
    method="auto",
    throw: bool = True,
    progress: bool = False,
) -> Solution:
    """`solve` for every pair of a width and a temperature, each width warm-started from the next larger one.

    Args:
        attentioned: training inputs, `AttentionedInputs`, or an array `(examples, paths, features)` with `heads`.
        labels: $Y$, `(examples,)`, or `(examples, outputs)`.
        widths: widths in any order, each a number or $(N_1, .., N_{L+1})$.
        temperatures: temperatures in any order.
        variance: as for `solve`.
        heads: only for plain arrays.
        tolerance: as for `solve`.
        max_steps: as for `solve`.
        method: as for `solve`.
        throw: as for `solve`.
        progress: show a bar that counts the widths.

    Returns:
        A `Solution` with leading axes (widths, temperatures), in the order given.

    Raises:
        ValueError: as for `solve`, or an empty list.
        NotConverged: as for `solve`.
    """
    for name, values in (("widths", widths), ("temperatures", temperatures)):
        if not hasattr(values, "__len__"):
            raise ValueError(f"{name}: wanted a list, got {values!r}. Write [{values!r}].")
    if not len(widths) or not len(temperatures):
        raise ValueError("widths and temperatures: wanted at least one of each, got an empty list.")
    _check_options(tolerance, max_steps, method)
    prepared = [_prepare(attentioned, labels, heads, width, variance) for width in widths]
    inputs, labels, _ = prepared[0]
    layouts = [layout for *_, layout in prepared]
    heat = jnp.asarray([checks.positive("temperatures", temperature) for temperature in temperatures])
    small = _compressed(inputs)
    dense = is_dense(method, small)

    points = jnp.zeros((len(temperatures), coordinate_count(layouts[0])))
    found = [None] * len(widths)
    by_width = sorted(range(len(widths)), key=lambda index: layouts[index].widest, reverse=True)
    for index in tqdm(by_width, desc="widths", disable=not progress):
        problems = [problem_of(small, inputs, labels, temperature, layouts[index]) for temperature in heat]
        found[index] = minimise_batch(problems, points, tolerance, max_steps, _static(layouts[index]), dense)
        points = found[index][0].point
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *found)
    grid = jnp.broadcast_to(heat, (len(widths), len(temperatures)))
    solution = _solution(*stacked, inputs, labels, grid, layouts)
    if throw:
        _raise_unless_converged(solution)
    return solution


def _prepare(attentioned, labels, heads, width, variance):
    inputs = as_attentioned("attentioned", attentioned, heads)
    labels = checks.labels(labels, inputs.values.shape[0], axes=inputs.chain.readout.axes)
    return inputs, labels, architecture(inputs.heads, width, variance)


def _compressed(inputs: AttentionedInputs):
    return kernel_inputs(replace(inputs, values=compressed(inputs.values)))


def _check_options(tolerance, max_steps, method) -> None:
    checks.positive("tolerance", tolerance)
    if checks.concrete(max_steps) and not checks.is_whole(max_steps, 1):
        raise ValueError(f"max_steps: wanted a whole number of at least 1, got {max_steps}.")
    if method not in ("auto", "dense", "products"):
        raise ValueError(f"method: wanted 'auto', 'dense' or 'products', got {method!r}.")


def _static(layout: Architecture) -> Architecture:
    """The part of the architecture that decides shapes; widths stay out, so that they never recompile."""
    return replace(layout, widths=(1.0,) * len(layout.widths))


def _start(start, layout: Architecture):
    if start is None:
        return jnp.zeros(coordinate_count(layout))
    return coordinates_of(start.order_parameters if isinstance(start, Solution) else start, layout)


def _solution(minimum: Minimum, energy, entropy, inputs, labels, temperature, layouts) -> Solution:
    layout, batch = layouts, ()
    if isinstance(layouts, list):
        layout, batch = layouts[0], temperature.shape
        widths = np.stack([np.asarray(layout.widths, float) for layout in layouts], axis=1)
        width = tuple(jnp.broadcast_to(row[:, None], batch) for row in widths)
    else:
        width = tuple(jnp.asarray(number, float) for number in layout.widths)
    order_parameters = partial(order_parameters_at, layout=_static(layout))
    for _ in batch:
        order_parameters = jax.vmap(order_parameters)
    return Solution(
        order_parameters(minimum.point),
        minimum.value,
        energy,
        entropy,
        minimum.gradient_norm,
        minimum.steps,
        minimum.outcome,
        inputs,
        labels,
        temperature,
        width,
        layout.variances,
    )


def _raise_unless_converged(solution: Solution) -> None:
    bad = np.argwhere(np.asarray(solution.outcome) != Outcome.CONVERGED)
    if not len(bad):
        return
    worst = tuple(bad[0])
    outcome = Outcome(int(solution.outcome[worst]))
    where = (
        f"T = {float(solution.temperature[worst]):g}, N = {', '.join(f'{float(n[worst]):g}' for n in solution.width)}"
    )
    raise NotConverged(
        f"The saddle point was not reached at {where} ({len(bad)} of {solution.outcome.size} solves): gradient norm "
        f"{float(solution.gradient_norm[worst]):.1e} after {int(solution.steps[worst])} steps. {_EXPLANATIONS[outcome]} "
        "The solution so far is the .solution of this exception; throw=False returns it.",
        solution,
    )
