"""Many saddle points at once: `jax.vmap` over draws, widths or temperatures beside a loop over `solve`."""

import jax
import jax.numpy as jnp

import statmech_attention as sma
from benchmarks.timing import twice

OVER = ("draws", "widths", "temperatures")


def measure(over: str, count: int) -> list[dict]:
    """Return the row of a batch of problems of hidden Markov chains."""
    numbers, axes = batch(over, count)
    solve = jax.jit(jax.vmap(lambda *one: sma.solve(problem(*one), throw=False).order_parameter, in_axes=axes))
    together, found = twice(lambda: solve(*numbers))
    singles = [
        [number if axis is None else number[place] for number, axis in zip(numbers, axes, strict=True)]
        for place in range(count)
    ]
    loop, each = twice(lambda: [sma.solve(problem(*one)).order_parameter for one in singles])
    apart = float(jnp.max(jnp.abs(found - jnp.stack(each))))
    return [{"over": over, "count": count, **together, "loop": loop["seconds"], "apart": apart}]


def problem(values, labels, width, temperature) -> sma.Problem:
    """Return a problem with two layers of two heads."""
    return sma.Problem(values, labels, layers=(2, 2), width=width, temperature=temperature)


def batch(over: str, count: int):
    """Return inputs, labels, width and temperature, and which of them have an axis for the batch."""
    keys = jax.random.split(jax.random.key(0), count if over == "draws" else 1)
    trials = [sma.tasks.HiddenMarkov().trial(100, 1, key=key) for key in keys]
    values = jnp.stack([trial.train.values for trial in trials])
    labels = jnp.stack([trial.labels for trial in trials]).astype(float)
    if over == "draws":
        return (values, labels, 10.0, 0.01), (0, 0, None, None)
    if over == "widths":
        return (values[0], labels[0], jnp.geomspace(10, 1000, count), 0.01), (None, None, 0, None)
    return (values[0], labels[0], 10.0, jnp.geomspace(0.01, 1, count)), (None, None, None, 0)
