r"""Fewer features for attentioned inputs: principal components, fitted to training examples.

Real tokens have hundreds of features of all sizes. Kernels need their scalar products alone, most of which a few directions
hold; and widths, temperatures and prior variances can be compared between problems where $\langle |\xi^\pi|^2 \rangle / N_0 = 1$.
"""

from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from statmech_attention import checks
from statmech_attention.model.paths import AttentionedInputs


class Features(NamedTuple):
    r"""A map of features, $z \mapsto s\, R^\top (z - m)$, the same for every token and every path.

    It is one of the tokens that enter: a shift of all of them shifts all attentioned inputs alike, where columns of
    attention matrices sum to one.

    Attributes:
        mean: $m$.
        directions: $R$, orthonormal columns, the largest principal component first.
        scale: $s$.
        variance_lost: share of the variance that is outside of these directions, 0 to 1.
    """

    mean: Float[np.ndarray, " width"]
    directions: Float[np.ndarray, "width features"]
    scale: float
    variance_lost: float

    def of(self, attentioned: AttentionedInputs) -> AttentionedInputs:
        """Attentioned inputs, of training or of other examples, with these features, in double precision.

        Args:
            attentioned: with the features they were fitted to, in any precision.

        Returns:
            `AttentionedInputs`.

        Raises:
            ValueError: another number of features, or single precision chosen for JAX.
        """
        values = np.asarray(attentioned.values)
        checks.same("attentioned", "the features axis", values.shape[2], "the features fitted", len(self.mean))
        found = np.empty((*values.shape[:2], self.directions.shape[1]))
        for row, value in zip(found, values, strict=True):  # in double precision a little at a time
            row[:] = self.scale * ((value - self.mean) @ self.directions)
        checks.need_double("attentioned", found)
        return replace(attentioned, values=jnp.asarray(found))


@checks.objects
def fitted_features(attentioned: AttentionedInputs, directions: int) -> Features:
    r"""Principal components over training examples and paths, such that there $\langle |\xi^\pi|^2 \rangle / N_0 = 1$.

    Args:
        attentioned: of the training examples, in any precision.
        directions: $N_0$, how many features are wanted.

    Returns:
        `Features`: $m$ is the mean over examples and paths.

    Raises:
        ValueError: more directions than features or inputs can have; inputs that are all the same.
    """
    values = np.asarray(attentioned.values)
    examples, paths, width = values.shape
    directions, most = checks.whole("directions", directions), min(width, examples * paths - 1)
    if directions > most:
        raise ValueError(
            f"directions: wanted at most {most}, that {width} features of {examples} examples on {paths} paths can have, "
            f"got {directions}."
        )
    mean = values.mean(axis=(0, 1), dtype=float)
    moment = np.zeros((width, width))
    for value in values:
        centred = value - mean
        moment += centred.T @ centred / (examples * paths)
    variances, vectors = np.linalg.eigh(moment)
    kept, every = variances[::-1][:directions].sum(), variances.sum()
    if not kept > 0:
        raise ValueError("attentioned: wanted inputs that differ, got the same for all examples and paths.")
    return Features(mean, vectors[:, ::-1][:, :directions], float(np.sqrt(directions / kept)), float(1 - kept / every))
