"""The problem: labelled examples seen along attention paths, and the network that learns them."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.layers.chains import Layers
from statmech_attention.model.architecture import Architecture
from statmech_attention.model.paths import AttentionedInputs, as_attentioned
from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.descent.labels import Labels
from statmech_attention.theory.kernels.of_paths import kernel_scale
from statmech_attention.theory.kernels.of_tokens import check_alike
from statmech_attention.theory.kernels.projected import ProjectedInputs
from statmech_attention.theory.kernels.rotations import padded, triangulated

LARGEST_LABELS = 300.0  # |Y|^2 over tr(K + T): up to 90 renumbered heads never changed a solve, from 500 they did
_NAMES = ("attentioned", "labels", "width", "temperature", "variance", "energy")
_FIELDS = (*_NAMES, "count")
_EXAMPLES = {"width": "30", "temperature": "0.1"}


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Problem:
    r"""Labels $Y$ to be learned from attentioned inputs $\xi^\pi$, and the network that learns them.

    `variance` are prior variances of the weights; the variance of the labels' noise is `temperature`.
    A prediction's `variance` is that of the output, without this noise.

    All arguments are checked here, once. A problem is a pytree: `jax.vmap` maps over a batch of
    problems, `jax.grad` differentiates in all numbers. Its attributes are its arguments, checked,
    with a width and a variance per layer.

    Examples can be rotated, $Q^\top \xi$ and $Q^\top Y$ with an orthogonal $Q$, and nothing that the
    theory says changes. So a *reduced* problem, `reduce()`, has as many rows as there are (path,
    feature), and one more per output, for any number of examples. Problems add, exactly:
    `problem + other` is the problem of both sets of examples, reduced if it has more rows than
    that.

    Labels and inputs are meant to have sizes that fit: $|Y|^2$ of the order of
    $\mathrm{tr} (K + T)$ with the kernel of the prior, as for labels +-1 and features of order one.
    Where it is 300 times as large, the action has many minima, and `solve` and `minima` warn.

    Args:
        attentioned: training inputs, `AttentionedInputs`, or an array `(examples, paths, features)`
            with `layers`; or `TokenInputs` or `ProjectedInputs`, whose paths are not counted.
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
        energy: what labels are, if not outputs with noise of one variance: `WeightedLabels`, `LogisticLabels`, or
            one of your own, see `theory.descent.labels`. Its rows cannot be rotated, so that nothing is reduced.
    """

    attentioned: Any  # AttentionedInputs, or inputs without paths, which `need_problem` refuses where paths are needed
    labels: Float[Array, "..."]
    width: tuple[float, ...]  # None where it was left out, and so the temperature; `need_problem` refuses that
    temperature: float
    variance: tuple[float, ...]
    energy: Any  # None, or what labels are given a kernel
    count: Any  # number of examples that the rows of a reduced or padded problem stand for; None if each is one

    def __init__(
        self,
        attentioned: AttentionedInputs | TokenInputs | ProjectedInputs | ArrayLike,
        labels: ArrayLike,
        *,
        width: ArrayLike | Sequence[ArrayLike] | None = None,
        temperature: ArrayLike | None = None,
        variance: ArrayLike | Sequence[ArrayLike] = 1.0,
        layers: Layers | None = None,
        energy: Labels | None = None,
    ):
        inputs: Any = attentioned
        if not isinstance(attentioned, (TokenInputs, ProjectedInputs)):
            inputs = as_attentioned("attentioned", attentioned, layers)
        elif layers is not None:
            raise ValueError(f"layers: the tokens already have layers {attentioned.layers}. Leave layers out.")
        labels = checks.labels(labels, len(inputs), axes=inputs.chain.readout.axes)
        architecture = Architecture.of(inputs.layers, 1.0 if width is None else width, variance)
        if isinstance(inputs, ProjectedInputs):
            inputs.projection.check_variances(architecture.variances)
        if temperature is not None:
            temperature = checks.positive("temperature", temperature)
        widths = None if width is None else architecture.widths
        numbers = {"width": widths, "temperature": temperature, "variance": architecture.variances, "count": None}
        if energy is not None and not hasattr(energy, "checked"):
            raise ValueError(f"energy: wanted WeightedLabels, LogisticLabels or one like them, got {energy!r:.40}.")
        numbers["energy"] = None if energy is None else energy.checked(labels)
        vars(self).update(attentioned=inputs, labels=labels, **numbers)

    @property
    def examples(self) -> "int | Float[Array, '*batch']":
        """$P$, the number of examples: more than the rows of a reduced problem, fewer than those of a padded one."""
        if self.count is None:
            return self.labels.shape[-1 - len(self.attentioned.chain.readout.axes)]
        return int(self.count) if checks.concrete(self.count) and np.ndim(self.count) == 0 else self.count

    @property
    def along_paths(self) -> bool:
        """True if paths are counted."""
        return isinstance(self.attentioned, AttentionedInputs)

    @property
    def projected(self) -> bool:
        """True if inputs are seen by a projected network."""
        return isinstance(self.attentioned, ProjectedInputs)

    @property
    def layers(self) -> tuple:
        """The layers, as in `(2, SkipHeads(2), Outputs(3))`."""
        return self.attentioned.layers

    @property
    def architecture(self) -> Architecture:
        """Layers, widths and prior variances; a missing width is refused."""
        return Architecture(self.layers, need_problem(self, "width", tokens=True).width, self.variance)

    def replace(self, **changes) -> "Problem":
        """The same problem with other arguments of `Problem`, by name, checked; a reduced one keeps its rows."""
        changed = Problem(**({name: getattr(self, name) for name in _NAMES} | changes))
        if self.count is not None and ("labels" in changes or changed.labels.shape != self.labels.shape):
            raise ValueError("replace: wanted the rows of a reduced problem as they are. Reduce the new examples.")
        return changed.unchecked(count=self.count)

    def unchecked(self, **changes) -> "Problem":
        """The same problem with other attributes, whatever they are."""
        problem = object.__new__(Problem)
        vars(problem).update(vars(self) | changes)
        return problem

    def reduce(self) -> "Problem":
        """The same problem with a row for every (path, feature) and output, if it has more.

        Of a projected network a row for every (component, feature), and the mean of what is left out for all rows.
        Energies, order parameters, evidence, samples and predictions stay what they are but for
        rounding. Rows are mixtures of examples, and their labels are no classes any more.
        """
        need_problem(self, tokens=self.projected)
        return self if self.energy is not None else _sum(self)

    def padded(self) -> "Problem":
        """The same problem with rows of zeros, which change nothing, up to one of few sizes.

        Another number of examples then compiles nothing, since $P$ is a number like any other.
        """
        values, labels = self.attentioned.values, self.labels
        if self.energy is not None or not checks.concrete(values, labels) or (rows := padded(labels)) is labels:
            return self
        inputs = AttentionedInputs(padded(values), self.layers)
        return self.unchecked(attentioned=inputs, labels=rows, count=1.0 * self.examples)

    def __add__(self, other: "Problem") -> "Problem":
        """The problem of both sets of examples; layers, widths, temperature and prior variances must agree.

        It is reduced if it has more rows than (path, feature) and outputs.
        """
        if not isinstance(other, Problem):
            return NotImplemented
        for problem in (self, other):
            need_problem(problem, tokens=problem.projected)
        if self.energy is not None or other.energy is not None:
            raise ValueError("energy: wanted noise of one variance in both problems, whose rows can be rotated.")
        for name in ("layers", *_NAMES[2:-1]):
            mine, theirs = getattr(self, name), getattr(other, name)
            if checks.concrete(*jax.tree.leaves((mine, theirs))) and mine != theirs:
                raise ValueError(f"{name}: wanted the same in both problems, got {mine} and {theirs}.")
        if self.projected != other.projected:
            raise ValueError("sum of problems: wanted both seen by the same projection, or none.")
        checks.same("sum of problems", "features", self._features, "features", other._features)
        if self.projected and not self.attentioned.projection.agrees(other.attentioned.projection):
            raise ValueError("sum of problems: wanted both seen by the same projection, got two.")
        return _sum(self, other)

    def __radd__(self, other) -> "Problem":
        """For `sum`, which begins with 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __repr__(self) -> str:
        rows = "" if self.count is None else f" in {len(self.labels)} rows"
        what = f"layers={self.layers}, {self.examples} examples{rows} of {self._features} features"
        return f"Problem({what}, width={self.width}, temperature={self.temperature}, variance={self.variance})"

    @property
    def _features(self) -> int:
        if self.projected:
            return self.attentioned.projection.features
        return (self.attentioned.values if self.along_paths else self.attentioned.tokens).shape[-1]

    def __setstate__(self, state) -> None:
        checks.need_double("unpickling", np.zeros(()))  # else JAX has made float32 of all arrays
        self.__dict__.update(state)

    def tree_flatten(self):
        return tuple(getattr(self, name) for name in _FIELDS), None

    @classmethod
    def tree_unflatten(cls, _, parts) -> "Problem":
        return object.__new__(cls).unchecked(**dict(zip(_FIELDS, parts, strict=True)))


