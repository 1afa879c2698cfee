"""A projected network with gated units, against all pairs of tokens."""

import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention.pruning import head_worth
from tests.theory.test_tokens_in_blocks import VARIANCE, texts

WIDE = (*VARIANCE[:2], 5.0, *VARIANCE[3:])


@pytest.fixture(scope="module")
def words():
    return texts(26, 3, longest=6)


def test_with_all_components_kernels_are_those_of_all_pairs(words):
    train, test = words.take(range(20)), words.take(range(20, 26))
    network = sma.projection(train, 48, variance=WIDE)  # of (1 + 3) (1 + 5) 2 partial paths
    assert network.lost == (0.0, 0.0, 0.0)
    seen = network(train)
    for left, right in ((seen, seen), (network(test), seen)):
        pairs = (train if one is seen else test for one in (left, right))
        wanted = sma.kernel(*pairs, variance=WIDE)
        np.testing.assert_allclose(sma.kernel(left, right, variance=WIDE), wanted, rtol=1e-12, atol=1e-13)


def test_units_beyond_the_rows_leave_nothing_out():
    words = texts(4, 5, longest=4)  # at most 16 rows, of 4 x 6 columns above the heads
    seen = sma.projection(words, 16)(words)
    assert seen.projection.blocks[1].shape[2] <= 16
    assert seen.left_out < 1e-12
    np.testing.assert_allclose(sma.kernel(seen, seen), sma.kernel(words, words), rtol=0, atol=1e-10)


def test_less_is_left_out_the_more_components_there_are(words):
    exact, last = sma.kernel(words, words, variance=WIDE), 1.0
    for components in (3, 6, 12):
        network = sma.projection(words, components, variance=WIDE)
        for block in network.blocks:
            flat = block.reshape(-1, block.shape[2])
            np.testing.assert_allclose(flat.T @ flat, np.eye(flat.shape[1]), rtol=0, atol=1e-12)
        seen = network(words)
        plain = np.asarray(sma.kernel(seen, seen, variance=WIDE))
        np.testing.assert_allclose(np.diag(plain), np.diag(exact), rtol=1e-12)
        left = exact - plain + WIDE[0] * WIDE[-1] * np.diag(seen.rest)
        assert np.linalg.eigvalsh(left)[0] > -1e-12 * np.trace(exact)
        assert 0 < seen.left_out < 0.8 * last
        last = seen.left_out


@pytest.mark.slow
def test_a_solution_with_all_components_is_that_of_all_pairs():
    words = texts(26, 6, longest=6, layers=(sma.Heads(2), sma.Gated(3)))
    train, test = words.take(range(20)), words.take(range(20, 26))
    labels = np.sign(np.random.default_rng(1).normal(size=20))
    pairs = sma.Problem(train, labels, width=20.0, temperature=0.3)
    exact, found = sma.solve(pairs), sma.solve(pairs.replace(attentioned=sma.projection(train, 8)(train)))
    assert float(found.excess) == pytest.approx(float(exact.excess), abs=1e-8)
    np.testing.assert_allclose(found.predict(test).mean, exact.predict(test).mean, rtol=0, atol=1e-6)
    worth, known = (head_worth(one, inputs=seen, removal=False) for one, seen in ((found, train), (exact, None)))
    np.testing.assert_allclose(worth.slopes, known.slopes, rtol=0, atol=1e-5)
