"""A network over the temperature: theory, Gaussian-process limit, and the limit rescaled, each at its best.

The predictor (9) depends on the temperature over the scale of the kernel, which changes with the
width. So every curve has its own temperature in each draw, chosen on validation examples or by the
evidence. The rescaled limit has its kernel multiplied to the trace of the theory's: it is the limit
at another temperature, and shows what a change of scale does alone.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from attention_book.measures import half_interval, training_kernel
from statmech_attention import accuracy as share_right
from statmech_attention import checks
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.tasks import HiddenMarkovTrial
from statmech_attention.theory.action import gp_order_parameters
from statmech_attention.theory.evidence import log_evidence
from statmech_attention.theory.kernels import kernel
from statmech_attention.theory.predictor import kernel_regression
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.saddle_point import solve
from statmech_attention.theory.solution import Solution

if TYPE_CHECKING:
    pass

THEORY, LIMIT, RESCALED = "theory", "GP limit", "rescaled limit"
CHOSEN_BY = ("validation", "evidence")

_STEP, _REACH = math.sqrt(10), 4  # by which a grid is extended at an end, and how often at most


class Difference(NamedTuple):
    """Mean of paired differences over draws, and half of its 95 % interval by Student's t."""

    mean: float
    within: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ± {self.within:.3f}".replace("-", "−")


class ReducedTrial(NamedTuple):
    """A problem, which counts more examples than it has rows if it is reduced, and test examples."""

    problem: Problem
    test: AttentionedInputs
    test_labels: Any

    @property
    def train(self) -> AttentionedInputs:
        return self.problem.attentioned

    @property
    def labels(self):
        return self.problem.labels


class Comparison(NamedTuple):
    """Curves of one network over temperature."""

    temperatures: Float[np.ndarray, " temperatures"]
    accuracy: dict[str, Float[np.ndarray, "draws halves temperatures"]]  # on either half of the test examples
    evidence: dict[str, Float[np.ndarray, "draws temperatures"]]  # logarithms: of the theory (V3), of the limits exact

    def chosen(self, curve: str = THEORY, by: str = "validation") -> np.ndarray:
        """Index of the temperature for each half, `(draws, halves)`: the best on the other half, or by the evidence.

        Of equally good ones it is that nearest the middle of the grid.
        """
        accuracy = self.accuracy[curve]
        by_evidence = checks.choice("by", by, CHOSEN_BY) == "evidence"
        values = np.repeat(self.evidence[curve][:, None], 2, axis=1) if by_evidence else accuracy[:, ::-1]
        off_middle = np.abs(np.arange(len(self.temperatures)) - (len(self.temperatures) - 1) / 2)
        return np.where(values == values.max(axis=-1, keepdims=True), off_middle, np.inf).argmin(axis=-1)

    def temperature(self, curve: str = THEORY, by: str = "validation") -> float:
        """Geometric mean of the chosen temperatures."""
        return float(np.exp(np.log(self.temperatures[self.chosen(curve, by)]).mean()))

    def at_best(self, curve: str = THEORY, by: str = "validation") -> np.ndarray:
        """Accuracy of each draw at its chosen temperatures, on examples that did not choose them."""
        places = self.chosen(curve, by)[..., None]
        return np.take_along_axis(self.accuracy[curve], places, axis=-1).mean(axis=(1, 2))

    def gain(self, over: str = LIMIT, by: str = "validation") -> Difference:
        """Accuracy of the theory minus that of another curve, each at its chosen temperatures."""
        return difference(self.at_best(THEORY, by), self.at_best(over, by))

    def at_ends(self, *curves: str) -> tuple[int, int]:
        """In how many choices, of all curves or some, the lowest and the highest temperature is strictly the best."""
        places = np.concatenate([self.chosen(curve) for curve in curves or self.accuracy])
        return int(np.sum(places == 0)), int(np.sum(places == len(self.temperatures) - 1))


