"""The hidden Markov task: what is drawn, and where its heads look."""

import math

import jax
import numpy as np
import pytest

import statmech_attention as sma

# Short chains of small tokens, many of them; a token is seen without its position.
TASK = sma.tasks.HiddenMarkov(length=6, token_size=4, parallel_noise=0.5, perpendicular_noise=2.0)
EXAMPLES = 4000


@pytest.fixture(scope="module")
def sample():
    return TASK.sample(EXAMPLES, key=jax.random.key(90))


@pytest.fixture(scope="module")
def noise(sample):
    """The noise that was added to the feature vectors, (examples, length, token_size)."""
    tokens = np.asarray(sample.inputs)[:, 1:, :4]
    plus, minus = math.sqrt(2) * np.array([1, 1, 0, 0]), math.sqrt(2) * np.array([0, 0, 1, 1])
    return tokens - np.where(np.asarray(sample.hidden)[..., None] > 0, plus, minus)


def test_the_papers_task_has_31_tokens_of_231_features():
    task = sma.tasks.HiddenMarkov()
    sample = task.sample(3, key=jax.random.key(91))
    assert (task.tokens, task.features) == (31, 231)
    assert sample.inputs.shape == (3, 31, 231)
    assert (task.slow, task.fast, task.hardness) == (0.3, 0.7, 10.0)
    assert (task.parallel_noise, task.perpendicular_noise) == (1.0, 1.0)


@pytest.mark.parametrize(("examples", "slow"), [(1, 1), (7, 4)])
def test_half_of_each_class(examples, slow):
    labels = TASK.sample(examples, key=jax.random.key(92)).labels
    assert np.sum(labels == 1) == slow
    assert np.sum(labels == -1) == examples - slow


@pytest.mark.parametrize(("label", "rate"), [(1.0, 0.3), (-1.0, 0.7)])
def test_hidden_states_switch_at_the_rate_of_their_class(sample, label, rate):
    hidden = np.asarray(sample.hidden)[np.asarray(sample.labels) == label]
    switched = hidden[:, 1:] != hidden[:, :-1]
    assert abs(switched.mean() - rate) < 4 * math.sqrt(rate * (1 - rate) / switched.size)
    # At every step alike, and whatever the state is.
    each = math.sqrt(rate * (1 - rate) / len(hidden))
    np.testing.assert_allclose(switched.mean(axis=0), rate, atol=4 * each)
    from_plus = switched[hidden[:, :-1] > 0]
    assert abs(from_plus.mean() - rate) < 4 * math.sqrt(rate * (1 - rate) / from_plus.size)


def test_the_first_state_is_either_with_equal_chance(sample):
    first = np.asarray(sample.hidden)[:, 0]
    assert abs(first.mean()) < 4 / math.sqrt(EXAMPLES)
    assert abs((first * np.asarray(sample.labels)).mean()) < 4 / math.sqrt(EXAMPLES)


def test_noise_has_its_own_strength_in_and_out_of_the_plane(noise):
    flat = noise.reshape(-1, 4)
    covariance = flat.T @ flat / len(flat)
    plane = np.kron(np.eye(2), np.full((2, 2), 0.5))  # the projection on v_+ and v_-
    wanted = 0.5**2 * plane + 2.0**2 * (np.eye(4) - plane)
    errors = np.sqrt((wanted**2 + np.outer(np.diag(wanted), np.diag(wanted))) / len(flat))
    assert np.all(np.abs(covariance - wanted) < 4 * errors)
    assert np.all(np.abs(flat.mean(axis=0)) < 4 * np.sqrt(np.diag(wanted) / len(flat)))


def test_noise_is_independent_from_token_to_token(noise):
    here, before = noise[:, 1:].reshape(-1, 4), noise[:, :-1].reshape(-1, 4)
    assert np.all(np.abs(here.T @ before / len(here)) < 4 * 2.125 / math.sqrt(len(here)))


def test_positions_are_one_hot_and_the_first_token_is_empty_otherwise(sample):
    assert np.all(np.asarray(sample.inputs)[:, 0, :4] == 0)
    np.testing.assert_array_equal(sample.inputs[:, :, 4:], np.broadcast_to(np.eye(7), (EXAMPLES, 7, 7)))


# Heads, on the paper's own sizes but without noise.


