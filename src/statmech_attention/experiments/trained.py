"""Training a network by gradient descent, recorded: section 4.2 and appendix H of Tiberi et al. (2024)."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from statmech_attention import results
from statmech_attention.experiments._kinds import PLAIN, layers_of, of_kind
from statmech_attention.results.dependencies import code_hash
from statmech_attention.tasks.one_shot_sets import one_shot_suite
from statmech_attention.training.files import save_network
from statmech_attention.training.one_shot import train

_MODULES = ("experiments.trained",)


def network_file(folder: str | os.PathLike, layers: int, heads: int, seed: int, kind: str = PLAIN) -> Path:
    """Where the trained network of a seed is recorded.

    Args:
        folder: of the results.
        layers: $L$.
        heads: $H$, of every layer.
        seed: of the training.
        kind: of the layers, "heads" or "skip"; named in the file where it is not "heads".

    Returns:
        A path ending in `.nc`.

    Raises:
        ValueError: an unknown kind.
    """
    names = [f"{layers}x{heads}", *of_kind(kind).values(), f"seed{seed}"]
    return Path(folder) / f"network-{'-'.join(names)}.nc"


def trained(
    folder: str | os.PathLike,
    *,
    data: str = "omniglot",
    layers: int = 2,
    heads: int = 4,
    kind: str = PLAIN,
    width: int = 512,
    dimension: int = 128,
    seed: int = 0,
    epochs: int = 10,
    batch: int = 128,
    learning_rate: float = 3e-4,
    weight_decay: float = 5e-5,
    validate_every: int = 1000,
    checkpoints: str | os.PathLike | None = None,
    progress: bool | None = None,
) -> Path:
    """Train a network and record it, unless that is done; an interrupted training goes on.

    Args:
        folder: of the results.
        data: a name for `one_shot_suite`.
        layers: $L$.
        heads: $H$, of every layer.
        kind: of the layers, "heads", or "skip": heads beside a skip connection.
        width: $N$.
        dimension: $G$, of queries and keys.
        seed: of initial parameters and sequences.
        epochs: how many, of one sequence for every pair of training classes.
        batch: sequences a step.
        learning_rate: Adam's.
        weight_decay: times the parameters, added to the gradient.
        validate_every: steps between validations, after each of which the state is kept.
        checkpoints: folder for the states of unfinished trainings; `checkpoints` in `folder` where None.
        progress: True or False for a progress bar or none; by default one on a terminal.

    Returns:
        The recorded network, see `load_network`.

    Raises:
        ValueError, FileNotFoundError: as `train` and `one_shot_suite`.
    """
    parameters: dict[str, Any] = {
        "data": data,
        "layers": layers,
        "heads": heads,
        **of_kind(kind),
        "width": width,
        "dimension": dimension,
        "seed": seed,
        "epochs": epochs,
        "batch": batch,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "validate_every": validate_every,
    }
    path = network_file(folder, layers, heads, seed, kind)
    if results.is_current(path, parameters):
        return path
    suite = one_shot_suite(data)
    # Another code or other parameters make another file: what was trained otherwise is never gone on with.
    kept = Path(checkpoints) if checkpoints is not None else Path(folder) / "checkpoints"
    mark = hashlib.sha256((json.dumps(parameters, sort_keys=True) + code_hash(_MODULES)).encode()).hexdigest()[:12]
    kept = kept / f"{path.stem}-{mark}.npz"
    options = {name: parameters[name] for name in ("width", "dimension", "seed", "epochs", "batch")}
    options |= {name: parameters[name] for name in ("learning_rate", "weight_decay", "validate_every")}
    done = train(
        suite.task, suite.split, heads=layers_of(kind, layers, heads), checkpoint=kept, progress=progress, **options
    )
    save_network(
        done.network(), path, parameters=parameters, seed=seed, wall_seconds=done.wall_seconds, modules=_MODULES
    )
    kept.unlink()
    return path
