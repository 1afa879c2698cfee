"""Training and test sets of the one-shot task."""

import jax
import numpy as np
import pytest

from attention_book.one_shot import OneShotSuite, one_shot_suite


@pytest.fixture(scope="module")
def suite() -> OneShotSuite:
    return one_shot_suite("glyphs")


def classes_of(task, drawings):
    return np.searchsorted(task.images.starts, np.asarray(drawings), side="right") - 1


def test_first_test_set_has_classes_that_are_not_trained_on(suite):
    name, *others = suite.test_sets
    train = suite.train(jax.random.key(0), 200)
    test = suite.test(jax.random.key(1), 200, name)
    assert name == "glyphs" and len(others) == 2
    assert set(classes_of(suite.task, train.sequences.drawings).ravel()) <= set(suite.split.train)
    assert set(classes_of(suite.task, test.sequences.drawings).ravel()) <= set(suite.split.test)
    assert not set(suite.split.train) & set(suite.split.test)


def test_third_image_of_other_test_sets_is_of_another_part(suite):
    for name in list(suite.test_sets)[1:]:
        chosen = suite.test_sets[name]
        sample = suite.test(jax.random.key(2), 300, name)
        drawn = classes_of(chosen.task, sample.sequences.drawings)
        assert {frozenset(row[:2]) for row in drawn} == {frozenset(chosen.classes)}
        assert set(drawn[:, 2]) == set(chosen.asked) and not set(chosen.asked) & set(chosen.classes)
        # The right answer is the label of the image whose class the third one's class stands for.
        shown = dict(zip(chosen.asked, chosen.classes, strict=True))
        first = np.where([shown[row[2]] == row[0] for row in drawn], 1, -1)
        np.testing.assert_array_equal(first * np.asarray(sample.sequences.first), np.asarray(sample.labels))


def test_all_test_sets_share_codes_of_position_and_label(suite):
    for chosen in suite.test_sets.values():
        np.testing.assert_array_equal(chosen.task.positions, suite.task.positions)
        np.testing.assert_array_equal(chosen.task.label_vectors, suite.task.label_vectors)


def test_unknown_names_of_test_sets_are_refused(suite):
    with pytest.raises(ValueError, match="wanted one of omniglot, glyphs, got 'mnist'"):
        one_shot_suite("mnist")
    with pytest.raises(ValueError, match="wanted one of glyphs, white glyphs, two glyphs, got 'MNIST'"):
        suite.test(jax.random.key(0), 5, "MNIST")
