"""Networks and windows out of batches."""

import numpy as np
import pytest

from statmech_attention import dmft


@pytest.fixture(scope="module")
def model():
    patterns = dmft.published_patterns(segments=None, seed=1, sites=9)
    return dmft.dynamics(patterns, beta=np.array([1.0, 2.0, 3.0]), gamma=np.array([[1.0], [5.0]]), epsilon=0.1)


def test_one_of_a_batch_goes_on_as_it_did_in_the_batch(model):
    window = dmft.advance(model, dmft.initial_window(model), steps=7)
    after, overlaps = dmft.step(model, window)
    for place in np.ndindex(2, 3):
        one, seen = dmft.step(model[place], window[place])
        assert model[place].shape == ()
        pairs = [(getattr(one, name), getattr(after[place], name)) for name in ("keys", "values", "attention", "slot")]
        pairs += [(found, wanted[place]) for found, wanted in zip(seen, overlaps, strict=True)]
        for found, wanted in pairs:
            np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("index", [2, (0, 3), "a", (0, 0, 0)])
def test_what_there_is_not(model, index):
    for batch, name in ((model, "model"), (dmft.initial_window(model), "window")):
        with pytest.raises(IndexError, match=rf"{name}: wanted an index into a batch of shape \(2, 3\), got"):
            batch[index]
    with pytest.raises(IndexError, match=r"model: wanted an index into a batch of shape \(\), got 0"):
        model[0, 0][0]
