"""Sizes and prior variances of a network, checked and put into one shape."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np

from statmech_attention import checks
from statmech_attention.layers import Chain, Kind


@dataclass(frozen=True)
class Architecture:
    """Layers as `layers` spells them, widths $(N_1..N_{L+1})$, prior variances
    $(\\sigma_0^2, .., \\sigma_L^2, \\sigma_a^2)$.
    """

    layers: tuple[int | Kind, ...]
    widths: tuple
    variances: tuple

    @classmethod
    def of(cls, layers, width, variance=1.0) -> "Architecture":
        """Check layers, widths and variances; a scalar stands for one number per layer."""
        chain = Chain.of(layers)
        widths = _per_layer("width", width, len(chain.kinds), "(N_1, .., N_{L+1})", infinite=True)
        infinite = [checks.concrete(number) and math.isinf(number) for number in widths]
        if any(infinite) and not all(infinite):
            raise ValueError(f"width: wanted all widths finite or all infinite, got {widths}.")
        for number, (layer, entering, leaving) in enumerate(
            zip(chain.layers, widths, widths[1:], strict=False), start=1
        ):
            layer.check_widths(number, entering, leaving)
        return cls(chain.spelled, widths, variances(variance, len(chain.layers)))

    @property
    def chain(self) -> Chain:
        """The layers and the readout."""
        return Chain.of(self.layers)

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
        return max(self.widths) if checks.concrete(*self.widths) else reduce(jnp.maximum, self.widths)

    @property
    def unit(self):
        """Unit of width in the action: $N_{max}$, or the largest head dimension if all $N_l$ are infinite."""
        widest = self.widest
        dimensions = [kind.inner for kind in self.chain.kinds if kind.inner is not None]
        if not dimensions:
            return widest
        if checks.concrete(widest):
            return max(dimensions) if math.isinf(widest) else widest
        return jnp.where(jnp.isinf(widest), max(dimensions), widest)

    @property
    def shares(self) -> tuple:
        """$N_l / N_{max}$, the weight of every stage's entropy, $d / N_{max}$ for an inner one; 1
        for an infinite width.

        A stage of infinite width stays where its entropy is smallest, whatever the weight.
        """
        unit, widths = self.unit, self.stage_widths
        if checks.concrete(*widths):
            return tuple(1.0 if math.isinf(width) else width / unit for width in widths)
        # No infinity may meet another one, not even where it is not taken: the derivative would be no number.
        known = jnp.where(jnp.isfinite(unit), unit, 1.0)
        finite = [jnp.isfinite(width) for width in widths]
        return tuple(
            jnp.where(one, jnp.where(one, width, 1.0) / known, 1.0) for one, width in zip(finite, widths, strict=True)
        )


def variances(variance, layers: int) -> tuple:
    """The `layers + 2` prior variances, input projection first, readout last."""
    return _per_layer("variance", variance, layers + 2, "(sigma_0^2, sigma_1^2, .., sigma_L^2, sigma_a^2)")


def _per_layer(name: str, value, count: int, meaning: str, infinite: bool = False) -> tuple:
    listed = isinstance(value, (Sequence, np.ndarray, jax.Array)) and not isinstance(value, (str, bytes, bytearray))
    if not listed or getattr(value, "ndim", 1) == 0:
        return (checks.positive(name, value, infinite=infinite),) * count
    if len(value) != count:
        raise ValueError(f"{name}: wanted one number or {count} of them, {meaning}, got {len(value)}.")
    return tuple(checks.positive(f"{name}[{index}]", number, infinite=infinite) for index, number in enumerate(value))
