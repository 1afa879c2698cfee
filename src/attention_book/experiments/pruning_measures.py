"""Measures of a pruning: scores, orders of removal, and their costs."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

from attention_book.experiments.networks import Sequences
from attention_book.pruning import (
    every_removal,
    greedy_order,
    head_drops,
    normalised_by_layer,
    predictor_vectors,
    pruning_curve,
    taylor_importance,
    whole_and_without_each,
)
from attention_book.training.network import TrainedNetwork
from statmech_attention.layers.chains import chain
from statmech_attention.model.accuracy import right
from statmech_attention.pruning import DEFINITIONS, head_indices, head_scores, removal_order
from statmech_attention.pruning.evidence import order_parameters_left, without_head
from statmech_attention.pruning.heads import path_gates
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.saddle_point import solve

_RANDOM_ORDERS = 100
_SHARE = 0.25  # of the heads, of which every choice is tried
_DEFINITIONS = (*DEFINITIONS, "weighted")


def head_scores_by(definition: str, order_parameter, covariance, layers: tuple) -> Float[np.ndarray, " heads"]:
    """Scores by a definition; "weighted" is "either" times the sizes of the path-path kernels."""
    weighted = definition == "weighted"
    matrix = np.asarray(order_parameter) * (np.asarray(covariance) if weighted else 1.0)
    return np.asarray(head_scores(matrix, layers=layers, definition="either" if weighted else definition))


class Contributions(NamedTuple):
    """A set of sequences as the network sees it."""

    contributions: Float[np.ndarray, "examples paths"]  # see `path_contributions`
    labels: Float[np.ndarray, " examples"]


def costs(network: TrainedNetwork, seen: dict[str, Contributions]) -> xr.Dataset:
    """Accuracies on the test sets, drops without single heads, and parameters that removals save."""
    options: dict[str, Any] = {"layers": network.layers, "bias": network.bias}
    whole = [pruning_curve(*one, [], **options) for one in seen.values()]
    drops = [head_drops(*one, **options) for one in seen.values()]
    indices = head_indices(network.layers)
    dimension, features = network.queries[0].shape[1:]
    width = network.width
    head = width**2 + 2 * dimension * features
    removed = np.arange(_removals(network.layers) + 1)
    return xr.Dataset(
        {
            "accuracy": ("test_set", np.array([one.mean[0] for one in whole])),
            "accuracy_error": ("test_set", np.array([one.error[0] for one in whole])),
            "drop": (("test_set", "head"), np.array([one.mean for one in drops])),
            "drop_error": (("test_set", "head"), np.array([one.error for one in drops])),
            "parameter_share": ("removed", removed * head / (head * len(indices) + width * (features + 1))),
        },
        coords={
            "test_set": list(seen),
            "removed": removed,
            "head_layer": ("head", indices[:, 0] + 1),
            "head_number": ("head", indices[:, 1] + 1),
        },
    )


def by_criterion(
    network: TrainedNetwork,
    validation: Contributions,
    few: Contributions,
    confidence: Float[np.ndarray, " heads"],
    covariance,
    seen: dict[str, Contributions],
    seed: int,
) -> xr.Dataset:
    """Scores that need no theory, and curves in their order, greedily, at random, and in every way."""
    layers = network.layers
    options: dict[str, Any] = {"layers": layers, "bias": network.bias}
    left_out, taylor = head_drops(*validation, **options), taylor_importance(*validation, **options)
    scores = {
        **{
            f"trained, {kind}": head_scores_by(kind, network.order_parameters[0], covariance, layers)
            for kind in _DEFINITIONS
        },
        # No order parameter at all: the attentioned inputs alone.
        "kernels": head_scores_by("weighted", np.eye(len(network.vectors)), covariance, layers),
        "weights": network.head_weight_norms(),
        "values": network.head_weight_norms(values_only=True),
        "confidence": confidence,
        "Taylor": taylor,
        "Taylor, by layer": normalised_by_layer(taylor, layers=layers),
        "Taylor, signed": taylor_importance(*validation, signed=True, **options),
        "Taylor, few": taylor_importance(*few, **options),
        "leave one out, few": head_drops(*few, **options).mean,
        "leave one out": left_out.mean,
    }
    followed = _followed(np.array(list(scores.values())), ("criterion",), layers, seen, network.bias)
    greedy = greedy_order(*validation, **options)
    rng = np.random.default_rng(seed)
    orders = [removal_order(rng.random(len(left_out.mean)), layers=layers) for _ in range(_RANDOM_ORDERS)]
    random = np.array([[pruning_curve(*one, order, **options).mean for one in seen.values()] for order in orders])
    greedy_curves = [pruning_curve(*one, greedy, **options) for one in seen.values()]
    curve, count = ("test_set", "removed"), max(round(_SHARE * len(confidence)), 1)
    choices = [every_removal(*one, count=count, **options) for one in seen.values()]
    return followed.assign(
        choice_removed=(("choice", "of_choice"), choices[0].removed),
        choice_accuracy=(("test_set", "choice"), np.array([one.accuracy for one in choices])),
        leave_one_out_error=("head", left_out.error),
        greedy_order=("removal", greedy),
        greedy_curve=(curve, np.array([one.mean for one in greedy_curves])),
        greedy_curve_error=(curve, np.array([one.error for one in greedy_curves])),
        random_curve=(curve, random.mean(axis=0)),
        random_curve_spread=(curve, random.std(axis=0, ddof=1)),
    ).assign_coords(criterion=list(scores), test_set=list(seen))


def by_theory(
    network: TrainedNetwork, order_parameters: xr.DataArray, covariance, seen: dict[str, Contributions]
) -> xr.Dataset:
    """Scores from the theory by definition, draw and width, with orders and curves, named `theory_`."""
    matrices = order_parameters.values.astype(float)
    scores = np.empty((len(_DEFINITIONS), *matrices.shape[:2], len(head_indices(network.layers))))
    for place, kind in enumerate(_DEFINITIONS):
        for index in np.ndindex(matrices.shape[:2]):
            scores[(place, *index)] = head_scores_by(kind, matrices[index], covariance, network.layers)
    followed = _followed(scores, ("definition", "draw", "width"), network.layers, seen, network.bias)
    followed = followed.rename({name: f"theory_{name}" for name in followed})
    return followed.assign_coords(
        definition=list(_DEFINITIONS), width=order_parameters["width"].values, test_set=list(seen)
    )


def _followed(
    scores: np.ndarray, axes: tuple[str, ...], layers: tuple, seen: dict[str, Contributions], bias: float
) -> xr.Dataset:
    """Orders of removal and curves, for scores with leading axes."""
    leading, removals = scores.shape[:-1], _removals(layers)
    orders = np.empty((*leading, removals), int)
    curves = np.empty((2, *leading, len(seen), removals + 1))
    for index in np.ndindex(leading):
        orders[index] = removal_order(scores[index], layers=layers)
        for place, one in enumerate(seen.values()):
            curves[(slice(None), *index, place)] = pruning_curve(*one, orders[index], layers=layers, bias=bias)
    return xr.Dataset(
        {
            "score": ((*axes, "head"), scores),
            "order": ((*axes, "removal"), orders),
            "curve": ((*axes, "test_set", "removed"), curves[0]),
            "curve_error": ((*axes, "test_set", "removed"), curves[1]),
        }
    )


def _removals(layers: tuple) -> int:
    """Largest number of heads removed: all but one of every layer, all of a layer with a skip."""
    return sum(layer.heads - layer.fewest for layer in chain(layers).layers)


class Predictors(NamedTuple):
    r"""The theory's mean predictors as vectors $v^\pi$; those of paths that are gone are zero."""

    whole: Float[np.ndarray, "draws widths paths features"]  # with all heads
    # without each head, at the same order parameter of the paths left: kernel regression without the head
    fitted: Float[np.ndarray, "draws widths heads paths features"]
    # without each head and at the order parameter solved without it, at the narrowest width
    anew: Float[np.ndarray, "draws heads paths features"]


