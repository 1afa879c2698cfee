"""Checks of arguments, made before anything is compiled.

Every message says what was wanted, what was got and what to do. Inside `jax.jit` and `jax.vmap`
shapes are still checked, values cannot be.
"""

import inspect
import itertools
import math
import os
import re
import types
import typing
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Union

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, UInt32, jaxtyped

Key = PRNGKeyArray | UInt32[Array, "2"]  # a JAX random key, of the new style or the old
# Types of numbers that JAX computes with.
_NUMBERS = {f"{kind}{bits}" for kind in ("int", "uint", "float", "complex") for bits in (8, 16, 32, 64)}
_NUMBERS |= {"bool", "bfloat16", "complex128"}
# Records without infinite numbers.
_FINITE = {
    "AttentionedInputs",
    "Dynamics",
    "PatternMatrix",
    "Patterns",
    "ProductAttention",
    "QueryKeyAttention",
    "Weights",
    "Window",
}
_SEEN: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # frozen records that were looked at, by their id
_FORMS: set = set()  # of records, their structure, shapes and types, that agree with the annotations


def concrete(*arrays) -> bool:
    """True where all values are known, False inside a JAX transformation."""
    return not any(isinstance(array, jax.core.Tracer) for array in arrays)


def all_finite(*arrays) -> bool:
    """False where a known array has NaN or infinity."""
    return all(not concrete(one) or bool(np.isfinite(np.asarray(one)).all()) for one in arrays)


def array(name: str, value, axes: str, *, double: bool = False, truth: bool = True, finite: bool = True) -> Array:
    """`value` as a real JAX array, one axis per word of `axes`; without `truth` booleans are refused."""
    wanted = f"({', '.join(axes.split())})" if axes else "a scalar"
    if not isinstance(value, (jax.Array, np.ndarray)):  # lists, and arrays of other libraries
        try:
            value = np.asarray(value)
        except (TypeError, ValueError, RuntimeError) as error:  # ragged; a tensor that keeps its gradient
            raise ValueError(f"{name}: wanted real numbers of shape {wanted}, got no array ({error}).") from None
    if str(value.dtype) not in _NUMBERS or np.ma.is_masked(value):
        got = "masked" if np.ma.is_masked(value) else value.dtype
        raise ValueError(f"{name}: wanted real numbers of shape {wanted}, got {got} values.")
    if not truth and value.dtype == bool:
        raise ValueError(f"{name}: wanted numbers, got truth values. Two classes are +-1: np.where({name}, 1.0, -1.0).")
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        raise ValueError(f"{name}: wanted real numbers, got {value.dtype}. Pass the real part.")
    if value.ndim != len(axes.split()):
        raise ValueError(f"{name}: wanted shape {wanted}, got {tuple(value.shape)}.")
    if 0 in value.shape:
        raise ValueError(f"{name}: wanted at least one entry on every axis of {wanted}, got {tuple(value.shape)}.")
    if double:
        need_double(name, value)
    if not jnp.issubdtype(value.dtype, jnp.floating):
        value = value.astype(jnp.result_type(float))
    if finite and not all_finite(value):
        raise ValueError(f"{name}: wanted finite numbers, got NaN or infinity. Look for them with jnp.isfinite.")
    return jnp.asarray(value)


def need_double(name: str, value) -> None:
    """Refuse to go on in single precision."""
    if not jax.config.read("jax_enable_x64"):
        raise ValueError(
            f"{name}: wanted float64, but JAX runs in single precision. "
            "Call statmech_attention.enable_x64() before the first array is made."
        )
    if jnp.issubdtype(value.dtype, jnp.floating) and value.dtype != jnp.float64:
        raise ValueError(f"{name}: wanted float64, got {value.dtype}. Convert it: np.asarray(.., float).")


def real(value) -> float | None:
    """`value` as a float if it is one known real number; None for all else: texts and truth values too."""
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    if isinstance(value, (str, bytes, bytearray, bool)) or kind in "bcmMOSU" or getattr(value, "ndim", 0) != 0:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def positive(name: str, value, *, infinite: bool = False) -> Any:
    """`value` as a positive float; `infinite`: +inf is allowed too."""
    if not concrete(value):
        if value.ndim:
            raise ValueError(f"{name}: wanted one positive number, got an array of shape {value.shape}. Use jax.vmap.")
        return value
    number = real(value)
    if number is None:
        raise ValueError(f"{name}: wanted one positive number, got {value!r}.")
    if not number > 0 or (math.isinf(number) and not infinite):
        raise ValueError(f"{name}: wanted a positive {'' if infinite else 'finite '}number, got {number}.")
    return number


def at_least(name: str, value, least: float | int) -> float:
    """`value` as a finite float of at least `least`."""
    number = real(value)
    if number is None or not least <= number < math.inf:
        raise ValueError(f"{name}: wanted a finite number of at least {least:g}, got {value!r}.")
    return number


