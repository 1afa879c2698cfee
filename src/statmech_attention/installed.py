"""The installed version, and the libraries that only some subpackages need: extras of the package."""

import importlib.metadata
import importlib.util

NAME = "statmech-attention"
# The libraries of each extra of pyproject.toml.
EXTRAS = {
    "sampling": ("numpyro", "tqdm", "xarray"),
    "train": ("optax",),
    "io": ("h5netcdf", "h5py", "xarray"),
    "cluster": ("dask", "distributed"),
    "plot": ("matplotlib",),
    "book": ("jupytext", "nbformat", "papermill", "pydantic"),
    "images": ("torch", "torchvision"),
}


class MissingExtra(ImportError):
    """A library that is not installed, with the extra that brings it."""


def version() -> str:
    """Version in pyproject.toml, or "not installed" if the package is only on the Python path."""
    try:
        return importlib.metadata.version(NAME)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def absent(extra: str) -> list[str]:
    """Names of an extra's libraries that are not installed; none of them is imported."""
    return [library for library in EXTRAS[extra] if importlib.util.find_spec(library) is None]


def need(extra: str, what: str) -> None:
    """Raise `MissingExtra`, on behalf of `what`, unless all libraries of an extra are installed."""
    if missing := absent(extra):
        raise MissingExtra(
            f"{what}: wanted the extra {extra}, got no {', '.join(missing)}. pip install '{NAME}[{extra}]'",
            name=missing[0],
        )


def progress_bar(iterable, what: str, shown: bool | None):
    """`iterable` with a bar while it runs: by default on a terminal only; without tqdm no bar."""
    try:
        from tqdm import tqdm
    except ImportError:
        return iterable
    return tqdm(iterable, desc=what, disable=None if shown is None else not shown)
