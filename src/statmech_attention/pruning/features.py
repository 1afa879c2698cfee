r"""Principal components of attentioned inputs, fitted to training examples.

Kernels need only scalar products, which a few of a real token's hundreds of directions carry. With
$\langle |\xi^\pi|^2 \rangle / N_0 = 1$ widths, temperatures and prior variances mean the same in
all problems.
"""

from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from statmech_attention import checks
from statmech_attention.model.paths import AttentionedInputs


class Components(NamedTuple):
    r"""A map to principal components, $z \mapsto s\, R^\top (z - m)$, the same for every token and every path.

    Attributes:
        mean: $m$.
        axes: $R$, orthonormal columns, the largest principal component first.
        scale: $s$.
        variance_lost: share of the variance outside these axes, 0 to 1.
    """

    mean: Float[np.ndarray, " width"]
    axes: Float[np.ndarray, "width features"]
    scale: float
    variance_lost: float

    def of(self, attentioned: AttentionedInputs) -> AttentionedInputs:
        """Return attentioned inputs, training or other ones, with these features in double precision."""
        values = np.asarray(attentioned.values)
        checks.same("attentioned", "the features axis", values.shape[2], "the features fitted", len(self.mean))
        features = np.empty((*values.shape[:2], self.axes.shape[1]))
        for row, value in zip(features, values, strict=True):  # in double precision a little at a time
            row[:] = self.scale * ((value - self.mean) @ self.axes)
        checks.need_double("attentioned", features)
        return replace(attentioned, values=jnp.asarray(features))


def fitted_features(attentioned: AttentionedInputs, components: int) -> Components:
    r"""The first principal components over examples and paths, scaled to $\langle |\xi^\pi|^2 \rangle / N_0 = 1$.

    Args:
        attentioned: of the training examples, in any precision.
        components: $N_0$, how many there are to be: the number of features.
    """
    values = np.asarray(checks.instance("attentioned", attentioned, AttentionedInputs).values)
    examples, paths, width = values.shape
    components = checks.whole("components", components, most=min(width, examples * paths - 1))
    mean = values.mean(axis=(0, 1), dtype=float)
    moment = np.zeros((width, width))
    for value in values:
        centred = value - mean
        moment += centred.T @ centred / (examples * paths)
    variances, vectors = np.linalg.eigh(moment)
    kept, every = variances[::-1][:components].sum(), variances.sum()
    if not kept > 0:
        raise ValueError("attentioned: wanted inputs that differ, got the same for all examples and paths.")
    return Components(
        mean, vectors[:, ::-1][:, :components], float(np.sqrt(components / kept)), float(1 - kept / every)
    )
