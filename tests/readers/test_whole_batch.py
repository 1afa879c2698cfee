"""A batch goes in whole, with its mask of whole numbers; a stand-in has what a model of Hugging Face returns."""

from types import SimpleNamespace

import numpy as np
import pytest

import statmech_attention as sma

torch = pytest.importorskip("torch", reason="needs PyTorch, as `make read` installs it")

EXAMPLES, TOKENS, WIDTH, HEADS, DEPTH = 6, 5, 4, 2, 2
RNG = np.random.default_rng(30)
EMBEDDED = RNG.normal(size=(EXAMPLES, TOKENS, WIDTH))
MASK = (np.arange(TOKENS)[None] < np.array([5, 3, 4, 5, 2, 5])[:, None]).astype(int)
MATRICES = RNG.uniform(size=(DEPTH, EXAMPLES, HEADS, TOKENS, TOKENS)) * MASK[None, :, None, None]
MATRICES /= MATRICES.sum(axis=-1, keepdims=True)  # queries before keys


LABELS = np.resize([1.0, -1.0], EXAMPLES)


class Model(torch.nn.Module):
    config = SimpleNamespace()

    def forward(self, *, input_ids, attention_mask, **_):
        rows = input_ids[:, 0]
        attentions = tuple(torch.tensor(one)[rows] for one in MATRICES)
        return SimpleNamespace(attentions=attentions, hidden_states=(torch.tensor(EMBEDDED)[rows],) * (DEPTH + 1))


def batch(rows):
    return {"input_ids": np.asarray(rows)[:, None], "attention_mask": MASK[rows]}


def by_hand(readout, layers):
    """One example at a time, without its padding, one product per path."""
    found = []
    for example, count in enumerate(MASK.sum(axis=1)):
        own = MATRICES[:, example, :, :count, :count].swapaxes(-1, -2)
        paths = own.reshape(-1, count, count)
        if layers is not None:
            paths = [own[layers[0], h] @ own[layers[1], g] for h in range(HEADS) for g in range(HEADS)]
        found.append([EMBEDDED[example, :count].T @ one[:, readout] for one in paths])
    return np.array(found)


def problem_of(rows, layers=None, readout="first", **numbers):
    read = sma.attention_from_transformers(Model().eval(), layers=layers, test=False, **batch(rows))
    if layers is None:  # the heads of all layers side by side
        read = read._replace(attention=(np.concatenate(read.attention, axis=1),))
    return sma.Problem(sma.attentioned_inputs(read, readout=readout), LABELS[rows], **numbers)


@pytest.mark.parametrize(("readout", "column"), [("first", 0), ("last", -1)])
@pytest.mark.parametrize("layers", [None, [0, 1]])
def test_a_padded_batch_becomes_attentioned_inputs(readout, column, layers):
    every = np.arange(EXAMPLES)
    options = {"layers": layers, "readout": readout, "width": 5}
    problem = problem_of(every, **options)
    np.testing.assert_allclose(problem.attentioned.values, by_hand(column, layers), atol=1e-12)
    assert problem.layers == ((HEADS * DEPTH,) if layers is None else (HEADS, HEADS))
    parts = [problem_of(rows, **options) for rows in (every[:2], every[2:])]
    np.testing.assert_array_equal((parts[0] + parts[1]).attentioned.values, problem.attentioned.values)


def test_batches_that_are_read_in_turn_give_the_whole():
    every = np.arange(EXAMPLES)
    parts = sma.attention_from_transformers(Model().eval(), batch_size=4, test=False, **batch(every))
    found, whole = sma.attentioned_inputs(parts, readout="mean"), problem_of(every, [0, 1], readout="mean", width=5)
    np.testing.assert_array_equal(found.values, whole.attentioned.values)
    with pytest.raises(ValueError, match="inputs: wanted attention that was read alone"):
        sma.attentioned_inputs(parts, mask=MASK)
