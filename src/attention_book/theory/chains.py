"""The draws of hidden Markov chains that all pages share, and accuracies of networks at their best temperatures."""

from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Bool, Float

from statmech_attention.model import AttentionedInputs
from statmech_attention.tasks import HiddenMarkov, HiddenMarkovTrial

SEED, DRAWS = 12, 10


def keys() -> Any:
    """Random keys of the ten draws."""
    return jax.random.split(jax.random.key(SEED), DRAWS)


def draw(
    number: int, examples: int = 100, test_examples: int = 500, *, readout: str = "last", **task: Any
) -> HiddenMarkovTrial:
    """One of the ten draws of chains and random heads; `task` are numbers of the task, as `perpendicular_noise`."""
    return HiddenMarkov(**task).trial(examples, test_examples, key=keys()[number], readout=readout)


def draws(examples: int = 100, test_examples: int = 500, **options: Any) -> list[HiddenMarkovTrial]:
    """All ten draws."""
    return [draw(number, examples, test_examples, **options) for number in range(DRAWS)]


def typical(trial: HiddenMarkovTrial | None = None) -> HiddenMarkovTrial:
    """The third draw with 250 test chains; on these its accuracy in the limit is the mean over all ten draws, 0.84."""
    trial, some = trial or draw(2), slice(250, 500)
    seen = AttentionedInputs(trial.test.values[some], trial.test.layers)
    return trial._replace(test=seen, test_labels=trial.test_labels[some])


def kept(trial: HiddenMarkovTrial, heads) -> HiddenMarkovTrial:
    """The trial as a network with only some of the heads sees it."""
    return trial._replace(train=trial.train.keep_heads(heads), test=trial.test.keep_heads(heads))


def mean_outputs(
    trial: HiddenMarkovTrial, order_parameters: ArrayLike, temperatures: ArrayLike
) -> Float[np.ndarray, "*networks examples"]:
    """Mean outputs (9) on the test chains, with one kernel for each pair of paths that all networks share."""
    train, test = (np.asarray(seen.values) for seen in (trial.train, trial.test))
    examples, paths, features = train.shape
    rows = np.concatenate([train, test]).reshape(-1, features)
    products = (train.reshape(-1, features) @ rows.T).reshape(examples, paths, -1, paths)
    order_parameters = np.asarray(order_parameters) / (paths * features)
    kernels = np.tensordot(order_parameters, products.transpose(1, 3, 2, 0), 2)  # (networks, train and test, train)
    noise = np.asarray(temperatures)[..., None, None] * np.eye(examples)
    weights = np.linalg.solve(kernels[..., :examples, :] + noise, np.asarray(trial.labels)[:, None])
    return (kernels[..., examples:, :] @ weights)[..., 0]


def accuracies(
    trial: HiddenMarkovTrial, order_parameters: ArrayLike, temperatures: ArrayLike
) -> Float[np.ndarray, "*networks"]:
    """Accuracy of each network at its best temperature; `order_parameters` are one, or have an axis of temperatures."""
    return at_best_temperature(right(mean_outputs(trial, order_parameters, temperatures), trial.test_labels))


def right(outputs: ArrayLike, labels: ArrayLike, solved: ArrayLike = True) -> Float[np.ndarray, "*networks examples"]:
    """1 where an output has the sign of the label, 0 where not; NaN for networks whose solution was not found."""
    outputs = np.asarray(outputs)
    known = np.asarray(solved)[..., None] & np.isfinite(outputs)
    return np.where(known, outputs * np.asarray(labels) > 0, np.nan)


def at_best_temperature(
    hits: Bool[np.ndarray, "*networks temperatures examples"] | Float[np.ndarray, "*networks temperatures examples"],
) -> Float[np.ndarray, "*networks"]:
    """Accuracy on one half of the test examples at the temperature that is best on the other, averaged over both.

    A temperature with NaN, of a solution that was not found, is never the best, unless all have it.
    """
    first, second = (half.mean(axis=-1) for half in np.split(np.asarray(hits), 2, axis=-1))
    pairs = (first, second), (second, first)
    best = [np.nan_to_num(other, nan=-1.0).argmax(axis=-1)[..., None] for _, other in pairs]
    chosen = [np.take_along_axis(half, place, axis=-1) for (half, _), place in zip(pairs, best, strict=True)]
    return np.mean(chosen, axis=0)[..., 0]
