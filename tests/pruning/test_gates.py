"""What heads are worth without paths, against networks from which the head is taken."""

import tracemalloc

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import statmech_attention as sma
from statmech_attention import checks
from statmech_attention.pruning import head_indices, head_kernels, kernel_worth
from statmech_attention.theory.kernels import in_blocks

LAYERS = (sma.SkipHeads(2), 3, sma.Linear())
VARIANCE = (1.2, 0.7, 1.5, 0.9, 1.1)


def rows_of(examples, seed, gates=(1.0,) * 5):
    """Rows of random sentences; a head's gate multiplies its term in the kernel, its root the attention."""
    rng = np.random.default_rng(seed)
    mask = np.arange(4) < rng.integers(1, 5, examples)[:, None]
    matrices = [rng.uniform(size=(examples, heads, 4, 4)) * mask[:, None, :, None] for heads in (2, 3)]
    matrices = [one / one.sum(axis=2, keepdims=True) for one in matrices]
    roots = np.split(np.sqrt(gates), [2])
    gated = [one * root[:, None, None] for one, root in zip(matrices, roots, strict=True)]
    inputs = rng.normal(size=(examples, 4, 3))
    return sma.token_inputs(inputs, lambda _: gated, layers=LAYERS, readout="mean", mask=mask)


@pytest.mark.parametrize("head", range(5))
def test_kernel_without_a_head_is_that_of_the_network_with_its_gate_closed(head, monkeypatch):
    if head == 0:  # example by example
        monkeypatch.setattr(in_blocks, "_ENTRIES", {"cpu": 1})
    gates = np.where(np.arange(5) == head, 0.0, 1.0)
    whole, without = ((rows_of(6, 1, one), rows_of(4, 2, one)) for one in (np.ones(5), gates))
    found = sma.kernel(*whole, variance=VARIANCE) - head_kernels(*whole, variance=VARIANCE)[head]
    np.testing.assert_allclose(found, sma.kernel(*without, variance=VARIANCE), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("outputs", [1, 2])
def test_slopes_and_losses_are_changes_of_the_evidence(outputs):
    labels, temperature = np.random.default_rng(3).normal(size=(6, outputs)), 0.2

    def evidence(gates):
        rows = rows_of(6, 1, gates)
        covariance = sma.kernel(rows, rows, variance=VARIANCE) + temperature * np.eye(6)
        return multivariate_normal(np.zeros(6), covariance).logpdf(labels.T).sum()

    rows = rows_of(6, 1)
    kernel, heads = sma.kernel(rows, rows, variance=VARIANCE), head_kernels(rows, rows, variance=VARIANCE)
    found = kernel_worth(kernel, heads, labels, temperature=temperature, layers=rows.layers)
    np.testing.assert_array_equal(found.heads, head_indices(layers=rows.layers))
    with pytest.raises(ValueError, match="layers: wanted the same number in layers and heads, got 3 and 5"):
        kernel_worth(kernel, heads, labels, layers=(3,))
    for head, unit in enumerate(np.eye(5)):
        slope = (evidence(1 + 1e-5 * unit) - evidence(1 - 1e-5 * unit)) / 2e-5
        np.testing.assert_allclose(found.slopes[head], slope, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(found.losses[head], evidence(np.ones(5)) - evidence(1 - unit), atol=1e-9)


@pytest.mark.parametrize("outputs", [1, 2])
def test_scale_and_temperature_are_those_of_the_largest_evidence(outputs):
    rows = rows_of(12, 4)
    kernel, heads = sma.kernel(rows, rows, variance=VARIANCE), head_kernels(rows, rows, variance=VARIANCE)
    labels = np.random.default_rng(5).multivariate_normal(np.zeros(12), 3 * kernel + 0.5 * np.eye(12), outputs).T
    found = kernel_worth(kernel, heads, labels)

    def evidence(scale, temperature):
        return multivariate_normal(np.zeros(12), scale * kernel + temperature * np.eye(12)).logpdf(labels.T).sum()

    best = evidence(found.scale, found.temperature)
    assert all(
        evidence(found.scale * one, found.temperature * other) <= best + 1e-3
        for one in (0.7, 0.9, 1.0, 1.1, 1.4)
        for other in (0.7, 0.9, 1.0, 1.1, 1.4)
    )


@pytest.mark.parametrize("depth", [1, 4])
def test_memory_is_said_before_it_is_taken_and_is_what_is_taken(monkeypatch, depth):
    rng, count = np.random.default_rng(7), 120
    maps = [rng.dirichlet(np.ones(4), (count, 2, 4)).swapaxes(2, 3) for _ in range(depth)]
    rows = sma.token_inputs(rng.normal(size=(count, 4, 3)), maps, layers=(2,) * depth)
    matrix, whole = 8 * count**2, 4 * depth
    monkeypatch.setattr(in_blocks, "_ENTRIES", {"cpu": 2**12})  # so that the blocks are small here, too
    head_kernels(rows, rows)
    tracemalloc.start()
    head_kernels(rows, rows)
    peak = tracemalloc.get_traced_memory()[1] / matrix
    tracemalloc.stop()
    assert whole / 2 < peak < whole + 2
    assert checks.free_memory() > 2**20
    monkeypatch.setattr(checks, "free_memory", lambda: whole * matrix - 1)
    with pytest.raises(MemoryError, match=rf"inputs: {whole} matrices of 120 x 120 numbers need .* Take fewer texts"):
        head_kernels(rows, rows)
    monkeypatch.setattr(checks, "free_memory", lambda: whole * matrix)
    head_kernels(rows, rows)
