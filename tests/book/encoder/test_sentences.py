"""Sentences: the files' readers on small made ones, splits, and the real sets where they are installed."""

import numpy as np
import pytest

from attention_book.encoder import SentenceSet, installed, sentence_set, texts

from .packages import real_texts


def made(*counts):
    """A set with so many sentences of each class, the classes mixed."""
    classes = np.random.default_rng(1).permutation(np.repeat(np.arange(len(counts)), counts))
    return SentenceSet(
        tuple(f"sentence {number}" for number in range(len(classes))), classes, tuple("abcdef"[: len(counts)])
    )


def classes_of(part, sentences):
    return np.bincount(sentences.classes[part.places], minlength=len(sentences.names)).tolist()


def test_questions_are_read_with_their_coarse_class():
    lines = "DESC:manner How so ?\nENTY:animal What fowl: this ?\n\nABBR:exp What is .com ?\n"
    assert texts.questions(lines.encode()) == [
        ("How so ?", "description"),
        ("What fowl: this ?", "entity"),
        ("What is .com ?", "abbreviation"),
    ]
    with pytest.raises(ValueError, match="line 2: wanted a question after one of ABBR, .*got 'FOOD:x why'"):
        texts.questions(b"DESC:manner How ?\nFOOD:x why")


def test_reviews_are_read_where_the_rating_is_clear():
    lines = "id\tsentiment\ttext\n1\t0.51\tgood\tindeed\n2\t-2.0\tb\xe4d\n3\t0.5\tso\n4\t-0.2\tso so\n"
    assert texts.reviews(lines.encode()) == [("good\tindeed", "positive"), ("b\xe4d", "negative")]


def test_messages_within_a_message_are_separated():
    lines = (
        ',spam,text\n0,0,"Ok, lar"\n1,1,Free entry\n2,0,"Life"" he said\nham\tOk\nspam\tWin, now!\nham\tTwo\nlines"\n'
    )
    assert texts.messages(lines.encode()) == [
        ("Ok, lar", "ham"),
        ("Free entry", "spam"),
        ('Life" he said', "ham"),
        ("Ok", "ham"),
        ("Win, now!", "spam"),
        ("Two\nlines", "ham"),
    ]


def test_sentences_that_stand_twice_or_in_two_classes_are_left_out():
    pairs = [(" One ", "a"), ("two", "b"), ("one", "a"), ("Two", "a"), ("", "b"), ("t w o", "b"), ("T  W O", "b")]
    assert texts.without_doubles(pairs) == [("One", "a"), ("t w o", "b")]


def test_labels_of_several_classes_are_one_hot_less_their_mean():
    sentences = made(3, 4, 5)
    labels = sentences.labels(np.arange(12))
    np.testing.assert_allclose(labels, np.eye(3)[sentences.classes] - 1 / 3, atol=1e-15)


@pytest.mark.parametrize(("counts", "train", "test"), [((40, 50), 20, 30), ((30, 30, 30), 12, 30), ((90, 41), 7, 40)])
def test_splits_of_sentences_are_balanced_and_disjoint(counts, train, test):
    sentences = made(*counts)
    split = sentences.split(3, train, test)
    for part, size in zip(split, (train, test), strict=True):
        assert len({*part.texts}) == len(part.texts) == len(part.labels) == size
        assert np.ptp(classes_of(part, sentences)) <= 1
        assert part.texts == tuple(sentences.texts[place] for place in part.places)
        np.testing.assert_array_equal(part.labels, sentences.labels(part.places))
    assert not {*split.train.texts} & {*split.test.texts}
    # Classes are mixed, not one behind the other.
    assert np.count_nonzero(np.diff(sentences.classes[split.test.places])) > 1


def test_a_class_that_is_too_small_is_shared_in_proportion():
    sentences = made(8, 100)
    train, test = (classes_of(part, sentences) for part in sentences.split(0, 20, 60))
    assert (train, test) == ([2, 18], [6, 54])


def test_splits_of_sentences_follow_the_seed_and_contain_smaller_ones():
    sentences = made(50, 60)
    small, large, other = (sentences.split(seed, train, 40) for seed, train in ((1, 6), (1, 25), (2, 6)))
    again = sentences.split(1, 6, 40)
    assert again.train.texts == small.train.texts and again.test.texts == small.test.texts
    assert {*small.test.texts} == {*large.test.texts} != {*other.test.texts}
    assert {*small.train.texts} < {*large.train.texts}


def test_sentences_that_cannot_be_split_are_refused():
    sentences = made(5, 6)
    with pytest.raises(ValueError, match=r"at most 11 sentences in all, got 4 \+ 8 = 12"):
        sentences.split(0, 4, 8)
    with pytest.raises(ValueError, match="at least two of a, b, got"):
        sentences.only("a", "z")
    with pytest.raises(ValueError, match="trec, reviews, spam, got 'imdb'"):
        sentence_set("imdb")


@real_texts
def test_installed_sets_are_the_published_ones():
    trec, reviews, spam = (sentence_set(name) for name in ("trec", "reviews", "spam"))
    assert trec.counts == {
        "abbreviation": 86,
        "description": 1152,
        "entity": 1245,
        "human": 1215,
        "location": 824,
        "number": 858,
    }
    assert reviews.counts == {"positive": 4981, "negative": 5060}
    assert spam.counts == {"spam": 642, "ham": 4517}
    # Those within others counted, it is the published collection.
    every = texts.messages(installed.content("spam"))
    assert (len(every), sum(name == "spam" for _, name in every)) == (5574, 747)
    pair = trec.only("description", "entity")
    place = pair.texts.index("How did serfdom develop in and then leave Russia ?")
    assert pair.labels([place]) == 1.0
    assert reviews.labels([reviews.texts.index("Effective but too tepid biopic")]) == -1.0
    assert all(len({*one.texts}) == len(one.texts) for one in (trec, reviews, spam))