def predictors(
    trains: Sequence[Sequences], order_parameters: xr.DataArray, temperatures: xr.DataArray, step: Callable[..., object]
) -> Predictors:
    """Predictors with all heads and without each; paths left keep their coefficients."""
    layers = trains[0].inputs.layers
    gates = path_gates(layers, whole_and_without_each(layers))[1:]
    count = len(gates)
    overlaps, heats = order_parameters.values.astype(float), temperatures.transpose("draw", "width").values
    widths = order_parameters["width"].values
    narrow = int(np.argmin(widths))
    shape = trains[0].inputs.values.shape[1:]
    found = Predictors(
        whole=np.zeros((*heats.shape, *shape)),
        fitted=np.zeros((*heats.shape, count, *shape)),
        anew=np.zeros((len(trains), count, *shape)),
    )
    for draw, (inputs, labels) in enumerate(trains):
        for width, heat in enumerate(heats[draw]):
            overlap = jnp.asarray(overlaps[draw, width])
            found.whole[draw, width] = predictor_vectors(Problem(inputs, labels, temperature=heat), overlap)
        problem = Problem(inputs, labels, width=float(widths[narrow]), temperature=float(heats[draw, narrow]))
        whole = solve(problem, throw=False)
        for head in range(count):
            left, smaller = np.flatnonzero(gates[head]), without_head(inputs, head)
            # The smaller network's inputs hold the whole one's coefficients; here the vectors hold them.
            gain = gates[head][left, None]
            for width, heat in enumerate(heats[draw]):
                overlap = jnp.asarray(overlaps[draw, width][np.ix_(left, left)])
                vectors = predictor_vectors(Problem(smaller, labels, temperature=heat), overlap)
                found.fitted[draw, width, head, left] = vectors / gain
            own = problem.replace(attentioned=smaller)
            overlap = solve(own, start=order_parameters_left(whole, head), throw=False).order_parameter
            vectors = predictor_vectors(own, overlap)
            found.anew[draw, head, left] = vectors / gain
            step()
    return found


