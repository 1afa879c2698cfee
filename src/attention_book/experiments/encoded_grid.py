"""The theory of encoded sentences over widths and temperatures, and over the number of labels."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float, Int8

from attention_book.comparison import block_share
from attention_book.experiments.encoded_tasks import part_of
from statmech_attention.model.accuracy import right
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.action import gp_order_parameters
from statmech_attention.theory.kernels import kernel
from statmech_attention.theory.predictor import predictor_vectors
from statmech_attention.theory.saddle_point import solve_sweep
from statmech_attention.theory.scores import DEFINITIONS, head_scores
from statmech_attention.theory.solution import Solution

TOLERANCE = 1e-4  # of the action's gradient; the log evidence was right to 1e-6 then, head scores to 1e-4


class Problem(NamedTuple):
    """What the theory learns from, chooses by and is tested on.

    Attributes:
        train: attentioned inputs.
        labels: +1 or -1.
        validation: to choose a temperature by; heads too, where a score asks for more labels.
        validation_labels: theirs.
        test: nothing is chosen by these.
        test_labels: theirs.
    """

    train: AttentionedInputs
    labels: Float[np.ndarray, " examples"]
    validation: AttentionedInputs
    validation_labels: Float[np.ndarray, " validation"]
    test: AttentionedInputs
    test_labels: Float[np.ndarray, " test"]

    @staticmethod
    def of(inputs: AttentionedInputs, labels, train: int, validation: int, test: int) -> "Problem":
        """Out of one set: the first sentences are for training, the last for the test, validation is in front of these."""
        count = len(labels)
        places = slice(0, train), slice(count - test - validation, count - test), slice(count - test, count)
        parts: list[Any] = [part for place in places for part in (part_of(inputs, place), labels[place])]
        return Problem(*parts)

    def keep_heads(self, kept) -> "Problem":
        """What the network with only some of the heads sees."""
        seen = {name: getattr(self, name).keep_heads(kept) for name in ("train", "validation", "test")}
        return self._replace(**seen)


def hits(problem: Problem, order_parameter, temperature: float) -> tuple[Float[np.ndarray, " sentences"], ...]:
    """How far the mean predictor (9) is right on every validation and on every test sentence."""
    vectors = predictor_vectors(problem.train, problem.labels, order_parameter, temperature=temperature)
    return tuple(
        right(np.einsum("epi,pi->e", inputs.values, vectors, optimize=True), labels)
        for inputs, labels in (
            (problem.validation, problem.validation_labels),
            (problem.test, problem.test_labels),
        )
    )


def halves(right) -> Int8[np.ndarray, "..."]:
    """2 where an output is right, 0 where it is wrong, 1 where it is undecided."""
    return np.round(2 * np.asarray(right)).astype(np.int8)


def swept(problem: Problem, widths: Sequence[float], temperatures: Sequence[float]) -> Solution:
    """Saddle points, from the widest to the narrowest."""
    return solve_sweep(
        problem.train, problem.labels, widths=widths, temperatures=temperatures, tolerance=TOLERANCE, throw=False
    )


def grid(problem: Problem, widths: Sequence[float], temperatures: Sequence[float]) -> xr.Dataset:
    """Accuracy, evidence, head scores and what is in blocks of a head, over widths and temperatures.

    Args:
        problem: `Problem`.
        widths: $N$, infinity among them for the Gaussian-process limit.
        temperatures: $T$.

    Returns:
        A dataset over both; `right` has the `halves` of every test sentence, by which accuracies are paired.
    """
    sweep, both = swept(problem, widths, temperatures), ("width", "temperature")
    heads, shape = sweep.attentioned.heads, (len(widths), len(temperatures))
    on_validation, on_test = np.zeros(shape), np.zeros((*shape, len(problem.test_labels)))
    scores = np.zeros((len(DEFINITIONS), *shape, sum(sweep.attentioned.chain.heads)))
    shares = np.zeros((len(heads), *shape))
    for place in np.ndindex(shape):
        overlap = sweep.order_parameter[place]
        temperature = float(temperatures[place[1]])
        seen, on_test[place] = hits(problem, overlap, temperature)
        on_validation[place] = seen.mean()
        scores[:, *place] = [head_scores(overlap, heads=heads, definition=one) for one in DEFINITIONS]
        shares[:, *place] = [block_share(overlap, heads=heads, layer=layer + 1).value for layer in range(len(heads))]
    return xr.Dataset(
        {
            "accuracy": (both, on_test.mean(axis=-1)),
            "validation_accuracy": (both, on_validation),
            "right": ((*both, "sentence"), halves(on_test)),
            "log_evidence": (both, np.asarray(sweep.log_evidence())),
            "score": (("definition", *both, "head"), scores.astype(np.float32)),
            "block_share": (("layer", *both), shares),
            **{name: (both, np.asarray(getattr(sweep, name))) for name in ("gradient_norm", "steps", "outcome")},
        },
        {"width": list(widths), "temperature": list(temperatures), "definition": list(DEFINITIONS)},
    )


def by_labels(problem: Problem, width: float, temperatures: Sequence[float]) -> float:
    """Test accuracy at one width, at the temperature of the largest evidence."""
    sweep = swept(problem, [width], temperatures)[0]
    best = int(jnp.argmax(sweep.log_evidence()))
    return float(hits(problem, sweep.order_parameter[best], float(temperatures[best]))[1].mean())


def limit(problem: Problem, temperatures: Sequence[float]) -> float:
    """The same at infinite width, for any number of examples: no saddle point is sought."""
    overlap, *_ = gp_order_parameters(problem.train.heads)
    gram = np.asarray(kernel(problem.train, problem.train, overlap))
    sizes, vectors = np.linalg.eigh(gram)
    along = vectors.T @ problem.labels
    evidences = [-0.5 * np.sum(along**2 / (sizes + heat) + np.log(sizes + heat)) for heat in temperatures]
    heat = temperatures[int(np.argmax(evidences))]
    outputs = np.asarray(kernel(problem.test, problem.train, overlap)) @ (vectors @ (along / (sizes + heat)))
    return float(right(outputs, problem.test_labels).mean())
