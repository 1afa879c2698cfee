"""Hidden Markov chains of several classes: what is drawn, the best possible answers, and where the heads look."""

import itertools
import math

import jax
import numpy as np
import pytest

import statmech_attention as sma

# Short chains of small tokens; a token is seen without its position.
TASK = sma.tasks.HiddenMarkov(
    classes=3, length=6, token_size=6, slow=0.2, fast=0.6, parallel_noise=0.5, perpendicular_noise=2.0
)
EXAMPLES = 3000
# In every class the probabilities of steps 0, 1, 2.
STEPS = np.array([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]])


@pytest.fixture(scope="module")
def sample():
    return TASK.sample(jax.random.key(90), EXAMPLES)


@pytest.fixture(scope="module")
def classes(sample):
    return np.argmax(sample.labels, axis=1)


@pytest.mark.parametrize(("examples", "wanted"), [(1, (1, 0, 0)), (8, (3, 3, 2)), (9, (3, 3, 3))])
def test_as_many_of_each_class(examples, wanted):
    drawn = np.argmax(TASK.sample(jax.random.key(92), examples).labels, axis=1)
    np.testing.assert_array_equal(np.bincount(drawn, minlength=3), wanted)


def test_classes_are_shuffled(classes):
    counts = np.bincount(classes[: EXAMPLES // 2], minlength=3)
    assert np.all(np.abs(counts - EXAMPLES / 6) < 4 * math.sqrt(EXAMPLES / 6 * 2 / 3))


def test_steps_and_transitions_have_the_probabilities_of_the_class():
    np.testing.assert_allclose(TASK.steps, STEPS, atol=1e-15)
    for one, state, other in itertools.product(range(3), repeat=3):
        assert TASK.transitions[one, state, other] == pytest.approx(STEPS[one, (other - state) % 3])


@pytest.mark.parametrize("one", range(3))
def test_hidden_states_take_the_steps_of_their_class(sample, classes, one):
    hidden = np.asarray(sample.hidden)[classes == one]
    taken = (hidden[:, 1:] - hidden[:, :-1]) % 3
    for step, probability in enumerate(STEPS[one]):
        each = math.sqrt(probability * (1 - probability) / len(hidden))
        # At every time alike, and whatever the state is.
        np.testing.assert_allclose(np.mean(taken == step, axis=0), probability, atol=4.5 * each)
        for state in range(3):
            there = taken[hidden[:, :-1] == state]
            error = math.sqrt(probability * (1 - probability) / len(there))
            assert abs(np.mean(there == step) - probability) < 4.5 * error


def test_single_states_do_not_tell_the_class(sample, classes):
    for one, state in itertools.product(range(3), repeat=2):
        shares = np.mean(np.asarray(sample.hidden)[classes == one] == state, axis=0)
        np.testing.assert_allclose(shares, 1 / 3, atol=4.5 * math.sqrt(2 / 9 / (EXAMPLES / 3)))


def test_noise_has_its_own_strength_in_and_out_of_the_space_of_states(sample):
    noise = np.asarray(sample.inputs)[:, 1:, :6] - np.asarray(TASK.states)[np.asarray(sample.hidden)]
    flat = noise.reshape(-1, 6)
    covariance = flat.T @ flat / len(flat)
    space = np.kron(np.eye(3), np.full((2, 2), 0.5))
    wanted = 0.5**2 * space + 2.0**2 * (np.eye(6) - space)
    errors = np.sqrt((wanted**2 + np.outer(np.diag(wanted), np.diag(wanted))) / len(flat))
    assert np.all(np.abs(covariance - wanted) < 4.5 * errors)


# Heads.


def test_one_head_a_step_but_for_the_last():
    products = TASK.heads(jax.random.key(99))
    assert [product.shape for product in products] == [(3, 13, 13), (2, 13, 13)]
    np.testing.assert_array_equal(products[0][1], TASK.step_head(1))
    np.testing.assert_array_equal(products[1][0], TASK.uniform_head())


@pytest.mark.parametrize("step", range(3))
def test_a_step_head_looks_one_step_back_where_its_step_was_taken(step):
    task = sma.tasks.HiddenMarkov(classes=3, length=12, token_size=30, parallel_noise=0, perpendicular_noise=0)
    sample = task.sample(jax.random.key(100), 3)
    attention = sma.attention_from_products([np.asarray(task.step_head(step))[None]])
    # Logits: 20 one step back, 15 for the empty token, 10 for tokens that fit elsewhere, 5 or less for the rest.
    back, empty = 1 / (1 + math.exp(-5) + 11 * math.exp(-10)), 1 / (1 + 12 * math.exp(-5))
    taken = (np.asarray(sample.hidden)[:, 1:] - np.asarray(sample.hidden)[:, :-1]) % 3
    assert 0 < np.mean(taken == step) < 1
    for matrix, steps in zip(np.asarray(attention(sample.inputs)[0])[:, 0], taken, strict=True):
        assert matrix[0, 1] > empty  # nothing but the empty token is one step before the first
        for query, one in enumerate(steps, start=2):
            if one == step:
                assert matrix[query - 1, query] > back
            else:
                assert matrix[0, query] > empty