def whole(name: str, value, least: int = 1, most: int | None = None) -> int:
    """`value` as a whole number of at least `least` and at most `most`, of any type but bool."""
    if not is_whole(value, least) or most is not None and value > most:
        beyond = "" if most is None else f" and at most {most}"
        raise ValueError(f"{name}: wanted a whole number of at least {least}{beyond}, got {value!r}.")
    return int(value)


def is_whole(number, least: int) -> bool:
    """True for a whole number of any type but bool that is at least `least`."""
    if isinstance(number, (bool, np.bool_)) or not isinstance(number, (int, float, np.integer, np.floating)):
        return False
    # In this order, since the largest of Python's whole numbers are no floats.
    return bool(
        (isinstance(number, int) or math.isfinite(number)) and int(number) == number and least <= number < 2**63
    )


def seed(name: str, value) -> int:
    """`value` as a seed: a whole number that JAX makes a key of."""
    return whole(name, value, 0, 2**63 - 1)


def key(name: str, value) -> Any:
    """`value`, refused unless it is one JAX random key, of the new style or the old."""
    if not isinstance(value, (jax.Array, np.ndarray)):
        hint = f"jax.random.key({value})" if is_whole(value, 0) else "jax.random.key(0)"
        raise ValueError(f"{name}: wanted a JAX random key, got {value!r}. Write {name}={hint}.")
    new = jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    if not new and (value.dtype != np.uint32 or value.ndim == 0):
        raise ValueError(
            f"{name}: wanted a JAX random key, got {value.dtype} of shape {value.shape}. Write "
            f"{name}=jax.random.key(0)."
        )
    if value.shape != (() if new else (2,)):
        raise ValueError(f"{name}: wanted one JAX random key, got shape {value.shape}. Pass one of them, or vmap.")
    return value


def path(name: str, value) -> Path:
    """`value` as a path."""
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError(f"{name}: wanted a path, a text or a pathlib.Path, got {value!r}.")
    return Path(value)


def function(name: str, value) -> Callable:
    """Return a function of the caller's own, refused if it cannot be called."""
    if not callable(value):
        raise ValueError(f"{name}: wanted a function, got {value!r:.60}.")
    return value


def listed(name: str, value, entries: str) -> list:
    """Convert a sequence or array to a non-empty list; strings, dicts and iterators are refused."""
    if (
        not isinstance(value, (Sequence, np.ndarray, jax.Array))
        or isinstance(value, (str, bytes, bytearray))
        or not getattr(value, "ndim", 1)
    ):
        raise ValueError(f"{name}: wanted a list of {entries}, got {value!r}. Write [..] around a single one.")
    if not len(value):
        raise ValueError(f"{name}: wanted a list of at least one, {entries}, got an empty list.")
    return list(value)


def choice(name: str, value, known) -> str:
    """`value`, refused unless it is one of the `known` words."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name}: wanted one of {', '.join(known)}, got {value!r}.")
    return value


def indices(name: str, value, count: int, *, least: int = 0, what: str = "indices") -> np.ndarray:
    """`value` as an array of different whole numbers below `count`, `least` of them or more."""
    try:
        chosen = np.asarray(value)
    except (TypeError, ValueError):
        chosen = np.zeros(())
    whole = chosen.ndim == 1 and (not chosen.size or np.issubdtype(chosen.dtype, np.integer))
    if not whole or chosen.size < least or len({*chosen.tolist()} & {*range(count)}) != chosen.size:
        some = f", at least {'one' if least == 1 else least}" if least else ""
        raise ValueError(f"{name}: wanted different {what} out of 0..{count - 1}{some}, got {value!r}.")
    return chosen.astype(int)


def mapping(name: str, value) -> dict:
    """`value` as a dictionary whose keys are strings."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{name}: wanted a dictionary with names as keys, got {value!r}.")
    return dict(value)


def refuse_folder(path: Path) -> None:
    """Raise ValueError where a folder has the name of a file."""
    if path.is_dir():
        raise ValueError(f"{path}: wanted the name of a file, got a folder. Give a name in it.")


def axes(value) -> int:
    """Number of axes of `value` as an array; 0 if it cannot be converted (`array` raises later)."""
    try:
        return np.ndim(value)
    except (TypeError, ValueError):
        return 0


