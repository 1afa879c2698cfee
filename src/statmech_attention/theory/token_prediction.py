r"""New inputs in the theory without paths: the recursion (K5) between their rows and the features.

For the rows of new inputs $Q = \delta_* d^\top / N$ and $V = \delta_* \delta_*^\top / N$, within an
example, go down with $D$. With $Q_\infty$ of infinite width, which (K3) gives exactly,

    C_* = sigma_l^2 sum_s B_s (Q - Q_inf U) A_s^T + C_*inf U,         Psi_* = C_* c chol^{-T},
    Q' = B_0 (Q - Q_inf U) A_0^T + .. + B_0 Q Phi^{-T} M^T Psi^T + Psi_* M Phi^T A_0^T
         + C_* + Psi_* (M M^T + f f^T - 1) Psi^T,

and $V'$ alike with $\Psi_*$ for $\Psi$. What the features leave out stays at its prior.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.features import Features, grown
from statmech_attention.theory.infinite_width import infinite_width, seeded

_EXAMPLES = 16  # new examples at a time


class Descent(NamedTuple):
    """What a solution gives: features, their columns $\\gamma$, `Seen` of its levels, $U$ and variances."""

    train: TokenInputs
    columns: tuple[Float[np.ndarray, "rows _features"], ...]
    features: Features
    seen: Any  # `Seen` of `theory.directions`
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
    limits: list = []

    def see(layer, gram, values):
        columns = descent.columns[len(limits)]
        limits.append([grown(one @ columns, len(one), descent.features.size) for one in (gram, values)])

    kernel = infinite_width(rows, descent.train, (1.0, *descent.variances[1:-1], 1.0), see)
    top, layers = descent.top, len(rows.chain.layers)
    limit = limits[0][0]
    across = np.einsum("na,cd->ncad", limit, top)
    weights = rows.weights.reshape(-1, rows.groups[0].length)
    within = np.einsum("et,eu,cd->etcud", weights, weights, top)
    for place, layer in enumerate(reversed(range(layers))):
        limit, (across, within) = (
            limits[place + 1][0],
            _below(rows, descent, place, layer, (across, within), limit, limits[place + 1]),
        )
    tokens = rows.tokens.reshape(*weights.shape, -1)
    scale = descent.variances[0]
    moved = (across - np.einsum("na,cd->ncad", limit, top)).reshape(*weights.shape, *across.shape[1:])
    seen = np.einsum("eti,etcad->eciad", tokens, moved, optimize=True) / np.sqrt(tokens.shape[2])
    cross = np.einsum("eciad,pia->ecpd", seen, descent.features.seen, optimize=True)
    own = np.einsum("eti,etcuc,eui->ec", tokens, within, tokens, optimize=True) / tokens.shape[2]
    return scale * (cross + np.einsum("ep,cd->ecpd", kernel, top)), scale * own


def _below(rows, descent, place, layer, above, limit, limits):
    """One layer down."""
    across, within = above
    features, seen, top = descent.features.layers, descent.seen, descent.top
    variance, kept = descent.variances[1 + layer], int(rows.chain.layers[layer].keeps)
    length = rows.groups[0].length
    maps = rows.groups[0].maps[layer]
    excess = across - np.einsum("na,cd->ncad", limit, top)
    through = seeded(rows, layer, excess.reshape(len(excess), -1)).reshape(-1, *excess.shape)
    passed = np.einsum("sncbd,sab->ncad", through[kept:], features.values[place][: len(through) - kept], optimize=True)
    fresh = variance * passed + np.einsum("na,cd->ncad", limits[1], top)
    flat = fresh.reshape(*fresh.shape[:2], -1)
    psi, own = flat @ seen.whitened[place], seen.psi[place]
    moved = psi @ seen.moment[place]
    found = flat + moved @ own.T
    inside = variance * _within(maps[:, kept:], within) + _pairs(moved, psi, length)
    if kept:
        gram, lifted = seen.gram[place], seen.lifted[place]
        beside = np.kron(features.kept[place], np.eye(len(top)))
        along = through[0].reshape(flat.shape) @ beside.T
        along = along + np.einsum("na,cd->ncad", limits[0] - limits[1], top).reshape(flat.shape)
        raised = across.reshape(*across.shape[:2], -1) @ lifted
        raised = seeded(rows, layer, raised.reshape(len(raised), -1))[0].reshape(raised.shape)
        found = found + along + raised @ own.T + psi @ (beside @ gram @ lifted).T
        cross = _pairs(raised, psi, length)
        inside = inside + _within(maps[:, :1], within) + cross + cross.transpose(0, 3, 4, 1, 2)
    return found.reshape(across.shape), inside


def _within(maps, within) -> Float[np.ndarray, "examples tokens outputs tokens outputs"]:
    """$\\sum_s B_s V B_s^\\top$ within every example."""
    return np.einsum("esab,ebcdf,esgd->eacgf", maps, within, maps, optimize=True)


def _pairs(left, right, length: int):
    """Products of rows within every example."""
    left, right = (one.reshape(-1, length, *one.shape[1:]) for one in (left, right))
    return np.einsum("etcr,eudr->etcud", left, right, optimize=True)
