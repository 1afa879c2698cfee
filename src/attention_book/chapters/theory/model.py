"""The network and its paths: attention matrices, the prior of the output, the output cut at any height."""

import itertools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import statmech_attention as sma
from attention_book import plotting
from attention_book.notebooks.comparisons import exact

TOKENS, CONTENT = 8, 2
TYPES = (0, 0, 1, 0, 1, 1, 0, 1)


def example_tokens() -> Float[Array, "examples tokens features"]:
    """One sequence of tokens with a content of two kinds and a one-hot position."""
    return jnp.concatenate([jnp.eye(CONTENT)[jnp.array(TYPES)], jnp.eye(TOKENS)], axis=1)[None]


def designed_products() -> Float[Array, "heads features features"]:
    """Query-key products that find the previous token, and tokens of the query's content."""
    nothing = jnp.zeros((CONTENT + TOKENS,) * 2)
    previous = nothing.at[CONTENT:, CONTENT:].set(8.0 * jnp.eye(TOKENS, k=1))
    return jnp.stack([previous, nothing.at[:CONTENT, :CONTENT].set(4.0 * jnp.eye(CONTENT))])


def attention_panels(by_hand, drawn, masked) -> None:
    """Draw four attention matrices, of `(heads, keys, queries)`, and check their columns."""
    panels = {"previous token": by_hand[0], "same content": by_hand[1], "random": drawn[0], "random, causal": masked[0]}
    figure, axes = plotting.new_figure(2, 2, figsize=(4.9, 4.7), sharex=True, sharey=True)
    for axis, (title, matrix) in zip(axes.flat, panels.items(), strict=True):
        assert jnp.allclose(matrix.sum(axis=0), 1.0, rtol=0, atol=1e-14), title
        image = axis.imshow(matrix, vmin=0, vmax=1, cmap="Greys")
        axis.set(title=title, xticks=range(0, TOKENS, 2), yticks=range(0, TOKENS, 2))
        axis.label_outer()
    assert jnp.all(jnp.tril(masked[0], -1) == 0) and jnp.abs(masked[0] - drawn[0]).max() > 0.1
    figure.supxlabel("query $t$")
    figure.supylabel("key $s$")
    figure.colorbar(image, ax=axes, label=r"$\Omega_{st}$", shrink=0.7)


def prior_outputs(seed: int, width, *, layers=(2, 3), variance=(1.3, 0.7, 1.1, 0.9), networks: int = 50_000):
    """Deviation of the mean of f^2 from (M2) in standard errors, and <f^4>/<f^2>^2, over networks of the prior."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(6, 5))  # one input, tokens as columns
    products = [rng.normal(size=(heads, 6, 6)) for heads in layers]
    omegas = [np.asarray(omega[0]) for omega in sma.attention_from_products(products)(jnp.asarray(x.T[None]))]
    q = variance[0] * x.T @ x / len(x)
    hidden = np.sqrt(variance[0] / len(x)) * rng.normal(size=(networks, width[0], len(x))) @ x  # (1)
    for layer, omega in enumerate(omegas):
        sigma2, heads = variance[layer + 1], len(omega)
        q = sigma2 * np.einsum("hst,su,huv->tv", omega, q, omega) / heads
        values = np.sqrt(sigma2) * rng.normal(size=(heads, networks, width[layer + 1], width[layer]))
        summed = sum(one @ (hidden @ mixed) for one, mixed in zip(values, omega, strict=True))
        hidden = summed / np.sqrt(width[layer] * heads)  # (2)
    readout = np.sqrt(variance[-1] / width[-1]) * rng.normal(size=(networks, width[-1]))
    f = np.einsum("km,km->k", readout, hidden[:, :, -1])  # (4)
    deviation = (np.mean(f**2) - variance[-1] * q[-1, -1]) / (np.std(f**2) / np.sqrt(networks))
    return abs(float(deviation)), float(np.mean(f**4) / np.mean(f**2) ** 2)


def cut(inputs, attention, weights) -> tuple[float, float, float]:
    """Errors of (P5) against (P4), of (P7) at every height against the output, and of (P8) against (7)."""
    omegas, xi = attention(inputs), sma.attentioned_inputs(inputs, attention)
    output = sma.forward(weights, inputs, omegas)
    hidden = [weights.projection @ jnp.swapaxes(inputs, 1, 2) / jnp.sqrt(inputs.shape[2])]  # x^0, x^1, ..
    for values, omega in zip(weights.values, omegas, strict=True):
        mixed = jnp.einsum("hmn,ens,ehst->emt", values, hidden[-1], omega)
        hidden.append(mixed / jnp.sqrt(values.shape[0] * values.shape[2]))
    upper = [weights.readout[None]]  # w_{L+1}, then w_L, ..: (P6)
    for values in reversed(weights.values):
        below = jnp.einsum("hmn,dm->hdn", values, upper[0]) / jnp.sqrt(values.shape[1])
        upper.insert(0, below.reshape(-1, values.shape[2]))
    lower = jnp.einsum("mi,epi->epm", weights.projection, xi.values) / jnp.sqrt(inputs.shape[2])
    recursion, heights = [], []
    for layer, (w, below) in enumerate(zip(upper, hidden, strict=True)):
        seen = []  # (P4), path by path
        for path in itertools.product(*(range(omega.shape[1]) for omega in omegas[layer:])):
            product = below
            for omega, head in zip(omegas[layer:], path, strict=True):
                product = product @ omega[:, head]
            seen.append(product[:, :, -1])
        by_definition = jnp.stack(seen, axis=1)
        recursion.append((lower, by_definition))
        heights.append((jnp.einsum("pn,epn->e", w, by_definition) / jnp.sqrt(by_definition[0].size), output))
        if layer < len(omegas):  # (P5), up by one layer; the head of that layer is the slow index
            values = weights.values[layer]
            split = lower.reshape(len(inputs), values.shape[0], -1, values.shape[2])
            lower = jnp.einsum("hmn,ehdn->edm", values, split) / jnp.sqrt(values.shape[0] * values.shape[2])
    walks = []
    for path in sma.model.path_indices(tuple(omega.shape[1] for omega in omegas)):
        where = jnp.zeros(inputs.shape[:2]).at[:, -1].set(1.0)  # the walk starts at the token that is read
        for omega, head in reversed(list(zip(omegas, path, strict=True))):
            where = jnp.einsum("est,et->es", omega[:, head], where)
        walks.append(where)
    means = jnp.einsum("pes,esi->epi", jnp.stack(walks), inputs)
    return exact(*recursion), exact(*heights), exact((means, xi.values))
