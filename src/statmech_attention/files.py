"""Files that are written whole or not at all: netCDF, and the states of interrupted runs without pickles."""

import contextlib
import glob
import io
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

from statmech_attention import checks

try:
    import fcntl
except ImportError:  # on Windows, where an open file cannot be renamed either
    fcntl = None  # type: ignore[assignment]

_SUFFIX, _SETTINGS = ".part", "settings"
_LARGE = 4000  # bytes


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a new file beside `path`, which replaces `path` in one step if nothing is raised; folders are made.

    It is `NAME.RANDOM.part`. The next write of `path` removes such files of killed processes.

    Raises:
        ValueError: a folder of that name.
        OSError: `path` cannot be written, as on a full disk; what was there stays.
    """
    path = checks.path("path", path)
    checks.refuse_folder(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = _locked(path)
    except OSError as error:
        raise _named(error, path) from error
    try:
        _drop_abandoned(path)
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        # Some libraries leave out the number of the error or the file.
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            raise _named(error, path) from error
        raise
    finally:
        if handle is not None:
            os.close(handle)


def _locked(path: Path) -> tuple[int | None, Path]:
    """Make a file beside `path`, locked while its handle is open, so that no process takes it for abandoned."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=_SUFFIX, dir=path.parent)
        if fcntl is None:
            os.close(handle)
            return None, Path(name)
        with contextlib.suppress(OSError):  # a file system without locks: nothing is dropped there
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(name):  # not dropped before it was locked
            return handle, Path(name)
        os.close(handle)


def _drop_abandoned(path: Path) -> None:
    """Remove unlocked parts of `path`, left by killed processes."""
    if fcntl is None:
        return
    for left in path.parent.glob(f"{glob.escape(path.name)}.*{_SUFFIX}"):
        with contextlib.suppress(OSError), open(left, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()


def _named(error: OSError, path: Path) -> OSError:
    """Return the same error with the name of the file that was to be written."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return type(error)(error.errno, f"{reason}; nothing was written", str(path))


def write_netcdf(dataset, path: str | os.PathLike) -> Path:
    """Write an xarray Dataset to a file ending in `.nc`; return its path."""
    path = checks.path("path", path)
    if path.suffix != ".nc":
        raise ValueError(f"path: wanted a file name ending in .nc, got {path.name!r}.")
    if not hasattr(dataset, "dump_to_store"):
        raise ValueError(f"dataset: wanted a Dataset of xarray, got {type(dataset).__name__}.")
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    # A compressed variable has its own index in the file, larger than a small variable.
    large = (name for name, one in dataset.variables.items() if one.dtype.kind in "fiub" and one.nbytes > _LARGE)
    encoding = {name: {"zlib": True, "complevel": 9, "shuffle": True} for name in large}
    # In memory first: HDF5 ends the process if it cannot flush to a full disk.
    content = io.BytesIO()
    with h5netcdf.File(content, "w") as file:
        dataset.dump_to_store(H5NetCDFStore(file), encoding=encoding)
    with replacing(path) as temporary:
        temporary.write_bytes(content.getvalue())
    return path


def existing(path: str | os.PathLike) -> Path:
    """Return `path`, refused unless a file is there."""
    path = checks.path("path", path)
    checks.refuse_folder(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no recorded result there.")
    return path


def read_netcdf(path: str | os.PathLike):
    """Read the Dataset of a file into memory."""
    path = existing(path)
    import xarray as xr

    try:
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            return opened.load()
    except (OSError, ValueError, KeyError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> ValueError:
    """Return the error of a damaged file."""
    return ValueError(
        f"{path}: wanted a netCDF file, got one that cannot be read ({error}). Remove this file and run again."
    )


def save_state(path: Path, state: Any, settings: Mapping[str, Any]) -> None:
    """Write a pytree of arrays and numbers, and the settings of its run, as JSON can hold them."""
    settings = checks.mapping("settings", settings)
    leaves: dict[str, Any] = {f"leaf_{index}": np.asarray(leaf) for index, leaf in enumerate(jax.tree.leaves(state))}
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **leaves | {_SETTINGS: np.array(json.dumps(settings, sort_keys=True))})


def load_state(path: Path, like: Any, settings: Mapping[str, Any]) -> Any:
    """Read a pytree of the structure of `like`, its leaves NumPy arrays.

    Raises:
        ValueError: a damaged file, or one of a run with other settings, which are named.
    """
    path, settings = checks.path("path", path), checks.mapping("settings", settings)
    checks.refuse_folder(path)
    try:
        # Opened here, since NumPy leaves a file open that it cannot read.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            found = json.loads(str(archive[_SETTINGS]))
            leaves = [archive[f"leaf_{index}"] for index in range(len(archive.files) - 1)]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path}: a damaged checkpoint ({error}). Remove this file and start again.") from error
    wanted = json.loads(json.dumps(settings))
    differing = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
    if differing:
        change = ", ".join(f"{name} {found.get(name)!r} there and {wanted.get(name)!r} here" for name in differing)
        raise ValueError(f"{path}: the checkpoint of another run: {change}. Give another file, or remove this one.")
    wanted_leaves, structure = jax.tree.flatten(like)
    if len(wanted_leaves) != len(leaves):
        raise ValueError(
            f"{path}: wanted {len(wanted_leaves)} arrays, got {len(leaves)}. Remove this file and start again."
        )
    return jax.tree.unflatten(structure, leaves)
