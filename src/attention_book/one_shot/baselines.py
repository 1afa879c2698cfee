"""Other ways to choose heads, to compare the theory's scores with: scores of other authors, and the best orders."""

import itertools
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float, Int

from attention_book.one_shot.removal import checked_contributions, masked_outputs
from statmech_attention import checks
from statmech_attention.layers.chains import Layers
from statmech_attention.model.attention import Attention
from statmech_attention.model.inputs import booleans, given_matrices
from statmech_attention.pruning import head_indices
from statmech_attention.theory.kernels.of_paths import path_heads
from statmech_attention.theory.kernels.regression import hit

_AT_ONCE = 100  # networks; their outputs are in memory together


class Removals(NamedTuple):
    """Numbers of the heads that are removed together, and the accuracies without them."""

    removed: Int[np.ndarray, "choices removals"]
    accuracy: Float[np.ndarray, " choices"]


def taylor_importance(
    contributions: ArrayLike, labels: ArrayLike, *, layers: Layers, signed: bool = False, bias: float = 0.0
) -> Float[np.ndarray, " heads"]:
    r"""$I_{l,h} = \frac1P \sum_\mu | \partial (f_\mu - y_\mu)^2 / \partial g |$ with a gate $g$ on
    a head's output, at $g = 1$.

    As Michel et al. (2019), with the squared error for their loss; with `signed` the rise of the
    mean error to first order when the gate closes.
    """
    contributions, layers = checked_contributions(contributions, layers)
    labels = np.asarray(checks.labels(labels, len(contributions), axes=layers.readout.axes))
    residual = contributions.sum(axis=1) + bias - labels
    through = np.moveaxis(contributions, 1, -1) @ path_heads(layers)
    slope = 2 * (residual[..., None] * through).reshape(len(labels), -1, through.shape[-1]).sum(axis=1)
    return -slope.mean(axis=0) if signed else np.abs(slope).mean(axis=0)


def head_confidence(
    attention: Attention, *, layout: str = "key_query", mask: ArrayLike | None = None
) -> Float[np.ndarray, " heads"]:
    r"""Return the mean of a head's largest weight over queries and examples, $\max_s \Omega_{st}$
    (Voita et al. 2019).
    """
    given: list = list(attention)  # type: ignore[arg-type]
    examples, tokens = len(given[0]), np.shape(given[0])[-1]
    mask = None if mask is None else booleans("mask", mask, (examples, tokens))
    matrices = given_matrices(given, (examples, tokens), layout=layout, mask=mask)
    largest = [np.asarray(layer).max(axis=2) for layer in matrices]
    # Padding has none, so that a sum over all queries is one over tokens.
    queries = [layer[:, 0].size if mask is None else mask.sum() for layer in largest]
    return np.concatenate([layer.sum(axis=(0, 2)) / count for layer, count in zip(largest, queries, strict=True)])


def every_removal(
    contributions: ArrayLike, labels: ArrayLike, *, layers: Layers, count: int, bias: float = 0.0
) -> Removals:
    """Return the accuracy without any `count` heads, for all choices that leave every layer enough of them."""
    contributions, layers = checked_contributions(contributions, layers)
    labels, layer = np.asarray(labels), head_indices(layers=layers)[:, 0]
    fewest = np.array([kind.fewest for kind in layers.layers])
    chosen = np.array(list(itertools.combinations(range(len(layer)), count)), int)
    kept = np.ones((len(chosen), len(layer)), bool)
    kept[np.arange(len(chosen))[:, None], chosen] = False
    left = np.stack([kept[:, layer == number].sum(axis=1) for number in range(len(fewest))], axis=1)
    allowed = np.all(left >= fewest, axis=1)
    if not np.any(allowed):
        raise ValueError(f"count: wanted so few heads that a network is left of {layers.shorthand}, got {count}.")
    parts = np.array_split(kept[allowed], -(-int(allowed.sum()) // _AT_ONCE))
    outputs = (masked_outputs(contributions, part, layers=layers, bias=bias) for part in parts)
    return Removals(chosen[allowed], np.concatenate([hit(output, labels).mean(axis=1) for output in outputs]))
