"""The theory once more, by brute force: plain NumPy, explicit loops, nothing from the package.

Equation numbers are those of Tiberi et al. (2024). Examples come first, then paths (h_1 slowest),
then features.
"""

import itertools
import math

import numpy as np
from scipy.optimize import minimize, root
from scipy.stats import multivariate_normal


def softmax_column(logits):
    """Softmax of one column of logits; minus infinity stands for a masked key."""
    powers = [math.exp(logit - max(logits)) for logit in logits]
    return [power / sum(powers) for power in powers]


def attention_from_logits(inputs, layers, logit, mask=None):
    """(3), an array (examples, heads, keys, queries) per layer; `logit(layer, head, key, query)`."""
    examples, tokens, _ = inputs.shape
    matrices = []
    for layer, heads in enumerate(layers):
        matrix = np.zeros((examples, heads, tokens, tokens))
        for example, head, query in itertools.product(range(examples), range(heads), range(tokens)):
            column = [logit(layer, head, inputs[example, key], inputs[example, query]) for key in range(tokens)]
            if mask is not None:
                column = [value if mask[key, query] else -math.inf for key, value in enumerate(column)]
            matrix[example, head, :, query] = softmax_column(column)
        matrices.append(matrix)
    return matrices


def attention_from_products(inputs, products, mask=None):
    def logit(layer, head, key, query):
        return key @ products[layer][head] @ query

    return attention_from_logits(inputs, [len(product) for product in products], logit, mask)


def attention_from_queries_and_keys(inputs, queries, keys, mask=None):
    def logit(layer, head, key, query):
        return (keys[layer][head] @ key) @ (queries[layer][head] @ query) / math.sqrt(queries[layer].shape[1])

    return attention_from_logits(inputs, [len(query) for query in queries], logit, mask)


def readout_columns(readout, tokens):
    """Tokens that are read out; the output is the mean over them."""
    return {"first": [0], "last": [tokens - 1], "mean": list(range(tokens))}.get(readout, [readout])


def paths_of(heads):
    return list(itertools.product(*(range(count) for count in heads)))


def attentioned_inputs(inputs, matrices, readout):
    """(7), one path at a time."""
    heads = [matrix.shape[1] for matrix in matrices]
    result = np.zeros((len(inputs), math.prod(heads), inputs.shape[2]))
    for example, (index, path) in itertools.product(range(len(inputs)), enumerate(paths_of(heads))):
        x = inputs[example].T
        for matrix, head in zip(matrices, path, strict=True):
            x = x @ matrix[example, head]
        result[example, index] = np.mean([x[:, t] for t in readout_columns(readout, x.shape[1])], axis=0)
    return result


def kernel(left, right, order_parameter, heads, input_variance=1.0):
    """(10), pair of paths by pair of paths."""
    features, paths = left.shape[2], math.prod(heads)
    total = np.zeros((len(left), len(right)))
    for p, q in itertools.product(range(paths), repeat=2):
        total += order_parameter[p, q] * left[:, p] @ right[:, q].T / features
    return input_variance / paths * total


def scales(order_parameters, heads, variances):
    """Sigma_l = sigma_l^2 I (x) U^(l+1) for l = 1..L, then sigma_a^2."""
    uppers = [*order_parameters[1:-1], np.array([[order_parameters[-1]]])]
    found = [
        variances[layer + 1] * np.kron(np.eye(count), upper)
        for layer, (count, upper) in enumerate(zip(heads, uppers, strict=True))
    ]
    return [*found, np.array([[variances[-1]]])]


def entropy(order_parameters, heads, widths, variances):
    """The entropy of (11) from explicit Kronecker products."""
    widest, total = max(widths), 0.0
    for overlap, scale, width in zip(order_parameters, scales(order_parameters, heads, variances), widths, strict=True):
        ratio = np.linalg.inv(scale) @ np.atleast_2d(overlap)
        total += width / widest * (np.trace(ratio) - math.log(np.linalg.det(ratio)))
    return total


def energy(order_parameter, inputs, labels, heads, temperature, input_variance=1.0):
    """(12) from the log density of the labels."""
    examples = len(labels)
    covariance = kernel(inputs, inputs, order_parameter, heads, input_variance) + temperature * np.eye(examples)
    density = multivariate_normal(mean=np.zeros(examples), cov=covariance).logpdf(labels)
    return -2 / examples * density - math.log(2 * math.pi)


def action(order_parameters, inputs, labels, heads, widths, variances, temperature):
    """(11)."""
    alpha = len(labels) / max(widths)
    energy_term = energy(order_parameters[0], inputs, labels, heads, temperature, variances[0])
    return entropy(order_parameters, heads, widths, variances) + alpha * energy_term


