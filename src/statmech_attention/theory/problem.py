"""The problem: labelled examples seen along attention paths, and the network that learns them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.layers.chains import Layers
from statmech_attention.model.architecture import Architecture
from statmech_attention.model.paths import AttentionedInputs, as_attentioned, attentioned_inputs
from statmech_attention.model.reading import attention_from_transformers
from statmech_attention.theory.kernels import triangulated

_NAMES = ("attentioned", "labels", "width", "temperature", "variance")
_EXAMPLES = {"width": "30", "temperature": "0.1"}


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Problem:
    r"""Labels $Y$ to be learned from attentioned inputs $\xi^\pi$, and the network that learns them.

    All arguments are checked here, once. A problem is a pytree: `jax.vmap` maps over a batch of
    problems, `jax.grad` differentiates in all numbers. Its attributes are its arguments, checked,
    with a width and a variance per layer.

    Examples can be rotated, $Q^\top \xi$ and $Q^\top Y$ with an orthogonal $Q$, and nothing that the
    theory says changes. So a *reduced* problem, `reduce()`, has as many rows as there are (path,
    feature), and one more per output, for any number of examples. Problems add, exactly:
    `problem + other` is the problem of both sets of examples, reduced if it has more rows than
    that.

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
    count: Any  # number of examples that the rows of a reduced problem stand for; None if every row is an example

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
        checks.passed(self)

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
    def examples(self) -> Any:
        """$P$, the number of examples, which a reduced problem has more of than rows."""
        if self.count is None:
            return self.labels.shape[0]
        return int(self.count) if checks.concrete(self.count) else self.count

    @property
    def beyond(self) -> Any:
        """Number of labels that a reduced problem has rotated away, to where there is neither kernel nor label."""
        return (self.examples - self.labels.shape[0]) * self.attentioned.chain.outputs

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
            ValueError: as `Problem`; an unknown name; other labels, or inputs of other rows, in a
                reduced problem.
        """
        if unknown := set(changes) - {*_NAMES, "layers"}:
            raise ValueError(f"replace: wanted some of {', '.join(_NAMES)}, got {', '.join(sorted(unknown))}.")
        given = {name: getattr(self, name) for name in _NAMES}
        changed = Problem(**(given | changes))
        if self.count is not None:
            if "labels" in changes or changed.labels.shape != self.labels.shape:
                raise ValueError("replace: wanted the rows of a reduced problem as they are. Reduce the new examples.")
            return changed.standing_for(self.count)
        return changed

    def reduce(self) -> "Problem":
        """The same problem with a row for every (path, feature) and output, if it has more.

        Energies, order parameters, evidence, samples and predictions stay what they are but for
        rounding. Rows are mixtures of examples, and their labels are no classes any more.
        """
        return self._sum(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write to a netCDF file ending in `.nc`, whole or not at all; return the path.

        Raises:
            ValueError: inside a JAX transformation; another ending.
            OSError: it cannot be written, as on a full disk.
        """
        from statmech_attention.theory.records import save_problem

        return save_problem(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Problem":
        """Read the file that `save` wrote.

        Raises:
            FileNotFoundError: no such file.
            ValueError: a damaged file, or one of something else.
        """
        from statmech_attention.theory.records import load_problem

        return load_problem(path)

    def __add__(self, other: "Problem") -> "Problem":
        """The problem of both sets of examples; layers, widths, temperature and prior variances must agree.

        It is reduced if it has more rows than (path, feature) and outputs.
        """
        if not isinstance(other, Problem):
            return NotImplemented
        for name in ("layers", *_NAMES[2:]):
            mine, theirs = getattr(self, name), getattr(other, name)
            if checks.concrete(*jax.tree.leaves((mine, theirs))) and mine != theirs:
                raise ValueError(f"{name}: wanted the same in both problems, got {mine} and {theirs}.")
        checks.same("sum of problems", "features", self._features, "features", other._features)
        return self._sum(self, other)

    def __radd__(self, other) -> "Problem":
        """For `sum`, which begins with 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def _sum(self, *problems: "Problem") -> "Problem":
        """The problem of all their examples, with the layers and numbers of this one."""
        parts = [(one.attentioned.values, one.labels) for one in problems]
        paths, features, axes = *parts[0][0].shape[1:], self.labels.shape[1:]
        many = sum(len(labels) for _, labels in parts) > paths * features + self.attentioned.chain.outputs
        reduced = many and checks.concrete(*jax.tree.leaves(parts))
        count = sum(one.examples for one in problems)
        if reduced:
            triangle = triangulated(parts)
            inputs, outputs = np.split(triangle, [paths * features], axis=1)
            values = jnp.asarray(inputs.reshape(-1, paths, features))
            labels = jnp.asarray(outputs.reshape(-1, *axes))
        else:
            values, labels = (jnp.concatenate(each) for each in zip(*parts, strict=True))
            reduced = any(one.count is not None for one in problems)
        joined, numbers = AttentionedInputs(values, self.layers), (self.width, self.temperature, self.variance)
        found = Problem.tree_unflatten(None, (joined, labels, *numbers))
        return found.standing_for(count) if reduced else found

    def standing_for(self, count) -> "Problem":
        """The reduced problem of `count` examples that has these rows."""
        # A leaf of the pytree like the temperature, which can be differentiated in.
        count = float(checks.whole("count", count, len(self.labels))) if checks.concrete(count) else count
        return Problem.tree_unflatten(None, (*(getattr(self, name) for name in _NAMES), count))

    def __repr__(self) -> str:
        inputs, known = self.attentioned, checks.concrete(*jax.tree.leaves(self))
        what = f"layers={inputs.layers}, {self._examples_text} of {self._features} features"
        if not known:
            return f"Problem({what}, traced)"
        return f"Problem({what}, width={self.width}, temperature={self.temperature}, variance={self.variance})"

    def tree_flatten(self):
        return (*(getattr(self, name) for name in _NAMES), self.count), None

    @classmethod
    def tree_unflatten(cls, _, parts) -> "Problem":
        problem = object.__new__(cls)
        problem._set(*parts)
        return problem

    @property
    def _features(self) -> int:
        return self.attentioned.values.shape[-1]

    @property
    def _examples_text(self) -> str:
        rows = self.attentioned.values.shape[-3]
        if self.count is None:
            return f"{rows} examples"
        return f"{self.examples if checks.concrete(self.count) else 'traced'} examples in {rows} rows"

    def _set(self, attentioned, labels, width, temperature, variance, count=None) -> None:
        parts = attentioned, labels, width, temperature, variance, count
        for name, part in zip((*_NAMES, "count"), parts, strict=True):
            object.__setattr__(self, name, part)


def need_problem(value, *numbers: str) -> Problem:
    """Return `value`, or the problem of a `Solution`; refuse a problem without these numbers."""
    checks.record("problem", value, value.replace if isinstance(value, Problem) else None)
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


def need_examples(value, what: str) -> Problem:
    """Return the problem; refuse a reduced one, on behalf of `what`, which needs the examples themselves."""
    problem = need_problem(value)
    if problem.count is not None:
        raise ValueError(
            f"problem: wanted single examples for {what}, got the rows of a reduced problem, which are mixtures of "
            "them. Give a Problem of the examples."
        )
    return problem
