"""Experiments on trained networks: files of the records, and sequences as the network sees them."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from attention_book import results
from attention_book.experiments.experiment import Experiment, parameter
from attention_book.one_shot import Draw, Sequences, draw_of, seen_by
from attention_book.tasks import OneShotSuite, one_shot_suite
from attention_book.training import TrainedNetwork, load_network
from statmech_attention import Heads, SkipHeads, checks

PLAIN = "heads"
_KINDS: dict[str, type[Heads] | type[SkipHeads]] = {PLAIN: Heads, "skip": SkipHeads}
__all__ = [
    "Draw",
    "OnNetwork",
    "PLAIN",
    "Sequences",
    "draw_of",
    "experiment_file",
    "recorded_layers",
    "seen_by",
]


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
