"""A trained network in what the theory and the pruning need of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention import AttentionedInputs, attention_from_queries_and_keys
from statmech_attention.layers import Chain, Kind
from statmech_attention.layers.chains import order_parameters_on, partial_paths_left
from statmech_attention.model import SoftmaxAttention

CURVE = ("step", "train_loss", "train_accuracy", "validation_loss", "validation_accuracy")


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """Attention and effective weights of a trained network, in the scaling of (1) to (7)."""

    queries: tuple[Float[np.ndarray, "_heads dimension features"], ...]
    keys: tuple[Float[np.ndarray, "_heads dimension features"], ...]
    vectors: Float[np.ndarray, "paths features"]  # $v^\pi$ of $f(x) = \sum_\pi v^\pi \cdot \xi^\pi(x)$
    order_parameters: tuple[Float[np.ndarray, "..."], ...]  # by (13); $G^{(l)}$ of narrow heads after $U^{(l)}$
    value_norms: tuple[Float[np.ndarray, " _heads"], ...]  # Frobenius; of narrow heads $(|V|^2 + \frac Nd |O|^2)^{1/2}$
    width: int
    curve: Float[np.ndarray, "validations 5"]
    best_step: int
    layers: tuple[int | Kind, ...]
    offsets: Float[np.ndarray, " paths"] | None = None  # that the projection's bias adds along every path
    bias: float = 0.0

    @property
    def attention(self) -> SoftmaxAttention | tuple[()]:
        """The attention (3) of the layers that have heads, in JAX's default precision."""
        dtype = jnp.result_type(float)
        layers = [[jnp.asarray(layer, dtype) for layer in side if len(layer)] for side in (self.queries, self.keys)]
        return attention_from_queries_and_keys(*layers) if layers[0] else ()

    def outputs(self, attentioned: AttentionedInputs) -> Float[Array, " examples"]:
        r"""Return $f(x) = \sum_\pi v^\pi \cdot \xi^\pi(x)$, and what biases add, `(examples,)`."""
        output = jnp.einsum("epi,pi->e", attentioned.values, self.vectors_for(attentioned))
        return output if self.offsets is None else output + float(self.offsets.sum()) + self.bias

    def vectors_for(self, attentioned: AttentionedInputs) -> Float[Array, "paths features"]:
        """Return `vectors` in the precision of inputs, which must fit the network."""
        if attentioned.values.shape[1:] != self.vectors.shape or attentioned.layers != self.layers:
            raise ValueError(
                f"attentioned: wanted layers {self.layers} and (paths, features) {self.vectors.shape}, got layers "
                f"{attentioned.layers} and {attentioned.values.shape[1:]}. Compute it with this network's attention."
            )
        return jnp.asarray(self.vectors, attentioned.values.dtype)

    def keep_heads(self, kept: Sequence[Sequence[int]]) -> "TrainedNetwork":
        """The network with only some heads of every layer; the learning curve stays as it was."""
        whole = Chain.of(self.layers)
        smaller, parts = whole.keep(kept)
        partial = partial_paths_left(whole.branches, [part.branches for part in parts])
        # The vectors hold the paths' coefficients, 1/sqrt(H_l) of every head; the order parameters (13) do not.
        rescaling = math.sqrt(whole.divisor / smaller.divisor) * smaller.path_gains / whole.path_gains[partial[0]]
        offsets = None if self.offsets is None else rescaling.astype(self.offsets.dtype) * self.offsets[partial[0]]
        return replace(
            self,
            offsets=offsets,
            queries=_taken(self.queries, kept),
            keys=_taken(self.keys, kept),
            vectors=rescaling[:, None].astype(self.vectors.dtype) * self.vectors[partial[0]],
            order_parameters=order_parameters_on(self.order_parameters, whole, parts),
            value_norms=_taken(self.value_norms, [part.matrices for part in parts]),
            layers=smaller.shorthand,
        )

    def head_weight_norms(self, *, values_only: bool = False) -> Float[np.ndarray, " heads"]:
        r"""Return $(\|V\|^2 + \|Q\|^2 + \|K\|^2)^{1/2}$ of each head while training, or of $V$ alone."""
        squares = []
        for norms, queries, keys in zip(self.value_norms, self.queries, self.keys, strict=True):
            square = np.asarray(norms, float) ** 2 / self.width  # values are sqrt(N) times those of training
            if not values_only:
                square = square + sum(np.sum(np.asarray(side, float) ** 2, axis=(1, 2)) for side in (queries, keys))
            squares.append(square)
        return np.sqrt(np.concatenate(squares))


def _taken(layers, kept) -> tuple:
    return tuple(layer.take(np.asarray(left, int), axis=0) for layer, left in zip(layers, kept, strict=True))
