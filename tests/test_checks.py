"""Bad input of every public function: a ValueError that says what was wanted, before anything is compiled."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention import checks

RNG = np.random.default_rng(110)
EXAMPLES, TOKENS, FEATURES, HEADS = 3, 4, 5, (2, 2)
INPUTS = RNG.normal(size=(EXAMPLES, TOKENS, FEATURES))
MATRICES = [RNG.uniform(size=(EXAMPLES, 2, TOKENS, TOKENS)) for _ in HEADS]
ROWS = RNG.dirichlet(np.ones(TOKENS), size=(EXAMPLES, 2, TOKENS))
SCALES = [RNG.uniform(0.5, 2, size=(EXAMPLES, TOKENS)) for _ in HEADS]
PRODUCTS = [RNG.normal(size=(2, FEATURES, FEATURES)) for _ in HEADS]
QUERIES = [RNG.normal(size=(2, 3, FEATURES)) for _ in HEADS]
XI = RNG.normal(size=(EXAMPLES, 4, FEATURES))
LABELS = np.array([1.0, -1.0, 1.0])
UNIT = np.eye(4)
PARAMETERS = (np.eye(4), np.eye(2), 1.0)
SIZES = {"heads": HEADS, "width": 3, "features": FEATURES}
WELL = {"width": 4.0, "temperature": 0.1, "heads": HEADS}
SWEEP = {"widths": [4.0], "temperatures": [0.1], "heads": HEADS}


def with_entry(array, value):
    """A copy with one entry replaced."""
    changed = np.array(array, float)
    changed.flat[1] = value
    return changed


def single(array):
    return np.asarray(array, "float32")


def wrapped(values=XI, heads=HEADS):
    return sma.AttentionedInputs(jnp.asarray(values), heads)


def weights():
    return sma.Weights(jnp.ones((3, FEATURES)), tuple(jnp.ones((count, 3, 3)) for count in HEADS), jnp.ones(3))


def scaled(scales, norm="post"):
    return sma.attentioned_inputs(INPUTS, MATRICES, scales=scales, norm=norm)


def key():
    return jax.random.key(0)


NAN, INF = math.nan, math.inf
FINITE = r"wanted finite numbers, got NaN or infinity\. Look for them with jnp\.isfinite"
DOUBLE = r"wanted float64, got float32\. Convert it with \w+\.astype\('float64'\)"

BAD = {
    "attention_from_products": [
        (lambda: sma.attention_from_products([]), "products: wanted at least one attention layer, got none"),
        (
            lambda: sma.attention_from_products([np.zeros((3, 3))]),
            r"products\[0\]: wanted shape \(heads, features, feat",
        ),
        (lambda: sma.attention_from_products([np.zeros((0, 3, 3))]), r"products\[0\]: wanted at least one entry"),
        (lambda: sma.attention_from_products([np.zeros((2, 3, 4))]), r"products: wanted shape \(heads, 4, 4\).*got"),
        (lambda: sma.attention_from_products([PRODUCTS[0], np.zeros((2, 3, 3))]), r"wanted shape \(heads, 5, 5\)"),
        (lambda: sma.attention_from_products([with_entry(PRODUCTS[0], NAN)]), rf"products\[0\]: {FINITE}"),
        (lambda: sma.attention_from_products([PRODUCTS[0] * 1j]), r"products\[0\]: wanted real numbers, got complex"),
        (lambda: sma.attention_from_products([[[["a"]]]]), r"products\[0\]: wanted real numbers of shape"),
        (
            lambda: sma.attention_from_products(PRODUCTS, mask=np.ones((4, 4))),
            "mask: wanted booleans of shape .*got float64",
        ),
        (
            lambda: sma.attention_from_products(PRODUCTS, mask=np.ones((4, 3), bool)),
            r"mask: wanted .* of shape \(4, 3\)",
        ),
        (
            lambda: sma.attention_from_products(PRODUCTS, mask=np.triu(np.ones((4, 4), bool), 1)),
            "mask: wanted at least one allowed key for every query, got none for query 0",
        ),
        (
            lambda: sma.attention_from_products(PRODUCTS)(INPUTS[0]),
            r"inputs: wanted shape \(examples, tokens, features\)",
        ),
        (lambda: sma.attention_from_products(PRODUCTS)(INPUTS[..., :3]), "the features axis and the .*got 3 and 5"),
        (
            lambda: sma.attention_from_products(PRODUCTS, mask=np.ones((3, 3), bool))(INPUTS),
            "the tokens axis and the mask, got 4 and 3",
        ),
        (lambda: sma.attention_from_products(PRODUCTS)(with_entry(INPUTS, INF)), f"inputs: {FINITE}"),
    ],
    "attention_from_products.sequence": [
        (
            lambda: sma.attention_from_products(np.zeros((2, 3, 3))),
            r"products: wanted a sequence .* Write \(products,\)",
        ),
        (lambda: sma.attention_from_products(None), "products: wanted a sequence with one array a layer, got None"),
    ],
    "attention_from_queries_and_keys": [
        (lambda: sma.attention_from_queries_and_keys(np.ones((2, 3, 5)), QUERIES), "queries: wanted a sequence"),
        (lambda: sma.attention_from_queries_and_keys([], []), "queries: wanted at least one attention layer, got none"),
        (lambda: sma.attention_from_queries_and_keys(QUERIES, QUERIES[:1]), r"keys \(layers\), got 2 and 1"),
        (
            lambda: sma.attention_from_queries_and_keys(QUERIES, [QUERIES[0], QUERIES[1][:, :2]]),
            r"queries and keys of layer 2: wanted equal shapes .* got \(2, 3, 5\) and \(2, 2, 5\)",
        ),
        (
            lambda: sma.attention_from_queries_and_keys(*[[QUERIES[0], QUERIES[1][..., :4]]] * 2),
            r"queries and keys of layer 2: wanted equal shapes \(heads, dimension, 5\), got \(2, 3, 4\)",
        ),
        (lambda: sma.attention_from_queries_and_keys(QUERIES, [np.ones((3, 5))] * 2), r"keys\[0\]: wanted shape"),
        (lambda: sma.attention_from_queries_and_keys([with_entry(QUERIES[0], INF)], QUERIES[:1]), rf"\[0\]: {FINITE}"),
        (lambda: sma.attention_from_queries_and_keys(QUERIES, QUERIES, mask=[[1]]), "mask: wanted booleans"),
        (lambda: sma.attention_from_queries_and_keys(QUERIES, QUERIES)(INPUTS[0]), "inputs: wanted shape"),
        (lambda: sma.attention_from_queries_and_keys(QUERIES, QUERIES)(INPUTS[..., :2]), "got 2 and 5"),
        (lambda: sma.attention_from_queries_and_keys(QUERIES, QUERIES)(with_entry(INPUTS, NAN)), f"inputs: {FINITE}"),
    ],
    "attention_matrices": [
        (lambda: sma.attention_matrices(INPUTS[0], MATRICES), "inputs: wanted shape"),
        (lambda: sma.attention_matrices(with_entry(INPUTS, NAN), MATRICES), f"inputs: {FINITE}"),
        (lambda: sma.attention_matrices(INPUTS, []), "attention: wanted at least one attention layer, got none"),
        (lambda: sma.attention_matrices(INPUTS, MATRICES[0]), r"attention: wanted a sequence .* Write \(attention,\)"),
        (lambda: sma.attention_matrices(INPUTS, [MATRICES[0][0]]), r"attention\[0\]: wanted shape"),
        (
            lambda: sma.attention_matrices(INPUTS[:2], MATRICES),
            r"attention of layer 1: wanted shape \(2, heads, 4, 4\), got \(3, 2, 4, 4\)\. Matrices belong to the inputs",
        ),
        (lambda: sma.attention_matrices(INPUTS[:, :3], MATRICES), r"layer 1: wanted shape \(3, heads, 3, 3\)"),
        (lambda: sma.attention_matrices(INPUTS, [MATRICES[0], MATRICES[1][..., :3]]), "attention of layer 2: wanted"),
        (lambda: sma.attention_matrices(INPUTS, [with_entry(MATRICES[0], NAN)]), rf"attention\[0\]: {FINITE}"),
        (
            lambda: sma.attention_matrices(INPUTS, [MATRICES[0], ROWS]),
            "attention of layer 2: .* queries before keys.* Pass layout='query_key'",
        ),
    ],
    "attention_from_torch": [
        (lambda: sma.attention_from_torch(len, INPUTS), "model: wanted a torch.nn.Module, got builtin_function"),
    ],
    "attention_from_transformers": [
        (lambda: sma.attention_from_transformers(len), "model: wanted a model of transformers, got builtin_function"),
    ],
    "pad_sequences": [
        (lambda: sma.pad_sequences(INPUTS[0]), r"sequences\[0\]: wanted shape \(tokens, features\)"),
        (lambda: sma.pad_sequences([INPUTS[0], INPUTS[1, :, :2]]), r"the features of sequences\[1\] and the first"),
    ],
    "attentioned_inputs": [
        (lambda: sma.attentioned_inputs(INPUTS[0], MATRICES), r"inputs: wanted shape \(examples, tokens, features\)"),
        (lambda: sma.attentioned_inputs(INPUTS[:0], MATRICES), "inputs: wanted at least one entry on every axis"),
        (lambda: sma.attentioned_inputs(with_entry(INPUTS, NAN), MATRICES), f"inputs: {FINITE}"),
        (lambda: sma.attentioned_inputs(INPUTS, []), "attention: wanted at least one .* the set of paths is empty"),
        (lambda: sma.attentioned_inputs(INPUTS[:2], MATRICES), "attention of layer 1: wanted"),
        (
            lambda: sma.attentioned_inputs(INPUTS, MATRICES, readout="middle"),
            r"readout: wanted 'first', .* got 'middle'",
        ),
        (lambda: sma.attentioned_inputs(INPUTS, MATRICES, readout=4), r"readout: .* an index in 0\.\.3, got 4"),
        (lambda: sma.attentioned_inputs(INPUTS, MATRICES, readout=-1), r"readout: .* an index in 0\.\.3, got -1"),
        (lambda: sma.attentioned_inputs(INPUTS, MATRICES, readout=True), "readout: wanted .* got True"),
        (lambda: sma.attentioned_inputs(INPUTS, MATRICES, readout=0.5), "readout: wanted .* got 0.5"),
    ],
    "attentioned_inputs.scales": [
        (lambda: scaled(SCALES, "both"), "norm: wanted 'post' or 'pre', got 'both'"),
        (lambda: scaled(None, "layer"), "norm: wanted 'post' or 'pre', got 'layer'"),
        (lambda: scaled(SCALES[0]), r"scales: wanted a sequence .* For one layer write \(scales,\)"),
        (lambda: scaled(1.0), "scales: wanted a sequence .* got float"),
        (lambda: scaled(SCALES[:1]), "scales: wanted 2 arrays for 2 layers and norm='post', got 1"),
        (lambda: scaled([*SCALES, SCALES[0]]), "wanted 2 arrays .* a norm below the first layer scales the inputs"),
        (lambda: scaled([*SCALES, *SCALES], "pre"), "scales: wanted 2 or 3 arrays for 2 layers and norm='pre', got 4"),
        (
            lambda: scaled([SCALES[0], SCALES[1][:2]]),
            r"scales of layer 2: wanted shape \(3, 4\), got \(2, 4\)\. .* belong to",
        ),
        (lambda: scaled([SCALES[0], SCALES[1][..., None]]), r"scales of layer 2: wanted shape \(examples, tokens\)"),
        (
            lambda: scaled([SCALES[0], with_entry(SCALES[1], 0.0)]),
            "scales of layer 2: wanted positive numbers, got 0.0",
        ),
        (lambda: scaled([with_entry(SCALES[0], -2.0), None]), "scales of layer 1: wanted positive numbers, got -2.0"),
        (lambda: scaled([SCALES[0], with_entry(SCALES[1], INF)]), f"scales of layer 2: {FINITE}"),
    ],
    "normalisation_scales": [
        (lambda: sma.normalisation_scales(weights(), INPUTS[0], MATRICES), "inputs: wanted shape"),
        (
            lambda: sma.normalisation_scales(weights(), INPUTS, MATRICES[:1]),
            r"wanted heads \(2,\) .* got heads \(2, 2\)",
        ),
        (lambda: sma.normalisation_scales(weights(), INPUTS, MATRICES, norm="mid"), "norm: wanted 'post' or 'pre'"),
        (
            lambda: sma.normalisation_scales(weights(), INPUTS, MATRICES, epsilon=-1.0),
            "epsilon: wanted a finite number",
        ),
        (lambda: sma.normalisation_scales(weights(), INPUTS, MATRICES, epsilon=INF), "epsilon: wanted a finite number"),
        (lambda: sma.normalisation_scales(weights(), 0 * INPUTS, MATRICES), "norm number 1 meets a token of zeros"),
    ],
    "mean_free": [
        (
            lambda: sma.mean_free(sma.sample_weights(key(), **SIZES | {"width": 1})),
            "weights: wanted widths of at least 2",
        ),
    ],
    "select_heads": [
        (lambda: sma.select_heads(INPUTS, MATRICES[0], LABELS, keep=1), "attention: wanted a sequence"),
        (
            lambda: sma.select_heads(INPUTS, MATRICES, LABELS, keep=1),
            "layer 1: wanted .* sums of one over the keys, got other sums",
        ),
        (
            lambda: sma.select_heads(INPUTS, [np.full((EXAMPLES, 2, TOKENS, TOKENS), 1 / TOKENS)], LABELS[:2], keep=2),
            "labels: ",
        ),
    ],
    "AttentionedInputs.keep_heads": [
        (lambda: wrapped().keep_heads((0, 1)), r"kept: wanted a list of heads for every layer, .* got \(0, 1\)"),
        (lambda: wrapped().keep_heads(((0,),)), "kept: wanted the heads of 2 layers, got 1"),
        (lambda: wrapped().keep_heads(((0,), ())), r"kept, layer 2: wanted different heads out of 0\.\.1, .* got \(\)"),
        (lambda: wrapped().keep_heads(((0, 2), (0,))), r"kept, layer 1: .* got \(0, 2\)"),
        (lambda: wrapped().keep_heads(((1,), (-1,))), r"kept, layer 2: .* got \(-1,\)"),
        (lambda: wrapped().keep_heads(((1, 1), (0,))), r"kept, layer 1: wanted different heads .* got \(1, 1\)"),
    ],
    "path_indices": [
        (
            lambda: sma.path_indices(()),
            "heads: wanted at least one attention layer, got none: the set of paths is empty",
        ),
        (lambda: sma.path_indices((2, 0)), r"heads: wanted whole numbers of at least 1, got \(2, 0\)"),
    ],
    "sample_weights": [
        (
            lambda: sma.sample_weights(key(), **SIZES | {"width": INF}),
            "width: wanted whole numbers to draw weights, got inf",
        ),
        (lambda: sma.sample_weights(key(), **SIZES | {"features": 0}), "features: wanted a whole number of at least 1"),
        (
            lambda: sma.sample_weights(key(), **SIZES | {"features": 2.5}),
            "features: wanted a whole number of at least 1",
        ),
        (lambda: sma.sample_weights(key(), **SIZES | {"heads": ()}), "heads: wanted at least one attention layer"),
        (lambda: sma.sample_weights(key(), **SIZES | {"heads": 2}), "heads: wanted one number of heads per layer"),
        (lambda: sma.sample_weights(key(), **SIZES | {"width": 0}), "width: wanted a positive number, got 0"),
        (lambda: sma.sample_weights(key(), **SIZES | {"width": 2.5}), "width: wanted whole numbers to draw weights"),
        (lambda: sma.sample_weights(key(), **SIZES | {"width": (3, 3)}), "width: wanted one number or 3 of them"),
        (
            lambda: sma.sample_weights(key(), **SIZES, variance=-1.0),
            "variance: wanted a positive finite number, got -1",
        ),
        (lambda: sma.sample_weights(key(), **SIZES, variance=(1.0, 1.0)), "variance: wanted one number or 4 of them"),
    ],
    "forward": [
        (lambda: sma.forward(weights(), INPUTS[0], MATRICES), "inputs: wanted shape"),
        (lambda: sma.forward(weights(), with_entry(INPUTS, NAN), MATRICES), f"inputs: {FINITE}"),
        (
            lambda: sma.forward(weights(), INPUTS[..., :3], MATRICES),
            "weights: wanted .* 3 features .* got .* 5 features",
        ),
        (lambda: sma.forward(weights(), INPUTS, MATRICES[:1]), r"wanted heads \(2,\) .* got heads \(2, 2\)"),
        (lambda: sma.forward(weights(), INPUTS[:2], MATRICES), "attention of layer 1: wanted"),
        (lambda: sma.forward(weights(), INPUTS, MATRICES, readout="middle"), "readout: wanted"),
        (
            lambda: sma.forward(weights(), INPUTS, MATRICES, scales=SCALES[:1]),
            "scales: wanted 2 arrays",
        ),
        (
            lambda: sma.forward(weights()._replace(readout=jnp.ones(4)), INPUTS, MATRICES),
            r"weights: wanted each layer to take the width below it, got \[3, 3, 3\] into \[3, 3, 4\]",
        ),
    ],
    "forward_paths": [
        (lambda: sma.forward_paths(weights()._replace(projection=jnp.ones(3)), wrapped()), "weights: wanted shapes"),
        (lambda: sma.forward_paths(weights(), wrapped(XI[..., :3])), "weights: wanted .* 3 features"),
        (lambda: sma.forward_paths(weights(), wrapped(heads=(4,))), r"wanted heads \(4,\) .* got heads \(2, 2\)"),
        (lambda: sma.forward_paths(weights()._replace(projection=jnp.ones((4, 5))), wrapped()), "the width below it"),
    ],
    "kernel": [
        (lambda: sma.kernel(wrapped(), wrapped(), UNIT, heads=4), "heads: wanted one number of heads per layer"),
        (
            lambda: sma.kernel(XI, XI, UNIT, heads=(4, None)),
            r"heads: wanted whole numbers of at least 1, got \(4, None\)",
        ),
        (lambda: sma.kernel(XI, XI, UNIT, heads=(NAN,)), "heads: wanted whole numbers of at least 1"),
        (lambda: sma.kernel(XI, XI, UNIT, heads=("a",)), "heads: wanted whole numbers of at least 1"),
        (lambda: sma.kernel(XI, XI, UNIT), r"heads: plain arrays carry no head structure\. Pass heads="),
        (lambda: sma.kernel(XI, XI, UNIT, heads=(2, 3)), r"attentioned: .* the paths of heads=\(2, 3\), got 4 and 6"),
        (lambda: sma.kernel(wrapped(), wrapped(), UNIT, heads=(4,)), r"already has heads \(2, 2\), got \(4,\)\. Leave"),
        (lambda: sma.kernel(XI[0], XI, UNIT, heads=HEADS), r"attentioned: wanted shape \(examples, paths, features\)"),
        (lambda: sma.kernel(XI[:, :0], XI, UNIT, heads=HEADS), "attentioned: wanted at least one entry"),
        (lambda: sma.kernel(XI, with_entry(XI, INF), UNIT, heads=HEADS), f"others: {FINITE}"),
        (lambda: sma.kernel(XI, XI[..., :2], UNIT, heads=HEADS), r"others: wanted \(paths, features\) = \(4, 5\)"),
        (lambda: sma.kernel(wrapped(), wrapped(heads=(4,)), UNIT), r"heads \(2, 2\), got .* \(4,\)"),
        (lambda: sma.kernel(XI, XI, np.eye(3), heads=HEADS), r"order_parameter: wanted shape \(4, 4\), got \(3, 3\)"),
        (lambda: sma.kernel(XI, XI, np.ones(4), heads=HEADS), r"order_parameter: wanted shape \(paths, paths\)"),
        (lambda: sma.kernel(XI, XI, with_entry(UNIT, NAN), heads=HEADS), f"order_parameter: {FINITE}"),
        (lambda: sma.kernel(single(XI), XI, UNIT, heads=HEADS), f"attentioned: {DOUBLE}"),
        (lambda: sma.kernel(XI, single(XI), UNIT, heads=HEADS), f"others: {DOUBLE}"),
        (lambda: sma.kernel(XI, XI, single(UNIT), heads=HEADS), f"order_parameter: {DOUBLE}"),
        (lambda: sma.kernel(XI, XI, UNIT, heads=HEADS, variance=0.0), "variance: wanted a positive finite number"),
        (lambda: sma.kernel(XI, XI, UNIT, heads=HEADS, variance=(1.0,)), "variance: wanted one number or 4 of them"),
    ],
    "path_kernel": [
        (lambda: sma.path_kernel(XI, XI, 0.5, 0, heads=HEADS), r"path: wanted an index in 0\.\.3, got 0.5"),
        (lambda: sma.path_kernel(XI, XI, 4, 0, heads=HEADS), r"path: wanted an index in 0\.\.3, got 4"),
        (lambda: sma.path_kernel(XI, XI, 0, -1, heads=HEADS), r"other_path: wanted an index in 0\.\.3, got -1"),
        (lambda: sma.path_kernel(XI, XI[..., :2], 0, 0, heads=HEADS), "others: wanted"),
        (lambda: sma.path_kernel(XI, XI, 0, 0), "heads: plain arrays carry no head structure"),
    ],
    "principal_overlaps": [
        (lambda: sma.principal_overlaps(np.ones((3, 2)), LABELS), "kernel: .* rows and columns, got 3 and 2"),
        (lambda: sma.principal_overlaps(np.ones(3), LABELS), r"kernel: wanted shape \(examples, examples\)"),
        (lambda: sma.principal_overlaps(np.eye(4), LABELS), "labels: .* got 3 and 4"),
        (lambda: sma.principal_overlaps(with_entry(np.eye(3), NAN), LABELS), f"kernel: {FINITE}"),
        (lambda: sma.principal_overlaps(np.eye(3), with_entry(LABELS, INF)), f"labels: {FINITE}"),
        (lambda: sma.principal_overlaps(single(np.eye(3)), LABELS), f"kernel: {DOUBLE}"),
    ],
    "centred_alignment": [
        (lambda: sma.centred_alignment(np.ones((3, 2)), LABELS), "kernel: .* rows and columns, got 3 and 2"),
        (lambda: sma.centred_alignment(np.eye(4), LABELS), "labels: .* got 3 and 4"),
        (lambda: sma.centred_alignment(with_entry(np.eye(3), INF), LABELS), f"kernel: {FINITE}"),
        (lambda: sma.centred_alignment(np.eye(3), single(LABELS)), f"labels: {DOUBLE}"),
        (lambda: sma.centred_alignment(np.eye(3), np.ones(3)), "labels: wanted at least two different values, got one"),
    ],
    "entropy": [
        (lambda: sma.entropy(3.0, heads=HEADS), r"order_parameters: wanted a tuple .* got float"),
        (lambda: sma.entropy(PARAMETERS[:2], heads=HEADS), r"order_parameters: wanted 3, .* got 2"),
        (
            lambda: sma.entropy((UNIT, np.eye(3), 1.0), heads=HEADS),
            r"\[1\]: wanted U\^\(2\) of shape \(2, 2\), got \(3, 3\)",
        ),
        (
            lambda: sma.entropy((UNIT, np.eye(2), np.ones(1)), heads=HEADS),
            r"order_parameters\[2\]: wanted shape a scalar",
        ),
        (lambda: sma.entropy((UNIT, np.ones(2), 1.0), heads=HEADS), r"order_parameters\[1\]: wanted shape"),
        (
            lambda: sma.entropy((with_entry(UNIT, NAN), np.eye(2), 1.0), heads=HEADS),
            rf"order_parameters\[0\]: {FINITE}",
        ),
        (lambda: sma.entropy((single(UNIT), np.eye(2), 1.0), heads=HEADS), r"order_parameters\[0\]: wanted float64"),
        (lambda: sma.entropy(PARAMETERS, heads=HEADS, width=-2), "width: wanted a positive number, got -2"),
        (lambda: sma.entropy(PARAMETERS, heads=HEADS, width=(1, INF, 1)), "width: wanted all widths finite or all"),
        (lambda: sma.entropy(PARAMETERS, heads=HEADS, variance=(1.0,) * 3), "variance: wanted one number or 4 of them"),
        (lambda: sma.entropy(PARAMETERS, heads=None), "heads: plain arrays carry no head structure"),
    ],
    "energy": [
        (
            lambda: sma.energy(XI, LABELS, UNIT, temperature=0.0, heads=HEADS),
            "temperature: wanted a positive .* got 0.0",
        ),
        (lambda: sma.energy(XI, LABELS, UNIT, temperature=-1, heads=HEADS), "temperature: wanted a positive .* got -1"),
        (
            lambda: sma.energy(XI, LABELS, UNIT, temperature=NAN, heads=HEADS),
            "temperature: wanted a positive .* got nan",
        ),
        (lambda: sma.energy(XI, LABELS, UNIT, temperature=INF, heads=HEADS), "temperature: wanted a positive finite"),
        (
            lambda: sma.energy(XI, LABELS, UNIT, temperature="hot", heads=HEADS),
            "temperature: wanted one positive number",
        ),
        (lambda: sma.energy(XI, LABELS[:2], UNIT, temperature=1.0, heads=HEADS), "labels: .* got 2 and 3"),
        (lambda: sma.energy(XI, LABELS, UNIT, temperature=1.0), "heads: plain arrays"),
        (lambda: sma.energy(XI, LABELS, np.eye(3), temperature=1.0, heads=HEADS), "order_parameter: wanted shape"),
        (lambda: sma.energy(single(XI), LABELS, UNIT, temperature=1.0, heads=HEADS), f"attentioned: {DOUBLE}"),
    ],
    "action": [
        (lambda: sma.action(XI, LABELS, PARAMETERS, **WELL | {"width": 0}), "width: wanted a positive number, got 0"),
        (lambda: sma.action(XI, LABELS, PARAMETERS, **WELL | {"temperature": 0}), "temperature: wanted a positive"),
        (lambda: sma.action(XI, LABELS, PARAMETERS[1:], **WELL), "order_parameters: wanted 3, .* got 2"),
        (lambda: sma.action(XI, LABELS[:, None], PARAMETERS, **WELL), r"labels: wanted shape \(examples\)"),
        (lambda: sma.action(XI, LABELS, PARAMETERS, **WELL | {"heads": None}), "heads: plain arrays"),
    ],
    "gp_order_parameters": [
        (lambda: sma.gp_order_parameters((2, -1)), "heads: wanted whole numbers of at least 1"),
        (lambda: sma.gp_order_parameters(3), "heads: wanted one number of heads per layer"),
        (lambda: sma.gp_order_parameters((2,), variance=(1.0, 0.0, 1.0)), r"variance\[1\]: wanted a positive finite"),
    ],
    "predict": [
        (lambda: sma.predict(XI, LABELS, XI, UNIT, temperature=0.0, heads=HEADS), "temperature: wanted a positive"),
        (lambda: sma.predict(XI, LABELS, XI, UNIT, temperature=1.0), "heads: plain arrays"),
        (lambda: sma.predict(XI, LABELS[:2], XI, UNIT, temperature=1.0, heads=HEADS), "labels: .* got 2 and 3"),
        (lambda: sma.predict(XI, LABELS, XI[0], UNIT, temperature=1.0, heads=HEADS), "attentioned_test: wanted shape"),
        (lambda: sma.predict(XI, LABELS, with_entry(XI, NAN), UNIT, temperature=1.0, heads=HEADS), FINITE),
        (
            lambda: sma.predict(XI, LABELS, single(XI), UNIT, temperature=1.0, heads=HEADS),
            f"attentioned_test: {DOUBLE}",
        ),
        (lambda: sma.predict(XI, LABELS, XI, np.eye(5), temperature=1.0, heads=HEADS), "order_parameter: wanted shape"),
        (
            lambda: sma.predict(XI, LABELS, XI, UNIT, temperature=1.0, heads=HEADS, paths=[]),
            r"paths: wanted .* got \[\]",
        ),
        (
            lambda: sma.predict(XI, LABELS, XI, UNIT, temperature=1.0, heads=HEADS, paths=[4]),
            r"out of 0\.\.3, .* got \[4\]",
        ),
    ],
    "predict.features": [
        (
            lambda: sma.predict(XI, LABELS, XI[..., :3], UNIT, temperature=1.0, heads=HEADS),
            r"attentioned_test: wanted \(paths, features\)",
        ),
    ],
    "restrict_paths": [
        (lambda: sma.restrict_paths([[1.0, 0.0]], [0]), "order_parameter: .* rows and columns, got 1 and 2"),
        (lambda: sma.restrict_paths(np.eye(4), "all"), "paths: wanted different indices"),
        (
            lambda: sma.restrict_paths(jnp.eye(4), []),
            r"paths: wanted different indices out of 0\.\.3, at least one, got \[\]",
        ),
        (lambda: sma.restrict_paths(jnp.eye(4), [0, 0]), r"paths: wanted different indices .* got \[0, 0\]"),
        (lambda: sma.restrict_paths(jnp.eye(4), [-1]), r"paths: .* got \[-1\]"),
        (lambda: sma.restrict_paths(jnp.eye(4), [1, 4]), r"paths: .* got \[1, 4\]"),
    ],
    "accuracy": [
        (lambda: sma.accuracy(LABELS, LABELS[:2]), "labels: .* got 2 and 3"),
        (lambda: sma.accuracy(LABELS, [1.0, 0.0, 1.0]), r"labels: wanted \+1 or -1 everywhere, got 0\.0\. Map the two"),
        (lambda: sma.accuracy(LABELS, [1, 2, -1]), r"labels: wanted \+1 or -1 everywhere, got 2\.0"),
        (lambda: sma.accuracy(LABELS[:, None], LABELS), r"mean: wanted shape \(examples\), got \(3, 1\)"),
        (lambda: sma.accuracy(with_entry(LABELS, NAN), LABELS), f"mean: {FINITE}"),
        (lambda: sma.accuracy(LABELS, with_entry(LABELS, NAN)), f"labels: {FINITE}"),
        (lambda: sma.accuracy([], []), "mean: wanted at least one entry"),
    ],
    "solve": [
        (lambda: sma.solve(XI, LABELS, **WELL | {"heads": None}), r"heads: plain arrays carry no head structure"),
        (lambda: sma.solve(XI, LABELS, **WELL | {"heads": ()}), "the set of paths is empty"),
        (lambda: sma.solve(XI, LABELS, **WELL | {"heads": (3, 2)}), r"attentioned: .* got 4 and 6"),
        (lambda: sma.solve(XI[:, :0], LABELS, **WELL), "attentioned: wanted at least one entry on every axis"),
        (lambda: sma.solve(XI[:0], LABELS[:0], **WELL), "attentioned: wanted at least one entry on every axis"),
        (
            lambda: sma.solve(XI[0], LABELS, **WELL),
            r"attentioned: wanted shape \(examples, paths, features\), got \(4, 5\)",
        ),
        (lambda: sma.solve(with_entry(XI, NAN), LABELS, **WELL), f"attentioned: {FINITE}"),
        (lambda: sma.solve(with_entry(XI, INF), LABELS, **WELL), f"attentioned: {FINITE}"),
        (lambda: sma.solve(XI, with_entry(LABELS, NAN), **WELL), f"labels: {FINITE}"),
        (lambda: sma.solve(XI, LABELS[:2], **WELL), "labels: wanted the same number in labels .* got 2 and 3"),
        (lambda: sma.solve(XI, LABELS[:, None], **WELL), r"labels: wanted shape \(examples\), got \(3, 1\)"),
        (lambda: sma.solve(XI, ["a", "b", "c"], **WELL), "labels: wanted real numbers"),
        (lambda: sma.solve(single(XI), LABELS, **WELL), f"attentioned: {DOUBLE}"),
        (lambda: sma.solve(XI, single(LABELS), **WELL), f"labels: {DOUBLE}"),
        (lambda: sma.solve(jnp.asarray(XI, "float32"), LABELS, **WELL), f"attentioned: {DOUBLE}"),
        (
            lambda: sma.solve(XI, LABELS, **WELL | {"temperature": 0.0}),
            "temperature: wanted a positive finite .* got 0.0",
        ),
        (lambda: sma.solve(XI, LABELS, **WELL | {"temperature": -0.1}), "temperature: wanted a positive .* got -0.1"),
        (lambda: sma.solve(XI, LABELS, **WELL | {"temperature": NAN}), "temperature: wanted a positive .* got nan"),
        (
            lambda: sma.solve(XI, LABELS, **WELL | {"temperature": INF}),
            "temperature: wanted a positive finite .* got inf",
        ),
        (
            lambda: sma.solve(XI, LABELS, **WELL | {"temperature": [0.1]}),
            r"temperature: wanted one positive .* \[0.1\]",
        ),
        (lambda: sma.solve(XI, LABELS, **WELL | {"width": 0}), "width: wanted a positive number, got 0.0"),
        (lambda: sma.solve(XI, LABELS, **WELL | {"width": -10}), "width: wanted a positive number, got -10.0"),
        (lambda: sma.solve(XI, LABELS, **WELL | {"width": NAN}), "width: wanted a positive number, got nan"),
        (
            lambda: sma.solve(XI, LABELS, **WELL | {"width": (4, 4)}),
            r"width: wanted one number or 3 of them, \(N_1, \.\.",
        ),
        (lambda: sma.solve(XI, LABELS, **WELL | {"width": (4, INF, 4)}), "width: wanted all widths finite or all inf"),
        (lambda: sma.solve(XI, LABELS, **WELL, variance=(1.0,) * 3), "variance: wanted one number or 4 of them"),
        (
            lambda: sma.solve(XI, LABELS, **WELL, variance=(1, 1, 0, 1)),
            r"variance\[2\]: wanted a positive finite number",
        ),
        (lambda: sma.solve(XI, LABELS, **WELL, variance=INF), "variance: wanted a positive finite number, got inf"),
        (lambda: sma.solve(XI, LABELS, **WELL, tolerance=0.0), "tolerance: wanted a positive finite number, got 0.0"),
        (lambda: sma.solve(XI, LABELS, **WELL, max_steps=0), "max_steps: wanted a whole number of at least 1, got 0"),
        (
            lambda: sma.solve(XI, LABELS, **WELL, max_steps=1.5),
            "max_steps: wanted a whole number of at least 1, got 1.5",
        ),
        (
            lambda: sma.solve(XI, LABELS, **WELL, max_steps=NAN),
            "max_steps: wanted a whole number of at least 1, got nan",
        ),
        (lambda: sma.solve(XI, LABELS, **WELL, method=3), "method: wanted one of auto, dense, products, got 3"),
        (
            lambda: sma.solve(XI, LABELS, **WELL, method="adam"),
            "method: wanted one of auto, dense, products, got 'adam'",
        ),
    ],
    "solve.start": [
        (lambda: sma.solve(XI, LABELS, **WELL, start="gp"), "start: wanted a tuple .* got str"),
        (lambda: sma.solve(XI, LABELS, **WELL, start=PARAMETERS[1:]), "start: wanted 3, .* got 2"),
        (
            lambda: sma.solve(XI, LABELS, **WELL, start=(np.eye(3), np.eye(2), 1.0)),
            r"wanted U\^\(1\) of shape \(4, 4\)",
        ),
    ],
    "solve_sweep": [
        (lambda: sma.solve_sweep(XI, LABELS, **SWEEP | {"widths": 4.0}), r"widths: wanted a list of widths, got 4\.0"),
        (
            lambda: sma.solve_sweep(XI, LABELS, **SWEEP | {"widths": []}),
            "wanted a list of at least one, .*, got an empty list",
        ),
        (
            lambda: sma.solve_sweep(XI, LABELS, **SWEEP | {"temperatures": []}),
            "wanted a list of at least one, .*, got an empty",
        ),
        (
            lambda: sma.solve_sweep(XI, LABELS, **SWEEP | {"widths": [4.0, 0.0]}),
            "width: wanted a positive number, got 0",
        ),
        (
            lambda: sma.solve_sweep(XI, LABELS, **SWEEP | {"widths": [(4.0, 4.0)]}),
            "width: wanted one number or 3 of them",
        ),
        (
            lambda: sma.solve_sweep(XI, LABELS, **SWEEP | {"temperatures": [0.1, -1.0]}),
            "temperatures: wanted a positive",
        ),
        (lambda: sma.solve_sweep(XI, LABELS, **SWEEP | {"heads": None}), "heads: plain arrays"),
        (lambda: sma.solve_sweep(XI, LABELS[:2], **SWEEP), "labels: .* got 2 and 3"),
        (lambda: sma.solve_sweep(with_entry(XI, NAN), LABELS, **SWEEP), f"attentioned: {FINITE}"),
        (lambda: sma.solve_sweep(single(XI), LABELS, **SWEEP), f"attentioned: {DOUBLE}"),
        (lambda: sma.solve_sweep(XI, LABELS, **SWEEP, variance=0.0), "variance: wanted a positive finite number"),
        (lambda: sma.solve_sweep(XI, LABELS, **SWEEP, method="adam"), "method: wanted"),
        (lambda: sma.solve_sweep(XI, LABELS, **SWEEP, max_steps=-1), "max_steps: wanted a whole number"),
        (lambda: sma.solve_sweep(XI, LABELS, **SWEEP, tolerance=-1.0), "tolerance: wanted a positive"),
    ],
    "head_indices": [
        (lambda: sma.head_indices(()), "heads: wanted"),
        (lambda: sma.head_indices((2, 0)), "heads: wanted"),
    ],
    "head_scores": [
        (
            lambda: sma.head_scores(UNIT, heads=HEADS, definition="all"),
            "definition: wanted one of both, either, got 'all'",
        ),
        (lambda: sma.head_scores(np.eye(3), heads=HEADS), r"order_parameter: wanted shape \(4, 4\) .* got \(3, 3\)"),
        (lambda: sma.head_scores(0 * UNIT, heads=HEADS), "order_parameter: wanted an entry other than zero"),
        (lambda: sma.head_scores(with_entry(UNIT, NAN), heads=HEADS), f"order_parameter: {FINITE}"),
    ],
    "prune": [
        (
            lambda: sma.prune(wrapped(), [4]),
            r"removed: wanted different heads, counted through all layers, out of 0\.\.3",
        ),
        (lambda: sma.prune(wrapped(), [1, 1]), "removed: wanted different heads"),
        (lambda: sma.prune(weights(), [0, 1]), "removed: .*layer 1"),
        (lambda: sma.prune("network", [0]), "network: wanted a TrainedNetwork, .* got str"),
    ],
    "solve.types": [
        (lambda: sma.solve(XI, LABELS, **WELL | {"width": "35"}), "width: wanted one positive number, got '35'"),
        (
            lambda: sma.solve(XI, LABELS, **WELL | {"width": ("3", 5, 5)}),
            r"width\[0\]: wanted one positive number, got '3'",
        ),
        (lambda: sma.solve(XI, LABELS, **WELL, variance="1211"), "variance: wanted one positive number, got '1211'"),
        (
            lambda: sma.solve(XI, LABELS, **WELL | {"temperature": "0.1"}),
            "temperature: wanted one positive number, got '0.1'",
        ),
        (
            lambda: sma.solve(XI, LABELS, **WELL | {"temperature": True}),
            "temperature: wanted one positive number, got True",
        ),
        (lambda: sma.solve(XI, LABELS, **WELL | {"heads": b"22"}), "heads: wanted one number of heads per layer"),
        (
            lambda: sma.solve(XI, LABELS > 0, **WELL),
            r"labels: wanted numbers, got truth values.*np\.where\(labels, 1\.0, -1\.0\)",
        ),
        (lambda: sma.solve(XI, [True, False, True], **WELL), "labels: wanted numbers, got truth values"),
        (lambda: sma.accuracy(LABELS, LABELS > 0), "labels: wanted numbers, got truth values"),
        (
            lambda: sma.solve([[[1.0], [2.0, 3.0]]], LABELS, **WELL),
            r"attentioned: wanted real numbers of shape .* got no array",
        ),
    ],
    # Here as elsewhere, the module's own tests have the others.
    "relative_bias": [(lambda: sma.relative_bias(np.zeros((2, 4)), 3), "table: wanted an odd number of distances")],
    "train_weights": [
        (lambda: sma.train_weights(XI, LABELS, **WELL | {"width": 2.5}, key=jax.random.key(0)), "width"),
    ],
    "fit": [(lambda: sma.fit(XI, LABELS, heads=HEADS, width=5, chosen=["width"]), "chosen: wanted one of temperature")],
    "evidence_slopes": [
        (lambda: sma.evidence_slopes(XI, LABELS, heads=HEADS, temperature=0.0), "temperature: wanted a positive"),
        (lambda: sma.evidence_slopes(XI, LABELS[:2], heads=HEADS, temperature=1.0), "labels: .* got 2 and 3"),
    ],
    "check_layer": [
        (lambda: sma.check_layer(2), "layer: wanted a `Layer`, got 2"),
    ],
}


@pytest.mark.parametrize(
    ("call", "message"),
    [pytest.param(*case, id=f"{name}-{index}") for name, cases in BAD.items() for index, case in enumerate(cases)],
)
def test_bad_input_is_refused_with_a_reason(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert caught.type is ValueError


def test_every_public_function_is_among_them():
    public = {name for name in sma.__all__ if callable(getattr(sma, name)) and name[0].islower()}
    # These take nothing that could be refused, or weights whose arrays they only multiply.
    public -= {"enable_x64", "effective_weights", "weights_order_parameters"}
    # These have files or data sets to be wrong; their own tests have the cases.
    public -= {"train", "save_network", "load_network"}
    assert public <= {name.split(".")[0] for name in BAD}


def compiled(caplog, call):
    """What a call compiles besides the conversion of its arrays."""
    caplog.clear()
    jax.clear_caches()
    with jax.log_compiles():
        call()
    found = {match for record in caplog.records for match in re.findall(r"Compiling jit\((\w+)\)", record.getMessage())}
    return found - {"stage", "convert_element_type"}


@pytest.mark.parametrize("name", ["solve", "solve.start", "solve_sweep", "predict", "predict.features", "kernel"])
def test_nothing_is_compiled_before_input_is_refused(name, caplog):
    def refuse_all():
        for call, _ in BAD[name]:
            with pytest.raises(ValueError, match="wanted|carry|already"):
                call()

    assert not compiled(caplog, refuse_all)


def test_what_is_compiled_can_be_seen(caplog):
    assert "minimise_action" in compiled(caplog, lambda: sma.solve(XI, LABELS, **WELL))


@pytest.mark.parametrize("name", ["entropy", "action", "solve"])
def test_order_parameters_must_be_positive_definite(name):
    flat = np.eye(4)
    flat[0, 0] = -1.0
    bad = (flat, np.eye(2), 1.0)
    calls = {
        "entropy": lambda: sma.entropy(bad, heads=HEADS),
        "action": lambda: sma.action(XI, LABELS, bad, **WELL),
        "solve": lambda: sma.solve(XI, LABELS, **WELL, start=bad),
    }
    with pytest.raises(
        ValueError, match=r"(order_parameters|start)\[0\]: wanted a positive definite U\^\(1\), got one that is not"
    ):
        calls[name]()


@pytest.mark.parametrize(
    "call",
    [
        lambda: sma.solve(single(XI), single(LABELS), **WELL),
        lambda: sma.solve(XI, LABELS, **WELL),
        lambda: sma.solve_sweep(XI, LABELS, **SWEEP),
        lambda: sma.kernel(XI, XI, UNIT, heads=HEADS),
        lambda: sma.entropy(PARAMETERS, heads=HEADS),
        lambda: sma.predict(XI, LABELS, XI, UNIT, temperature=1.0, heads=HEADS),
        lambda: sma.accuracy(LABELS, LABELS),
        lambda: sma.principal_overlaps(np.eye(3), LABELS),
    ],
)
def test_single_precision_is_refused_with_what_to_call(call):
    message = r"wanted float64, but JAX runs in single precision\. Call .*enable_x64\(\)"
    with jax.enable_x64(False), pytest.raises(ValueError, match=message):
        call()


def test_enable_x64_makes_doubles():
    with jax.enable_x64(False):
        before = jnp.ones(1).dtype
    sma.enable_x64()
    assert (before, jnp.ones(1).dtype) == (jnp.float32, jnp.float64)


def test_shapes_are_checked_inside_transformations_too():
    with pytest.raises(ValueError, match="labels: .* got 2 and 3"):
        jax.jit(lambda xi, labels: sma.solve(xi, labels, **WELL, throw=False).action)(XI, LABELS[:2])


def test_an_array_of_temperatures_is_refused_inside_transformations_too():
    with pytest.raises(ValueError, match=r"temperature: wanted one positive number, got an array of shape \(3,\)"):
        jax.jit(lambda heat: sma.solve(XI, LABELS, **WELL | {"temperature": heat}, throw=False).action)(LABELS**2)


def test_bad_test_inputs_of_a_solution_are_refused():
    solution = sma.solve(XI, LABELS, **WELL | {"width": INF})
    with pytest.raises(ValueError, match="attentioned_test: wanted shape"):
        solution.predict(XI[0])
    with pytest.raises(ValueError, match=r"attentioned_test: .* got 2 and 4"):
        solution.predict(XI[:, :2])
    with pytest.raises(ValueError, match="paths: wanted"):
        solution.predict(XI, paths=[7])
    with pytest.raises(ValueError, match=f"others: {FINITE}"):
        solution.kernel(XI, with_entry(XI, NAN))


# What is let through.


def test_whole_numbers_and_lists_become_doubles():
    found = checks.array("x", [[1, 2], [3, 4]], "rows columns", double=True)
    assert (found.dtype, found.shape) == (jnp.float64, (2, 2))
    assert checks.array("x", np.array([True]), "rows", double=True).dtype == jnp.float64
    assert checks.labels([1, -1], 2, signs=True).tolist() == [1.0, -1.0]


def test_infinity_is_positive_only_where_it_is_allowed():
    assert checks.positive("n", INF, infinite=True) == INF
    assert checks.positive("n", np.float32(2)) == 2.0
    with pytest.raises(ValueError, match="n: wanted a positive finite number, got inf"):
        checks.positive("n", INF)


def test_values_inside_transformations_are_not_looked_at():
    assert not jax.jit(lambda x: jnp.array(checks.concrete(x)))(1.0)
    assert checks.concrete(1.0, np.ones(2), jnp.ones(2))
    assert np.isnan(jax.jit(lambda x: checks.array("x", x, "rows"))(np.array([NAN]))[0])


@pytest.mark.parametrize("value", [0, 7, None, "seed", 1.5, np.zeros(2, "uint32")[:1], np.zeros(2), np.arange(2)])
def test_what_is_no_key_is_told_by_name(value):
    hint = f"jax.random.key({value})" if isinstance(value, int) else "jax.random.key(0)"
    with pytest.raises(ValueError, match=r"key: wanted (a|one) JAX random key, got .*") as caught:
        checks.key("key", value)
    assert f"key={hint}" in str(caught.value) or "Pass one of them" in str(caught.value)


def test_keys_of_either_style_pass():
    for good in (jax.random.key(0), jax.random.PRNGKey(0), np.array([0, 1], "uint32")):
        assert checks.key("key", good) is good
    with pytest.raises(ValueError, match=r"wanted one JAX random key, got shape \(3,\)"):
        checks.key("key", jax.random.split(jax.random.key(0), 3))
    jax.jit(lambda key: checks.key("key", key))(jax.random.key(0))


def test_another_variance_or_width_compiles_nothing(caplog):
    sma.solve(XI, LABELS, **WELL)
    with jax.log_compiles():
        sma.solve(XI, LABELS, **WELL | {"width": 7.0, "temperature": 0.2}, variance=1.1)
        sma.solve(XI, LABELS, **WELL, variance=(1.0, 1.1, 1.2, 1.3))
    assert not [record for record in caplog.records if "Compiling" in record.getMessage()]
