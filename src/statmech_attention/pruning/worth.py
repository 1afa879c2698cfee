r"""What heads are worth: the evidence of the labels with a head minus that without it, and its slope in a gate.

To leave a head out is to set its values to zero, $V^{(l,h)} = 0$, and to change nothing else: the
paths that are left keep their coefficients. The smaller model is then the larger one at a point of
its prior, and the evidence lost is, exactly, the ratio of two densities of that point (Dickey
1971), $\ln p(Y) - \ln p(Y | V^{(l,h)} = 0) = \ln p(V^{(l,h)} = 0) - \ln p(V^{(l,h)} = 0 | Y)$. It
is negative where the labels are likelier without the head.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float, Int
from scipy.linalg import lstsq

from statmech_attention import checks
from statmech_attention.layers.chains import order_parameters_on, partial_paths_left
from statmech_attention.model import AttentionedInputs, TokenInputs
from statmech_attention.model.tokens import need_value_matrices
from statmech_attention.pruning.gates import head_kernels, kernel_worth
from statmech_attention.pruning.heads import head_indices, kept_heads
from statmech_attention.theory import Problem, ProjectedInputs, Solution, log_evidence, solve
from statmech_attention.theory.kernels.of_tokens import kernel_of_tokens
from statmech_attention.theory.on_tokens import solved_on_tokens
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
        without: the saddle points without each head; none at infinite width on tokens, nor of a projection.
        heads: layer and number of every head, both from 0.
    """

    slopes: Float[np.ndarray, " heads"]
    losses: Float[np.ndarray, " heads"] | None
    without: tuple[Solution, ...]
    heads: Int[np.ndarray, "heads 2"]


def head_worth(
    solution: Solution,
    *,
    inputs: TokenInputs | Iterable[tuple[TokenInputs, ArrayLike]] | None = None,
    removal: bool = True,
) -> HeadWorth:
    r"""The derivative of $\ln p(Y)$ in the gate of every head, and what $\ln p(Y)$ loses without the head.

    The loss is $\frac N2 [(S^* - S_0)_{\text{without } (l,h)} - (S^* - S_0)]$. Along paths and on tokens, at any
    width. A removal has a new saddle point each; at infinite width on tokens it is a regression. Of a projection
    the gates stand in (Z1) and in the exact diagonal of (Z2). All slopes cost one more pass, a removal one more and a
    minimum in as many directions. In fewer directions than labels feel both are inexact: ask `solve` for more.

    Args:
        solution: a `Solution`, no batch.
        inputs: where a projection has been solved, the tokens that it has seen, in the same order; of a reduced problem
            its parts, pairs (token_inputs, labels), as a list or another thing that can be read again.
        removal: find the evidence lost without each head, too.

    Raises:
        ValueError: layers whose heads share value matrices, or no head.
        NotConverged: as `solve`.
    """
    removal = checks.flag("removal", removal)
    problem, tokens = checks.instance("solution", solution, Solution).problem, solution.directions is not None
    chain = problem.attentioned.chain
    if not sum(chain.heads):
        remedy = "Of blocks take block_kernels, or the difference of log_evidence without the layer."
        raise ValueError(f"layers: wanted a layer with heads, got {chain.shorthand}. {remedy}")
    if problem.projected:
        return _of_projection(solution, inputs, removal)
    if inputs is not None:
        raise ValueError("inputs: wanted only where a projection has been solved. Leave it out.")
    if tokens and not solution.directions.count:
        rows = problem.attentioned
        plain = kernel_of_tokens(rows, rows, problem.variance)
        heads = head_kernels(rows, rows, variance=problem.variance)
        found = kernel_worth(plain, heads, problem.labels, temperature=problem.temperature)
        return HeadWorth(found.slopes, found.losses if removal else None, (), head_indices(layers=chain))
    if tokens:
        need_value_matrices(chain.layers)
    slopes = solution.slopes()["gates"]
    without = tuple(_without(solution, head) for head in range(len(slopes))) if removal else ()
    return HeadWorth(slopes, _lost(solution, without) if removal else None, without, head_indices(layers=chain))


def _lost(solution: Solution, without: Iterable[Solution]) -> Float[np.ndarray, " heads"]:
    """Log evidence lost without each head."""
    whole = log_evidence(solution)
    return np.array([float(whole - log_evidence(smaller)) for smaller in without])


