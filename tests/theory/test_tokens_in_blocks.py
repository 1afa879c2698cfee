"""(K3) in compiled blocks of pairs, against a loop over pairs and seeds; of mixed lengths, skips and gated units."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.linalg import block_diag

import statmech_attention as sma
from statmech_attention.theory.kernels import in_blocks

LAYERS, VARIANCE = (sma.Heads(2), sma.Gated(5), sma.SkipHeads(3)), (1.3, 0.7, 1.2, 0.6, 0.9)


def texts(examples, seed, longest=9, layers=LAYERS):
    draw = np.random.default_rng(seed)
    mask = np.arange(longest) < draw.integers(1, longest + 1, examples)[:, None]
    square = (longest, longest)
    matrices = [
        np.exp(draw.normal(size=(examples, heads, *square))) * mask[:, None, :, None]
        for heads in _some(layers, "heads")
    ]
    attention = [matrix / matrix.sum(axis=2, keepdims=True) for matrix in matrices]
    tokens = draw.normal(size=(examples, longest, 3))
    gates = [draw.normal(size=(examples, longest, units)) for units in _some(layers, "gates")]
    return sma.token_inputs(tokens, attention, gates=gates, layers=layers, mask=mask, readout="mean")


def _some(layers, name):
    """The numbers of this name that are not zero."""
    return [getattr(layer, name) for layer in layers if getattr(layer, name)]


@pytest.fixture(scope="module")
def two():
    return texts(13, 0), texts(6, 1, longest=7)


def maps_of(example, layer):
    """The maps of an example as matrices, with the root of their variance."""
    maps = example.maps[layer]
    whole = maps if maps.ndim == 3 else [np.diag(one) for one in maps]
    skips = int(LAYERS[layer].keeps)
    return [one if seed < skips else np.sqrt(VARIANCE[1 + layer]) * one for seed, one in enumerate(whole)]


def looped(one, other):
    """$K$ of two examples at a unit variance of the readout."""
    gram = np.outer(one.weights, other.weights)
    for layer in (2, 1, 0):
        pairs = zip(maps_of(one, layer), maps_of(other, layer), strict=True)
        gram = sum(left @ gram @ right.T for left, right in pairs)
    return VARIANCE[0] * np.sum(gram * (one.tokens @ other.tokens.T)) / one.tokens.shape[1]


@pytest.fixture(params=[1, 4, 32])
def at_once(request, monkeypatch):
    monkeypatch.setitem(in_blocks._ENTRIES, "cpu", request.param**2 * 3 * 9**2)


@pytest.mark.usefixtures("at_once")
def test_blocks_of_any_size_have_the_kernel_of_all_pairs(two):
    some, others = two
    for other in (some, others):
        found = in_blocks.kernel_in_blocks(some, other, VARIANCE)[np.ix_(some.order, other.order)]
        wanted = [[looped(*pair) for pair in product([one], other.examples())] for one in some.examples()]
        np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-14)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("layer", range(3))
def test_a_layer_takes_grams_of_all_rows_down_and_their_adjoints_up(two, layer):
    rows = two[0]
    seeds = [block_diag(*maps) for maps in zip(*(maps_of(one, layer) for one in rows.examples()), strict=True)]
    for other, up in product(two, (False, True)):
        theirs = [block_diag(*maps) for maps in zip(*(maps_of(one, layer) for one in other.examples()), strict=True)]
        gram = np.random.default_rng(2).normal(size=(len(rows.weights), len(other.weights)))
        gram = gram + gram.T if other is rows else gram
        found = in_blocks.layer_step(rows, other, layer, gram, VARIANCE[1 + layer], up=up)
        pairs = [(left.T, right.T) if up else (left, right) for left, right in zip(seeds, theirs, strict=True)]
        wanted = sum(left @ gram @ right.T for left, right in pairs)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)


def test_single_precision_is_that_of_rounding(two):
    some, others = two
    for other in (some, others):
        exact = sma.kernel(some, other, variance=VARIANCE)
        rough = sma.kernel(some, other, variance=VARIANCE, single=True)
        assert 0 < np.abs(rough - exact).max() < 3e-6 * np.abs(exact).max()


def test_overlaps_of_gates_in_single_precision_are_computed_in_it(two):
    some, _ = two
    halved = [(group.maps[0], group.maps[1].astype(np.float32), group.maps[2]) for group in some.groups]
    groups = tuple(group._replace(maps=maps) for group, maps in zip(some.groups, halved, strict=True))
    single = replace(some, groups=groups)
    kinds = [one.dtype for one in next(in_blocks.padded_blocks(single, 4)).cast(np.float64).maps]
    assert kinds == [np.float64, np.float32, np.float64]
    rough, exact = (in_blocks.kernel_in_blocks(one, one, VARIANCE) for one in (single, some))
    assert 0 < np.abs(rough - exact).max() < 1e-6 * np.abs(exact).max()


@pytest.mark.usefixtures("at_once")
def test_pulls_on_the_variances_of_a_layer_are_the_slope_of_the_kernel_in_its_variance(two):
    some, _ = two
    pull = np.random.default_rng(2).normal(size=(13, 13))
    pull = pull + pull.T
    found = in_blocks.pulled_in_blocks(some, VARIANCE, pull)
    assert [len(part) for part in found] == [2, 5, 3]
    for place, part in enumerate(found, start=1):
        ends = [in_blocks.kernel_in_blocks(some, some, _times(place, factor)) for factor in (1.001, 0.999)]
        assert np.sum(part) == pytest.approx(np.sum(pull * (ends[0] - ends[1])) / 0.002, rel=1e-5)


def _times(place, factor):
    """The variances with one of them multiplied."""
    return tuple(number * factor ** (one == place) for one, number in enumerate(VARIANCE))
