"""The theory at finite width without paths: solutions for networks of any number of them, on tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.model.architecture import Architecture, variances
from statmech_attention.theory.directions import (
    Numbers,
    Point,
    carried,
    descend,
    excess_action,
    lowest,
    prior_point,
)
from statmech_attention.theory.features import Features, Ranked, ranked_features
from statmech_attention.theory.regression import Prediction, Regression
from statmech_attention.theory.starts import NARROWER
from statmech_attention.theory.token_prediction import Descent, new_kernels
from statmech_attention.theory.token_rows import TokenRows, infinite_width

_FEWEST = 16  # features of every level at first


class NotSettled(RuntimeError):
    """Raised when more directions still change predictions; `solution` has the last ones."""

    def __init__(self, message: str, solution: "TokenSolution"):
        super().__init__(message)
        self.solution = solution


@dataclass(frozen=True, eq=False, repr=False)
class TokenSolution:
    r"""The minimum of the action (11) in so many directions of every level, from `solve_without_paths`.

    Attributes:
        rows, labels, architecture, temperature: the problem.
        directions: number of features of every level, fewer where a level has no more.
        action: $S - S_0$, with the smallest entropy $S_0$: what `solve` finds for the same network
            beyond that of the prior.
        gradient_norm: its largest gradient entry.
        change: by how much the last doubling of the directions changed predictions of left-out
            examples, relative to their size, rms; infinite if there was none. Zero where nothing is
            left out.
        left_out: what labels feel of the rest, $\mathrm{tr}\, W \delta K$, of the level where it is
            largest: it changes $N_{max} S$ by about that much if the rest moves by its own size.
        settled: true if `change` is below what was asked for.
    """

    rows: TokenRows
    labels: Float[np.ndarray, "..."]
    architecture: Architecture
    temperature: float
    directions: int
    action: float
    gradient_norm: float
    steps: int
    change: float
    left_out: float
    settled: bool
    regression: Regression
    ranked: Ranked
    features: Features
    point: Point

    @property
    def log_evidence(self) -> float:
        r"""$\ln p(Y) \approx -\frac{N}{2}(S - S_0) - \frac{P C}{2} \ln 2\pi$; exact at infinite width."""
        excess = float(self.regression.nats) if np.isinf(self._unit) else self._unit * self.action
        return -0.5 * (excess + self.labels.size * np.log(2 * np.pi))

    @property
    def left_out_predictions(self) -> Float[np.ndarray, "..."]:
        """The mean output of every training example if it had not been trained on, at this solution."""
        return _left_out(self.regression, self.labels)

    def predict(self, test: TokenRows) -> Prediction:
        """Mean (9) and variance (30) of the output on test inputs, which come from `token_rows`.

        Returns:
            `Prediction(mean, variance)`, each `(test examples,)`, or `(test examples, outputs)`.
        """
        _check_alike(self.rows, test, "test")
        cross, own = new_kernels(test, self._descent())
        axes = self.rows.chain.readout.axes
        flat = cross.reshape(len(own) * own.shape[1], -1).T
        found = self.regression.predict(jnp.asarray(flat), jnp.asarray(own.reshape(-1)))
        return Prediction(*(one.reshape(-1, *axes) for one in found))

    def evidence_slopes(self) -> dict[str, Float[Array | np.ndarray, "..."]]:
        r"""Derivatives of `log_evidence` in "temperature", "variance", "width" and "gates".

        Variances and widths have one per layer, $\sigma_0^2$ and $N_1$ first; gates one per head, layer
        by layer from the first: $g$ multiplies the head's term in (K3). At the minimum the
        coordinates need no derivative. The features are held fixed, and what they leave out does
        not follow $\sigma_1^2 .. \sigma_L^2$ and gates.
        """
        if np.isinf(self._unit):
            raise ValueError("width: wanted finite widths for slopes of the evidence. Take a large one.")
        given = {
            "temperature": jnp.asarray(self.temperature, float),
            "variance": jnp.asarray(self.architecture.variances, float),
            "width": jnp.asarray(self.architecture.widths, float),
            "gates": jnp.ones(self.features.layers.values.shape[:2]),
        }
        found = _slopes(given, self.point, jnp.asarray(self.labels), self.features)
        pairs = zip(self.rows.chain.heads, np.asarray(found["gates"])[::-1], strict=True)
        return found | {"gates": np.concatenate([slopes[:heads] for heads, slopes in pairs])}

    @property
    def _unit(self) -> float:
        return float(self.architecture.widest)

    def _descent(self) -> Descent:
        outputs = self.rows.chain.outputs
        numbers = _numbers(self.labels.reshape(-1, outputs), self.temperature, self.architecture)
        top, _, _, seen = descend(self.point, numbers, self.features)
        columns = tuple(one[:, : self.features.size] for one in self.ranked.columns)
        features, seen = jax.tree.map(np.asarray, (self.features, seen))
        return Descent(self.rows, columns, features, seen, np.asarray(top), self.architecture.variances)

    def __repr__(self) -> str:
        layers, width = (
            self.rows.chain.shorthand,
            ", ".join(f"{one:g}" for one in dict.fromkeys(self.architecture.widths)),
        )
        how = "settled" if self.settled else "not settled"
        return (
            f"TokenSolution(layers={layers}, {len(self.labels)} examples, N={width}, T={self.temperature:g}: "
            f"{self.directions} directions, {how}, change {self.change:.2g}, gradient {self.gradient_norm:.1e})"
        )


def kernel_without_paths(
    rows: TokenRows, others: TokenRows, *, variance: ArrayLike | Sequence[ArrayLike] = 1.0
) -> Float[np.ndarray, "examples others"]:
    r"""$K$ of infinite width for any number of paths, equations (K2) and (K3); of one of several outputs.

    From the readout $G_{L+1} = \sigma_a^2 \omega \omega^\top$ down, in general
    $G_l = \sigma_l^2 \sum_s B_s G_{l+1} B_s^\top$; for heads,

        G_l = sigma_l^2 / H_l sum_h Omega_h G_{l+1} Omega_h^T  (+ G_{l+1} beside a skip),
        K   = sigma_0^2 / N_0 sum_ts x_t . x_s G_1[t, s].

    Args:
        rows, others: from `token_rows`, of the same chain; blocks of examples can be given one by one.
        variance: $\sigma^2$ or $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$.
    """
    _check_alike(rows, others, "others")
    known = tuple(float(one) for one in variances(variance, len(rows.chain.layers)))
    return known[-1] * infinite_width(rows, others, known)


def solve_without_paths(
    rows: TokenRows,
    labels: ArrayLike,
    *,
    width: ArrayLike | Sequence[ArrayLike],
    temperature: ArrayLike,
    variance: ArrayLike | Sequence[ArrayLike] = 1.0,
    directions: int = 128,
    change: float = 0.02,
    start: "TokenSolution | str" = "prior",
    tolerance: float = 1e-6,
    max_steps: int = 1000,
    throw: bool = True,
) -> TokenSolution:
    r"""Minimise the action (11) for any number of paths, in so many directions of every level.

    Directions are features of the backward signals, see `theory.features`: those that labels feel
    most. Their order parameters are free, with all their correlations; the rest stays at its prior.
    Beginning with 16, their number doubles until leave-one-out predictions settle. With as many as
    a level has nothing is left out, and the result is that of `solve`.

    Args:
        rows: training inputs, from `token_rows`.
        labels: as in `Problem`.
        width, temperature, variance: as in `Problem`.
        directions: the largest number of directions of a level; time grows with its cube.
        change: stop when a doubling changes predictions by less than this share of their size, rms.
        start: a `TokenSolution` of the same inputs and variances within the network at another
            width, temperature or for other labels; "prior"; or "narrow", the minimum of a network
            narrower by 20, followed back, as `minima` has it.
        tolerance: largest gradient entry of a converged solve, in units in which the entropy's
            Hessian is one at infinite width.
        max_steps: steps of each minimisation.
        throw: raise if predictions do not settle or a minimisation does not converge; if False the
            solution says so.

    Returns:
        `TokenSolution`; of starts that it tries its action is the lowest.

    Raises:
        NotSettled: more directions would change predictions, or the gradient is too large.
        ValueError: heads of a finite value dimension, which have order parameters of their own.

    Source: ours; with directions as in (K5).
    """
    chain = rows.chain
    if any(kind.inner is not None for kind in chain.kinds):
        raise ValueError("layers: wanted heads without `values`, got a finite value dimension. Use Problem and solve.")
    architecture = Architecture.of(chain, width, variance)
    labels = np.asarray(checks.labels(labels, len(rows.order), axes=chain.readout.axes), float)
    temperature = float(checks.positive("temperature", temperature))
    most = checks.whole("directions", directions)
    ranked = _ranked(rows, labels, temperature, architecture, most, start)
    numbers = _numbers(labels.reshape(-1, chain.outputs), temperature, architecture)
    found: TokenSolution | None = start if isinstance(start, TokenSolution) else None
    counts = _counts(ranked, most, found)
    before, change_now = None, np.inf
    for count in counts:
        features = ranked.first(count, rows)
        points = _starts(found, ranked, features, numbers, start, (tolerance, max_steps))
        if np.isinf(float(architecture.widest)):
            point, action, gradient, steps = points[0], 0.0, 0.0, 0
        else:
            ends = [lowest(point, numbers, features, tolerance, max_steps) for point in points]
            point, action, gradient, steps = min(ends, key=lambda one: one.action)
        regression = excess_action(point, numbers, features)[1]
        after = _left_out(regression, labels)
        if before is not None:
            change_now = float(np.sqrt(np.mean((after - before) ** 2) / np.mean(after**2)))
        whole = count >= ranked.most and ranked.left_out(count) <= 1e-9 * ranked.total
        change_now, before = 0.0 if whole else change_now, after
        settled = change_now <= change and gradient <= tolerance
        reached = (count, action, gradient, steps, change_now, ranked.left_out(count), settled)
        found = TokenSolution(rows, labels, architecture, temperature, *reached, regression, ranked, features, point)
        if settled or whole:
            break
    assert found is not None
    if throw and not found.settled:
        raise NotSettled(_why(found, change, tolerance), found)
    return found


def sweep_without_paths(
    rows: TokenRows, labels: ArrayLike, *, widths: Sequence, temperature: ArrayLike, **options
) -> list[TokenSolution]:
    """`solve_without_paths` from wide to narrow, each started with the one before; in the order given."""
    order = sorted(range(len(widths)), key=lambda index: -float(np.max(np.asarray(widths[index]))))
    found: list = [None] * len(widths)
    start = options.pop("start", "prior")
    for index in order:
        found[index] = start = solve_without_paths(
            rows, labels, width=widths[index], temperature=temperature, start=start, **options
        )
    return found


def _check_alike(rows: TokenRows, others: TokenRows, name: str) -> None:
    if others.chain != rows.chain or others.tokens.shape[1] != rows.tokens.shape[1]:
        raise ValueError(
            f"{name}: wanted layers {rows.chain.shorthand} and {rows.tokens.shape[1]} features as in training, got "
            f"{others.chain.shorthand} and {others.tokens.shape[1]}."
        )


def _ranked(rows, labels, temperature, architecture, most, start) -> Ranked:
    """New features, or those of the start, which are as good for another width."""
    variances = tuple(float(one) for one in architecture.variances)
    if isinstance(start, TokenSolution):
        if start.rows is not rows or tuple(map(float, start.architecture.variances[1:-1])) != variances[1:-1]:
            raise ValueError(
                "start: wanted a solution of the same rows and variances of the values. Start from 'prior'."
            )
        return start.ranked
    checks.choice("start", start, ("prior", "narrow"))
    return ranked_features(rows, labels, temperature, variances, most)


def _counts(ranked: Ranked, most: int, found) -> list[int]:
    """Numbers of features that are tried."""
    most = min(most, ranked.most)
    first = min(_FEWEST if found is None else max(_FEWEST, found.directions // 2), most)
    counts = [first]
    while counts[-1] < most:
        counts.append(min(2 * counts[-1], most))
    return counts


def _starts(found, ranked, features, numbers, start, options) -> list[Point]:
    """Points to start from: the last solution, or that of a narrower network, or the prior."""
    outputs = numbers.labels.shape[1]
    prior = prior_point(features, outputs)
    if found is not None:
        passed = [level.passed for level in ranked.levels]
        earlier = [found] if found is start or not isinstance(start, TokenSolution) else [found, start]
        same = [one.point for one in earlier if one.features.size == features.size]
        old, new = (_frames(one, passed) for one in (found.features, features))
        return same if found is start and same else [*same, carried(found.point, old, new, passed, outputs)]
    if start == "narrow":
        narrow = numbers._replace(unit=numbers.unit / NARROWER)
        return [lowest(prior, narrow, features, *options).point]
    return [prior]


def _frames(features: Features, passed) -> list:
    """Orthonormal directions of every level at infinite width; missing ones are zero."""
    frames = []
    for basis, spare, gram in zip(
        np.asarray(features.layers.basis), np.asarray(features.layers.spare), passed, strict=True
    ):
        size = min(len(gram), len(basis))
        half = np.linalg.cholesky(basis[:size].T @ gram[:size, :size] @ basis[:size] + np.diag(spare))
        frames.append(np.linalg.solve(half, basis.T).T)
    return frames


def _numbers(labels, temperature, architecture: Architecture) -> Numbers:
    variances, shares = (np.asarray(one, float) for one in (architecture.variances, architecture.shares))
    ends = np.array([variances[0], variances[-1], shares[-1]])
    parts = labels, temperature, variances[-2:0:-1], shares[-2::-1], ends, architecture.widest
    return Numbers(*(jnp.asarray(part, float) for part in parts))


def _left_out(regression: Regression, labels) -> Float[np.ndarray, "..."]:
    """Leave-one-out means: with $R = (K + T)^{-1}$, $y_i - (R Y)_i / R_{ii}$; all outputs of an example together."""
    outputs = labels.reshape(len(labels), -1).shape[1]
    resolvent = np.asarray(regression.solve(jnp.eye(labels.size))).reshape(len(labels), outputs, len(labels), outputs)
    own = resolvent[np.arange(len(labels)), :, np.arange(len(labels))]
    solved = np.asarray(regression.solve(regression.labels)).reshape(len(labels), outputs, 1)
    return labels - np.linalg.solve(own, solved)[..., 0].reshape(labels.shape)


@jax.jit
def _slopes(given, point, labels, features):
    def evidence(given):
        variances, widths = given["variance"], given["width"]
        ends = jnp.stack([variances[0], variances[-1], widths[-1]])
        labels_ = labels.reshape(len(labels), -1)
        # Widths instead of shares, and one for the unit: N S.
        inside = jnp.flip(variances[1:-1]), jnp.flip(widths[:-1])
        numbers = Numbers(labels_, given["temperature"], *inside, ends, jnp.asarray(1.0))
        values = features.layers.values * jnp.sqrt(given["gates"])[:, :, None, None]
        gated = features._replace(layers=features.layers._replace(values=values))
        return -0.5 * excess_action(point, numbers, gated)[0]

    return jax.grad(evidence)(given)


def _why(found: TokenSolution, change: float, tolerance: float) -> str:
    if found.gradient_norm > tolerance:
        return (
            f"The minimum was not reached: gradient {found.gradient_norm:.1e} of {tolerance:.1e}. Allow more max_steps."
        )
    return (
        f"Predictions have not settled with {found.directions} directions a level: the last doubling changed them by "
        f"{found.change:.2g} of their size, {change:g} was asked for. Allow more directions; throw=False returns these."
    )
