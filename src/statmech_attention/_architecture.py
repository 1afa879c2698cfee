"""Sizes and prior variances of a network, checked and put into one shape."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import jax.numpy as jnp
import numpy as np

from statmech_attention import _checks


@dataclass(frozen=True)
class Architecture:
    """Heads $(H_1..H_L)$, widths $(N_1..N_{L+1})$, prior variances $(\\sigma_0^2, .., \\sigma_L^2, \\sigma_a^2)$."""

    heads: tuple[int, ...]
    widths: tuple
    variances: tuple[float, ...]

    @property
    def partial_paths(self) -> tuple[int, ...]:
        """$d_l = \\prod_{m \\ge l} H_m$ for $l = 1..L+1$; the last is 1."""
        return tuple(math.prod(self.heads[layer:]) for layer in range(len(self.heads) + 1))

    @property
    def widest(self):
        """$N_{max}$, the width that $\\alpha = P / N_{max}$ is measured in."""
        return max(self.widths) if _checks.concrete(*self.widths) else reduce(jnp.maximum, self.widths)

    @property
    def shares(self) -> tuple:
        """$N_l / N_{max}$, the weight of every layer's entropy; 1 for equal widths, infinite ones too."""
        widest = self.widest
        if _checks.concrete(widest) and math.isinf(widest):
            return (1.0,) * len(self.widths)
        return tuple(width / widest for width in self.widths)


def architecture(heads, width, variance=1.0) -> Architecture:
    """Checked `Architecture`: scalars stand for one number a layer."""
    heads = _checks.heads(heads)
    widths = _per_layer("width", width, len(heads) + 1, "(N_1, .., N_{L+1})", infinite=True)
    infinite = [_checks.concrete(number) and math.isinf(number) for number in widths]
    if any(infinite) and not all(infinite):
        raise ValueError(f"width: wanted all widths finite or all infinite, got {widths}.")
    return Architecture(heads, widths, variances(variance, len(heads)))


def variances(variance, layers: int) -> tuple[float, ...]:
    """The `layers + 2` prior variances, input projection first, readout last."""
    return _per_layer("variance", variance, layers + 2, "(sigma_0^2, sigma_1^2, .., sigma_L^2, sigma_a^2)")


def _per_layer(name: str, value, count: int, meaning: str, infinite: bool = False) -> tuple:
    if not isinstance(value, (Sequence, np.ndarray)) or getattr(value, "ndim", 1) == 0:
        return (_checks.positive(name, value, infinite=infinite),) * count
    if len(value) != count:
        raise ValueError(f"{name}: wanted one number or {count} of them, {meaning}, got {len(value)}.")
    return tuple(_checks.positive(f"{name}[{index}]", number, infinite=infinite) for index, number in enumerate(value))
