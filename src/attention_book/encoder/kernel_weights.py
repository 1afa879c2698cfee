r"""Weights of the kernels of single paths by evidence: multiple-kernel learning, beside the theory.

$w, T = \mathrm{argmax} \ln p(Y | w, T)$ for $Y \sim \mathcal N(0, K_w + T I)$ and
$K_w = \sum_\pi w_\pi c_\pi^2 C_{\pi\pi}$, which is (10) with $U = \mathrm{diag}(w)$: the theory
without entropy, and without pairs of different paths. The evidence is not concave, and from the
same start rounding can decide which maximum a search ends in. So the minimum of
$\frac N2 \sum_\pi (w_\pi / w^0_\pi - \ln w_\pi) - \ln p(Y | w, T)$, with $w^0$ of the limit $N \to \infty$,
is followed from a large $N$ to nearly 0. Source: Rasmussen and Williams (2006), (5.8) and (5.9);
Cortes, Mohri, Rostamizadeh (2012).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import lapack
from scipy.optimize import minimize

from statmech_attention import Problem
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory import gp_order_parameters
from statmech_attention.theory.kernels.of_paths import kernel_inputs, kernel_scale, path_heads

_BOUNDS = (np.exp(-25.0), np.exp(12.0))  # of a weight: the smallest is as good as 0
_TEMPERATURES = (1e-4, 1e2)
_WIDTHS = np.geomspace(1e3, 1e-6, 19)
_OPTIONS = {"maxiter": 2000, "maxfun": 4000, "maxcor": 20, "ftol": 1e-14, "gtol": 1e-4}
_STEEPEST = 0.01  # nats for a factor of e, where a search may end


class KernelWeights(NamedTuple):
    """Weights of the paths, temperature, and log evidence."""

    weights: Float[Array, " paths"]
    temperature: float
    log_evidence: float

    @property
    def order_parameter(self) -> Float[Array, "paths paths"]:
        r"""$U = \mathrm{diag}(w)$."""
        return jnp.diag(self.weights)


def kernel_weights(problem: Problem) -> KernelWeights:
    """Maximise the evidence over the weights, and over the temperature if the problem has none."""
    evidence, fixed = weights_evidence(problem), problem.temperature
    start = np.diag(gp_order_parameters(layers=problem.layers, variance=problem.variance)[0])
    paths = len(start)

    def action(point, width):
        weights, shares = np.exp(point[:paths]), np.exp(point[:paths]) / start
        value, slopes, noise = evidence(weights, fixed or np.exp(point[-1]))
        entropy = width / 2 * np.sum(shares - np.log(shares))
        return entropy - value, np.append(width / 2 * (shares - 1) - weights * slopes, [] if fixed else -noise)

    bounds = np.log([_BOUNDS] * paths + [_TEMPERATURES] * (fixed is None))
    point = np.append(np.log(start), [] if fixed else np.log(0.1))
    for width in _WIDTHS:
        fit = minimize(action, point, width, jac=True, method="L-BFGS-B", bounds=bounds, options=_OPTIONS)
        point = fit.x
    free = np.where(fit.jac > 0, point > bounds[:, 0], point < bounds[:, 1])
    steepest = np.max(np.abs(fit.jac), where=free, initial=0.0)
    weights, temperature = np.exp(point[:paths]), float(fixed or np.exp(point[-1]))
    if not steepest < _STEEPEST:
        raise RuntimeError(f"The evidence still has a slope of {steepest:.1e} nats for a factor of e.")
    return KernelWeights(jnp.asarray(weights), temperature, float(evidence(weights, temperature)[0]))


def weights_evidence(problem: Problem) -> Callable:
    r"""Return the function $w, T \mapsto \ln p(Y | w, T)$, with its slopes in $w$ and in $\ln T$."""
    rows, labels = np.asarray(kernel_inputs(problem.attentioned)), np.asarray(problem.labels).reshape(-1)
    scale = float(kernel_scale(problem.attentioned, problem.variance))
    kernels = scale * np.einsum("epi,fpi->pef", rows, rows, optimize=True).reshape(rows.shape[1], -1)
    identity = np.eye(len(labels))

    def evidence(weights, temperature):
        factor, _ = lapack.dpotrf((weights @ kernels).reshape(identity.shape) + temperature * identity, lower=1)
        inverse = np.tril(lapack.dpotri(factor, lower=1)[0])
        inverse += np.tril(inverse, -1).T
        fitted = inverse @ labels
        value = -0.5 * (labels @ fitted + len(labels) * np.log(2 * np.pi)) - np.log(np.diag(factor)).sum()
        slope = 0.5 * (np.outer(fitted, fitted) - inverse)
        return value, kernels @ slope.ravel(), temperature * np.trace(slope)

    return evidence


def own_evidence(inputs: AttentionedInputs, labels, temperatures) -> Float[np.ndarray, " heads"]:
    """The largest log evidence, up to a constant, of the infinite width with one head alone in its layer."""
    values = np.asarray(inputs.values)
    grams = np.einsum("epi,fpi->pef", values, values, optimize=True) / values.shape[2]
    evidences = []
    for through in path_heads(inputs.layers).T > 0:
        kernels = [grams[through].mean(axis=0) + T * np.eye(len(labels)) for T in temperatures]
        fits = [labels @ np.linalg.solve(K, labels) + np.linalg.slogdet(K)[1] for K in kernels]
        evidences.append(-min(fits) / 2)
    return np.array(evidences)
