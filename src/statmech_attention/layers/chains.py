"""A chain of layers, made of what `layers` lists, and its paths."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, reduce
from typing import Any, NamedTuple, TypeAlias, Union

import numpy as np
from jaxtyping import Float, Int

from statmech_attention import checks
from statmech_attention.layers import kinds
from statmech_attention.layers.kind import Kind, Layer, Part, Readout
from statmech_attention.layers.kinds import Heads, OneOutput

# Numbers of heads, or layers of any kind; a readout of several outputs last.
Layers: TypeAlias = Union[Sequence[int | Kind], np.ndarray, "Chain"]
# Those of the library, which files can name.
_KINDS = {
    name: kind for name, kind in vars(kinds).items() if isinstance(kind, type) and kind.__module__ == kinds.__name__
}


class Stage(NamedTuple):
    """A step from one order parameter to the next one below: a kind of layer, or its inner stage above it."""

    place: int
    kind: Kind
    inner: bool

    @property
    def name(self) -> str:
        """Symbol of the stage's order parameter."""
        return f"{'G' if self.inner else 'U'}^({self.place + 1})"

    @property
    def variable(self) -> str:
        """Variable of the stage's order parameter in a Dataset."""
        if self.inner:
            return f"head_order_parameter_{self.place + 1}"
        return f"order_parameter_{self.place + 1}" if self.place else "order_parameter"

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes of this variable."""
        names = ("head", "partial_path", "other_partial_path") if self.inner else ("path", "other_path")
        suffix = self.variable.rpartition("order_parameter")[2]
        return tuple(f"{name}{suffix}" for name in names)


@dataclass(frozen=True)
class Chain:
    """Layers from the input projection up, and the readout."""

    layers: tuple[Layer, ...]
    readout: Readout

    @classmethod
    def of(cls, layers: Layers) -> "Chain":
        """The chain of `layers`: a number of heads or a kind per layer, and at last a readout of several outputs."""
        if isinstance(layers, Chain):
            return layers
        if layers is None:
            raise ValueError(
                "layers: plain arrays do not say their layers. Pass layers=(H_1, .., H_L), or use attentioned_inputs."
            )
        listed = list(layers) if np.iterable(layers) and not isinstance(layers, str) else [None]
        *listed, readout = listed if listed and isinstance(listed[-1], Readout) else (*listed, OneOutput())
        if not listed:
            raise ValueError("layers: wanted at least one attention layer, got none: the set of paths is empty.")
        if not all(isinstance(layer, Layer) or checks.is_whole(layer, 1) for layer in listed):
            raise ValueError(
                f"layers: wanted whole numbers of at least 1, got {layers!r}. Or layers, as in (2, SkipHeads(2)), and "
                "Outputs(3) at the end alone."
            )
        return cls(tuple(layer if isinstance(layer, Layer) else Heads(int(layer)) for layer in listed), readout)

    @property
    def shorthand(self) -> tuple[int | Kind, ...]:
        """The chain as an argument `layers`: numbers for plain heads, a readout of several outputs last."""
        return (*(layer.shorthand for layer in self.layers), *self.readout.shorthand)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Layers and readout: one for every order parameter."""
        return (*self.layers, self.readout)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The stages, one per order parameter: each kind, then its inner stage."""
        return tuple(
            Stage(place, kind, inner)
            for place, kind in enumerate(self.kinds)
            for inner in ((False,) if kind.inner is None else (False, True))
        )

    @cached_property
    def skeleton(self) -> "Chain":
        """The chain with inner widths of 1: it determines all shapes and hence what is compiled."""
        return Chain(tuple(layer.skeleton for layer in self.layers), self.readout)

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.readout.branches

    @property
    def heads(self) -> tuple[int, ...]:
        """The number of heads in every layer."""
        return tuple(layer.heads for layer in self.layers)

    @cached_property
    def branches(self) -> tuple[int, ...]:
        """The number of branches in every layer; the branch of layer 1 is a path's slowest index."""
        return tuple(layer.branches for layer in self.layers)

    @cached_property
    def paths(self) -> int:
        """Number of paths, outputs not counted."""
        return math.prod(self.branches)

    @property
    def partial_paths(self) -> tuple[int, ...]:
        """$d_l$, the partial paths from layer $l = 1..L+1$ up, each with its output."""
        branches = [kind.branches for kind in self.kinds]
        return tuple(math.prod(branches[layer:]) for layer in range(len(branches)))

    @cached_property
    def path_branches(self) -> Int[np.ndarray, "paths layers"]:
        """The branches of every path, in the order of the paths."""
        return np.stack(np.unravel_index(np.arange(self.paths), self.branches), axis=-1)

    @cached_property
    def path_heads(self) -> Int[np.ndarray, "paths layers"]:
        """The heads of every path, -1 where it passes through none."""
        return np.stack([np.asarray(layer.branch_heads)[branch] for layer, branch in self._with_branches()], axis=-1)

    @cached_property
    def path_gains(self) -> Float[np.ndarray, " paths"]:
        """The coefficients of the paths but for the root of `divisor`; all 1 where there are heads alone."""
        return reduce(np.multiply, (np.asarray(layer.gains)[branch] for layer, branch in self._with_branches()))

    @cached_property
    def divisor(self) -> int:
        """Divisor of the kernel: the product of the numbers of heads in a chain of heads alone."""
        return math.prod(layer.divisor for layer in self.layers)

    def keep(self, kept: Sequence[Sequence[int]]) -> tuple["Chain", tuple[Part, ...]]:
        """The chain with only some heads, given for every layer, and the rest of each layer."""
        if len(kept) != len(self.layers) or not all(np.iterable(heads) for heads in kept):
            raise ValueError(
                f"kept: wanted the heads of {len(self.layers)} layers, as in ((0, 1), (0,)), got {kept!r}."
            )
        parts = tuple(
            layer.keep(
                checks.indices(f"kept, layer {number}", heads, layer.heads, least=layer.fewest, what="heads").tolist()
            )
            for number, (heads, layer) in enumerate(zip(kept, self.layers, strict=True), start=1)
        )
        return Chain(tuple(part.layer for part in parts), self.readout), parts

    def _with_branches(self):
        return zip(self.layers, self.path_branches.T, strict=True)


