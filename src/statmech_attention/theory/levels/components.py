r"""Features of a projected network, and the output on new inputs: matrices of components take the place of rows.

The components of a level are white, so that the Gram matrix of infinite width is 1, and what labels feel,

    O_0 = sum_{mu nu} W_{mu nu} Z_mu^T Z_nu,        O_{l+1} = sum_s V_s O_l V_s^T,                        (Z3)

with $W$ as in `levels.ranking`, are $M \times M$ matrices. Features are its leading eigenvectors. The maps
between components are the blocks of $V_l$ themselves, which leave nothing out.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.theory.kernels.projected import ProjectedInputs, deviations, kernel_of_components, products
from statmech_attention.theory.kernels.regression import Prediction
from statmech_attention.theory.levels.features import FeatureLevels
from statmech_attention.theory.levels.ranking import Features, Level, Ranked, level_between, pull_of_labels


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


def features_of_components(inputs: ProjectedInputs, columns, features: Features) -> Features:
    """The features of a solution as what is seen changes, differentiable in it."""
    seen = inputs.values @ columns
    flat = seen.reshape(len(seen), -1)
    missing = None if features.missing is None else (features.missing[0], inputs.own)
    return Features(features.maps, seen, kernel_of_components(inputs, inputs) - flat @ flat.T, missing)


def columns_of(ranked: Ranked, features: Features) -> Float[Array, "components features"]:
    """The lowest level's features, with zeros for those that are missing."""
    count = features.seen.shape[-1]
    columns = ranked.columns[-1][:, :count]
    return jnp.asarray(np.pad(columns, ((0, 0), (0, count - columns.shape[1]))))


def output_of_components(
    test: ProjectedInputs, train: ProjectedInputs, ranked: Ranked, features: Features, action, point, variance
) -> Prediction:
    """Mean (9) and variance (30) of the output on new inputs at a point, over pairs (example, output).

    What features leave out of new inputs stays at its prior, as if no level had moved it. So fewer directions than
    components are not exact for new inputs, even where labels feel no others: means moved by a thousandth.
    """
    levels: FeatureLevels = action.levels
    gram, top = action.overlap(point)
    count, outputs = features.seen.shape[-1], levels.outputs
    free = test.values @ columns_of(ranked, features)
    moved = jnp.einsum("eia,aj->eij", free, gram.reshape(count, -1)).reshape(*free.shape[:2], outputs, count, outputs)
    cross = jnp.einsum("eicbd,pib->ecpd", moved, features.seen, optimize=True)
    left = products(test, train) - jnp.einsum("eia,pia->ep", free, features.seen)
    own = jnp.einsum("eicbc,eib->ec", moved, free)
    rest = test.single.own - jnp.sum(free**2, axis=(1, 2))
    cross, own = cross + jnp.einsum("ep,cd->ecpd", left, top), own + jnp.outer(rest, jnp.diagonal(top))
    regression = action.regression(point)
    rows = cross.reshape(own.size, -1).T
    return regression.predict(variance[0] * rows, variance[0] * own.reshape(-1))
