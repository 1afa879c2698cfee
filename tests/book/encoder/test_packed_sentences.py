"""The sentences that come with the book."""

import subprocess
import sys

import numpy as np
import pytest

from attention_book.encoder import packed_sentences
from attention_book.encoder.packed_sentences import FILE


@pytest.fixture(scope="module")
def packed():
    return packed_sentences()


def test_packed_sentences_are_balanced_and_their_attention_sums_to_one(packed):
    assert sorted(packed.labels) == [-1.0] * 100 + [1.0] * 100
    assert packed.attention.shape[:2] == (200, 72)
    np.testing.assert_allclose(packed.attention.sum(axis=2), 1, atol=1e-12)
    padding = ~packed.inputs.any(axis=2)
    assert padding.any() and not packed.attention.swapaxes(1, 2)[padding].any()


def test_packed_sentences_are_read_without_torch_and_the_encoder():
    code = "import sys; from attention_book.encoder import packed_sentences as p; p(); "
    code += "print({'torch', 'safetensors', 'tokenizers'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_damaged_pack_of_sentences_is_named_and_not_used(tmp_path):
    held = bytearray(FILE.read_bytes())
    held[1000] ^= 1
    path = tmp_path / FILE.name
    with pytest.raises(FileNotFoundError, match=rf"{path}: not read.*Restore the file"):
        packed_sentences(path)
    path.write_bytes(held)
    with pytest.raises(ValueError, match=rf"{path}: wanted SHA-256.*Restore the file"):
        packed_sentences(path)
