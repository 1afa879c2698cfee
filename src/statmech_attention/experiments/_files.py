"""Where experiments are recorded, and a fingerprint of the numbers in a record."""

import hashlib
import os
from pathlib import Path

import numpy as np

from statmech_attention import results
from statmech_attention.experiments._kinds import PLAIN
from statmech_attention.experiments.trained import network_file

# What a clock measured: the same numbers computed again are the same result.
_NOT_NUMBERS = ("seconds",)


def experiment_file(
    experiment: str, folder: str | os.PathLike, layers: int, heads: int, seed: int, kind: str = PLAIN
) -> Path:
    """Where an experiment is recorded.

    Args:
        experiment: "network", "theory" or "pruning", or samples, "posterior" or "weights".
        folder: of the results.
        layers: $L$.
        heads: $H$, of every layer.
        seed: of the training.
        kind: of the layers, as for `network_file`.

    Returns:
        A path ending in `.nc`.

    Raises:
        ValueError: an unknown kind.
    """
    path = network_file(folder, layers, heads, seed, kind)
    return path.with_name(path.name.replace("network", experiment, 1))


def digest(path: str | os.PathLike) -> str:
    """SHA-256 of a result's variables and coordinates, whenever and wherever they were computed.

    Args:
        path: a file that `results.save` wrote.

    Returns:
        16 hexadecimal digits; neither the record (parameters, versions, wall time) nor measured seconds count.

    Raises:
        FileNotFoundError, ValueError: as `results.load`.
    """
    dataset = results.load(path)
    found = hashlib.sha256()
    for name in sorted(set(map(str, dataset.variables)) - set(_NOT_NUMBERS)):
        variable = dataset.variables[name]
        values = np.ascontiguousarray(variable.values)
        # Texts come back as objects, whose bytes are addresses.
        content = "\0".join(map(str, values.ravel())).encode() if values.dtype.kind in "OU" else values.tobytes()
        found.update(f"{name} {variable.dims} {values.shape} {values.dtype.kind}\0".encode())
        found.update(content)
    return found.hexdigest()[:16]
