"""Compilation: little optimisation of what runs briefly, and batches that suit the backend."""

import functools
import sys
from contextlib import contextmanager

import jax
import jax.monitoring

# XLA's older code generator takes half the time of the one that replaced it, and its code is as fast
# here; XLA dropped it after JAX 0.9.
_EMITTERS = {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__ < (0, 10) else {}

_AT_ONCE = 64  # factorisations on an accelerator: half a gigabyte of matrices of a thousand rows


def quick_jit(*, static: tuple[str, ...] = (), effort: int = 1):
    """`jax.jit` with little optimisation on the CPU, for functions that run briefly or multiply matrices.

    Compiles two to four times faster. Code of effort 1 is as fast as usual and differs by rounding
    alone; at 0 loops are up to five times slower. Within another `jax.jit` that one decides.
    """

    def decorate(function):
        usual = jax.jit(function, static_argnames=static)
        options = {"xla_backend_optimization_level": effort, **_EMITTERS}
        quick = jax.jit(function, static_argnames=static, compiler_options=options)

        @functools.wraps(function)
        def call(*args, **named):
            # What optimises hardly anything already, as the tests do, compiles sooner without these options.
            if jax.default_backend() != "cpu" or jax.config.read("jax_disable_most_optimizations"):
                return usual(*args, **named)
            try:
                return quick(*args, **named)
            except ValueError:  # options are refused within another trace; an error of the function's own comes again
                return usual(*args, **named)

        return call

    return decorate


@quick_jit(static=("shape",))
def normals(key, shape: tuple[int, ...]):
    """Standard normal numbers, the same as those of `jax.random.normal`, which compiles for half a second."""
    return jax.random.normal(key, shape)


def map_factorisations(function, values):
    """`jax.lax.map` of a function that factorises matrices: one by one on the CPU, else in batches.

    On two threads a batch of factorisations inside a loop can wait for ever; an accelerator is idle
    with a single one.
    """
    return jax.lax.map(function, values, batch_size=None if jax.default_backend() == "cpu" else _AT_ONCE)


_announced: set = set()


@contextmanager
def announced(what: str, *key):
    """Show on a terminal that something is being compiled, the first time that a `key` is met, until that is over."""
    met = key in _announced
    _announced.add(key)
    if met or not sys.stderr.isatty():
        yield
        return
    line = f"compiling {what} for this shape ..."
    print(line, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(f"\r{' ' * len(line)}\r", end="", file=sys.stderr, flush=True)


@functools.cache
def _listening() -> list[str]:
    events: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: events.append(event))
    return events


def compilations() -> int:
    """Number of programs that XLA has compiled in this process since the first call."""
    return _listening().count("/jax/core/compile/backend_compile_duration")
