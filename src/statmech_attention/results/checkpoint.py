"""The state of an interrupted run in one `.npz` file: written whole or not at all, without pickles."""

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from statmech_attention import checks
from statmech_attention.results.atomic import replacing

_SETTINGS = "settings"


def save_state(path: Path, state: Any, settings: Mapping[str, Any]) -> None:
    """Write a pytree of arrays and numbers, with the settings of the run as JSON."""
    leaves: dict[str, Any] = {f"leaf_{index}": np.asarray(leaf) for index, leaf in enumerate(jax.tree.leaves(state))}
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **leaves | {_SETTINGS: np.array(json.dumps(dict(settings), sort_keys=True))})


def load_state(path: Path, like: Any, settings: Mapping[str, Any]) -> Any:
    """Read a state like the pytree `like`; refuse a damaged file, or one with other settings."""
    checks.refuse_folder(path)
    try:
        # Opened here, since NumPy leaves a file open that it cannot read.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            found = json.loads(str(archive[_SETTINGS]))
            leaves = [archive[f"leaf_{index}"] for index in range(len(archive.files) - 1)]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path}: a damaged checkpoint ({error}). Remove this file and start again.") from error
    wanted = json.loads(json.dumps(dict(settings)))
    differing = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
    if differing:
        change = ", ".join(f"{name} {found.get(name)!r} there and {wanted.get(name)!r} here" for name in differing)
        raise ValueError(f"{path}: the checkpoint of another run: {change}. Give another file, or remove this one.")
    wanted_leaves, structure = jax.tree.flatten(like)
    if len(wanted_leaves) != len(leaves):
        raise ValueError(
            f"{path}: wanted {len(wanted_leaves)} arrays, got {len(leaves)}. Remove this file and start again."
        )
    return jax.tree.unflatten(structure, leaves)