def partial_paths_left(branches, left) -> list[Int[np.ndarray, " paths"]]:
    """Numbers of the partial paths of layers l..L that are left, for every l."""
    return [
        np.arange(math.prod(branches[layer:])).reshape(branches[layer:])[np.ix_(*left[layer:])].ravel()
        for layer in range(len(branches))
    ]


def order_parameters_on(order_parameters, whole: Chain, parts: Sequence[Part]) -> tuple:
    """The blocks of all order parameters on the partial paths that are left, and of the heads that are left."""
    # The last axis is that of the outputs, all of which stay.
    left = [list(part.branches) for part in parts] + [list(range(whole.outputs))]
    partial, blocks = partial_paths_left((*whole.branches, whole.outputs), left), []
    for overlap, (place, _, inner) in zip(order_parameters[:-1], whole.stages[:-1], strict=True):
        if not inner:
            blocks.append(overlap[np.ix_(partial[place], partial[place])])
        elif parts[place].layer.inner is not None:
            above = partial[place + 1]
            blocks.append(overlap[np.ix_(np.array(parts[place].matrices, int), above, above)])
    return (*blocks, order_parameters[-1])


def layers_to_json(layers) -> list:
    """Return `layers` in a form that JSON can hold, kinds by names and fields; refuse unknown kinds."""
    for layer in layers:
        if isinstance(layer, Kind) and type(layer) is not _KINDS.get(type(layer).__name__):
            raise ValueError(f"layers: wanted numbers and layers of {', '.join(_KINDS)} to record, got {layer!r}.")
    return [[type(layer).__name__, _fields(layer)] if isinstance(layer, Kind) else layer for layer in layers]


def layers_from_json(written) -> tuple[int | Kind, ...]:
    """The inverse of `layers_to_json`."""
    try:
        layers = tuple(_KINDS[entry[0]](**entry[1]) if isinstance(entry, list) else entry for entry in written)
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"layers: wanted layers as written, got {written!r}.") from error
    return Chain.of(layers).shorthand


def _fields(kind: Any) -> dict:
    given = {part.name: (getattr(kind, part.name), part.default) for part in fields(kind)}
    return {name: value for name, (value, default) in given.items() if value != default}
