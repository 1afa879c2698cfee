"""Experiments on trained networks: files of the records, and sequences as the network sees them."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import xarray as xr
from jaxtyping import Array, Float

from attention_book import results
from attention_book.experiments.experiment import Experiment, parameter
from attention_book.tasks import OneShotSample, OneShotSuite, one_shot_suite
from attention_book.training import TrainedNetwork, load_network
from statmech_attention import AttentionedInputs, Heads, SkipHeads, attentioned_inputs, checks
from statmech_attention.model import QueryKeyAttention

PLAIN = "heads"
_KINDS: dict[str, type[Heads] | type[SkipHeads]] = {PLAIN: Heads, "skip": SkipHeads}
_BATCH = 250


class Sequences(NamedTuple):
    """Sequences as a network's attention presents them."""

    inputs: AttentionedInputs
    labels: Float[Array, " examples"]


class Draw(NamedTuple):
    """Sequences to train and to test on."""

    train: Sequences
    validation: Sequences  # of the validation classes
    tests: Mapping[str, Sequences]  # by test set


def experiment_file(
    experiment: str, folder: str | os.PathLike, *, layers: int, heads: int, seed: int, kind: str = PLAIN
) -> Path:
    """File of a "network", or of its "theory", "pruning", "evidence", "narrow", "posterior", "weights"."""
    checks.choice("kind", kind, _KINDS)
    names = [f"{layers}x{heads}", *([] if kind == PLAIN else [kind]), f"seed{seed}"]
    return Path(folder) / f"{experiment}-{'-'.join(names)}.nc"


def recorded_layers(path: Path) -> tuple:
    """The layers of the network that a record is on."""
    made = results.record(path)["parameters"]
    return _chain(made["kind"], made["layers"], made["heads"])


def _chain(kind: str, layers: int, heads: int, values: float | int | None = None) -> tuple:
    return (_KINDS[kind](heads, values=values).spelled,) * layers


@dataclass(frozen=True, kw_only=True)
class OnNetwork(Experiment):
    """An experiment on a network of layers that are all alike."""

    data: str = parameter("name for `one_shot_suite`")
    layers: int = parameter("$L$", ge=1)
    heads: int = parameter("$H$, of every layer", ge=1)
    kind: str = parameter("kind of the layers", among=tuple(_KINDS))
    seed: int = parameter("seed of the training")
    suites: Callable[[str], OneShotSuite] = field(default=one_shot_suite, repr=False)

    needs: ClassVar[tuple[str, ...]] = ()  # records of the same network

    def file(self, experiment: str) -> Path:
        """File of another experiment on this network."""
        names = {name: getattr(self, name) for name in ("layers", "heads", "seed", "kind")}
        return experiment_file(experiment, self.folder, **names)

    @property
    def path(self) -> Path:
        return self.file(self.name)

    @property
    def sources(self) -> dict[str, Path]:
        return {name: self.file(name) for name in self.needs}

    @property
    def chain(self) -> tuple:
        """The layers, as in `(4, 4)`, or `(SkipHeads(4), SkipHeads(4))`."""
        return self.narrow_chain(None)

    def narrow_chain(self, values: float | int | None) -> tuple:
        """The same layers with heads of this value dimension; None for full matrices."""
        return _chain(self.kind, self.layers, self.heads, values)

    def check_sources(self) -> None:
        if "network" in self.needs:
            found = self.network().layers
            if found != self.chain:
                raise ValueError(f"{self.file('network')}: wanted layers {self.chain}, got {found}. Train it again.")
        if "theory" in self.needs:
            path, used = self.file("theory"), results.digest(self.file("network"))
            if results.record(path)["inputs"].get("network") != used:
                raise ValueError(f"{path}: the theory of another network than the one beside it. Run the theory again.")

    def suite(self) -> OneShotSuite:
        """Source of the sequences."""
        return self.suites(self.data)

    def network(self) -> TrainedNetwork:
        """The trained network."""
        return load_network(self.file("network"))


@dataclass(frozen=True, kw_only=True)
class OnTheory(OnNetwork):
    """An experiment on the theory's own sequences, each width at its best temperature."""

    widths: Sequence[float | int] = parameter("$N$, among those of the theory", each=float)

    needs: ClassVar[tuple[str, ...]] = ("network", "theory")

    def check_sources(self) -> None:
        super().check_sources()
        missing = sorted(set(self.widths) - set(self.made["widths"]))
        if missing:
            raise ValueError(f"widths: wanted some of the theory's, {self.made['widths']}, got also {missing}.")

    @property
    def made(self) -> dict[str, Any]:
        """The theory's parameters."""
        return results.record(self.file("theory"))["parameters"]

    @property
    def temperatures(self) -> xr.DataArray:
        """The best one by draw and width."""
        return results.load(self.file("theory"))["best_temperature"]

    def draw(self, number: int, tests: int | None = None) -> Draw:
        """Draw the theory's sequences once more, so many of every test set or all."""
        counts = {"examples": self.made["examples"], "tests": tests or self.made["test_examples"]}
        return draw_of(self.suite(), self.network(), seed=self.seed, number=number, **counts)


def draw_of(
    suite: OneShotSuite,
    network: TrainedNetwork,
    *,
    seed: int,
    number: int,
    examples: int,
    tests: int,
    sets: int | None = None,
) -> Draw:
    """Draw sequences, as many for validation as of each of the first test sets, and pass them through attention."""
    key = jax.random.fold_in(jax.random.key(seed), number)
    train_key, validation_key, *test_keys = jax.random.split(key, 2 + len(suite.test_sets))
    drawn = [suite.train(train_key, examples), suite.task.sample(validation_key, tests, suite.split.validation)]
    names = list(suite.test_sets)[:sets]
    drawn += [suite.test(one, tests, name) for one, name in zip(test_keys, names, strict=False)]
    train, validation, *seen = (_seen(sample, network) for sample in drawn)
    return Draw(train, validation, dict(zip(names, seen, strict=True)))


def seen_by(network: TrainedNetwork, batches: Iterable) -> AttentionedInputs:
    """Attentioned inputs (7) of many sequences; attention matrices exist for one batch at once only."""
    parts = [_through(network.attention, inputs, network.layers).values for inputs in batches]
    return AttentionedInputs(jnp.concatenate(parts), network.layers)


def _seen(sample: OneShotSample, network: TrainedNetwork) -> Sequences:
    batches = (sample.inputs[start : start + _BATCH] for start in range(0, len(sample.labels), _BATCH))
    return Sequences(seen_by(network, batches), sample.labels)


@partial(jax.jit, static_argnames="layers")
def _through(attention: QueryKeyAttention | tuple[()], inputs, layers) -> AttentionedInputs:
    return attentioned_inputs(inputs, attention, readout="mean", layers=layers)
