"""A short fingerprint of the numbers in a recorded result, for the parameters of what is computed from it."""

import hashlib
import os

import numpy as np

from statmech_attention import results


def digest(path: str | os.PathLike) -> str:
    """SHA-256 of a result's variables and coordinates, whenever and wherever they were computed.

    Args:
        path: a file that `results.save` wrote.

    Returns:
        16 hexadecimal digits; the record (parameters, versions, wall time) does not count.

    Raises:
        FileNotFoundError, ValueError: as `results.load`.
    """
    dataset = results.load(path)
    found = hashlib.sha256()
    for name in sorted(map(str, dataset.variables)):
        variable = dataset.variables[name]
        values = np.ascontiguousarray(variable.values)
        # Texts come back as objects, whose bytes are addresses.
        content = "\0".join(map(str, values.ravel())).encode() if values.dtype.kind in "OU" else values.tobytes()
        found.update(f"{name} {variable.dims} {values.shape} {values.dtype.kind}\0".encode())
        found.update(content)
    return found.hexdigest()[:16]
