"""Many saddle points at once: `jax.vmap` over draws, widths or temperatures beside a loop over `solve`."""

import jax
import jax.numpy as jnp

import statmech_attention as sma
from benchmarks.timing import twice

OVER = ("draws", "widths", "temperatures")
LAYERS = (2, 2)


def measure(over: str, count: int) -> list[dict]:
    """Return the row of a batch of problems of hidden Markov chains."""
    one, axis = problems(over, count)
    solve = jax.jit(jax.vmap(lambda *at: sma.solve(one(*at), throw=False).order_parameter))
    together, found = twice(lambda: solve(*axis))
    loop, each = twice(lambda: [sma.solve(one(*at)).order_parameter for at in zip(*axis, strict=True)])
    apart = float(jnp.max(jnp.abs(found - jnp.stack(each))))
    return [{"over": over, "count": count, **together, "loop": loop["seconds"], "apart": apart}]


def problems(over: str, count: int):
    """Return a function that makes one problem, and its arguments for all, one array each."""
    number = count if over == "draws" else 1
    task = sma.tasks.HiddenMarkov()
    trials = [task.trial(key, 100, 1) for key in jax.random.split(jax.random.key(0), number)]
    values = jnp.stack([trial.train.values for trial in trials])
    labels = jnp.stack([trial.labels for trial in trials]).astype(float)

    def problem(values, labels, width=10.0, temperature=0.01):
        return sma.Problem(values, labels, layers=LAYERS, width=width, temperature=temperature)

    if over == "draws":
        return problem, (values, labels)
    if over == "widths":
        return lambda width: problem(values[0], labels[0], width=width), (jnp.geomspace(10, 1000, count),)
    return lambda T: problem(values[0], labels[0], temperature=T), (jnp.geomspace(0.01, 1, count),)
