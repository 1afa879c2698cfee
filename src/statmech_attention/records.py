"""Problems and solutions in files."""

import os
from pathlib import Path

from statmech_attention.files import read_netcdf
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.solution import Solution


def save(thing: Problem | Solution, path: str | os.PathLike[str]) -> Path:
    """Write a problem or a solution to a netCDF file ending in `.nc`, whole or not at all; return the path.

    Raises:
        ValueError: inside a JAX transformation; another ending; a kind of layer of one's own.
        OSError: it cannot be written, as on a full disk.
    """
    return thing.save(path)


def load(path: str | os.PathLike[str]) -> Problem | Solution:
    """Read what `save` wrote, with the same numbers.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a damaged file, or one of something else.
    """
    return Solution.load(path) if "action" in read_netcdf(path) else Problem.load(path)
