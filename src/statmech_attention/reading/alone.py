"""One text of a batch, run alone: what a batch does to a text is found by comparing the two."""

from collections.abc import Sequence

import numpy as np

from statmech_attention.model.inputs import in_numpy

_RIGHT = "Pad on the right, as with tokeniser.padding_side = 'right'"
_PLACES = "position_ids=(attention_mask.cumsum(1) - 1).clamp(min=0)"


def shortest(mask: np.ndarray) -> tuple[int, np.ndarray] | None:
    """The example with the most padding, in front if there is any, and its tokens; None for one text without it."""
    if len(mask) == 1 and mask.all():
        return None
    front = np.array([in_front(np.flatnonzero(row)) for row in mask])
    example = int(np.argmax((mask == 0).sum(axis=1) + mask.shape[1] * front))
    return example, np.flatnonzero(mask[example])


def in_front(places: np.ndarray) -> bool:
    """True where padding stands in front of tokens or among them."""
    return bool(np.any(places != np.arange(len(places))))


def of_one(value, example: int, places: np.ndarray, shape: tuple[int, int]):
    """An argument `(examples, tokens, ..)`, or `(examples, ..)`, of a model for one example without its padding."""
    if not hasattr(value, "shape") or not value.ndim:
        return value
    one = value[[example]] if len(value) == shape[0] else value
    return one[:, places] if value.ndim > 1 and value.shape[1] == shape[1] and len(one) == 1 else one


def check_alike(example: int, places: np.ndarray, batch: Sequence, alone: Sequence, *, named: bool) -> None:
    """Raise ValueError where an example's tokens or attention are others in the batch than alone.

    Args:
        example: its number.
        places: of its tokens.
        batch: tensors of the batch, first the tokens `(examples, tokens, features)`, then matrices
            `(examples, heads, tokens, tokens)`.
        alone: the same of the example without its padding.
        named: whether the model takes `position_ids`.
    """
    apart = 0.0
    for whole, one in zip(batch, alone, strict=True):
        cut = whole[example][places] if whole.ndim == 3 else whole[example][:, places][:, :, places]
        if cut.shape != one.shape[1:]:
            return  # windows, or tokens that are no inputs: refused elsewhere, or not to be compared
        left, right, rounding = in_numpy(cut), in_numpy(one[0]), np.sqrt(_rounding(one))
        share = float(np.abs(left - right).max() / (np.abs(right).max() or 1.0))
        apart = apart if share <= rounding else share
    if apart != 0:
        remedy = "Something mixes texts, or is drawn at random: read one text at a time"
        if in_front(places):
            remedy = _RIGHT + (f", or pass {_PLACES}" if named else "")
        raise ValueError(
            f"model: wanted a batch in which a text is read as it is alone, got tokens or attention of example "
            f"{example} that are off by {100 * apart:.2g} % of the largest. {remedy}."
        )


def _rounding(tensor) -> float:
    """Share of one that is lost in its rounding."""
    return 2.0 ** -{"torch.float64": 52, "torch.float16": 10, "torch.bfloat16": 7}.get(str(tensor.dtype), 23)
