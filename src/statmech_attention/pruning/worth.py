r"""What heads are worth: the evidence of the labels with a head minus that without it, and its slope in a gate.

To leave a head out is to set its values to zero, $V^{(l,h)} = 0$, and to change nothing else: the
paths that are left keep their coefficients. The smaller model is then the larger one at a point of
its prior, and the evidence lost is, exactly, the ratio of two densities of that point (Dickey
1971), $\ln p(Y) - \ln p(Y | V^{(l,h)} = 0) = \ln p(V^{(l,h)} = 0) - \ln p(V^{(l,h)} = 0 | Y)$. It
is negative where the labels are likelier without the head.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from statmech_attention import checks
from statmech_attention.layers.chains import order_parameters_on, partial_paths_left
from statmech_attention.model import AttentionedInputs, TokenInputs
from statmech_attention.model.tokens import one_value_matrix_per_head
from statmech_attention.pruning.gates import head_kernels, kernel_worth
from statmech_attention.pruning.heads import head_indices, kept_heads
from statmech_attention.theory import Solution, log_evidence, solve
from statmech_attention.theory.kernels.of_tokens import kernel_of_tokens
from statmech_attention.theory.on_tokens import seen_anew
from statmech_attention.theory.problem import inputs_of
from statmech_attention.theory.slopes import pull_on_components


class HeadWorth(NamedTuple):
    r"""What every head is worth to a network, in nats, counted through it as in `head_indices`.

    Attributes:
        slopes: $\partial \ln p(Y) / \partial g$ in the gate of every head at $g = 1$, see `Solution.slopes`. It is
            no removal where a layer has few heads, since the evidence is not linear in the gate.
        losses: $\ln p(Y)$ with all heads minus that without the head, or None if they were not asked for.
            Evidences are to leading order, of networks of different numbers of order parameters. The next order is
            `log_evidence(.., corrected=True)` of the solution minus that of `without`. For hidden Markov chains and
            sentences, from $N = 10$ on, it moved losses of up to 120 nats by less than one, and changed no sign.
        without: the saddle points without each head; none at infinite width on tokens.
        heads: layer and number of every head, both from 0.
    """

    slopes: Float[np.ndarray, " heads"]
    losses: Float[np.ndarray, " heads"] | None
    without: tuple[Solution, ...]
    heads: Int[np.ndarray, "heads 2"]


def head_worth(solution: Solution, *, inputs: TokenInputs | None = None, removal: bool = True) -> HeadWorth:
    r"""The derivative of $\ln p(Y)$ in the gate of every head, and what $\ln p(Y)$ loses without the head.

    The loss is $\frac N2 [(S^* - S_0)_{\text{without } (l,h)} - (S^* - S_0)]$. Along paths and on tokens, at any
    width. A removal has a new saddle point each; at infinite width on tokens it is a regression. Of a projection
    the gates stand in (Z1) and in the exact diagonal of (Z2), and all slopes cost one more pass.

    Args:
        solution: a `Solution`, no batch.
        inputs: where a projection has been solved, the tokens that it has seen, in the same order.
        removal: find the evidence lost without each head, too.

    Raises:
        ValueError: layers whose heads share value matrices, or no head.
        NotConverged: as `solve`.
    """
    removal = checks.flag("removal", removal)
    problem, tokens = checks.instance("solution", solution, Solution).problem, solution.directions is not None
    chain = problem.attentioned.chain
    numbers = head_indices(layers=chain)
    if not len(numbers):
        remedy = "Of blocks take block_kernels, or the difference of log_evidence without the layer."
        raise ValueError(f"layers: wanted a layer with heads, got {chain.shorthand}. {remedy}")
    if problem.projected:
        return _of_projection(solution, inputs, removal, numbers)
    if inputs is not None:
        raise ValueError("inputs: wanted only where a projection has been solved. Leave it out.")
    if tokens and not solution.directions.count:
        inputs = inputs_of(problem)
        plain = kernel_of_tokens(inputs, inputs, problem.variance)
        heads = head_kernels(inputs, inputs, variance=problem.variance)
        found = kernel_worth(plain, heads, problem.labels, temperature=problem.temperature)
        return HeadWorth(found.slopes, found.losses if removal else None, (), numbers)
    slopes = solution.slopes()
    if "gates" not in slopes:
        raise ValueError(f"layers: wanted one value matrix per head, got {chain.shorthand}.")
    if not removal:
        return HeadWorth(slopes["gates"], None, (), numbers)
    without = tuple(_without(solution, head) for head in range(sum(chain.heads)))
    losses = np.array([float(log_evidence(solution) - log_evidence(smaller)) for smaller in without])
    return HeadWorth(slopes["gates"], losses, without, numbers)


def _of_projection(solution: Solution, inputs, removal: bool, numbers) -> HeadWorth:
    """Slopes by one more pass over the tokens, and a removal by one pass each, with the features held."""
    seen = inputs_of(solution.problem)
    network, chain = seen.projection, seen.chain
    if not isinstance(inputs, TokenInputs) or len(inputs) != len(seen):
        raise ValueError("inputs: wanted the token_inputs that the projection has seen, in the same order.")
    if not all(map(one_value_matrix_per_head, chain.layers)):
        raise ValueError(f"layers: wanted one value matrix per head, got {chain.shorthand}.")
    of_seeds = network.slopes(inputs, pull_on_components(solution))
    heads = [slice(int(layer.keeps), None) if layer.heads else slice(0) for layer in chain.layers]
    slopes = np.concatenate([part[some] for part, some in zip(of_seeds, heads, strict=True)])
    if not removal:
        return HeadWorth(slopes, None, (), numbers)
    without = []
    for layer, some in enumerate(heads):
        for seed in range(len(of_seeds[layer]))[some]:
            gates = [np.ones(len(part)) for part in of_seeds]
            gates[layer][seed] = 0.0
            without.append(seen_anew(solution, network.gated(inputs, gates)))
    losses = np.array([float(log_evidence(solution) - log_evidence(smaller)) for smaller in without])
    return HeadWorth(slopes, losses, tuple(without), numbers)


def _without(solution: Solution, head: int) -> Solution:
    """The saddle point without a head."""
    problem = solution.problem
    smaller = problem.replace(attentioned=without_head(problem.attentioned, head))
    if solution.directions is not None:
        return solve(smaller, directions=solution.directions.ranked.asked, throw=False)
    chain = problem.attentioned.chain
    left = chain.keep(kept_heads([head], layers=chain))[1]
    return solve(smaller, start=order_parameters_on(solution.order_parameters, chain, left))


def without_head(attentioned: AttentionedInputs | TokenInputs, head: int) -> AttentionedInputs | TokenInputs:
    r"""Inputs of the network with $V^{(l,h)} = 0$ for the head of this number, counted as in `head_indices`.

    The paths that are left have the coefficients of the whole network, by factors in the values:
    those of a smaller network would be larger, as after `keep_heads`.
    """
    whole = checks.instance("attentioned", attentioned, AttentionedInputs, TokenInputs).chain
    if isinstance(attentioned, TokenInputs):
        number = checks.whole("head", head, 0, sum(whole.heads) - 1)
        return attentioned.without_head(*map(int, head_indices(layers=whole)[number]))
    smaller, parts = whole.keep(kept_heads([head], layers=whole))
    left, *_ = partial_paths_left(whole.branches, [part.branches for part in parts])
    factors = whole.path_gains[left] / smaller.path_gains * np.sqrt(smaller.divisor / whole.divisor)
    return AttentionedInputs(attentioned.values[:, left] * jnp.asarray(factors)[None, :, None], smaller)
