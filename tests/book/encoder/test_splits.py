"""What splits of a task have in common, counted on the texts themselves."""

import itertools

import numpy as np
import pytest

from attention_book.encoder import SHARED, disjoint
from attention_book.encoder.inputs import TASKS
from attention_book.encoder.tokens import tokenise
from tests.book.encoder.packages import real_texts


def test_disjoint_splits_share_no_sentence_and_have_no_long_one():
    """Sentences of random tokens are all different."""
    parts = [disjoint("made", number, 3, longest=9, count=20) for number in range(3)]
    seen = [tuple(row[:size]) for part in parts for row, size in zip(part.tokens.ids, part.tokens.lengths, strict=True)]
    assert len({*seen}) == len(seen) == 60
    assert max(part.tokens.lengths.max() for part in parts) <= 9
    with pytest.raises(ValueError, match=r"wanted a split in \[0, 2\], got 3"):
        disjoint("made", 3, 3, longest=9, count=20)


@real_texts
@pytest.mark.parametrize("task", SHARED["kept"])
def test_shares_of_common_test_sentences(task):
    texts = TASKS[task]()
    lengths = tokenise(texts.texts).lengths
    longest, most = (40, 250) if task == "spam" else (20, 500)
    tests = [texts.split(seed, 1300, 1000).test.places for seed in range(5)]
    short = [places[lengths[places] <= longest] for places in tests]
    taken = {"kept": tests, "new classifier": [places[:200] for places in tests]}
    if SHARED["chain"][task] == 0:
        parts = [disjoint(task, number, 5, longest, 435).tokens for number in range(5)]  # with 285 for the test
        seen = [tuple(row[:size]) for part in parts for row, size in zip(part.ids, part.lengths, strict=True)]
        assert len(seen) == len({*seen}) == 5 * 435
    else:
        taken["chain"] = [places[:most] for places in short]
    taken["width"] = [places[:250] for places in short]
    for family, sets in taken.items():
        if task in SHARED[family]:
            pairs = [(len(np.intersect1d(*pair)), sum(map(len, pair)) / 2) for pair in itertools.combinations(sets, 2)]
            assert SHARED[family][task] == pytest.approx(np.mean([both / size for both, size in pairs]), abs=0.01)
