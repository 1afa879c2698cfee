"""Gradient descent on the one-shot task, in path form, in float32."""

import hashlib
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Shaped
from tqdm import tqdm

from attention_book.one_shot.images import Split
from attention_book.one_shot.network import CURVE, TrainedNetwork
from attention_book.one_shot.path_form import Parameters, initial, trained_network
from attention_book.one_shot.steps import Data, State, adam, advance, shuffled, validate
from attention_book.one_shot.task import OneShot
from attention_book.runs.checkpoints import load_state, save_state
from statmech_attention import checks
from statmech_attention.layers import Chain, Kind
from statmech_attention.layers.chains import Layers

_REPORT_EVERY = 50


@dataclass(frozen=True, eq=False)
class Training:
    """Result of a training run."""

    parameters: Parameters  # of the best validation accuracy so far, in the trained scaling
    layers: tuple[int | Kind, ...]
    best_step: int  # number of steps to these parameters
    # One row per validation, with columns `CURVE`; those of training are means since the previous row.
    curve: Float[np.ndarray, "validations 5"]
    steps: int
    finished: bool  # true after the last step
    wall_seconds: float  # of all calls, with interruptions
    settings: Mapping[str, Any]  # all that the result depends on

    def network(self) -> TrainedNetwork:
        """Return attention, effective weights, order parameters and learning curve."""
        return trained_network(self.parameters, curve=self.curve, best_step=self.best_step, layers=self.layers)


class _Checkpoint(NamedTuple):
    """Contents of a checkpoint."""

    state: State
    best: Parameters
    steps: Shaped[np.ndarray, "2"]
    curve: Float[np.ndarray, "validations 5"]
    seconds: Float[np.ndarray, ""]


