"""Markov chains side by side, NUTS among them, and the arguments that all samplers share."""

import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import repeat
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc import hmc
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from statmech_attention import checks
from statmech_attention.installed import watched
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.kernels.of_paths import inputs_like
from statmech_attention.theory.problem import Problem, need_problem, new_inputs

_BLOCK = 50  # draws between two looks at the progress bar
_LEAST = {"draws": 4, "chains": 2, "warmup": 0, "thinning": 1}


@dataclass(frozen=True)
class SamplerSettings:
    """Numbers of draws, of Markov chains and of warm-up, and options, for any of the samplers.

    Attributes:
        draws: draws kept per chain, at least 4.
        chains: number of Markov chains, at least 2, so that they can be compared.
        warmup: iterations per chain before the first draw, in which the sampler adapts; if None,
            300 for order parameters and 500 for weights.
        thinning: iterations per draw.
        method: "parallel" for one thread per chain, "vectorized" for all chains in one program,
            "auto" for the first on a CPU and the second elsewhere; the draws are the same up to
            rounding.
        progress: show a bar; if None, on a terminal and in notebooks (unless TQDM_DISABLE is set).
        warn: warn of bad mixing; the result has the text as its attribute `warning` in any case.
    """

    draws: int = 1000
    chains: int = 4
    warmup: int | None = None
    thinning: int = 1
    method: str = "auto"
    progress: bool | None = None
    warn: bool = True

    def __post_init__(self):
        for name, least in _LEAST.items():
            if name != "warmup" or self.warmup is not None:
                checks.whole(name, getattr(self, name), least)
        checks.choice("method", self.method, ("auto", "parallel", "vectorized"))


def checked(problem, test, key, tokens: bool = False) -> tuple[Problem, Any]:
    """The problem and test inputs that fit it, or None; widths are not yet looked at."""
    checks.key("key", key)
    problem = need_problem(problem, "width", "temperature", tokens=tokens)
    if problem.energy is not None and not problem.energy.gaussian:
        raise ValueError("energy: wanted Gaussian noise, given which labels are exact, got another. Sample without it.")
    if test is None:
        return problem, None
    along = problem.along_paths
    return problem, inputs_like("test", test, problem.attentioned) if along else new_inputs(problem, test)


def whole_widths(architecture: Architecture) -> tuple[int, ...]:
    """The widths of all stages as whole numbers; at infinite width there is nothing to sample."""
    stages = zip(architecture.chain.stages, architecture.stage_widths, strict=True)
    return tuple(checks.whole("values" if stage.inner else "width", width) for stage, width in stages)


def with_warmup(settings: SamplerSettings, warmup: int) -> SamplerSettings:
    """The settings of a run; `warmup` is the sampler's default."""
    if not isinstance(settings, SamplerSettings):
        raise ValueError(f"settings: wanted sma.SamplerSettings(draws=.., chains=..), got {settings!r}.")
    return settings if settings.warmup is not None else replace(settings, warmup=warmup)


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
def nuts(potential: Callable, record: Callable, static, *, warmup: int, step_size: float) -> Transition:
    """NUTS for `potential`, minus a log density of (position, data, static).

    Cached, so that it is compiled once. `static` decides shapes.
    """
    initialise, advance = hmc(potential_fn_gen=lambda data: lambda position: potential(position, data, static))

    def begin(key, position, data):
        return initialise(position, warmup, step_size, trajectory_length=None, model_args=(data,), rng_key=key)

    def go_on(state, data):
        state = advance(state, (data,))
        return state, {"steps": state.num_steps, "diverging": state.diverging, "acceptance": state.accept_prob}

    def keep(state, data):
        return {"potential": state.potential_energy, **record(state.z, data, static)}

    return Transition(begin, jax.jit(go_on), keep)


def run(transition: Transition, data: Any, starts: Any, key, settings: SamplerSettings) -> dict[str, np.ndarray]:
    """Run chains from `starts`; return by name arrays `(chains, draws, ..)`.

    With a thread per chain no chain waits for the longest trajectory of the others, and NUTS need
    not copy its whole tree at every step.
    """
    assert settings.warmup is not None  # see `with_warmup`
    together = settings.method == "vectorized" or (settings.method == "auto" and jax.default_backend() != "cpu")
    begin, advance = _compiled(transition, together)
    first = (_keys(key, settings.chains), starts)
    apart = [jax.tree.map(lambda leaf, chain=chain: leaf[chain], first) for chain in range(settings.chains)]
    groups = [first] if together else apart
    # No draws yet: threads that start at once would all compile the same function.
    states = [advance(begin(*group, data), data, 0, 1)[0] for group in groups]
    double = jax.config.read("jax_enable_x64")

    def go_on(state, count, thinning):
        # A context manager that switched to double precision did so for its own thread alone.
        with jax.enable_x64(double):
            state, block = jax.block_until_ready(advance(state, data, count, thinning))
        return state, {name: np.asarray(values if together else values[None]) for name, values in block.items()}

    kept = []
    shown = watched() if settings.progress is None else settings.progress
    bar = tqdm(total=settings.warmup + settings.draws, unit="draw", **({} if shown else {"disable": True}))
    # Chains have a thread each. A factorisation that is divided among threads as well waits for all of them.
    alone = contextlib.nullcontext() if together else threadpool_limits(1, user_api="blas")
    with bar, alone, ThreadPoolExecutor(os.cpu_count()) as pool:
        for what, total, every in (("warm-up", settings.warmup, 1), ("draws", settings.draws, settings.thinning)):
            bar.set_description(what, refresh=False)
            for done in range(0, total, _BLOCK):
                count = min(_BLOCK, total - done)
                advanced = list(pool.map(go_on, states, repeat(count), repeat(every)))
                states, blocks = [state for state, _ in advanced], [block for _, block in advanced]
                if what == "draws":
                    whole = jax.tree.map(lambda *parts: np.concatenate(parts), *blocks)
                    kept.append({name: values[:, :count] for name, values in whole.items()})
                bar.update(count)
    return {name: np.concatenate([block[name] for block in kept], axis=1) for name in kept[0]}


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
            drawn = {**{name: value / thinning for name, value in sums.items()}, **transition.record(state, data)}
            return state, {name: kept[name].at[index].set(drawn[name]) for name in kept}

        shapes = {**none, **jax.eval_shape(transition.record, state, data)}
        empty = {name: jnp.zeros((_BLOCK, *shape.shape), shape.dtype) for name, shape in shapes.items()}
        return jax.lax.fori_loop(0, count, draw, (state, empty))

    if not together:
        return jax.jit(transition.begin), jax.jit(go_on)
    begin = jax.jit(jax.vmap(transition.begin, in_axes=(0, 0, None)))
    return begin, jax.jit(jax.vmap(go_on, in_axes=(0, None, None, None)))


@partial(jax.jit, static_argnums=1)
def _keys(key, chains: int):
    """A key per chain, the same from keys of the new style and the old."""
    seed = jax.random.wrap_key_data(jax.random.bits(key, (2,), jnp.uint32), impl="threefry2x32")
    return jax.random.key_data(jax.random.split(seed, chains))
