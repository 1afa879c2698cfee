"""The heads of a network, numbered through its layers: which paths use them, and which are left after a removal."""

import numpy as np
from jaxtyping import Float, Int

from statmech_attention import _checks
from statmech_attention.paths import path_indices


def head_indices(heads) -> Int[np.ndarray, "heads 2"]:
    """Layer and number of every head of the network, in the order of its head scores: layer 1 first, counted from 0.

    Args:
        heads: number of heads in every layer, $(H_1, .., H_L)$.

    Returns:
        `(all heads, 2)` whole numbers, the layer before the head's number within it.

    Raises:
        ValueError: a layer without heads, or no layer.
    """
    heads = _checks.heads(heads)
    return np.array([(layer, head) for layer, count in enumerate(heads) for head in range(count)])


def path_heads(heads) -> Float[np.ndarray, "paths heads"]:
    """1 where a path goes through a head of the network, 0 elsewhere.

    Args:
        heads: number of heads in every layer.

    Returns:
        `(paths, all heads)`.
    """
    chosen = path_indices(heads)
    return np.stack([chosen[:, layer] == head for layer, head in head_indices(heads)], axis=1).astype(float)


def kept_heads(heads, removed) -> tuple[tuple[int, ...], ...]:
    """What a removal leaves of every layer.

    Args:
        heads: number of heads in every layer.
        removed: numbers of heads, counted through the network.

    Returns:
        For every layer the heads that stay, counted within it.

    Raises:
        ValueError: a head that is not there or named twice, a layer left without heads.
    """
    indices = head_indices(heads)
    chosen = np.asarray(removed)
    whole = chosen.ndim == 1 and (not chosen.size or np.issubdtype(chosen.dtype, np.integer))
    numbers = set(chosen.tolist()) if whole else set()
    if not whole or len(numbers) != chosen.size or not numbers <= set(range(len(indices))):
        raise ValueError(
            f"removed: wanted different heads out of 0..{len(indices) - 1}, counted through the layers of "
            f"{tuple(heads)} heads, got {removed!r}."
        )
    kept = tuple(
        tuple(int(head) for number, (place, head) in enumerate(indices) if place == layer and number not in numbers)
        for layer in range(len(heads))
    )
    for layer, left in enumerate(kept, start=1):
        if not left:
            raise ValueError(
                f"removed: wanted at least one head left in every layer, got none in layer {layer}. "
                f"Without it nothing passes through the network."
            )
    return kept
