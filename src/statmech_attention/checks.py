"""Checks of arguments: every message says what was wanted, what was got and what to do.

Inside `jax.jit` and `jax.vmap` shapes are still checked, values cannot be.
"""

import math
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, UInt32

Key = PRNGKeyArray | UInt32[Array, "2"]  # a JAX random key, of the new style or the old


def concrete(*arrays) -> bool:
    """True where all values are known, False inside a JAX transformation."""
    return not any(isinstance(array, jax.core.Tracer) for array in arrays)


def array(name: str, value, axes: str, *, double: bool = False, finite: bool = True) -> Array:
    """Convert real numbers to a JAX array with one axis per word of `axes`; `double`: only in float64."""
    wanted = f"({', '.join(axes.split())})" if axes else "a scalar"
    try:
        value = value if isinstance(value, jax.Array) else np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged; a tensor that keeps its gradient
        raise ValueError(f"{name}: wanted real numbers of shape {wanted}, got no array ({error}).") from None
    real = jnp.issubdtype(value.dtype, jnp.floating)
    if not real and value.dtype.kind not in "biu" or value.ndim != len(axes.split()) or 0 in value.shape:
        got = f"{value.dtype} values of shape {tuple(value.shape)}"
        raise ValueError(f"{name}: wanted real numbers of shape {wanted}, got {got}.")
    if double:
        need_double(name, value)
    value = jnp.asarray(value, value.dtype if real else float)  # a weak type would be compiled apart
    if finite and concrete(value) and not np.isfinite(np.asarray(value)).all():
        raise ValueError(f"{name}: wanted finite numbers, got NaN or infinity. Look for them with jnp.isfinite.")
    return value


def need_double(name: str, value) -> None:
    """Raise ValueError in single precision."""
    if not jax.config.read("jax_enable_x64"):
        raise ValueError(
            f"{name}: wanted float64, but JAX runs in single precision. "
            "Call statmech_attention.enable_x64() before the first array is made; set JAX_ENABLE_X64=1 for workers."
        )
    if jnp.issubdtype(value.dtype, jnp.floating) and value.dtype != jnp.float64:
        raise ValueError(f"{name}: wanted float64, got {value.dtype}. Convert it: np.asarray(.., float).")


