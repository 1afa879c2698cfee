r"""Features of the backward signals of every level: few numbers that stand for all rows (example, token).

Rows have the Gram matrix $G_l$ of infinite width at level $l$, see `token_inputs`. A feature is
$d_a = \sum_{\mu t} \gamma_{\mu t, a} \delta_{\mu t}$, with $\gamma^\top G_l \gamma = 1$, so that

    delta_{mu t} = sum_a E_{mu t, a} d_a + rest,        E = G_l gamma.

The labels feel a level through $W = \sigma_0^2 N_0^{-1} (R + R Y Y^\top R)$ with
$R = (K + T)^{-1}$, which the adjoint of (K3) carries from the inputs up,

    O_0[mu t, nu s] = W_{mu nu} x_{mu t} . x_{nu s},        O_{l+1} = sum_s B_s^T O_l B_s.

At every level $\mathrm{tr}(O G) = \mathrm{tr}(W K)$. The features are the leading eigenvectors of
$O G$, and the eigenvalues left out are what the labels feel of the rest: a balanced truncation, as
in control theory. With all eigenvectors nothing is left out.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.kernels.in_blocks import layer_step

_RANK = 1e-12  # relative size of an eigenvalue that is rounding
_DENSE = 700  # rows of which all eigenvectors are found
_MORE = 16  # random columns beyond the features that are sought
_ROUNDS = 3
_BASIS = 1e-10  # relative size of a direction that values reach
_SMALLEST = 1e-14
_WELL = 1e-6  # of all of them, if the features themselves will do


class Level(NamedTuple):
    r"""A layer in terms of features: of its input, `below`, and of its output, `above`.

    Attributes:
        kept: $\gamma^\top B_0 E$ of the kept seed, zero without one.
        values: $\gamma^\top B_s E$ of the others, at a unit variance.
        kept_rest, values_rest: Gram matrices of what passes the layer from the rest above it, those
            of values at a unit variance.
        passed: $\gamma^\top C \gamma$ with the Gram matrix $C$ of all that has passed values.
    """

    kept: Float[np.ndarray, "below above"]
    values: Float[np.ndarray, "seeds below above"]
    kept_rest: Float[np.ndarray, "below below"]
    values_rest: Float[np.ndarray, "below below"]
    passed: Float[np.ndarray, "below below"]


class LevelMaps(NamedTuple):
    """A layer between features, or all of them from the readout down, which have the same shapes, in one.

    Missing features are added that nothing moves or sees, and missing seeds that are zero. `basis`
    spans what values can change, in columns the missing ones of which are zero, with a one in
    `spare`; the others are as in `Level`.
    """

    kept: Float[Array | np.ndarray, "*layers features features"] | None
    kept_rest: Float[Array | np.ndarray, "*layers features features"] | None
    values: Float[Array | np.ndarray, "*layers seeds features features"]
    values_rest: Float[Array | np.ndarray, "*layers features features"]
    basis: Float[Array | np.ndarray, "*layers features features"]
    spare: Float[Array | np.ndarray, "*layers features"]


class Features(NamedTuple):
    r"""All that an action needs of the inputs.

    `seen` is $\sum_t E_{\mu t, a} x_{\mu t} / \sqrt{N_0}$, `rest` the kernel that features leave out,
    both at a unit variance of projection and readout; `missing` as in `Ranked`.
    """

    maps: LevelMaps
    seen: Float[Array | np.ndarray, "examples columns features"]
    rest: Float[Array | np.ndarray, "examples examples"]
    missing: tuple[Any, Any] | None = None


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["columns", "images", "values", "total", "kernel", "levels", "missing"],
    meta_fields=["asked"],
)
@dataclass(frozen=True)
class Ranked:
    """Features of every level, the most important first, and `levels` between them; all from the readout down.

    At most so many of every level were `asked` for. Of examples without a row `missing` has the number, and
    the mean of what is left out of their kernel.
    """

    columns: tuple[Float[np.ndarray, "_rows _features"], ...]
    images: tuple[Float[np.ndarray, "_rows _features"], ...]
    values: tuple[Float[np.ndarray, " _features"], ...]
    total: float
    kernel: Float[np.ndarray, "examples examples"]
    levels: tuple[Level, ...]
    asked: int
    missing: tuple[float, float] | None = None

    @property
    def most(self) -> int:
        """The largest number of features of a level."""
        return max(map(len, self.values))

    def first(self, count: int, rows: TokenInputs) -> Features:
        """The chain of at most `count` features of every level."""
        count = max(1, min(count, self.most))  # one that nothing moves or sees, if there is none
        seeds = max(len(level.values) for level in self.levels)
        skips = any(layer.keeps for layer in rows.chain.layers)
        each = [_cut(level, count, seeds, skips) for level in self.levels]
        maps = jax.tree.map(lambda *parts: np.stack(parts), *each)
        seen = rows.seen(self.images[-1][:, :count])
        flat = seen.reshape(len(seen), -1)
        features = Features(maps, grown(seen, *seen.shape[:2], count), self.kernel - flat @ flat.T, self.missing)
        return jax.tree.map(jnp.asarray, features)

    def beside(self, rows: TokenInputs, count: int) -> TokenInputs:
        """Inputs with the first columns of every level beside the features of their tokens."""
        return replace(rows, tokens=np.concatenate([rows.tokens, *self.few(count)], axis=1))

    def few(self, count: int) -> list[Float[np.ndarray, "_rows features"]]:
        """The first columns of every level, with zeros for those that are missing."""
        return [grown(level[:, :count], len(level), count) for level in map(np.asarray, self.columns)]

    def left_out(self, count: int) -> float:
        """The largest sum of eigenvalues beyond the first `count` of a level: a change of $2 N S$ to first order."""
        return max(self.total - float(np.sum(values[:count])) for values in self.values)


def no_features(rows, kernel, missing: tuple[float, float] | None = None) -> Ranked:
    """The kernel of infinite width alone, where no feature moves."""
    columns = rows.weights if isinstance(rows, TokenInputs) else rows.values[0, 0]
    nothing, each = np.zeros((len(columns), 0)), (len(rows.chain.layers) + 1) * (np.zeros(0),)
    square = np.zeros((0, 0))
    levels = tuple(
        Level(square, np.zeros((layer.seeds - int(layer.keeps), 0, 0)), square, square, square)
        for layer in reversed(rows.chain.layers)
    )
    return Ranked(len(each) * (nothing,), len(each) * (nothing,), each, 0.0, kernel, levels, 0, missing)


def ranked_features(rows: TokenInputs, labels, temperature, variances, most: int) -> Ranked:
    """Features of all levels, at most so many of each; two compiled passes of (K3), one down and one up.

    Eigenvectors and products with few columns are NumPy's: for every new rank JAX took longer to compile them than
    NumPy to find them, and once compiled it was no faster.
    """
    grams, layers = [np.outer(rows.weights, rows.weights)], range(len(rows.chain.layers))
    for layer in reversed(layers):
        grams.append(layer_step(rows, rows, layer, grams[-1], variances[1 + layer]))
    products = rows.tokens @ rows.tokens.T / rows.tokens.shape[1]
    kernel = rows.per_example(rows.per_example(grams[-1] * products).T).T
    pull = pull_of_labels(kernel, labels, temperature, variances[0] * variances[-1])
    felt = rows.spread(rows.spread(pull).T).T * products
    total, ranked, levels = float(np.sum(felt * grams[-1])), [_leading(grams.pop(), felt, most)], list[Level]()
    for layer in layers:
        felt = layer_step(rows, rows, layer, felt, variances[1 + layer], up=True)
        ranked.insert(0, _leading(grams[-1], felt, most))
        levels.insert(0, _level(rows, layer, ranked[1], grams.pop(), ranked[0], variances[1 + layer]))
    columns, images, values = zip(*ranked, strict=True)
    return Ranked(columns, images, values, total, kernel, tuple(levels), most)


def pull_of_labels(kernel, labels, temperature, variance) -> Float[np.ndarray, "examples examples"]:
    """$W$ between examples, summed over outputs."""
    resolvent = np.linalg.inv(variance * kernel + temperature * np.eye(len(kernel)))
    solved = resolvent @ np.asarray(labels, float).reshape(len(kernel), -1)
    return variance * (solved.shape[1] * resolvent + solved @ solved.T)


def _leading(gram, felt, most: int):
    r"""$\gamma$, $E = G \gamma$ and the eigenvalues of the leading eigenvectors of $O G$."""
    if len(gram) <= _DENSE:
        sought = np.linalg.eigh(gram)[1]
    else:
        sought = np.random.default_rng(0).normal(size=(len(gram), min(len(gram), most + _MORE)))
        for _ in range(_ROUNDS):
            sought = np.linalg.qr(felt @ (gram @ sought))[0]
    image = gram @ sought
    sizes, vectors = np.linalg.eigh(sought.T @ image)
    real = sizes > _RANK * sizes[-1]
    frame = vectors[:, real] / np.sqrt(sizes[real])
    sought, image = sought @ frame, image @ frame
    values, vectors = np.linalg.eigh(image.T @ felt @ image)
    leading = vectors[:, ::-1][:, :most]
    return sought @ leading, image @ leading, values[::-1][:most]


def _level(rows: TokenInputs, layer: int, below, gram, above, variance) -> Level:
    """A layer, from columns and images of the features below, and the Gram matrix and their images above."""
    (columns, own, _), (_, images, _) = below, above
    keeps, through, beside = int(rows.chain.layers[layer].keeps), list[Any](), list[Any]()
    for group in rows.groups:
        left, right = columns[group.rows], images[group.rows]
        seeds = group.maps[layer].swapaxes(0, 1)
        through.append([left.T @ _passed(maps, right) for maps in seeds])
        beside += [_passed(maps.swapaxes(1, -1), left) for maps in seeds[:keeps]]
    along = (kept := np.concatenate(beside)).T @ gram @ kept if keeps else np.zeros(2 * columns.shape[1:])
    return level_between(np.sum(through, axis=0), keeps, columns.T @ own - along, along, variance)


def _passed(maps, columns) -> Float[np.ndarray, "rows columns"]:
    """$B_s$, or its diagonal, of examples of one length times columns of their rows."""
    parts = columns.reshape(*maps.shape[:2], -1)
    return (maps[..., None] * parts if maps.ndim == 2 else maps @ parts).reshape(columns.shape)


def level_between(through, keeps: int, across, along, variance) -> Level:
    """A layer of these maps between features, a kept seed's first; the rest is what they miss."""
    kept, values = through[:keeps].sum(axis=0), through[keeps:]
    kept_rest = keeps * (along - kept @ kept.T)
    values_rest = across / variance - np.tensordot(values, values, ((0, 2), (0, 2)))
    return Level(kept, values, kept_rest, values_rest, across)


