"""Experiments on trained networks: which network, its file and those beside it, and sequences as its attention sees them."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp

from attention_book import results
from attention_book.experiments.experiment import Experiment
from attention_book.tasks.one_shot_sets import OneShotSuite, one_shot_suite
from statmech_attention import checks
from statmech_attention.layers.heads import Heads
from statmech_attention.layers.skip import SkipHeads
from statmech_attention.model.attention import QueryKeyAttention
from statmech_attention.model.paths import AttentionedInputs, attentioned_inputs
from statmech_attention.training import TrainedNetwork, load_network

PLAIN = "heads"
_KINDS: dict[str, type[Heads] | type[SkipHeads]] = {PLAIN: Heads, "skip": SkipHeads}


def experiment_file(
    experiment: str, folder: str | os.PathLike, *, layers: int, heads: int, seed: int, kind: str = PLAIN
) -> Path:
    """Where an experiment on a trained network, or the network itself, is recorded.

    Args:
        experiment: "network", "theory", "pruning", "evidence", "narrow", or samples, "posterior" or "weights".
        folder: of the results.
        layers: $L$.
        heads: $H$, of every layer.
        seed: of the training.
        kind: of the layers, "heads" or "skip"; named in the file where it is not "heads".

    Returns:
        A path ending in `.nc`.

    Raises:
        ValueError: an unknown kind.
    """
    _check_kind(kind)
    names = [f"{layers}x{heads}", *([] if kind == PLAIN else [kind]), f"seed{seed}"]
    return Path(folder) / f"{experiment}-{'-'.join(names)}.nc"


@dataclass(frozen=True, kw_only=True)
class OnNetwork(Experiment):
    """An experiment on a network of layers that are all alike.

    Attributes:
        data: a name for `one_shot_suite`.
        layers: $L$.
        heads: $H$, of every layer.
        kind: of the layers, "heads" or "skip".
        seed: of the training.
        suites: what makes a suite of its name.
    """

    data: str
    layers: int
    heads: int
    kind: str
    seed: int
    suites: Callable[[str], OneShotSuite] = field(default=one_shot_suite, metadata={"recorded": False}, repr=False)

    needs: ClassVar[tuple[str, ...]] = ()  # records of the same network

    def file(self, experiment: str) -> Path:
        """The record of an experiment on this network."""
        return experiment_file(
            experiment, self.folder, layers=self.layers, heads=self.heads, seed=self.seed, kind=self.kind
        )

    @property
    def path(self) -> Path:
        return self.file(self.name)

    @property
    def sources(self) -> dict[str, Path]:
        return {name: self.file(name) for name in self.needs}

    @property
    def chain(self) -> tuple:
        """The layers as `heads` spells them, as in `(4, 4)`, or `(SkipHeads(4), SkipHeads(4))`."""
        return self.narrow_chain(None)

    def narrow_chain(self, values: float | int | None) -> tuple:
        """The same layers if the values of their heads had this dimension; None for full matrices."""
        _check_kind(self.kind)
        return (_KINDS[self.kind](self.heads, values=values).spelled,) * self.layers

    def check(self) -> None:
        _check_kind(self.kind)
        checks.whole("layers", self.layers)
        checks.whole("heads", self.heads)

    def check_sources(self) -> None:
        if "network" in self.needs:
            found = self.network().heads
            if found != self.chain:
                raise ValueError(f"{self.file('network')}: wanted heads {self.chain}, got {found}. Train it again.")
        if "theory" in self.needs:
            made = results.record(self.file("theory"))["inputs"]
            if made.get("network") != results.digest(self.file("network")):
                raise ValueError(
                    f"{self.file('theory')}: the theory of another network than the one beside it. Run the theory again."
                )

    def suite(self) -> OneShotSuite:
        """Where sequences come from."""
        return self.suites(self.data)

    def network(self) -> TrainedNetwork:
        """The trained network."""
        return load_network(self.file("network"))


def seen_by(network: TrainedNetwork, batches: Iterable) -> AttentionedInputs:
    """The attentioned inputs (7) of many sequences, of which attention matrices exist for one batch at once only.

    Args:
        network: whose queries and keys; all tokens are read out alike.
        batches: arrays `(examples, tokens, features)`.

    Returns:
        `AttentionedInputs` of all batches, one after the other.
    """
    parts = [_through(network.attention, inputs, network.heads).values for inputs in batches]
    return AttentionedInputs(jnp.concatenate(parts), network.heads)


@partial(jax.jit, static_argnames="heads")
def _through(attention: QueryKeyAttention | tuple[()], inputs, heads) -> AttentionedInputs:
    return attentioned_inputs(inputs, attention, readout="mean", heads=heads)


def _check_kind(kind: str) -> None:
    if kind not in _KINDS:
        raise ValueError(f"kind: wanted one of {', '.join(_KINDS)}, got {kind!r}.")
