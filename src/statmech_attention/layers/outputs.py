"""Readouts: one output, or several side by side."""

from dataclasses import dataclass

import numpy as np

from statmech_attention import checks
from statmech_attention.layers.kind import Readout


@dataclass(frozen=True)
class OneOutput(Readout):
    r"""$f(x) = a \cdot x^L_{t^*} / \sqrt{N_{L+1}}$, (4): the readout where `heads` names none. $U^{(L+1)}$ is a scalar."""

    @property
    def value_matrices(self):
        return 1

    def mixing(self, deviation):
        return np.array([[deviation]])

    @property
    def axes(self):
        return ()

    @property
    def spelled(self):
        return ()


@dataclass(frozen=True)
class Outputs(Readout):
    r"""$f_c(x) = a_c \cdot x^L_{t^*} / \sqrt{N_{L+1}}$, $c = 1..C$: the last of `heads`. $U^{(L+1)}$ is a $C \times C$ matrix.

    Labels are `(examples, C)`. In an order parameter the output is the fastest index of a partial path; $U^{(1)}$ runs over
    pairs (path, output).

    Attributes:
        count: $C$, at least 1.
    """

    count: int

    def __post_init__(self):
        if not checks.is_whole(self.count, 1):
            raise ValueError(f"Outputs: wanted a whole number of at least 1, got {self.count!r}.")
        object.__setattr__(self, "count", int(self.count))

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
