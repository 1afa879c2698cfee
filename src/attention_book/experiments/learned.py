"""Attention learned by the evidence from random starts, beside designed heads and gradient descent."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jax.flatten_util import ravel_pytree

import statmech_attention as sma
from attention_book import results
from attention_book.experiments.experiment import Experiment, Part, Recheck, axis, largest_difference, parameter
from statmech_attention.model.attention import (
    attention_from_products,
    attention_from_queries_and_keys,
    relative_bias,
)
from statmech_attention.model.network import forward_paths, sample_weights
from statmech_attention.model.paths import attentioned_inputs
from statmech_attention.sampling import Chains, attention_posterior
from statmech_attention.tasks import HiddenMarkov
from statmech_attention.theory.predictor import accuracy
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.saddle_point import solve, solve_sweep
from statmech_attention.training import learn_attention

TASK = HiddenMarkov(length=20, token_size=20)
SHORT = HiddenMarkov(length=11, token_size=8)  # where all queries and keys are learned
FAMILIES = ("queries and keys", "positions")  # on these; the second is that of all climbs
_CHAINS, _DIMENSION = 2, 4
TEMPERATURES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # of designed heads
HARDNESSES = (2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 50.0)  # of all heads; the paper has 10
HARDNESS_TEMPERATURE = 0.01
DECAYS = (1.0, 0.0)  # of gradient descent, in units of the prior's
_DESCENT_TEMPERATURE, _DESCENT_STEPS, _DESCENT_RATE = 0.2, 300, 0.03
_LOG_HARDNESS, _DEVIATION = np.log(10.0), 2.0  # of the prior of learned hardnesses
HEADS = {"one": (), "layer": (2, 1), "head": (2, 2)}  # shapes of learned hardnesses: layers, heads
SHARES = (8, 4, 2, 1)  # posterior samples are drawn with an eighth of the labels, and so on
_SHAPES = {"positions": (2, 2, 7), "same": (2, 2), "empty": (2, 2)}  # layers, heads


def attention(theta, inputs, task=TASK):
    """Attention of two layers of two heads: a table of positions, "same state", the empty token."""
    along = inputs[..., : task.token_size] @ ((task.states[0] - task.states[1]) / task.token_size)
    same = along[:, None, :, None] * along[:, None, None, :]
    first = np.eye(task.tokens)[None, :, :1]  # the empty token is the first key
    return [
        jax.nn.softmax((relative_bias(table, task.tokens) + empty * first)[None] + weight[None] * same, axis=-2)
        for table, weight, empty in zip(
            theta["positions"], *(theta[name][..., None, None] for name in ("same", "empty")), strict=True
        )
    ]


def seen(theta, inputs):
    """Inputs along the paths of such heads."""
    return attentioned_inputs(inputs, attention(theta, inputs), readout="mean")


def seen_short(theta, inputs):
    """Short chains along the paths of heads of either family."""
    if "queries" in theta:
        layers = attention_from_queries_and_keys(list(theta["queries"]), list(theta["keys"]))
    else:
        layers = attention(theta, inputs, SHORT)
    return attentioned_inputs(inputs, layers, readout="mean")


def short_start(key, family: str):
    """Random attention of a family; queries and keys from their prior, at T = 1."""
    if family == "positions":
        return random_start(key)
    shape = (2, 2, _DIMENSION, SHORT.features)
    start = {
        name: jax.random.normal(one, shape)
        for name, one in zip(("queries", "keys"), jax.random.split(key), strict=True)
    }
    return start | {"heat": jnp.zeros(())}


def short_prior(theta):
    """Standard normal queries and keys; else Gaussian with standard deviation 5, the logarithm of T too."""
    wide = {name: array for name, array in theta.items() if name not in ("queries", "keys")}
    return log_prior(wide) - 0.5 * sum(jnp.sum(theta[name] ** 2) for name in theta if name not in wide)


@functools.cache
def short_problem_at(width: float):
    """As `problem_at`, on short chains."""
    return lambda theta, inputs, labels: Problem(
        seen_short(theta, inputs), labels, width=width, temperature=jnp.exp(theta["heat"])
    )


@functools.cache
def hardness_problem_at(width: float):
    """The problem as a function of the logarithms of inverse temperatures, of any shape that `HEADS` has."""

    def problem_of(theta, logits, inputs, labels):
        return Problem(_at_hardness(theta, logits, inputs), labels, width=width, temperature=HARDNESS_TEMPERATURE)

    return problem_of


def hardness_prior(theta):
    """Gaussian with standard deviation 2 about ln 10."""
    return -jnp.sum((theta - _LOG_HARDNESS) ** 2) / (2 * _DEVIATION**2)


@functools.cache  # one function per width, compiled once for all draws
def problem_at(width: float):
    """The problem as a function of theta and data; the temperature is learned with theta."""
    return lambda theta, inputs, labels: Problem(
        seen(theta, inputs), labels, width=width, temperature=jnp.exp(theta["heat"])
    )


def log_prior(theta):
    """Gaussian with standard deviation 5."""
    return -sum(jnp.sum(array**2) for array in theta.values()) / (2 * 5**2)


def random_start(key):
    """Random attention of standard deviation 0.5, at T = 1."""
    keys = jax.random.split(key, len(_SHAPES))
    shapes = zip(keys, _SHAPES.items(), strict=True)
    start = {name: 0.5 * jax.random.normal(one, shape) for one, (name, shape) in shapes}
    return start | {"heat": jnp.zeros(())}


@dataclass(frozen=True, kw_only=True)
class Learned(Experiment):
    """Climbs from random starts over numbers of examples and widths, the limit last.

    Over `draw`, `start`, `examples`, `width`: `accuracy`, `log_posterior`, and `theta`, all numbers
    of the end in the order of `ravel_pytree`; over `draw`, `examples`, `width` and `temperature` of
    designed heads: `designed_accuracy` and `designed_evidence`; of gradient descent on all weights,
    over `descent`, `start`, `examples`, `decay` and `half` of the test chains: `descent_accuracy`;
    of the paper's chains over `draw`, `hardness` and `width`: `hardness_accuracy`,
    `hardness_evidence`; at learned inverse temperatures, one for `each` of `HEADS`:
    `each_hardness`, over layers and heads, `each_accuracy`, `each_evidence`. Of short chains over
    `family`, `labels` and `chain`: `sampled_accuracy`, `sampled_score` (log density per test
    label), `sampled_density`, `sampled_heat`; at the end of a climb: `maximum_accuracy`,
    `maximum_score`, `maximum_heat`, and `maximum_evidence` at its start and end.
    """

    seed: int = parameter("seed of data and starts")
    draws: int = parameter("draws of chains and random heads", ge=1)
    starts: int = parameter("random starts in each draw", ge=1)
    examples: Sequence[int] = parameter("$P$", each=int)
    widths: Sequence[int] = parameter("$N$ beside the limit; gradient descent has the smallest", each=int)
    steps: int = parameter("steps of a climb", ge=1)
    test_examples: int = parameter("test chains", ge=2)
    descents: int = parameter("draws with gradient descent; 0 for climbs with nothing beside them", ge=0)
    hardness_examples: int = parameter(
        "$P$ of the chains whose heads differ in hardness; 0 for neither these nor posterior samples", ge=0
    )

    name: ClassVar[str] = "learned"
    revision: ClassVar[int] = 1  # 1: as first recorded
    stem: ClassVar[str] = "learned-seed{seed}"
    unit: ClassVar[str] = "part"

    @property
    def total(self) -> int:
        climbs = len(self.examples) * len(self.all_widths)
        beside = 2 * len(self.examples) if self.descents else 0
        return climbs + beside + (self.draws + len(FAMILIES) * len(SHARES) if self._has_hardness else 0)

    @property
    def _has_hardness(self) -> bool:
        return bool(self.descents and self.hardness_examples)

    @property
    def all_widths(self) -> list[float]:
        """Widths, and infinity."""
        return [*map(float, self.widths), np.inf]

    def make(self, state, progress):
        by_examples = []
        for examples in self.examples:
            climbs = []
            for width in self.all_widths:
                climbs.append((yield Part.once(f"climbs{examples}-{width:g}", self.climbs, examples, width)))
            found = [xr.concat(climbs, axis("width", self.all_widths))]
            if self.descents:
                found.append((yield Part.once(f"designed{examples}", self.designed, examples)))
                found.append((yield Part.once(f"descent{examples}", self.descent, examples)))
            by_examples.append(xr.merge(found))
        together = [xr.concat(by_examples, axis("examples", self.examples))]
        if self._has_hardness:
            rows = []
            for draw in range(self.draws):
                rows.append((yield Part.once(f"hardness{draw}", self.hardness_and_each, draw)))
            together.append(xr.concat(rows, "draw"))
            families = []
            for family in FAMILIES:
                counts, rows = [self.examples[0] // share for share in SHARES], []
                for count in counts:
                    rows.append((yield Part.once(f"sampled-{family[0]}{count}", self.samples, family, count)))
                families.append(xr.concat(rows, axis("labels", counts)))
            together.append(xr.concat(families, axis("family", FAMILIES)))
        return xr.merge(together)

    def recheck(self) -> Recheck:
        """Compute the first climb's end, from its theta, and hardness 2 of the first draw if there is one, again."""
        recorded = results.load(self.path)
        first = recorded.isel(draw=0, start=0, examples=0, width=0)
        again = self.end(self.sets(0, self.examples[0]), self.all_widths[0], restored(first["theta"].values))
        differences = [largest_difference(again, first)]
        if self._has_hardness:
            hardness = self.hardness(0, HARDNESSES[:1])
            differences.append(largest_difference(hardness, recorded.isel(draw=0, hardness=[0])))
        return Recheck("the end of a climb, and a hardness", max(differences), 1e-6)

    def sets(self, draw: int, examples: int):
        """Training and test chains of one draw."""
        key = jax.random.fold_in(jax.random.key(self.seed), draw)
        train, test = jax.random.split(key)
        return TASK.sample(jax.random.fold_in(train, examples), examples), TASK.sample(test, self.test_examples)

    def climbs(self, examples: int, width: float) -> xr.Dataset:
        """All climbs at one number of examples and width; the starts are the same for every width."""
        rows = []
        for draw in range(self.draws):
            sets = self.sets(draw, examples)
            data = sets[0].inputs, sets[0].labels
            ends = []
            for start in range(self.starts):
                key = jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed + 1), draw), start)
                learned = learn_attention(
                    problem_at(width), random_start(key), data=data, log_prior=log_prior, steps=self.steps
                )
                theta = xr.DataArray(np.asarray(ravel_pytree(learned.theta)[0]), dims="number")
                ends.append(self.end(sets, width, learned.theta).assign(theta=theta))
            rows.append(xr.concat(ends, "start"))
        return xr.concat(rows, "draw")

    def end(self, sets, width: float, theta) -> xr.Dataset:
        """Log posterior and test accuracy of learned attention."""
        train, test = sets
        solution = solve(problem_at(width)(theta, train.inputs, train.labels))
        right = accuracy(solution.predict(seen(theta, test.inputs)).mean, test.labels)
        return xr.Dataset(
            {"accuracy": float(right), "log_posterior": float(sma.log_evidence(solution) + log_prior(theta))}
        )

    def designed(self, examples: int) -> xr.Dataset:
        """The paper's heads on the same chains, over temperatures."""
        rows = []
        for draw in range(self.draws):
            train, test = self.sets(draw, examples)
            heads = TASK.heads(jax.random.fold_in(jax.random.key(self.seed + 2), draw))
            along = [attentioned_inputs(one.inputs, attention_from_products(heads)) for one in (train, test)]
            problem = Problem(along[0], train.labels)
            sweep = solve_sweep(problem, widths=self.all_widths, temperatures=TEMPERATURES)
            rows.append(_measured(sweep, along[1], test.labels, "designed", ["width", "temperature"]))
        return xr.concat(rows, "draw").assign_coords(temperature=list(TEMPERATURES))

    def hardness_and_each(self, draw: int) -> xr.Dataset:
        """Several inverse temperatures of all heads, and learned ones."""
        return xr.merge([self.hardness(draw), self.each_hardness(draw)])

    def paper_chains(self, draw: int):
        """Training and test chains of the paper, and the logits of its heads on each."""
        task = HiddenMarkov(hardness=1)
        train, test, key = jax.random.split(jax.random.fold_in(jax.random.key(self.seed + 3), draw), 3)
        sets = task.sample(train, self.hardness_examples), task.sample(test, self.test_examples)
        heads = task.heads(key)
        return sets, [[_logits(one.inputs, products) for products in heads] for one in sets]

    def each_hardness(self, draw: int) -> xr.Dataset:
        """Learned inverse temperatures: one for all heads, one per layer, one per head."""
        (train, test), logits = self.paper_chains(draw)
        data, by_width = (logits[0], train.inputs, train.labels), []
        for width in self.all_widths:
            rows = []
            for shape in HEADS.values():
                start = jnp.full(shape, _LOG_HARDNESS)
                learned = learn_attention(
                    hardness_problem_at(width), start, data=data, log_prior=hardness_prior, steps=self.steps
                )
                outputs = learned.solution.predict(_at_hardness(learned.theta, logits[1], test.inputs)).mean
                found = {
                    "each_accuracy": float(accuracy(outputs, test.labels)),
                    "each_evidence": float(sma.log_evidence(learned.solution)),
                    "each_hardness": (("layer", "head"), np.exp(np.broadcast_to(learned.theta, (2, 2)))),
                }
                rows.append(xr.Dataset(found))
            by_width.append(xr.concat(rows, axis("each", list(HEADS))))
        return xr.concat(by_width, axis("width", self.all_widths))

    def samples(self, family: str, count: int) -> xr.Dataset:
        """Posterior samples of attention on the first `count` short chains, and the maximum beside them."""
        key = jax.random.fold_in(jax.random.key(self.seed + 4), 0)
        train_key, test_key, start_key, chain_key = jax.random.split(key, 4)
        train, test = SHORT.sample(train_key, self.examples[0]), SHORT.sample(test_key, self.test_examples)
        data, width = (train.inputs[:count], train.labels[:count]), float(self.widths[0])
        first, *starts = (short_start(one, family) for one in jax.random.split(start_key, 1 + _CHAINS))
        problem_of = short_problem_at(width)
        learned = learn_attention(problem_of, first, data=data, log_prior=short_prior, steps=self.steps)
        ends = [solve(problem_of(first, *data)), learned.solution]
        end = ends[1].predict(seen_short(learned.theta, test.inputs))
        draws = max(4, self.steps // 2)
        drawn = attention_posterior(
            lambda theta: problem_of(theta, *data),
            {name: jnp.stack([one[name] for one in starts]) for name in first},
            log_prior=short_prior,
            key=chain_key,
            test_of=lambda theta: seen_short(theta, test.inputs),
            chains=Chains(draws=draws, count=_CHAINS, warmup=draws, warn=False, progress=False),
        )
        mean, heat = drawn["output"].values, np.exp(drawn["heat"].values)
        scores = _log_density(test.labels, mean, drawn["output_variance"].values + heat[..., None])
        score = np.mean(np.logaddexp.reduce(scores, axis=1) - np.log(draws), axis=-1)
        right = np.mean(mean.mean(axis=1) * np.asarray(test.labels) > 0, axis=-1)
        warmest = float(np.exp(learned.theta["heat"]))
        return xr.Dataset(
            {
                "sampled_accuracy": ("chain", right),
                "sampled_score": ("chain", score),
                "sampled_density": ("chain", -drawn["potential"].values.mean(axis=1)),
                "sampled_heat": ("chain", np.exp(np.log(heat).mean(axis=1))),
                "maximum_accuracy": float(accuracy(end.mean, test.labels)),
                "maximum_score": float(np.mean(_log_density(test.labels, end.mean, end.variance + warmest))),
                "maximum_heat": warmest,
                "maximum_evidence": ("end", [float(sma.log_evidence(one)) for one in ends]),
            }
        )

    def hardness(self, draw: int, hardnesses: Sequence[float] = HARDNESSES) -> xr.Dataset:
        """The paper's chains and heads, at several inverse temperatures of all heads."""
        (sets, logits), rows = self.paper_chains(draw), []
        for hardness in hardnesses:
            along = [
                _at_hardness(np.log(hardness), layers, one.inputs) for one, layers in zip(sets, logits, strict=True)
            ]
            problem = Problem(along[0], sets[0].labels)
            sweep = solve_sweep(problem, widths=self.all_widths, temperatures=[HARDNESS_TEMPERATURE])[:, 0]
            rows.append(_measured(sweep, along[1], sets[1].labels, "hardness", ["width"]))
        return xr.concat(rows, axis("hardness", hardnesses))

    def descent(self, examples: int) -> xr.Dataset:
        """Gradient descent on attention and all weights of the narrowest network."""
        rows = []
        for draw in range(self.descents):
            train, test = self.sets(draw, examples)
            key, right = jax.random.fold_in(jax.random.key(self.seed + 1), draw), []
            for start in range(self.starts):
                own = jax.random.fold_in(key, start)
                theta = random_start(own)  # that of the climbs
                del theta["heat"]
                weights_key = jax.random.fold_in(own, 1)
                weights = sample_weights(weights_key, layers=(2, 2), width=self.widths[0], features=TASK.features)
                for decay in DECAYS:
                    outputs = _descended((theta, weights), train.inputs, train.labels, test.inputs, decay)
                    right.append([np.mean(half) for half in np.array_split(np.asarray(outputs * test.labels > 0), 2)])
            halves = np.reshape(right, (self.starts, len(DECAYS), 2))
            rows.append(xr.Dataset({"descent_accuracy": (("start", "decay", "half"), halves)}))
        return xr.concat(rows, "descent").assign_coords(decay=list(DECAYS))


def restored(numbers):
    """Theta from the numbers of a record."""
    return ravel_pytree(random_start(jax.random.key(0)))[1](jnp.asarray(numbers, float))


@jax.jit
def _logits(inputs, products):
    return jnp.einsum("esi,hij,etj->ehst", inputs, jnp.asarray(products), inputs, optimize="optimal")


def _at_hardness(theta, logits, inputs):
    """Inputs along the paths of heads with the inverse temperatures exp(theta)."""
    hardness = jnp.broadcast_to(jnp.exp(theta), (2, 2))[..., None, None]
    return attentioned_inputs(
        inputs, [jax.nn.softmax(one[None] * layer, axis=-2) for one, layer in zip(hardness, logits, strict=True)]
    )


def _log_density(labels, mean, variance):
    """Logarithm of the normal density of every label."""
    return -0.5 * ((np.asarray(labels) - mean) ** 2 / variance + np.log(2 * np.pi * variance))


def _measured(sweep, test, labels, name: str, dims: list[str]) -> xr.Dataset:
    right = np.mean(np.asarray(sweep.predict(test).mean) * np.asarray(labels) > 0, axis=-1)
    return xr.Dataset(
        {f"{name}_accuracy": (dims, np.asarray(right)), f"{name}_evidence": (dims, np.asarray(sma.log_evidence(sweep)))}
    )


def minimised(objective, start, rate: float, steps: int):
    """The end of Adam on an objective, at a rate that falls to zero along a cosine."""
    optimiser = optax.adam(optax.cosine_decay_schedule(rate, steps))

    def step(state, _):
        point, internal = state
        updates, internal = optimiser.update(jax.grad(objective)(point), internal)
        return (optax.apply_updates(point, updates), internal), None

    return jax.lax.scan(step, (start, optimiser.init(start)), None, length=steps)[0][0]


@jax.jit
def _descended(start, inputs, labels, test, decay):
    """Test outputs after Adam on squared errors, all decays those of the posterior (8) times `decay`."""

    def objective(both):
        theta, weights = both
        misfit = forward_paths(weights, seen(theta, inputs)) - labels
        return (
            0.5 * jnp.sum(misfit**2) / _DESCENT_TEMPERATURE
            + 0.5 * decay * optax.tree.norm(weights, squared=True)
            - log_prior(theta)
        )

    theta, weights = minimised(objective, start, _DESCENT_RATE, _DESCENT_STEPS)
    return forward_paths(weights, seen(theta, test))
