r"""The action (11) once more, in NumPy alone with its gradient by hand, and its minima by SciPy from many starts.

Separate code, for the truth of a search: only the numbers that describe a kind of layer are taken
from the package. Of every layer $A_l = B_l F_l$, $U^{(l)} = A_l A_l^\top$, with a triangular $F_l$,
and $B_l = (M_{bs} C_s)$ with $C_s = A_{l+1}$, or $A_{l+1} F_s$ within a narrow head. The unknowns
are the entries of all $F$, the logarithms of those on the diagonals.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.optimize
from scipy.linalg import cho_factor, cho_solve

import statmech_attention as sma

ROUGH, FEW = 40, 8  # steps from every start, and ends that go on


@dataclass(frozen=True)
class Triangles:
    """Triangular factors side by side: their number, rows, rows that are known, and share of the entropy."""

    blocks: int
    rows: int
    kept: int
    share: float

    @cached_property
    def places(self):
        """Rows and columns of the unknown entries."""
        rows, columns = np.tril_indices(self.rows)
        return rows[rows >= self.kept], columns[rows >= self.kept]

    @property
    def count(self) -> int:
        """Number of unknowns."""
        return self.blocks * len(self.places[0])


class NumpyAction:
    """The action of a problem with prior variances of 1."""

    def __init__(self, problem: sma.Problem):
        chain, self.temperature = problem.attentioned.chain, problem.temperature
        seen = np.asarray(problem.attentioned.values) * chain.path_gains[:, None]
        pairs = np.einsum("epi,fqi->pqef", seen, seen, optimize=True) / (seen.shape[2] * chain.divisor)
        self.paths, self.examples = seen.shape[1], len(seen)
        self.pairs = pairs.reshape(self.paths**2, self.examples**2)
        self.labels = np.asarray(problem.labels).reshape(len(seen), -1).T.ravel()
        self.outputs, self.widest, self.layers, above = chain.outputs, max(problem.width), [], 1
        for kind, width in zip(reversed(chain.kinds), reversed(problem.width), strict=True):
            inner = kind.inner and Triangles(kind.value_matrices, above, 0, kind.inner / self.widest)
            kept = above if kind.keeps else 0
            outer = Triangles(1, kept + kind.value_matrices * above, kept, width / self.widest)
            self.layers.append((kind.mixing(1.0), int(kind.keeps), inner, outer))
            above = outer.rows
        self.size = sum(one.count for _, _, inner, outer in self.layers for one in (inner, outer) if one)

    def __call__(self, point):
        """The action and its gradient; infinity where it cannot be computed, as after a far too long step."""
        with np.errstate(all="ignore"):
            try:
                return self._with_gradient(point)
            except (np.linalg.LinAlgError, ValueError):  # a kernel that is not positive, or not finite
                return np.inf, np.zeros_like(point)

    def raised(self, direction, size: float):
        """The prior, with the lowest factor that of the identity plus `size` along a direction."""
        rows, columns = self.layers[-1][-1].places
        unit = direction / np.linalg.norm(direction)
        factor = np.linalg.cholesky(np.eye(len(unit)) + size * np.outer(unit, unit))[rows, columns]
        factor[rows == columns] = np.log(factor[rows == columns])
        point = np.zeros(self.size)
        point[self.size - len(rows) :] = factor
        return point

    def _with_gradient(self, point):
        factor, used, total, steps = np.ones((1, 1)), 0, 0.0, []
        slope = np.zeros_like(point)
        for mixing, keeps, inner, outer in self.layers:
            blocks, places = np.broadcast_to(factor, (mixing.shape[1], *factor.shape)), [None, None]
            if inner:
                within, nats = _read(point, used, inner, slope)
                places[0], used = used, used + inner.count
                blocks, total = np.concatenate([blocks[:keeps], factor @ within]), total + nats
            else:
                within = None
            branches = mixing[:, None, :, None] * blocks.transpose(1, 0, 2)[None]
            branches = branches.reshape(len(mixing) * len(factor), -1)
            whole, nats = _read(point, used, outer, slope)
            places[1], used = used, used + outer.count
            steps.append((mixing, keeps, inner, outer, factor, within, branches, whole[0], places))
            factor, total = branches @ whole[0], total + nats
        energy, change = self._energy(factor)
        change = 2 * change @ factor
        for mixing, keeps, inner, outer, above, within, branches, whole, places in reversed(steps):
            _write(slope, places[1], outer, (branches.T @ change)[None], point)
            pulled = (change @ whole.T).reshape(len(mixing), len(above), mixing.shape[1], -1)
            pulled = (mixing[:, None, :, None] * pulled).sum(axis=0).transpose(1, 0, 2)
            if inner:
                _write(slope, places[0], inner, above.T @ pulled[keeps:], point)
                pulled = np.concatenate([pulled[:keeps], pulled[keeps:] @ within.transpose(0, 2, 1)])
            change = pulled.sum(axis=0)
        return total + energy, slope

    def _energy(self, factor):
        """$P E / N$ and its derivative in $U$, of the lowest factor."""
        between = (self.paths, self.outputs, self.paths, self.outputs)
        overlap = (factor @ factor.T).reshape(between).transpose(1, 3, 0, 2).reshape(-1, self.paths**2)
        kernel = (overlap @ self.pairs).reshape((self.outputs,) * 2 + (self.examples,) * 2)
        count = len(self.labels)
        kernel = kernel.transpose(0, 2, 1, 3).reshape(count, count)
        if not np.all(np.isfinite(kernel)):
            return np.inf, np.zeros((factor.shape[0],) * 2)
        chol = cho_factor(kernel + self.temperature * np.eye(count), lower=True, check_finite=False)
        solved = cho_solve(chol, self.labels, check_finite=False)
        nats = 2 * np.sum(np.log(np.diag(chol[0]))) + self.labels @ solved
        pull = cho_solve(chol, np.eye(count), check_finite=False) - np.outer(solved, solved)
        pull = pull.reshape(self.outputs, self.examples, self.outputs, self.examples).transpose(0, 2, 1, 3)
        change = (pull.reshape(-1, self.examples**2) @ self.pairs.T).reshape((self.outputs,) * 2 + (self.paths,) * 2)
        return nats / self.widest, change.transpose(2, 0, 3, 1).reshape(factor.shape[0], -1) / self.widest


def _read(point, start: int, triangles: Triangles, slope):
    """The factors, and their entropy, the gradient of which is written at its place."""
    rows, columns = triangles.places
    part = slice(start, start + triangles.count)
    entries = point[part].reshape(triangles.blocks, -1).copy()
    diagonal = rows == columns
    logs = np.sum(entries[:, diagonal])
    entries[:, diagonal] = np.exp(entries[:, diagonal])
    found = np.zeros((triangles.blocks, triangles.rows, triangles.rows))
    found[:, np.arange(triangles.kept), np.arange(triangles.kept)] = 1.0
    found[:, rows, columns] = entries
    slope[part] = (2 * triangles.share * np.where(diagonal, entries**2 - 1, entries)).ravel()
    return found, triangles.share * (np.sum(entries**2) - 2 * logs)


def _write(slope, start: int, triangles: Triangles, change, point) -> None:
    """Add the gradient through the factors."""
    rows, columns = triangles.places
    part = slice(start, start + triangles.count)
    chain = np.where(rows == columns, np.exp(point[part].reshape(triangles.blocks, -1)), 1.0)
    slope[part] += (change[:, rows, columns] * chain).ravel()


def lowest_of(problem: sma.Problem, starts: int, seed: int) -> float:
    """The lowest action from the prior and random starts, of which the best few go on to the end.

    Every second random start is a normal point of one of three scales, the others are the prior with
    the lowest factor raised along a random direction.
    """
    action, random = NumpyAction(problem), np.random.default_rng(seed)
    scales = np.resize((0.5, 1.0, 2.0), starts)
    points = scales[:, None] * random.normal(size=(starts, action.size))
    points[0] = 0.0  # the prior
    for point in points[2::2]:
        point[:] = action.raised(random.normal(size=action.layers[-1][-1].rows), 10 ** random.uniform(0.5, 3.0))

    def end(point, steps):
        return scipy.optimize.minimize(action, point, jac=True, method="L-BFGS-B", options={"maxiter": steps})

    rough = sorted((end(point, ROUGH) for point in points), key=lambda found: found.fun)
    return min(float(end(found.x, 5000).fun) for found in rough[:FEW])
