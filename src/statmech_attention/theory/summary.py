"""A solution in words: one line, or one screen."""

import math

import jax
import numpy as np

from statmech_attention import checks
from statmech_attention.theory.trust_region import Outcome

_MOST_HEADS = 16  # whose scores are shown


def line(solution) -> str:
    """Problem and outcome in one line, without any of the arrays."""
    inputs = solution.attentioned
    shape = "" if not solution.temperature.shape else f"batch {solution.temperature.shape}, "
    what = f"{shape}layers={inputs.layers}, {inputs.values.shape[-3]} examples"
    if not checks.concrete(*jax.tree.leaves(solution)):
        return f"{what}, traced"
    return f"{what}, N={_widths(solution)}, T={_range(solution.temperature)}: {_ended(solution)}"


def screen(solution) -> str:
    """A dozen lines; of a batch the ranges."""
    if not checks.concrete(*jax.tree.leaves(solution)):
        return line(solution)
    inputs, batch = solution.attentioned, solution.temperature.shape
    chain, examples, features = inputs.chain, inputs.values.shape[-3], inputs.values.shape[-1]
    variances = [_range(number) for number in solution.variance]
    variance = variances[0] if len(set(variances)) == 1 else f"({', '.join(variances)})"
    rows = {
        "solutions": f"{math.prod(batch)} in a batch of shape {batch}" if batch else "1",
        "network": f"layers={inputs.layers}, {chain.paths} paths, {chain.outputs} output{'s' * (chain.outputs > 1)}",
        "data": f"{examples} examples of {features} features",
        "width": f"{_widths(solution)} (N)",
        "temperature": f"{_range(solution.temperature)} (T)",
        "variance": f"{variance} (sigma^2)",
        "outcome": _ended(solution),
        "action": f"{_range(solution.action)} = entropy {_range(solution.entropy)} + P/N x energy {_range(solution.energy)}",
        "log evidence": f"{_range(solution.log_evidence())}, to leading order in N",
    }
    if any(chain.heads):
        scores = np.asarray(solution.head_scores()).reshape(-1, sum(chain.heads)).mean(axis=0)
        shown = " ".join(f"{score:.2f}" for score in scores[:_MOST_HEADS])
        rows["head scores"] = f"{shown}{' ..' * (len(scores) > _MOST_HEADS)}{', mean of the batch' * bool(batch)}"
    return "\n".join(f"{name:<13} {text}" for name, text in rows.items())


def _ended(solution) -> str:
    outcomes, steps = np.asarray(solution.outcome), _range(solution.steps)
    if not outcomes.ndim:
        how = Outcome(int(outcomes)).name.lower().replace("_", " ")
    else:
        how = f"{np.sum(outcomes == Outcome.CONVERGED)} of {outcomes.size} converged"
    return f"{how} after {steps} steps, gradient {np.max(np.asarray(solution.gradient_norm)):.1e}"


def _widths(solution) -> str:
    found = [_range(number) for number in solution.width]
    return found[0] if len(set(found)) == 1 else f"({', '.join(found)})"


def _range(values) -> str:
    """A number, or the smallest and largest of several."""
    least, most = np.min(np.asarray(values)), np.max(np.asarray(values))
    return f"{least:.6g}" if least == most or np.isnan(least) else f"{least:.6g}..{most:.6g}"
