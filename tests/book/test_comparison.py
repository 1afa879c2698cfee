"""Agreement of order parameters against SciPy, brute force over renumberings, and planted structure."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import spearmanr

import statmech_attention as sma
from attention_book.comparison import agreement, block_share


def symmetric(random, size):
    matrix = random.normal(size=(size, size))
    return matrix + matrix.T


def test_block_share_by_explicit_loops():
    random, heads = np.random.default_rng(0), (2, 3)
    matrix, paths = symmetric(random, 6), list(itertools.product(range(2), range(3)))
    for layer in (1, 2):
        inside = total = same = 0
        for (i, one), (j, two) in itertools.product(enumerate(paths), repeat=2):
            if i != j:
                total += abs(matrix[i, j])
                same += one[layer - 1] == two[layer - 1]
                inside += abs(matrix[i, j]) * (one[layer - 1] == two[layer - 1])
        found = block_share(matrix, layers=heads, layer=layer)
        assert found.value == pytest.approx(inside / total) and found.even == pytest.approx(same / 30)
    assert math.isnan(block_share(np.eye(6), layers=heads).value)
    assert block_share(np.kron(np.eye(2), np.ones((3, 3))), layers=heads).value == 1


@pytest.mark.parametrize("entries", ["all", "diagonal", "off-diagonal", "blocks"])
def test_rank_correlation_is_that_of_scipy_over_pairs_of_paths(entries):
    random, heads = np.random.default_rng(1), (3, 2)
    one, two = symmetric(random, 6), symmetric(random, 6)
    rows, columns = np.triu_indices(6)
    chosen = {
        "all": rows >= 0,
        "diagonal": rows == columns,
        "off-diagonal": rows != columns,
        "blocks": (rows != columns) & (rows // 2 == columns // 2),
    }[entries]
    pairs = rows[chosen], columns[chosen]
    values = []
    for first, second in itertools.product(itertools.permutations(range(3)), itertools.permutations(range(2))):
        order = [2 * first[path // 2] + second[path % 2] for path in range(6)]
        values.append(spearmanr(one[pairs], two[np.ix_(order, order)][pairs]).statistic)
    found = agreement(one, two, layers=heads, entries=entries)
    assert found.value == pytest.approx(values[0])
    assert (found.null_low, found.null_high) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))
    assert found.p_value == pytest.approx(np.mean(np.array(values) >= values[0] - 1e-9))


def test_signs_agree_with_themselves_and_not_with_their_opposites():
    random = np.random.default_rng(2)
    matrix = symmetric(random, 9)
    assert agreement(
        matrix, 3 * matrix, layers=(3, 3), compared="signs", entries="off-diagonal"
    ).value == pytest.approx(1)
    assert agreement(matrix, -matrix, layers=(3, 3), compared="signs", entries="off-diagonal").value == pytest.approx(
        -1
    )
    other = np.where(np.eye(9, dtype=bool), matrix, -matrix)
    weight = np.sum(np.diag(matrix) ** 2), np.sum(np.triu(matrix, 1) ** 2)
    wanted = (weight[0] - weight[1]) / (weight[0] + weight[1])
    assert agreement(matrix, other, layers=(3, 3), compared="signs").value == pytest.approx(wanted)


def test_blocks_alone_are_no_agreement():
    """Two matrices with blocks of the same heads, but sizes that have nothing to do with each other."""
    random, heads, p_values = np.random.default_rng(3), (4, 4), []
    mask = np.kron(np.eye(4), np.ones((4, 4)))
    for _ in range(60):
        one, two = (mask * (3 + random.random((16, 16))) for _ in range(2))
        p_values.append(agreement(one + one.T, two + two.T, layers=heads, entries="off-diagonal").p_value)
    # Uniform on (0, 1) if the test is honest: mean 1/2 with standard error 0.289 / sqrt(60).
    assert abs(np.mean(p_values) - 0.5) < 4 * 0.289 / math.sqrt(60)
    assert np.mean(np.array(p_values) <= 0.2) < 0.2 + 4 * math.sqrt(0.16 / 60)
    noisy = one + one.T + 0.01 * symmetric(random, 16)
    assert agreement(one + one.T, noisy, layers=heads).p_value < 0.01


def test_a_skip_is_not_renumbered():
    """Two layers of two heads beside a skip: paths renumbered by hand, the skip in its place."""
    random, layers = np.random.default_rng(7), (sma.SkipHeads(2), sma.SkipHeads(2))
    heads = sma.model.path_indices(layers)  # a skip is -1
    matrix = symmetric(random, 9)

    def renumbered(first, second):
        def moved(head, order):
            return head if head < 0 else order[head]

        wanted = [(moved(one, first), moved(two, second)) for one, two in heads]
        order = [next(i for i, path in enumerate(heads) if tuple(path) == one) for one in wanted]
        return matrix[np.ix_(order, order)]

    other, pairs = symmetric(random, 9), np.triu_indices(9)
    orders = itertools.product(itertools.permutations(range(2)), repeat=2)
    each = [spearmanr(other[pairs], renumbered(*order)[pairs]).statistic for order in orders]
    found = agreement(other, matrix, layers=layers)
    assert found.value == pytest.approx(each[0])
    assert (found.null_low, found.null_high) == pytest.approx(tuple(np.quantile(each, [0.025, 0.975])))
    assert found.p_value == np.mean(np.array(each) >= each[0] - 1e-12)


def test_many_heads_are_renumbered_at_random():
    random = np.random.default_rng(4)
    matrix = symmetric(random, 64)
    found = agreement(matrix, matrix, layers=(8, 8))
    assert found.value == pytest.approx(1) and found.p_value == pytest.approx(1 / 5000)
    assert -0.2 < found.null_low < 0 < found.null_high < 0.2


def test_the_value_alone_is_the_same_value():
    random = np.random.default_rng(4)
    one, two = symmetric(random, 6), symmetric(random, 6)
    for options in ({}, {"entries": "blocks"}, {"compared": "signs", "entries": "off-diagonal"}):
        alone = agreement(one, two, layers=(3, 2), renumber=False, **options)
        assert alone.value == pytest.approx(agreement(one, two, layers=(3, 2), **options).value)
        assert all(math.isnan(value) for value in alone[1:])