def _cut(level: Level, count: int, seeds: int, skips: bool) -> LevelMaps:
    """The layer between the first features; what the others carried goes to the rest."""
    few = slice(count)
    kept, values = level.kept[few, count:], level.values[:, few, count:]
    kept_rest = level.kept_rest[few, few] + kept @ kept.T
    values_rest = level.values_rest[few, few] + np.tensordot(values, values, ((0, 2), (0, 2)))
    missing = np.arange(count) >= len(values_rest)
    basis = grown(_spanning(level.passed[few, few]), count, count)
    return LevelMaps(
        grown(level.kept[few, few], count, count) if skips else None,
        grown(kept_rest, count, count) if skips else None,
        grown(level.values[:, few, few], seeds, count, count),
        grown(values_rest, count, count) + np.diag(1.0 * missing),
        basis,
        np.where(basis.any(axis=0), 0.0, 1.0),
    )


def grown(array: np.ndarray, *shape: int) -> np.ndarray:
    """The array in the first corner of a larger one of zeros."""
    return np.pad(array, [(0, size - own) for size, own in zip(shape, array.shape, strict=True)])


def _spanning(gram: np.ndarray) -> np.ndarray:
    """Columns that span a Gram matrix."""
    if not len(gram):
        return gram
    sizes, vectors = np.linalg.eigh(gram)
    if sizes[0] > _WELL * sizes[-1]:
        return np.eye(len(gram))
    real = sizes > max(_BASIS * sizes[-1], _SMALLEST)
    return (vectors[:, real] / np.sqrt(sizes[real]))[:, ::-1]
