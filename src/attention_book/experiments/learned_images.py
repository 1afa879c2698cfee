"""Attention of one-shot images, learned by the evidence, beside attention and networks from gradient descent."""

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.fft
import xarray as xr
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

import statmech_attention as sma
from attention_book import results
from attention_book.experiments.experiment import Experiment, Part, Recheck, axis, largest_difference, parameter
from attention_book.experiments.learned import log_prior, minimised
from attention_book.tasks._sequences import CHANNELS, CompactTokens, Sequences, normalised_patches
from attention_book.tasks.one_shot import OneShot, OneShotSample
from attention_book.tasks.one_shot_sets import OneShotSuite, one_shot_suite
from attention_book.training.path_form import initial, outputs
from attention_book.training.steps import adam, validate
from statmech_attention.layers.chains import chain
from statmech_attention.model.network import forward_paths, sample_weights
from statmech_attention.model.paths import AttentionedInputs, attentioned_inputs
from statmech_attention.theory.predictor import accuracy
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.saddle_point import solve
from statmech_attention.training import learn_attention

PATTERNS = 200  # test sequences on which attention is compared
_SIDE, _GRID, _BANDS, _HEADS = 8, 4, 4, 2  # pixels and patches along a side, bands of frequencies, heads per layer
_SHAPES = {"similar": (2, _HEADS, _BANDS), "near": (2, _HEADS, _GRID), "images": (2, _HEADS, 9)}
_IMAGE = np.repeat(np.arange(3), _GRID**2)
_ROW, _COLUMN = np.divmod(np.tile(np.arange(_GRID**2), 3), _GRID)
_APART = np.maximum(abs(_ROW[:, None] - _ROW), abs(_COLUMN[:, None] - _COLUMN))  # of two patches, each in its image
_PAIR = 3 * _IMAGE[:, None] + _IMAGE
_WIDTH, _DIMENSION, _FEATURES = 512, 128, 192  # of the paper's network
_RATE, _DECAY, _BATCH, _EVERY = 1e-3, 5e-5, 32, 50  # of its descent, and steps between validations
_DESCENT_STEPS, _DESCENT_RATE, _DESCENT_TEMPERATURE = 150, 0.03, 0.4  # of attention and weights together


class Set(NamedTuple):
    """Sequences as the family of attention needs them."""

    inputs: Float[Array, "examples tokens directions"]
    similar: Float[Array, "examples bands tokens tokens"]
    labels: Float[Array, " examples"]


def set_of(task: OneShot, sample: OneShotSample) -> Set:
    """Tokens in a basis of their span, and similarities of patches in each band of frequencies."""
    cosine = scipy.fft.dct(np.eye(_SIDE), norm="ortho", axis=0)
    waves = np.einsum("ai,bj->abij", cosine, cosine).reshape(_SIDE**2, _SIDE**2)
    band = np.minimum(np.maximum.outer(np.arange(_SIDE), np.arange(_SIDE)).ravel(), _BANDS)
    patches = normalised_patches(task.compact, sample.sequences.drawings, jnp.float64) @ (waves.T / 4)
    parts = [patches[..., band == one + 1] for one in range(_BANDS)]
    similar = jnp.stack([jnp.einsum("esi,eti->est", part, part) for part in parts], axis=1)
    return Set(sample.inputs @ _span(task), similar, sample.labels)


def _span(task: OneShot) -> Float[np.ndarray, "features directions"]:
    """A basis of the tokens' span, scaled so that kernels (divided by the number of features) stay the same."""
    compact = task.compact
    rows = [np.repeat(np.eye(_SIDE**2), CHANNELS, axis=1), compact.constants, compact.difference[None]]
    _, sizes, basis = np.linalg.svd(np.concatenate([np.asarray(one, float) for one in rows]), full_matrices=False)
    count = int(np.sum(sizes > 1e-6 * sizes[0]))
    return basis[:count].T * np.sqrt(count / basis.shape[1])


def attention(theta, similar):
    """Attention of two layers of two heads: similarity in each band, distance within the image, pair of images."""
    matrices = []
    for weights, near, images in zip(theta["similar"], theta["near"], theta["images"], strict=True):
        logits = jnp.einsum("egst,hg->ehst", similar, weights.astype(similar.dtype))
        fixed = near[:, _APART] + images[:, _PAIR]
        matrices.append(jax.nn.softmax(logits + fixed[None].astype(similar.dtype), axis=-2))
    return matrices


def seen(theta, inputs, similar) -> AttentionedInputs:
    """Inputs along the paths of such heads; attention in the precision of `similar`."""
    found = attentioned_inputs(inputs.astype(similar.dtype), attention(theta, similar), readout="mean")
    return AttentionedInputs(found.values.astype(inputs.dtype), found.layers)


