"""Provenance of a number: library versions and device."""

import importlib.metadata
import platform

import jax

from statmech_attention.installed import version

_LIBRARIES = ("jax", "jaxlib", "numpyro", "optax", "numpy", "scipy")


def provenance() -> dict[str, str]:
    """Return texts by name: `package` (version), `python`, one per numerical library, `platform` and `device`.

    `device` is kind and number of the devices on which JAX computes. There are no paths and no host names.
    """
    devices = jax.devices()
    # A CPU's platform and kind are both "cpu"; a GPU has a name of its own.
    kinds = sorted({f"{device.platform} {device.device_kind}" for device in devices})
    return {
        "package": version(),
        "python": platform.python_version(),
        **{name: _version(name) for name in _LIBRARIES},
        "platform": f"{platform.system()} {platform.machine()}",
        "device": ", ".join("cpu" if kind == "cpu cpu" else kind for kind in kinds) + f" x {len(devices)}",
    }


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
