r"""New inputs on levels of features: the recursion (K5) between their rows and the features.

For the rows of new inputs $Q = \delta_* d^\top / N$ and $V = \delta_* \delta_*^\top / N$, within an
example, go down with $D$. With $Q_\infty$ of infinite width, which (K3) gives exactly,

    C_* = sigma_l^2 sum_s B_s (Q_s - Q_inf U) A_s^T + C_*inf U,       Psi_* = C_* c chol^{-T},
    Q' = B_0 (Q - Q_inf U) A_0^T + .. + B_0 Q Phi^{-T} M^T Psi^T + Psi_* M Phi^T A_0^T
         + C_* + Psi_* (M M^T + f f^T - 1) Psi^T,

and $V'$ alike with $\Psi_*$ for $\Psi$. What the features leave out stays at its prior. $Q_s = Q$, but
for heads of a finite value dimension $Q_s = Q (1 + b_s D)$ and $V_s = V + Q b_s Q^\top$ with
$b_s = \Phi^{-\top} (f_s f_s^\top - 1) \Phi^{-1}$.

In all directions this is exact, also where new rows leave the span of those of training. In few it moves
part of what training leaves at its prior: a training input that is given as a new one then differs from the
regression. Against all directions this is as good as the formula of a projection, which does not.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.compiling import quick_jit
from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.kernels.in_blocks import (
    factors_and_keeps,
    levels_between,
    padded_blocks,
    pairs_at_once,
    summed_tokens,
)
from statmech_attention.theory.kernels.projected import ProjectedInputs
from statmech_attention.theory.levels.components import output_of_components
from statmech_attention.theory.levels.features import Seen, descended
from statmech_attention.theory.levels.ranking import Features, Ranked


class Descent(NamedTuple):
    """A solution on its way down: features, `Seen` of its levels, $U$, variances of the projection and of values."""

    features: Features
    seen: Seen
    top: Float[Array, "outputs outputs"]
    scale: Any
    variances: tuple[Any, ...]


def output(test: TokenInputs, train: TokenInputs, ranked: Ranked, features: Features, action, point, variances):
    """Mean (9) and variance (30) of the output on new inputs at a point, over pairs (example, output)."""
    if isinstance(train, ProjectedInputs):
        return output_of_components(test, train, ranked, action, point, variances)
    _, top, seen = descended(action, point)
    descent = Descent(features, seen, top, variances[0], tuple(variances[1:-1]))
    cross, own = new_kernels(test, ranked.beside(train, features.seen.shape[-1]), descent)
    return action.regression(point).predict(cross.reshape(own.size, -1).T, own.reshape(-1))


def new_kernels(test: TokenInputs, train: TokenInputs, descent: Descent):
    """Kernels of new examples, in the order in which they were given, from training with features beside its tokens.

    With the training examples, `(examples, outputs, others, outputs)`, and with themselves, `(examples, outputs)`.
    """
    others = list(padded_blocks(train, at_once := pairs_at_once(test, train)))
    factors, keeps = factors_and_keeps(train.chain, (1.0, *descent.variances, 1.0))
    order, found = np.concatenate([block.numbers for block in others]), list[Any]()
    for block in padded_blocks(test, at_once):
        one = block.cast(np.float64)
        each = [(*_limits(one[1:], other.cast(np.float64)[1:], factors, keeps), len(other.numbers)) for other in others]
        limits = jax.tree.map(lambda *parts: sum(parts), *(limit for limit, _, _ in each))
        kernel = jnp.concatenate([part[:, :known] for _, part, known in each], axis=1)[:, np.argsort(order)]
        found.append([part[: len(block.numbers)] for part in _of_block(one[1:], limits, kernel, descent, keeps)])
    given = np.argsort(test.order)
    cross, own = (jnp.concatenate(parts)[given] for parts in zip(*found, strict=True))
    return cross, own


@quick_jit(static=("keeps",))
def _limits(one, other, factors, keeps: tuple[int, ...]):
    r"""$Q_\infty$ of every level and its part that has passed values, from columns $\gamma$ beside tokens, and $K$."""
    tokens, wide = one[1], other[1]
    beside, levels = wide[..., tokens.shape[2] :], list[Any]()
    columns = beside.reshape(*wide.shape[:2], len(keeps) + 1, -1)
    for place, pair in enumerate(levels_between(one, other, factors, keeps)):
        levels.append([jnp.einsum("ptqu,qua->pta", part, columns[:, :, place], precision="highest") for part in pair])
        gram = pair[0]
    return levels, summed_tokens(tokens, wide[..., : tokens.shape[2]], gram)


@quick_jit(static=("keeps",), level=0)
def _of_block(block, limits, kernel, descent: Descent, keeps: tuple[int, ...]):
    """Kernels of a block of examples."""
    (maps, tokens, weights), top = block, descent.top
    rows = weights.size
    spread = [[jnp.einsum("na,cd->ncad", part.reshape(rows, -1), top) for part in pair] for pair in limits]
    above = spread[0][0], jnp.einsum("et,eu,cd->etcud", weights, weights, top)
    for place, layer in enumerate(reversed(range(len(maps)))):
        own = maps[layer]
        own = own if own.ndim == 4 else jnp.einsum("est,tu->estu", own, jnp.eye(weights.shape[1]))
        above = _below(own, keeps[layer], descent, place, layer, above, spread[place][0], spread[place + 1])
    across, within = above
    moved = (across - spread[-1][0]).reshape(*weights.shape, *across.shape[1:])
    seen = jnp.einsum("eti,etcad->eciad", tokens, moved, optimize=True) / np.sqrt(tokens.shape[2])
    cross = jnp.einsum("eciad,pia->ecpd", seen, descent.features.seen, optimize=True)
    own = jnp.einsum("eti,etcuc,eui->ec", tokens, within, tokens, optimize=True) / tokens.shape[2]
    return descent.scale * (cross + jnp.einsum("ep,cd->ecpd", kernel, top)), descent.scale * own


def _below(maps, kept: int, descent: Descent, place: int, layer: int, above, limit, below):
    """One layer down, with $Q_\\infty U$ above, and below, all of it and what has passed values."""
    across, within = above
    beyond, values = below
    outputs, length = len(descent.top), maps.shape[2]
    maps_between: Any = descent.features.maps
    variance = descent.variances[layer]
    seen = jax.tree.map(lambda part: part[place], descent.seen)  # of this level
    shape = len(across), outputs, -1  # rows, outputs, (feature, output)
    # What passes values: C_* with the features below, C_** within examples.
    moved = _mapped(maps, across - limit)
    passed, inside = moved[kept:], variance * _within(maps[:, kept:], within)
    if seen.bend is not None:  # heads of a finite value dimension
        whole = _mapped(maps, across.reshape(shape))[kept:]
        bent = whole @ seen.bend[: len(whole), None]
        passed = passed + (bent @ seen.gram).reshape(passed.shape)
        inside = inside + variance * sum(_pairs(*pair, length) for pair in zip(bent, whole, strict=True))
    down = maps_between.values[place][: len(passed)]
    through = jnp.einsum("sncbd,sab->ncad", passed, down, optimize=True)
    fresh = (variance * through + values).reshape(shape)
    # The part of it that labels have moved.
    psi = fresh @ seen.whitened
    shifted = psi @ seen.moment
    beneath, inside = fresh + shifted @ seen.psi.T, inside + _pairs(shifted, psi, length)
    if not kept:
        return beneath.reshape(across.shape), inside
    # Beside it the skip, and its pull on what passes values.
    beside = jnp.kron(maps_between.kept[place], np.eye(outputs))
    along = moved[0].reshape(shape) @ beside.T + (beyond - values).reshape(shape)
    raised = _mapped(maps, across.reshape(shape) @ seen.lifted)[0]
    cross = _pairs(raised, psi, length)
    beneath = beneath + along + raised @ seen.psi.T + psi @ (beside @ seen.gram @ seen.lifted).T
    inside = inside + _within(maps[:, :1], within) + cross + cross.transpose(0, 3, 4, 1, 2)
    return beneath.reshape(across.shape), inside


def _mapped(maps: Float[Array, "examples seeds tokens tokens"], columns):
    """$B_s$ times columns of the rows, which may have axes of their own: seeds, rows, .."""
    examples, _, length, _ = maps.shape
    below = jnp.einsum("estu,euc->setc", maps, columns.reshape(examples, length, -1), optimize=True)
    return below.reshape(len(below), *columns.shape)


def _within(maps, within):
    """$\\sum_s B_s V B_s^\\top$ within every example."""
    return jnp.einsum("esab,ebcdf,esgd->eacgf", maps, within, maps, optimize=True)


def _pairs(left, right, length: int):
    """Products of rows within every example."""
    left, right = left.reshape(-1, length, *left.shape[1:]), right.reshape(-1, length, *right.shape[1:])
    return jnp.einsum("etcr,eudr->etcud", left, right, optimize=True)
