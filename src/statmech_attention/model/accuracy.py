"""Accuracies, and numbers with their standard errors."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Estimate(NamedTuple):
    """A mean and its standard error, of any shape.

    Attributes:
        mean: over examples, draws or networks.
        error: its standard error.
    """

    mean: Float[np.ndarray, "..."]
    error: Float[np.ndarray, "..."]


def right(outputs, labels):
    """Hit of every example's output: 1, 0, or in between if it is undecided.

    With one output: 1 where it has the label's sign; an exact zero is half right. With several: 1 where the largest output
    is that of the largest label; a tie counts in part.

    Args:
        outputs: `(.., examples)`, or `(.., examples, outputs)`; arrays of NumPy or of JAX.
        labels: `(examples,)`, every one +1 or -1; or `(examples, outputs)`.

    Returns:
        `(.., examples)`.
    """
    xp = outputs.__array_namespace__()
    if labels.ndim == 1:
        return 0.5 + 0.5 * xp.sign(outputs) * labels
    likeliest = outputs == xp.max(outputs, axis=-1, keepdims=True)
    own = labels == xp.max(labels, axis=-1, keepdims=True)
    return xp.sum(likeliest & own, axis=-1) / xp.sum(likeliest, axis=-1)
