"""What the theory's own predictor loses without a head: cut out, fitted again without it, and solved anew without it.

The theory's mean predictor (9) is a sum over paths, as a trained network's output is, so a head can be cut out of it in the
same way. A score of the theory that orders its own drops well, and those of a trained network badly, is a good score of
another network.
"""

from collections.abc import Callable
from collections.abc import Sequence as Several
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

from attention_book.experiments.theory_points import Sequences
from statmech_attention.model.accuracy import right
from statmech_attention.pruning.evidence import order_parameters_left, without_head
from statmech_attention.pruning.heads import path_gates, whole_and_without_each
from statmech_attention.theory.predictor import predictor_vectors
from statmech_attention.theory.saddle_point import solve


class Predictors(NamedTuple):
    r"""The theory's mean predictors, each as vectors $v^\pi$; those of paths that are gone are zero.

    Attributes:
        whole: with all heads.
        fitted: without each head, at the same order parameter of the paths left: kernel regression without the head.
        anew: without each head and at the order parameter solved without it, at the narrowest width.
    """

    whole: Float[np.ndarray, "draws widths paths features"]
    fitted: Float[np.ndarray, "draws widths heads paths features"]
    anew: Float[np.ndarray, "draws heads paths features"]


def predictors(
    trains: Several[Sequences], order_parameters: xr.DataArray, temperatures: xr.DataArray, step: Callable[..., object]
) -> Predictors:
    """The theory's predictors with all heads and without each of them; paths that are left keep their coefficients.

    Args:
        trains: training sequences, one a draw.
        order_parameters: over draw, width, path and other path.
        temperatures: $T$, over draw and width.
        step: is called after every head that is left out and solved anew.

    Returns:
        `Predictors`.
    """
    heads = trains[0].inputs.heads
    gates = path_gates(heads, whole_and_without_each(heads))[1:]
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
            found.whole[draw, width] = predictor_vectors(
                inputs, labels, jnp.asarray(overlaps[draw, width]), temperature=heat
            )
        options: dict[str, Any] = {"width": float(widths[narrow]), "temperature": float(heats[draw, narrow])}
        whole = solve(inputs, labels, **options, throw=False)
        for head in range(count):
            left, smaller = np.flatnonzero(gates[head]), without_head(inputs, head)
            # The smaller network's inputs hold the whole one's coefficients; here the vectors hold them.
            gain = gates[head][left, None]
            for width, heat in enumerate(heats[draw]):
                overlap = jnp.asarray(overlaps[draw, width][np.ix_(left, left)])
                found.fitted[draw, width, head, left] = (
                    predictor_vectors(smaller, labels, overlap, temperature=heat) / gain
                )
            start = order_parameters_left(whole, head)
            overlap = solve(smaller, labels, start=start, **options, throw=False).order_parameter
            vectors = predictor_vectors(smaller, labels, overlap, temperature=options["temperature"])
            found.anew[draw, head, left] = vectors / gain
            step()
    return found


class Hits:
    """Counts, batch by batch, how many sequences of a test set the predictors have right."""

    def __init__(self, theory: Predictors, heads: tuple):
        self._theory, self._examples = theory, 0
        self._gates = path_gates(heads, whole_and_without_each(heads))
        count = theory.anew.shape[1]
        draws, widths = theory.whole.shape[:2]
        self._cut, self._fitted = np.zeros((draws, widths, count + 1)), np.zeros((draws, widths, count))
        self._anew = np.zeros((draws, count))

    def add(self, values: Float[np.ndarray, "examples paths features"], labels: Float[np.ndarray, " examples"]) -> None:
        """Count those of a batch.

        Args:
            values: of the attentioned inputs.
            labels: +1 and -1.
        """
        contributions = np.einsum("epi,dwpi->dwep", values, self._theory.whole, optimize=True)
        self._cut += right(np.einsum("dwep,gp->dwge", contributions, self._gates, optimize=True), labels).sum(axis=-1)
        flat = values.reshape(len(values), -1)
        for hits, vectors in ((self._fitted, self._theory.fitted), (self._anew, self._theory.anew)):
            outputs = vectors.reshape(*vectors.shape[:-2], -1) @ flat.T
            hits += right(outputs, labels).sum(axis=-1)
        self._examples += len(values)

    def drops(self) -> xr.Dataset:
        """Accuracies with all heads, and by how much they fall without each."""
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
