"""Networks fitted to some examples, whose heads get scores: along paths, or on tokens at a finite or infinite width."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from statmech_attention import checks
from statmech_attention.model import AttentionedInputs, TokenInputs
from statmech_attention.pruning.features import fitted_features
from statmech_attention.pruning.gates import block_kernels, head_kernels, kernel_worth, scale_and_temperature
from statmech_attention.pruning.heads import keep_heads
from statmech_attention.pruning.worth import head_worth
from statmech_attention.theory import Problem, Solution, log_evidence, solve, solve_sweep
from statmech_attention.theory.kernels.of_paths import DEFINITIONS, head_scores
from statmech_attention.theory.kernels.of_tokens import kernel_of_tokens
from statmech_attention.theory.kernels.regression import Regression
from statmech_attention.theory.solution import raise_unless_converged

WORTHS = ("derivative", "removal")
TEMPERATURES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_TOLERANCE = 1e-5  # of the action's gradient: scores of real heads were right to seven digits then


class Fitted(NamedTuple):
    """A network fitted to some examples of a problem: scores if it has all heads, and outputs for other examples."""

    temperature: float
    scores: Callable[[], Float[np.ndarray, " heads"]]
    outputs: Callable[[np.ndarray], Float[np.ndarray, "examples *outputs"]]


# Fits to examples, given by number, with all heads or those of these numbers.
Fit = Callable[..., Fitted]


def along_paths(problem: Problem, components: int, definition: str) -> Fit:
    """Fits at the saddle point, on principal components; scores are those of its order parameter, or heads' worth."""
    labels = np.asarray(problem.labels)
    checks.choice("definition", definition, (*DEFINITIONS, *WORTHS))

    def fit(train, kept=None) -> Fitted:
        network = problem.attentioned if kept is None else keep_heads(problem.attentioned, kept)

        def seen(examples):
            return AttentionedInputs(network.values[examples], network.layers)

        _, paths, width = network.values.shape
        features = fitted_features(seen(train), min(components, width, len(train) * paths - 1))
        solution = _solved(problem.replace(attentioned=features.of(seen(train)), labels=labels[train]))

        def scores():
            if definition in WORTHS:
                return _worth(solution, definition)
            options = {"layers": network.layers, "definition": definition}
            return np.asarray(head_scores(solution.order_parameter, **options))

        def outputs(test):
            return np.asarray(solution.predict(features.of(seen(test))).mean)

        return Fitted(float(solution.problem.temperature), scores, outputs)

    return fit


def _solved(problem: Problem) -> Solution:
    """The saddle point at the temperature given, or at that of the largest evidence."""
    if problem.temperature is not None:
        return solve(problem, tolerance=_TOLERANCE)
    options: Any = {"temperatures": TEMPERATURES, "tolerance": _TOLERANCE, "throw": False}
    solutions = solve_sweep(problem, widths=[problem.width], **options)[0]
    evidence = np.where(solutions.converged, log_evidence(solutions), -np.inf)
    best = solutions[int(np.argmax(evidence))]
    raise_unless_converged(best)
    return best


def _worth(solution: Solution, definition: str, inputs=None) -> Float[np.ndarray, " heads"]:
    worth = head_worth(solution, inputs=inputs if solution.problem.projected else None, removal=definition == "removal")
    return worth.slopes if worth.losses is None else worth.losses


def on_tokens(problem: Problem, definition: str) -> Fit:
    """Fits at a finite width, with scale and temperature of the kernel of infinite width; scores are heads' worth."""
    checks.choice("definition", definition, WORTHS)
    inputs, labels = problem.attentioned, np.asarray(problem.labels)

    def fit(train, kept=None) -> Fitted:
        network = (inputs if kept is None else keep_heads(inputs, kept)).take(train)
        kernel = kernel_of_tokens(network, network, problem.variance)
        targets = labels[train].reshape(len(train), -1)
        scale, temperature = scale_and_temperature(kernel, targets, problem.temperature)
        variance = (scale * problem.variance[0], *problem.variance[1:])
        numbers: Any = {"width": problem.width, "temperature": temperature, "variance": variance}
        solution = solve(Problem(network, labels[train], **numbers), throw=False)

        def outputs(test):
            others = (inputs if kept is None else keep_heads(inputs, kept)).take(test)
            return np.asarray(solution.predict(others).mean)

        return Fitted(temperature, lambda: _worth(solution, definition, network), outputs)

    return fit


def at_infinite_width(problem: Problem, definition: str, blocks: bool = False) -> Fit:
    """Fits of the kernel of infinite width on tokens, its scale by the evidence, by worth of heads or of blocks."""
    by_removal = checks.choice("definition", definition, WORTHS) == "removal"
    inputs, labels = problem.attentioned, np.asarray(problem.labels)
    whole = kernel_of_tokens(inputs, inputs, problem.variance)
    parts = (block_kernels if blocks else head_kernels)(inputs, inputs, variance=problem.variance)

    def fit(train, kept=None) -> Fitted:
        kernel, within = whole, np.ix_(train, train)
        if kept is not None:
            network = (_keep_blocks if blocks else keep_heads)(inputs, kept)
            kernel = kernel_of_tokens(network, network, problem.variance)
        known, targets = kernel[within], labels[train]
        scale, temperature = scale_and_temperature(known, targets.reshape(len(train), -1), problem.temperature)

        def scores():
            worth = kernel_worth(scale * known, scale * parts[:, *within], targets, temperature=temperature)
            return worth.losses if by_removal else worth.slopes

        def outputs(test):
            solved = Regression.of(scale * known, temperature, targets).solve(targets)
            return scale * kernel[np.ix_(test, train)] @ np.asarray(solved)

        return Fitted(temperature, scores, outputs)

    return fit


def _keep_blocks(inputs: TokenInputs, kept) -> TokenInputs:
    """Inputs of the network in which other blocks than these let tokens pass unchanged."""
    gated = [place for place, layer in enumerate(inputs.chain.layers) if layer.gates]
    silent = {gated[number] for number in range(len(gated)) if number not in kept}

    def without(maps):
        skip = [(np.arange(layer.shape[1]) == 0)[:, None] for layer in maps]
        return tuple(one * skip[place] if place in silent else one for place, one in enumerate(maps))

    return replace(inputs, groups=tuple(group._replace(maps=without(group.maps)) for group in inputs.groups))
