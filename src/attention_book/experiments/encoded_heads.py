r"""The attention of a pretrained encoder as data, recorded: accuracy and evidence of the theory, and which heads to keep.

Two networks see the sentences of a task: "deep" has a layer of heads on each of some of the encoder's layers, "flat" all of its
heads side by side in one layer. Widths and temperatures are those of the deep one; heads are selected in both. A third one,
"narrow", is the deep network with heads of a value dimension, as the encoder's own.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from attention_book.experiments.again import Again, difference
from attention_book.experiments.encoded_grid import Problem, by_labels, grid, limit
from attention_book.experiments.encoded_inputs import Stored, dataset_of, inputs_of, stored_inputs
from attention_book.experiments.encoded_tasks import TASKS, EncodedTask, Words, encoded_task, missing, words
from attention_book.experiments.experiment import Experiment, Part, axis, different
from attention_book.experiments.kept_heads import EVIDENCE, selected
from attention_book.experiments.linear_probes import logistic, ridge
from statmech_attention import checks, results
from statmech_attention.layers import Heads
from statmech_attention.model.accuracy import right
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.saddle_point import solve

NETWORKS = ("deep", "flat")
# A temperature is that of the largest log evidence, or of the best accuracy on validation sentences.
CHOSEN_BY = {"evidence": "log_evidence", "validation": "validation_accuracy"}


@dataclass(frozen=True, kw_only=True)
class EncodedHeads(Experiment):
    r"""One split of a task: theory over widths and temperatures, over labels, and the heads to keep.

    The record has by the ending of names for every network what `encoded_grid.grid` gives, infinity among the
    widths (of the flat network it and the narrowest alone), for plain heads the Gaussian-process limit, and of "deep" and "flat" what
    `kept_heads.selected` gives at the temperature `chosen_by` evidence and by validation; over `labels` the accuracy of the theory at the
    narrowest width, NaN beyond the training sentences, of its limit, and of ridge and logistic regression on pooled embeddings.

    Attributes:
        seed: of the split, of random orders and of initial weights.
        task: a name of `encoded_tasks.TASKS`.
        layers: the encoder's, for the layers of the deep network, counted from 0.
        examples: $P$.
        validation_examples: sentences to choose by.
        test_examples: test sentences.
        labels: numbers of labels, in any order; limit and regressions take them all.
        directions: $N_0$.
        head_dimension: $d$ of the narrow network.
        widths: $N$, in any order.
        temperatures: $T$, in any order.
        kept_deep: numbers of heads kept, values learned again.
        kept_flat: the same of the flat network.
        random: random orders of heads.
        steps: of gradient descent.
        stored: keep attentioned inputs in the record, about a megabyte.
    """

    seed: int
    task: str
    layers: Sequence[int]
    examples: int
    validation_examples: int
    test_examples: int
    labels: Sequence[int]
    directions: int
    head_dimension: int
    widths: Sequence[float | int]
    temperatures: Sequence[float | int]
    kept_deep: Sequence[int]
    kept_flat: Sequence[int]
    random: int
    steps: int
    stored: bool = False
    read: Callable[..., Words] = field(default=words, metadata={"recorded": False}, repr=False)

    name: ClassVar[str] = "encoder"
    revision: ClassVar[int] = 1  # 1: as first recorded
    unit: ClassVar[str] = "part"

    def __post_init__(self):
        for name in ("widths", "temperatures"):
            object.__setattr__(self, name, different(name, getattr(self, name)))
        for name in ("labels", "kept_deep", "kept_flat"):
            numbers = different(name, getattr(self, name), whole=True)
            object.__setattr__(self, name, [int(number) for number in numbers])
        object.__setattr__(self, "layers", list(self.layers))

    @property
    def path(self) -> Path:
        return Path(self.folder) / f"encoder-{self.task}-seed{self.seed}.nc"

    def check(self) -> None:
        least = {"examples": 10, "validation_examples": 1, "test_examples": 2}
        least |= dict.fromkeys(("directions", "head_dimension", "steps"), 1)
        for name, number in least.items():
            checks.whole(name, getattr(self, name), number)
        checks.whole("random", self.random, 0)
        checks.choice("task", self.task, tuple(TASKS))
        if self.labels[0] < 10:
            raise ValueError(f"labels: wanted at least 10, got {self.labels[0]}.")
        if not float(self.widths[0]).is_integer():
            raise ValueError(f"widths: wanted a whole number as the smallest, got {self.widths[0]}.")

    @property
    def missing(self) -> str:
        return "" if self.stored else missing(self.task)

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
        heads = tuple(Heads(count, values=self.head_dimension) for count in deep.chain.heads)
        return found._replace(networks={**found.networks, "narrow": AttentionedInputs(deep.values, heads)})

    def problem(self, encoded: EncodedTask, network: str, examples: int | None = None) -> Problem:
        """What a network learns from, with so many training sentences, and is tested on."""
        counts = examples or self.examples, self.validation_examples, self.test_examples
        return Problem.of(encoded.networks[network], encoded.labels, *counts)

    def again(self) -> Again:
        """One saddle point of all heads, and the accuracy of a few heads that are learned again; by what is stored."""
        there = results.load(self.path).sel(chosen_by="evidence")
        kept = stored_inputs(there) if self.stored else self._kept(self.encoded(), there)
        heat = float(there["chosen_temperature_deep"])
        options: dict[str, Any] = {"width": self.widths[0], "temperature": heat, "tolerance": 1e-6}
        whole = solve(kept.train, kept.labels, **options)
        outputs = solve(kept.train.keep_heads(kept.kept), kept.labels, **options).predict(kept.test).mean
        at = there.sel(width_deep=self.widths[0], temperature=heat)
        size = sum(map(len, kept.kept))
        apart = max(
            difference(whole.log_evidence(), at["log_evidence_deep"]),
            difference(whole.head_scores(), at["score_deep"].sel(definition="both")),
            difference(
                right(outputs, kept.test_labels).mean(), there["learned_deep"].sel(order_deep="both", kept_deep=size)
            ),
        )
        # The gradient of what was recorded is below 1e-4, and scores are known to about as much.
        return Again(f"the theory at N = {self.widths[0]:g}, and {size} heads kept", apart, 1e-3)

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
            rows.append([theory, limit(problem, self.temperatures), *map(float, hits)])
        step()
        names = ("theory", "gp", "ridge", "logistic")
        columns = {f"{name}_by_labels": ("labels", one) for name, one in zip(names, np.array(rows).T, strict=True)}
        return xr.Dataset(columns, {"labels": self.labels})

    def _selected(self, encoded, network: str, temperature: float, before: list[xr.Dataset], step) -> xr.Dataset:
        """`before`: the same at another temperature; evidence lost is taken from there."""
        data = encoded()
        problem, per_layer = self.problem(data, network), data.networks["deep"].heads[0]
        known = {EVIDENCE: before[0]["head_score"].sel(criterion=EVIDENCE).values} if before else {}
        found = selected(
            problem,
            width=int(self.widths[0]),
            temperature=temperature,
            sizes=self.kept_flat if network == "flat" else self.kept_deep,
            random=self.random,
            seed=self.seed,
            steps=self.steps,
            layers=(per_layer,) * (sum(problem.train.chain.heads) // per_layer),
            known=known,
        )
        step()
        return found

    def _inputs(self, encoded, found: xr.Dataset, step) -> xr.Dataset:
        return dataset_of(self._kept(encoded(), found.sel(chosen_by="evidence")))

    def _kept(self, encoded: EncodedTask, found: xr.Dataset) -> Stored:
        scores = found["head_score_deep"].sel(criterion_deep="both").values
        return inputs_of(self.problem(encoded, "deep"), scores, self.kept_deep)


def named(found: xr.Dataset, network: str) -> xr.Dataset:
    """With the network in the names of variables and axes, but for those that both networks share."""
    own = {*found.data_vars, *found.dims} - {"temperature", "definition", "sentence", "chosen_by"}
    return found.rename({name: f"{name}_{network}" for name in own})
