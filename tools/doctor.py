"""Say what this machine gives the project, and whether JAX works on it: `make doctor`. Fails where it does not.

The check takes half a minute and says nothing about this project's code, so the tests leave it out; `.ci/run` makes it.
"""

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("jax", "jaxlib", "numpyro", "numpy", "scipy", "xarray", "jupyter-book")
PATIENCE = 300  # seconds
# JAX 0.10 and 0.11.0 wait for ever here: batched factorisations hold every thread of the pool that they wait for.
FACTORISATIONS = """
import jax, jax.numpy as jnp

jax.config.update("jax_enable_x64", True)
values = jax.random.normal(jax.random.key(0), (20000, 8, 8))

@jax.jit
def several(values):
    gram = values @ values.mT + jnp.eye(8)
    return sum(jnp.linalg.cholesky(gram + shift * jnp.eye(8)).sum() for shift in range(4))

for _ in range(60):
    several(values).block_until_ready()
"""
DEVICES = """
import jax
import statmech_attention

statmech_attention.enable_x64()
kinds = ", ".join(sorted({f"{device.platform} ({device.device_kind})" for device in jax.devices()}))
print(f"{kinds}; numbers are {jax.numpy.ones(1).dtype}")
"""


def main() -> int:
    """Print the findings; returns 1 if JAX hangs or does not run."""
    print(f"Python    {platform.python_version()} on {platform.system()} {platform.machine()}")
    print(f"packages  {', '.join(f'{name} {_version(name)}' for name in PACKAGES)}")
    print(f"cores     {os.cpu_count()}, memory {_memory()}")
    print(f"images    {images()}")
    print(f"text      {text()}")
    print(f"compiled  {compiled()}")
    good = True
    for name, code, threads, remedy in (
        ("devices", DEVICES, None, "`make distclean`, then `make venv`, installs the tested versions"),
        ("JAX", FACTORISATIONS, "2", "take another version of JAX: pyproject.toml says which"),
    ):
        fine, said = run(code, threads)
        print(f"{name:9s} {said}" + ("" if fine else f": {remedy}"), flush=True)
        good &= fine
    return 0 if good else 1


def run(code: str, threads: str | None, patience: float = PATIENCE) -> tuple[bool, str]:
    """Whether a program comes to its end in a process of its own, and what it said.

    Args:
        code: the program.
        threads: how many threads XLA may use, on the processor then; None leaves both open.
        patience: how long it may take, in seconds.

    Returns:
        Whether it ended well, and its output, its last complaint or how long it was waited for.
    """
    environment = {**os.environ, **({} if threads is None else {"NPROC": threads, "JAX_PLATFORMS": "cpu"})}
    command = [sys.executable, "-c", code]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=patience)
    except subprocess.TimeoutExpired:
        return False, f"hangs: no end after {patience:g} s"
    if done.returncode:
        return False, f"fails: {(done.stderr.strip().splitlines() or ['without a word'])[-1]}"
    return True, done.stdout.strip() or "does not hang"


def images() -> str:
    """Which data sets of images are at hand, and where."""
    from attention_book.tasks.images import DATA_SETS, data_root

    place = data_root()
    decoded = [name for name in DATA_SETS if list((place / "decoded").glob(f"{name}-*.npz"))]
    missing = "" if len(decoded) == len(DATA_SETS) else "; the first use of another one needs `make images`"
    return f"{', '.join(decoded) or 'none'} in {place}{missing}"


def text() -> str:
    """Whether the pretrained encoder and the sentences are installed, and what reads them."""
    from attention_book.tasks._installed import missing

    absent = ", ".join(missing())
    return f"without {absent}; `make text` installs it" if absent else "an encoder and sentences are installed"


def compiled(folder: Path = ROOT / ".cache" / "compiled") -> str:
    """How many compiled programs are kept for this machine, their size, and where."""
    from compiled import machine

    sizes = [file.stat().st_size for file in (folder / machine()).glob("*-cache")]
    return f"{len(sizes)} programs, {sum(sizes) / 2**20:.0f} MB in {folder / machine()}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB"
    except (AttributeError, OSError, ValueError):  # not on Windows
        return "unknown"


if __name__ == "__main__":
    sys.exit(main())
