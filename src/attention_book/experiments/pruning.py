"""Pruning the heads of a trained network: section 4.2 and appendix H.2.3 of Tiberi et al. (2024)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np
import xarray as xr

from attention_book import results
from attention_book.experiments.experiment import Part, Recheck, axis, difference, parameter
from attention_book.experiments.networks import OnNetwork, Sequences, draw_of, seen_by
from attention_book.experiments.pruning_measures import Contributions, Hits, by_criterion, by_theory, costs, predictors
from attention_book.pruning import head_confidence, head_drops, path_contributions, path_covariance
from attention_book.tasks import OneShotSample, OneShotSuite
from attention_book.training import TrainedNetwork
from statmech_attention import checks
from statmech_attention.layers import chain

_BATCH = 500
_COVARIANCE_EXAMPLES = 1000


@dataclass(frozen=True, kw_only=True)
class Pruning(OnNetwork):
    """Scores of the heads of a trained network in several ways, and the cost of their removal."""

    heads: int = parameter("$H$, of every layer; one is removed", ge=2)
    examples: int = parameter("sequences of the validation classes", ge=2)
    test_examples: int = parameter("sequences of every test set", ge=2)

    name: ClassVar[str] = "pruning"
    # 1: as first recorded; 2: the theory's own drops, every choice of a quarter of the heads, more criteria.
    revision: ClassVar[int] = 2
    unit: ClassVar[str] = "batch"
    needs: ClassVar[tuple[str, ...]] = ("network", "theory")

    def check_sources(self) -> None:
        super().check_sources()
        _theory(self.file("theory"), self.network())

    @property
    def total(self) -> int:
        counts, draws = self._counts(self.suite()), results.load(self.file("theory")).sizes["draw"]
        return sum(-(-count // _BATCH) for count in counts.values()) + draws * sum(chain(self.chain).heads)

    def make(self, state, progress):
        return (yield Part("pruning", self._measured, self.total))

    def recheck(self) -> Recheck:
        """Measure one drop again, of the first head with one test set."""
        network, suite, recorded = self.network(), self.suite(), results.load(self.path).isel(test_set=0)
        name = str(recorded["test_set"].values)
        seen = self._seen(network, suite, name, self.test_examples, lambda: None)
        drop = head_drops(*seen, layers=network.layers, bias=network.bias).mean[0]
        # A sequence whose output is close to zero may fall on the other side elsewhere.
        return Recheck(f"the drop without head 1 of layer 1 on {name}", difference(drop, recorded["drop"][0]), 1e-2)

    def _counts(self, suite: OneShotSuite) -> dict[str | None, int]:
        return {None: self.examples, **dict.fromkeys(suite.test_sets, self.test_examples)}

    def _measured(self, step) -> xr.Dataset:
        network, suite, seed = self.network(), self.suite(), self.seed
        order_parameters = _theory(self.file("theory"), network)
        trains = self._trains(suite, network)
        temperatures = results.load(self.file("theory"))["best_temperature"]
        without = predictors(trains, order_parameters, temperatures, step)
        seen: dict[Any, Contributions] = {}  # by test set; None for the validation classes
        by_set = []
        for name, count in self._counts(suite).items():
            hits = Hits(without, network.layers) if name else None
            seen[name] = self._seen(network, suite, name, count, step, hits)
            by_set += [hits.drops()] if hits else []
        validation = seen.pop(None)
        few = Contributions(np.asarray(path_contributions(network, trains[0].inputs)), np.asarray(trains[0].labels))
        confidence, covariance = self._attention_measures(network, suite)
        dataset = costs(network, seen)
        dataset = dataset.merge(by_criterion(network, validation, few, confidence, covariance, seen, seed))
        dataset = dataset.merge(by_theory(network, order_parameters, covariance, seen))
        return dataset.merge(xr.concat(by_set, axis("test_set", seen)))

    def _trains(self, suite: OneShotSuite, network: TrainedNetwork) -> list[Sequences]:
        """The theory's training sequences, draw by draw."""
        made = results.record(self.file("theory"))["parameters"]
        options = {"seed": self.seed, "examples": made["examples"], "tests": 1}
        return [draw_of(suite, network, number=number, **options).train for number in range(made["draws"])]

    def _seen(self, network: TrainedNetwork, suite: OneShotSuite, name, examples: int, step, hits=None):
        """Contributions of the paths on a test set; `hits` counts on it, too."""
        parts = []
        for sample in pruning_samples(suite, name, examples=examples, seed=self.seed):
            seen, labels = seen_by(network, [sample.inputs]), np.asarray(sample.labels)
            parts.append(Contributions(np.asarray(path_contributions(network, seen)), labels))
            if hits:
                hits.add(np.asarray(seen.values), labels)
            step()
        return Contributions(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _attention_measures(self, network: TrainedNetwork, suite: OneShotSuite):
        """Confidence of heads and covariance of paths, on some sequences of the validation classes."""
        few = min(self.examples, _COVARIANCE_EXAMPLES)
        samples = list(pruning_samples(suite, None, examples=few, seed=self.seed))
        attention = network.attention
        assert callable(attention), "networks of a recorded kind have heads"
        each = np.array([len(one.labels) * head_confidence(attention(one.inputs)) for one in samples])
        return each.sum(axis=0) / few, path_covariance(seen_by(network, (one.inputs for one in samples)))


def pruning_samples(suite: OneShotSuite, name: str | None, *, seed: int, examples: int) -> Iterator[OneShotSample]:
    """Sequences of a test set, in batches; of the validation classes if the name is None."""
    number = 0 if name is None else 1 + list(suite.test_sets).index(checks.choice("name", name, suite.test_sets))
    key = jax.random.fold_in(jax.random.key(seed), number)
    for batch, start in enumerate(range(0, examples, _BATCH)):
        count, batch_key = min(_BATCH, examples - start), jax.random.fold_in(key, batch)
        if name is None:
            yield suite.task.sample(batch_key, count, suite.split.validation)
        else:
            yield suite.test(batch_key, count, name)


def _theory(path: Path, network: TrainedNetwork) -> xr.DataArray:
    """The theory's order parameters, at the best temperature of each width."""
    found, dimensions = results.load(path).get("order_parameter"), ("draw", "width", "path", "other_path")
    if found is not None and "path_other" in found.dims:  # as in the first records
        found = found.rename(path_other="other_path")
    paths = len(network.vectors)
    if found is None or set(found.dims) != set(dimensions) or found.sizes["path"] != paths:
        got = "none" if found is None else dict(found.sizes)
        wanted = f"`order_parameter` over {', '.join(dimensions)}, with {paths} paths"
        raise ValueError(f"{path}: wanted a theory with {wanted}, got {got}. Run the theory again.")
    return found.transpose(*dimensions)
