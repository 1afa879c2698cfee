"""The arguments that the samplers share, checked before anything is compiled."""

import os
from dataclasses import dataclass, replace
from typing import Any

from statmech_attention import checks
from statmech_attention.model.architecture import Architecture
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.kernels import inputs_like
from statmech_attention.theory.problem import Problem, need_problem

_LEAST = {
    "count": (2, ": R-hat compares chains"),
    "draws": (4, ""),
    "warmup": (0, ""),
    "thinning": (1, ": iterations per draw"),
}


@dataclass(frozen=True)
class Chains:
    """Markov chains to run side by side, for any of the samplers.

    Attributes:
        draws: draws kept per chain, at least 4.
        count: number of chains, at least 2, so that they can be compared.
        warmup: iterations per chain before the first draw, in which the sampler adapts; if None,
            300 for order parameters and 500 for weights.
        thinning: iterations per draw.
        method: "parallel" for one thread per chain, "vectorized" for all chains in one program,
            "auto" for the first on a CPU and the second elsewhere; the draws are the same up to
            rounding.
        checkpoint: a file for the state after every block of draws. Sampling resumes from it, also
            for more draws, with the result of an uninterrupted run.
        progress: show a bar; if None, on a terminal only.
        warn: warn of bad mixing; the result has the text as its attribute `warning` in any case.
    """

    draws: int = 1000
    count: int = 4
    warmup: int | None = None
    thinning: int = 1
    method: str = "auto"
    checkpoint: str | os.PathLike | None = None
    progress: bool | None = None
    warn: bool = True

    def __post_init__(self):
        for name, (least, why) in _LEAST.items():
            value = getattr(self, name)
            if not checks.is_whole(value, least) and not (name == "warmup" and value is None):
                raise ValueError(f"{name}: wanted a whole number of at least {least}{why}, got {value!r}.")
        checks.choice("method", self.method, ("auto", "parallel", "vectorized"))
        if self.checkpoint is not None:
            checks.path("checkpoint", self.checkpoint)
        for name in ("progress", "warn"):
            if getattr(self, name) is not None or name == "warn":
                checks.flag(name, getattr(self, name))


def checked(problem, test, key) -> tuple[Problem, AttentionedInputs | None]:
    """The problem and test inputs that fit it, or None; widths are not yet looked at."""
    checks.key("key", key)
    problem = need_problem(problem, "width", "temperature")
    return problem, None if test is None else inputs_like("test", test, problem.attentioned)


def whole_widths(architecture: Architecture) -> tuple[int, ...]:
    """The widths of all stages, refused unless they are whole and finite."""
    for width in architecture.widths:
        if not checks.concrete(width) or not checks.is_whole(width, 1):
            raise ValueError(
                f"width: wanted whole numbers of at least 1 to sample, got {width}. At infinite width there "
                "is nothing to sample: use statmech_attention.solve and predict."
            )
    for stage in architecture.chain.stages:
        if stage.inner and not checks.is_whole(stage.kind.inner, 1):
            raise ValueError(
                f"values: wanted a whole head dimension to sample, got {stage.kind.inner} in {stage.kind}. The theory, "
                "statmech_attention.solve, takes any."
            )
    return tuple(int(width) for width in architecture.stage_widths)


def run_options(chains: Any, warmup: int) -> dict[str, Any]:
    """The settings of a run; `warmup` is the sampler's own number, for `Chains` without one."""
    if not isinstance(chains, Chains):
        raise ValueError(f"chains: wanted sma.Chains(draws=.., count=..), got {chains!r}.")
    chains = chains if chains.warmup is not None else replace(chains, warmup=warmup)
    names = ("draws", "warmup", "thinning", "checkpoint", "progress")
    return {name: getattr(chains, name) for name in names} | {"chain_method": chains.method}
