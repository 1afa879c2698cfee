"""The theory and the exact posterior from one path to many more than neurons: evidence, order parameter, output."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

import statmech_attention as sma
from attention_book import results
from attention_book.experiments.encoded_inputs import stored_inputs
from attention_book.experiments.experiment import Experiment, Part, Recheck, largest_difference, parameter
from attention_book.experiments.networks import experiment_file, seen_by
from attention_book.tasks import one_shot_suite
from attention_book.training import load_network
from statmech_attention import AttentionedInputs, Problem, attention_from_products, attentioned_inputs, solve
from statmech_attention.sampling import corrected
from statmech_attention.tasks import HiddenMarkov

LARGEST_CORRECTED = 40  # paths up to which the first correction of output and U is computed


class Seen(NamedTuple):
    """Examples along the paths of the first heads of both layers."""

    train: AttentionedInputs
    labels: Float[np.ndarray, " examples"]
    test: AttentionedInputs


@dataclass(frozen=True, kw_only=True)
class ManyPaths(Experiment):
    """Theory, first correction and exact posterior over numbers of paths and widths.

    Over `paths` and `width`: `theory`, `corrected` and `exact` log evidence, the last with its
    `exact_error`; of the mean output in units of the theory's posterior deviation, and of U relative
    to its norm, the size of the first correction, `output_correction` and `order_correction`, and
    how far the theory is from the exact mean, `output_off` and `order_off`, with Monte Carlo errors.
    """

    task: str = parameter("where the attention is from", among=("chains", "images", "sentences"))
    seed: int = parameter("seed of data and draws")
    examples: int = parameter("$P$", ge=2)
    test_examples: int = parameter("test examples", ge=1)
    paths: Sequence[int] = parameter("numbers of paths, each shared out to two layers as evenly as it goes", each=int)
    widths: Sequence[int] = parameter("$N$", each=int)
    temperature: float = parameter("$T$", gt=0)
    populations: int = parameter("populations of the sampler, whose spread gives the errors", ge=2)
    particles: int = parameter("particles of each population", ge=4)

    name: ClassVar[str] = "many paths"
    revision: ClassVar[int] = 1  # 1: as first recorded
    stem: ClassVar[str] = "paths-{task}-seed{seed}"
    unit: ClassVar[str] = "case"

    @property
    def sources(self):
        beside = Path(self.folder).parent
        return {
            "chains": {},
            "images": {"network": experiment_file("network", beside / "one_shot", layers=2, heads=8, seed=0)},
            "sentences": {"record": beside / "sentences" / "encoder-description-entity-seed0.nc"},
        }[self.task]

    @property
    def total(self) -> int:
        return len(self.paths) * len(self.widths)

    def make(self, state, progress):
        seen, rows = self.seen(), {}
        for paths in self.paths:
            for width in self.widths:

                def compute(step, paths=paths, width=width):
                    found = self.case(seen, paths, width)
                    step()
                    return found

                rows[paths, width] = yield Part(f"paths{paths}-width{width}", compute)
        together = [xr.concat([rows[paths, width] for width in self.widths], "width") for paths in self.paths]
        return xr.concat(together, "paths").assign_coords(paths=self.paths, width=self.widths)

    def recheck(self) -> Recheck:
        """Compute the fewest paths at the largest width again."""
        found = self.case(self.seen(), self.paths[0], self.widths[-1])
        recorded = results.load(self.path).isel(paths=0, width=-1)
        return Recheck("a case", largest_difference(found, recorded), 1e-6)

    def seen(self) -> Seen:
        """Examples along the paths of as many heads as the largest number of paths needs."""
        heads = tuple(max(each) for each in zip(*map(layers_of, self.paths), strict=True))
        train, labels, test = getattr(self, f"_{self.task}")(heads)
        values = np.concatenate([np.asarray(one.values) for one in (train, test)])
        kept = values.reshape(len(values), *train.layers, -1)[:, : heads[0], : heads[1]]
        parts = kept.reshape(len(values), math.prod(heads), -1)
        split = (parts[: self.examples], parts[self.examples : self.examples + self.test_examples])
        train, test = (AttentionedInputs(jnp.asarray(part), heads) for part in split)
        return Seen(train, np.asarray(labels, float)[: self.examples], test)

    def problem(self, seen: Seen, paths: int, width: int) -> tuple[Problem, AttentionedInputs]:
        """The problem of the first heads, and its test inputs."""
        heads, all_heads = layers_of(paths), seen.train.layers

        def first(inputs):
            values = inputs.values.reshape(len(inputs.values), *all_heads, -1)[:, : heads[0], : heads[1]]
            return AttentionedInputs(values.reshape(len(values), paths, -1), heads)

        return Problem(first(seen.train), seen.labels, width=width, temperature=self.temperature), first(seen.test)

    def case(self, seen: Seen, paths: int, width: int) -> xr.Dataset:
        """One number of paths at one width."""
        problem, test = self.problem(seen, paths, width)
        solution = solve(problem.replace(width=float(width)))
        plain = solution.predict(test)
        unit, size = _rms(np.sqrt(plain.variance)), np.linalg.norm(solution.order_parameter)
        evidences = sma.log_evidence(solution), sma.log_evidence(solution, corrected=True)
        found: dict[str, Any] = dict(zip(("theory", "corrected"), evidences, strict=True))
        found |= {"output_correction": np.nan, "order_correction": np.nan}
        if paths <= LARGEST_CORRECTED:
            better = corrected(solution, test)
            found["output_correction"] = _rms(better.prediction.mean - plain.mean) / unit
            found["order_correction"] = np.linalg.norm(better.order_parameters[0] - solution.order_parameter) / size
        random = np.random.default_rng([self.seed, paths, width])
        density = Density(problem, test)
        drawn = [sampled(density, random, self.particles) for _ in range(self.populations)]
        found["exact"], found["exact_error"], weights = _evidence([one.log_evidence for one in drawn])
        for name, theory, scale in (("output", plain.mean, unit), ("order", solution.order_parameter, size)):
            means = np.array([getattr(one, name) for one in drawn])
            mean = np.tensordot(weights, means, 1)
            errors = np.sqrt(np.tensordot(weights**2, (means - mean) ** 2, 1) * len(means) / (len(means) - 1))
            gap, noise = np.asarray(theory) - mean, np.sum(errors**2)
            # The noise of the exact mean is in the difference, too.
            root = math.sqrt(gap.size) if name == "output" else 1.0
            found[f"{name}_off"] = math.sqrt(max(float(np.sum(gap**2) - noise), 0.0)) / root / scale
            found[f"{name}_off_error"] = math.sqrt(noise) / root / scale
        found["stages"] = max(one.stages for one in drawn)
        return xr.Dataset({name: float(value) for name, value in found.items()})

    def _chains(self, heads):
        """Hidden Markov chains; beside the designed heads all others are random."""
        task = HiddenMarkov()
        keys = jax.random.split(jax.random.key(self.seed), 3)
        sets = task.sample(keys[0], self.examples), task.sample(keys[1], self.test_examples)
        drawn = [task.heads(jax.random.fold_in(keys[2], number)) for number in range(max(heads))]
        products = [
            np.stack([drawn[0][layer][0], *(one[layer][1] for one in drawn[: count - 1])])
            for layer, count in enumerate(heads)
        ]
        attention = attention_from_products(products)
        train, test = (attentioned_inputs(one.inputs, attention) for one in sets)
        return train, sets[0].labels, test

    def _images(self, heads):
        """One-shot images along the paths of a trained network."""
        network, suite = load_network(self.sources["network"]), one_shot_suite("omniglot")
        keys = jax.random.split(jax.random.key(self.seed), 2)
        sets = (
            suite.train(keys[0], self.examples),
            suite.test(keys[1], self.test_examples, next(iter(suite.test_sets))),
        )
        train, test = (seen_by(network, [one.inputs]) for one in sets)
        return train, sets[0].labels, test

    def _sentences(self, heads):
        """The sentences that are stored in a record of the encoder; of its training sentences some are to test on."""
        stored = stored_inputs(results.load(self.sources["record"]).sel(chosen_by="evidence"))
        values, layers = np.asarray(stored.train.values), stored.train.layers
        train, test = values[: self.examples], values[self.examples :]
        return (
            AttentionedInputs(jnp.asarray(train), layers),
            stored.labels,
            AttentionedInputs(jnp.asarray(test), layers),
        )


def layers_of(paths: int) -> tuple[int, int]:
    """Heads of two layers with so many paths, as evenly as it goes."""
    fewer = max(number for number in range(1, math.isqrt(paths) + 1) if paths % number == 0)
    return fewer, paths // fewer


class Density:
    r"""$\frac P2 E(U)$ and its gradient in standard normals, one for every neuron and partial path.

    $U = A_1 A_1^\top$ and $A_l = (I \otimes A_{l+1}) Z_l / \sqrt{N}$, (W1), with a triangular factor in
    place of $Z_l$ where that has more columns than rows, (W3): its diagonal is the length of what is left.
    Independent of the library's own density, and without a compiler, which costs more than most cases.
    """

    def __init__(self, problem: Problem, test: AttentionedInputs):
        values = np.asarray(problem.attentioned.values)
        self.heads, self.width = problem.attentioned.chain.heads, int(problem.width[0])
        self.labels, self.temperature = np.asarray(problem.labels), float(problem.temperature)
        examples, paths, features = values.shape
        scale = 1 / (features * math.prod(self.heads))
        self._seen, self._test = scale * values, np.asarray(test.values)
        self._lower, self._pairs = np.tril_indices(examples), np.triu_indices(paths)
        products = (scale * values[:, a] @ values[:, b].T for a, b in zip(*self._pairs, strict=True))
        same = self._pairs[0] == self._pairs[1]
        self._products = np.array(
            [(one if alike else one + one.T)[self._lower] for one, alike in zip(products, same, strict=True)]
        )
        self._places = np.zeros(2 * (examples,), int)
        self._places[self._lower] = self._places.T[self._lower] = np.arange(len(self._lower[0]))
        self._shapes: list[tuple[int, int]] = []
        rank = 1
        for count in reversed(self.heads):
            self._shapes.insert(0, (count * rank, self.width))
            rank = min(count * rank, self.width)
        self.size = sum(rows * columns for rows, columns in self._shapes) + self.width

    def __call__(self, points):
        """Values and gradients at several points."""
        overlap, steps, readout, length = self._overlap(points)
        inverse, solved, logdet = self._solved(overlap)
        value = 0.5 * (logdet + solved @ self.labels)
        weights = (inverse - solved[:, :, None] * solved[:, None, :])[:, self._lower[0], self._lower[1]]
        weights *= np.where(self._lower[0] == self._lower[1], 0.5, 1.0)
        slope = np.zeros_like(overlap)
        slope[:, self._pairs[0], self._pairs[1]] = 0.5 * weights @ self._products.T
        slope += slope.transpose(0, 2, 1)
        pull, gradients = 2 * slope @ steps[-1].above_all, []
        for step in reversed(steps):
            pulled = pull.reshape(len(points), -1, step.above.shape[1], pull.shape[2])
            factor = step.factor.reshape(len(points), pulled.shape[1], step.above.shape[2], -1)
            own = (step.above.transpose(0, 2, 1)[:, None] @ pulled).reshape(step.factor.shape)
            pull = (pulled @ factor.transpose(0, 1, 3, 2)).sum(axis=1)
            if step.diagonal is not None:
                rows, columns = step.normals.shape[1:]
                through = np.triu(np.ones((rows, columns))) * step.normals
                through *= (np.diagonal(own, axis1=1, axis2=2) / step.diagonal)[:, :, None]
                through[:, :, :rows] += np.tril(own, -1)
                own = through
            gradients.append(own.reshape(len(points), -1))
        gradients = [*gradients, pull[:, 0, 0][:, None] * readout / length[:, None]]
        return value, np.concatenate(gradients, axis=1) / math.sqrt(self.width)

    def means(self, points):
        """The average of the mean output (9) on the test inputs, and of U."""
        overlap, *_ = self._overlap(points)
        _, solved, _ = self._solved(overlap)
        pulled = np.einsum("nm,mai->nai", solved, self._seen)
        output = np.einsum("xai,ai->x", self._test, np.mean(overlap @ pulled, axis=0))
        return output, overlap.mean(axis=0)

    def _overlap(self, points):
        """U, the steps from the readout down to it, and the readout with its length."""
        *blocks, readout = np.split(points / math.sqrt(self.width), np.cumsum([a * b for a, b in self._shapes]), axis=1)
        length = np.sqrt(np.sum(readout**2, axis=1))
        above, steps = length[:, None, None], []
        for layer in reversed(range(len(blocks))):
            normals = blocks[layer].reshape(-1, *self._shapes[layer])
            factor, diagonal = _factor(normals) if layer else (normals, None)
            per_head = factor.reshape(len(points), self.heads[layer], above.shape[2], -1)
            below = (above[:, None] @ per_head).reshape(len(points), -1, factor.shape[2])
            steps.append(_Step(above, factor, diagonal, normals, below))
            above = below
        return above @ above.transpose(0, 2, 1), steps, readout, length

    def _solved(self, overlap):
        gram = (overlap[:, self._pairs[0], self._pairs[1]] @ self._products)[:, self._places]
        gram = gram + self.temperature * np.eye(len(self.labels))
        inverse = np.linalg.inv(gram)
        return inverse, inverse @ self.labels, np.linalg.slogdet(gram)[1]


class _Step(NamedTuple):
    above: np.ndarray
    factor: np.ndarray
    diagonal: np.ndarray | None
    normals: np.ndarray
    above_all: np.ndarray  # the factor of the layer itself


def _factor(normals):
    """The triangular factor of normals with more columns than rows, and its diagonal; else the normals."""
    rows, columns = normals.shape[1:]
    if columns <= rows:
        return normals, None
    diagonal = np.sqrt(np.sum(np.triu(np.ones((rows, columns))) * normals**2, axis=2))
    factor = np.tril(normals[:, :, :rows], -1)
    factor[:, np.arange(rows), np.arange(rows)] = diagonal
    return factor, diagonal


class Sampled(NamedTuple):
    """One population."""

    log_evidence: float
    output: np.ndarray
    order: np.ndarray
    stages: int


def sampled(density: Density, random, particles: int, share: float = 0.8, moves: int = 2) -> Sampled:
    r"""From the prior to the posterior by sequential Monte Carlo (Del Moral et al. 2006); $e^{\ln p}$ has no bias.

    Stage after stage raises $\beta$ in $e^{-|z|^2/2 - \beta P E/2}$ until the weights are worth a `share` of the
    particles, draws them anew by weight, and moves each by Hamiltonian Monte Carlo of about a quarter turn.
    """
    points = random.standard_normal((particles, density.size))
    value, slope = density(points)
    beta = total = 0.0
    angle, stages = 0.5, 0
    while beta < 1:
        rise = _rise(value, 1 - beta, share)
        logs = -rise * (value - value.min())
        weights = np.exp(logs)
        total += math.log(weights.mean()) - rise * value.min()
        beta = 1.0 if rise == 1 - beta else beta + rise
        places = (np.arange(particles) + random.random()) / particles
        chosen = np.minimum(np.searchsorted(np.cumsum(weights / weights.sum()), places), particles - 1)
        points, value, slope = points[chosen], value[chosen], slope[chosen]
        for _ in range(moves):
            momentum = random.standard_normal(points.shape)
            before = beta * value + 0.5 * np.sum(points**2 + momentum**2, axis=1)
            step = angle * random.uniform(0.8, 1.2)
            moved, there, steep = points, value, slope
            for _ in range(int(np.clip(round(0.5 * math.pi / step), 1, 10))):
                momentum = momentum - 0.5 * step * beta * steep
                turned = math.cos(step) * moved + math.sin(step) * momentum
                momentum = math.cos(step) * momentum - math.sin(step) * moved
                moved = turned
                there, steep = density(moved)
                momentum = momentum - 0.5 * step * beta * steep
            after = beta * there + 0.5 * np.sum(moved**2 + momentum**2, axis=1)
            chance = np.exp(np.minimum(0.0, before - after))
            taken = random.random(particles) < chance
            points, slope = (np.where(taken[:, None], *pair) for pair in ((moved, points), (steep, slope)))
            value = np.where(taken, there, value)
            angle = min(0.5 * math.pi, angle * math.exp(0.7 * (chance.mean() - 0.8)))
        stages += 1
    output, order = density.means(points)
    return Sampled(total - 0.5 * len(density.labels) * math.log(2 * math.pi), output, order, stages)


def _rise(value, most: float, share: float) -> float:
    """The largest rise of beta at which the weights are worth a share of the particles."""

    def worth(rise):
        weights = np.exp(-rise * (value - value.min()))
        return weights.sum() ** 2 / np.sum(weights**2) / len(value)

    if worth(most) >= share:
        return most
    low, high = 0.0, most
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if worth(middle) > share else (low, middle)
    return low


def _evidence(logs) -> tuple[float, float, np.ndarray]:
    """The logarithm of the mean of populations, its error, and the weights of the populations."""
    logs = np.array(logs)
    scaled = np.exp(logs - logs.max())
    error = scaled.std(ddof=1) / scaled.mean() / math.sqrt(len(logs))
    return float(logs.max() + math.log(scaled.mean())), float(error), scaled / scaled.sum()


def _rms(values) -> float:
    return float(np.sqrt(np.mean(np.square(np.asarray(values)))))