def _sum(*problems: Problem) -> Problem:
    """The problem of all their examples, with the layers and numbers of the first one."""
    first = problems[0]
    parts = [(problem.attentioned.values, problem.labels) for problem in problems]
    shape = parts[0][0].shape[1:]
    many = sum(len(labels) for _, labels in parts) > math.prod(shape) + first.attentioned.chain.outputs
    reduced = many and checks.concrete(*jax.tree.leaves(parts))
    if reduced:
        inputs, outputs = np.split(triangulated(parts), [math.prod(shape)], axis=1)
        values = jnp.asarray(inputs.reshape(-1, *shape))
        labels = jnp.asarray(outputs.reshape(-1, *first.labels.shape[1:]))
    else:
        values, labels = (jnp.concatenate(each) for each in zip(*parts, strict=True))
    mixed = reduced or any(problem.count is not None for problem in problems)
    whole = first.unchecked(attentioned=_inputs_of_sum(problems, values, mixed), labels=labels)
    if mixed:
        # 1.0, since a leaf of the pytree is differentiated like the temperature.
        return whole.unchecked(count=1.0 * sum(problem.examples for problem in problems))
    return whole


def _inputs_of_sum(problems: Sequence[Problem], values, mixed: bool) -> Any:
    """These rows as inputs; what a projection leaves out of mixed rows is its mean over the examples."""
    each = [problem.attentioned for problem in problems]
    first = each[0]
    if isinstance(first, AttentionedInputs):
        return AttentionedInputs(values, first.layers)
    if not mixed:
        return ProjectedInputs(first.projection, values, jnp.concatenate([inputs.own for inputs in each]))
    counts = np.array([float(problem.examples) for problem in problems])
    means = jnp.stack([jnp.mean(inputs.rest) for inputs in each])
    return ProjectedInputs(first.projection, values, counts @ means / counts.sum())


