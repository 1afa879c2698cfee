r"""Evidence of a head: the theory's evidence of the labels with the head minus that without it.

To leave a head out is to set its values to zero, $V^{(l,h)} = 0$, and to change nothing else: the
paths that are left keep their coefficients. The smaller model is then the larger one at a point of
its prior, and the evidence lost is, exactly, the ratio of two densities of that point (Dickey
1971), $\ln p(Y) - \ln p(Y | V^{(l,h)} = 0) = \ln p(V^{(l,h)} = 0) - \ln p(V^{(l,h)} = 0 | Y)$. It
is negative where the labels are likelier without the head.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from statmech_attention.layers.chains import order_parameters_on, partial_paths_left
from statmech_attention.model import AttentionedInputs
from statmech_attention.pruning.heads import kept_heads
from statmech_attention.theory import Problem, Solution, log_evidence, solve


class HeadEvidence(NamedTuple):
    """The theory with all heads, and without each of them in the order of `head_indices`.

    Attributes:
        lost: log evidence of the whole network minus that without a head, `(all heads,)`.
        whole: the saddle point of the whole network.
        without: the saddle points without each head.
    """

    lost: Float[np.ndarray, " heads"]
    whole: Solution
    without: tuple[Solution, ...]


def without_head(attentioned: AttentionedInputs, head: int) -> AttentionedInputs:
    r"""Inputs of the network with $V^{(l,h)} = 0$ for the head of this number, counted as in `head_indices`.

    The paths that are left have the coefficients of the whole network, by factors in the values:
    those of a smaller network would be larger, as after `keep_heads`.
    """
    whole = attentioned.chain
    smaller, parts = whole.keep(kept_heads([head], layers=whole))
    left, *_ = partial_paths_left(whole.branches, [part.branches for part in parts])
    factors = whole.path_gains[left] / smaller.path_gains * np.sqrt(smaller.divisor / whole.divisor)
    return AttentionedInputs(attentioned.values[:, left] * jnp.asarray(factors)[None, :, None], smaller)


def head_evidence(problem: Problem) -> HeadEvidence:
    r"""$\frac N2 [(S^* - S_0)_{\text{without } (l,h)} - (S^* - S_0)]$ for every head, with a new saddle point each.

    Args:
        problem: a `Problem` with width and temperature.

    Raises:
        ValueError, NotConverged: as `solve`.
    """
    whole, without, chain = solve(problem), [], problem.attentioned.chain
    for head in range(sum(chain.heads)):
        smaller = problem.replace(attentioned=without_head(problem.attentioned, head))
        start = order_parameters_on(whole.order_parameters, chain, chain.keep(kept_heads([head], layers=chain))[1])
        without.append(solve(smaller, start=start))
    lost = np.array([float(log_evidence(whole) - log_evidence(solution)) for solution in without])
    return HeadEvidence(lost, whole, tuple(without))