@pytest.fixture(scope="module")
def clean():
    task = sma.tasks.HiddenMarkov(parallel_noise=0.0, perpendicular_noise=0.0)
    sample = task.sample(3, key=jax.random.key(96))
    products = task.heads(key=jax.random.key(97))
    return sample, products, sma.attention_from_products(products)(sample.inputs)


def test_the_neighbour_head_looks_one_step_back_where_the_state_is_the_same(clean):
    sample, _, attention = clean
    first = np.asarray(attention[0])[:, 0]
    # Logits: 20 one step back, 15 for the empty token, 10 for other tokens of the same state, 0 or less for the rest.
    back, empty = 1 / (1 + math.exp(-5) + 30 * math.exp(-10)), 1 / (1 + 30 * math.exp(-5))
    for matrix, hidden in zip(first, np.asarray(sample.hidden), strict=True):
        for query in range(2, 31):
            if hidden[query - 1] == hidden[query - 2]:
                assert matrix[query - 1, query] > back
            else:
                assert matrix[0, query] > empty
        assert matrix[0, 1] > empty  # nothing but the empty token is one step before the first
        np.testing.assert_allclose(matrix[:, 0], 1 / 31, rtol=1e-9)


def test_logits_of_the_neighbour_head_are_those_of_the_paper(clean):
    sample, products, _ = clean
    x, hidden = np.asarray(sample.inputs)[0], np.concatenate([[0.0], np.asarray(sample.hidden)[0]])
    logits = x @ np.asarray(products[0][0]) @ x.T
    wanted = np.outer(hidden, hidden)
    for query in range(1, 31):
        wanted[0, query] += 1.5
        if query > 1:
            wanted[query - 1, query] += 1.0
    np.testing.assert_allclose(logits, 10 * wanted, atol=1e-10)


def test_the_uniform_head_looks_everywhere_alike(clean):
    np.testing.assert_allclose(np.asarray(clean[2][1])[:, 0], 1 / 31, rtol=1e-9)


def test_random_heads_have_blocks_of_their_own_variance(clean):
    for product in clean[1]:
        product = np.asarray(product[1]) / 10
        tokens, positions = slice(0, 200), slice(200, 231)
        for rows, columns, variance in [
            (tokens, tokens, 1 / 200**2),
            (tokens, positions, 1 / 200),
            (positions, tokens, 1 / 200),
            (positions, positions, 1.0),
        ]:
            block = product[rows, columns]
            assert abs(np.mean(block**2) / variance - 1) < 4 * math.sqrt(2 / block.size)
            assert abs(np.mean(block)) < 4 * math.sqrt(variance / block.size)
    assert not np.any(np.asarray(clean[1][0][1]) == np.asarray(clean[1][1][1]))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("token_size", 0, "token_size, halved: wanted a whole number of at least 1, got 0.0"),
        ("token_size", 5, "token_size, halved: wanted a whole number of at least 1, got 2.5"),
        ("slow", 1.1, r"slow: wanted a number in \[0, 1\], got 1.1"),
        ("parallel_noise", -1.0, r"parallel_noise: wanted a number in \[0, inf\], got -1.0"),
        ("hardness", 0.0, "hardness: wanted a positive finite number, got 0.0"),
    ],
)
def test_numbers_out_of_range_are_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        sma.tasks.HiddenMarkov(**{field: value})


@pytest.mark.parametrize("readout", ["last", "mean"])
def test_a_trial_is_attentioned_as_by_whole_matrices(readout):
    key = jax.random.key(92)
    train, test, heads = jax.random.split(key, 3)
    trial, attention = TASK.trial(5, 4, key=key, readout=readout), sma.attention_from_products(TASK.heads(key=heads))
    for seed, found in ((train, trial.train), (test, trial.test)):
        inputs = TASK.sample(len(found.values), key=seed).inputs
        wanted = sma.attentioned_inputs(inputs, attention(inputs), readout=readout)
        np.testing.assert_allclose(found.values, wanted.values, rtol=1e-10, atol=1e-11)


def test_the_head_of_changed_states_adds_to_that_of_the_same_ones():
    task = sma.tasks.HiddenMarkov(length=3, token_size=4)
    same, other = (task.step_head(step) for step in (0, 1))
    np.testing.assert_allclose(same[:4, :4], -other[:4, :4])
    np.testing.assert_array_equal(same[4:, 4:], other[4:, 4:])
