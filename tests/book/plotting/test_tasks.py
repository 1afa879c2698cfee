"""Pictures of the tasks: what is on them."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.patches import Circle

from attention_book import plotting

IMAGES = np.linspace(0, 1, 3 * 8 * 8).reshape(3, 8, 8)


def test_chains_have_a_bar_at_every_switch_and_one_colour_a_state():
    hidden = np.array([[1, 1, -1, -1], [-1, 1, -1, 1]])
    axes = plotting.hidden_chains(hidden, labels=["slow", "fast"])
    assert [line.get_xdata()[0] for line in axes.lines] == [1.5, 0.5, 1.5, 2.5]
    circles = [patch for patch in axes.patches if isinstance(patch, Circle)]
    dark = [circle.get_facecolor() == to_rgba(plotting.COLOURS["state +"]) for circle in circles]
    assert dark == [state > 0 for state in hidden.ravel()]
    with pytest.raises(ValueError, match=r"states \+1 and -1"):
        plotting.hidden_chains([[1, 0]])


def test_switching_names_both_probabilities():
    texts = [text.get_text() for text in plotting.switching(0.3).texts]
    assert texts.count("0.7") == 2 and texts.count("0.3") == 1
    with pytest.raises(ValueError, match="probability"):
        plotting.switching(1.5)


def test_tokens_are_columns():
    tokens = np.random.default_rng(0).normal(size=(5, 8))
    np.testing.assert_array_equal(plotting.noisy_tokens(tokens).images[0].get_array(), tokens.T)


def test_state_rows_show_every_state_with_its_number():
    hidden = np.array([[0, 1, 2, 1], [2, 2, 0, 1]])
    axes = plotting.state_rows(hidden, labels=["one", "two"])
    np.testing.assert_array_equal(axes.images[0].get_array(), hidden)
    assert [text.get_text() for text in axes.texts] == list("01212201")
    assert [text.get_position() for text in axes.texts][5] == (1, 1)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "two"]
    assert plotting.state_rows(hidden, axes=axes) is axes


@pytest.mark.parametrize("hidden", [np.zeros(4, int), np.zeros((2, 2)), -np.ones((2, 2), int)])
def test_state_rows_wants_states(hidden):
    with pytest.raises(ValueError, match="hidden: wanted states 0, 1, .. of shape"):
        plotting.state_rows(hidden)


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


def test_patches_are_outlined():
    _, (plain, cut) = plt.subplots(2)
    plotting.one_shot_sequence(IMAGES, 1, axes=plain)
    plotting.one_shot_sequence(IMAGES, 1, axes=cut, patch=4)
    assert len(cut.lines) - len(plain.lines) == 3 * 2  # one line each way cuts 8 pixels into twice 4


def test_tints_follow_the_attention():
    _, axes = plt.subplots()
    weights = np.arange(12.0)
    plotting.attended(IMAGES, weights, axes=axes, patch=4, title="head")
    tints = np.concatenate([np.asarray(image.get_array()).ravel() for image in axes.images[1::2]])
    np.testing.assert_allclose(tints, weights / 11)
    assert axes.get_title() == "head"
