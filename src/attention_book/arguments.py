"""What arguments may be: names for readers and type checkers.

At run time all of them are `Any`. Functions look at what they are given themselves and say what was wanted, see `checks`; a
check of types before them would speak first, and say less.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    import jax
    import numpy as np
    import xarray as xr
    from matplotlib.axes import Axes

    from statmech_attention.layers.chains import Chain
    from statmech_attention.layers.kind import Kind, Layer
    from statmech_attention.model.attention import ProductAttention, QueryKeyAttention
    from statmech_attention.model.network import Weights
    from statmech_attention.model.paths import AttentionedInputs
    from statmech_attention.theory.solution import Solution

    Whole: TypeAlias = int
    Number: TypeAlias = float | np.number | np.ndarray | jax.Array  # one of them, with no axes
    Numbers: TypeAlias = np.ndarray | jax.Array | xr.DataArray | Sequence[Any] | float  # what NumPy makes an array of
    Arrays: TypeAlias = Sequence[Numbers] | np.ndarray | jax.Array  # one a layer, or one an example
    Word: TypeAlias = str  # out of a few
    File: TypeAlias = str | os.PathLike[str]
    Names: TypeAlias = str | Sequence[str]
    PerLayer: TypeAlias = Number | Sequence[Number]  # one for all layers, or one each: widths, variances
    Layers: TypeAlias = Sequence[int | Kind] | np.ndarray | Chain  # numbers of heads, or layers of any kind
    Kept: TypeAlias = Sequence[Sequence[int] | np.ndarray]  # for every layer the heads that stay
    Attention: TypeAlias = ProductAttention | QueryKeyAttention | Arrays | Callable[..., Arrays]
    Attentioned: TypeAlias = AttentionedInputs | Numbers
    Readouts: TypeAlias = str | int  # "first", "last", "mean", or a token's index
    Scales: TypeAlias = Sequence[Numbers | None]  # one a layer
    Widths: TypeAlias = Sequence[PerLayer]
    Indices: TypeAlias = Sequence[int]
    OneLayer: TypeAlias = Layer  # a layer of any kind, also one that is wrong
    Begin: TypeAlias = Solution | Arrays  # where a solver begins
    Drawn: TypeAlias = Weights | xr.Dataset  # where a sampler of weights begins
else:
    Whole = Number = Numbers = Arrays = Word = File = Names = PerLayer = Any
    Layers = Kept = Attention = Attentioned = Readouts = Scales = Axes = Any
    Widths = Indices = OneLayer = Begin = Drawn = Any
