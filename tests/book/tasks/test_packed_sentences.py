"""The sentences that come with the book, beside those of the encoder where it is installed."""

import subprocess
import sys

import numpy as np
import pack_sentences
import pytest

import statmech_attention as sma
from attention_book.tasks import packed_sentences
from attention_book.tasks.packed_sentences import FILE
from statmech_attention.pruning import fitted_features

from .installed import real_texts


@pytest.fixture(scope="module")
def packed():
    return packed_sentences()


@pytest.fixture(scope="module")
def original():
    return pack_sentences.encoded()


def read_out(inputs, attention, labels):
    return sma.Problem(np.einsum("ehk,ekd->ehd", attention, inputs), labels, width=10, layers=(72,))


def test_classes_are_balanced_and_attention_is_one_on_tokens(packed):
    assert sorted(packed.labels) == [-1.0] * 100 + [1.0] * 100
    assert packed.attention.shape[:2] == (200, 72)
    np.testing.assert_allclose(packed.attention.sum(axis=2), 1, atol=1e-12)
    padding = ~packed.inputs.any(axis=2)
    assert padding.any() and not packed.attention.swapaxes(1, 2)[padding].any()


def test_they_are_read_without_torch_and_without_the_encoder():
    code = "import sys; from attention_book.tasks import packed_sentences as p; p(); "
    code += "print({'torch', 'safetensors', 'tokenizers'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_damaged_file_is_named_and_not_used(tmp_path):
    held = bytearray(FILE.read_bytes())
    held[1000] ^= 1
    path = tmp_path / FILE.name
    with pytest.raises(FileNotFoundError, match=rf"{path}: not read.*Restore the file"):
        packed_sentences(path)
    path.write_bytes(held)
    with pytest.raises(ValueError, match=rf"{path}: wanted SHA-256.*Restore the file"):
        packed_sentences(path)


@real_texts
def test_they_are_what_the_encoder_gives(packed, original):
    lengths, labels, embeddings, attention = original
    token = packed.inputs.any(axis=2)
    np.testing.assert_array_equal(packed.labels, labels)
    np.testing.assert_array_equal(token.sum(axis=1), lengths)
    # Half a level of the root, twice: for the level and for the sum.
    assert np.abs(packed.attention - attention).max() < 2 / pack_sentences.LEVELS
    # The embedded tokens, shifted, turned and rounded.
    full, few = (inputs[token] - inputs[token].mean(axis=0) for inputs in (embeddings, packed.inputs))
    directions = np.linalg.lstsq(full, few, rcond=1e-4)[0]  # normalised tokens lie in a hyperplane
    assert np.sqrt(np.mean((full @ directions - few) ** 2)) < 0.02
    np.testing.assert_allclose(directions.T @ directions, np.eye(pack_sentences.DIRECTIONS), atol=0.05)
    # These directions have the largest variance of what the heads read out: none lost more than is said.
    whole, kept = (read_out(*one, labels).attentioned.values for one in ((embeddings, attention), packed[:2]))
    variances = np.linalg.eigvalsh(np.cov(whole.reshape(-1, whole.shape[2]).T))
    lost = variances[: -pack_sentences.DIRECTIONS].sum() / variances.sum()
    assert packed.variance_lost == pytest.approx(lost, rel=1e-3)
    assert kept.var(axis=(0, 1)).sum() / variances.sum() == pytest.approx(1 - lost, rel=1e-3)


@real_texts
def test_scores_are_those_of_the_whole_embeddings(packed, original, optimised):
    """As the page says: the theory's to 0.02; of kernel weights the evidence to 0.1 nats."""
    scores, evidence = [], []
    for inputs, attention in (packed[:2], original[2:]):
        whole = read_out(inputs, attention, packed.labels)
        features = fitted_features(whole.attentioned, pack_sentences.DIRECTIONS)
        problem = whole.replace(attentioned=features.of(whole.attentioned))
        solved = sma.solve(problem.replace(temperature=0.3), tolerance=1e-4)
        scores.append(np.asarray(sma.head_scores(solved.order_parameter, layers=problem.layers)))
        evidence.append(kernel_weights(problem).log_evidence)
    np.testing.assert_allclose(*scores, atol=0.02)
    assert abs(evidence[0] - evidence[1]) < 0.1
