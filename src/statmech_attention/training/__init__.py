"""Gradient descent: networks on the one-shot task in path form, and all weights with the attention as it is."""

from importlib import import_module

# Found when asked for: the pruning needs the class of trained networks without the images, the optimiser and xarray.
_MODULES = {
    "CURVE": "network",
    "TrainedNetwork": "network",
    "TrainedWeights": "weights",
    "load_network": "files",
    "save_network": "files",
    "train_weights": "weights",
}

__all__ = [*_MODULES]


def __getattr__(name: str):
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
