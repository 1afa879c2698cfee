"""Sequences of unequal length: padded together they give what each gives alone."""

import jax
import numpy as np
import pytest
import reference

import statmech_attention as sma
from attention_book.one_shot import head_confidence
from statmech_attention.layers import Linear, SkipHeads

LENGTHS, TOKENS, FEATURES, HEADS = (3, 5, 2, 5, 4), 5, 3, (2, 3)
ENDS = np.arange(TOKENS)[None] < np.array(LENGTHS)[:, None]
# Padding in front, behind, and in between.
MASKS = {"behind": ENDS, "in front": ENDS[:, ::-1], "between": np.array([np.roll(row, 1) for row in ENDS])}


@pytest.fixture(params=["in front", "between"], scope="module")
def mask(request):
    return MASKS[request.param]


@pytest.fixture(scope="module")
def inputs():
    return np.random.default_rng(0).normal(size=(len(LENGTHS), TOKENS, FEATURES))


def attentions(own=None):
    """Both forms; own masks and biases only where a token has the same place when it is alone."""
    rng = np.random.default_rng(1)
    products = [rng.normal(size=(count, FEATURES, FEATURES)) for count in HEADS]
    queries, keys = ([rng.normal(size=(count, 2, FEATURES)) for count in HEADS] for _ in range(2))
    return sma.attention_from_products(products, mask=own), sma.attention_from_queries_and_keys(queries, keys, mask=own)


def alone(inputs, mask):
    """Every sequence as a batch of one without padding."""
    return [inputs[example, mask[example]][None] for example in range(len(inputs))]


def turned(matrices, layout):
    """Matrices with keys before queries, or the other way round."""
    return matrices if layout == "key_query" else [np.swapaxes(matrix, -1, -2) for matrix in matrices]


