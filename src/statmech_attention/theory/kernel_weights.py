"""Weights of the path-path kernels by evidence: multiple-kernel learning with the kernels of the theory."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.theory.action import gp_order_parameters
from statmech_attention.theory.kernels import kernel_inputs, kernel_scale
from statmech_attention.theory.problem import Problem, need_problem
from statmech_attention.theory.solution import NotConverged

_TEMPERATURES = (1e-4, 1e2)
_WEIGHTS = (np.exp(-12.0), np.exp(12.0))  # the smallest is as good as 0
_MOST_STEPS = 1000
_MOST_SEARCHES = 10
_STEEPEST = 0.01  # nats for a factor of e, where a search may end


class KernelWeights(NamedTuple):
    r"""A Gaussian process whose kernel is a weighted sum of the kernels of single paths.

    Attributes:
        weights: $w_\pi$, `(paths,)`, each output a path of its own; unused ones are below 1e-5.
        temperature: $T$.
        log_evidence: $\ln p(Y | w, T)$.
    """

    weights: Float[Array, " paths"]
    temperature: float
    log_evidence: float

    @property
    def order_parameter(self) -> Float[Array, "paths paths"]:
        r"""$U = \mathrm{diag}(w)$, for `kernel_regression`, `kernel` and `head_scores`."""
        return jnp.diag(self.weights)


def kernel_weights(problem: Problem) -> KernelWeights:
    r"""$\mathrm{argmax}_{w, T} \ln p(Y | w, T)$ for $Y \sim \mathcal N(0, K_w + T I)$, one weight per path-path kernel.

    $K_w = \sum_\pi w_\pi c_\pi^2 C_{\pi\pi}$ is (10) with $U = \mathrm{diag}(w)$. Evidence alone decides:
    there is no entropy, no width, and no pair of different paths. For one layer of $H$ heads and
    unit variances the action (11) at $U^{(2)} = 1$ and diagonal $U^{(1)}$ is, up to a constant,
    $S = \sum_h (w_h - \ln w_h) - \frac2N \ln p(Y | w, T)$; the weights are its minimum for
    $N \to 0$, and equal weights for $N \to \infty$.

    SciPy's L-BFGS-B in the logarithms, from the Gaussian-process limit. The evidence is not
    concave: a local maximum is found, and with many paths rounding can decide which.

    Args:
        problem: a `Problem`; its width does not matter. The temperature is chosen, between 1e-4 and
            100, if it has none.

    Returns:
        `KernelWeights`; predict with `predict(problem.replace(temperature=..), test, ..)` of its
        temperature and order parameter. 144 paths and 200 examples take a second or two; $P^2$
        numbers per path are held in memory.

    Raises:
        ValueError: no `Problem`, traced or single-precision numbers.
        NotConverged: the search ended on a slope; `.solution` has the weights so far.

    Source: Rasmussen and Williams, "Gaussian processes for machine learning" (2006), equations
    (5.8) and (5.9), with one weight per kernel as in Cortes, Mohri, Rostamizadeh, JMLR 13 (2012).
    """
    from scipy.optimize import minimize  # takes longer to import than the whole theory

    problem = need_problem(problem)
    evidence, heat = weights_evidence(problem), problem.temperature
    start = np.log(np.diag(gp_order_parameters(problem.layers, variance=problem.variance)[0]))
    paths = len(start)

    def lacking(point):
        weights = np.exp(point[:paths])
        value, slopes, noise = evidence(weights, heat or np.exp(point[-1]))
        return -value, -np.append(weights * slopes, [] if heat else noise)

    bounds = np.log([_WEIGHTS] * paths + [_TEMPERATURES] * (heat is None))
    options = {"maxiter": _MOST_STEPS, "maxfun": 2 * _MOST_STEPS, "maxcor": 20, "ftol": 1e-11, "gtol": 1e-3}
    point = np.append(start, [] if heat else np.log(0.1))
    for _ in range(_MOST_SEARCHES):  # rounding can end a line search early
        found = minimize(lacking, point, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        free = np.where(found.jac > 0, found.x > bounds[:, 0], found.x < bounds[:, 1])
        steepest, point = np.max(np.abs(found.jac), where=free, initial=0.0), found.x
        if steepest < _STEEPEST:
            break
    chosen: Any = KernelWeights(
        jnp.asarray(np.exp(found.x[:paths])), float(heat or np.exp(found.x[-1])), -float(found.fun)
    )
    if not steepest < _STEEPEST:
        raise NotConverged(
            f"The maximum of the evidence was not reached: slope {steepest:.1e} nats for a factor of e. "
            "The .solution of this exception has the weights so far.",
            chosen,
        )
    return chosen


def weights_evidence(problem: Problem) -> Callable:
    r"""The function $w, T \mapsto \ln p(Y | w, T)$, with its slopes in $w$ and in $\ln T$."""
    from scipy.linalg import lapack

    if not checks.concrete(*jax.tree.leaves(problem)):
        raise ValueError(
            "problem: wanted known numbers, got traced ones: a search cannot run inside a JAX transformation."
        )
    rows, labels = np.asarray(kernel_inputs(problem.attentioned.form)), np.asarray(problem.labels).reshape(-1)
    scale = float(kernel_scale(problem.attentioned, problem.variance))
    kernels = scale * np.einsum("epi,fpi->pef", rows, rows, optimize=True).reshape(rows.shape[1], -1)
    identity, dropped = np.eye(len(labels)), problem.dropped

    def evidence(weights, temperature):
        gram = (weights @ kernels).reshape(identity.shape) + temperature * identity
        factor, _ = lapack.dpotrf(gram, lower=1)
        inverse, _ = lapack.dpotri(factor, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        fitted = inverse @ labels
        value = -0.5 * (labels @ fitted + len(labels) * np.log(2 * np.pi)) - np.log(np.diag(factor)).sum()
        value -= 0.5 * dropped * np.log(2 * np.pi * temperature)
        slope = 0.5 * (np.outer(fitted, fitted) - inverse)
        return value, kernels @ slope.ravel(), temperature * np.trace(slope) - 0.5 * dropped

    return evidence
