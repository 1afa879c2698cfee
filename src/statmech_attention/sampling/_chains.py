"""Markov chains side by side, NUTS among them, in blocks that can be written to a file and taken up again."""

import contextlib
import ctypes
import hashlib
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from numpyro.infer.hmc import hmc
from tqdm import tqdm

from statmech_attention import checks
from statmech_attention.files import load_state, save_state

_BLOCK = 50  # draws between two looks at the progress bar and two writes of the checkpoint


class Transition(NamedTuple):
    """A Markov chain: functions of one chain, made once for every set of shapes.

    `begin` maps (key, position, data) to a state; `advance` maps (state, data) to the next one and
    a dictionary of numbers, averaged over thinned iterations; `record` maps (state, data) to a
    dictionary of arrays to keep.
    """

    begin: Callable
    advance: Callable
    record: Callable


@lru_cache(maxsize=64)
def nuts(
    potential: Callable,
    record: Callable,
    static,
    *,
    warmup: int,
    step_size: float,
    acceptance: float = 0.8,
    depth: int | tuple[int, int] = 10,
) -> Transition:
    """NUTS for `potential`, minus a log density of (position, data, static).

    Cached, so that it is compiled once. `static` decides shapes, `depth` is the largest number of
    doublings in warm-up and after it.
    """
    initialise, advance = hmc(potential_fn_gen=lambda data: lambda position: potential(position, data, static))

    def begin(key, position, data):
        options = {"target_accept_prob": acceptance, "max_tree_depth": depth, "model_args": (data,), "rng_key": key}
        return initialise(position, warmup, step_size, trajectory_length=None, **options)

    def go_on(state, data):
        state = advance(state, (data,))
        return state, {"steps": state.num_steps, "diverging": state.diverging, "acceptance": state.accept_prob}

    def keep(state, data):
        return {"potential": state.potential_energy, **record(state.z, data, static)}

    return Transition(begin, jax.jit(go_on), keep)


def run(
    transition: Transition,
    data: Any,
    starts: Any,
    key,
    *,
    warmup: int,
    draws: int,
    thinning: int = 1,
    chain_method: str = "auto",
    checkpoint: str | os.PathLike | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: bool | None = None,
) -> dict[str, np.ndarray]:
    """Run chains from `starts`; return by name arrays `(chains, draws, ..)`.

    With a thread per chain no chain waits for the longest trajectory of the others, and NUTS need
    not copy its whole tree at every step. `settings` tell this run's checkpoint from others.
    """
    warmup, draws, thinning = int(warmup), int(draws), int(thinning)
    path = None if checkpoint is None else checks.path("checkpoint", checkpoint)
    together = chain_method == "vectorized" or (chain_method == "auto" and jax.default_backend() != "cpu")
    begin, advance = _compiled(transition, together)
    chains = jax.tree.leaves(starts)[0].shape[0]
    seed, keys = _raw_keys(key, chains)
    first = (keys, starts)
    groups = [first] if together else [_chain(first, number) for number in range(chains)]
    # No draws yet: threads that start at once would all compile the same function.
    states = [advance(begin(*group, data), data, 0, 1)[0] for group in groups]

    double = jax.config.read("jax_enable_x64")

    def go_on(state, count, thinning):
        # A context manager that switched to double precision did so for its own thread alone.
        with jax.enable_x64(double):
            state, block = jax.block_until_ready(advance(state, data, count, thinning))
        return state, {name: np.asarray(values if together else values[None]) for name, values in block.items()}

    shapes = jax.eval_shape(advance, states[0], data, 0, 1)[1]
    kept = {name: np.zeros((chains, 0, *shape.shape[1 + together :]), shape.dtype) for name, shape in shapes.items()}
    done, about = 0, dict(settings or {})
    if path is not None:
        about |= {"warmup": warmup, "thinning": thinning, "data": _digest((seed, starts, data))}
        if path.exists():
            done, states, kept = load_state(path, (done, states, kept), about)
            done, states = int(done), jax.tree.map(jnp.asarray, states)
    # `progress` None leaves it to tqdm, which shows nothing outside a terminal.
    bar = tqdm(total=warmup + draws, initial=done, unit="draw", disable=None if progress is None else not progress)
    alone = contextlib.nullcontext() if together else _one_lapack_thread()
    with bar, alone, ThreadPoolExecutor(os.cpu_count()) as pool:
        while done < warmup + draws:
            bar.set_description("warm-up" if done < warmup else "draws", refresh=False)
            count = min(_BLOCK, (warmup if done < warmup else warmup + draws) - done)
            every = 1 if done < warmup else thinning
            found = list(pool.map(go_on, states, repeat(count), repeat(every)))
            states = [state for state, _ in found]
            if done >= warmup:
                for name in kept:
                    block = np.concatenate([block[name][:, :count] for _, block in found])
                    kept[name] = np.concatenate([kept[name], block], axis=1)
            done += count
            if path is not None:
                save_state(path, (done, states, kept), about)
            bar.update(count)
    return {name: values[:, :draws] for name, values in kept.items()}