class Hits:
    """Right answers of the predictors on a test set, counted batch by batch."""

    def __init__(self, theory: Predictors, layers: tuple):
        self._theory, self._examples = theory, 0
        self._gates = path_gates(layers, whole_and_without_each(layers))
        count = theory.anew.shape[1]
        draws, widths = theory.whole.shape[:2]
        self._cut, self._fitted = np.zeros((draws, widths, count + 1)), np.zeros((draws, widths, count))
        self._anew = np.zeros((draws, count))

    def add(self, values: Float[np.ndarray, "examples paths features"], labels: Float[np.ndarray, " examples"]) -> None:
        """Count the right answers of a batch."""
        contributions = np.einsum("epi,dwpi->dwep", values, self._theory.whole, optimize=True)
        self._cut += right(np.einsum("dwep,gp->dwge", contributions, self._gates, optimize=True), labels).sum(axis=-1)
        flat = values.reshape(len(values), -1)
        for hits, vectors in ((self._fitted, self._theory.fitted), (self._anew, self._theory.anew)):
            outputs = vectors.reshape(*vectors.shape[:-2], -1) @ flat.T
            hits += right(outputs, labels).sum(axis=-1)
        self._examples += len(values)

    def drops(self) -> xr.Dataset:
        """Accuracies with all heads, and their fall without each."""
        accuracy = self._cut[..., 0] / self._examples
        by_width = ("draw", "width")
        return xr.Dataset(
            {
                "theory_accuracy": (by_width, accuracy),
                "theory_drop": ((*by_width, "head"), accuracy[..., None] - self._cut[..., 1:] / self._examples),
                "theory_drop_fitted": ((*by_width, "head"), accuracy[..., None] - self._fitted / self._examples),
                "theory_anew_accuracy": (("draw", "head"), self._anew / self._examples),
            }
        )
