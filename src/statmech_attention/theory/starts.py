r"""Points from which the minima of an action are sought, and an order of heads that their numbering cannot change.

A start raises the order parameter along directions that carry labels. With the attentioned inputs
$X_\mu = \xi_\mu B$ in the prior's coordinates, `(features, paths)`, these are per output the top
eigenvectors of $m^\top m$, $m = \sum_\mu y_\mu X_\mu$, against the second moment
$\sum_\mu X_\mu^\top X_\mu$. What raises a network's output along them also raises its misfit least.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from statmech_attention.compiling import quick_jit
from statmech_attention.theory.kernels.of_paths import kernel_inputs, kernel_scale, path_heads
from statmech_attention.theory.levels.levels import entries
from statmech_attention.theory.levels.paths import PathLevels, branch_rows, factors_of_entries
from statmech_attention.theory.problem import Problem

NARROWER = 20.0  # by so much the network is narrower whose minimum is a start
_SIZE = 30.0  # by how much a start raises the order parameter along a direction
_LARGE_LABELS = 10.0  # |Y|^2 in units of tr K, from which there is a second, larger size
_DIRECTIONS = 3  # of all outputs together
_RIDGE = 1e-4  # of the second moment's mean eigenvalue
_RANDOM = (1.0, 1.0, 2.0, 2.0)  # standard deviations of the random points


class Start(NamedTuple):
    """A point in the good coordinates, the kind of start that it is, and the weight of the labels to go there with.

    A weight other than 1 means: minimise with the labels' energy times the weight first, and go on
    from there, as from the minimum of a narrower network.
    """

    name: str
    point: Float[np.ndarray, " coordinates"]
    weight: float = 1.0


def starts(problem: Problem, factors: PathLevels) -> list[Start]:
    """The prior, a narrower network, directions that carry labels, and four random points, always the same ones."""
    prior = np.zeros(factors.coordinates)
    raised = [Start("labels", point) for point in _along_labels(problem, factors)]
    normals = np.random.default_rng(0).normal(size=(len(_RANDOM), factors.coordinates))
    scattered = [Start("random", size * normal) for size, normal in zip(_RANDOM, normals, strict=True)]
    return [Start("prior", prior), Start("narrow", prior, NARROWER), *raised, *scattered]


def _along_labels(problem: Problem, factors: PathLevels) -> Iterator[Float[np.ndarray, " coordinates"]]:
    """Points that raise the lowest order parameter along each direction, along all, and along all but one."""
    branches = np.asarray(_prior_branches(factors))
    pulls, moment = _label_moments(problem, branches)
    trace = float(kernel_scale(problem.attentioned, problem.variance)) * np.trace(moment)
    if not trace > 0:
        return
    ratio = np.sum(np.asarray(problem.labels) ** 2) / trace
    sizes = [_SIZE, _SIZE * np.sqrt(ratio)] if ratio > _LARGE_LABELS else [_SIZE]
    directions = _directions(pulls, moment)
    count = len(directions)
    for number in sorted({1, count - 1, count} - {0}):
        for chosen in combinations(directions, number):
            for size in sizes:
                yield _raised(size * np.sum([np.outer(direction, direction) for direction in chosen], axis=0), factors)


def _label_moments(problem: Problem, branches):
    r"""$m_c$ of every output, `(outputs, features, columns)`, and $\sum_\mu X_\mu^\top X_\mu$."""
    chain, values = problem.attentioned.chain, np.asarray(problem.attentioned.values)
    seen = values * chain.path_gains[:, None]
    labels = np.asarray(problem.labels).reshape(len(values), -1)
    pulled = np.einsum("ec,epi->cip", labels, seen, optimize=True)
    paths = np.einsum("epi,eqi->pq", seen, seen, optimize=True)
    each = branches.reshape(-1, chain.outputs, branches.shape[1])
    moment = np.einsum("pcs,pq,qct->st", each, paths, each, optimize=True)
    return np.einsum("cip,pcs->cis", pulled, each), moment


def _directions(pulls, moment) -> list[Float[np.ndarray, " columns"]]:
    """Unit vectors: the two best of one output, or the best of each of several, but at most three."""
    size, ridge = len(moment), _RIDGE * np.mean(np.diag(moment))
    ranked = []
    for pull in pulls:
        values, vectors = scipy.linalg.eigh(pull.T @ pull, moment + ridge * np.eye(size))
        most = min(size, 2 if len(pulls) == 1 else 1)
        ranked += [(values[-1 - place], vectors[:, -1 - place]) for place in range(most)]
    ranked.sort(key=lambda pair: -pair[0])
    return [vector / np.linalg.norm(vector) for _, vector in ranked[:_DIRECTIONS]]


def _raised(added: Float[np.ndarray, "columns columns"], factors: PathLevels) -> Float[np.ndarray, " coordinates"]:
    """The prior, with the lowest factor that of the identity plus `added`; kept rows and layers above stay."""
    factor = np.linalg.cholesky(np.eye(factors.shapes[0].size) + added)
    diagonal, rows, columns = factors.shapes[0].free
    lowest = np.concatenate([np.log(factor[diagonal, diagonal]), factor[rows, columns]])
    return np.pad(lowest, (0, factors.coordinates - len(lowest)))


@quick_jit()
def _prior_branches(factors: PathLevels) -> Float[Array, "rows columns"]:
    r"""$B$ of the lowest stage at the prior, $U^{(1)} = B F F^\top B^\top$."""
    _, *above = factors_of_entries(entries(jnp.zeros(factors.coordinates), factors), factors)
    return branch_rows(0, above, factors)


def order_of_heads(problem: Problem, overlap) -> tuple[tuple[int, ...], ...]:
    r"""Heads of every layer by increasing $\sum_\pi dE/dU^{\pi\pi}$ over their paths, at the prior's order parameter.

    Heads numbered otherwise are in the same order, so that a search that follows it finds the same.
    """
    fewer = problem.reduce()
    rows, factor = _prior_kernel(fewer, overlap)
    labels, flat = np.asarray(fewer.labels).reshape(-1), rows.reshape(len(rows), -1)
    white, solved = (scipy.linalg.solve_triangular(factor, right, lower=True) for right in (flat, labels))
    slopes = np.sum(white**2, axis=0) - (solved @ white) ** 2
    slopes = slopes.reshape(rows.shape[1], -1).sum(axis=1)
    chain = problem.attentioned.chain
    scores, order, start = slopes.reshape(-1, chain.outputs).sum(axis=1) @ path_heads(chain), [], 0
    for count in chain.heads:
        order.append(tuple(np.argsort(scores[start : start + count], kind="stable").tolist()))
        start += count
    return tuple(order)


def axes_of_outputs(problem: Problem, overlap) -> Float[np.ndarray, "outputs axes"]:
    r"""Orthogonal axes of the outputs, of falling $y^\top (K + T)^{-1} y$ at the prior, and their signs.

    Outputs numbered otherwise or rotated have the same labels along these axes, but for equal values.
    """
    outputs = problem.attentioned.chain.outputs
    if outputs == 1:
        return np.eye(1)
    fewer = problem.reduce()
    _, factor = _prior_kernel(fewer, overlap)  # block by block the same for every output
    first = factor[::outputs, ::outputs]
    white = scipy.linalg.solve_triangular(first, np.asarray(fewer.labels), lower=True)
    axes = np.linalg.eigh(white.T @ white)[1][:, ::-1]
    return axes * np.where(np.sum((white @ axes) ** 3, axis=0) < 0, -1.0, 1.0)


def _prior_kernel(problem: Problem, overlap):
    """Rows of a kernel, and the triangular factor of the kernel and the temperature at the prior's order parameter."""
    rows = np.asarray(kernel_inputs(problem.attentioned))
    scale = float(kernel_scale(problem.attentioned, problem.variance))
    covariance = scale * np.einsum("rai,ab,sbi->rs", rows, overlap, rows, optimize=True)
    return rows, np.linalg.cholesky(covariance + problem.temperature * np.eye(len(rows)))
