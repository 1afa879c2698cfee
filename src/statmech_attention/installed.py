"""The installed version, and the libraries that only some subpackages need: extras of the package."""

import importlib.metadata
import importlib.util

NAME = "statmech-attention"
# By extra the libraries that are asked for, all of them listed under it in pyproject.toml.
EXTRAS = {
    "sampling": ("numpyro", "tqdm", "xarray"),
    "train": ("optax",),
    "io": ("h5netcdf", "h5py", "xarray"),
    "plot": ("matplotlib",),
    "book": ("jupytext", "nbformat", "papermill", "plotly", "pydantic"),
    "images": ("torch", "torchvision"),
}
_SERVES = {
    "sampling": "the posterior at finite width, by Markov chains and quasi-Monte Carlo: sma.sampling",
    "train": "gradient descent on all weights: sma.training.train_weights",
    "io": "saving and loading of solutions, networks and results: sma.results",
    "plot": "the figures: statmech_attention.plotting",
    "book": "pages of the book with other parameters, in a checkout: list, run",
    "images": "the image data sets, the first time they are read: attention_book.tasks.OneShot on real images",
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
            f"{what}: wanted the extra {extra}, got no {', '.join(missing)}. {_mend(extra)}", name=missing[0]
        )


def report() -> str:
    """Extras that are not installed and what they serve, two lines each; empty if all are there."""
    lines = []
    for extra, serves in _SERVES.items():
        if missing := absent(extra):
            lines += [f"  {extra:<10}{serves}", f"  {'':<10}lacks {', '.join(missing)}: {_mend(extra)}"]
    return "\n".join(["Not installed, and not needed for the rest:", *lines]) if lines else ""


def _mend(extra: str) -> str:
    return f"pip install '{NAME}[{extra}]'"


def progress_bar(iterable, what: str, shown: bool | None):
    """`iterable` with a bar while it runs: on a terminal where `shown` is None; without tqdm there is none."""
    try:
        from tqdm import tqdm
    except ImportError:
        return iterable
    return tqdm(iterable, desc=what, disable=None if shown is None else not shown)
