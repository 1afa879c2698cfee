"""The result of a minimisation of the action: order parameters, outcome, and predictions from them."""

from dataclasses import dataclass, field, replace

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from statmech_attention import checks
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.descent.trust_region import Outcome
from statmech_attention.theory.kernels.regression import Prediction
from statmech_attention.theory.predictor import kernel_regression
from statmech_attention.theory.problem import Problem

_EXPLANATIONS = {
    Outcome.MAX_STEPS: "The steps ran out. Start from the solution at a higher temperature, as solve_sweep does, or "
    "raise max_steps; if the gradient norm no longer falls, rounding limits it: raise the temperature.",
    Outcome.STALLED: "No step lowers the action any more: rounding limits the gradient, most often because the "
    "kernel is nearly singular at this temperature. Raise the temperature, or accept the gradient norm with a "
    "larger tolerance.",
    Outcome.NOT_FINITE: "The action is not finite: K + T I is not positive definite in double precision. Raise the "
    "temperature, or scale the inputs down.",
}


class NotConverged(RuntimeError):
    """The minimisation ended without reaching the tolerance; `solution` is where it ended."""

    def __init__(self, message: str, solution: "Solution"):
        super().__init__(message)
        self.solution = solution

    def __reduce__(self):  # pickle would call it with the message alone
        return type(self), (*self.args, self.solution)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    r"""A minimum of the action, or a batch of them with leading axes; a pytree.

    Attributes:
        problem: what was solved. In a batch its numbers have the leading axes; inputs and labels have
            them too if they differ, as under `jax.vmap`, but not in a sweep.
        order_parameters: $(U^{(1)}, .., U^{(L)}, U^{(L+1)})$; $U^{(l)}$ is `(paths, paths)` over
            partial paths $(h_l .. h_L)$, the last a scalar, or `(outputs, outputs)`. $U^{(l)}$ of
            heads with a value dimension is followed by $G^{(l)}$, `(heads, partial, partial)`.
        action: $S = \mathcal L + \alpha E$ at the minimum.
        energy: $E$.
        entropy: $\mathcal L$.
        gradient_norm: largest entry of the action's gradient in the good coordinates.
        steps: trial steps of the trust region.
        outcome: an `Outcome`.
        start: where the minimisation started: "prior", "given", or one of the other starts of
            `minima`: "narrow", a much narrower network, "labels", "random".
        starts: of a minimum found by `minima`, how many of its starts ended there; 1 from `solve`.
    """

    problem: Problem
    order_parameters: tuple[Float[Array, "..."], ...]
    action: Float[Array, "*batch"]
    energy: Float[Array, "*batch"]
    entropy: Float[Array, "*batch"]
    gradient_norm: Float[Array, "*batch"]
    steps: Int[Array, "*batch"]
    outcome: Int[Array, "*batch"]
    start: str = field(default="prior", metadata={"static": True})
    starts: int = field(default=1, metadata={"static": True})

    @property
    def order_parameter(self) -> Float[Array, "*batch paths paths"]:
        """$U = U^{(1)}$, the weights of the path-path kernels."""
        return self.order_parameters[0]

    @property
    def converged(self) -> Bool[Array, "*batch"]:
        """True where the tolerance was reached."""
        return self.outcome == Outcome.CONVERGED

    def __getitem__(self, index) -> "Solution":
        """Take one solution, or a smaller batch, out of a batch."""
        np.broadcast_to(0, self.action.shape)[index]  # raises IndexError, where JAX would take the last one
        data = {"attentioned": self.problem.attentioned, "labels": self.problem.labels}
        numbers = replace(self, problem=self.problem.unchecked(attentioned=None, labels=None))
        taken = jax.tree.map(lambda leaf: leaf[index], numbers)
        if self._data_axes:
            data = jax.tree.map(lambda leaf: leaf[index], data)
        problem = taken.problem.unchecked(**data)
        if not taken.action.ndim and checks.concrete(taken.action):
            floats = {name: getattr(problem, name) for name in ("width", "temperature", "variance", "count")}
            problem = problem.unchecked(**jax.tree.map(float, floats))
        return replace(taken, problem=problem)

    def predict(self, test: AttentionedInputs | ArrayLike, *, paths: ArrayLike | None = None) -> Prediction:
        """Mean (9) and variance (30) of the output on test inputs; see `KernelRegression.predict`.

        Returns:
            `Prediction(mean, variance)`, with the leading axes of the solution.
        """

        def predicted(problem, order_parameter):
            return kernel_regression(problem, order_parameter).predict(test, paths=paths)

        numbers = dict.fromkeys(("width", "temperature", "variance", "count"), 0)
        for level in reversed(range(self.action.ndim)):
            data = 0 if level < self._data_axes else None
            axes = self.problem.unchecked(attentioned=data, labels=data, **numbers)
            predicted = jax.vmap(predicted, in_axes=(axes, 0))
        return predicted(self.problem, self.order_parameter)

    @property
    def _data_axes(self) -> int:
        """Leading axes of inputs and labels."""
        return self.problem.attentioned.values.ndim - 3

    def __repr__(self) -> str:
        problem, batch = self.problem, self.action.shape
        what = f"layers={problem.layers}"
        if batch:
            what = f"batch {batch}, {what}"
        if not checks.concrete(*jax.tree.leaves(self)):
            return f"Solution({what}, traced)"
        widths = ", ".join(dict.fromkeys(map(_range, problem.width)))
        what += f", {_range(problem.examples)} examples, N={widths}, T={_range(problem.temperature)}"
        outcome = Outcome(int(self.outcome)).name.lower().replace("_", " ") if not batch else ""
        ended = outcome or f"{np.sum(self.converged)} of {self.outcome.size} converged"
        ended += f" after {_range(self.steps)} steps, gradient {np.max(self.gradient_norm):.1e}"
        return f"Solution({what}: {ended}, started from: {self.start})"


def raise_unless_converged(solution: Solution) -> None:
    """Raise `NotConverged` unless all converged, or ValueError if that is unknown."""
    if not checks.concrete(solution.outcome):
        raise ValueError(
            "throw: throw=True cannot raise under jit, vmap or grad. Write throw=False and look at .converged."
        )
    bad = np.argwhere(np.asarray(solution.outcome) != Outcome.CONVERGED)
    if not len(bad):
        return
    solution = jax.tree.map(jax.lax.stop_gradient, solution)  # within jax.grad its numbers are known underneath
    worst = solution[tuple(bad[0])] if solution.action.ndim else solution
    widths = ", ".join(f"{float(width):g}" for width in worst.problem.width)
    raise NotConverged(
        f"The saddle point was not reached at T = {float(worst.problem.temperature):g}, N = {widths} "
        f"({len(bad)} of {solution.outcome.size} solves): gradient norm {float(worst.gradient_norm):.1e} after "
        f"{int(worst.steps)} steps. {_EXPLANATIONS[Outcome(int(worst.outcome))]} "
        "The solution so far is the .solution of this exception; throw=False returns it.",
        solution,
    )


def _range(values) -> str:
    """A number, or the smallest and largest of several."""
    least, most = np.min(np.asarray(values)), np.max(np.asarray(values))
    return f"{least:.6g}" if least == most or np.isnan(least) else f"{least:.6g}..{most:.6g}"
