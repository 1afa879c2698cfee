"""Files that are written whole or not at all."""

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LARGE = 4000  # bytes


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary file beside `path`, which replaces `path` in one step unless something is raised."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_netcdf(dataset, path: str | os.PathLike) -> Path:
    """Write an xarray Dataset to a file ending in `.nc`; return its path."""
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    path = Path(path)
    if path.suffix != ".nc":
        raise ValueError(f"path: wanted a file name ending in .nc, got {path.name!r}.")
    # A compressed variable has its own index in the file, larger than a small variable.
    large = [name for name, one in dataset.variables.items() if one.dtype.kind in "fiub" and one.nbytes > _LARGE]
    encoding = {name: {"zlib": True, "complevel": 9, "shuffle": True} for name in large}
    content = io.BytesIO()  # in memory first: HDF5 ends the process if it cannot flush to a full disk
    with h5netcdf.File(content, "w") as file:
        dataset.dump_to_store(H5NetCDFStore(file), encoding=encoding)
    with replacing(path) as temporary:
        temporary.write_bytes(content.getvalue())
    return path


def read_netcdf(path: str | os.PathLike):
    """Read the Dataset of a file into memory."""
    import xarray as xr

    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: wanted a netCDF file, got no such file.")
    try:
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            return opened.load()
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{path}: wanted a netCDF file, got one that cannot be read ({error}).") from error
