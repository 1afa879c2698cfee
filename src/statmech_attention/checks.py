"""Checks of what comes in from outside, made before anything is compiled.

Every message says what was wanted, what was got and what to do about it. Values are
looked at only where they are known: inside `jax.jit` and `jax.vmap` shapes are still
checked, values cannot be.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, UInt32

Key = PRNGKeyArray | UInt32[Array, "2"]  # a JAX random key, of the new style or the old


def concrete(*arrays) -> bool:
    """True where all values are known, False inside a JAX transformation."""
    return not any(isinstance(array, jax.core.Tracer) for array in arrays)


def array(name: str, value, axes: str, *, double: bool = False):
    """`value` as a real JAX array with one axis a word of `axes`, finite; `double`: float64."""
    if not hasattr(value, "dtype"):
        value = np.asarray(value)
    wanted = f"({', '.join(axes.split())})" if axes else "a scalar"
    if value.dtype == object or not (jnp.issubdtype(value.dtype, jnp.number) or jnp.issubdtype(value.dtype, jnp.bool_)):
        raise ValueError(f"{name}: wanted real numbers of shape {wanted}, got {value.dtype} values.")
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
    if concrete(value) and not np.all(np.isfinite(np.asarray(value))):
        raise ValueError(f"{name}: wanted finite numbers, got NaN or infinity. Look for them with jnp.isfinite.")
    return jnp.asarray(value)


def need_double(name: str, value) -> None:
    """Refuse to go on in single precision."""
    if not jax.config.jax_enable_x64:
        raise ValueError(
            f"{name}: wanted float64, but JAX runs in single precision. "
            "Call statmech_attention.enable_x64() before the first array is made."
        )
    if jnp.issubdtype(value.dtype, jnp.floating) and value.dtype != jnp.float64:
        raise ValueError(f"{name}: wanted float64, got {value.dtype}. Convert it with {name}.astype('float64').")


def positive(name: str, value, *, infinite: bool = False):
    """`value` as a positive float; `infinite`: +inf is allowed too."""
    if not concrete(value):
        if value.ndim:
            raise ValueError(f"{name}: wanted one positive number, got an array of shape {value.shape}. Use jax.vmap.")
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: wanted one positive number, got {value!r}.") from None
    if not number > 0 or (math.isinf(number) and not infinite):
        raise ValueError(f"{name}: wanted a positive {'' if infinite else 'finite '}number, got {number}.")
    return number


def whole(name: str, value, least: int = 1) -> int:
    """`value` as a whole number of at least `least`, of any type but bool."""
    if not is_whole(value, least):
        raise ValueError(f"{name}: wanted a whole number of at least {least}, got {value!r}.")
    return int(value)


def is_whole(number, least: int) -> bool:
    """Whether `number` is a whole number, of any type but bool, and not too small."""
    if isinstance(number, (bool, np.bool_)) or not isinstance(number, (int, float, np.number)):
        return False
    return bool(math.isfinite(number) and int(number) == number and number >= least)


def same(what: str, first: str, size: int, second: str, other: int) -> None:
    """Refuse two arrays whose shared axis differs in length."""
    if size != other:
        raise ValueError(f"{what}: wanted the same number in {first} and {second}, got {size} and {other}.")


def labels(value, examples: int, *, signs: bool = False, axes: tuple[int, ...] = ()):
    """Labels or targets of `examples` examples in float64, each with `axes`; `signs`: every one is +1 or -1."""
    if not axes and getattr(value, "ndim", 1) == 2:
        raise ValueError(
            f"labels: wanted shape (examples), got {tuple(value.shape)}. For C outputs end heads with Outputs(C)."
        )
    result = array("labels", value, "examples outputs" if axes else "examples", double=True)
    same("labels", "labels", result.shape[0], "the inputs' examples axis", examples)
    if axes:
        same("labels", "the outputs axis", result.shape[1], "the network's outputs", axes[0])
    if signs and concrete(result) and not np.all(np.abs(np.asarray(result)) == 1):
        odd = np.asarray(result)[np.abs(np.asarray(result)) != 1][0]
        raise ValueError(f"labels: wanted +1 or -1 everywhere, got {odd}. Map the two classes with 2 * labels - 1.")
    return result
