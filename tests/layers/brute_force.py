"""Networks of mixed layers once more, in plain NumPy and SciPy with explicit loops: nothing from the package.

A chain is a list of `("heads", H)`, `("skip", H)` and `("linear", 1)`, from the input up, with C
outputs at its end; heads and skips may be narrow, with values of the dimension in `DIMENSIONS`. The
entropy of a skip layer is that of Wishart's law by its Schur complement.
"""

import itertools
import math
from functools import partial

import numpy as np
from scipy.linalg import block_diag
from scipy.optimize import minimize

import statmech_attention as sma
from statmech_attention.layers import Narrow

DIMENSIONS = {"narrow heads": 1, "narrow skip": 3}
KINDS = {
    "heads": sma.Heads,
    "skip": sma.SkipHeads,
    "linear": lambda _: sma.Linear(),
    "narrow heads": partial(sma.Heads, values=DIMENSIONS["narrow heads"]),
    "narrow skip": partial(sma.SkipHeads, values=DIMENSIONS["narrow skip"]),
}

# Chains with widths (N_1, .., N_{L+1}), some too narrow for their paths, and outputs or None.
CHAINS = {
    "two layers": ([("heads", 2), ("heads", 2)], (3, 1, 2), None),
    "two outputs": ([("heads", 2)], (3, 4), 2),
    "a skip below": ([("skip", 1), ("heads", 2)], (3, 3, 2), None),
    "all kinds": ([("heads", 2), ("skip", 1), ("linear", 1)], (5, 3, 3, 2), 2),
    "two skips, narrow": ([("skip", 2), ("skip", 1)], (2, 2, 2), 2),
    "narrow heads below": ([("narrow heads", 2), ("heads", 2)], (3, 4, 3), None),
    "narrow skips": ([("narrow skip", 1), ("narrow skip", 1)], (3, 3, 3), 2),
}


def shorthand(layers, outputs):
    """The chain as the package's `heads`."""
    return (*(KINDS[name](count) for name, count in layers), *([] if outputs is None else [sma.Outputs(outputs)]))


def branches(layer):
    """Choices of a path in a layer: the skip or the linear block, None, or a head."""
    name, count = layer
    return {"heads": list(range(count)), "skip": [None, *range(count)], "linear": [None]}[name.split()[-1]]


def paths(layers):
    return list(itertools.product(*(branches(layer) for layer in layers)))


def weights(rng, layers, widths, outputs, variances, features, draws=()):
    """Weights from the prior: projection, values of every layer, readout; before all axes those of draws."""
    roots = np.sqrt(variances)
    values = []

    def normal(*shape):
        return rng.normal(size=(*draws, *shape))

    for place, (name, count) in enumerate(layers):
        root, width_out, width_in = roots[place + 1], widths[place + 1], widths[place]
        if name in DIMENSIONS:
            inner = DIMENSIONS[name]
            one = math.sqrt(root) * normal(count, inner, width_in)
            values.append(Narrow(one, math.sqrt(root) * normal(count, width_out, inner)))
        else:
            values.append(root * normal(count, width_out, width_in))
    readout = normal(widths[-1]) if outputs is None else normal(widths[-1], outputs)
    return roots[0] * normal(widths[0], features), values, roots[-1] * readout


def full(values):
    """The matrices of a layer, those of narrow heads as products."""
    if not isinstance(values, Narrow):
        return values
    return values.outputs @ values.values / math.sqrt(values.values.shape[-2])


def attention(rng, layers, examples, tokens):
    """Matrices for the layers that have heads."""
    counts = [count for name, count in layers if name != "linear"]
    drawn = [rng.exponential(size=(examples, count, tokens, tokens)) for count in counts]
    return [one / one.sum(axis=2, keepdims=True) for one in drawn]


