"""Accuracies, and numbers with their standard errors."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Estimate(NamedTuple):
    """A mean over examples, draws or networks and its standard error, of any shape."""

    mean: Float[np.ndarray, "..."]
    error: Float[np.ndarray, "..."]


def hit(outputs, labels):
    """Hit of every output, `(.., examples)`: 1, 0, or in between for an undecided one, in NumPy or JAX.

    One output is a hit if it has the label's sign, an exact zero half a hit. Of several the largest
    must be that of the largest label; a tie counts in part.
    """
    xp = outputs.__array_namespace__()
    if labels.ndim == 1:
        return 0.5 + 0.5 * xp.sign(outputs) * labels
    likeliest = outputs == xp.max(outputs, axis=-1, keepdims=True)
    true = labels == xp.max(labels, axis=-1, keepdims=True)
    return xp.sum(likeliest & true, axis=-1) / xp.sum(likeliest, axis=-1)