@lru_cache(maxsize=64)
def _compiled(transition: Transition, together: bool):
    """Compile the start and a block of at most `_BLOCK` draws, of one chain or of all at once."""

    def go_on(state, data, count, thinning):
        numbers = jax.eval_shape(transition.advance, state, data)[1]
        none = {name: jnp.zeros((), float) for name in numbers}

        def iterate(_, carry):
            state, sums = carry
            state, numbers = transition.advance(state, data)
            return state, {name: sums[name] + numbers[name] for name in sums}

        def draw(index, carry):
            state, kept = carry
            state, sums = jax.lax.fori_loop(0, thinning, iterate, (state, none))
            found = {**{name: value / thinning for name, value in sums.items()}, **transition.record(state, data)}
            return state, {name: kept[name].at[index].set(found[name]) for name in kept}

        shapes = {**none, **jax.eval_shape(transition.record, state, data)}
        empty = {name: jnp.zeros((_BLOCK, *shape.shape), shape.dtype) for name, shape in shapes.items()}
        return jax.lax.fori_loop(0, count, draw, (state, empty))

    if not together:
        return jax.jit(transition.begin), jax.jit(go_on)
    begin = jax.jit(jax.vmap(transition.begin, in_axes=(0, 0, None)))
    return begin, jax.jit(jax.vmap(go_on, in_axes=(0, None, None, None)))


@contextlib.contextmanager
def _one_lapack_thread():
    """One thread per factorisation: JAX takes LAPACK from SciPy, whose wheels have their own OpenBLAS.

    Chains have a thread each. Factorisations that are divided among threads as well wait for all of
    them, which is long beside other work.
    """
    found = (Path(scipy.__file__).parents[1] / "scipy.libs").glob("libscipy_openblas*")
    libraries = [ctypes.CDLL(str(path)) for path in found]
    libraries = [library for library in libraries if hasattr(library, "scipy_openblas_set_num_threads")]
    counts = [library.scipy_openblas_get_num_threads() for library in libraries]
    for library in libraries:
        library.scipy_openblas_set_num_threads(1)
    try:
        yield
    finally:
        for library, count in zip(libraries, counts, strict=True):
            library.scipy_openblas_set_num_threads(count)


@partial(jax.jit, static_argnums=1)
def _raw_keys(key, chains: int):
    """A seed and one key per chain, of one kind that can be written to a file."""
    seed = jax.random.wrap_key_data(jax.random.bits(key, (2,), jnp.uint32), impl="threefry2x32")
    return seed, jax.random.key_data(jax.random.split(seed, chains))


def _chain(every, number: int):
    """A single chain out of a pytree of all."""
    return jax.tree.map(lambda leaf: leaf[number], every)


def _digest(arrays) -> str:
    """A fingerprint of a pytree of arrays."""
    found = hashlib.sha256()
    for leaf in map(jnp.asarray, jax.tree.leaves(arrays)):
        values = np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)
        found.update(f"{values.shape} {values.dtype}\0".encode())
        found.update(np.ascontiguousarray(values).tobytes())
    return found.hexdigest()[:16]
