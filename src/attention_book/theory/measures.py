"""Measures of kernels and of mean outputs."""

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from scipy.special import ndtr

from statmech_attention import checks
from statmech_attention.theory.kernels.regression import Estimate, hit


def principal_overlaps(
    kernel: ArrayLike, labels: ArrayLike
) -> tuple[Float[Array, " examples"], Float[Array, " examples"]]:
    r"""Return a kernel's eigenvalues, largest first, and their vectors' overlaps
    $|v_i \cdot Y| / |Y|$ with the labels.
    """
    matrix, target = _kernel(kernel, labels)
    if checks.concrete(matrix) and not np.allclose(matrix, matrix.T, rtol=0, atol=1e-8 * np.abs(matrix).max()):
        raise ValueError("kernel: wanted a symmetric matrix, got another one.")
    eigenvalues, vectors = jnp.linalg.eigh(matrix)
    overlaps = jnp.abs(target @ vectors) / jnp.linalg.norm(target)
    return eigenvalues[::-1], overlaps[::-1]


def centred_alignment(kernel: ArrayLike, labels: ArrayLike) -> Float[Array, ""]:
    r"""Return $\langle K_c, y_c y_c^\top\rangle / (|K_c|\,|y_c y_c^\top|)$ (Cortes, Mohri,
    Rostamizadeh 2012), 0 for a constant kernel.
    """
    matrix, target = _kernel(kernel, labels)
    target = target - target.mean()
    rows = matrix.mean(axis=0, keepdims=True)
    centred = matrix - rows - rows.T + matrix.mean()
    size = jnp.linalg.norm(centred)
    # What rounding leaves of a constant kernel points anywhere.
    nothing = size <= len(target) * jnp.finfo(size.dtype).eps * jnp.linalg.norm(matrix)
    return jnp.where(nothing, 0.0, target @ centred @ target / (jnp.where(nothing, 1.0, size) * (target @ target)))


def _kernel(kernel, labels) -> tuple:
    """A kernel, and labels that are not all zero."""
    kernel = checks.array("kernel", kernel, "examples examples")
    labels = checks.labels(labels, len(kernel))
    if checks.concrete(labels) and not np.any(np.asarray(labels)):
        raise ValueError("labels: wanted some other than zero, got zeros alone.")
    return kernel, labels


def mean_accuracy(outputs: Estimate, labels: ArrayLike) -> Estimate:
    r"""Return the accuracy of the mean outputs' signs, with its Monte Carlo error $\sqrt{\sum p (1 - p)} / n$.

    An output of mean $f$ and error $e$ has the other sign with probability $p = \Phi(-|f| / e)$.
    """
    mean, error, labels = (np.asarray(array, float) for array in (*outputs, labels))
    doubt = ndtr(-np.abs(mean) / np.maximum(error, np.finfo(float).tiny))
    return Estimate(hit(mean, labels).mean(), np.sqrt(np.sum(doubt * (1 - doubt))) / mean.size)
