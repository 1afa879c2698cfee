"""The result of `solve_without_paths`: order parameters in directions of every level, and predictions from them."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.kernels.of_tokens import check_alike
from statmech_attention.theory.kernels.regression import Prediction, Regression
from statmech_attention.theory.levels.features import Numbers, Point, descend
from statmech_attention.theory.levels.new_tokens import Descent, new_kernels
from statmech_attention.theory.levels.ranking import Features, Ranked
from statmech_attention.theory.levels.rows import attention_slopes, number_slopes
from statmech_attention.theory.problem import Problem


class NotSettled(RuntimeError):
    """Raised when more directions still change predictions; `solution` has the last ones."""

    def __init__(self, message: str, solution: "TokenSolution"):
        super().__init__(message)
        self.solution = solution

    def __reduce__(self):  # pickle would call it with the message alone
        return type(self), (*self.args, self.solution)


@dataclass(frozen=True, eq=False, repr=False)
class TokenSolution:
    r"""The minimum of the action (11) in so many directions of every level, from `solve_without_paths`.

    Attributes:
        problem: what was solved.
        directions: number of features of every level, fewer where a level has no more.
        action: $S - S_0$, with the smallest entropy $S_0$: what `solve` finds for the same network
            beyond that of the prior.
        gradient_norm: its largest gradient entry.
        change: by how much the last doubling of the directions changed predictions of left-out
            examples, relative to their size, rms; infinite if there was none. Zero where nothing is
            left out.
        left_out: what labels feel of the rest, $\mathrm{tr}\, W \delta K$, of the level where it is
            largest: it changes $N_{max} S$ by about that much if the rest moves by its own size.
        settled: true if `change` is below what was asked for.
    """

    problem: Problem
    directions: int
    action: float
    gradient_norm: float
    steps: int
    change: float
    left_out: float
    settled: bool
    regression: Regression
    ranked: Ranked
    features: Features
    point: Point

    @property
    def log_evidence(self) -> float:
        r"""$\ln p(Y) \approx -\frac{N}{2}(S - S_0) - \frac{P C}{2} \ln 2\pi$; exact at infinite width."""
        unit = float(self.problem.architecture.unit)
        excess = float(self.regression.nats) if np.isinf(unit) else unit * self.action
        return -0.5 * (excess + self.problem.labels.size * np.log(2 * np.pi))

    @property
    def left_out_predictions(self) -> Float[np.ndarray, "..."]:
        """The mean output of every training example if it had not been trained on, at this solution."""
        return left_out_means(self.regression, np.asarray(self.problem.labels))

    def predict(self, test: TokenInputs) -> Prediction:
        """Mean (9) and variance (30) of the output on test inputs, which come from `token_inputs`.

        Returns:
            `Prediction(mean, variance)`, each `(test examples,)`, or `(test examples, outputs)`.
        """
        check_alike(inputs_of(self.problem), test, "test")
        cross, own = new_kernels(test, self._descent())
        flat = cross.reshape(len(own) * own.shape[1], -1).T
        mean, variance = self.regression.predict(jnp.asarray(flat), jnp.asarray(own.reshape(-1)))
        shape = (-1, *test.chain.readout.axes)
        return Prediction(mean.reshape(shape), variance.reshape(shape))

    def evidence_slopes(self) -> dict[str, Float[Array | np.ndarray, "..."]]:
        r"""Derivatives of `log_evidence` in "temperature", "variance", "width" and "gates".

        Variances and widths have one per layer, $\sigma_0^2$ and $N_1$ first; gates one per head, layer
        by layer from the first: $g$ multiplies the head's term in (K3). At the minimum the
        coordinates need no derivative. The features are held fixed, and what they leave out does
        not follow $\sigma_1^2 .. \sigma_L^2$ and gates.
        """
        slopes, of_gates = number_slopes(numbers_of(self.problem, unit=1.0), self.point, self.features)
        layers = zip(inputs_of(self.problem).chain.heads, np.asarray(of_gates)[::-1], strict=True)
        return {
            "temperature": slopes.temperature,
            "variance": np.array([slopes.projection, *slopes.variances[::-1], slopes.readout]),
            "width": np.array([*slopes.shares[::-1], slopes.readout_share]),
            "gates": np.concatenate([gates[:heads] for heads, gates in layers]),
        }

    def attention_slopes(self) -> list[Float[np.ndarray, "examples _heads keys queries"]]:
        r"""Derivatives of `log_evidence` in all attention matrices of the training examples, layer by layer.

        In $\Omega^h$ of (2), with frozen norms in it; of the tokens that the mask counts, and zero
        beyond them. The directions are held, so that this is exact if they leave nothing out.
        Examples are padded to the longest; a matrix of all pairs of (example, token) is kept for
        every layer, or three.

        Returns:
            One array `(examples, heads, keys, queries)` per layer, the first layer's first.
        """
        numbers = numbers_of(self.problem, unit=1.0)
        return attention_slopes(inputs_of(self.problem), self.ranked, self.features, self.point, numbers)

    def _descent(self) -> Descent:
        inputs = inputs_of(self.problem)
        top, _, _, seen = descend(self.point, numbers_of(self.problem), self.features)
        columns = tuple(level[:, : self.features.size] for level in self.ranked.columns)
        features, seen = jax.tree.map(np.asarray, (self.features, seen))
        return Descent(inputs, columns, features, seen, np.asarray(top), self.problem.architecture.variances)

    def __repr__(self) -> str:
        problem = self.problem
        width = ", ".join(f"{float(number):g}" for number in dict.fromkeys(problem.width))
        what = f"layers={problem.layers}, {problem.examples} examples, N={width}, T={float(problem.temperature):g}"
        how = "settled" if self.settled else "not settled"
        return (
            f"TokenSolution({what}: {self.directions} directions, {how}, change {self.change:.2g}, "
            f"gradient {self.gradient_norm:.1e})"
        )


def inputs_of(problem: Problem) -> TokenInputs:
    """The tokens of a problem that has no paths."""
    inputs: Any = problem.attentioned
    return inputs


def numbers_of(problem: Problem, unit: float | None = None) -> Numbers:
    """Labels, temperature, variances and shares; at a unit of 1 shares are widths, and the action is $N S$."""
    architecture = problem.architecture
    unit = architecture.unit if unit is None else unit
    widths = np.asarray(architecture.widths, float)
    shares = np.where(np.isinf(widths), 0.0, widths) / unit  # at infinite width nothing moves
    inner = np.array([float(layer.inner or 0) for layer in architecture.chain.layers]) / unit
    return Numbers.of(problem.labels, problem.temperature, architecture.variances, shares, inner, unit)


def left_out_means(regression: Regression, labels) -> Float[np.ndarray, "..."]:
    """Leave-one-out means: with $R = (K + T)^{-1}$, $y_i - (R Y)_i / R_{ii}$; all outputs of an example together."""
    outputs = labels.reshape(len(labels), -1).shape[1]
    resolvent = np.asarray(regression.solve(jnp.eye(labels.size))).reshape(len(labels), outputs, len(labels), outputs)
    own = resolvent[np.arange(len(labels)), :, np.arange(len(labels))]
    solved = np.asarray(regression.solve(regression.labels)).reshape(len(labels), outputs, 1)
    return labels - np.linalg.solve(own, solved)[..., 0].reshape(labels.shape)
