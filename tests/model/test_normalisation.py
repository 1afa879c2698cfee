"""Norms with frozen statistics, against networks with real norms in plain NumPy loops."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import brute_force

import statmech_attention as sma
from statmech_attention.layers import Linear

EXAMPLES, TOKENS, FEATURES = 3, 4, 5
CHAINS = {name: brute_force.CHAINS[name] for name in ("all kinds", "narrow heads below", "narrow skips")}
CHAINS["two layers"] = ([("heads", 2), ("heads", 3)], (4, 3, 5), None)


def normalised(token, epsilon):
    """A root mean square norm of one token."""
    return token / math.sqrt(np.mean(token**2) + epsilon)


def network(projection, values, readout, inputs, matrices, layers, *, norm, epsilon):
    """The network with norms that compute their statistics, token by token; the last token is read out."""
    outputs = []
    for example, tokens in enumerate(inputs):
        hidden = [projection @ token / math.sqrt(len(token)) for token in tokens]
        left = iter(matrices)
        for (name, count), value in zip(layers, map(brute_force.full, values), strict=True):
            seen = [normalised(one, epsilon) for one in hidden] if norm == "pre" else hidden
            matrix = np.eye(len(tokens))[None] if name == "linear" else next(left)[example]
            found = []
            for query in range(len(tokens)):
                token = hidden[query].copy() if "skip" in name else np.zeros(value.shape[1])
                for head in range(count):
                    for key in range(len(tokens)):
                        token += matrix[head, key, query] * value[head] @ seen[key] / math.sqrt(value.shape[2] * count)
                found.append(normalised(token, epsilon) if norm == "post" else token)
            hidden = found
        last = normalised(hidden[-1], epsilon) if norm == "pre" else hidden[-1]
        outputs.append(readout.T @ last / math.sqrt(len(readout)))
    return np.array(outputs)


def random_columns(rng, heads):
    """Matrices of two examples of three tokens."""
    return rng.dirichlet(np.ones(3), size=(2, heads, 3)).swapaxes(2, 3)


def problem(name, seed=0):
    layers, widths, outputs = CHAINS[name]
    rng = np.random.default_rng(seed)
    plain = brute_force.weights(rng, layers, widths, outputs, np.ones(len(layers) + 2), FEATURES)
    weights = sma.model.Weights(
        jnp.asarray(plain[0]), jax.tree.map(jnp.asarray, tuple(plain[1])), jnp.asarray(plain[2])
    )
    inputs = rng.normal(size=(EXAMPLES, TOKENS, FEATURES))
    matrices = brute_force.attention(rng, layers, EXAMPLES, TOKENS)
    return layers, plain, weights, inputs, matrices, brute_force.shorthand(layers, outputs)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("name", CHAINS)
def test_frozen_statistics_give_the_network_with_real_norms(name, norm):
    layers, plain, weights, inputs, matrices, heads = problem(name)
    wanted = network(*plain, inputs, matrices, layers, norm=norm, epsilon=0.01)
    scales = sma.model.normalisation_scales(weights, inputs, matrices, layers=heads, norm=norm, epsilon=0.01)
    assert [one.shape for one in scales] == [(EXAMPLES, TOKENS)] * (len(layers) + (norm == "pre"))
    options = {"layers": heads, "scales": scales, "norm": norm}
    np.testing.assert_allclose(sma.forward(weights, inputs, matrices, **options), wanted, rtol=1e-11, atol=1e-12)
    xi = sma.attentioned_inputs(inputs, matrices, **options)
    np.testing.assert_allclose(sma.model.forward_paths(weights, xi), wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("readout", ["first", "mean"])
def test_branches_have_scaled_matrices(norm, readout):
    """(F1), (F2) by explicit products of matrices."""
    rng = np.random.default_rng(1)
    inputs, matrices = rng.normal(size=(2, 3, 4)), [random_columns(rng, 2), random_columns(rng, 1)]
    heads, scales = (2, sma.SkipHeads(1), Linear()), rng.uniform(0.5, 2, size=(4 if norm == "pre" else 3, 2, 3))
    found = sma.attentioned_inputs(inputs, matrices, readout=readout, layers=heads, scales=scales, norm=norm)
    for example in range(2):
        r = [np.diag(one[example]) for one in scales]
        if norm == "post":
            first = [one[example, head] @ r[0] for one in matrices[:1] for head in range(2)]
            second, third, last = [r[1], matrices[1][example, 0] @ r[1]], r[2], np.eye(3)
        else:
            first = [r[0] @ one[example, head] for one in matrices[:1] for head in range(2)]
            second, third, last = [np.eye(3), r[1] @ matrices[1][example, 0]], r[2], r[3]
        column = np.eye(3)[0] if readout == "first" else np.full(3, 1 / 3)
        wanted = [inputs[example].T @ one @ other @ third @ last @ column for one in first for other in second]
        np.testing.assert_allclose(found.values[example], wanted, rtol=1e-12, atol=1e-13)


@dataclass(frozen=True)
class MixedSkip(Linear):
    """One branch that is the sum of a skip and of a matrix."""

    keeps = True

    def mixing(self, deviation):
        return np.array([[1.0, deviation]])


def test_a_branch_that_mixes_its_skip_with_values_has_no_pre_norm():
    inputs, scales = np.ones((2, 3, 4)), [np.ones((2, 3))]
    with pytest.raises(ValueError, match="norm: MixedSkip.* mixes its skip with value matrices"):
        sma.attentioned_inputs(inputs, (), layers=(MixedSkip(),), scales=scales, norm="pre")
