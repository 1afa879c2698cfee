"""The evidence of a saddle point: how likely the labels are before they are seen."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.coordinates import full_rank
from statmech_attention.theory.solution import Solution


@checks.objects
def log_evidence(solution: Solution) -> Float[Array, "*batch"]:
    r"""$\ln p(Y) \approx -\frac{N}{2} (S^* - S_0) - \frac{P C}{2} \ln 2\pi$, of $C$ outputs, to leading order in $N$.

    $S_0 = \sum_l d_l N_l / N_{max}$ is the smallest entropy, the action without labels. It is what normalises the prior of
    the order parameters, and differs between networks of different numbers of paths. What is left out does not grow with $N$.

    Args:
        solution: a `Solution` or a batch, of any width; at infinite width the result is exact.

    Returns:
        A scalar, or one number for each solution of a batch.
    """
    # The width of every stage, those of a batch beside it; sizes do not depend on it.
    chain = solution.attentioned.chain
    architecture = Architecture(chain.spelled, tuple(map(jnp.asarray, solution.width)), solution.variance)
    widths = jnp.stack(jnp.broadcast_arrays(*architecture.stage_widths))
    widest = jnp.max(jnp.stack(architecture.widths), axis=0)
    finite = jnp.isfinite(widest)
    counts = full_rank(architecture).counts
    diagonals = np.array([diagonal for diagonal, _ in counts], float)
    # Entropy and energy apart, since N S has no value at infinite width, where the entropy is the smallest.
    smallest = jnp.tensordot(diagonals, jnp.where(finite, widths, 0.0), axes=1)
    excess = jnp.where(finite, jnp.where(finite, widest, 0.0) * solution.entropy - smallest, 0.0)
    examples = solution.attentioned.values.shape[-3]
    labels = examples * chain.outputs
    return -0.5 * (excess + examples * solution.energy + labels * np.log(2 * np.pi))
