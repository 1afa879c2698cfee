"""Recorded results: small netCDF files with a record of their making, and the states of interrupted runs."""

import importlib as _importlib

__all__ = ["load", "record", "save"]


def __getattr__(name: str):
    if name in __all__:  # not before, since states of runs need no netCDF
        return getattr(_importlib.import_module(f"{__name__}.store"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
