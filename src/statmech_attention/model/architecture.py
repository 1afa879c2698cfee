"""Sizes and prior variances of a network, checked and put into one shape."""

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.layers.chains import Chain, Layers


@dataclass(frozen=True)
class Architecture:
    r"""Layers, widths $(N_1..N_{L+1})$ and prior variances $(\sigma_0^2, .., \sigma_L^2, \sigma_a^2)$."""

    chain: Any  # a Chain, made of whatever `layers` may be
    widths: tuple
    variances: tuple

    def __post_init__(self):
        object.__setattr__(self, "chain", Chain.of(self.chain))

    @classmethod
    def of(cls, layers: Layers, width, variance=1.0) -> "Architecture":
        """Check layers, widths and variances; a scalar stands for one number per layer."""
        chain = Chain.of(layers)
        widths = _per_layer("width", width, len(chain.kinds), "(N_1, .., N_{L+1})", infinite=True)
        infinite = [checks.concrete(number) and math.isinf(number) for number in widths]
        if any(infinite) and not all(infinite):
            raise ValueError(f"width: wanted all widths finite or all infinite, got {widths}.")
        for number, layer in enumerate(chain.layers, start=1):
            before, after = widths[number - 1 : number + 1]
            if layer.keeps and checks.concrete(before, after) and before != after:
                raise ValueError(
                    f"width: wanted the same width before and after layer {number}, which adds its input to its "
                    f"output, got N_{number} = {before:g} and N_{number + 1} = {after:g}."
                )
        return cls(chain, widths, variances(variance, len(chain.layers)))

    @property
    def stage_widths(self) -> tuple:
        """The width of every stage: $N_l$, or $d$ of an inner one."""
        return tuple(stage.kind.inner if stage.inner else self.widths[stage.place] for stage in self.chain.stages)

    @property
    def stage_variances(self) -> tuple:
        r"""The prior variance of every array of weights, the projection's first; $\sigma_l$ each
        where a layer has two.
        """
        pairs = ((self.variances[1 + stage.place], stage.kind.inner) for stage in self.chain.stages)
        return (self.variances[0], *(variance if inner is None else variance**0.5 for variance, inner in pairs))

    @property
    def widest(self):
        """$N_{max}$, the width that $\\alpha = P / N_{max}$ is measured in."""
        return _numbers(self.widths).max(axis=0)

    @property
    def unit(self):
        """Unit of width in the action: $N_{max}$, or the largest head dimension if all $N_l$ are infinite."""
        dimensions = [kind.inner for kind in self.chain.kinds if kind.inner is not None]
        widest = self.widest
        xp = np if checks.concrete(widest) else jnp
        return xp.where(xp.isinf(widest), max(dimensions), widest)[()] if dimensions else widest

    @property
    def shares(self) -> tuple:
        """$N_l / N_{max}$, the weight of every stage's entropy, $d / N_{max}$ for an inner one; 1
        for an infinite width.

        A stage of infinite width stays where its entropy is smallest, whatever the weight.
        """
        widths = _numbers(self.stage_widths)
        xp = np if checks.concrete(widths) else jnp

        def finite(numbers):
            """With 1 for infinity, whose derivatives would be no numbers, not even where it is not taken."""
            return xp.where(xp.isfinite(numbers), numbers, 1.0)

        return tuple(xp.where(xp.isfinite(widths), finite(widths) / finite(self.unit), 1.0))


def variances(variance, layers: int) -> tuple:
    """The `layers + 2` prior variances, input projection first, readout last."""
    return _per_layer("variance", variance, layers + 2, "(sigma_0^2, sigma_1^2, .., sigma_L^2, sigma_a^2)")


def _numbers(numbers) -> Float[Array | np.ndarray, "numbers *batch"]:
    """Numbers as an array, in NumPy where they are known."""
    xp = np if checks.concrete(*numbers) else jnp
    return xp.stack(xp.broadcast_arrays(*(xp.asarray(number, float) for number in numbers)))


def _per_layer(name: str, value, count: int, meaning: str, infinite: bool = False) -> tuple:
    if not isinstance(value, (tuple, list)) and not getattr(value, "ndim", 0):
        return (checks.positive(name, value, infinite=infinite),) * count
    if len(value) != count:
        raise ValueError(f"{name}: wanted one number or {count} of them, {meaning}, got {len(value)}.")
    return tuple(checks.positive(f"{name}[{index}]", number, infinite=infinite) for index, number in enumerate(value))