def train(
    task: OneShot,
    split: Split,
    *,
    width: int = 512,
    layers: Layers,
    seed: int,
    dimension: int = 128,
    epochs: int = 10,
    batch: int = 128,
    learning_rate: float = 3e-4,
    weight_decay: float = 5e-5,
    biases: bool = False,
    validate_every: int = 1000,
    checkpoint: str | os.PathLike[str] | None = None,
    stop_after: int | None = None,
    progress: bool | None = None,
) -> Training:
    r"""Minimise the mean of $(f(x_\mu) - y_\mu)^2$ with Adam over $Q$, $K$, $V^{(0)}$, $V$, $a$.

    An epoch has one sequence per pair of training classes, in random order; validation uses one per
    pair of validation classes, always the same. `weight_decay` times the parameters is added to the
    gradient before Adam. With a file `checkpoint` a run of the same settings goes on from there with
    the same result; `stop_after` so many steps of this call it stops.
    """
    layers = Chain.of(layers)
    if layers.readout.axes:
        raise ValueError(f"layers: wanted a network of one output to train, got {layers.shorthand}.")
    settings = _settings(layers, width, dimension, seed, batch, learning_rate, weight_decay, validate_every)
    if biases:
        settings["biases"] = True
    settings["epochs"] = epochs = checks.whole("epochs", epochs)
    if stop_after is not None:
        stop_after = checks.whole("stop_after", stop_after)
    path = None if checkpoint is None else Path(checkpoint)
    settings["task"] = _fingerprint(task, split)

    pairs = task.all_pairs(split.train)
    width, dimension, seed, validate_every = (
        settings[name] for name in ("width", "dimension", "seed", "validate_every")
    )
    batch = min(settings["batch"], len(pairs))  # a larger one has all of them, too
    rates = settings["learning_rate"], settings["weight_decay"]
    data = Data(task.compact, task.starts, jnp.asarray(pairs, jnp.int32))
    begin, shuffle, draw = jax.random.split(jax.random.key(seed), 3)
    held_out = task.sequences(jax.random.key(0), task.all_pairs(split.validation))
    parameters = initial(begin, layers, width, dimension, task.features, biases)
    state = State(parameters, adam(*rates).init(parameters), jnp.zeros(3, jnp.float32))
    # The best parameters are copied to NumPy: the next steps overwrite the memory of the state.
    best = jax.tree.map(np.array, parameters)
    reached = _Checkpoint(state, best, np.zeros(2, np.int64), np.zeros((0, len(CURVE))), np.zeros(()))
    if path is not None and path.exists():
        reached = load_state(path, reached, settings)
    state, best, curve = jax.tree.map(jnp.array, reached.state), reached.best, reached.curve
    seconds = float(reached.seconds)
    step, best_step = reached.steps.tolist()

    per_epoch = -(-len(data.pairs) // batch)
    total = epochs * per_epoch
    last = total if stop_after is None else min(total, step + stop_after)
    began, epoch = time.monotonic(), -1
    hidden = None if progress is None else not progress
    with tqdm(total=total, initial=step, disable=hidden, unit="step", mininterval=1.0) as bar:
        while step < last:
            if epoch != step // per_epoch:
                epoch = step // per_epoch
                order = shuffled(jax.random.fold_in(shuffle, epoch), len(data.pairs), per_epoch * batch)
            # The next report, validation, end of the epoch or end of the run.
            stops = (_next(step, _REPORT_EVERY), _next(step, validate_every), (epoch + 1) * per_epoch, last)
            count = min(stops) - step
            place = step - epoch * per_epoch
            state = advance(state, data, order, draw, step, place, count, layers=layers, batch=batch, rates=rates)
            step += count
            loss, right, seen = np.asarray(state.sums, np.float64).tolist()
            bar.update(count)
            bar.set_postfix(loss=f"{loss / seen:.3f}", accuracy=f"{right / seen:.3f}", best=_best(curve), refresh=False)
            if step % validate_every == 0 or step == total:
                if not math.isfinite(loss):
                    raise FloatingPointError(f"training diverged before step {step}. Lower learning_rate.")
                checked = validate(state.parameters, task.compact, held_out, layers)
                row = np.array([[step, loss / seen, right / seen, *checked]])
                if not len(curve) or checked[1] > curve[:, 4].max():
                    best, best_step = jax.tree.map(np.array, state.parameters), step
                curve = np.concatenate([curve, row])
                state = state._replace(sums=jnp.zeros(3, jnp.float32))
                if path is not None:
                    until = np.asarray(seconds + time.monotonic() - began)
                    save_state(path, _Checkpoint(state, best, np.array([step, best_step]), curve, until), settings)
    best = jax.tree.map(jnp.asarray, best)
    spent = seconds + time.monotonic() - began
    return Training(best, layers.shorthand, best_step, curve, step, step == total, spent, settings)


def _settings(
    layers: Chain, width, dimension, seed, batch, learning_rate, weight_decay, validate_every
) -> dict[str, Any]:
    """Check and collect all settings of the result but the task and its epochs."""
    whole = {"width": width, "dimension": dimension, "batch": batch, "validate_every": validate_every}
    whole = {name: checks.whole(name, value) for name, value in whole.items()}
    rates = {"learning_rate": checks.positive("learning_rate", learning_rate)}
    rates["weight_decay"] = float(weight_decay)
    if not 0 <= rates["weight_decay"] < np.inf:
        raise ValueError(f"weight_decay: wanted a finite number of at least 0, got {weight_decay!r}.")
    heads = [layer if isinstance(layer, int) else repr(layer) for layer in layers.shorthand]
    return {"heads": heads, "seed": checks.whole("seed", seed, 0), **whole, **rates}


def _next(step: int, every: int) -> int:
    return (step // every + 1) * every


def _best(curve) -> str:
    return f"{curve[:, 4].max():.3f}" if len(curve) else "-"


def _fingerprint(task: OneShot, split: Split) -> str:
    digest = hashlib.sha256(f"{task.images.name} {task.patch} {task.epsilon} {task.label_seed}".encode())
    for part in (task.images.pixels, task.images.starts, split.train, split.validation):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()
