"""Heads removed from an encoder for good, and all that is left trained further on the task."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import jax
import numpy as np
import xarray as xr

from attention_book import results
from attention_book.experiments.encoded_inputs import MADE, TASKS, Words
from attention_book.experiments.experiment import Experiment, Part, Recheck, parameter
from attention_book.experiments.masked_heads import features, fine_tuned
from attention_book.experiments.removed_heads import LAYERS, SCORES, RemovedHeads
from attention_book.tasks import Encoder, _installed
from statmech_attention.model.accuracy import right

WHOLE = "all heads"


@dataclass(frozen=True, kw_only=True)
class TunedHeads(Experiment):
    """One split of a task: test accuracy of the encoders of `RemovedHeads`, each fine-tuned."""

    task: str = parameter("name of the task", among=tuple(TASKS))
    seed: int = parameter("seed of the split, of random orders and of fine-tuning", ge=0)
    test_examples: int = parameter("test sentences", ge=2)
    random: int = parameter("random orders of heads, the first of `RemovedHeads`", ge=1)
    epochs: int = parameter("epochs of fine-tuning", ge=1)
    rate: float = parameter("largest learning rate of fine-tuning", gt=0)
    batch: int = parameter("sentences per step", ge=1)

    name: ClassVar[str] = "tuned"
    revision: ClassVar[int] = 1  # 1: as first recorded
    stem: ClassVar[str] = "tuned-{task}-seed{seed}"
    unit: ClassVar[str | None] = "network"

    @property
    def sources(self) -> dict[str, Path]:
        return {"removed": Path(self.folder) / f"{RemovedHeads.stem.format(**vars(self))}.nc"}

    @property
    def removed(self) -> RemovedHeads:
        """The experiment that scored the heads, here with this one's test sentences."""
        asked = results.record(self.sources["removed"])["parameters"]
        counts = {"test_examples": self.test_examples, "random": self.random}
        return RemovedHeads(folder=self.folder, **{**asked, **counts})

    @property
    def missing(self) -> str:
        return "" if self.task == MADE else ", ".join(_installed.missing())

    @property
    def total(self) -> int:
        return 1 + (len(SCORES) + self.random + 1) * len(self.removed.kept)

    def make(self, state, progress):
        words, found = functools.cache(self.removed.words), []
        for order, size, gates in self.networks(words().encoder):
            compute = functools.partial(self.accuracy, words, gates, order == LAYERS)
            part = yield Part.once(f"{order.replace(' ', '-')}-{size}", self._recorded, compute)
            found.append(part.assign_coords(order=order, kept=size))
        whole, *others = (one.expand_dims(["order", "kept"]) for one in found)
        return xr.combine_by_coords(others).assign(accuracy_whole=whole["accuracy"].values.item())

    def networks(self, encoder: Encoder) -> Iterator[tuple[str, int, np.ndarray]]:
        """Yield an order of heads, the number kept, and the gates of all heads, first those of the whole."""
        removed, there = self.removed, results.load(self.sources["removed"])
        orders, kept = removed.orders(there["score"]), removed.kept
        gates = removed.gates(encoder, orders, kept).reshape(len(orders), len(kept), encoder.depth, encoder.heads)
        yield WHOLE, encoder.depth * encoder.heads, np.ones((encoder.depth, encoder.heads))
        for order, each in zip(orders, gates, strict=True):
            yield from ((order, size, one) for size, one in zip(kept, each, strict=True))
        for size in kept:
            yield LAYERS, size, np.ones((-(-size // encoder.heads), encoder.heads))

    def accuracy(self, words, gates, layers_alone: bool) -> float:
        """Test accuracy after fine-tuning with these heads, or with as many of the lowest layers."""
        data, count = words(), self.removed.examples
        encoder = data.encoder
        if layers_alone:
            encoder = replace(encoder, layers=jax.tree.map(lambda one: one[: len(gates)], encoder.layers))
        learned = Words(encoder, data.tokens[:count], data.labels[:count])
        tuned = fine_tuned(learned, seed=self.seed, epochs=self.epochs, rate=self.rate, batch=self.batch, gates=gates)
        classifier = tuned.classifier
        seen = features(classifier.encoder, data.tokens[count:], classifier.readout, gates[None])
        return float(right(classifier.probe(seen)[0], data.labels[count:]).mean())

    @staticmethod
    def _recorded(compute) -> xr.Dataset:
        return xr.Dataset({"accuracy": compute()})

    def recheck(self) -> Recheck:
        """Fine-tune the smallest encoder of the theory's order again."""
        there = results.load(self.path)
        words = functools.cache(self.removed.words)
        order, size, gates = next(
            one for one in self.networks(words().encoder) if one[:2] == (SCORES[0], self.removed.kept[0])
        )
        again = self.accuracy(words, gates, False)
        # Single precision: after training, sentences near the boundary may change sides.
        apart = abs(again - float(there["accuracy"].sel(order=order, kept=size)))
        return Recheck(f"fine-tuning with {size} heads", apart, 0.02)
