"""Attentioned inputs that a record of encoded sentences holds, so that points of it are computed again without the encoder."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

from attention_book.experiments.encoded_grid import Problem
from attention_book.experiments.encoded_tasks import STEP
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.pruning.heads import kept_heads
from statmech_attention.pruning.removal import removal_order

_HEADS = 4  # whose test sentences are stored, or as near as there are sizes


class Stored(NamedTuple):
    """Attentioned inputs of one task in a record, by which points of it are computed again without the encoder.

    Attributes:
        train: of all training sentences, of the deep network.
        labels: theirs.
        kept: the heads that the score "both" keeps of each layer.
        test: of all test sentences, on the paths through these heads.
        test_labels: theirs.
    """

    train: AttentionedInputs
    labels: Float[np.ndarray, " examples"]
    kept: tuple[tuple[int, ...], ...]
    test: AttentionedInputs
    test_labels: Float[np.ndarray, " test"]


def inputs_of(problem: Problem, scores, sizes: Sequence[int]) -> Stored:
    """What is stored of a problem.

    Args:
        problem: of the deep network.
        scores: of its heads, "both".
        sizes: numbers of heads kept, one of which is taken.

    Returns:
        `Stored`.
    """
    heads = problem.train.heads
    size = min(sizes, key=lambda size: abs(size - _HEADS))
    kept = kept_heads(heads, removal_order(scores, heads=heads)[: sum(problem.train.chain.heads) - size])
    return Stored(problem.train, problem.labels, kept, problem.test.keep_heads(kept), problem.test_labels)


def dataset_of(stored: Stored) -> xr.Dataset:
    """Whole numbers, as `stored_inputs` reads them."""

    def small(inputs: AttentionedInputs):
        return np.round(np.asarray(inputs.values) / STEP).astype(np.int16)

    layers = np.repeat(np.arange(len(stored.kept)), [*map(len, stored.kept)])
    return xr.Dataset(
        {
            "stored_inputs": (("example", "path", "feature"), small(stored.train)),
            "stored_labels": ("example", stored.labels.astype(np.int8)),
            "stored_test_inputs": (("test_example", "stored_path", "feature"), small(stored.test)),
            "stored_test_labels": ("test_example", stored.test_labels.astype(np.int8)),
            "stored_head": ("kept_head", [head for layer in stored.kept for head in layer]),
            "stored_layer": ("kept_head", layers),
        }
    )


def stored_inputs(recorded: xr.Dataset) -> Stored:
    """The attentioned inputs in a record.

    Args:
        recorded: of `EncodedHeads` with a task stored.

    Returns:
        `Stored`.

    Raises:
        ValueError: none are stored there.
    """
    if "stored_inputs" not in recorded:
        raise ValueError("recorded: wanted a record with a task stored, got one without.")
    layers, numbers = recorded["stored_layer"].values, recorded["stored_head"].values
    count = int(layers.max()) + 1
    kept = tuple(tuple(numbers[layers == layer].tolist()) for layer in range(count))
    train, test = (jnp.asarray(STEP * recorded[name].values) for name in ("stored_inputs", "stored_test_inputs"))
    labels, test_labels = (recorded[name].values.astype(float) for name in ("stored_labels", "stored_test_labels"))
    # All layers of the deep network have as many heads as the encoder's.
    heads = (round(train.shape[1] ** (1 / count)),) * count
    return Stored(
        AttentionedInputs(train, heads), labels, kept, AttentionedInputs(test, tuple(map(len, kept))), test_labels
    )
