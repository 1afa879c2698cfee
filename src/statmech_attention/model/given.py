"""What `attentioned_inputs` and `token_inputs` are given: tokens, attention, readout and norms, checked together."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float

from statmech_attention import checks
from statmech_attention.layers.chains import Chain
from statmech_attention.model.attention import Attention, chain_and_matrices
from statmech_attention.model.inputs import ReadAttention, padded, token_weights
from statmech_attention.model.scales import token_scales


class Given(NamedTuple):
    """Tokens and all that acts on them; layers have gates in place of matrices, or None without either.

    Attributes:
        weights: of every token at the readout.
        norms: factors of the tokens before and after every layer, or None.
    """

    chain: Chain
    inputs: Float[Array, "examples tokens features"]
    mask: Bool[np.ndarray, "examples tokens"] | None
    weights: Float[np.ndarray, "examples tokens"]
    matrices: tuple[Float[Array, "..."] | None, ...]
    norms: Any


def given_parts(inputs, attention, gates, *, layout: str, mask, **options) -> Iterator[Given]:
    """Check what was given: all of it at once, or one part for each batch of attention that was read."""
    reads = _reads(inputs)
    if reads is None:
        yield _given(inputs, attention, gates, layout=layout, mask=mask, **options)
        return
    if attention is not None or gates is not None or mask is not None or layout != "key_query":
        raise ValueError("inputs: wanted attention that was read alone. Its mask is in read._replace(mask=..).")
    for read in reads:
        part = _given(read.inputs, _own(read), read.gates, layout=layout, mask=read.mask, **options)
        if _all_alike(part):
            raise ValueError(
                f"readout: wanted a token at which heads differ, got {options['readout']!r}, where all see the same. "
                "In a causal model take readout='last'; some models return the mean of their heads."
            )
        yield part


def _reads(inputs) -> Iterator[ReadAttention] | None:
    """Reads, a batch at a time; None for tokens."""
    if isinstance(inputs, ReadAttention):
        return iter((inputs,))
    several = isinstance(inputs, list | tuple) and any(isinstance(one, ReadAttention) for one in inputs)
    return _checked_reads(inputs) if several or isinstance(inputs, Iterator) else None


def _checked_reads(several) -> Iterator[ReadAttention]:
    """At least one read, and nothing else."""
    read = None
    for read in several:
        if not isinstance(read, ReadAttention):
            break
        yield read
    if not isinstance(read, ReadAttention):
        got = "none" if read is None else type(read).__name__
        raise ValueError(f"inputs: wanted batches that attention_from_torch or .._transformers returned, got {got}.")


def _given(inputs, attention, gates, *, layers, readout, scales, norm, layout, mask) -> Given:
    if attention is None:
        raise ValueError(
            "attention: wanted matrices or a function of the inputs, got none. A network without heads: ()."
        )
    inputs, mask = padded(inputs, mask)
    weights = token_weights(readout, mask, *inputs.shape[:2])
    chain, matrices = chain_and_matrices(inputs, attention, layers, layout, mask, gates)
    return Given(chain, inputs, mask, weights, matrices, token_scales(scales, norm, chain, inputs))


def _own(read: ReadAttention) -> Attention:
    """Its matrices; as a function of the inputs, whose sums may be any, if a sink leaves sums below one."""
    counted = True if read.mask is None else read.mask[:, None]
    below = any(np.any(counted & (matrix.sum(axis=2) < 1 - 1e-3)) for matrix in read.attention if matrix.ndim == 4)
    return (lambda inputs: read.attention) if below else read.attention


def _all_alike(given: Given) -> bool:
    """True if at the readout all heads of every layer see the same, and there are several of some layer."""
    columns, several = given.weights[:, None, :, None], False
    for matrix in reversed([matrix for matrix in given.matrices if matrix is not None and matrix.ndim == 4]):
        if not checks.concrete(matrix):
            return False
        seen = np.asarray(matrix) @ columns
        several |= seen.shape[1] > 1
        if np.ptp(seen, axis=1).max() > 0:
            return False
        columns = seen[:, :1]
    return several