def difference(one, other) -> Difference:
    """Mean of `one - other` over draws, with its interval."""
    apart = np.asarray(one, float) - np.asarray(other, float)
    return Difference(float(apart.mean()), half_interval(apart))


def compare(
    trials: Iterable[HiddenMarkovTrial | ReducedTrial],
    *,
    width: float,
    temperatures: Sequence[float],
    accuracy: Callable = share_right,
    others: Callable[[Solution], Mapping] = lambda solution: {},
) -> Comparison:
    """Compare theory and limits over temperature; each half of a draw's test examples validates for the other.

    A grid is extended by half decades, two decades at most, while its end is the choice of any
    curve in any draw. `others` returns order parameters of further curves, by name.
    """
    draws = [_Draw(trial, width, accuracy, others) for trial in trials]

    def at(heat: float) -> Comparison:
        columns = [draw.at(float(heat)) for draw in draws]
        return Comparison(np.array([heat]), *jax.tree.map(lambda *one: np.stack(one)[..., None], *columns))

    def joined(*parts: Comparison) -> Comparison:
        return jax.tree.map(lambda *one: np.concatenate(one, axis=-1), *parts)

    found = joined(*map(at, sorted(temperatures)))
    for _ in range(_REACH):
        low, high = found.at_ends()
        if low:
            found = joined(at(found.temperatures[0] / _STEP), found)
        if high:
            found = joined(found, at(found.temperatures[-1] * _STEP))
    return found


class _Draw:
    """One draw of data; the limit's kernel is diagonalised once for all temperatures."""

    def __init__(self, trial: HiddenMarkovTrial | ReducedTrial, width: float, accuracy: Callable, others: Callable):
        self.trial, self.accuracy, self.others = trial, accuracy, others
        given = trial.problem if isinstance(trial, ReducedTrial) else Problem(trial.train, trial.labels)
        self.problem = given.replace(width=width)
        limit, labels = gp_order_parameters(self.problem.layers)[0], np.asarray(trial.labels).ravel()
        gram, across = (np.asarray(kernel(seen, trial.train, limit)) for seen in (trial.train, trial.test))
        self.levels, modes = np.linalg.eigh(gram.reshape(len(labels), -1))
        self.along, self.onto = labels @ modes, across.reshape(-1, len(labels)) @ modes
        self.solved: dict[float, Solution] = {}  # by temperature; the nearest is where the next solve starts

    def at(self, heat: float) -> tuple[dict, dict]:
        """Accuracies on both halves of the test examples, and log evidence, by curve."""
        nearest = min(self.solved, key=lambda other: abs(math.log(other / heat)), default=heat)
        solution = solve(self.problem.replace(temperature=heat), start=self.solved.get(nearest))
        self.solved[heat] = solution
        found = {THEORY: solution.order_parameter, **self.others(solution)}
        means = {name: _mean(solution.problem, self.trial.test, u) for name, u in found.items()}
        evidence = {THEORY: np.asarray(log_evidence(solution))}
        trace = np.trace(np.asarray(training_kernel(solution)).reshape(len(self.levels), -1))
        for name, scale in ((LIMIT, 1.0), (RESCALED, trace / self.levels.sum())):
            spectrum = scale * self.levels + heat
            mean = scale * self.onto @ (self.along / spectrum)
            means[name] = mean.reshape(-1, *self.trial.labels.shape[1:])
            evidence[name] = -0.5 * np.sum(np.log(2 * np.pi * spectrum) + self.along**2 / spectrum)
            evidence[name] -= 0.5 * self.problem.dropped * np.log(2 * np.pi * heat)
        return {name: self._halves(mean) for name, mean in means.items()}, evidence

    def _halves(self, mean) -> np.ndarray:
        labels, half = self.trial.test_labels, len(self.trial.test_labels) // 2
        return np.array([float(self.accuracy(mean[part], labels[part])) for part in (slice(half), slice(half, None))])


@jax.jit
def _mean(problem: Problem, test, order_parameter):
    # Compiled by itself, without the variance, which nobody takes.
    return kernel_regression(problem, order_parameter).predict(test).mean