def _of_projection(solution: Solution, inputs, removal: bool) -> HeadWorth:
    """Slopes by one more pass over the tokens; a removal by one more each, and a minimum in as many directions."""
    problem = solution.problem
    network, chain = problem.attentioned.projection, problem.attentioned.chain
    need_value_matrices(chain.layers)
    parts, examples = _parts(problem, inputs, removal), 0
    of_seeds = [np.zeros(layer.seeds) for layer in chain.layers]
    for part, pull in _pulls(solution, parts):
        examples += len(part)
        of_seeds = [total + more for total, more in zip(of_seeds, network.slopes(part, pull), strict=True)]
    if examples != problem.examples:
        raise ValueError(f"inputs: wanted all {problem.examples} examples that were solved, got {examples}.")
    heads = [slice(int(layer.keeps), None) if layer.heads else slice(0) for layer in chain.layers]
    slopes = np.concatenate([part[some] for part, some in zip(of_seeds, heads, strict=True)])

    count, narrow = max(1, solution.directions.count), solution.start == "narrow"

    def without(layer: int, seed: int) -> Solution:
        gates = [np.ones(len(part)) for part in of_seeds]
        gates[layer][seed] = 0.0
        return solved_on_tokens(_gated(problem, parts, gates), directions=count, settle=0.0, narrow=narrow)

    places = ((layer, seed) for layer, some in enumerate(heads) for seed in range(len(of_seeds[layer]))[some])
    # Solutions of many texts are large, and not kept.
    losses = _lost(solution, (without(*place) for place in places)) if removal else None
    return HeadWorth(slopes, losses, (), head_indices(layers=chain))


def _parts(problem: Problem, inputs, removal: bool) -> Any:
    """The tokens that a projection has seen, or pairs of tokens and labels of which a reduced problem is the sum."""
    if problem.count is None:
        if not isinstance(inputs, TokenInputs) or len(inputs) != len(problem.labels):
            raise ValueError("inputs: wanted the token_inputs that the projection has seen, in the same order.")
        return [(inputs, problem.labels)]
    if isinstance(inputs, TokenInputs) or not isinstance(inputs, Iterable):
        raise ValueError("inputs: wanted parts of a reduced problem, each a pair (token_inputs, labels), as a list.")
    if removal and isinstance(inputs, Iterator):
        raise ValueError(
            "inputs: wanted parts that can be read again, as a list, since a removal is a pass over them, got an "
            "iterator. Or leave removals out with removal=False."
        )
    return inputs


def _pulls(solution: Solution, parts) -> Iterator[tuple[TokenInputs, ProjectedInputs]]:
    r"""The tokens of every part, with the derivatives of $\ln p(Y)$ in what is seen of them.

    Reduced rows $R = Q^\top [Z, Y]$ have derivatives $Q^\top G$. They depend on $R^\top R$ alone, so that they are
    $R X$ with some $X$, and $G = [Z, Y] X$ part by part. The mean of what is left out follows all examples.
    """
    problem, pull = solution.problem, pull_on_components(solution)
    if problem.count is None:
        yield parts[0][0], pull
        return
    inputs = problem.attentioned
    rows, known = _beside(inputs.values, problem.labels), np.asarray(pull.values).reshape(len(inputs), -1)
    between, each = lstsq(rows, known, lapack_driver="gelsy")[0], float(pull.own) / problem.examples
    for part, labels in parts:
        seen = np.asarray(inputs.projection(part).values)
        values = (_beside(seen, labels) @ between).reshape(seen.shape) - 2 * each * seen
        yield part, ProjectedInputs(inputs.projection, jnp.asarray(values), jnp.full(len(part), each))


def _beside(values, labels) -> Float[np.ndarray, "rows columns"]:
    """$[Z, Y]$, a row for every example."""
    return np.concatenate([np.asarray(part).reshape(len(part), -1) for part in (values, labels)], axis=1)


def _gated(problem: Problem, parts, gates) -> Problem:
    """The problem of what is seen with gates."""
    network = problem.attentioned.projection
    each = ((network.gated(part, gates), jnp.asarray(labels, float)) for part, labels in parts)
    whole: Any = sum(problem.unchecked(attentioned=seen, labels=labels, count=None) for seen, labels in each)
    return whole if problem.count is None else whole.reduce()


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
