"""Readouts: one output, or several side by side."""

from dataclasses import dataclass

import numpy as np

from statmech_attention import checks
from statmech_attention.layers.kind import Readout


@dataclass(frozen=True)
class OneOutput(Readout):
    r"""$f(x) = a \cdot x^L_{t^*} / \sqrt{N_{L+1}}$, (4): the default readout. $U^{(L+1)}$ is a scalar."""

    value_matrices = 1
    axes = ()
    shorthand = ()

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
    def shorthand(self):
        return (self,)
