"""Share compiled programs and cores among the processes of a checkout.

This imports nothing of the project, so that tests can use it before the package may be imported.
"""

import hashlib
import importlib.metadata
import os
import platform
import re
from collections.abc import MutableMapping
from pathlib import Path

# What says which instructions a processor has; the rest of /proc/cpuinfo varies on one machine.
_PROCESSOR = re.compile(r"^(?:vendor_id|cpu family|model|model name|flags|Features|CPU (?:part|variant))\s*:.*$", re.M)
_ISA = "--xla_cpu_max_isa="
# Two fifths less work to compile, and programs that run about as fast: the older emitters, which
# later versions lack, and a program in one piece, since all cores have a process of their own.
# Less optimisation would round differently, and recorded chaotic orbits would not come again.
_SOONER = ("--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1")
_HALF_WRITTEN = "ignore:Error reading persistent compilation cache"


def share(environment: MutableMapping[str, str], folder: Path) -> None:
    """Let JAX keep its compiled programs in a folder and compile sooner; what is set stays."""
    environment.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder / machine()))
    # Everything: a page has hundreds of small programs, which are sooner read than compiled.
    environment.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    environment.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")
    # Where there is AVX-512, XLA adds two preferences of its code generator to a program's features
    # ("prefer-no-gather"), looks for them among the processor's when it loads the program, and
    # warns of instructions that are missing. Compiled for AVX2 a program carries no such thing.
    wanted = [f"{_ISA}AVX2"] if platform.machine().lower() in ("x86_64", "amd64") else []
    if importlib.metadata.version("jaxlib").startswith("0.9."):
        wanted += _SOONER
    given = environment.get("XLA_FLAGS", "")
    flags = [given, *(flag for flag in wanted if flag.partition("=")[0] not in given)]
    if any(flags):
        environment["XLA_FLAGS"] = " ".join(flags).strip()
    # At every load XLA warns that it does not compare versions, which `machine` does, and nothing
    # but this level turns that off. Errors are still shown. JAX sets the level to 1 where it is
    # imported, so that a 1 says nothing.
    if environment.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":
        environment["TF_CPP_MIN_LOG_LEVEL"] = "2"
    # A process can read a program while another writes it. JAX notices, compiles it and warns.
    warnings = environment.get("PYTHONWARNINGS", "")
    if _HALF_WRITTEN not in warnings:
        environment["PYTHONWARNINGS"] = f"{warnings},{_HALF_WRITTEN}".strip(",")


def share_cores(environment: MutableMapping[str, str], processes: int) -> None:
    """Give each of several processes its part of the cores; threads would compete."""
    threads = str(max(1, cores() // processes))
    for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # XLA reads the first
        environment.setdefault(name, threads)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return a short hash of what a compiled program depends on besides its source and options."""
    try:
        described = sorted(set(_PROCESSOR.findall(cpuinfo.read_text(encoding="utf-8"))))
    except OSError:
        described = list(platform.uname())
    versions = [importlib.metadata.version(name) for name in ("jax", "jaxlib")]
    facts = [platform.system(), platform.machine(), platform.python_version(), *versions, *described]
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]
