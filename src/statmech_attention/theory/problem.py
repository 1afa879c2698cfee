"""The problem: labelled examples seen along attention paths, and the network that learns them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.layers.chains import Layers
from statmech_attention.model.architecture import Architecture
from statmech_attention.model.paths import AttentionedInputs, as_attentioned, attentioned_inputs
from statmech_attention.model.reading import attention_from_transformers

_NAMES = ("attentioned", "labels", "width", "temperature", "variance")
_EXAMPLES = {"width": "30", "temperature": "0.1"}


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Problem:
    r"""Labels $Y$ to be learned from attentioned inputs $\xi^\pi$, and the network that learns them.

    All arguments are checked here, once. A problem is a pytree: `jax.vmap` maps over a batch of
    problems, `jax.grad` differentiates in all numbers. Its attributes are its arguments, checked,
    with a width and a variance per layer.

    Args:
        attentioned: training inputs, `AttentionedInputs`, or an array `(examples, paths, features)`
            with `layers`.
        labels: $Y$, `(examples,)`, or `(examples, outputs)`; +-1 for classification, any numbers
            for regression.
        width: $N$ or $(N_1, .., N_{L+1})$; infinity is the Gaussian-process limit, in which only
            order parameters within heads of a finite value dimension move. May be left out if no
            function needs it.
        temperature: $T > 0$, in units of a squared label. May be left out if no function needs it.
        variance: $\sigma^2$ or $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$, prior
            variances of the weights.
        layers: only for plain arrays, $(H_1, .., H_L)$, or layers of other kinds among them, as in
            `(2, SkipHeads(2))`.

    Raises:
        ValueError: wrong shapes, NaN or infinity, $T \le 0$, $N \le 0$, float32.
    """

    attentioned: AttentionedInputs
    labels: Float[Array, "..."]
    width: Any
    temperature: Any
    variance: tuple

    def __init__(
        self,
        attentioned: AttentionedInputs | ArrayLike,
        labels: ArrayLike,
        *,
        width: ArrayLike | Sequence[ArrayLike] | None = None,
        temperature: ArrayLike | None = None,
        variance: ArrayLike | Sequence[ArrayLike] = 1.0,
        layers: Layers | None = None,
    ):
        inputs = as_attentioned("attentioned", attentioned, layers)
        labels = checks.labels(labels, inputs.values.shape[0], axes=inputs.chain.readout.axes)
        architecture = Architecture.of(inputs.layers, 1.0 if width is None else width, variance)
        if temperature is not None:
            temperature = checks.positive("temperature", temperature)
        widths = None if width is None else architecture.widths
        self._set(inputs, labels, widths, temperature, architecture.variances)

    @classmethod
    def from_transformers(
        cls,
        model: Any,
        batch: Mapping[str, Any],
        labels: ArrayLike,
        *,
        layers: Sequence[int] | None = None,
        readout: str | int = "first",
        **numbers: Any,
    ) -> "Problem":
        """The problem of labelled texts, seen along the attention of a model of Hugging Face's transformers.

        It is `Problem(attentioned_inputs(attention_from_transformers(model, **batch)), labels)`. A
        large set goes batch by batch, and problems add: their paddings may differ.

        Args:
            model: as in `attention_from_transformers`.
            batch: what the tokeniser returns, padded, with its mask.
            labels: as in `Problem`, one per text.
            layers: indices of the model's layers, as layers of the network, whose paths go through
                one head of each; if None, the heads of all layers stand side by side in one layer.
            readout: as in `attentioned_inputs`; "last" or "mean" for a causal model, whose first
                token sees itself alone.
            numbers: width, temperature and variance, as in `Problem`.

        Raises:
            ValueError: as `attention_from_transformers`, `attentioned_inputs` and `Problem`.
        """
        read = attention_from_transformers(model, layers=layers, **checks.mapping("batch", batch))
        read = read.flat if layers is None else read
        return cls(attentioned_inputs(read, readout=readout), labels, **numbers)

    @property
    def layers(self) -> tuple:
        """The layers, as in `(2, SkipHeads(2), Outputs(3))`."""
        return self.attentioned.layers

    @property
    def architecture(self) -> Architecture:
        """Layers, widths and prior variances; a missing width is refused."""
        return Architecture(self.layers, need_problem(self, "width").width, self.variance)

    def replace(self, **changes) -> "Problem":
        """The same problem with other arguments of `Problem`, by name, checked again.

        Raises:
            ValueError: as `Problem`; an unknown name.
        """
        if unknown := set(changes) - {*_NAMES, "layers"}:
            raise ValueError(f"replace: wanted some of {', '.join(_NAMES)}, got {', '.join(sorted(unknown))}.")
        given = {name: getattr(self, name) for name in _NAMES}
        return Problem(**(given | changes))

    def __add__(self, other: "Problem") -> "Problem":
        """The problem of both sets of examples; layers, widths, temperature and prior variances must agree."""
        if not isinstance(other, Problem):
            return NotImplemented
        for name in ("layers", *_NAMES[2:]):
            mine, theirs = getattr(self, name), getattr(other, name)
            if checks.concrete(*jax.tree.leaves((mine, theirs))) and mine != theirs:
                raise ValueError(f"{name}: wanted the same in both problems, got {mine} and {theirs}.")
        checks.same("sum of problems", "features", self._features, "features", other._features)
        values = jnp.concatenate([self.attentioned.values, other.attentioned.values])
        joined = AttentionedInputs(values, self.layers)
        labels = jnp.concatenate([self.labels, other.labels])
        return Problem.tree_unflatten(None, (joined, labels, self.width, self.temperature, self.variance))

    def __repr__(self) -> str:
        inputs, known = self.attentioned, checks.concrete(*jax.tree.leaves(self))
        what = f"layers={inputs.layers}, {inputs.values.shape[-3]} examples of {self._features} features"
        if not known:
            return f"Problem({what}, traced)"
        return f"Problem({what}, width={self.width}, temperature={self.temperature}, variance={self.variance})"

    def tree_flatten(self):
        return tuple(getattr(self, name) for name in _NAMES), None

    @classmethod
    def tree_unflatten(cls, _, parts) -> "Problem":
        problem = object.__new__(cls)
        problem._set(*parts)
        return problem

    @property
    def _features(self) -> int:
        return self.attentioned.values.shape[-1]

    def _set(self, *parts) -> None:
        for name, part in zip(_NAMES, parts, strict=True):
            object.__setattr__(self, name, part)


def need_problem(value, *numbers: str) -> Problem:
    """Return `value`, or the problem of a `Solution`; refuse a problem without these numbers."""
    problem = getattr(value, "problem", value)
    if not isinstance(problem, Problem):
        raise ValueError(
            f"problem: wanted a Problem, got {type(value).__name__}. "
            "Write sma.Problem(attentioned, labels, width=.., temperature=..)."
        )
    for name in numbers:
        if getattr(problem, name) is None:
            raise ValueError(f"{name}: not set in this problem. Write problem.replace({name}={_EXAMPLES[name]}).")
    return problem