def known(name: str, value, axes: str, dtype: type = float, *, finite: bool = True) -> np.ndarray:
    """`value` as a NumPy array of doubles or booleans, one axis per word of `axes`; nothing is compiled.

    The whole numbers 0 and 1 pass as booleans: tokenisers return their masks so.
    """
    wanted, kinds = ("booleans", "biu") if dtype is bool else ("real numbers", "biuf")
    try:
        found = np.asarray(None if np.ma.is_masked(value) else value)
    except (TypeError, ValueError):
        found = np.asarray(None)
    if found.dtype.kind not in kinds or found.ndim != len(axes.split()) or not found.size:
        wanted += f" of shape ({', '.join(axes.split())})"
        raise ValueError(f"{name}: wanted {wanted}, got {found.dtype} of shape {found.shape}.")
    if dtype is bool and np.any((found != 0) & (found != 1)):
        odd = found[(found != 0) & (found != 1)][0]
        raise ValueError(f"{name}: wanted booleans, or 0 and 1, got {odd}.")
    if finite and not np.all(np.isfinite(found)):
        raise ValueError(f"{name}: wanted finite numbers, got NaN or infinity. Look for them with np.isfinite.")
    return found.astype(dtype)


def index(name: str, value, shape: tuple[int, ...]) -> None:
    """Raise IndexError for an index outside a batch of this shape, where JAX would clamp it."""
    if not shape:
        raise IndexError(f"{name}: wanted a batch to take something from, got a single one.")
    if concrete(*jax.tree.leaves(value)):
        try:
            np.empty(shape)[value]
            jax.eval_shape(lambda batch: batch[value], jax.ShapeDtypeStruct(shape, float))
        except Exception as error:
            raise IndexError(
                f"{name}: wanted an index into a batch of shape {shape}, got {value!r} ({error})."
            ) from None


