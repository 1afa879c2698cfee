"""The attention of a pretrained encoder as data: theory, and the heads to keep.

"deep" has a layer of heads on each of some of the encoder's layers, "flat" all of its heads in one
layer, "narrow" is the deep network with the encoder's value dimension.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import statmech_attention as sma
from attention_book import results
from attention_book.experiments.encoded_inputs import (
    EncodedProblem,
    EncodedTask,
    OnEncoder,
    Stored,
    Words,
    check_split,
    dataset_of,
    encoded_task,
    inputs_of,
    part_of,
    participation,
    shuffled,
    stored_inputs,
    tf_idf,
    uniform,
)
from attention_book.experiments.encoded_theory import EVIDENCE, TOLERANCE, by_labels, grid, halves, selected
from attention_book.experiments.experiment import Part, Recheck, axis, difference, parameter
from attention_book.experiments.linear_probes import logistic, ridge
from statmech_attention import AttentionedInputs, Heads, Problem, checks, kernel, solve
from statmech_attention.model.accuracy import right
from statmech_attention.theory import gp_order_parameters

NETWORKS = ("deep", "flat")
# A temperature is that of the largest log evidence, or of the best accuracy on validation sentences.
CHOSEN_BY = {"evidence": "log_evidence", "validation": "validation_accuracy"}
# The encoder's attention, with every path's mean subtracted, of shuffled queries and keys, and none.
ATTENTIONS = ("real", "centred", "shuffled0", "shuffled1", "shuffled2", "uniform")


@dataclass(frozen=True, kw_only=True)
class EncodedHeads(OnEncoder):
    """One split of a task: theory over widths and temperatures, over labels, and the heads to keep.

    The record has, by network, `encoded_theory.grid` and, at the temperatures `chosen_by` evidence
    and by validation, `encoded_theory.selected`; over `labels` the accuracy of the theory, of its
    limit, and of ridge and logistic regression on pooled embeddings.
    """

    layers: Sequence[int] = parameter("the encoder's, for the layers of the deep network, counted from 0")
    validation_examples: int = parameter("sentences to choose by", ge=1)
    test_examples: int = parameter("test sentences", ge=2)
    labels: Sequence[int] = parameter("numbers of labels; limit and regressions take them all", each=int)
    head_dimension: int = parameter("$d$ of the narrow network", ge=1)
    widths: Sequence[float | int] = parameter("$N$", each=float)
    kept_deep: Sequence[int] = parameter("numbers of heads kept, values learned again", each=int)
    kept_flat: Sequence[int] = parameter("the same of the flat network", each=int)
    random: int = parameter("random orders of heads", ge=0)
    steps: int = parameter("steps of gradient descent", ge=1)
    stored: bool = parameter("attentioned inputs are kept in the record, about a megabyte", False)

    name: ClassVar[str] = "encoder"
    revision: ClassVar[int] = 1  # 1: as first recorded
    stem: ClassVar[str] = "encoder-{task}-seed{seed}"

    def check(self) -> None:
        super().check()
        if self.labels[0] < 10:
            raise ValueError(f"labels: wanted at least 10, got {self.labels[0]}.")
        if not float(self.widths[0]).is_integer():
            raise ValueError(f"widths: wanted a whole number as the smallest, got {self.widths[0]}.")

    @property
    def missing(self) -> str:
        return "" if self.stored else super().missing

    @property
    def total(self) -> int:
        return 4 + len(NETWORKS) * len(CHOSEN_BY)

    def make(self, state, progress):
        encoded, narrow = functools.cache(self.encoded), self.widths[0]
        found, heats = [], {}
        for network, widths in (("deep", self.widths), ("flat", self.widths[:1])):
            part = yield Part(f"{network}-grid", functools.partial(self._grid, encoded, network, widths))
            here = part.sel(width=narrow)
            heats[network] = {by: float(here[name].idxmax("temperature")) for by, name in CHOSEN_BY.items()}
            found.append(named(part, network))
        part = yield Part("narrow-grid", functools.partial(self._grid, encoded, "narrow", self.widths))
        found.append(named(part, "narrow"))
        best = found[0]["accuracy_deep"].sel(width_deep=narrow, temperature=heats["deep"]["evidence"])
        found.append((yield Part("labels", functools.partial(self._by_labels, encoded, float(best)))))
        for network in NETWORKS:
            rows = {}
            for by, heat in heats[network].items():
                # Where both choose the same temperature nothing is computed twice.
                same = next((rows[other] for other in rows if heats[network][other] == heat), None)
                compute = functools.partial(self._selected, encoded, network, heat, [*rows.values()])
                rows[by] = (yield Part(f"{network}-by-{by}", compute)) if same is None else same
            found.append(named(xr.concat([*rows.values()], axis("chosen_by", rows)), network))
        together = xr.merge(found)
        if self.stored:
            together = together.merge((yield Part("stored", functools.partial(self._inputs, encoded, together), 0)))
        return together

    def encoded(self) -> EncodedTask:
        """The sentences, in the order training (with all that `labels` asks for), validation, test."""
        learned = max(self.examples, self.labels[-1])
        read = self.read(self.task, self.seed, learned + self.validation_examples, self.test_examples)
        networks = {"deep": self.layers, "flat": [range(read.encoder.depth)]}
        found = encoded_task(read, networks, self.examples, self.directions)
        deep = found.networks["deep"]
        layers = tuple(Heads(count, values=self.head_dimension) for count in deep.chain.heads)
        return found._replace(networks={**found.networks, "narrow": AttentionedInputs(deep.values, layers)})

    def problem(self, encoded: EncodedTask, network: str, examples: int | None = None) -> EncodedProblem:
        """The problem of a network, with so many training sentences."""
        counts = examples or self.examples, self.validation_examples, self.test_examples
        return EncodedProblem.of(encoded.networks[network], encoded.labels, *counts)

    def recheck(self) -> Recheck:
        """Solve one saddle point of all heads, and one of a few heads, on the inputs stored."""
        there = results.load(self.path).sel(chosen_by="evidence")
        kept = stored_inputs(there) if self.stored else self._kept(self.encoded(), there)
        heat = float(there["chosen_temperature_deep"])
        problem = Problem(kept.train, kept.labels, width=self.widths[0], temperature=heat)
        whole = solve(problem, tolerance=1e-6)
        smaller = problem.replace(attentioned=kept.train.keep_heads(kept.kept))
        outputs = solve(smaller, tolerance=1e-6).predict(kept.test).mean
        at = there.sel(width_deep=self.widths[0], temperature=heat)
        size = sum(map(len, kept.kept))
        hits, learned = right(outputs, kept.test_labels).mean(), there["learned_deep"]
        apart = max(
            difference(sma.log_evidence(whole), at["log_evidence_deep"]),
            difference(
                sma.head_scores(whole.order_parameter, layers=whole.problem.layers),
                at["score_deep"].sel(definition="both"),
            ),
            difference(hits, learned.sel(order_deep="both", kept_deep=size)),
        )
        # The gradient of what was recorded is below 1e-4, and scores are known to about as much.
        return Recheck(f"the theory at N = {self.widths[0]:g}, and {size} heads kept", apart, 1e-3)

    def _grid(self, encoded, network: str, widths, step) -> xr.Dataset:
        data = encoded()
        found = grid(self.problem(data, network), [*widths, np.inf], self.temperatures)
        step()
        # The narrow network sees what the deep one sees.
        return found if network == "narrow" else found.assign(variance_lost=data.variance_lost[network])

    def _by_labels(self, encoded, best: float, step) -> xr.Dataset:
        """`best`: the accuracy of all training sentences, which is known."""
        data, rows = encoded(), []
        tests = slice(len(data.labels) - self.test_examples, None)
        for count in self.labels:
            problem = self.problem(data, "deep", count)
            learned = data.pooled[:count], data.labels[:count]
            hits = [right(fit(*learned)(data.pooled[tests]), data.labels[tests]).mean() for fit in (ridge, logistic)]
            theory = best if count == self.examples else np.nan
            if count < self.examples:
                theory = by_labels(problem, self.widths[0], self.temperatures)
            rows.append([theory, by_labels(problem, np.inf, self.temperatures), *map(float, hits)])
        step()
        names = ("theory", "gp", "ridge", "logistic")
        columns = {f"{name}_by_labels": ("labels", one) for name, one in zip(names, np.array(rows).T, strict=True)}
        return xr.Dataset(columns, {"labels": self.labels})

    def _selected(self, encoded, network: str, temperature: float, before: list[xr.Dataset], step) -> xr.Dataset:
        """Select heads; evidence lost is that at another temperature, if there is one, `before`."""
        data = encoded()
        problem, per_layer = self.problem(data, network), data.networks["deep"].chain.heads[0]
        known = {EVIDENCE: before[0]["head_score"].sel(criterion=EVIDENCE).values} if before else {}
        found = selected(
            problem,
            width=int(self.widths[0]),
            temperature=temperature,
            sizes=self.kept_flat if network == "flat" else self.kept_deep,
            random=self.random,
            seed=self.seed,
            steps=self.steps,
            encoder_layers=(per_layer,) * (sum(problem.train.chain.heads) // per_layer),
            known=known,
        )
        step()
        return found

    def _inputs(self, encoded, found: xr.Dataset, step) -> xr.Dataset:
        return dataset_of(self._kept(encoded(), found.sel(chosen_by="evidence")))

    def _kept(self, encoded: EncodedTask, found: xr.Dataset) -> Stored:
        scores = found["head_score_deep"].sel(criterion_deep="both").values
        return inputs_of(self.problem(encoded, "deep"), scores, self.kept_deep)


@dataclass(frozen=True, kw_only=True)
class EncodedPoints(OnEncoder):
    """The deep network's theory alone, `encoded_theory.grid`: more labels, skips, or another attention.

    Split and features are those of `EncodedHeads`. With skips the inputs are scaled so that the
    outputs' prior variance in the limit is 1, as without: else evidence would tell scales apart.
    With another `attention` than "real" the record has the `participation` of the paths. Uniform
    attention is solved with two heads per layer, which is the same; its record has what TF-IDF with
    ridge has right, `bag_right`, and the larger class's share of the test, `majority`.
    """

    split: Sequence[int] = parameter("training sentences drawn, validation sentences among them, and test sentences")
    layers: Sequence[int] = parameter("the encoder's, for the layers of the network, counted from 0")
    skips: bool = parameter("a skip beside the heads of every layer")
    fitted: int = parameter("training sentences that features are fitted to", ge=2)
    validation_examples: int = parameter("sentences to choose by", ge=1)
    widths: Sequence[float | int] = parameter("$N$, beside infinity", each=float)
    attention: str = parameter("the encoder's, or what is put in its place", "real", among=ATTENTIONS)

    name: ClassVar[str] = "points"
    revision: ClassVar[int] = 1  # 1: as first recorded
    unit: ClassVar[str] = "temperature"

    @property
    def path(self) -> Path:
        kind = "-skips" * self.skips + f"-{self.attention}" * (self.attention != "real")
        return Path(self.folder) / f"{self.name}{self.examples}{kind}-{self.task}-seed{self.seed}.nc"

    @property
    def parameters(self):
        # Records with the encoder's attention were made before there was another one.
        return {name: value for name, value in super().parameters.items() if (name, value) != ("attention", "real")}

    def check(self) -> None:
        super().check()
        check_split(self.split)
        if self.skips and self.attention != "real":
            raise ValueError(f"attention: wanted 'real' with skips, got {self.attention!r}.")
        checks.whole("validation_examples", self.validation_examples, 1, self.split[0] - 1)
        for name in ("fitted", "examples"):
            checks.whole(name, getattr(self, name), 2, self.split[0] - self.validation_examples)

    @property
    def total(self) -> int:
        return len(self.temperatures)

    def make(self, state, progress):
        problem, found = functools.cache(self.problem), []
        for heat in reversed(self.temperatures):  # the hottest is the quickest
            found.append((yield Part(f"temperature{heat:g}", functools.partial(self._at, problem, heat))))
        together = xr.concat(found[::-1], "temperature", data_vars="minimal")
        if self.attention != "real":
            together = together.merge((yield Part("beside", functools.partial(self._beside, problem), 0)))
        return together

    def sentences(self) -> Words:
        """The sentences that are used: first those to learn from, at the end those to choose by and to test on."""
        read, last = self.read(self.task, self.seed, *self.split), self.validation_examples + self.split[1]
        count = len(read.labels)
        rows = np.r_[: max(self.fitted, self.examples), count - last : count]
        return Words(read.encoder, read.tokens[rows], read.labels[rows])

    def problem(self) -> EncodedProblem:
        """The network's problem."""
        read, layers = self.sentences(), self.layers
        encoder = read.encoder
        if self.attention == "uniform":
            encoder, layers = uniform(encoder), [0] * len(layers)
        elif self.attention.startswith("shuffled"):
            encoder = shuffled(encoder, self.seed, int(self.attention.removeprefix("shuffled")))
        encoder = replace(encoder, layers=jax.tree.map(lambda part: part[: max(layers) + 1], encoder.layers))
        encoded = encoded_task(
            read._replace(encoder=encoder),
            {"deep": layers},
            self.fitted,
            self.directions,
            skips=self.skips,
            centred=self.attention == "centred",
        )
        inputs = encoded.networks["deep"]
        if self.attention == "uniform":
            inputs = inputs.keep_heads([(0, 1)] * len(layers))
        if self.skips:
            fitted = part_of(inputs, slice(0, self.fitted))
            size = jnp.mean(jnp.diagonal(kernel(fitted, fitted, gp_order_parameters(inputs.layers)[0])))
            inputs = AttentionedInputs(inputs.values / jnp.sqrt(size), inputs.layers)
        return EncodedProblem.of(inputs, encoded.labels, self.examples, self.validation_examples, self.split[1])

    def recheck(self) -> Recheck:
        """Solve the saddle point at the smallest width and the largest temperature."""
        width, heat, data = self.widths[0], self.temperatures[-1], self.problem()
        problem = Problem(data.train, data.labels, width=width, temperature=heat)
        solution = solve(problem, tolerance=TOLERANCE / 100)
        there = results.load(self.path).sel(width=width, temperature=heat)
        apart = max(
            difference(sma.log_evidence(solution), there["log_evidence"]),
            difference(
                sma.head_scores(solution.order_parameter, layers=solution.problem.layers),
                there["score"].sel(definition="both"),
            ),
        )
        # As for `EncodedHeads`: recorded to a gradient of 1e-4.
        return Recheck(f"the theory at N = {width:g}, T = {heat:g}", apart, 1e-3)

    def _beside(self, problem, step) -> xr.Dataset:
        found = xr.Dataset({"participation": participation(problem().train)})
        if self.attention != "uniform":
            return found
        read, train, tests = self.sentences(), slice(0, self.examples), slice(-self.split[1], None)
        terms, labels = tf_idf(read.tokens, self.examples), read.labels
        hits = right(ridge(terms[train], labels[train])(terms[tests]), labels[tests])
        share = np.mean(labels[tests] > 0)
        return found.assign(bag_right=("sentence", halves(hits)), majority=max(share, 1 - share))

    def _at(self, problem, heat: float, step) -> xr.Dataset:
        found = grid(problem(), [*self.widths[::-1], np.inf], [heat])
        step()
        return found


def named(found: xr.Dataset, network: str) -> xr.Dataset:
    """Put the network into the names of variables and axes, but for those that the networks share."""
    own = {*found.data_vars, *found.dims} - {"temperature", "definition", "sentence", "chosen_by"}
    return found.rename({name: f"{name}_{network}" for name in own})
