"""BERT for one sentence in double precision, from its paper: no padding, no batches."""

import numpy as np
from scipy.special import erf


def forward(weights, ids, *, layers, heads, epsilon=1e-12):
    """Everything that `encode` gives back, of one sentence; attention as `[layer][head][query, key]`."""
    weights = {name: np.asarray(array, float) for name, array in weights.items()}
    vectors = [
        weights["embeddings.word_embeddings.weight"][token]
        + weights["embeddings.position_embeddings.weight"][place]
        + weights["embeddings.token_type_embeddings.weight"][0]
        for place, token in enumerate(ids)
    ]
    hidden, _ = norm(weights, "embeddings.LayerNorm", np.array(vectors), epsilon)
    found = {"embeddings": hidden, "attention": [], "hidden": [], "scales": []}
    for layer in range(layers):
        name = f"encoder.layer.{layer}"
        sides = [dense(weights, f"{name}.attention.self.{side}", hidden) for side in ("query", "key", "value")]
        size = hidden.shape[1] // heads
        patterns, outputs = [], []
        for head in range(heads):
            query, key, value = (side[:, head * size : (head + 1) * size] for side in sides)
            pattern = np.exp(query @ key.T / np.sqrt(size))
            pattern /= pattern.sum(axis=1, keepdims=True)
            patterns.append(pattern)
            outputs.append(pattern @ value)
        block = dense(weights, f"{name}.attention.output.dense", np.concatenate(outputs, axis=1))
        middle, first = norm(weights, f"{name}.attention.output.LayerNorm", hidden + block, epsilon)
        units = dense(weights, f"{name}.intermediate.dense", middle)
        units = units * (1 + erf(units / np.sqrt(2))) / 2
        block = dense(weights, f"{name}.output.dense", units)
        hidden, second = norm(weights, f"{name}.output.LayerNorm", middle + block, epsilon)
        found["attention"].append(patterns)
        found["hidden"].append(hidden)
        found["scales"].append([first, second])
    mean = hidden.mean(axis=0)
    found["pooled"] = mean / np.sqrt(mean @ mean)
    return found


def dense(weights, name, values):
    return values @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def norm(weights, name, values, epsilon):
    """Normalised tokens, and one over each token's standard deviation."""
    deviation = np.sqrt(values.var(axis=1) + epsilon)
    normal = (values - values.mean(axis=1)[:, None]) / deviation[:, None]
    return weights[f"{name}.weight"] * normal + weights[f"{name}.bias"], 1 / deviation


def named(encoder):
    """The weights of one of the package's encoders under BERT's names."""
    found = {
        "embeddings.word_embeddings.weight": encoder.words,
        "embeddings.position_embeddings.weight": encoder.positions,
        "embeddings.token_type_embeddings.weight": np.asarray(encoder.kind)[None],
        "embeddings.LayerNorm.weight": encoder.norm.weight,
        "embeddings.LayerNorm.bias": encoder.norm.bias,
    }
    names = (
        "attention.self.query attention.self.key attention.self.value attention.output.dense "
        "attention.output.LayerNorm intermediate.dense output.dense output.LayerNorm"
    )
    for name, affine in zip(names.split(), encoder.layers, strict=True):
        for layer in range(len(affine.weight)):
            found[f"encoder.layer.{layer}.{name}.weight"] = affine.weight[layer]
            found[f"encoder.layer.{layer}.{name}.bias"] = affine.bias[layer]
    return found
