r"""Evidence of a head: the theory's evidence of the labels with the head minus that without it, solved again.

To leave a head out is to set its values to zero, $V^{(l,h)} = 0$, and to change nothing else: the
paths that are left keep their coefficients. The smaller model is then the larger one at a point of
its prior, and the evidence lost is, exactly, the ratio of two densities of that point (Dickey
1971), $\ln p(Y) - \ln p(Y | V^{(l,h)} = 0) = \ln p(V^{(l,h)} = 0) - \ln p(V^{(l,h)} = 0 | Y)$. It
is negative where the labels are likelier without the head.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.layers.chains import Layers
from statmech_attention.model import AttentionedInputs
from statmech_attention.model.paths import as_attentioned
from statmech_attention.pruning.heads import head_indices, kept_heads, order_parameters_on, path_gates
from statmech_attention.theory import Problem, Solution, log_evidence, solve
from statmech_attention.theory.problem import need_problem

COEFFICIENTS = ("kept", "rescaled")


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


def without_head(
    attentioned: AttentionedInputs | ArrayLike, head: int, *, layers: Layers | None = None, coefficients: str = "kept"
) -> AttentionedInputs:
    r"""The attentioned inputs of the network that lacks one head.

    Args:
        attentioned: `AttentionedInputs`, or an array `(examples, paths, features)` with `layers`.
        head: its number, counted through the network as in `head_indices`.
        layers: only for plain arrays.
        coefficients: "kept": the network with $V^{(l,h)} = 0$, all other paths with unchanged
            weights in the kernel; "rescaled": paths have the $1/\sqrt{H_l - 1}$ of the smaller
            network, as after `prune`.

    Returns:
        `AttentionedInputs` of the heads left; kept coefficients are multiplied into the values.
    """
    whole = as_attentioned("attentioned", attentioned, layers)
    checks.choice("coefficients", coefficients, COEFFICIENTS)
    smaller = whole.keep_heads(kept_heads(whole.layers, [head]))
    if coefficients == "rescaled":
        return smaller
    kept = np.arange(len(head_indices(whole.layers))) != head
    gates = path_gates(whole.layers, kept[None])[0]
    return AttentionedInputs(smaller.values / jnp.asarray(gates[gates > 0])[None, :, None], smaller.layers)


def head_evidence(
    problem: Problem,
    *,
    coefficients: str = "kept",
    start: Solution | Sequence[ArrayLike] | None = None,
    tolerance: float = 1e-8,
    throw: bool = True,
) -> HeadEvidence:
    r"""$\frac N2 [(S^* - S_0)_{\text{without } (l,h)} - (S^* - S_0)]$ for every head, each saddle point solved again.

    Args:
        problem: a `Problem` with width and temperature.
        coefficients: as in `without_head`.
        start: as in `solve`, for the whole network; the smaller ones start from its blocks on their
            paths.
        tolerance: as in `solve`. The error of the evidence is quadratic in the gradient.
        throw: as in `solve`.

    Raises:
        ValueError, NotConverged: as `solve`.
    """
    problem = need_problem(problem, "width", "temperature")
    inputs = problem.attentioned
    options: Any = {"tolerance": tolerance, "throw": throw}
    whole, without = solve(problem, start=start, **options), []
    for head in range(len(head_indices(inputs.layers))):
        smaller = problem.replace(attentioned=without_head(inputs, head, coefficients=coefficients))
        without.append(solve(smaller, start=order_parameters_left(whole, head), **options))
    lost = np.array([float(log_evidence(whole) - log_evidence(one)) for one in without])
    return HeadEvidence(lost, whole, tuple(without))


def order_parameters_left(solution: Solution, head: ArrayLike) -> tuple[Float[Array, "..."], ...]:
    """The blocks of all order parameters on the partial paths that avoid a head, or several.

    Args:
        solution: of the whole network.
        head: its number, counted through the network, or the numbers of several.

    Returns:
        $(U^{(1)}, .., U^{(L+1)})$ of the smaller network.
    """
    chain = solution.problem.attentioned.chain
    _, parts = chain.keep(kept_heads(chain, np.atleast_1d(head)))
    return order_parameters_on(solution.order_parameters, chain, parts)
