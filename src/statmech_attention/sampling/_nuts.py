"""NumPyro's No-U-Turn Sampler as a chain."""

from collections.abc import Callable
from functools import lru_cache

import jax
from numpyro.infer.hmc import hmc

from statmech_attention.sampling._chains import Transition


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
    """The chain; the same one for the same arguments, so that it is compiled once.

    Args:
        potential: (position, data, static) -> minus the log density up to a constant.
        record: (position, data, static) -> a dictionary of the arrays to keep of a draw.
        static: whatever decides shapes; hashable.
        warmup: iterations in which step size and masses adapt.
        step_size: where the step size starts from.
        acceptance: the mean acceptance that the step size aims for.
        depth: doublings of a trajectory before it is cut off, in warm-up and after it.
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
