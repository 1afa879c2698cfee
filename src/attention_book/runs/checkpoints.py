"""States of interrupted runs, in files that hold the settings of their run and no pickles."""

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from statmech_attention.records import replacing


def save_state(path: Path, state: Any, settings: Mapping[str, Any]) -> None:
    """Write a pytree of arrays and numbers, and the settings of its run."""
    leaves: dict[str, Any] = {f"leaf_{index}": np.asarray(leaf) for index, leaf in enumerate(jax.tree.leaves(state))}
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **leaves | {"settings": np.array(json.dumps(settings, sort_keys=True))})


def load_state(path: Path, like: Any, settings: Mapping[str, Any]) -> Any:
    """Read a pytree of the structure of `like`; ValueError if it is damaged or of a run with other settings."""
    try:
        # Opened here, since NumPy leaves a file open that it cannot read.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            saved = json.loads(str(archive["settings"]))
            leaves = [archive[f"leaf_{index}"] for index in range(len(archive.files) - 1)]
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path}: a damaged checkpoint ({error}). Remove this file and start again.") from error
    wanted = json.loads(json.dumps(settings))
    differing = sorted(name for name in {*saved, *wanted} if saved.get(name) != wanted.get(name))
    if differing:
        change = ", ".join(f"{name} {saved.get(name)!r} there and {wanted.get(name)!r} here" for name in differing)
        raise ValueError(f"{path}: the checkpoint of another run: {change}. Give another file, or remove this one.")
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
