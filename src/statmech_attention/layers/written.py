"""Layers as JSON can hold them, for records."""

from dataclasses import asdict

from statmech_attention.layers.chains import chain
from statmech_attention.layers.heads import Heads
from statmech_attention.layers.kind import Kind
from statmech_attention.layers.linear import Linear
from statmech_attention.layers.outputs import Outputs
from statmech_attention.layers.skip import SkipHeads

_KINDS = {kind.__name__: kind for kind in (Heads, Linear, SkipHeads, Outputs)}


def layers_to_json(layers) -> list:
    """Return `layers` as JSON can hold it, kinds by their names and fields.

    Args:
        layers: number of heads in every layer, or layers of other kinds among them.

    Returns:
        Lists, texts and numbers.

    Raises:
        ValueError: a kind that could not be read again.
    """
    return [_written(layer) for layer in layers]


def layers_from_json(written) -> tuple[int | Kind, ...]:
    """The inverse of `layers_to_json`.

    Raises:
        ValueError: something else.
    """
    try:
        heads = tuple(_KINDS[one[0]](**one[1]) if isinstance(one, list) else one for one in written)
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"layers: wanted layers as written, got {written!r}.") from error
    return chain(heads).spelled


def _written(layer: int | Kind):
    if isinstance(layer, Kind) and type(layer) is not _KINDS.get(type(layer).__name__):
        raise ValueError(f"layers: wanted numbers and layers of {', '.join(_KINDS)} to record, got {layer!r}.")
    if not isinstance(layer, Kind):
        return layer
    return [type(layer).__name__, {name: value for name, value in asdict(layer).items() if value is not None}]
