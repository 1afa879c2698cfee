"""Print what this machine gives the project and check that JAX works on it: `make doctor`."""

import os
import platform
import subprocess
import sys
from importlib import metadata

PACKAGES = ("jax", "jaxlib", "numpyro", "numpy", "scipy", "xarray", "jupyter-book")
# JAX 0.10 and 0.11.0 wait for ever here: batched factorisations hold every thread of the pool that
# they wait for.
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
    """Print the findings; return 1 if JAX hangs or does not run."""
    installed = {found.name: found.version for found in metadata.distributions()}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    print(f"Python    {platform.python_version()} on {platform.system()} {platform.machine()}")
    print(f"packages  {', '.join(f'{name} {installed.get(name)}' for name in PACKAGES)}")
    print(f"cores     {os.cpu_count()}, memory {memory:.0f} GB")
    print(f"images    {images()}")
    print(f"text      {text()}")
    good = True
    for name, code, threads, remedy in (
        ("devices", DEVICES, None, "`make distclean`, then `make venv`, installs the tested versions"),
        ("JAX", FACTORISATIONS, "2", "take another version of JAX: pyproject.toml says which"),
    ):
        fine, said = run(code, threads)
        print(f"{name:9s} {said}" + ("" if fine else f": {remedy}"), flush=True)
        good &= fine
    return 0 if good else 1


def run(code: str, threads: str | None, patience: float = 300) -> tuple[bool, str]:
    """Run a program on so many threads; return whether it ended well and what it printed."""
    environment = {**os.environ, **({} if threads is None else {"NPROC": threads, "JAX_PLATFORMS": "cpu"})}
    command = [sys.executable, "-c", code]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=patience)
    except subprocess.TimeoutExpired:
        return False, f"hangs: no end after {patience:g} s"
    if done.returncode:
        return False, f"fails: {(done.stderr.strip().splitlines() or ['without a message'])[-1]}"
    return True, done.stdout.strip() or "does not hang"


def images() -> str:
    """Return whether all drawings of the data sets can be read, or those that come with the book."""
    from attention_book.tasks.images import DATA_SETS, data_root, load

    try:
        fewer = [name for name in DATA_SETS if load(name).held is not None]
    except ValueError as error:
        return str(error)
    return f"of {', '.join(fewer)} what comes with the book" if fewer else f"all, with the originals in {data_root()}"


def text() -> str:
    """Return whether the pretrained encoder, the sentences and what reads them are installed."""
    from attention_book.tasks._installed import missing

    absent = ", ".join(missing())
    return f"without {absent}; `make text` installs it" if absent else "an encoder and sentences are installed"


if __name__ == "__main__":
    sys.exit(main())