@functools.cache  # one function per width, compiled once for all draws
def problem_at(width: float):
    """The problem as a function of theta and data; the temperature is learned with theta."""
    return lambda theta, inputs, similar, labels: Problem(
        seen(theta, inputs, similar), labels, width=width, temperature=jnp.exp(theta["heat"])
    )


def random_start(key):
    """Random attention of standard deviation 0.5, at T = 1."""
    keys = jax.random.split(key, len(_SHAPES))
    shapes = zip(keys, _SHAPES.items(), strict=True)
    start = {name: 0.5 * jax.random.normal(one, shape) for one, (name, shape) in shapes}
    return start | {"heat": jnp.zeros(())}


def restored(numbers):
    """Theta from the numbers of a record."""
    return ravel_pytree(random_start(jax.random.key(0)))[1](jnp.asarray(numbers, float))


@jax.jit
def columns(theta, similar) -> Float[Array, "examples heads heads tokens"]:
    """Reading of each token by each path: the columns of (7), by heads of layers 1 and 2."""
    first, second = attention(theta, similar)
    return jnp.einsum("ehst,ekt->ehks", first, jnp.mean(second, axis=-1))


def distance(one, other) -> float:
    """Mean total-variation distance of paths' columns; heads of each layer in the order of the smallest."""
    orders = list(itertools.permutations(range(_HEADS)))
    apart = [jnp.mean(jnp.abs(one - other[:, first][:, :, second])) for first in orders for second in orders]
    return float(min(apart)) * one.shape[-1] / 2


