"""Masks, positions, normalisation: attentions that no softmax over content made, on a task of odd and even places."""

import jax
import jax.numpy as jnp
import numpy as np

import statmech_attention as sma
from attention_book import plotting
from attention_book.measures import training_kernel
from attention_book.temperatures import compare

FEATURES = 10


def sample(key, count: int, tokens: int):
    """Sequences in which places two apart carry the same sign; the label is the last one's."""
    sign_key, noise_key = jax.random.split(key)
    signs = jax.random.rademacher(sign_key, (count, 2), float)
    inputs = jax.random.normal(noise_key, (count, tokens, FEATURES))
    return inputs.at[:, :, 0].add(signs[:, (tokens - 1 - np.arange(tokens)) % 2]), signs[:, 0]


def steps_back(*distances: int, size: int = 3):
    """A table for `relative_bias` that puts nearly all attention on given distances, one per head."""
    return jnp.stack([jnp.zeros(2 * size + 1).at[size - distance].set(20.0) for distance in distances])


def attentions(key, tokens: int) -> dict:
    """By name, a function that gives for a number of examples what `attentioned_inputs` takes."""
    nothing, bias = jnp.zeros((2, FEATURES, FEATURES)), sma.model.relative_bias(steps_back(1, 2), tokens)
    queries, keys = jax.random.normal(key, (2, 2, 2, 4, FEATURES))
    causal = np.triu(np.ones((tokens, tokens), bool))
    same, one, two = (jnp.eye(tokens, k=distance) for distance in range(3))
    filters = jnp.stack([same - one, same + two])
    return {
        "distances": lambda count: sma.attention_from_products((nothing, nothing), bias=(bias, bias)),
        "random": lambda count: sma.attention_from_queries_and_keys(queries, keys),
        "causal": lambda count: sma.attention_from_queries_and_keys(queries, keys, mask=causal),
        "filters": lambda count: (jnp.broadcast_to(filters, (count, 2, tokens, tokens)),) * 2,
    }


def matrices_drawn(inputs, found: dict) -> None:
    """The first head of each attention on the first sequence."""
    tokens = inputs.shape[1]
    figure, axes = plotting.new_figure(2, 2, figsize=(4.8, 4.4), sharex=True, sharey=True)
    for axis, (name, attention) in zip(axes.flat, found.items(), strict=True):
        matrix = sma.model.attention_matrices(inputs, attention(len(inputs)))[0][0, 0]
        image = axis.imshow(matrix, vmin=-1, vmax=1, cmap="RdBu_r")
        axis.set(title=name, xticks=range(0, tokens, 4), yticks=range(0, tokens, 4))
    for axis in axes[1]:
        axis.set_xlabel("query $t$")
    for axis in axes[:, 0]:
        axis.set_ylabel("key $s$")
    figure.colorbar(image, ax=axes, label=r"$\Omega_{st}$", shrink=0.8)


def paths_against_layers(inputs, found: dict, seed: int) -> float:
    """Largest difference of the sum over paths from the network, over all attentions; what paths read is asserted."""
    weights = sma.sample_weights(jax.random.key(seed + 1), layers=(2, 2), width=20, features=FEATURES)
    errors, seen = [], {}
    for name, attention in found.items():
        xi = sma.attentioned_inputs(inputs, attention(len(inputs)))
        outputs = sma.forward(weights, inputs, attention(len(inputs)))
        errors.append(float(jnp.abs(sma.model.forward_paths(weights, xi) - outputs).max()))
        seen[name] = xi.values
    polynomials = [np.array([1, -1, 0]), np.array([1, 0, 1])]  # coefficients of 1, z, z^2
    for path, (one, other) in enumerate(sma.model.path_indices((2, 2))):
        assert jnp.allclose(seen["distances"][:, path], inputs[:, -3 - one - other], atol=1e-6)
        product = np.convolve(polynomials[one], polynomials[other])
        read = sum(c * inputs[:, -1 - back] for back, c in enumerate(product))
        assert jnp.allclose(seen["filters"][:, path], read, atol=1e-12)
    return max(errors)


def trials(keys, examples: int, test_examples: int, tokens: int) -> dict[str, list]:
    """Draws of data and heads, by attention."""
    found: dict[str, list] = {}
    for train_key, test_key, head_key in keys:
        (train, labels), (test, wanted) = sample(train_key, examples, tokens), sample(test_key, test_examples, tokens)
        for name, attention in attentions(head_key, tokens).items():
            xi, xi_test = (sma.attentioned_inputs(x, attention(len(x))) for x in (train, test))
            found.setdefault(name, []).append(sma.tasks.HiddenMarkovTrial(xi, labels, xi_test, wanted))
    return found


def compared(found: dict[str, list], width: float, temperatures) -> dict:
    """Comparisons over temperature, by attention."""
    return {name: compare(one, width=width, temperatures=temperatures) for name, one in found.items()}


def weights_of_distances(found: list, width: float, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean of the diagonal of U per draw, over paths of even and of odd distances."""
    problems = [sma.Problem(one.train, one.labels, width=width, temperature=temperature) for one in found]
    diagonal = np.array([np.diagonal(sma.solve(one).order_parameter) for one in problems])
    return diagonal[:, [0, 3]].mean(axis=1), diagonal[:, [1, 2]].mean(axis=1)


def deep(inputs, depth: int):
    """Inputs along the paths of a deep network whose heads look at the token itself or one token back."""
    tokens = inputs.shape[1]
    bias = sma.model.relative_bias(steps_back(0, 1), tokens)
    look = sma.attention_from_products((jnp.zeros((2, FEATURES, FEATURES)),) * depth, bias=(bias,) * depth)
    return sma.attentioned_inputs(inputs, look)


def in_even_distances(solution, inputs, depth: int) -> tuple[float, float]:
    """Share of the sum of W_dd in even distances, in the limit and in the solution; the kernel is checked."""
    back = sma.model.path_indices((2,) * depth).sum(axis=1)
    member = np.arange(depth + 1)[:, None] == back
    weights = member @ np.asarray(solution.order_parameter) @ member.T
    read = inputs[:, ::-1][:, : depth + 1]
    by_token = jnp.einsum("mdi,de,nei->mn", read, weights, read) / (2**depth * FEATURES)
    assert jnp.allclose(
        by_token,
        training_kernel(solution),
        rtol=1e-5,
        atol=1e-6,
    )
    limit, narrow = (one[::2].sum() / one.sum() for one in (member.sum(axis=1), np.diagonal(weights)))
    return float(limit), float(narrow)
