r"""Error bars judged on networks of the prior: the place of the truth in the posterior of many problems.

The network that labels the inputs is one more draw from the posterior given these labels, so that
$u = \Pr[g < g_\mathrm{true} | D]$ is uniform for every continuous $g$.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import jax
import numpy as np
import xarray as xr
from scipy.special import ndtr

from attention_book import results
from attention_book.experiments.experiment import Experiment, Part, Recheck, axis, parameter
from attention_book.experiments.opening import OPENING, opening_of, recheck_of
from statmech_attention import AttentionedInputs, Problem, sample_weights, solve
from statmech_attention.model import forward_paths, weights_order_parameters
from statmech_attention.sampling import Chains, posterior, prediction, tempered_posterior
from statmech_attention.sampling.diagnostics import LARGEST_R_HAT, SMALLEST_EFFECTIVE_SIZE

HEADS, FEATURES, TESTS = (2, 2), 3, 4
WRONG_VARIANCE = 0.7  # of the readout's weights, in place of 1
QUANTITIES = ("U_11", "U_12", "U_44", "readout")
PRIORS = ("true", "without psi", "readout variance")
PREDICTORS = (
    "exact",
    "theory",
    "theory and Var_U m",
    "exact mean, theory's variance",
    "exact mean and variance",
    "GP limit",
)


class DrawnProblem(NamedTuple):
    """Data that a network of the prior has made."""

    train: AttentionedInputs
    test: AttentionedInputs
    labels: jax.Array  # with noise
    outputs: np.ndarray  # the true ones on the test inputs
    order: np.ndarray  # the true `QUANTITIES`
    key: jax.Array


@dataclass(frozen=True, kw_only=True)
class Calibration(Experiment):
    """Uniform ranks $u$ of the truth, over problems and widths.

    Chains go on, each time twice as long, until they have mixed or `doublings` are used up. The
    record has over `width` and `problem` the $u$ of outputs and order parameters, under the
    posterior, under approximations and under wrong priors; `weights_worth`, the share of effective
    draws behind these.
    """

    seed: int = parameter("seed of networks, data and chains")
    widths: Sequence[int] = parameter("$N$", each=int)
    problems: int = parameter("networks at each width", ge=2)
    examples: int = parameter("$P$", ge=1)
    temperature: float = parameter("$T$", gt=0)
    chains: int = parameter("chains side by side", ge=2)
    warmup: int = parameter("iterations in which the sampler adapts", ge=0)
    draws: int = parameter("draws per chain to begin with", ge=4)
    doublings: int = parameter("largest number of times that the draws are doubled", ge=0)
    batch: int = parameter("problems per part of the run", ge=1)

    name: ClassVar[str] = "calibration"
    revision: ClassVar[int] = 1  # 1: as first recorded
    stem: ClassVar[str] = "calibration-examples{examples}-noise{temperature:g}-seed{seed}"
    unit: ClassVar[str] = "problem"

    @property
    def total(self) -> int:
        return len(self.widths) * self.problems

    def make(self, state, progress):
        rows = []
        for width in self.widths:
            found = []
            for start in range(0, self.problems, self.batch):
                numbers = range(start, min(start + self.batch, self.problems))

                def compute(step, width=width, numbers=numbers):
                    return xr.concat([self._timed(width, number, step) for number in numbers], axis("problem", numbers))

                found.append((yield Part(f"width{width}-from{start}", compute, len(numbers))))
            rows.append(xr.concat(found, "problem"))
        return xr.concat(rows, axis("width", self.widths)).merge(self.opening())

    def problem(self, width: int, number: int) -> DrawnProblem:
        """One network of the prior with its data."""
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), width), number)
        return draw_problem(key, width, self.examples, self.temperature)

    def opening(self) -> xr.Dataset:
        """Report of a few draws of the first problem at every width, and the theory's numbers."""
        rows = []
        for width in self.widths:
            problem = self.problem(width, 0)
            drawn = self._drawn(problem, width, replace(OPENING, count=self.chains))
            solved = solve(Problem(problem.train, problem.labels, width=width, temperature=self.temperature))
            mean, variance = solved.predict(problem.test)
            theory = xr.Dataset({"opening_mean": ("test", mean), "opening_variance": ("test", variance)})
            rows.append(opening_of(drawn).merge(theory))
        return xr.concat(rows, axis("width", self.widths))

    def recheck(self) -> Recheck:
        """Draw the opening."""
        return recheck_of(self.opening(), results.load(self.path))

    def _timed(self, width: int, number: int, step) -> xr.Dataset:
        began = time.monotonic()
        found = self._one(width, number)
        step()
        return found.assign(seconds=time.monotonic() - began)

    def _one(self, width: int, number: int) -> xr.Dataset:
        problem = self.problem(width, number)
        for doubled in range(self.doublings + 1):
            sizes = Chains(draws=self.draws * 2**doubled, count=self.chains, warmup=self.warmup, warn=False)
            drawn = self._drawn(problem, width, replace(sizes, progress=False))
            r_hat = max(float(drawn[f"{name}_r_hat"].max()) for name in ("order_parameter", "output"))
            size = min(float(drawn[f"{name}_effective_size"].min()) for name in ("order_parameter", "output"))
            if r_hat <= LARGEST_R_HAT and size >= SMALLEST_EFFECTIVE_SIZE:
                break
        judged = judge(problem, drawn, width, self.temperature)
        return judged.assign(r_hat=r_hat, effective_size=size, draws=drawn.sizes["draw"])

    def _drawn(self, problem: DrawnProblem, width: int, chains: Chains) -> xr.Dataset:
        sample: Callable[..., xr.Dataset] = tempered_posterior if width < math.prod(HEADS) else posterior
        learned = Problem(problem.train, problem.labels, width=width, temperature=self.temperature)
        return sample(learned, key=problem.key, test=problem.test, chains=chains)


