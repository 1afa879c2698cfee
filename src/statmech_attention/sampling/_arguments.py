"""The arguments that the samplers share, checked before anything is compiled."""

from dataclasses import dataclass, replace

from statmech_attention import checks
from statmech_attention.model.architecture import Architecture
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.kernels import inputs_like
from statmech_attention.theory.problem import Problem, need_problem

_LEAST = {"draws": 4, "count": 2, "warmup": 0, "thinning": 1}


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
        progress: show a bar; if None, on a terminal only.
        warn: warn of bad mixing; the result has the text as its attribute `warning` in any case.
    """

    draws: int = 1000
    count: int = 4
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


def checked(problem, test, key) -> tuple[Problem, AttentionedInputs | None]:
    """The problem and test inputs that fit it, or None; widths are not yet looked at."""
    checks.key("key", key)
    problem = need_problem(problem, "width", "temperature")
    return problem, None if test is None else inputs_like("test", test, problem.attentioned)


def whole_widths(architecture: Architecture) -> tuple[int, ...]:
    """The widths of all stages as whole numbers; at infinite width there is nothing to sample."""
    stages = zip(architecture.chain.stages, architecture.stage_widths, strict=True)
    return tuple(checks.whole("values" if stage.inner else "width", width) for stage, width in stages)


def with_warmup(chains: Chains, warmup: int) -> Chains:
    """The settings of a run; `warmup` is the sampler's default."""
    if not isinstance(chains, Chains):
        raise ValueError(f"chains: wanted sma.Chains(draws=.., count=..), got {chains!r}.")
    return chains if chains.warmup is not None else replace(chains, warmup=warmup)
