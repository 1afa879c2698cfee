r"""New inputs on levels of features: the recursion (K5) between their rows and the features.

For the rows of new inputs $Q = \delta_* d^\top / N$ and $V = \delta_* \delta_*^\top / N$, within an
example, go down with $D$. With $Q_\infty$ of infinite width, which (K3) gives exactly,

    C_* = sigma_l^2 sum_s B_s (Q_s - Q_inf U) A_s^T + C_*inf U,       Psi_* = C_* c chol^{-T},
    Q' = B_0 (Q - Q_inf U) A_0^T + .. + B_0 Q Phi^{-T} M^T Psi^T + Psi_* M Phi^T A_0^T
         + C_* + Psi_* (M M^T + f f^T - 1) Psi^T,

and $V'$ alike with $\Psi_*$ for $\Psi$. What the features leave out stays at its prior. $Q_s = Q$, but
for heads of a finite value dimension $Q_s = Q (1 + b_s D)$ and $V_s = V + Q b_s Q^\top$ with
$b_s = \Phi^{-\top} (f_s f_s^\top - 1) \Phi^{-1}$.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.kernels.of_tokens import infinite_width
from statmech_attention.theory.kernels.projected import ProjectedInputs
from statmech_attention.theory.levels.components import output_of_components
from statmech_attention.theory.levels.features import Seen
from statmech_attention.theory.levels.ranking import Features, Ranked, grown

_EXAMPLES = 16  # new examples at a time


class Descent(NamedTuple):
    """A solution on its way down: features, their columns $\\gamma$, `Seen` of its levels, $U$ and variances.

    Arrays are NumPy's, or JAX's where something is differentiated; `xp` has their functions.
    """

    train: TokenInputs
    columns: tuple[Float[np.ndarray, "rows _features"], ...]
    features: Features
    seen: Seen
    top: Float[Array | np.ndarray, "outputs outputs"]
    variances: tuple
    xp: Any

    @classmethod
    def of(cls, train: TokenInputs, ranked: Ranked, features: Features, action, point, variances) -> "Descent":
        """The descent at a point of an action of these features."""
        _, top, seen = action.levels.descended(action.seen(point))
        xp: Any = jnp
        parts = features, seen, top
        if checks.concrete(*jax.tree.leaves((parts, variances))):
            parts, xp = jax.tree.map(np.asarray, parts), np
        size = features.seen.shape[-1]
        columns = tuple(np.asarray(level)[:, :size] for level in ranked.columns)
        return cls(train, columns, *parts, variances, xp)


def output(test: TokenInputs, train: TokenInputs, ranked: Ranked, features: Features, action, point, variances):
    """Mean (9) and variance (30) of the output on new inputs at a point, over pairs (example, output)."""
    if isinstance(train, ProjectedInputs):
        return output_of_components(test, train, ranked, features, action, point, variances)
    cross, own = new_kernels(test, Descent.of(train, ranked, features, action, point, variances))
    regression = action.regression(point)
    return regression.predict(jnp.asarray(cross.reshape(own.size, -1).T), jnp.asarray(own.reshape(-1)))


def new_kernels(rows: TokenInputs, descent: Descent):
    """Kernels of new examples, in the order in which they were given, block by block.

    With the training examples, `(examples, outputs, others, outputs)`, and with themselves,
    `(examples, outputs)`.
    """
    blocks = [_of_block(block, descent) for block in rows.blocks(_EXAMPLES)]
    given, join = np.argsort(rows.order), descent.xp.concatenate
    return join([cross for cross, _ in blocks])[given], join([own for _, own in blocks])[given]


def _of_block(rows: TokenInputs, descent: Descent):
    """Kernels of some examples of one length."""
    xp, top, limits = descent.xp, descent.top, list[list]()
    size = descent.features.seen.shape[-1]

    def see(layer, gram, values):
        columns = descent.columns[len(limits)]
        wide = [grown(matrix @ columns, len(matrix), size) for matrix in (gram, values)]
        limits.append([xp.einsum("na,cd->ncad", limit, top) for limit in wide])

    kernel = infinite_width(rows, descent.train, (1.0, *descent.variances[1:-1], 1.0), see)
    weights = rows.weights.reshape(-1, rows.groups[0].length)
    above = limits[0][0], xp.einsum("et,eu,cd->etcud", weights, weights, top)
    for place, layer in enumerate(reversed(range(len(rows.chain.layers)))):
        above = _below(rows, descent, place, layer, above, limits[place][0], limits[place + 1])
    across, within = above
    tokens = rows.tokens.reshape(*weights.shape, -1)
    moved = (across - limits[-1][0]).reshape(*weights.shape, *across.shape[1:])
    seen = xp.einsum("eti,etcad->eciad", tokens, moved, optimize=True) / np.sqrt(tokens.shape[2])
    cross = xp.einsum("eciad,pia->ecpd", seen, descent.features.seen, optimize=True)
    own = xp.einsum("eti,etcuc,eui->ec", tokens, within, tokens, optimize=True) / tokens.shape[2]
    scale = descent.variances[0]
    return scale * (cross + xp.einsum("ep,cd->ecpd", kernel, top)), scale * own


def _below(rows, descent: Descent, place: int, layer: int, above, limit, below):
    """One layer down, with $Q_\\infty U$ above, and below, all of it and what has passed values."""
    across, within = above
    beyond, values = below
    xp, outputs = descent.xp, len(descent.top)
    maps_between: Any = descent.features.maps
    kept, variance = int(rows.chain.layers[layer].keeps), descent.variances[1 + layer]
    seen = jax.tree.map(lambda part: part[place], descent.seen)  # of this level
    maps, length = rows.groups[0].whole(layer), rows.groups[0].length
    shape = len(across), outputs, -1  # rows, outputs, (feature, output)
    # What passes values: C_* with the features below, C_** within examples.
    moved = _mapped(xp, maps, across - limit)
    passed, inside = moved[kept:], variance * _within(xp, maps[:, kept:], within)
    if seen.bend is not None:  # heads of a finite value dimension
        whole = _mapped(xp, maps, across.reshape(shape))[kept:]
        bent = whole @ seen.bend[: len(whole), None]
        passed = passed + (bent @ seen.gram).reshape(passed.shape)
        inside = inside + variance * sum(_pairs(xp, *pair, length) for pair in zip(bent, whole, strict=True))
    down = maps_between.values[place][: len(passed)]
    through = xp.einsum("sncbd,sab->ncad", passed, down, optimize=True)
    fresh = (variance * through + values).reshape(shape)
    # The part of it that labels have moved.
    psi = fresh @ seen.whitened
    shifted = psi @ seen.moment
    beneath, inside = fresh + shifted @ seen.psi.T, inside + _pairs(xp, shifted, psi, length)
    if not kept:
        return beneath.reshape(across.shape), inside
    # Beside it the skip, and its pull on what passes values.
    beside = xp.kron(maps_between.kept[place], np.eye(outputs))
    along = moved[0].reshape(shape) @ beside.T + (beyond - values).reshape(shape)
    raised = _mapped(xp, maps, across.reshape(shape) @ seen.lifted)[0]
    cross = _pairs(xp, raised, psi, length)
    beneath = beneath + along + raised @ seen.psi.T + psi @ (beside @ seen.gram @ seen.lifted).T
    inside = inside + _within(xp, maps[:, :1], within) + cross + cross.transpose(0, 3, 4, 1, 2)
    return beneath.reshape(across.shape), inside


def _mapped(xp, maps: Float[np.ndarray, "examples seeds tokens tokens"], columns):
    """$B_s$ times columns of the rows, which may have axes of their own: seeds, rows, .."""
    examples, _, length, _ = maps.shape
    below = xp.einsum("estu,euc->setc", maps, columns.reshape(examples, length, -1), optimize=True)
    return below.reshape(len(below), *columns.shape)


def _within(xp, maps, within):
    """$\\sum_s B_s V B_s^\\top$ within every example."""
    return xp.einsum("esab,ebcdf,esgd->eacgf", maps, within, maps, optimize=True)


def _pairs(xp, left, right, length: int):
    """Products of rows within every example."""
    left, right = left.reshape(-1, length, *left.shape[1:]), right.reshape(-1, length, *right.shape[1:])
    return xp.einsum("etcr,eudr->etcud", left, right, optimize=True)