def draw_problem(key, width: int, examples: int, temperature: float) -> DrawnProblem:
    """A network drawn from the prior, random inputs, and its labels with noise."""
    input_key, network_key, noise_key, chain_key = jax.random.split(key, 4)
    inputs = jax.random.normal(input_key, (examples + TESTS, math.prod(HEADS), FEATURES))
    train, test = (AttentionedInputs(part, HEADS) for part in (inputs[:examples], inputs[examples:]))
    network = sample_weights(network_key, layers=HEADS, width=width, features=FEATURES)
    noise = math.sqrt(temperature) * jax.random.normal(noise_key, (examples,))
    overlap, *_, readout = weights_order_parameters(network)
    order = np.array([overlap[0, 0], overlap[0, 1], overlap[-1, -1], readout])
    labels = forward_paths(network, train) + noise
    return DrawnProblem(train, test, labels, np.asarray(forward_paths(network, test)), order, chain_key)


def judge(problem: DrawnProblem, drawn: xr.Dataset, width: int, temperature: float) -> xr.Dataset:
    """The $u$ of one problem from draws of its posterior."""
    truth = problem.outputs
    means, variances = (drawn[name].values.reshape(-1, TESTS) for name in ("output", "output_variance"))
    overlap, readout = drawn["order_parameter"].values, drawn["order_parameter_3"].values
    order = [overlap[..., 0, 0], overlap[..., 0, 1], overlap[..., -1, -1], readout]
    below = np.stack([np.ravel(one) for one in order], axis=-1) < problem.order
    within = ndtr((truth - means) / np.sqrt(variances))

    weights = {
        "true": np.ones(len(means)),
        "without psi": np.exp(order_one_term(drawn, width)),
        "readout variance": np.exp(-0.5 * width * (1 / WRONG_VARIANCE - 1) * np.ravel(readout)),
    }
    weights = {name: one / one.sum() for name, one in weights.items()}

    total, (mean, variance) = prediction(drawn), _predicted(problem, width, temperature)
    limit = _predicted(problem, math.inf, temperature)
    gaussians = {
        "theory": (mean, variance),
        "theory and Var_U m": (mean, variance + means.var(axis=0)),
        "exact mean, theory's variance": (total.mean, variance),
        "exact mean and variance": total,
        "GP limit": limit,
    }
    output = {"exact": within.mean(axis=0)}
    output |= {name: ndtr((truth - centre) / np.sqrt(spread)) for name, (centre, spread) in gaussians.items()}
    return xr.Dataset(
        {
            "output_u": (("predictor", "test"), np.stack([output[name] for name in PREDICTORS])),
            "order_u": (("prior", "quantity"), np.stack([weights[name] @ below for name in PRIORS])),
            "prior_output_u": (("prior", "test"), np.stack([weights[name] @ within for name in PRIORS])),
            "weights_worth": ("prior", [1 / np.sum(weights[name] ** 2) / len(means) for name in PRIORS]),
        },
        coords={"predictor": list(PREDICTORS), "prior": list(PRIORS), "quantity": list(QUANTITIES)},
    )


def order_one_term(drawn: xr.Dataset, width: int) -> np.ndarray:
    r"""$\psi = \sum_l \sum_i i \ln F_{l,ii}$ of every draw, for layers of `HEADS` and variances of 1."""
    names = ["order_parameter", *(f"order_parameter_{layer}" for layer in range(2, len(HEADS) + 2))]
    found, above = np.zeros(()), np.ones((1, 1, 1))
    for name, heads in zip(reversed(names), (1, *reversed(HEADS)), strict=True):
        overlap = drawn[name].values
        overlap = overlap.reshape(overlap.shape[0] * overlap.shape[1], *(overlap.shape[2:] or (1, 1)))
        branches = np.einsum("hk,nab->nhakb", np.eye(heads), np.broadcast_to(above, (len(overlap), *above.shape[1:])))
        branches = branches.reshape(len(overlap), heads * above.shape[1], heads * above.shape[2])
        inverse = np.linalg.pinv(branches)
        relative = inverse @ overlap @ inverse.transpose(0, 2, 1)
        rank = min(width, relative.shape[1])
        corner = np.linalg.cholesky(relative[:, :rank, :rank])
        factor = relative[:, :, :rank] @ np.linalg.inv(corner).transpose(0, 2, 1)
        diagonal = np.diagonal(corner, axis1=1, axis2=2)
        found = found + np.log(diagonal) @ np.arange(rank)
        above = branches @ factor
    return found


def _predicted(problem: DrawnProblem, width: float | int, temperature: float):
    """Mean and variance of the theory; at infinite width of the GP limit."""
    solved = solve(Problem(problem.train, problem.labels, width=float(width), temperature=temperature))
    return tuple(np.asarray(values) for values in solved.predict(problem.test))
