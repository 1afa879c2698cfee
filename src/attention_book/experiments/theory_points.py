"""One draw of training and test sequences, and the theory on it at one width: what `theory` puts together."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float
from statmech_attention.training.network import TrainedNetwork

from attention_book.experiments.networks import seen_by
from attention_book.tasks.one_shot import OneShotSample
from attention_book.tasks.one_shot_sets import OneShotSuite
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.action import gp_order_parameters
from statmech_attention.theory.kernels import centred_alignment, kernel, principal_overlaps
from statmech_attention.theory.predictor import accuracy, predictor_vectors
from statmech_attention.theory.saddle_point import solve
from statmech_attention.theory.solution import Solution

_BATCH = 250


class Sequences(NamedTuple):
    """Sequences as a network's attention presents them.

    Attributes:
        inputs: the attentioned inputs.
        labels: `(examples,)`.
    """

    inputs: AttentionedInputs
    labels: Float[Array, " examples"]


class Draw(NamedTuple):
    """What one draw trains and tests on.

    Attributes:
        train: training sequences.
        validation: sequences of the validation classes.
        tests: by test set.
    """

    train: Sequences
    validation: Sequences
    tests: Mapping[str, Sequences]


def draw_of(suite: OneShotSuite, network: TrainedNetwork, *, seed: int, number: int, examples: int, tests: int) -> Draw:
    """Draw sequences and let them pass through a network's attention.

    Args:
        suite: where sequences come from.
        network: whose queries and keys.
        seed: of the network; draws of different networks differ.
        number: of the draw.
        examples: training sequences.
        tests: sequences of every test set and of the validation classes.

    Returns:
        `Draw`.
    """
    key = jax.random.fold_in(jax.random.key(seed), number)
    train_key, validation_key, *test_keys = jax.random.split(key, 2 + len(suite.test_sets))
    drawn = [suite.train(train_key, examples), suite.task.sample(validation_key, tests, suite.split.validation)]
    drawn += [suite.test(one, tests, name) for one, name in zip(test_keys, suite.test_sets, strict=True)]
    train, validation, *seen = (_seen(sample, network) for sample in drawn)
    return Draw(train, validation, dict(zip(suite.test_sets, seen, strict=True)))


def gp_limit(draw: Draw, temperatures: Sequence[float]) -> xr.Dataset:
    r"""The Gaussian-process limit, where $U^{(l)} = I$, at every temperature.

    Args:
        draw: `Draw`.
        temperatures: $T$.

    Returns:
        Accuracies at every temperature, the best one in distribution, and how the kernel is aligned with the labels.
    """
    order_parameter = gp_order_parameters(draw.train.inputs.heads)[0]
    rows = [_accuracies(draw, order_parameter, temperature) for temperature in temperatures]
    dataset = _tested(draw, rows, temperatures).merge(_aligned(draw, order_parameter))
    return dataset.rename({name: f"gp_{name}" for name in dataset.data_vars})


def one_width(
    draw: Draw, width: float, temperatures: Sequence[float], wider: xr.Dataset | None, step: Callable[[], object]
) -> xr.Dataset:
    """Saddle points at one width and all temperatures, and the accuracies of their predictors.

    Args:
        draw: `Draw`.
        width: $N$.
        temperatures: $T$.
        wider: the result at the next larger width, to start from; None to start from the Gaussian-process limit.
        step: is called after every temperature.

    Returns:
        A dataset over temperatures; order parameters and alignment at the best of them in distribution. Variables whose
        names begin with "start_" hold all order parameters, for the next smaller width.
    """
    starts = [None if wider is None else _start(wider, index) for index in range(len(temperatures))]
    dataset, solutions = solved_points(draw, width, temperatures, starts, step)
    best = int(np.argmax(dataset["accuracy"].values[0]))
    dataset["order_parameter"] = (("path", "path_other"), np.asarray(solutions[best].order_parameter))
    dataset = dataset.merge(_aligned(draw, solutions[best].order_parameter))
    for layer, values in enumerate(zip(*(found.order_parameters for found in solutions), strict=True), 1):
        own = (f"path_{layer}", f"path_{layer}_other") if values[0].ndim else ()
        dataset[f"start_{layer}"] = (("temperature", *own), np.stack(values))
    return dataset


def solved_points(
    draw: Draw, width: float | int, temperatures: Sequence[float], starts: Sequence, step: Callable[[], object]
) -> tuple[xr.Dataset, list[Solution]]:
    """Saddle points at all temperatures and one width, their accuracies and how they were reached, and the solutions.

    Args:
        draw: `Draw`.
        width: $N$.
        temperatures: $T$.
        starts: for every temperature where to begin, as for `solve`.
        step: is called after every temperature.
    """
    solutions, rows, seconds = [], [], []
    for temperature, start in zip(temperatures, starts, strict=True):
        began = time.monotonic()
        found = solve(
            draw.train.inputs, draw.train.labels, width=width, temperature=temperature, start=start, throw=False
        )
        rows.append(_accuracies(draw, found.order_parameter, temperature))
        solutions.append(found)
        seconds.append(time.monotonic() - began)
        step()
    dataset = _tested(draw, rows, temperatures)
    dataset["seconds"] = ("temperature", seconds)
    for name in ("action", "energy", "entropy", "gradient_norm", "steps", "outcome"):
        dataset[name] = ("temperature", [np.asarray(getattr(found, name)).item() for found in solutions])
    return dataset, solutions


def _seen(sample: OneShotSample, network: TrainedNetwork) -> Sequences:
    batches = (sample.inputs[start : start + _BATCH] for start in range(0, len(sample.labels), _BATCH))
    return Sequences(seen_by(network, batches), sample.labels)


def _start(wider: xr.Dataset, index: int) -> tuple:
    names = [str(name) for name in wider if str(name).startswith("start_")]
    names.sort(key=lambda name: int(name.split("_")[1]))
    return tuple(jnp.asarray(wider[name].values[index]) for name in names)


def _accuracies(draw: Draw, order_parameter, temperature: float) -> list[float]:
    """Accuracy of the mean predictor (9) on the validation classes, then on every test set."""
    vectors = predictor_vectors(
        draw.train.inputs, draw.train.labels, order_parameter, temperature=jnp.asarray(temperature)
    )
    means = (jnp.einsum("epi,pi->e", seen.inputs.values, vectors) for seen in (draw.validation, *draw.tests.values()))
    labels = (seen.labels for seen in (draw.validation, *draw.tests.values()))
    return [float(accuracy(mean, right)) for mean, right in zip(means, labels, strict=True)]


def _tested(draw: Draw, rows: list[list[float]], temperatures: Sequence[float]) -> xr.Dataset:
    validation, *tests = np.array(rows).T
    return xr.Dataset(
        {
            "accuracy": (("test_set", "temperature"), np.array(tests)),
            "validation_accuracy": ("temperature", validation),
            "best_temperature": temperatures[int(np.argmax(tests[0]))],
        },
        coords={"test_set": list(draw.tests), "temperature": list(temperatures)},
    )


def _aligned(draw: Draw, order_parameter) -> xr.Dataset:
    """Overlaps of the training kernel's principal components with the labels, largest eigenvalue first."""
    gram = kernel(draw.train.inputs, draw.train.inputs, order_parameter)
    eigenvalues, overlaps = principal_overlaps(gram, draw.train.labels)
    return xr.Dataset(
        {
            "eigenvalue": ("component", np.asarray(eigenvalues, np.float32)),
            "overlap": ("component", np.asarray(overlaps, np.float32)),
            "alignment": float(centred_alignment(gram, draw.train.labels)),
        }
    )
