"""Pictures of the one-shot task: what is on them."""

import matplotlib.pyplot as plt
import numpy as np

from statmech_attention import plotting

IMAGES = np.linspace(0, 1, 3 * 8 * 8).reshape(3, 8, 8)


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_labels_stand_under_their_images_and_the_answer_behind():
    _, (one, other) = plt.subplots(2)
    plotting.one_shot_sequence(IMAGES, 1, axes=one, answer=-1)
    plotting.one_shot_sequence(IMAGES, -1, axes=other)
    minus = "\N{MINUS SIGN}"
    assert texts(one) == ["+", minus, "?", f"→ {minus}"]
    assert texts(other) == [minus, "+", "?"]
    for shown, image in zip(one.images, IMAGES, strict=True):
        np.testing.assert_array_equal(shown.get_array(), image)
    plt.close("all")


def test_patches_are_outlined():
    _, (plain, cut) = plt.subplots(2)
    plotting.one_shot_sequence(IMAGES, 1, axes=plain)
    plotting.one_shot_sequence(IMAGES, 1, axes=cut, patch=4)
    assert len(cut.lines) - len(plain.lines) == 3 * 2  # one line each way cuts 8 pixels into twice 4
    plt.close("all")


def test_tints_follow_the_attention():
    _, axes = plt.subplots()
    weights = np.arange(12.0)
    plotting.attended(IMAGES, weights, axes=axes, patch=4, title="head")
    tints = np.concatenate([np.asarray(image.get_array()).ravel() for image in axes.images[1::2]])
    np.testing.assert_allclose(tints, weights / 11)
    assert axes.get_title() == "head"
    plt.close("all")
