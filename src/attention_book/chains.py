"""The draws of hidden Markov chains that all pages share, and accuracies of networks at their best temperatures."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from statmech_attention.model import AttentionedInputs
from statmech_attention.tasks import HiddenMarkov, HiddenMarkovTrial

SEED, DRAWS = 12, 10


def keys() -> Any:
    """Random keys of the ten draws."""
    return jax.random.split(jax.random.key(SEED), DRAWS)


def draw(
    number: int, examples: int = 100, test_examples: int = 1000, *, readout: str = "last", **task: Any
) -> HiddenMarkovTrial:
    """One of the ten draws of chains and random heads; `task` are numbers of the task, as `perpendicular_noise`."""
    return HiddenMarkov(**task).trial(keys()[number], examples, test_examples, readout=readout)


def draws(examples: int = 100, test_examples: int = 1000, **options: Any) -> list[HiddenMarkovTrial]:
    """All ten draws."""
    return [draw(number, examples, test_examples, **options) for number in range(DRAWS)]


def typical() -> HiddenMarkovTrial:
    """The first draw with 250 test chains; on these its accuracy in the limit is the mean over all ten draws, 0.84."""
    trial, some = HiddenMarkov().trial(keys()[0]), slice(600, 850)
    seen = AttentionedInputs(trial.test.values[some], trial.test.layers)
    return trial._replace(test=seen, test_labels=trial.test_labels[some])


def kept(trial: HiddenMarkovTrial, heads) -> HiddenMarkovTrial:
    """The trial as a network with only some of the heads sees it."""
    return trial._replace(train=trial.train.keep_heads(heads), test=trial.test.keep_heads(heads))


def at_best_temperature(
    right: Bool[np.ndarray, "*networks temperatures examples"],
) -> Float[np.ndarray, "*networks"]:
    """Accuracy on one half of the test examples at the temperature that is best on the other, averaged over both."""
    first, second = (half.mean(axis=-1) for half in np.split(np.asarray(right), 2, axis=-1))
    pairs = (first, second), (second, first)
    chosen = [np.take_along_axis(one, other.argmax(axis=-1)[..., None], axis=-1) for one, other in pairs]
    return np.mean(chosen, axis=0)[..., 0]
