"""The kinds of networks that experiments are made of: all layers alike."""

from collections.abc import Mapping
from typing import Any

from statmech_attention.layers.heads import Heads
from statmech_attention.layers.kind import Layer
from statmech_attention.layers.skip import SkipHeads

PLAIN = "heads"
_KINDS: dict[str, type[Layer]] = {PLAIN: Heads, "skip": SkipHeads}


def check_kind(kind: str) -> None:
    """Raise ValueError for a kind that is not there."""
    if kind not in _KINDS:
        raise ValueError(f"kind: wanted one of {', '.join(_KINDS)}, got {kind!r}.")


def layers_of(kind: str, layers: int, heads: int) -> tuple:
    """Layers of one kind as `heads` spells them.

    Args:
        kind: "heads", or "skip": heads beside a skip connection.
        layers: $L$.
        heads: $H$, of every layer.

    Returns:
        As in `(4, 4)`, or `(SkipHeads(4), SkipHeads(4))`.

    Raises:
        ValueError: an unknown kind; numbers out of range.
    """
    check_kind(kind)
    return (_KINDS[kind](heads).spelled,) * layers


def of_kind(kind: str) -> Mapping[str, Any]:
    """What a record's parameters say of the kind: nothing of plain heads, so that records of them are what they were."""
    check_kind(kind)
    return {} if kind == PLAIN else {"kind": kind}
