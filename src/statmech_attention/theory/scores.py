"""Head scores: the importance of heads by the order parameter, section 4.2 of Tiberi et al. (2024)."""

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.layers.chains import Chain, Layers
from statmech_attention.theory.kernels import check_order_parameter

DEFINITIONS = ("both", "either")


def head_scores(order_parameter: ArrayLike, *, layers: Layers, definition: str = "both") -> Float[Array, " heads"]:
    r"""$s_{l,h} \propto \sum_{\pi, \pi'} |U^{\pi\pi'}|$ over pairs of paths through a head, the largest one 1.

    A pair of different paths counts twice. If the paths' coefficients differ, beside a skip, an
    entry counts by its weight in the kernel, $|c_\pi c_{\pi'} U^{\pi\pi'}|$; a skip itself has no
    score.

    Args:
        order_parameter: $U$ of the theory, or of trained weights by (13), `(paths, paths)`, each
            output a path.
        layers: $(H_1, .., H_L)$, or layers of other kinds among them.
        definition: "both": pairs in which both paths go through the head; "either": at least one
            does.

    Returns:
        `(all heads,)`, in the order of `head_indices`.

    Raises:
        ValueError: a matrix that does not fit the heads, is not positive semi-definite or is zero.

    Source: Tiberi et al. (2024), section 4.2, whose text reads as "both"; their code computes
    "either".
    """
    checks.choice("definition", definition, DEFINITIONS)
    layers = Chain.of(layers)
    if not any(layers.heads):
        raise ValueError(f"layers: wanted a layer with heads to score, got none in {layers.shorthand}.")
    through = jnp.asarray(np.repeat(path_heads(layers), layers.outputs, axis=0))
    order_parameter = check_order_parameter(order_parameter, len(through), double=False)
    gains = np.repeat(layers.path_gains, layers.outputs)
    magnitude = jnp.abs(order_parameter) * np.outer(gains, gains)
    if checks.concrete(magnitude) and not np.any(np.asarray(magnitude)):
        raise ValueError("order_parameter: wanted an entry other than zero, got none.")
    scores = jnp.einsum("ph,pq,qh->h", through, magnitude, through)
    if definition == "either":
        scores = (jnp.sum(magnitude, axis=0) + jnp.sum(magnitude, axis=1)) @ through - scores
    return scores / jnp.max(scores)


def path_heads(layers) -> Float[np.ndarray, "paths heads"]:
    """1 where a path goes through a head of the network, 0 elsewhere."""
    layers = Chain.of(layers)
    columns = [layers.path_heads[:, place] == head for place, count in enumerate(layers.heads) for head in range(count)]
    return np.array(columns, float).reshape(-1, layers.paths).T
