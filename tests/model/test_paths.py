"""Attentioned inputs and the order of paths: equation (7)."""

import numpy as np
import pytest
import reference

import statmech_attention as sma

EXAMPLES, TOKENS, FEATURES = 2, 3, 4


@pytest.mark.parametrize("heads", [(3,), (2, 1, 2, 2)])
@pytest.mark.parametrize("readout", ["last", "first", "mean", 1])
def test_attentioned_inputs_agree_with_products_along_each_path(heads, readout):
    rng = np.random.default_rng(20)
    inputs = rng.normal(size=(EXAMPLES, TOKENS, FEATURES))
    # Columns that do not sum to one: a function may return any matrices.
    matrices = [rng.normal(size=(EXAMPLES, count, TOKENS, TOKENS)) for count in heads]
    xi = sma.attentioned_inputs(inputs, lambda _: matrices, readout=readout)
    assert xi.layers == heads and xi != sma.attentioned_inputs(inputs, lambda _: matrices, readout=readout)
    np.testing.assert_allclose(
        xi.values, reference.attentioned_inputs(inputs, matrices, readout), rtol=1e-11, atol=1e-12
    )


def test_more_paths_than_memory_are_refused():
    matrices = [np.ones((EXAMPLES, 12, TOKENS, TOKENS)) / TOKENS] * 12  # an encoder with all its layers
    with pytest.raises(ValueError, match="wanted at most 10000 paths, got 8916100448256 through 12 layers"):
        sma.attentioned_inputs(np.ones((EXAMPLES, TOKENS, FEATURES)), matrices)