def flag(name: str, value) -> bool:
    """`value`, refused unless it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}: wanted True or False, got {value!r:.60}.")
    return bool(value)


def choices(name: str, value, known) -> tuple[str, ...]:
    """Convert a list of different words, each one of `known`, to a tuple; a single word counts as a list of one."""
    given = [value] if isinstance(value, str) else listed(name, value, f"names out of {', '.join(known)}")
    found = tuple(choice(name, one, known) for one in given)
    if len({*found}) < len(found):
        raise ValueError(f"{name}: wanted different names, got {value!r}.")
    return found


def record(name: str, value, again: Callable | None = None) -> None:
    """Refuse a record, such as `Weights`, with a field that its annotation does not allow, or with NaN or infinity.

    `again` makes further checks. A frozen record is looked at once.
    """
    if not _fields(type(value)) or _SEEN.get(id(value)) is value:
        return
    leaves, tree = jax.tree.flatten(value)
    try:
        form = (tree, *((type(one), getattr(one, "shape", None), getattr(one, "dtype", None)) for one in leaves))
        known = form in _FORMS
    except (TypeError, ValueError):  # something that has no hash, or that cannot be compared
        form, known = None, False
    if not known:
        with jaxtyped("context"):  # the same name of an axis is the same length in all fields
            _check(name, "", value, type(value))
        kinds = {str(one.dtype) for one in leaves if jnp.issubdtype(getattr(one, "dtype", int), jnp.floating)}
        if len(kinds) > 1:
            raise ValueError(f"{name}: wanted one floating-point type in all fields, got {', '.join(sorted(kinds))}.")
        if form is not None:
            _FORMS.add(form)
    if again is not None:
        again()
    if type(value).__name__ in _FINITE and not all_finite(*leaves):
        raise ValueError(f"{name}: wanted finite numbers, got NaN or infinity in this {type(value).__name__}.")
    if not isinstance(value, tuple):  # which has no weak references
        passed(value)


def passed(value) -> None:
    """Let `record` leave out a frozen record that has been checked, as by its own constructor."""
    _SEEN[id(value)] = value


def _fields(kind) -> tuple[str, ...]:
    """Names of the fields of a dataclass or NamedTuple of this package; () for anything else."""
    own = isinstance(kind, type) and kind.__module__.split(".")[0] == __name__.split(".")[0]
    return tuple(getattr(kind, "__dataclass_fields__", getattr(kind, "_fields", ()))) if own else ()


def _check(name: str, field: str, value: Any, kind: Any) -> None:
    """Raise ValueError unless `value`, of this field of the record `name`, agrees with its annotation `kind`."""
    if isinstance(value, np.ndarray) and not np.ma.is_masked(value) and str(value.dtype) in _NUMBERS:
        value = jnp.asarray(value)
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) or typing.get_origin(kind) is Union else (kind,)
    for one in kinds:
        several = typing.get_origin(one) is tuple
        known: Any = tuple if several else one if isinstance(one, type) and one is not Any else object
        if not isinstance(value, known) or (several and not value):
            continue
        if several:
            each = typing.get_args(one)[0]
            for number, part in enumerate(value):
                _check(name, f"{field}[{number}]", part, each)
        elif _fields(one):
            hints = typing.get_type_hints(one)
            for inner in _fields(one):
                _check(name, f"{field}.{inner}".removeprefix("."), getattr(value, inner), hints[inner])
        return
    wanted = " or ".join(re.sub(r"\b\w[\w.]*\.", "", getattr(one, "__name__", str(one))) for one in kinds)
    got = f"{value.dtype} of shape {value.shape}" if isinstance(value, (jax.Array, np.ndarray)) else repr(value)
    raise ValueError(f"{name}: wanted `{field}` to be {wanted}, got {got:.60}.")


def objects(function):
    """Decorator: refuse arguments that are not of their annotated class, of this package or a library; `flags` too."""
    own = (__name__.split(".")[0], function.__module__.split(".")[0], "xarray", "matplotlib")
    classes = {}
    for name, parameter in inspect.signature(function).parameters.items():
        kinds = typing.get_args(parameter.annotation) or (parameter.annotation,)
        known = tuple(kind for kind in kinds if isinstance(kind, type) and kind.__module__.split(".")[0] in own)
        if known and all(kind in known or kind is type(None) for kind in kinds):
            classes[name] = (known, type(None) in kinds)

    def check(name, value):
        known, optional = classes[name]
        if not isinstance(value, known) and not (value is None and optional):
            wanted = " or ".join(kind.__name__ for kind in known)
            got = type(value).__name__
            let = " Call sma.solve(problem) first." if (wanted, got) == ("Solution", "Problem") else ""
            raise ValueError(f"{name}: wanted {wanted}, got {got}.{let}")
        record(name, value)

    return _checked(flags(function), dict.fromkeys(classes, check))


def flags(function):
    """Decorator: refuse anything but True and False for arguments that are annotated as `bool`."""
    kinds = {name: parameter.annotation for name, parameter in inspect.signature(function).parameters.items()}
    found = {name: flag for name, kind in kinds.items() if kind is bool}
    found |= {one: lambda name, value: value is None or flag(name, value) for one in kinds if kinds[one] == bool | None}
    return _checked(function, found) if found else function


def _checked(function, each: dict[str, Callable]):
    """The function, with a check of some of its arguments before it runs."""
    names = list(inspect.signature(function).parameters)

    @wraps(function)
    def checked(*arguments, **options):
        for name, value in itertools.chain(zip(names, arguments, strict=False), options.items()):
            if name in each:
                each[name](name, value)
        return function(*arguments, **options)

    return checked


def same(what: str, first: str, size: int, second: str, other: int) -> None:
    """Refuse two arrays whose shared axis differs in length."""
    if size != other:
        raise ValueError(f"{what}: wanted the same number in {first} and {second}, got {size} and {other}.")


def labels(value, examples: int, *, signs: bool = False, axes: tuple[int, ...] = ()) -> Array:
    """Labels or targets of `examples` examples in float64, each with `axes`; `signs`: every one is +1 or -1."""
    _refuse_classes(value, axes)
    result = array("labels", value, "examples outputs" if axes else "examples", double=True, truth=False)
    same("labels", "labels", result.shape[0], "the inputs' examples axis", examples)
    if axes:
        same("labels", "the outputs axis", result.shape[1], "the network's outputs", axes[0])
    if signs and concrete(result) and not np.all(np.abs(np.asarray(result)) == 1):
        odd = np.asarray(result)[np.abs(np.asarray(result)) != 1][0]
        raise ValueError(f"labels: wanted +1 or -1 everywhere, got {odd}. Map the two classes with 2 * labels - 1.")
    return result


def _refuse_classes(value, axes: tuple[int, ...]) -> None:
    """Refuse names and numbers of classes where +-1 is meant, and columns, each with what to write."""
    if not concrete(value):
        return
    try:
        found = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        return  # refused as no array
    if found.dtype.kind in "OSU" and found.size and isinstance(found.flat[0], (str, bytes)):
        hint = "np.where(np.asarray(labels) == .., 1.0, -1.0) with the name of the first class"
        if axes:
            hint = "1.0 * (np.asarray(labels)[:, None] == names) with the names of all classes"
        raise ValueError(f"labels: wanted numbers, got texts such as {str(found.flat[0])!r}. Write {hint}.")
    if not axes and found.ndim == 2:
        hint = "np.ravel(labels)" if found.shape[1] == 1 else "layers that end with Outputs(C), for C outputs"
        raise ValueError(f"labels: wanted shape (examples), got {found.shape}. Write {hint}.")
    if axes and found.ndim == 1 and found.dtype.kind in "iu":
        raise ValueError(
            f"labels: wanted shape (examples, {axes[0]}), got {found.shape}. "
            f"Write np.eye({axes[0]})[labels], for numbers of classes."
        )
    if not axes and found.dtype.kind in "iu" and found.size and (found.min(), found.max()) == (0, 1):
        raise ValueError(
            "labels: wanted +1 and -1 for two classes, got the whole numbers 0 and 1. Write "
            "2.0 * np.asarray(labels) - 1; for a regression on 0 and 1 pass np.asarray(labels, float)."
        )