def forward(projection, values, readout, inputs, matrices, layers):
    """Layer by layer, the last token read out."""
    found = []
    for example, tokens in enumerate(inputs):
        hidden = projection @ tokens.T / math.sqrt(tokens.shape[1])
        left = iter(matrices)
        for (name, count), value in zip(layers, map(full, values), strict=True):
            width = hidden.shape[0]
            if name == "linear":
                hidden = value[0] @ hidden / math.sqrt(width)
                continue
            matrix = next(left)[example]
            through = sum(value[head] @ hidden @ matrix[head] for head in range(count)) / math.sqrt(width * count)
            hidden = through + hidden if "skip" in name else through
        found.append(readout.T @ hidden[:, -1] / math.sqrt(len(readout)))
    return np.array(found)


def partial_weights(values, readout, layers, first):
    """Effective weights of the partial paths from layer `first` up, path by path and output by output.

    Of many draws at once the readout has an axis of outputs also where there is one.
    """
    columns, values = readout[:, None] if readout.ndim == 1 else readout, [full(value) for value in values]
    rows = []
    for path in paths(layers[first:]):
        for column in np.moveaxis(columns, -1, 0):
            row = column
            for (name, _), value, branch in reversed(list(zip(layers[first:], values[first:], path, strict=True))):
                if "skip" in name and branch is None:
                    continue
                row = np.einsum("...i,...ij->...j", row, value[..., branch or 0, :, :]) / math.sqrt(value.shape[-2])
            rows.append(row)
    return np.stack(rows, axis=-2)


def order_parameters(values, readout, layers):
    rows = [partial_weights(values, readout, layers, first) for first in range(len(layers) + 1)]
    overlaps = []
    for place, row in enumerate(rows):
        overlaps.append(row @ row.swapaxes(-1, -2) / row.shape[-1])
        if place < len(layers) and layers[place][0] in DIMENSIONS:
            above = values[place].outputs
            inner = rows[place + 1][..., None, :, :] @ above / math.sqrt(above.shape[-2])
            overlaps.append(inner @ inner.swapaxes(-1, -2) / inner.shape[-1])
    return (*overlaps[:-1], overlaps[-1][0, 0] if readout.ndim == 1 else overlaps[-1])


def coefficient(path, layers):
    """The factor of a path in the output."""
    found = 1.0
    for (_, count), branch in zip(layers, path, strict=True):
        found *= 1.0 if branch is None else 1 / math.sqrt(count)
    return found


def kernel(left, right, order_parameter, layers, outputs, input_variance=1.0):
    """Pairs (example, output) against pairs: sum c_pi c_pi' U^{(pi c)(pi' c')} C_{pi pi'}."""
    count, features = outputs or 1, left.shape[2]
    total = np.zeros((len(left), count, len(right), count))
    for (p, path), (q, other) in itertools.product(enumerate(paths(layers)), repeat=2):
        common = coefficient(path, layers) * coefficient(other, layers) * left[:, p] @ right[:, q].T / features
        for c, d in itertools.product(range(count), repeat=2):
            total[:, c, :, d] += input_variance * order_parameter[p * count + c, q * count + d] * common
    return total.reshape(len(left) * count, -1)


def entropy(overlaps, layers, widths, variances):
    """Entropy of every layer from its density given the layer above, a skip's by the Schur complement."""
    *left, above = [np.atleast_2d(overlap) for overlap in overlaps]
    total = widths[-1] / max(widths) * wishart_entropy(above, above, variances[-1] * np.eye(len(above)))
    for place, (name, count) in reversed(list(enumerate(layers))):
        scale = variances[place + 1] * np.kron(np.eye(count), above)
        if name in DIMENSIONS:
            root, matrices = math.sqrt(variances[place + 1]), left.pop()
            for matrix in matrices:
                total += DIMENSIONS[name] / max(widths) * wishart_entropy(matrix, matrix, root * above)
            scale = root * block_diag(*matrices)
        block = inner = whole = left.pop()
        if "skip" in name:
            size = len(above)
            cross, block = block[:size, size:], block[size:, size:]
            inner = block - cross.T @ np.linalg.solve(whole[:size, :size], cross)
        total += widths[place] / max(widths) * wishart_entropy(block, inner, scale)
        above = whole
    return total


def wishart_entropy(block, inner, scale):
    """tr(Sigma^{-1} U) - ln det(Sigma^{-1} U), or the determinant of a Schur complement."""
    return np.trace(np.linalg.solve(scale, block)) - np.linalg.slogdet(inner)[1] + np.linalg.slogdet(scale)[1]