def positive(name: str, value, *, infinite: bool = False) -> Any:
    """Convert a number to a positive float, +inf only if `infinite`; return a traced scalar as it is."""
    if not concrete(value):
        if value.ndim:
            raise ValueError(f"{name}: wanted one positive number, got an array of shape {value.shape}. Use jax.vmap.")
        return value
    try:
        number = math.nan if isinstance(value, (str, bytes, bool)) or np.ndim(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not number > 0 or (math.isinf(number) and not infinite):
        raise ValueError(f"{name}: wanted a positive {'' if infinite else 'finite '}number, got {value!r}.")
    return number


def not_negative(name: str, value) -> float:
    """Convert a number to a float that is zero, positive or infinite."""
    zero = isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0
    return 0.0 if zero else positive(name, value, infinite=True)


def flag(name: str, value) -> bool:
    """True or False, and nothing else."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}: wanted True or False, got {value!r}.")
    return bool(value)


def instance(name: str, value, *kinds: type, instead: str = "") -> Any:
    """Return `value` if it is of one of these kinds; `instead`: what to call of other things."""
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"{name}: wanted {wanted}, got {type(value).__name__}.{instead and ' ' + instead}")
    return value


def function(name: str, value, what: str) -> Any:
    """Return what can be called; `what`: of what, to what."""
    if not callable(value):
        raise ValueError(f"{name}: wanted a function {what}, got {value!r:.40}.")
    return value


def several(name: str, value, what: str = "arrays") -> Any:
    """Return what has a length and parts in an order, and is no text."""
    if isinstance(value, (str, bytes, dict, set)) or not hasattr(value, "__len__"):
        raise ValueError(f"{name}: wanted a list of {what}, got {value!r:.40}.")
    return value


def is_whole(value, least: int = 1) -> bool:
    """True for a whole number of at least `least`: an int, or a float such as 3.0, but no bool."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    return bool(value >= least and (isinstance(value, (int, np.integer)) or float(value).is_integer()))


def whole(name: str, value, least: int = 1, most: float = math.inf) -> int:
    """Convert a whole number between `least` and `most` to an int."""
    if not is_whole(value, least) or value > most:
        limit = "" if most == math.inf else f" and at most {most}"
        raise ValueError(f"{name}: wanted a whole number of at least {least}{limit}, got {value!r}.")
    return int(value)


def key(name: str, value) -> Any:
    """Return a JAX random key, of the new style or the old; refuse seeds and arrays of keys."""
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    new = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if shape != (() if new else (2,)) or not new and dtype != np.uint32:
        got, seed = f"an array of shape {shape}" if shape else f"{value!r:.60}", value if is_whole(value, 0) else 0
        raise ValueError(f"{name}: wanted one JAX random key, got {got}. Write {name}=jax.random.key({seed}).")
    return value


def choice(name: str, value, known) -> str:
    """Return `value` if it is one of the `known` words."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name}: wanted one of {', '.join(known)}, got {value!r}.")
    return value


def indices(name: str, value, count: int, *, least: int = 0, what: str = "indices") -> np.ndarray:
    """Convert different whole numbers below `count`, at least `least` of them, to an array."""
    chosen = list(value) if np.iterable(value) else [value]
    known = np.iterable(value) and all(is_whole(index, 0) and index < count for index in chosen)
    if not known or len(chosen) < least or len(set(chosen)) != len(chosen):
        some = f", at least {'one' if least == 1 else least}" if least else ""
        raise ValueError(f"{name}: wanted different {what} out of 0..{count - 1}{some}, got {value!r}.")
    return np.array(chosen, int)


def free_memory() -> float:
    """Bytes that are free, what the system would give up for them included; infinite where it does not say."""
    table = Path("/proc/meminfo")
    if table.exists():
        lines = dict(line.split(":") for line in table.read_text().splitlines())
        return 1024.0 * int(lines["MemAvailable"].split()[0])
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return math.inf


def memory(name: str, rows: int, columns: int, matrices: int, remedy: str) -> None:
    """Raise MemoryError before so many matrices of float64 are made, if they are more than what is free."""
    needed, free = 8.0 * rows * columns * matrices, free_memory()
    if needed > free:
        raise MemoryError(
            f"{name}: {matrices} matrices of {rows} x {columns} numbers need {needed / 2**30:.3g} GiB, "
            f"and {free / 2**30:.3g} GiB are free. {remedy}"
        )


def same(what: str, first: str, size: int, second: str, other: int) -> None:
    """Raise ValueError where the shared axis of two arrays differs in length."""
    if size != other:
        raise ValueError(f"{what}: wanted the same number in {first} and {second}, got {size} and {other}.")


def labels(value, examples: int, *, signs: bool = False, axes: tuple[int, ...] = ()) -> Array:
    """Convert labels to float64, `(examples,)` or `(examples, *axes)`; `signs`: each is +1 or -1."""
    if concrete(value):
        _refuse_classes(np.asarray(value), axes)
    result = array("labels", value, "examples outputs" if axes else "examples", double=True)
    same("labels", "labels", result.shape[0], "the inputs' examples axis", examples)
    if axes:
        same("labels", "the outputs axis", result.shape[1], "the network's outputs", axes[0])
    if signs and concrete(result) and not np.all(np.abs(np.asarray(result)) == 1):
        raise ValueError("labels: wanted +1 or -1 everywhere, got others. Write np.where(labels == .., 1.0, -1.0).")
    return result


def _refuse_classes(values: np.ndarray, axes: tuple[int, ...]) -> None:
    """Raise ValueError for names or numbers of classes and for columns, with what to write."""
    several = "layers that end with Outputs(C), and 1.0 * (np.asarray(labels)[:, None] == classes)"
    whole = values.dtype.kind in "iu" and not axes and values.ndim == 1 and np.any(np.abs(values) != 1)
    if values.dtype.kind in "bOSU" or whole:
        raise ValueError(
            f"labels: wanted +1.0 and -1.0, got {values.dtype} values such as {values.flat[0]!r}. For two classes "
            f"write np.where(np.asarray(labels) == .., 1.0, -1.0), for more {several}, for a regression "
            "np.asarray(labels, float)."
        )
    if values.ndim != 1 + len(axes):
        hint = several if axes or values.ndim > 1 and values.shape[1] > 1 else "np.ravel(labels)"
        raise ValueError(f"labels: wanted shape {('examples', *axes)}, got {values.shape}. Write {hint}.")
