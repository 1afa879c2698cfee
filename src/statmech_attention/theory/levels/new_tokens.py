r"""New inputs in the theory without paths: the recursion (K5) between their rows and the features.

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

import numpy as np
from jaxtyping import Float

from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.kernels.of_tokens import infinite_width, seeded
from statmech_attention.theory.levels.ranking import Features, grown

_EXAMPLES = 16  # new examples at a time


class Descent(NamedTuple):
    """What a solution gives: features, their columns $\\gamma$, `Seen` of its levels, $U$ and variances."""

    train: TokenInputs
    columns: tuple[Float[np.ndarray, "rows _features"], ...]
    features: Features
    seen: Any  # `Seen` of `theory.levels.features`
    top: Float[np.ndarray, "outputs outputs"]
    variances: tuple


def new_kernels(rows: TokenInputs, descent: Descent) -> tuple[np.ndarray, np.ndarray]:
    """Kernels of new examples, in the order in which they were given, block by block.

    With the training examples, `(examples, outputs, others, outputs)`, and with themselves,
    `(examples, outputs)`.
    """
    blocks = [_of_block(block, descent) for block in rows.blocks(_EXAMPLES)]
    given = np.argsort(rows.order)
    return np.concatenate([cross for cross, _ in blocks])[given], np.concatenate([own for _, own in blocks])[given]


def _of_block(rows: TokenInputs, descent: Descent) -> tuple[np.ndarray, np.ndarray]:
    """Kernels of some examples of one length."""
    top, limits = descent.top, list[list]()

    def see(layer, gram, values):
        columns = descent.columns[len(limits)]
        wide = [grown(matrix @ columns, len(matrix), descent.features.size) for matrix in (gram, values)]
        limits.append([np.einsum("na,cd->ncad", limit, top) for limit in wide])

    kernel = infinite_width(rows, descent.train, (1.0, *descent.variances[1:-1], 1.0), see)
    weights = rows.weights.reshape(-1, rows.groups[0].length)
    above = limits[0][0], np.einsum("et,eu,cd->etcud", weights, weights, top)
    for place, layer in enumerate(reversed(range(len(rows.chain.layers)))):
        above = _below(rows, descent, place, layer, above, limits[place][0], limits[place + 1])
    across, within = above
    tokens = rows.tokens.reshape(*weights.shape, -1)
    scale = descent.variances[0]
    moved = (across - limits[-1][0]).reshape(*weights.shape, *across.shape[1:])
    seen = np.einsum("eti,etcad->eciad", tokens, moved, optimize=True) / np.sqrt(tokens.shape[2])
    cross = np.einsum("eciad,pia->ecpd", seen, descent.features.seen, optimize=True)
    own = np.einsum("eti,etcuc,eui->ec", tokens, within, tokens, optimize=True) / tokens.shape[2]
    return scale * (cross + np.einsum("ep,cd->ecpd", kernel, top)), scale * own


def _below(rows, descent, place, layer, above, limit, below):
    """One layer down, with $Q_\\infty U$ above, and below, all of it and what has passed values."""
    across, within = above
    features, seen, top = descent.features.layers, descent.seen, descent.top
    variance, kept = descent.variances[1 + layer], int(rows.chain.layers[layer].keeps)
    length = rows.groups[0].length
    maps = rows.groups[0].maps[layer]
    excess = across - limit
    through = seeded(rows, layer, excess.reshape(len(excess), -1)).reshape(-1, *excess.shape)
    inside = variance * _within(maps[:, kept:], within)
    if seen.bend is not None:
        bend = seen.bend[place][: maps.shape[1] - kept]
        whole = seeded(rows, layer, across.reshape(len(across), -1))[kept:]
        whole = whole.reshape(*whole.shape[:2], len(top), -1)
        bent = np.einsum("sncr,srq->sncq", whole, bend, optimize=True)
        inside = inside + variance * sum(_pairs(*pair, length) for pair in zip(bent, whole, strict=True))
        through[kept:] += (bent @ seen.gram[place]).reshape(-1, *excess.shape)
    passed = np.einsum("sncbd,sab->ncad", through[kept:], features.values[place][: len(through) - kept], optimize=True)
    beyond, values = below
    fresh = variance * passed + values
    flat = fresh.reshape(*fresh.shape[:2], -1)
    psi, own = flat @ seen.whitened[place], seen.psi[place]
    moved = psi @ seen.moment[place]
    beneath = flat + moved @ own.T
    inside = inside + _pairs(moved, psi, length)
    if kept:
        gram, lifted = seen.gram[place], seen.lifted[place]
        beside = np.kron(features.kept[place], np.eye(len(top)))
        along = through[0].reshape(flat.shape) @ beside.T
        along = along + (beyond - values).reshape(flat.shape)
        raised = across.reshape(*across.shape[:2], -1) @ lifted
        raised = seeded(rows, layer, raised.reshape(len(raised), -1))[0].reshape(raised.shape)
        beneath = beneath + along + raised @ own.T + psi @ (beside @ gram @ lifted).T
        cross = _pairs(raised, psi, length)
        inside = inside + _within(maps[:, :1], within) + cross + cross.transpose(0, 3, 4, 1, 2)
    return beneath.reshape(across.shape), inside


def _within(maps, within) -> Float[np.ndarray, "examples tokens outputs tokens outputs"]:
    """$\\sum_s B_s V B_s^\\top$ within every example."""
    return np.einsum("esab,ebcdf,esgd->eacgf", maps, within, maps, optimize=True)


def _pairs(left, right, length: int):
    """Products of rows within every example."""
    left, right = left.reshape(-1, length, *left.shape[1:]), right.reshape(-1, length, *right.shape[1:])
    return np.einsum("etcr,eudr->etcud", left, right, optimize=True)