def energy(order_parameter, inputs, labels, layers, outputs, temperature, input_variance=1.0):
    return label_energy(kernel(inputs, inputs, order_parameter, layers, outputs, input_variance), labels, temperature)


def label_energy(gram, labels, temperature):
    noisy = gram + temperature * np.eye(labels.size)
    misfit = labels.ravel() @ np.linalg.solve(noisy, labels.ravel())
    return (np.linalg.slogdet(noisy)[1] + misfit) / len(labels)


def action(overlaps, inputs, labels, layers, outputs, widths, variances, temperature):
    found = energy(overlaps[0], inputs, labels, layers, outputs, temperature, variances[0])
    return entropy(overlaps, layers, widths, variances) + len(labels) / max(widths) * found


def predict(train, labels, test, order_parameter, layers, outputs, temperature, input_variance=1.0):
    both = np.concatenate([train, test])
    joint = kernel(both, both, order_parameter, layers, outputs, input_variance)
    known = labels.size
    noisy = joint[:known, :known] + temperature * np.eye(known)
    mean = joint[known:, :known] @ np.linalg.solve(noisy, labels.ravel())
    variance = np.diagonal(
        joint[known:, known:] - joint[known:, :known] @ np.linalg.solve(noisy, joint[:known, known:])
    )
    shape = (len(test), *labels.shape[1:])
    return mean.reshape(shape), variance.reshape(shape)


def saddle_point(inputs, labels, layers, outputs, widths, variances, temperature):
    """The minimum by SciPy, over Cholesky factors of every U, or of a skip layer's Schur complement, and B."""
    tops = outputs or 1

    def unpacked(vector):
        start = 0

        def triangle(size):
            nonlocal start
            factor = np.zeros((size, size))
            count = size * (size + 1) // 2
            factor[np.tril_indices(size)] = vector[start : start + count]
            start += count
            return factor @ factor.T

        found = [triangle(tops)]
        for name, count in reversed(layers):
            above = found[0]
            if name in DIMENSIONS:
                found.insert(0, np.array([triangle(len(above)) for _ in range(count)]))
            if "skip" in name:
                size = len(above)
                cross = vector[start : start + count * size**2].reshape(size, count * size)
                start += cross.size
                block = triangle(count * size) + cross.T @ np.linalg.solve(above, cross)
                found.insert(0, np.block([[above, cross], [cross.T, block]]))
            else:
                found.insert(0, triangle(count * len(above)))
        return found

    # The kernel is linear in U^(1): its value for every unit matrix, once.
    size = tops * len(paths(layers))
    units = np.eye(size**2).reshape(-1, size, size)
    grams = np.stack([kernel(inputs, inputs, unit, layers, outputs, variances[0]) for unit in units])

    def value(vector):
        overlaps = unpacked(vector)
        gram = np.tensordot(overlaps[0].ravel(), grams, axes=1)
        misfit = label_energy(gram, labels, temperature)
        return entropy(overlaps, layers, widths, variances) + len(labels) / max(widths) * misfit

    start = _diagonal(tops, layers)
    start = start + 0.1 * np.random.default_rng(0).normal(size=start.size)
    rough = minimize(value, start, method="BFGS", jac="3-point", options={"gtol": 1e-7, "maxiter": 500})
    overlaps = unpacked(rough.x)
    return [*overlaps[:-1], overlaps[-1] if outputs else overlaps[-1][0, 0]], rough.fun


def _diagonal(tops, layers):
    """Ones where a factor's diagonal is, in the order of the unknowns."""

    def eye(size):
        return np.eye(size)[np.tril_indices(size)]

    pieces, size = [eye(tops)], tops
    for name, count in reversed(layers):
        if name in DIMENSIONS:
            pieces += [eye(size)] * count
        if "skip" in name:
            pieces += [np.zeros(count * size**2), eye(count * size)]
            size *= 1 + count
        else:
            size *= count
            pieces.append(eye(size))
    return np.concatenate(pieces)
