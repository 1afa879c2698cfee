"""What is recorded of a pruning: scores, orders of removal, and what they cost on the test sets."""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from jaxtyping import Float
from statmech_attention.training.network import TrainedNetwork

from statmech_attention.layers.chains import chain
from statmech_attention.pruning import (
    DEFINITIONS,
    every_removal,
    greedy_order,
    head_drops,
    head_indices,
    head_scores,
    head_weight_norms,
    normalised_by_layer,
    pruning_curve,
    removal_order,
    taylor_importance,
)

_RANDOM_ORDERS = 100
_SHARE = 0.25  # of the heads, of which every choice is tried
_DEFINITIONS = (*DEFINITIONS, "weighted")


def head_scores_by(definition: str, order_parameter, covariance, heads: tuple) -> Float[np.ndarray, " heads"]:
    """Scores by one of the definitions.

    Args:
        definition: "both", "either", or "weighted": as "either", each entry times the size of its path-path kernel.
        order_parameter: `(paths, paths)`.
        covariance: the result of `path_covariance`.
        heads: number of heads in every layer, or layers of other kinds among them.

    Returns:
        `(all heads,)`.
    """
    weighted = definition == "weighted"
    matrix = np.asarray(order_parameter) * (np.asarray(covariance) if weighted else 1.0)
    return np.asarray(head_scores(matrix, heads=heads, definition="either" if weighted else definition))


class Contributions(NamedTuple):
    """A set of sequences as the network sees it.

    Attributes:
        contributions: the result of `path_contributions`.
        labels: +1 and -1.
    """

    contributions: Float[np.ndarray, "examples paths"]
    labels: Float[np.ndarray, " examples"]


def costs(network: TrainedNetwork, seen: dict[str, Contributions]) -> xr.Dataset:
    """What the removal of single heads costs on the test sets, and what it saves.

    Args:
        network: a `TrainedNetwork`.
        seen: the test sets by name.

    Returns:
        Accuracies, drops with their errors, and the share of all parameters that is removed with a number of heads.
    """
    whole = [pruning_curve(*one, [], heads=network.heads, bias=network.bias) for one in seen.values()]
    drops = [head_drops(*one, heads=network.heads, bias=network.bias) for one in seen.values()]
    indices = head_indices(network.heads)
    dimension, features = network.queries[0].shape[1:]
    width = network.width
    head = width**2 + 2 * dimension * features
    removed = np.arange(_removals(network.heads) + 1)
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
    """Scores that need no theory, and what follows from removing heads in their order.

    Args:
        network: a `TrainedNetwork`.
        validation: the sequences that gradients and leave-one-out drops are measured on.
        few: the theory's own training sequences, the same on as little data as the theory has.
        confidence: the result of `head_confidence`.
        covariance: the result of `path_covariance`.
        seen: the test sets by name.
        seed: of the random orders.

    Returns:
        Scores, orders and curves by criterion; the greedy order and the mean over random ones; every choice of a quarter of
        the heads.
    """
    bias: dict[str, Any] = {"bias": network.bias}
    heads, left_out = network.heads, head_drops(*validation, heads=network.heads, **bias)
    taylor = taylor_importance(*validation, heads=heads, **bias)
    scores = {
        **{
            f"trained, {kind}": head_scores_by(kind, network.order_parameters[0], covariance, heads)
            for kind in _DEFINITIONS
        },
        # No order parameter at all: what the attention alone makes of the inputs.
        "kernels": head_scores_by("weighted", np.eye(len(network.vectors)), covariance, heads),
        "weights": head_weight_norms(network),
        "values": head_weight_norms(network, values_only=True),
        "confidence": confidence,
        "Taylor": taylor,
        "Taylor, by layer": normalised_by_layer(taylor, heads=heads),
        "Taylor, signed": taylor_importance(*validation, heads=heads, signed=True, **bias),
        "Taylor, few": taylor_importance(*few, heads=heads, **bias),
        "leave one out, few": head_drops(*few, heads=heads, **bias).mean,
        "leave one out": left_out.mean,
    }
    followed = _followed(np.array(list(scores.values())), ("criterion",), heads, seen, network.bias)
    greedy = greedy_order(*validation, heads=heads, **bias)
    rng = np.random.default_rng(seed)
    orders = [removal_order(rng.random(len(left_out.mean)), heads=heads) for _ in range(_RANDOM_ORDERS)]
    random = np.array(
        [[pruning_curve(*one, order, heads=heads, **bias).mean for one in seen.values()] for order in orders]
    )
    greedy_curves = [pruning_curve(*one, greedy, heads=heads, **bias) for one in seen.values()]
    curve = ("test_set", "removed")
    choices = [
        every_removal(*one, heads=heads, count=max(round(_SHARE * len(confidence)), 1), **bias) for one in seen.values()
    ]
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
    """Scores from the theory, by every definition, for every draw and width, and what follows from them.

    Args:
        network: a `TrainedNetwork`.
        order_parameters: over draw, width, path and other path.
        covariance: the result of `path_covariance`.
        seen: the test sets by name.

    Returns:
        The same as of any criterion, the names beginning with `theory_`.
    """
    matrices = order_parameters.values.astype(float)
    scores = np.empty((len(_DEFINITIONS), *matrices.shape[:2], len(head_indices(network.heads))))
    for place, kind in enumerate(_DEFINITIONS):
        for index in np.ndindex(matrices.shape[:2]):
            scores[(place, *index)] = head_scores_by(kind, matrices[index], covariance, network.heads)
    followed = _followed(scores, ("definition", "draw", "width"), network.heads, seen, network.bias)
    followed = followed.rename({name: f"theory_{name}" for name in followed})
    return followed.assign_coords(
        definition=list(_DEFINITIONS), width=order_parameters["width"].values, test_set=list(seen)
    )


def _followed(
    scores: np.ndarray, axes: tuple[str, ...], heads: tuple, seen: dict[str, Contributions], bias: float
) -> xr.Dataset:
    """Orders of removal and curves, for scores with leading axes."""
    leading, removals = scores.shape[:-1], _removals(heads)
    orders = np.empty((*leading, removals), int)
    curves = np.empty((2, *leading, len(seen), removals + 1))
    for index in np.ndindex(leading):
        orders[index] = removal_order(scores[index], heads=heads)
        for place, one in enumerate(seen.values()):
            curves[(slice(None), *index, place)] = pruning_curve(*one, orders[index], heads=heads, bias=bias)
    return xr.Dataset(
        {
            "score": ((*axes, "head"), scores),
            "order": ((*axes, "removal"), orders),
            "curve": ((*axes, "test_set", "removed"), curves[0]),
            "curve_error": ((*axes, "test_set", "removed"), curves[1]),
        }
    )


def _removals(heads: tuple) -> int:
    """How many heads may go: all but one of every layer, and of one with a skip all."""
    return sum(layer.heads - layer.fewest for layer in chain(heads).layers)