@dataclass(frozen=True, kw_only=True)
class LearnedImages(Experiment):
    """Climbs from random starts at several widths, the limit last, and what gradient descent does.

    Over `draw`, `start` and `width`: `accuracy`, `log_posterior`, and `theta`, all numbers of the
    end in the order of `ravel_pytree`. Over `draw`, `climb` and `other`, climbs with the width
    slowest: `apart`, the `distance` of learned attention. Gradient descent with the same labels: over
    `draw` `family_accuracy`, of the same family from the first start; over `draw`, `validation` and
    `part` (validation, test) `network_accuracy`, of a network as in the paper.
    """

    data: str = parameter("name for `one_shot_suite`")
    seed: int = parameter("seed of data and starts")
    draws: int = parameter("draws of sequences", ge=1)
    starts: int = parameter("random starts in each draw", ge=1)
    examples: int = parameter("$P$", ge=2)
    width: int = parameter("$N$ beside the limit, and of gradient descent on the same family", ge=1)
    steps: int = parameter("steps of a climb", ge=1)
    test_examples: int = parameter("test sequences, and of the validation classes", ge=2)
    descent_steps: int = parameter("steps of gradient descent on all weights of the paper's network", ge=1)
    suites: Callable[[str], OneShotSuite] = field(default=one_shot_suite, repr=False)

    name: ClassVar[str] = "learned_images"
    revision: ClassVar[int] = 1  # 1: as first recorded
    stem: ClassVar[str] = "images{examples}-seed{seed}"
    unit: ClassVar[str] = "part"

    @property
    def total(self) -> int:
        return 4 * self.draws

    @property
    def all_widths(self) -> list[float]:
        """The width, and infinity."""
        return [float(self.width), np.inf]

    def make(self, state, progress):
        draws = []
        for draw in range(self.draws):
            climbs = []
            for width in self.all_widths:
                climbs.append((yield Part.once(f"climbs{draw}-{width:g}", self.climbs, draw, width)))
            found = [xr.concat(climbs, axis("width", self.all_widths))]
            found.append(self.distances(draw, found[0]))
            found.append((yield Part.once(f"family{draw}", self.family, draw)))
            found.append((yield Part.once(f"network{draw}", self.network, draw)))
            draws.append(xr.merge(found))
        return xr.concat(draws, "draw")

    def recheck(self) -> Recheck:
        """Compute the first climb's end again, from its theta."""
        first = results.load(self.path).isel(draw=0, start=0, width=0)
        again = self.end(self.sets(0), self.all_widths[0], restored(first["theta"].values))
        return Recheck("the end of a climb", largest_difference(again, first), 1e-6)

    def samples(self, draw: int) -> tuple[OneShotSample, OneShotSample, OneShotSample]:
        """Training, validation and test sequences, as of the theory on trained networks."""
        suite = self.suites(self.data)
        key = jax.random.fold_in(jax.random.key(self.seed), draw)
        train, validation, *tests = jax.random.split(key, 2 + len(suite.test_sets))
        inside = next(iter(suite.test_sets))
        return (
            suite.train(train, self.examples),
            suite.task.sample(validation, self.test_examples, suite.split.validation),
            suite.test(tests[0], self.test_examples, inside),
        )

    def sets(self, draw: int) -> tuple[Set, Set, Set]:
        """Sequences of a draw as the family needs them."""
        task = self.suites(self.data).task
        train, validation, test = (set_of(task, sample) for sample in self.samples(draw))
        return train, validation, test

    def climbs(self, draw: int, width: float) -> xr.Dataset:
        """All climbs of a draw; the starts are the same for every width."""
        sets, ends = self.sets(draw), []
        data = sets[0]._replace(similar=sets[0].similar.astype(jnp.float32))  # twice as fast, and no other end
        for start in self._starts(draw):
            learned = learn_attention(problem_at(width), start, data=data, log_prior=log_prior, steps=self.steps)
            theta = xr.DataArray(np.asarray(ravel_pytree(learned.theta)[0]), dims="number")
            ends.append(self.end(sets, width, learned.theta).assign(theta=theta))
        return xr.concat(ends, "start")

    def end(self, sets, width: float, theta) -> xr.Dataset:
        """Log posterior and test accuracy of learned attention."""
        train, _, test = sets
        solution = solve(problem_at(width)(theta, *train))
        right = accuracy(solution.predict(seen(theta, test.inputs, test.similar)).mean, test.labels)
        return xr.Dataset(
            {"accuracy": float(right), "log_posterior": float(sma.log_evidence(solution) + log_prior(theta))}
        )

    def distances(self, draw: int, climbs: xr.Dataset) -> xr.Dataset:
        """Distances of all pairs of climbs, on the first test sequences."""
        similar = set_of(self.suites(self.data).task, self.samples(draw)[2]).similar[:PATTERNS]
        ends = climbs["theta"].transpose("width", "start", "number").values
        read = [columns(restored(one), similar) for one in ends.reshape(-1, ends.shape[-1])]
        return xr.Dataset({"apart": (("climb", "other"), [[distance(one, other) for other in read] for one in read])})

    def family(self, draw: int) -> xr.Dataset:
        """Gradient descent on the same family of attention and all weights, from the first start."""
        train, _, test = self.sets(draw)
        train = train._replace(similar=train.similar.astype(jnp.float32))
        key = jax.random.fold_in(jax.random.key(self.seed + 2), draw)
        features = train.inputs.shape[-1]
        weights = sample_weights(key, layers=(_HEADS, _HEADS), width=self.width, features=features)
        theta, weights = _descended((self._starts(draw)[0], weights), train)
        found = forward_paths(weights, seen(theta, test.inputs, test.similar))
        return xr.Dataset({"family_accuracy": float(accuracy(found, test.labels))})

    def network(self, draw: int) -> xr.Dataset:
        """Gradient descent on all weights, queries and keys of the paper's network."""
        task, layers = self.suites(self.data).task, chain((4, 4))
        train, *others = (sample.sequences for sample in self.samples(draw))
        key, batches = jax.random.split(jax.random.fold_in(jax.random.key(self.seed + 3), draw))
        parameters = initial(key, layers, _WIDTH, _DIMENSION, _FEATURES)
        state = parameters, adam(_RATE, _DECAY).init(parameters)
        right = []
        for number in range(-(-self.descent_steps // _EVERY)):
            state = _advanced(state, task.compact, train, jax.random.fold_in(batches, number))
            right.append([validate(state[0], task.compact, one, layers)[1] for one in others])
        return xr.Dataset({"network_accuracy": (("validation", "part"), right)})

    def _starts(self, draw: int) -> list:
        key = jax.random.fold_in(jax.random.key(self.seed + 1), draw)
        return [random_start(jax.random.fold_in(key, number)) for number in range(self.starts)]


@jax.jit
def _descended(start, train: Set):
    """Attention and weights after Adam on squared errors, all decays those of the posterior (8)."""

    def objective(both):
        theta, weights = both
        misfit = forward_paths(weights, seen(theta, train.inputs, train.similar)) - train.labels
        return (
            0.5 * jnp.sum(misfit**2) / _DESCENT_TEMPERATURE
            + 0.5 * optax.tree.norm(weights, squared=True)
            - log_prior(theta)
        )

    return minimised(objective, start, _DESCENT_RATE, _DESCENT_STEPS)


@jax.jit
def _advanced(state, compact: CompactTokens, train: Sequences, key):
    """The paper's network after some steps on batches of the same sequences."""
    layers, optimiser = chain((4, 4)), adam(_RATE, _DECAY)
    batch = min(_BATCH, len(train.labels))

    def step(state, key):
        parameters, internal = state
        chosen = jax.random.choice(key, len(train.labels), (batch,), replace=False)
        patches = normalised_patches(compact, train.drawings[chosen], jnp.float32)

        def loss(parameters):
            found = outputs(parameters, compact, patches, train.first[chosen], layers)
            return jnp.mean((found - train.labels[chosen]) ** 2)

        updates, internal = optimiser.update(jax.grad(loss)(parameters), internal, parameters)
        return (optax.apply_updates(parameters, updates), internal), None

    return jax.lax.scan(step, state, jax.random.split(key, _EVERY))[0]