def action_gradient(order_parameters, inputs, labels, heads, widths, variances, temperature):
    """The derivative of the action by every U^(l), by hand; symmetric matrices, the scalar last."""
    shares = [width / max(widths) for width in widths]
    overlaps = [np.atleast_2d(overlap) for overlap in order_parameters]
    found = []
    for layer, scale in enumerate(scales(order_parameters, heads, variances)):
        inverse = np.linalg.inv(overlaps[layer])
        slope = shares[layer] * (np.linalg.inv(scale) - inverse)
        if layer > 0:  # Sigma of the layer below contains this U
            size, below = len(inverse), overlaps[layer - 1]
            for head in range(heads[layer - 1]):
                block = below[head * size : (head + 1) * size, head * size : (head + 1) * size]
                slope = slope + shares[layer - 1] * (inverse - inverse @ block @ inverse / variances[layer])
        found.append(slope)

    examples, paths, features = inputs.shape
    covariance = kernel(inputs, inputs, order_parameters[0], heads, variances[0]) + temperature * np.eye(examples)
    resolvent = np.linalg.inv(covariance)
    solved = resolvent @ labels
    for p, q in itertools.product(range(paths), repeat=2):
        common = variances[0] / paths * inputs[:, p] @ inputs[:, q].T / features
        slope = np.trace(resolvent @ common) - solved @ common @ solved
        found[0][p, q] += slope / max(widths)  # alpha / P
    return [*found[:-1], found[-1][0, 0]]


def gp_order_parameters(heads, variances):
    """The limit alpha -> 0: products of the variances above, times the identity."""
    found = []
    for layer in range(len(heads)):
        found.append(math.prod(variances[layer + 1 :]) * np.eye(math.prod(heads[layer:])))
    return (*found, variances[-1])


def saddle_point(inputs, labels, heads, widths, variances, temperature):
    """The minimum of (11) by scipy's BFGS, polished to a root of the gradient.

    The unknowns are a Cholesky factor of every U^(l) itself, whatever the other layers are.
    """
    sizes = [math.prod(heads[layer:]) for layer in range(len(heads) + 1)]
    problem = (inputs, labels, heads, widths, variances, temperature)

    def factors(vector):
        found, start = [], 0
        for size in sizes:
            factor = np.zeros((size, size))
            count = size * (size + 1) // 2
            factor[np.tril_indices(size)] = vector[start : start + count]
            found.append(factor)
            start += count
        return found

    def order_parameters(vector):
        overlaps = [factor @ factor.T for factor in factors(vector)]
        return [*overlaps[:-1], overlaps[-1][0, 0]]

    def gradient(vector):
        slopes = action_gradient(order_parameters(vector), *problem)
        pieces = [2 * np.atleast_2d(slope) @ factor for slope, factor in zip(slopes, factors(vector), strict=True)]
        return np.concatenate([piece[np.tril_indices(len(piece))] for piece in pieces])

    gp = gp_order_parameters(heads, variances)
    start = np.concatenate([np.linalg.cholesky(np.atleast_2d(u))[np.tril_indices(len(np.atleast_2d(u)))] for u in gp])
    rough = minimize(lambda vector: action(order_parameters(vector), *problem), start, jac=gradient, method="BFGS")
    polished = root(gradient, rough.x, tol=1e-13)
    assert np.max(np.abs(gradient(polished.x))) < 1e-10
    return order_parameters(polished.x)


def predict(train, labels, test, order_parameter, heads, temperature, input_variance=1.0):
    """(9) and (30): condition the joint Gaussian of noisy labels and test outputs."""
    both = np.concatenate([train, test])
    joint = kernel(both, both, order_parameter, heads, input_variance)
    known = len(train)
    noisy = joint[:known, :known] + temperature * np.eye(known)
    mean = joint[known:, :known] @ np.linalg.solve(noisy, labels)
    covariance = joint[known:, known:] - joint[known:, :known] @ np.linalg.solve(noisy, joint[:known, known:])
    return mean, np.diagonal(covariance)


def random_order_parameters(rng, heads):
    """Positive definite matrices of the right sizes, a positive scalar last."""
    found = []
    for layer in range(len(heads)):
        size = math.prod(heads[layer:])
        factor = rng.normal(size=(size, size + 3))
        found.append(factor @ factor.T / (size + 3) + 0.1 * np.eye(size))
    return (*found, float(rng.uniform(0.5, 2.0)))


def random_attention(rng, heads, examples, tokens):
    """Matrices whose columns sum to one, one array per layer."""
    matrices = [rng.exponential(size=(examples, count, tokens, tokens)) for count in heads]
    return [matrix / matrix.sum(axis=2, keepdims=True) for matrix in matrices]
