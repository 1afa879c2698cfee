"""The result of a minimisation of the action: order parameters, outcome, and predictions from them."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from statmech_attention import checks
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.descent.minimum import ActionMinimum
from statmech_attention.theory.descent.trust_region import Outcome
from statmech_attention.theory.kernels.regression import Prediction, Regression, left_out_means
from statmech_attention.theory.levels.paths import least_entropy
from statmech_attention.theory.levels.ranking import Features, Ranked
from statmech_attention.theory.levels.rows import attention_slopes, grams
from statmech_attention.theory.outputs import by_output, outputs_at
from statmech_attention.theory.predictor import kernel_regression
from statmech_attention.theory.prepared import action_of_features, action_of_rows
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.slopes import slopes_along_paths, slopes_on_tokens

_EXPLANATIONS = {
    Outcome.MAX_STEPS: "The steps ran out. Start from the solution at a higher temperature, as solve_sweep does, or "
    "raise max_steps; if the gradient norm no longer falls, rounding limits it: raise the temperature.",
    Outcome.STALLED: "No step lowers the action any more: rounding limits the gradient, most often because the "
    "kernel is nearly singular at this temperature, or cannot fit labels that are large beside it. Raise the "
    "temperature, scale the labels down, or accept the gradient norm with a larger tolerance.",
    Outcome.NOT_FINITE: "The action is not finite: K + T I is not positive definite in double precision. Raise the "
    "temperature, or scale the inputs down.",
}


class NotConverged(RuntimeError):
    """The minimisation ended above the tolerance, or more directions would change predictions; see `solution`."""

    def __init__(self, message: str, solution: "Solution"):
        super().__init__(message)
        self.solution = solution

    def __reduce__(self):  # pickle would call it with the message alone
        return type(self), (*self.args, self.solution)


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["ranked", "features"],
    meta_fields=["count", "change", "settled", "lower"],
)
@dataclass(frozen=True, eq=False)
class Directions:
    """The features of every level in which a solution on tokens lies.

    Attributes:
        ranked: features of every level, those that labels feel most first.
        features: those that are free, as levels have them.
        count: how many these are, fewer where a level has no more; 0 at infinite width, where nothing moves.
        change: by how much the last doubling changed left-out predictions, relative to their size, rms;
            infinite if there was none, 0 where nothing is left out.
        settled: true if `change` is below what was asked for.
        lower: by how much $S$ is lower in a minimum that begins from a narrower network, negative where it is higher,
            0 where it is the same one.
    """

    ranked: Ranked
    features: Features
    count: int
    change: float
    settled: bool
    lower: float = 0.0

    def in_words(self) -> str:
        """How many there are, whether predictions settled, and whether another minimum was seen."""
        words = f", {self.count} directions, {'settled' if self.settled else 'not settled'}, change {self.change:.2g}"
        where = "lower" if self.lower > 0 else "higher"
        return words + (
            f"; from a narrower network S is {where} by {abs(self.lower):.2g}: see minima" if self.lower else ""
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    r"""A minimum of the action, or a batch of them with leading axes; a pytree.

    Attributes:
        problem: what was solved. In a batch its numbers have the leading axes; inputs and labels have
            them too if they differ, as under `jax.vmap`, but not in a sweep.
        point: the good coordinates of the minimum, of all levels.
        overlaps: `order_parameters` along paths, none on tokens.
        excess: $S - S_0$ at the minimum, $S_0$ the smallest entropy.
        energy: $E$.
        gradient_norm: largest entry of the action's gradient in the good coordinates.
        steps: trial steps of the trust region, or gradients.
        outcome: an `Outcome`.
        directions: on tokens the `Directions` of the solution, else None.
        start: where the minimisation started: "prior", "given", or one of the other starts of
            `minima`: "narrow", a much narrower network, "labels", "random".
        starts: of a minimum found by `minima`, how many of its starts ended there; 1 from `solve`.
    """

    problem: Problem
    point: Float[Array, "*batch coordinates"]
    overlaps: tuple[Float[Array, "..."], ...]
    excess: Float[Array, "*batch"]
    energy: Float[Array, "*batch"]
    gradient_norm: Float[Array, "*batch"]
    steps: Int[Array, "*batch"]
    outcome: Int[Array, "*batch"]
    directions: Any = None  # Directions, or None
    start: str = field(default="prior", metadata={"static": True})
    starts: int = field(default=1, metadata={"static": True})

    @property
    def order_parameters(self) -> tuple[Float[Array, "..."], ...]:
        r"""$(U^{(1)}, .., U^{(L)}, U^{(L+1)})$ along paths.

        $U^{(l)}$ is `(paths, paths)` over partial paths $(h_l .. h_L)$, the last a scalar, or `(outputs,
        outputs)`. $U^{(l)}$ of heads with a value dimension is followed by $G^{(l)}$, `(heads, partial,
        partial)`.
        """
        if self.directions is not None:
            raise AttributeError(
                "order_parameters: tokens have no paths. Take .gram(level), or solve attentioned_inputs."
            )
        return self.overlaps

    @property
    def order_parameter(self) -> Float[Array, "*batch paths paths"]:
        """$U = U^{(1)}$, the weights of the path-path kernels."""
        return self.order_parameters[0]

    @property
    def action(self) -> Float[Array, "*batch"]:
        r"""$S = \mathcal L + \alpha E$ at the minimum, (11)."""
        return self.excess + least_entropy(self.problem.architecture)

    @property
    def entropy(self) -> Float[Array, "*batch"]:
        r"""$\mathcal L$ at the minimum."""
        return self.action - self.problem.examples / jnp.asarray(self.problem.architecture.unit) * self.energy

    @property
    def converged(self) -> Bool[Array, "*batch"]:
        """True where the tolerance was reached."""
        return self.outcome == Outcome.CONVERGED

    @property
    def settled(self) -> bool:
        """True if more directions would hardly change predictions; along paths nothing is left out."""
        return self.directions is None or self.directions.settled

    def __getitem__(self, index) -> "Solution":
        """Take one solution, or a smaller batch, out of a batch."""
        np.broadcast_to(0, self.excess.shape)[index]  # raises IndexError, where JAX would take the last one
        data = {"attentioned": self.problem.attentioned, "labels": self.problem.labels}
        bare = self.problem.unchecked(attentioned=None, labels=None, energy=None)
        numbers = replace(self, problem=bare, directions=None)
        taken = jax.tree.map(lambda leaf: leaf[index], numbers)
        if self._data_axes:
            data = jax.tree.map(lambda leaf: leaf[index], data)
        problem = taken.problem.unchecked(**data, energy=self.problem.energy)
        if not taken.excess.ndim and checks.concrete(taken.excess):
            floats = {name: getattr(problem, name) for name in ("width", "temperature", "variance", "count")}
            problem = problem.unchecked(**jax.tree.map(float, floats))
        return replace(taken, problem=problem, directions=self.directions)

    def predict(
        self, test: AttentionedInputs | TokenInputs | ArrayLike, *, paths: ArrayLike | None = None
    ) -> Prediction:
        """Mean (9) and variance (30) of the output on test inputs; see `KernelRegression.predict`.

        On tokens they are exact in all directions that labels feel, but for what a projection leaves out; in fewer
        they are not, and more directions mend it, see `settle` of `solve`.

        Args:
            test: inputs of the same kind as in training.
            paths: along paths, use only pairs within this subset.

        Returns:
            `Prediction(mean, variance)`, with the leading axes of the solution.
        """
        if self.directions is not None:
            if paths is not None:
                raise ValueError("paths: tokens have no paths. Leave it out, or solve attentioned_inputs.")
            found = outputs_at(single(self, "predict"), test)(self.point, self.landscape)
            return Prediction(*(by_output(part, self.problem.attentioned) for part in found))

        def predicted(problem, order_parameter):
            return kernel_regression(problem, order_parameter).predict(test, paths=paths)

        numbers = dict.fromkeys(("width", "temperature", "variance", "count"), 0)
        for level in reversed(range(self.excess.ndim)):
            data = 0 if level < self._data_axes else None
            axes = self.problem.unchecked(attentioned=data, labels=data, energy=None, **numbers)
            predicted = jax.vmap(predicted, in_axes=(axes, 0))
        return predicted(self.problem, self.order_parameter)

    def left_out(self) -> Float[np.ndarray, "examples *outputs"]:
        r"""Leave-one-out means of the training examples, at the order parameters of all of them.

        With $R = (K + T)^{-1}$, $y_i - (R Y)_i / R_{ii}$; all outputs of an example together.
        """
        if single(self, "left_out").problem.count is not None:
            raise ValueError("left_out: wanted single examples, got reduced rows. Predict other examples.")
        return left_out_means(self.regression, np.asarray(self.problem.labels))

    @property
    def regression(self) -> Regression:
        """The Gaussian process of the training labels at the minimum."""
        return single(self, "regression").landscape.regression(self.point)

    @property
    def landscape(self) -> Action:
        """The action of which this is the minimum, of the problem's own rows."""
        problem = self.problem
        if self.directions is None:
            return action_of_rows(problem)
        numbers = problem.labels, problem.temperature, problem.architecture
        return action_of_features(*numbers, self.directions.features, problem.energy)

    def slopes(self) -> dict[str, Any]:
        r"""Derivatives of `log_evidence` in "temperature", "variance", "width" and "gates".

        Variances and widths have one per layer, $\sigma_0^2$ and $N_1$ first; gates one per head, layer by
        layer from the first: $g$ multiplies the head's term in the mean of $U^{(l)}$ given the layer above,
        (K3) on tokens. At the minimum the coordinates need no derivative. On tokens the features are held
        fixed, and what they leave out does not follow $\sigma_1^2 .. \sigma_L^2$ and gates. Gates belong to
        value matrices: layers whose heads share them have none, nor has a projection, see `head_worth`.
        """
        problem = single(self, "slopes").problem
        if self.directions is None:
            return slopes_along_paths(problem, self.point)
        slopes = slopes_on_tokens(problem, self.point, self.directions.features)
        if problem.projected:
            slopes.pop("gates", None)
        if not self.directions.count:  # what is left out, all of the kernel, does not follow these
            variance = slopes["variance"]
            slopes = slopes | {"variance": np.array([variance[0], *np.full(len(variance) - 2, np.nan), variance[-1]])}
            slopes.pop("gates", None)
        return slopes

    def attention_slopes(self) -> list[Float[np.ndarray, "examples _heads keys queries"]]:
        r"""Derivatives of `log_evidence` in all attention matrices of the training examples, layer by layer.

        On tokens, in $\Omega^h$ of (2), with frozen norms in it; of the tokens that the mask counts, and zero
        beyond them. The directions are held, so that this is exact if they leave nothing out.
        Examples are padded to the longest; a matrix of all pairs of (example, token) is kept for
        every layer, or three.

        Returns:
            One array `(examples, heads, keys, queries)` per layer, the first layer's first.
        """
        directions = self._with_rows("attention_slopes")
        return attention_slopes(self.problem.attentioned, directions.ranked, self.landscape, self.point)

    def gram(self, level: int) -> Float[np.ndarray, "rows rows"]:
        r"""$G_l$ of (K1) between the rows (example, token, output) of the training examples, $l = 1 .. L + 1$.

        Examples are padded to the longest. With all directions this is exact.
        """
        directions = self._with_rows("gram")
        level = checks.whole("level", level, 1, len(self.problem.attentioned.chain.kinds))
        return grams(self.problem.attentioned, directions.ranked, self.landscape, self.point)[-level]

    def _with_rows(self, what: str) -> Directions:
        if single(self, what).directions is None:
            raise ValueError(f"{what}: wanted a solution of token_inputs, got one along paths. Take .order_parameters.")
        if self.problem.projected:
            raise ValueError(f"{what}: wanted all pairs of tokens, got what a projection sees. Take fewer examples.")
        return self.directions

    @property
    def _data_axes(self) -> int:
        """Leading axes of inputs and labels."""
        return 0 if self.directions is not None else self.problem.attentioned.values.ndim - 3

    def __repr__(self) -> str:
        problem, batch = self.problem, self.excess.shape
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
        if self.directions is not None:
            ended += self.directions.in_words()
        return f"Solution({what}: {ended}, started from: {self.start})"


