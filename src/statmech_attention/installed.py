"""The installed version, and the libraries that some subpackages need: extras of the package."""

import importlib.metadata
import importlib.util
import sys

NAME = "statmech-attention"
EXTRAS = {  # as in pyproject.toml
    "sampling": ("numpyro", "threadpoolctl", "tqdm", "xarray"),
    "train": ("optax",),
    "io": ("h5netcdf", "h5py", "xarray"),
    "plot": ("matplotlib",),
    "sklearn": ("sklearn",),
    "book": ("filelock", "IPython", "jupytext", "matplotlib", "nbformat", "pandas", "papermill", "PIL", "pydantic"),
}
EXTRAS["book"] += EXTRAS["io"] + EXTRAS["sampling"][:-1] + EXTRAS["train"]


def version() -> str:
    """Version in pyproject.toml, or "not installed" if the package is only on the Python path."""
    try:
        return importlib.metadata.version(NAME)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def absent(extra: str) -> list[str]:
    """Libraries of an extra that are not installed; none of them is imported."""
    return [library for library in EXTRAS[extra] if importlib.util.find_spec(library) is None]


def need(extra: str, what: str) -> None:
    """Raise ImportError, on behalf of `what`, unless all libraries of an extra are installed."""
    if missing := absent(extra):
        remedy = f"pip install '{NAME}[{extra}]'"
        raise ImportError(f"{what}: wanted the extra {extra}, got no {', '.join(missing)}. {remedy}", name=missing[0])


def watched() -> bool:
    """True where somebody can see a progress bar: on a terminal, or in a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return sys.stderr.isatty() or hasattr(shell, "kernel")
