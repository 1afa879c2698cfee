r"""When the theory can be trusted: every minimum of the action, and the first correction at each.

The first correction is an expansion around one minimum, and cannot see another. So all minima that
`minima` finds come first. With their shares $p_k$ of the posterior, by the corrected evidence (V4),
and the corrected mean outputs $f_k$ of `corrected`, the best estimate of the mean output is
$\sum_k p_k f_k$. The criterion is its distance from what a solution predicts.
"""

from dataclasses import dataclass, replace

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.corrections import corrected, need_single
from statmech_attention.theory.evidence import log_evidence
from statmech_attention.theory.search import minima, same
from statmech_attention.theory.solution import Solution

TRUSTED = 0.1  # up to this r the theory is taken as it is


@dataclass(frozen=True, eq=False)
class Criterion:
    r"""What `criterion` found; in print a line that says what it means.

    Attributes:
        r: expected error of the solution's mean output, rms over the test inputs, in units of the
            rms posterior standard deviation.
        solution: the one that was asked about.
        minima: all minima that were found, the lowest first.
        shares: of the posterior in the basin of each minimum, in this order.
        r_lowest: r of the lowest minimum.
    """

    r: float
    solution: Solution
    minima: tuple[Solution, ...]
    shares: Float[np.ndarray, " minima"]
    r_lowest: float

    @property
    def lowest(self) -> Solution:
        """The lowest minimum."""
        return self.minima[0]

    @property
    def is_lowest(self) -> bool:
        """Whether the solution is the lowest minimum."""
        return same(self.lowest, self.solution)

    def __str__(self) -> str:
        count = f"{len(self.minima)} minima, " if len(self.minima) > 1 else "one minimum, "
        above = "" if self.is_lowest else f"and the solution from {self.solution.start} is not the lowest, "
        if self.r <= TRUSTED:
            advice = "take the theory as it is"
        elif not self.is_lowest and self.r_lowest <= TRUSTED:
            advice = f"take .lowest, which has r = {self.r_lowest:.2g}"
        else:
            advice = "sample the exact posterior"
        return f"{count}{above}r = {self.r:.2g}: {advice}."


def criterion(solution: Solution, test: AttentionedInputs | TokenInputs | ArrayLike) -> Criterion:
    r"""$r^2 = \langle (\sum_k p_k f_k - f^*)^2 \rangle / \langle v(U^*) \rangle$, means over the test inputs.

    With one minimum r is the size of the first correction (C3) to the mean output. If the action has
    several, the expected error of a solution in a higher one is its distance from the lowest. Up to
    r = 0.1 the theory can be taken as it is; beyond, the exact posterior tells (`sampling.posterior`).
    The page on trust compares r with the error of the mean output on two families of problems.

    It takes as long as `minima`, and forms Hessians, of $d^2/2$ rows for $d$ paths: on tokens few directions of
    every level are as many as it can take. Of a minimum that `minima` misses it knows nothing.

    Args:
        solution: a saddle point at finite width, not a batch, as from `solve`.
        test: test inputs, in the form of the training inputs.

    Returns:
        `Criterion(r, solution, minima, shares, r_lowest)`; printed, a line that says what to do.

    Raises:
        ValueError: a batch, or an infinite width.

    Source: ours; the expansion is Laplace's, see Tierney and Kadane (1986).
    """
    problem = need_single(solution).problem
    if solution.directions is None:
        found = [replace(one, problem=problem) for one in minima(problem.reduce())]
    else:
        found = minima(problem, directions=solution.directions.ranked.asked)
    if solution.converged and not any(same(one, solution) for one in found):
        found = sorted([*found, solution], key=lambda one: float(one.excess))
    logs = np.array([float(log_evidence(one, corrected=True)) if len(found) > 1 else 0.0 for one in found])
    shares = np.exp(logs - np.max(logs))
    shares /= shares.sum()
    best = np.tensordot(shares, [corrected(one, test=test).prediction.mean for one in found], 1)

    def error(one: Solution) -> float:
        plain = one.predict(test)
        return float(np.sqrt(np.mean((best - plain.mean) ** 2) / np.mean(plain.variance)))

    return Criterion(error(solution), solution, tuple(found), shares, error(found[0]))
