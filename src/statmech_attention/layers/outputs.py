"""Readouts: one output, or several side by side, and the tokens that they read."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from statmech_attention import checks
from statmech_attention.layers.kind import Readout


@dataclass(frozen=True)
class OneOutput(Readout):
    r"""$f(x) = a \cdot x^L_{t^*} / \sqrt{N_{L+1}}$, (4): the default readout. $U^{(L+1)}$ is a scalar."""

    value_matrices = 1
    axes = ()
    spelled = ()

    def mixing(self, deviation):
        return np.array([[deviation]])


@dataclass(frozen=True)
class Outputs(Readout):
    r"""$f_c(x) = a_c \cdot x^L_{t^*} / \sqrt{N_{L+1}}$, $c = 1..C$: the last of `layers`.
    $U^{(L+1)}$ is a $C \times C$ matrix.

    Labels are `(examples, C)`. In $U$ the output is the fastest index of a path.

    Attributes:
        count: $C$, at least 1.
    """

    count: int

    def __post_init__(self):
        object.__setattr__(self, "count", checks.whole("Outputs", self.count))

    @property
    def value_matrices(self):
        return self.count

    def mixing(self, deviation):
        return deviation * np.eye(self.count)

    @property
    def axes(self):
        return (self.count,)

    @property
    def spelled(self):
        return (self,)


def readout_weights(readout, tokens: int) -> Float[np.ndarray, " tokens"]:
    """Weights, of sum one, of the tokens for "first", "last", "mean" or an index, $t^*$ of (4)."""
    if isinstance(readout, str) and readout == "mean":
        return np.full(tokens, 1 / tokens)
    index = {"first": 0, "last": tokens - 1}.get(readout) if isinstance(readout, str) else readout
    if isinstance(index, (bool, str)) or not isinstance(index, (int, np.integer)) or not 0 <= index < tokens:
        raise ValueError(f"readout: wanted 'first', 'last', 'mean' or an index in 0..{tokens - 1}, got {readout!r}.")
    return np.eye(1, tokens, int(index))[0]