def all_close(found, wanted):
    np.testing.assert_allclose(found, np.concatenate(wanted), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("readout", ["first", "last", "mean", 1])
def test_a_padded_batch_equals_its_sequences_one_by_one(inputs, mask, readout):
    padded = np.where(mask[..., None], inputs, np.nan)  # what is on padding does not matter
    weights = sma.sample_weights(key=jax.random.key(0), layers=HEADS, width=4, features=FEATURES)
    for attention in attentions():
        found = sma.attentioned_inputs(padded, attention, readout=readout, mask=mask).values
        all_close(
            found, [sma.attentioned_inputs(one, attention, readout=readout).values for one in alone(inputs, mask)]
        )
        outputs = sma.forward(weights, padded, attention, readout=readout, mask=mask)
        all_close(outputs, [sma.forward(weights, one, attention, readout=readout) for one in alone(inputs, mask)])


def test_a_padded_batch_with_a_causal_mask_equals_its_sequences(inputs, mask):
    causal, smaller = (np.triu(np.ones((size, size), bool)) for size in (TOKENS, 2))
    short = [example for example, length in enumerate(LENGTHS) if length == 2]
    for whole, small in zip(attentions(causal), attentions(smaller), strict=True):
        found = sma.attentioned_inputs(inputs, whole, mask=mask).values[np.array(short)]
        wanted = [sma.attentioned_inputs(alone(inputs, mask)[example], small).values for example in short]
        all_close(found, wanted)


def test_a_padded_batch_with_skips_and_norms_equals_its_sequences(inputs, mask):
    heads = (SkipHeads(2), Linear(), SkipHeads(3))
    weights = sma.sample_weights(key=jax.random.key(0), layers=heads, width=4, features=FEATURES)
    attention = attentions()[0]
    for norm in ("post", "pre"):

        def outputs(x, mask=None, norm=norm):
            scales = sma.model.normalisation_scales(weights, x, attention, layers=heads, norm=norm, mask=mask)
            seen = sma.attentioned_inputs(
                x, attention, readout="mean", layers=heads, scales=scales, norm=norm, mask=mask
            )
            by_layers = sma.forward(
                weights, x, attention, readout="mean", layers=heads, scales=scales, norm=norm, mask=mask
            )
            np.testing.assert_allclose(sma.model.forward_paths(weights, seen), by_layers, rtol=1e-10)
            return by_layers

        all_close(outputs(inputs, mask), [outputs(one) for one in alone(inputs, mask)])


@pytest.mark.parametrize("layout", ["key_query", "query_key"])
def test_matrices_from_elsewhere_may_hold_anything_where_padding_asks(inputs, mask, layout):
    rng = np.random.default_rng(2)
    single = [reference.random_attention(rng, HEADS, 1, length) for length in LENGTHS]
    matrices = [np.full((len(LENGTHS), count, TOKENS, TOKENS), np.nan) for count in HEADS]
    for layer, matrix in enumerate(matrices):
        for example, (real, own) in enumerate(zip(mask, single, strict=True)):
            matrix[example][:, :, real] = 0
            matrix[example][np.ix_(range(HEADS[layer]), real, real)] = own[layer][0]
    wanted = [sma.attentioned_inputs(*pair).values for pair in zip(alone(inputs, mask), single, strict=True)]
    given = turned(matrices, layout)
    all_close(sma.attentioned_inputs(inputs, given, layout=layout, mask=mask).values, wanted)
    sharp = [np.concatenate([layer[0].max(axis=1) for layer in own]) for own in single]
    wanted = np.concatenate(sharp, axis=1).mean(axis=1)
    np.testing.assert_allclose(head_confidence(given, layout=layout, mask=mask), wanted)
    # Sequences as they are, each with matrices of its own.
    sequences = [one[0] for one in alone(inputs, mask)]
    layers = [turned([own[layer][0] for own in single], layout) for layer in range(len(HEADS))]
    wanted = [sma.attentioned_inputs(*pair).values for pair in zip(alone(inputs, mask), single, strict=True)]
    all_close(sma.attentioned_inputs(sequences, layers, layout=layout).values, wanted)


def test_what_does_not_fit_the_mask_is_refused(inputs):
    attention = attentions()[0]
    uniform = np.full((len(LENGTHS), 2, TOKENS, TOKENS), 1 / TOKENS)
    for given, options, message in (
        ([uniform], {}, "attention of layer 1: .* Compute them with the mask"),
        ([uniform[..., :4]], {}, "attention of layer 1: wanted shape \\(5, heads, 5, 5\\), got"),
        ([np.full_like(uniform, np.nan)], {}, "attention of layer 1: wanted finite numbers"),
        (attention, {"mask": ENDS[:, :-1]}, r"mask: wanted booleans of shape \(5, 5\), got bool of shape \(5, 4\)"),
        (
            attention,
            {"mask": ENDS & (np.arange(5) != 2)[:, None]},
            "a token, true, in every example, got .* 2",
        ),
        (attention, {"readout": 3}, r"readout: .* an index in 0\.\.1, got 3"),
    ):
        with pytest.raises(ValueError, match=message):
            sma.attentioned_inputs(inputs, given, **{"mask": ENDS} | options)
    with pytest.raises(ValueError, match="mask: not accepted with sequences of unequal length"):
        sma.attentioned_inputs([inputs[0], inputs[1, :2]], attention, mask=ENDS[:2])
    strict = sma.attention_from_products(attention.queries, mask=~np.eye(TOKENS, dtype=bool))
    with pytest.raises(ValueError, match="an allowed key for every token, got none for token 0 of"):
        strict(inputs, mask=np.arange(TOKENS)[None].repeat(len(LENGTHS), axis=0) < 1)


WEIGHTS = sma.sample_weights(key=jax.random.key(0), layers=(2,), width=4, features=FEATURES)
READ = {
    "attentioned_inputs": sma.attentioned_inputs,
    "forward": lambda inputs, given, layout, **how: sma.forward(WEIGHTS, inputs, turned(given, layout), **how),
    "head_confidence": lambda inputs, given, **how: head_confidence(given, **how),
}


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("layout", ["key_query", "query_key"])
def test_padding_without_a_mask_is_refused(inputs, read, layout):
    single = [reference.random_attention(np.random.default_rng(2), (2,), 1, length)[0][0] for length in LENGTHS]
    padded = np.stack([np.pad(one, ((0, 0), *((0, TOKENS - one.shape[1]),) * 2)) for one in single])
    given = turned([padded], layout)
    message = "attention of layer 1: .* got 0 to 1. Of padded sequences pass mask="
    READ[read](inputs, given, layout=layout, mask=ENDS)
    with pytest.raises(ValueError, match=message):
        READ[read](inputs, given, layout=layout)
    with pytest.raises(ValueError, match="attention of layer 1: .* got 0 to 1. Compute them with the mask"):
        READ[read](inputs, given, layout=layout, mask=np.ones_like(ENDS))


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("layout", ["key_query", "query_key"])
@pytest.mark.parametrize("place", ["behind", "in front"])
def test_padding_that_no_token_attends_to_is_refused_without_a_mask(inputs, read, layout, place):
    """As Hugging Face returns it: keys are masked by a large number, queries on padding are not."""
    logits = np.random.default_rng(2).normal(size=(len(LENGTHS), 2, TOKENS, TOKENS))
    logits = np.where(MASKS[place][:, None, :, None], logits, -1e30)
    padded = np.exp(logits - logits.max(axis=2, keepdims=True))
    given = turned([padded / padded.sum(axis=2, keepdims=True)], layout)
    READ[read](inputs, given, layout=layout, mask=MASKS[place])
    with pytest.raises(ValueError, match="attention: wanted a mask, got 3 tokens of example 2 .* Pass mask="):
        READ[read](inputs, given, layout=layout)


def test_a_function_may_return_matrices_with_columns_of_zeros(inputs):
    (matrix,) = reference.random_attention(np.random.default_rng(2), (2,), len(LENGTHS), TOKENS)
    matrix[..., -1] = 0
    with pytest.raises(ValueError, match="attention of layer 1: .* got 0 to 1"):
        sma.attentioned_inputs(inputs, [matrix])
    np.testing.assert_array_equal(sma.attentioned_inputs(inputs, lambda _: [matrix]).values, 0)
