"""Entropy, energy and action against explicit Kronecker products and a Gaussian's log density: (11), (12)."""

import math

import jax
import numpy as np
import pytest
import reference

import statmech_attention as sma

# Heads, widths (N_1, .., N_{L+1}), variances (sigma_0^2, .., sigma_a^2).
HEADS, WIDTHS, VARIANCES = (3, 1, 2), (7, 5, 9, 6), (0.7, 1.3, 0.9, 1.6, 0.8)


def test_at_the_gp_limit_the_entropy_counts_the_dimensions_and_is_flat():
    gp = sma.theory.gp_order_parameters(layers=HEADS, variance=VARIANCES)
    for one, other in zip(gp, reference.gp_order_parameters(HEADS, VARIANCES), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)
    sizes = [math.prod(HEADS[layer:]) for layer in range(len(HEADS) + 1)]
    wanted = sum(size * width / max(WIDTHS) for size, width in zip(sizes, WIDTHS, strict=True))
    entropy = jax.value_and_grad(lambda u: sma.theory.entropy(u, layers=HEADS, width=WIDTHS, variance=VARIANCES))
    found, slopes = jax.jit(entropy)(gp)
    assert float(found) == pytest.approx(wanted, rel=1e-12)
    for slope in slopes:
        np.testing.assert_allclose(slope, 0.0, atol=1e-12)
