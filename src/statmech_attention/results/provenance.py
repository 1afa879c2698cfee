"""Where a number comes from: which source, which library versions, which device."""

import importlib.metadata
import platform

from statmech_attention.installed import version

_LIBRARIES = ("jax", "jaxlib", "numpyro", "optax", "numpy", "scipy")


def provenance() -> dict[str, str]:
    """Versions of the package, Python and the numerical libraries, platform and devices; no paths or host names."""
    import jax

    devices = jax.devices()
    # A CPU calls itself "cpu" twice; a GPU has a name of its own.
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
