"""Compilation: little optimisation of what runs briefly, and batches that suit the backend."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp

# XLA's older code generator takes half the time of its successor, and its code is as fast here; JAX 0.9 still has it.
_OPTIONS: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__ < (0, 10) else {}
_AT_ONCE = 64  # factorisations on an accelerator: half a gigabyte of matrices of a thousand rows
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def quick_jit(
    *, static: tuple[str, ...] = (), level: int = 1
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """`jax.jit` that compiles two to four times faster on the CPU, for functions that run briefly or multiply matrices.

    With `level=0` another four times faster, for functions that do little but multiply and factorise matrices.
    Results differ by rounding alone. While another function is traced `jax.jit` takes no options, so it has none there.
    """

    def decorate(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        usual = jax.jit(function, static_argnames=static)
        quick = jax.jit(
            function, static_argnames=static, compiler_options=_OPTIONS | {"xla_backend_optimization_level": level}
        )

        @functools.wraps(function)
        def call(*args, **named):
            given = jax.tree.leaves((args, named))
            traced = any(isinstance(leaf, jax.core.Tracer) for leaf in (*given, jnp.asarray(0.0)))
            plain = traced or jax.default_backend() != "cpu" or jax.config.read("jax_disable_most_optimizations")
            return (usual if plain else quick)(*args, **named)

        return call

    return decorate


def map_factorisations(function, values):
    """`jax.lax.map` of a function that factorises matrices: one by one on the CPU, else in batches.

    On two threads a batch of factorisations inside a loop can wait for ever; an accelerator is idle
    with a single one.
    """
    return jax.lax.map(function, values, batch_size=None if jax.default_backend() == "cpu" else _AT_ONCE)
