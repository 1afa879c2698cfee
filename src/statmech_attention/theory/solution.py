"""The result of a minimisation of the action: order parameters, outcome, and predictions from them."""

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from statmech_attention import checks
from statmech_attention.files import write_netcdf
from statmech_attention.model.paths import AttentionedInputs, as_attentioned
from statmech_attention.theory.kernels import kernel
from statmech_attention.theory.predictor import JointPrediction, Prediction, predict
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.scores import head_scores
from statmech_attention.theory.trust_region import Outcome

_EXPLANATIONS = {
    Outcome.MAX_STEPS: "The steps ran out. Start from the solution at a higher temperature, as solve_sweep does, or "
    "raise max_steps; if the gradient norm no longer falls, rounding limits it: raise the temperature.",
    Outcome.STALLED: "No step lowers the action any more: rounding limits the gradient, most often because the "
    "kernel is nearly singular at this temperature. Raise the temperature, or accept the gradient norm with a "
    "larger tolerance.",
    Outcome.NOT_FINITE: "The action is not finite: K + T I is not positive definite in double precision. Raise the "
    "temperature, or scale the inputs down.",
}
_MOST_HEADS = 16  # whose scores a summary shows


class NotConverged(RuntimeError):
    """The minimisation ended without reaching the tolerance; `solution` is where it ended."""

    def __init__(self, message: str, solution: "Solution"):
        super().__init__(message)
        self.solution = solution


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False)
class Solution:
    r"""A minimum of the action, or a batch of them with leading axes; all attributes are arrays.

    Attributes:
        order_parameters: $(U^{(1)}, .., U^{(L)}, U^{(L+1)})$; $U^{(l)}$ is `(paths, paths)` over
            partial paths $(h_l .. h_L)$, the last a scalar, or `(outputs, outputs)`. $U^{(l)}$ of
            heads with a value dimension is followed by $G^{(l)}$, `(heads, partial, partial)`.
        action: $S = \mathcal L + \alpha E$ at the minimum.
        energy: $E$.
        entropy: $\mathcal L$.
        gradient_norm: largest entry of the action's gradient in the good coordinates.
        steps: trial steps of the trust region.
        outcome: an `Outcome`.
        attentioned: the training inputs.
        labels: the training labels $Y$.
        temperature: $T$.
        width: $(N_1, .., N_{L+1})$.
        variance: $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$.
        count: as in `Problem`.
    """

    order_parameters: tuple[Float[Array, "..."], ...]
    action: Float[Array, "*batch"]
    energy: Float[Array, "*batch"]
    entropy: Float[Array, "*batch"]
    gradient_norm: Float[Array, "*batch"]
    steps: Int[Array, "*batch"]
    outcome: Int[Array, "*batch"]
    attentioned: AttentionedInputs
    labels: Float[Array, "..."]
    temperature: Float[Array, "*batch"]
    width: tuple[Float[Array, "*batch"], ...]
    variance: tuple[Float[Array, "*batch"], ...]
    count: Float[Array, "*batch"] | None = None

    @property
    def problem(self) -> Problem:
        """The problem that a single solution solves; not of a batch."""
        if self.temperature.ndim:
            raise ValueError("problem: wanted a single solution, got a batch. Take one of them, as in solution[0].")
        numbers = self.width, self.temperature, self.variance, self.count
        if checks.concrete(*jax.tree.leaves(numbers)):
            numbers = jax.tree.map(float, numbers)
        return Problem.tree_unflatten(None, (self.attentioned, self.labels, *numbers))

    @property
    def examples(self) -> int | Float[Array, "*batch"]:
        """$P$, the number of training examples."""
        return self.attentioned.values.shape[-3] if self.count is None else self.count

    @property
    def order_parameter(self) -> Float[Array, "*batch paths paths"]:
        """$U = U^{(1)}$, the weights of the path-path kernels."""
        return self.order_parameters[0]

    @property
    def converged(self) -> Bool[Array, "*batch"]:
        """True where the tolerance was reached."""
        return self.outcome == Outcome.CONVERGED

    def __repr__(self) -> str:
        return f"Solution({_line(self)})"

    def summary(self) -> str:
        """Return problem, outcome and results on one screen; for a batch their ranges."""
        if not checks.concrete(*jax.tree.leaves(self)):
            return _line(self)
        inputs, batch = self.attentioned, self.temperature.shape
        chain, features = inputs.chain, inputs.values.shape[-1]
        outputs = f"{chain.outputs} output{'s' * (chain.outputs > 1)}"
        reduced = "" if self.count is None else f", reduced to {inputs.values.shape[-3]} rows"
        variances = [_range(number) for number in self.variance]
        variance = variances[0] if len(set(variances)) == 1 else f"({', '.join(variances)})"
        rows = {
            "solutions": f"{math.prod(batch)} in a batch of shape {batch}" if batch else "1",
            "network": f"layers={inputs.layers}, {chain.paths} paths, {outputs}",
            "data": f"{_range(self.examples)} examples of {features} features{reduced}",
            "width": f"{_widths(self)} (N)",
            "temperature": f"{_range(self.temperature)} (T)",
            "variance": f"{variance} (sigma^2)",
            "outcome": _ended(self),
            "action": "{} = entropy {} + P/N x energy {}".format(
                *map(_range, (self.action, self.entropy, self.energy))
            ),
            "log evidence": f"{_range(self.log_evidence())}, to leading order in N",
        }
        if any(chain.heads):
            scores = np.asarray(self.head_scores()).reshape(-1, sum(chain.heads)).mean(axis=0)
            shown = " ".join(f"{score:.2f}" for score in scores[:_MOST_HEADS])
            rows["head scores"] = f"{shown}{' ..' * (len(scores) > _MOST_HEADS)}{', mean of the batch' * bool(batch)}"
        return "\n".join(f"{name:<13} {text}" for name, text in rows.items())

    def log_evidence(self, *, corrected: bool = False) -> Float[Array, "*batch"]:
        r"""$\ln p(Y)$ to leading order in $N$, or corrected; see `statmech_attention.log_evidence`."""
        from statmech_attention.theory.evidence import log_evidence  # which takes a Solution

        return log_evidence(self, corrected=corrected)

    def head_scores(self, *, definition: str = "both", normalised: bool = True) -> Float[Array, "*batch heads"]:
        """Importance of each head, `(all heads,)`, for every solution; see `statmech_attention.head_scores`."""

        def one(order_parameter):
            return head_scores(
                order_parameter, layers=self.attentioned.layers, definition=definition, normalised=normalised
            )

        return self._batched(one, self.order_parameter)

    def to_xarray(self):
        """Convert to a Dataset with the leading axes first, `batch_1` ..; `layers` is an attribute.

        Raises:
            ValueError: inside a JAX transformation; a kind of layer that cannot be written.
        """
        from statmech_attention.theory.records import to_dataset  # xarray takes a while to import

        return to_dataset(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write to a netCDF file ending in `.nc`, whole or not at all; return the path.

        Raises:
            ValueError: as `to_xarray`, or another ending.
            OSError: it cannot be written, as on a full disk.
        """
        return write_netcdf(self.to_xarray(), path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Solution":
        """Read the file that `save` wrote, with the same numbers.

        Raises:
            FileNotFoundError: no such file.
            ValueError: a damaged file, or one of something else.
        """
        from statmech_attention.theory.records import load

        return load(path)

    def __getitem__(self, index) -> "Solution":
        """Take one solution, or a smaller batch, out of a batch."""
        checks.index("solution", index, self.temperature.shape)
        names = ["order_parameters", "action", "energy", "entropy", "gradient_norm", "steps", "outcome", "temperature"]
        names += ["width", "variance", "count"] + ["attentioned", "labels"] * (self._own_axes > 0)
        return replace(self, **{name: jax.tree.map(lambda leaf: leaf[index], getattr(self, name)) for name in names})

    def predict(
        self, test: AttentionedInputs | ArrayLike, *, paths: ArrayLike | None = None, joint: bool = False
    ) -> Prediction | JointPrediction:
        """Mean (9) and variance (30) of the output on test inputs; see `statmech_attention.predict`.

        Args:
            test, paths, joint: as in `predict`.

        Returns:
            `Prediction(mean, variance)`, or `JointPrediction(mean, covariance)`, with the leading
            axes of the solution.
        """

        def one(train, labels, test, order_parameter, temperature, variance):
            problem = Problem.tree_unflatten(None, (train, labels, None, temperature, variance))
            return predict(problem, test, order_parameter, paths=paths, joint=joint)

        test, numbers = self._like_training("test", test), (self.temperature, self.variance)
        return self._batched(one, self.attentioned, self.labels, test, self.order_parameter, *numbers)

    def kernel(
        self,
        attentioned: AttentionedInputs | ArrayLike | None = None,
        others: AttentionedInputs | ArrayLike | None = None,
    ) -> Float[Array, "..."]:
        """The renormalised kernel (10), between the training inputs by default.

        Args:
            attentioned: first argument; the training inputs if None.
            others: second argument; the same as the first if None.

        Returns:
            `(examples, others)`, or `(examples, outputs, others, outputs)`, with the leading axes
            of the solution.
        """
        left = self.attentioned if attentioned is None else self._like_training("attentioned", attentioned)
        right = left if others is None else self._like_training("others", others)

        def one(left, right, order_parameter, variance):
            return kernel(left, right, order_parameter, variance=variance)

        return self._batched(one, left, right, self.order_parameter, self.variance)

    @property
    def _own_axes(self) -> int:
        """Leading axes of the training inputs: those of `jax.vmap`; a sweep has one set of inputs for all."""
        return self.labels.ndim - 1 - len(self.attentioned.chain.readout.axes)

    def _like_training(self, name: str, value) -> AttentionedInputs:
        """Inputs, with or without the leading axes that the training inputs have."""
        values = value.values if isinstance(value, AttentionedInputs) else value
        heads = value.layers if isinstance(value, AttentionedInputs) else self.attentioned.layers
        if self._own_axes and getattr(values, "ndim", 3) == 3 + self._own_axes:
            flat = as_attentioned(name, values.reshape(-1, *values.shape[-2:]), heads)
            return AttentionedInputs(flat.values.reshape(values.shape), heads)
        return as_attentioned(name, value, None if isinstance(value, AttentionedInputs) else heads)

    def _batched(self, function, *arguments):
        """`function` over the leading axes of its arguments; those that lack one are shared along it."""

        def leading_axes(argument):
            if isinstance(argument, AttentionedInputs):
                return argument.values.ndim - 3
            return self._own_axes if argument is self.labels else self.temperature.ndim

        for level in reversed(range(self.temperature.ndim)):
            axes = tuple(0 if level < leading_axes(argument) else None for argument in arguments)
            function = jax.vmap(function, in_axes=axes)
        return function(*arguments)


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
    worst = tuple(bad[0])
    outcome = Outcome(int(solution.outcome[worst]))
    where = (
        f"T = {float(solution.temperature[worst]):g}, N = {', '.join(f'{float(n[worst]):g}' for n in solution.width)}"
    )
    raise NotConverged(
        f"The saddle point was not reached at {where} ({len(bad)} of {solution.outcome.size} solves): gradient norm "
        f"{float(solution.gradient_norm[worst]):.1e} after {int(solution.steps[worst])} steps. "
        f"{_EXPLANATIONS[outcome]} "
        "The solution so far is the .solution of this exception; throw=False returns it.",
        solution,
    )


def _line(solution) -> str:
    """Problem and outcome in one line, without any of the arrays."""
    inputs = solution.attentioned
    shape = "" if not solution.temperature.shape else f"batch {solution.temperature.shape}, "
    what = f"{shape}layers={inputs.layers}"
    if not checks.concrete(*jax.tree.leaves(solution)):
        return f"{what}, {inputs.values.shape[-3]} {'examples' if solution.count is None else 'rows'}, traced"
    what = f"{what}, {_range(solution.examples)} examples"
    return f"{what}, N={_widths(solution)}, T={_range(solution.temperature)}: {_ended(solution)}"


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
