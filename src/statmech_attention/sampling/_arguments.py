"""The arguments that the samplers have in common, checked before anything is compiled."""

from typing import NamedTuple

from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.model.architecture import Architecture
from statmech_attention.model.paths import AttentionedInputs, as_attentioned
from statmech_attention.theory.kernels import check_pair


class Problem(NamedTuple):
    """Training inputs, labels, temperature, the architecture, and test inputs or None."""

    inputs: AttentionedInputs
    labels: Float[Array, "examples *outputs"]
    temperature: float
    layout: Architecture
    test: AttentionedInputs | None


def problem(attentioned, labels, test, *, width, temperature, variance, heads) -> Problem:
    """What the public functions take, as `Problem`; widths are not yet looked at."""
    inputs = as_attentioned("attentioned", attentioned, heads)
    labels = checks.labels(labels, inputs.values.shape[0], axes=inputs.chain.readout.axes)
    temperature = checks.positive("temperature", temperature)
    layout = Architecture.of(inputs.heads, width, variance)
    return Problem(inputs, labels, temperature, layout, test_inputs(test, inputs))


def test_inputs(test, inputs: AttentionedInputs) -> AttentionedInputs | None:
    """Test inputs that fit the training inputs, of the same heads where they are a plain array; None stays None."""
    if test is None:
        return None
    test = as_attentioned("test", test, None if isinstance(test, AttentionedInputs) else inputs.heads)
    check_pair(inputs, test, "test")
    return test
