r"""Features of a projected network, and the output on new inputs: matrices of components take the place of rows.

The components of a level are white, so that the Gram matrix of infinite width is 1, and what labels feel,

    O_0 = sum_{mu nu} W_{mu nu} Z_mu^T Z_nu,        O_{l+1} = sum_s V_s O_l V_s^T,                        (Z3)

with $W$ as in `levels.ranking`, are $M \times M$ matrices. Features are its leading eigenvectors. The maps
between components are the blocks of $V_l$ themselves, which leave nothing out.

The lowest components of training inputs span $s$, with $s^\top s = 1$. There $U_s$ is that of the features, and the
prior beside them. New inputs leave the span for what labels do not feel, but it has passed levels that they moved.
Let $R$ be the Gram matrix of all components by (K5), and $A = s^\top R s$. Then

    U = R + R s A^{-1} (U_s - A) A^{-1} s^T R                                                             (Z5)

has $U_s$ in the span, and beyond it what (K5) says given that. A training input keeps its kernel as a new one. If
the features are all that labels feel, $U_s = A$ and $U$ is exact; if they are fewer, more of them mend it.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from statmech_attention.compiling import quick_jit
from statmech_attention.theory.kernels.projected import ProjectedInputs, deviations, kernel_of_components, unit_blocks
from statmech_attention.theory.kernels.regression import Prediction
from statmech_attention.theory.levels.features import Seen, descended
from statmech_attention.theory.levels.ranking import Level, Ranked, level_between, pull_of_labels
from statmech_attention.theory.levels.rows import congruent, mapped, passed

_SPAN = 1e-6  # relative size of a direction that training inputs have


def ranked_components(
    inputs: ProjectedInputs, labels, temperature, variances, most: int, beyond: float = 0.0
) -> Ranked:
    """Features of all levels, at most so many of each; `beyond` is the number of examples without a row."""
    kernel = np.asarray(kernel_of_components(inputs, inputs))
    pull = pull_of_labels(kernel, labels, temperature, variances[0] * variances[-1])
    values = np.asarray(inputs.values)
    felt = np.tensordot(values, np.tensordot(pull, values, (1, 0)), ((0, 1), (0, 1)))
    ranked, levels, network = list[Any](), list[Level](), inputs.projection
    each = zip(network.blocks[::-1], deviations(network)[::-1], network.chain.layers, strict=True)
    total, below = float(np.trace(felt)), _leading(felt, most)
    for block, deviation, layer in each:
        felt = np.einsum("sab,bc,sdc->ad", block, felt, block, optimize=True)
        above = _leading(felt, most)
        levels.insert(0, _level(block, deviation, int(layer.keeps), below[0], above[0]))
        ranked.insert(0, below)
        below = above
    columns, sizes = zip(below, *ranked, strict=True)
    missing = None if jnp.ndim(inputs.own) else (beyond, float(inputs.own))
    return Ranked(columns, columns, sizes, total, kernel, tuple(levels), most, missing)


def _leading(felt, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Leading eigenvectors, and all eigenvalues that belong to them."""
    values, vectors = np.linalg.eigh(0.5 * (felt + felt.T))
    return vectors[:, ::-1][:, :most], values[::-1][:most]


def _level(block, deviation, keeps: int, below, above) -> Level:
    """A layer between features: the blocks of $V_l$ at a unit variance."""
    passed = below.T @ np.einsum("sab,sac->bc", block[keeps:], block[keeps:], optimize=True) @ below
    along = below.T @ np.einsum("sab,sac->bc", block[:keeps], block[:keeps], optimize=True) @ below
    through = np.einsum("bi,sab,aj->sij", below, block, above, optimize=True) / deviation[:, None, None]
    return level_between(through, keeps, passed, along, deviation[-1] ** 2)


def overlap_of_components(train: ProjectedInputs, ranked: Ranked, action, point):
    """$U$ of (Z5) between all (component, output), and $U$ of the outputs, at a point."""
    (gram, top, seen), network = descended(action, point), train.projection
    ones, features = jnp.eye(len(top)), len(gram) // len(top)
    columns = [jnp.kron(level, ones) for level in ranked.few(features)]
    moved = gram - jnp.kron(jnp.eye(features), top)
    known = jnp.kron(jnp.eye(train.values.shape[2]), top) + columns[-1] @ moved @ columns[-1].T
    rows = _spanning(np.asarray(train.values).reshape(-1, train.values.shape[2]))
    if not ranked.most or len(rows) in (0, rows.shape[1]):
        return known, top
    maps = [seeds.swapaxes(1, 2)[:, None] for seeds in unit_blocks(network)]
    keeps = tuple(int(layer.keeps) for layer in network.chain.layers[::-1])
    whole, span = _of_all(maps, columns, seen, action.levels.variances, top, keeps), jnp.kron(rows, ones)
    within = span @ whole @ span.T
    lift = jnp.linalg.solve(within, span @ whole)
    return whole + lift.T @ (span @ known @ span.T - within) @ lift, top


def _spanning(rows: Float[np.ndarray, "rows components"]) -> Float[np.ndarray, "fewer components"]:
    """Orthonormal rows of the same span."""
    _, sizes, span = np.linalg.svd(np.linalg.qr(rows, mode="r"), full_matrices=False)
    return span[sizes > _SPAN * sizes[0]]


@quick_jit(static=("keeps",), level=0)
def _of_all(maps, columns, seen: Seen, variances, gram, keeps: tuple[int, ...]):
    """(K5) of all components, from the readout down, with the coordinates of the features."""
    for place, keep in enumerate(keeps):
        own, level = maps[place], jax.tree.map(lambda part, place=place: part[place], seen)
        image = gram @ columns[place]
        fresh = variances[place] * passed(gram, own[keep:], image, level.bend)
        psi = fresh @ (columns[place + 1] @ level.whitened)
        beneath = fresh + psi @ level.moment @ psi.T
        if keep:
            cross = mapped(own[0], image @ level.lifted) @ psi.T
            beneath = beneath + congruent(own[0], gram) + cross + cross.T
        gram = beneath
    return gram


def output_of_components(
    test: ProjectedInputs, train: ProjectedInputs, ranked: Ranked, action, point, variance
) -> Prediction:
    """Mean (9) and variance (30) of the output on new inputs at a point, over pairs (example, output)."""
    whole, top = overlap_of_components(train, ranked, action, point)
    moved = jnp.tensordot(test.values, whole.reshape(2 * (test.values.shape[2], len(top))), 1)
    cross = jnp.einsum("eicbd,pib->ecpd", moved, train.values, optimize=True)
    own = jnp.einsum("eicbc,eib->ec", moved, test.values) + jnp.outer(test.single.rest, jnp.diagonal(top))
    rows = cross.reshape(own.size, -1).T
    return action.regression(point).predict(variance[0] * rows, variance[0] * own.reshape(-1))
