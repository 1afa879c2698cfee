"""Minima in more and more directions of every level, until left-out predictions settle.

A descent begins where the one in fewer directions has ended, and knows the curvature that it saw. Rows that are more
than the columns of a projected network are replaced by products of columns, (Z4), which cost the same in any number
of directions.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from statmech_attention.theory.descent.columns import ColumnEnergy, Products
from statmech_attention.theory.descent.gradients import Descent, descend
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.descent.minimum import ActionMinimum
from statmech_attention.theory.kernels.regression import left_out_means
from statmech_attention.theory.levels.features import FeatureLevels, carried
from statmech_attention.theory.levels.ranking import Features, Ranked
from statmech_attention.theory.prepared import action_of_features
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.solution import Directions, Solution, solution_of
from statmech_attention.theory.starts import NARROWER

_NOTHING = 1e-9  # of what labels feel: nothing is left out
_CLOSER = 0.3, 0.1  # gradients at which a second minimum is compared with the first
_NEAR, _NEARER = 1e-1, 1e-4  # gradients at a point to begin from, and where two minima are told apart
_STEPS = 20  # of the descent to a point to begin from, whose end does not matter
_SHARE = 1e-2  # of what predictions may change by, a gradient that hardly changes them
_ROWS = 400  # of which a much narrower network learns, for a point to begin from
_LOWER = 1e-6  # of the action, by which another minimum is lower


class Descents:
    """Descents on the same problem in more and more features, each with the curvature that those before it saw."""

    def __init__(self, problem: Problem, ranked: Ranked):
        self.problem, self.ranked, self.steps = problem, ranked, 0
        self.products = _products(problem)
        self.action: Any = None
        self.pairs: Sequence = ()

    def settled(self, counts: list[int], known: Solution | None, settle, options, narrow: bool) -> Solution:
        """The minimum in so many features, the first number at which left-out predictions settle, or the last."""
        tolerance, max_steps = options
        near, lower = (max(tolerance, min(_NEARER, _SHARE * settle)), max_steps), 0.0
        last: Any = None
        for count in counts:
            features = self.ranked.first(count, self.problem.attentioned)
            self.enter(features)
            points = [_carried(one, self.ranked, features) for one in (last, known) if one is not None]
            if not points:
                points, lower = self.first(features, near, narrow)
            directions = Directions(self.ranked, features, count, np.inf, False, lower)
            end = self.lowest(directions, points, options if count == counts[-1] else near)
            whole = count >= self.ranked.most and self.ranked.left_out(count) <= _NOTHING * self.ranked.total
            change = 0.0 if whole else np.inf if last is None else change_between(last, end)
            last = replace(end, directions=replace(directions, change=change, settled=change <= settle))
            if whole or last.settled:
                break
        if float(last.gradient_norm) > tolerance:
            last = self.lowest(last.directions, [last.point], options)
        return replace(last, steps=jnp.asarray(self.steps, jnp.int32), start="prior" if known is None else "given")

    def enter(self, features: Features) -> None:
        """Go on in these features, with the pairs of those before."""
        before, action = self.action, action_in(self.problem, features)
        if before is not None and before.levels.rows != action.levels.rows:
            self.pairs = [tuple(before.levels.padded(part, action.levels) for part in pair) for pair in self.pairs]
        if self.products is not None:
            columns = self.ranked.columns[-1][:, : action.levels.rows]
            action = replace(action, energy=ColumnEnergy.of(action.energy, self.products, columns))
        self.action = action

    def down(self, point, options: tuple[float, int]) -> Descent:
        """A descent in the features that were entered last."""
        end = descend(self.action, point, *options, self.pairs)
        self.pairs, self.steps = end.pairs, self.steps + int(end.minimum.steps)
        return end

    def lowest(self, directions: Directions, points: list, options: tuple[float, int]) -> Solution:
        """The lowest minimum from these points."""
        best = min((self.down(point, options) for point in points), key=lambda end: float(end.minimum.value))
        return solution_of(ActionMinimum(best.minimum, (), best.nats), self.problem, directions=directions)

    def first(self, features: Features, options: tuple[float, int], narrow: bool) -> tuple[list, float]:
        """The point to begin from, the prior's or a much narrower network's minimum; how much lower the latter is."""
        some, seen = _some(self.problem, features)
        few, share = action_in(some, seen), len(some.labels) / len(self.problem.labels)
        prior = jnp.zeros(few.levels.coordinates)
        narrower = replace(few, weight=NARROWER / share * few.weight)
        beyond = descend(narrower, prior, _NEAR, _STEPS).minimum
        found = self.down(prior, options).minimum
        known, other = self.pairs, beyond
        for near in (*_CLOSER, options[0]):
            other = self.down(other.point, (near, options[1])).minimum
            if not narrow and np.max(np.abs(other.point - found.point)) < _NEAR:
                self.pairs = known
                return [found.point], 0.0  # it is the same minimum
        lower = float(found.value - other.value)
        lower = lower if abs(lower) > _LOWER * (1 + abs(float(found.value))) else 0.0
        self.pairs = self.pairs if narrow else known
        return [other.point if narrow else found.point], lower


def _carried(known: Solution, ranked: Ranked, features: Features):
    """The point of a solution in other features."""
    before = known.directions.features
    if known.directions.ranked is ranked and before.seen.shape == features.seen.shape:
        return known.point
    levels = known.landscape.levels
    passed = [level.passed for level in ranked.levels]
    return jnp.asarray(
        carried(known.point, levels, FeatureLevels.of(features.maps, known.problem.architecture), passed)
    )


def _products(problem: Problem) -> Products | None:
    """Products of columns, if they are fewer than rows and the noise of all rows is the same."""
    single = problem.energy is None and not problem.attentioned.chain.readout.axes
    if not single or problem.count is None:
        return None
    values = problem.attentioned.values
    if len(values) < math.prod(values.shape[1:]):
        return None
    return Products.of(values, problem.labels)


def _some(problem: Problem, features: Features) -> tuple[Problem, Features]:
    """Some mixtures of the rows, which will do for a point to begin from."""
    if len(problem.labels) <= _ROWS or problem.energy is not None:
        return problem, features
    # Orthonormal mixtures, whose labels have the same noise.
    mixed = np.linalg.qr(np.random.default_rng(0).normal(size=(len(problem.labels), _ROWS)))[0].T
    seen = np.tensordot(mixed, features.seen, 1)
    few = features._replace(seen=seen, rest=mixed @ features.rest @ mixed.T, missing=None)
    return problem.unchecked(labels=jnp.asarray(mixed @ problem.labels)), few


def change_between(last: Solution, solution: Solution) -> float:
    """By how much left-out predictions differ, relative to their size, rms."""
    before, after = (left_out_means(one.regression, np.asarray(one.problem.labels)) for one in (last, solution))
    return float(np.sqrt(np.mean((after - before) ** 2) / np.mean(after**2)))


def action_in(problem: Problem, features: Features) -> Action:
    """The action of a problem in these features."""
    return action_of_features(problem.labels, problem.temperature, problem.architecture, features, problem.energy)
