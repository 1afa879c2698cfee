"""The encoder against one in NumPy; padding and batches; the real weights only where they are installed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_book.encoder import encode, installed, pretrained_encoder, random_encoder
from attention_book.encoder.tokens import Tokens, _tokeniser, tokenise

from . import bert
from .packages import put, real_texts  # noqa: F401

LAYERS, HEADS = 2, 3
SENTENCES = (
    "What is the highest Roman numeral ?",
    "How did serfdom develop in and then leave Russia ?",
    "Effective but too tepid biopic",
    "Ok lar... Joking wif u oni...",
)


def numbered(lengths, vocabulary, padding=0):
    """Random tokens, rubbish on the padding."""
    rng = np.random.default_rng(5)
    lengths = np.array(lengths)
    return Tokens(rng.integers(vocabulary, size=(len(lengths), lengths.max() + padding)), lengths, lengths)


@pytest.fixture(scope="module")
def encoder():
    return random_encoder(jax.random.key(3), layers=LAYERS, heads=HEADS, width=12, vocabulary=20, positions=9)


@pytest.fixture(scope="module")
def tokens():
    return numbered([4, 7, 1, 5, 7], 20)


@pytest.fixture(scope="module")
def encoding(encoder, tokens):
    return encode(encoder, tokens)


def assert_is_bert(encoding, weights, tokens, layers, heads, tolerance):
    """All that is not on padding, and that padding gets no attention."""
    for row, length in enumerate(tokens.lengths):
        wanted = bert.forward(weights, tokens.ids[row, :length], layers=layers, heads=heads)
        close = {"rtol": tolerance, "atol": tolerance}
        np.testing.assert_allclose(encoding.embeddings[row, :length], wanted["embeddings"], **close)
        np.testing.assert_allclose(encoding.hidden[row, :, :length], wanted["hidden"], **close)
        np.testing.assert_allclose(encoding.scales[row, :, :, :length], wanted["scales"], **close)
        np.testing.assert_allclose(encoding.pooled[row], wanted["pooled"], **close)
        for layer, matrices in enumerate(encoding.attention):
            seen = np.asarray(matrices[row, :, :length, :length])
            np.testing.assert_allclose(seen, np.swapaxes(wanted["attention"][layer], 1, 2), **close)
            assert np.all(np.asarray(matrices)[row, :, length:] == 0)


def test_encoding_is_that_of_bert_in_numpy(encoder, tokens, encoding):
    assert_is_bert(encoding, bert.named(encoder), tokens, LAYERS, HEADS, 1e-11)


def test_encoding_does_not_depend_on_padding_and_batches(encoder, tokens, encoding):
    more = encode(encoder, tokens.padded(9), batch=2)
    assert more.hidden.shape[2] == 9
    np.testing.assert_allclose(more.pooled, encoding.pooled, rtol=1e-11)
    for one, other in zip(more.attention, encoding.attention, strict=True):
        for row, length in enumerate(tokens.lengths):
            seen, wanted = one[row, :, :, :length], other[row, :, :, :length]
            np.testing.assert_allclose(seen[:, : wanted.shape[1]], wanted, rtol=1e-11, atol=1e-13)
            assert not np.any(np.asarray(seen)[:, wanted.shape[1] :])


def test_layers_of_the_encoder_come_in_the_order_asked_for(encoder, tokens, encoding):
    found = encode(encoder, tokens, (1, 0, 1))
    for place, layer in enumerate((1, 0, 1)):
        np.testing.assert_array_equal(found.attention[place], encoding.attention[layer])
        np.testing.assert_array_equal(found.hidden[:, place], encoding.hidden[:, layer])
        np.testing.assert_array_equal(found.scales[:, place], encoding.scales[:, layer])


def test_gated_head_is_one_whose_values_and_their_bias_are_scaled(encoder, tokens, encoding):
    gates = np.ones((LAYERS, HEADS))
    np.testing.assert_allclose(encode(encoder, tokens, head_gates=gates).pooled, encoding.pooled, rtol=1e-12)
    gates[0, 1] = 0.25
    weights = bert.named(encoder)
    for part in ("weight", "bias"):
        value = np.array(weights[f"encoder.layer.0.attention.self.value.{part}"])
        value[4:8] *= 0.25  # width 12, three heads
        weights[f"encoder.layer.0.attention.self.value.{part}"] = value
    assert_is_bert(encode(encoder, tokens, head_gates=gates), weights, tokens, LAYERS, HEADS, 1e-11)


def test_tokens_that_do_not_fit_the_encoder_are_refused(encoder, tokens):
    with pytest.raises(ValueError, match="wanted numbers below 20, and at most 9 tokens"):
        encode(encoder, Tokens(np.array([[1, 40]]), np.array([2]), np.array([2])))
    with pytest.raises(ValueError, match="at most 9 tokens"):
        encode(encoder, numbered([10], 20))


@pytest.mark.parametrize(("multiple", "length"), [(1, 5), (4, 8), (3, 6), (16, 9)])
def test_padding_is_trimmed_to_a_multiple_and_never_added(multiple, length):
    ids, lengths = np.arange(18).reshape(2, 9), np.array([5, 2])
    found = Tokens(ids, lengths, lengths).trimmed(multiple)
    np.testing.assert_array_equal(found.ids, ids[:, :length])
    np.testing.assert_array_equal(found.lengths, lengths)
    with pytest.raises(ValueError, match="multiple: wanted a whole number of at least 1"):
        found.trimmed(0)


@pytest.mark.parametrize("name", ["weights", "tokeniser", "settings"])
def test_altered_file_of_the_encoder_is_named_and_not_used(name, put):  # noqa: F811
    path = put(name, b"something else", right=False)
    with pytest.raises(ValueError, match=rf"{path.name}: truncated, altered.*wanted SHA-256 .*make text"):
        installed.content(name)


def test_missing_packages_of_the_encoder_are_named(monkeypatch):
    for name, file in installed.FILES.items():
        monkeypatch.setitem(installed.FILES, name, file._replace(package="not_there_at_all"))
    with pytest.raises(ModuleNotFoundError, match="package not_there_at_all is not installed.*make text"):
        installed.content("weights")
    assert installed.missing()[0] == "not_there_at_all"
    with pytest.raises(ModuleNotFoundError, match="no_such_reader is not installed.*make text"):
        installed.library("no_such_reader")


@real_texts
def test_tokens_are_those_of_the_encoders_vocabulary():
    found = tokenise(SENTENCES)
    words = [_tokeniser().id_to_token(number) for number in found.ids[2, : found.lengths[2]]]
    assert words == ["[CLS]", "effective", "but", "too", "te", "##pid", "bio", "##pic", "[SEP]"]
    np.testing.assert_array_equal(found.lengths, found.uncut)
    assert not np.any(found.ids[~found.mask])


@pytest.fixture(scope="module")
def pretrained():
    return pretrained_encoder()


@real_texts
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("float64", 1e-10)])
def test_pretrained_encoder_is_bert_with_the_weights_of_the_file(pretrained, precision, tolerance):
    from safetensors.numpy import load

    settings = (pretrained.depth, pretrained.heads, pretrained.words.shape, pretrained.layers.inner.weight.shape)
    assert settings == (6, 12, (30522, 384), (6, 1536, 384))
    assert pretrained.words.dtype == jnp.float32
    encoder = jax.tree.map(lambda weights: weights.astype(precision), pretrained)
    read = tokenise(SENTENCES)
    encoding = encode(encoder, read)
    assert encoding.pooled.dtype == precision
    assert_is_bert(encoding, load(installed.content("weights")), read, 6, 12, tolerance)
