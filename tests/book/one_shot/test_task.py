"""The one-shot task: tokens against explicit loops, and what every sequence must be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_book.one_shot.glyphs import glyphs
from attention_book.one_shot.task import OneShot

KEY = jax.random.key(5)


@pytest.fixture(scope="module")
def task():
    return OneShot(glyphs(12, 6, seed=1))


@pytest.fixture(scope="module")
def sample(task):
    return task.sample(KEY, 2000, classes=range(2, 12))


def classes_of(task, sequences):
    return np.searchsorted(task.images.starts, np.asarray(sequences.drawings), side="right") - 1


def plain_token(task, sequences, example, image, row, column):
    """One token, entry by entry."""
    drawing = task.images.grey(int(sequences.drawings[example, image]))
    patch = drawing[8 * row : 8 * row + 8, 8 * column : 8 * column + 8]
    entries = np.array([patch[y, x] for y in range(8) for x in range(8) for _ in range(3)])
    entries = (entries - entries.mean()) / np.sqrt(entries.var() + 1e-5)
    label = {1.0: 0, -1.0: 1, 0.0: 2}[[float(sequences.first[example]), -float(sequences.first[example]), 0.0][image]]
    return entries + task.positions[16 * image + 4 * row + column] + task.label_vectors[label]


def test_tokens_of_sequences_are_those_of_loops_over_entries(task, sample):
    assert sample.inputs.shape == (2000, 48, 192) == (2000, task.tokens, task.features)
    rng = np.random.default_rng(0)
    for example, image, row, column in rng.integers(0, (2000, 3, 4, 4), (40, 4)):
        wanted = plain_token(task, sample.sequences, example, image, row, column)
        found = sample.inputs[example, 16 * image + 4 * row + column]
        # The constant parts are kept in float32.
        np.testing.assert_allclose(found, wanted, atol=2e-6)


def test_position_codes_are_sines_and_cosines_standardised_over_the_table(task):
    plain = np.empty((48, 192))
    for token in range(48):
        for pair in range(96):
            angle = token / 10000 ** (2 * pair / 192)
            plain[token, 2 * pair], plain[token, 2 * pair + 1] = np.sin(angle), np.cos(angle)
    np.testing.assert_allclose(task.positions, (plain - plain.mean()) / plain.std(), atol=1e-12)


def test_every_sequence_is_a_one_shot_question(task, sample):
    chosen = classes_of(task, sample.sequences)
    assert np.all(chosen[:, 0] != chosen[:, 1]) and chosen.min() >= 2
    as_first = chosen[:, 2] == chosen[:, 0]
    assert np.all(as_first | (chosen[:, 2] == chosen[:, 1]))
    first = np.asarray(sample.sequences.first)
    np.testing.assert_array_equal(sample.labels, np.where(as_first, first, -first))
    drawings = np.asarray(sample.sequences.drawings)
    assert np.all(drawings[:, 2] != drawings[:, 0]) and np.all(drawings[:, 2] != drawings[:, 1])


def test_order_labels_and_drawings_of_sequences_are_equally_likely(task, sample):
    chosen, first = classes_of(task, sample.sequences), np.asarray(sample.sequences.first)
    as_first = chosen[:, 2] == chosen[:, 0]
    for share in (
        first > 0,
        as_first,
        np.asarray(sample.labels) > 0,
        chosen[:, 0] < chosen[:, 1],
        (first > 0) == as_first,
    ):
        assert abs(share.mean() - 0.5) < 4 * 0.5 / np.sqrt(2000)
    shown = np.where(as_first, sample.sequences.drawings[:, 0], sample.sequences.drawings[:, 1])
    steps = np.bincount((np.asarray(sample.sequences.drawings[:, 2]) - shown) % 6, minlength=6)
    assert steps[0] == 0 and np.all(abs(steps[1:] - 400) < 4 * np.sqrt(400))
    assert np.all(abs(np.bincount(chosen[:, :2].ravel(), minlength=12)[2:] - 400) < 4 * np.sqrt(400))


def test_key_gives_the_same_sequences_in_both_precisions(task, sample):
    with jax.enable_x64(False):
        single = OneShot(task.images).sample(KEY, 2000, classes=range(2, 12))
    assert single.inputs.dtype == jnp.float32 and sample.inputs.dtype == jnp.float64
    np.testing.assert_array_equal(single.sequences.drawings, sample.sequences.drawings)
    np.testing.assert_array_equal(single.labels, sample.labels)
    np.testing.assert_allclose(single.inputs, sample.inputs, atol=1e-4)
    other = task.sample(jax.random.key(6), 2000, classes=range(2, 12))
    assert np.any(other.sequences.drawings != sample.sequences.drawings)


def test_every_pair_of_classes_has_a_sequence(task):
    pairs = task.all_pairs(range(3, 12))
    assert len(pairs) == len({*map(tuple, pairs)}) == 36 and np.all(pairs[:, 0] < pairs[:, 1])
    sequences = task.sequences(KEY, pairs)
    np.testing.assert_array_equal(np.sort(classes_of(task, sequences)[:, :2], axis=1), pairs)
    again = task.sequences(jax.random.key(8), pairs)
    assert np.any(again.drawings != sequences.drawings)


def test_sequences_that_cannot_be_drawn_are_refused(task):
    with pytest.raises(ValueError, match="asked: wanted the same number"):
        task.sample(KEY, 3, classes=(0, 1), asked=(2, 3, 4))
    with pytest.raises(ValueError, match="patch: wanted a divisor"):
        OneShot(task.images, patch=7)
