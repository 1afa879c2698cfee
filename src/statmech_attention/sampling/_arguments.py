"""The arguments that the samplers have in common, checked before anything is compiled."""

from jaxtyping import Array

from statmech_attention import checks
from statmech_attention.arguments import Whole, Word
from statmech_attention.model.architecture import Architecture
from statmech_attention.model.paths import AttentionedInputs, as_attentioned
from statmech_attention.theory.kernels import check_pair, checked_problem


def checked(
    attentioned, labels, test, *, width, temperature, variance, layers, key
) -> tuple[AttentionedInputs, Array, float, Architecture, AttentionedInputs | None]:
    """Training inputs, labels, temperature, architecture and test inputs or None; widths are not yet looked at."""
    checks.key("key", key)
    inputs, labels, architecture = checked_problem(attentioned, labels, layers, width, variance)
    temperature = checks.positive("temperature", temperature)
    return inputs, labels, temperature, architecture, checked_test(test, inputs)


def checked_test(test, inputs: AttentionedInputs) -> AttentionedInputs | None:
    """Test inputs that fit the training inputs, of the same heads where they are a plain array; None stays None."""
    if test is None:
        return None
    test = as_attentioned("attentioned_test", test, None if isinstance(test, AttentionedInputs) else inputs.layers)
    check_pair(inputs, test, "attentioned_test")
    return test


def whole_widths(architecture: Architecture) -> tuple[int, ...]:
    """The widths of all stages, refused unless they are whole and finite."""
    for width in architecture.widths:
        if not checks.concrete(width) or not checks.is_whole(width, 1):
            raise ValueError(
                f"width: wanted whole numbers of at least 1 to sample, got {width}. At infinite width there is nothing to "
                "sample: use statmech_attention.solve and predict."
            )
    for stage in architecture.chain.stages:
        if stage.inner and not checks.is_whole(stage.kind.inner, 1):
            raise ValueError(
                f"values: wanted a whole head dimension to sample, got {stage.kind.inner} in {stage.kind}. The theory, "
                "statmech_attention.solve, takes any."
            )
    return tuple(int(width) for width in architecture.stage_widths)


def check_chains(
    *, draws: Whole, chains: Whole, warmup: Whole, thinning: Whole = 1, chain_method: Word = "auto"
) -> None:
    """Refuse settings that no sampler can do anything with.

    Args:
        draws: draws a chain that are kept, at least 4.
        chains: chains side by side, at least 2.
        warmup: iterations a chain that are not kept.
        thinning: iterations a draw.
        chain_method: as for `posterior`.

    Raises:
        ValueError: a number that is not whole, or too small; another method.
    """
    least = {"draws": (draws, 4, ""), "chains": (chains, 2, ": R-hat compares chains"), "warmup": (warmup, 0, "")}
    least["thinning"] = (thinning, 1, ": iterations a draw")
    for name, (value, smallest, why) in least.items():
        if not checks.is_whole(value, smallest):
            raise ValueError(f"{name}: wanted a whole number of at least {smallest}{why}, got {value!r}.")
    checks.choice("chain_method", chain_method, ("auto", "parallel", "vectorized"))