def new_inputs(problem: Problem, test) -> Any:
    """Test inputs of a problem without paths, checked; a projection sees them first."""
    inputs = problem.attentioned
    if not problem.projected:
        check_alike(inputs, test, "test")
        return test
    test = test if isinstance(test, ProjectedInputs) else inputs.projection(test)
    if not test.projection.agrees(inputs.projection):
        raise ValueError("test: wanted inputs seen by the projection of the training inputs, got another.")
    return test.single


def need_problem(value, *numbers: str, tokens: bool = False) -> Problem:
    """Validate a problem that has these numbers, and paths unless `tokens` will do."""
    if not isinstance(value, Problem):
        what = type(value).__name__
        raise ValueError(f"problem: wanted a Problem, got {what}. Write sma.Problem(attentioned, labels, width=..).")
    if isinstance(value.attentioned, (TokenInputs, ProjectedInputs)) and not tokens:
        raise ValueError(
            "attentioned: wanted attentioned_inputs for what needs single paths, got tokens. Make them from the same "
            "arguments."
        )
    for name in numbers:
        if getattr(value, name) is None:
            raise ValueError(f"{name}: not set in this problem. Write problem.replace({name}={_EXAMPLES[name]}).")
    return value


def warn_of_large_labels(problem: Problem) -> None:
    r"""Warn along paths where $|Y|^2$ is far above $\mathrm{tr} (K + T)$ at the prior; traced problems pass."""
    known = (problem.attentioned.values, problem.labels, problem.temperature, problem.count, *problem.variance)
    if not checks.concrete(*known) or np.ndim(problem.temperature):
        return
    inputs = problem.attentioned
    chain, prior = inputs.chain, np.array([problem.variance[-1]])
    for layer, variance in zip(reversed(chain.layers), reversed(problem.variance[1:-1]), strict=True):
        prior = np.kron(np.sum(layer.mixing(variance**0.5) ** 2, axis=1), prior)
    squares = np.sum(np.asarray(inputs.values) ** 2, axis=(0, 2)) @ (chain.path_gains**2 * prior)
    warn_of_labels(problem, float(kernel_scale(inputs, problem.variance) * squares))


def warn_of_labels(problem: Problem, trace: float) -> None:
    r"""Warn where $|Y|^2$ is far above $\mathrm{tr} (K + T)$, given $\mathrm{tr} K$ of one output."""
    outputs = problem.attentioned.chain.outputs
    ratio = np.sum(np.asarray(problem.labels) ** 2) / (outputs * (trace + problem.examples * problem.temperature))
    if ratio > LARGEST_LABELS:
        warnings.warn(
            f"labels: wanted |Y|^2 of the order of tr(K + T), got {ratio:.0f} times as much, where the action has many "
            "minima. Scale the inputs up or the labels down.",
            UserWarning,
            stacklevel=3,
        )


def need_examples(value, what: str) -> Problem:
    """Validate a problem for `what`, which needs the examples themselves."""
    if need_problem(value, tokens=True).count is not None:
        raise ValueError(f"problem: wanted single examples for {what}, got a reduced problem, whose rows are mixtures.")
    return value