def single(solution: Solution, what: str) -> Solution:
    """The solution, unless it is a batch, which `what` refuses."""
    if solution.excess.ndim:
        raise ValueError(f"{what}: wanted a single solution, got a batch. Take one of them, as in solution[0].")
    return solution


def solution_of(
    minimum: ActionMinimum,
    problem: Problem,
    start: str = "prior",
    starts: int = 1,
    directions: Directions | None = None,
) -> Solution:
    """The minimum together with the problem that it solves."""
    least, overlaps = minimum.minimum, minimum.order_parameters
    reached = least.gradient_norm, least.steps, least.outcome
    energy = minimum.nats / problem.examples
    return Solution(problem, least.point, overlaps, least.value, energy, *reached, directions, start, starts)


def checked(solution: Solution, throw: bool) -> Solution:
    """The solution; raise unless it converged and settled, if `throw`."""
    if throw:
        raise_unless_converged(solution)
        if not solution.settled:
            raise NotConverged(_unsettled(solution.directions), solution)
    return solution


def _unsettled(directions: Directions) -> str:
    return (
        f"Predictions have not settled with {directions.count} directions a level: the last doubling changed them by "
        f"{directions.change:.2g} of their size. Allow more directions, or a larger settle; throw=False returns these. "
        "The solution so far is the .solution of this exception."
    )


def raise_unless_converged(solution: Solution) -> None:
    """Raise `NotConverged` unless all converged, or ValueError if that is unknown."""
    if not checks.concrete(solution.outcome):
        raise ValueError(
            "throw: throw=True cannot raise under jit, vmap or grad. Write throw=False and look at .converged."
        )
    bad = np.argwhere(np.asarray(solution.outcome) != Outcome.CONVERGED)
    if not len(bad):
        return
    # Within jax.grad its numbers are known underneath; tokens are no arrays.
    solution = jax.tree.map(lambda leaf: jax.lax.stop_gradient(leaf) if isinstance(leaf, jax.Array) else leaf, solution)
    worst = solution[tuple(bad[0])] if solution.excess.ndim else solution
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
