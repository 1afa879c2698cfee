"""A trained network's values refitted after heads are removed, on its frozen attention."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np
import xarray as xr
from scipy.linalg import cho_factor, cho_solve

from attention_book import results
from attention_book.experiments.experiment import Part, Recheck, difference, parameter
from attention_book.experiments.networks import OnNetwork, seen_by
from attention_book.pruning import every_removal, path_contributions
from attention_book.tasks import OneShotSample
from attention_book.training import TrainedNetwork
from statmech_attention import attentioned_inputs
from statmech_attention.layers import chain
from statmech_attention.model.accuracy import right
from statmech_attention.pruning import keep_heads
from statmech_attention.pruning.heads import path_gates

_BATCH = 250
_TIMED = 128  # sequences of a batch
_REPETITIONS = 15


@dataclass(frozen=True, kw_only=True)
class Refitted(OnNetwork):
    r"""Every choice of a quarter of the heads removed, and the values fitted to what is then wrong.

    $\delta v$ minimises $\sum_\mu (y_\mu - f(x_\mu) - \delta v \cdot \xi(x_\mu))^2 + T |\delta v|^2 / c$,
    with $1 / c = N_0 \prod_l H_l$ of the whole network: kernel regression on residuals, at the
    temperature of the best accuracy on validation classes, infinity (no change) among them. The record
    has over `choice` the test accuracies in distribution, `cut` and `refitted`, and the temperature;
    the same, `whole_`, with all heads; and for the network and the one without a quarter of every
    layer's heads the `flops` of a batch by the compiler and its `seconds`, measured in turns.
    """

    heads: int = parameter("$H$, of every layer", ge=2)
    examples: int = parameter("sequences of the training classes", ge=2)
    test_examples: int = parameter("sequences of the validation and of the test classes", ge=2)
    temperatures: Sequence[float | int] = parameter("$T$, beside infinity", each=float)

    name: ClassVar[str] = "refitted"
    revision: ClassVar[int] = 1  # 1: as first recorded
    unit: ClassVar[str] = "batch"
    needs: ClassVar[tuple[str, ...]] = ("network",)

    def check_sources(self) -> None:
        super().check_sources()
        if self.network().offsets is not None:
            raise ValueError(f"{self.file('network')}: wanted a network without biases.")

    @property
    def total(self) -> int:
        return -(-self.examples // _BATCH)

    def make(self, state, progress):
        moments = yield Part("moments", self._moments, self.total)
        refitted = yield Part("refitted", lambda step: self._refitted(moments), 0)
        return refitted.merge((yield Part("seconds", lambda step: self._seconds(), 0)))

    def recheck(self) -> Recheck:
        """Compute the accuracies without each choice of heads again, before values are refitted."""
        _, cut = self._cut(self.network(), *self._seen(2))
        # A sequence whose output is close to zero may fall on the other side elsewhere.
        apart = difference(cut[1:], results.load(self.path)["cut"])
        return Recheck("accuracies without a quarter of the heads", apart, 1e-2)

    def _sequences(self, part: int, examples: int) -> Iterator[OneShotSample]:
        """Batches of sequences: 0 of the training, 1 of the validation, 2 of the test classes."""
        suite, key = self.suite(), jax.random.fold_in(jax.random.key(self.seed), 2000 + part)
        classes = (suite.split.train, suite.split.validation, suite.split.test)[part]
        for batch, start in enumerate(range(0, examples, _BATCH)):
            yield suite.task.sample(jax.random.fold_in(key, batch), min(_BATCH, examples - start), classes)

    def _seen(self, part: int):
        """Validation or test sequences as the network sees them, and their labels."""
        samples = list(self._sequences(part, self.test_examples))
        labels = np.concatenate([np.asarray(one.labels) for one in samples])
        return seen_by(self.network(), (one.inputs for one in samples)), labels

    def _moments(self, step) -> xr.Dataset:
        """Second moments of the attentioned inputs, and their products with the labels."""
        network, second, first = self.network(), 0.0, 0.0
        for sample in self._sequences(0, self.examples):
            values = np.asarray(seen_by(network, [sample.inputs]).values).reshape(len(sample.labels), -1)
            second, first = second + values.T @ values, first + values.T @ np.asarray(sample.labels)
            step()
        return xr.Dataset({"second": (("feature", "other"), second), "first": ("feature", first)})

    def _cut(self, network: TrainedNetwork, seen, labels):
        """No heads and all choices of heads, and the accuracies without them."""
        contributions = np.asarray(path_contributions(network, seen))
        count = max(round(sum(chain(self.chain).heads) / 4), 1)
        removed, accuracy = every_removal(contributions, labels, layers=network.layers, count=count)
        whole = right(contributions.sum(axis=1), labels).mean()
        return [np.zeros(0, int), *removed], np.array([whole, *accuracy])

    def _refitted(self, moments: xr.Dataset) -> xr.Dataset:
        network, validation, test = self.network(), self._seen(1), self._seen(2)
        choices, cut = self._cut(network, *test)
        found = np.array(
            [_best(self.temperatures, network, removed, moments, validation, test) for removed in choices]
        ).T
        names = {"cut": cut, "refitted": found[0], "temperature": found[1]}
        columns = {name: ("choice", values[1:]) for name, values in names.items()}
        columns |= {f"whole_{name}": values[0] for name, values in names.items()}
        return xr.Dataset({"removed": (("choice", "of_choice"), choices[1:]), **columns})

    def _seconds(self) -> xr.Dataset:
        network, sample = self.network(), next(self._sequences(2, _TIMED))
        quarter = np.arange(max(round(self.heads / 4), 1))
        fewer = keep_heads(network, [range(len(quarter), self.heads)] * self.layers)

        def compiled(one):
            run = jax.jit(lambda inputs: one.outputs(attentioned_inputs(inputs, one.attention, readout="mean")))
            return run.lower(sample.inputs).compile()

        runs, seconds = [compiled(network), compiled(fewer)], np.zeros((_REPETITIONS, 2))
        for place in np.ndindex(seconds.shape):
            began = time.perf_counter()
            jax.block_until_ready(runs[place[1]](sample.inputs))
            seconds[place] = time.perf_counter() - began
        columns: dict[str, Any] = {"seconds": (("repetition", "network"), seconds)}
        columns |= {"flops": ("network", [run.cost_analysis()["flops"] for run in runs])}
        return xr.Dataset(columns, {"network": ["whole", "pruned"]})


def _best(
    temperatures: Sequence[float | int], network: TrainedNetwork, removed, moments, validation, test
) -> tuple[float, float]:
    """Test accuracy at the temperature of the best validation accuracy, and this temperature."""
    kept = np.isin(np.arange(sum(chain(network.layers).heads)), removed, invert=True)
    gates = path_gates(network.layers, kept[None])[0]
    left, features = np.flatnonzero(gates), network.vectors.shape[1]
    start = (gates[:, None] * network.vectors)[left]
    inside = (left[:, None] * features + np.arange(features)).ravel()
    second = moments["second"].values[np.ix_(inside, inside)]
    residual = moments["first"].values[inside] - second @ start.ravel()
    parts = [(np.asarray(seen.values)[:, left].reshape(-1, len(inside)), labels) for seen, labels in (validation, test)]
    found = []
    for heat in [*temperatures, np.inf]:
        vectors = start.ravel()
        if np.isfinite(heat):
            ridge = heat * features * chain(network.layers).divisor * np.eye(len(inside))
            vectors = vectors + cho_solve(cho_factor(second + ridge), residual)
        found.append((*(float(right(values @ vectors, labels).mean()) for values, labels in parts), heat))
    _, accuracy, heat = max(found, key=lambda one: one[0])
    return accuracy, heat
