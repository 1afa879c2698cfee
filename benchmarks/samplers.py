"""Time and effective sizes of the samplers, on hidden Markov chains at T = 0.01 with four chains."""

import jax

import statmech_attention as sma
from benchmarks import problems
from benchmarks.timing import timed

SAMPLERS = {"order parameters": sma.sampling.posterior, "weights": sma.sampling.weights_posterior}
SHORT = 30.0  # seconds; compilation is a small part of what takes longer


def measure(sampler: str, width: float, warmup: int, draws: int) -> list[dict]:
    """Return the row of a sampler at a width: the second call, or the first if that was long."""
    inputs, labels = problems.make("chains", examples=100, heads=(2, 2), features=231)
    problem = sma.Problem(inputs, labels, width=width, temperature=0.01)
    settings = sma.SamplerSettings(warmup=warmup, draws=draws, warn=False, progress=False)
    first, found = timed(lambda: SAMPLERS[sampler](problem, key=jax.random.key(0), settings=settings))
    seconds = first
    if first < SHORT:
        seconds, found = timed(lambda: SAMPLERS[sampler](problem, key=jax.random.key(1), settings=settings))
    effective = float(sma.sampling.effective_size(found["order_parameter"]).min())
    facts = {"effective": effective, "r_hat": float(sma.sampling.r_hat(found["order_parameter"]).max())}
    facts["steps"] = float(found["n_steps"].mean()) if "n_steps" in found else 1.0
    return [{"sampler": sampler, "width": width, "draws": draws, "first": first, "seconds": seconds, **facts}]
