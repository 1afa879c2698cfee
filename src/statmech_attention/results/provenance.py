"""Where a number comes from: which source, which library versions, which device."""

import hashlib
import importlib.metadata
import platform
from collections.abc import Iterable
from pathlib import Path

from statmech_attention.installed import version

_PACKAGE = Path(__file__).parents[1]
_LIBRARIES = ("jax", "jaxlib", "numpyro", "optax", "numpy", "scipy")


def hash_files(paths: Iterable[Path], root: Path) -> str:
    """SHA-256 of files: of their names below `root` and of their contents.

    Args:
        paths: the files, in any order.
        root: a folder above all of them.

    Returns:
        64 hexadecimal digits, the same on every system: line ends and separators are made equal.

    Raises:
        ValueError: a file that is not below `root`.
    """
    digest = hashlib.sha256()
    for name, path in sorted((path.relative_to(root).as_posix(), path) for path in paths):
        content = path.read_bytes().replace(b"\r\n", b"\n")
        # The length keeps two files from being taken for one longer file.
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def source_hash() -> str:
    """SHA-256 of the package's own source: every module and style sheet of it.

    Returns:
        64 hexadecimal digits; they change whenever the code does, committed or not.
    """
    files = [path for pattern in ("*.py", "*.mplstyle") for path in _PACKAGE.rglob(pattern)]
    return hash_files(files, _PACKAGE)


def provenance() -> dict[str, str]:
    """What a result must carry so that somebody can tell later how it was made.

    Returns:
        Texts by name: `package` (version), `python`, one entry a numerical library, `platform`, and `device` (kind and
        number of the devices JAX computes on). No paths and no host names.
    """
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
