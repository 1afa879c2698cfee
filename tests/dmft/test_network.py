"""The network at finite size: tokens against plain NumPy, its law, and the mean field as its limit (3.7)."""

import jax
import numpy as np
import pytest
import scipy.stats

from statmech_attention import dmft

from .conftest import assert_overlaps, model_of
from .reference import random_network

ALL = (*dmft.Overlaps._fields, "words")


def test_the_most_probable_tokens_agree_with_the_reference():
    network = random_network(31, features=2, sites=9, bits=3)
    model = model_of(network).at(beta=1e9)
    found = dmft.simulate(model, key=jax.random.key(0), steps=40, keep=ALL)
    wanted = network.run([network.words["o"][0]], 40, choose=lambda fields: np.where(fields >= 0, 1.0, -1.0))
    np.testing.assert_array_equal(found.words[0], wanted["word"][1:])
    one = dmft.Overlaps(*(part[0] for part in found.overlaps))
    assert_overlaps(one, wanted, 1, 1e-13)


def test_observables_are_those_of_the_tokens():
    """The tokens that were drawn, given to the reference, make the overlaps that were returned."""
    network = random_network(32)
    model = model_of(network)
    found = dmft.simulate(model, key=jax.random.key(1), steps=25, replicas=3, keep=ALL)
    assert found.words.dtype == np.int8 and found.words.shape == (3, 25, 12)
    for replica in range(3):
        drawn = [network.words["o"][0], *np.asarray(found.words[replica], dtype=float)]
        assert_overlaps(dmft.Overlaps(*(part[replica] for part in found.overlaps)), network.run(drawn, 0), 1, 1e-13)
    assert not np.array_equal(found.words[0], found.words[1])


@pytest.fixture(scope="module")
def first_tokens():
    """The first token after a start, drawn 40 000 times, and what the mean field says of it."""
    network = random_network(33, sites=10)
    model = model_of(network)
    found = dmft.simulate(model, key=jax.random.key(2), steps=1, replicas=40_000, keep=ALL)
    attention = network.run([network.words["o"][0]], 0)["A"][0]
    means = np.tanh(network.beta * network.fields(attention))
    return network, found, means


def test_bits_have_their_means_and_are_independent(first_tokens):
    _, found, means = first_tokens
    bits = np.asarray(found.words[:, 0], dtype=float)
    count = len(bits)
    assert np.all(np.abs(bits.mean(0) - means) < 4.5 * np.sqrt((1 - means**2) / count))
    spread = np.sqrt(1 - means**2)
    products = (bits - means).T @ (bits - means) / count
    off = ~np.eye(len(means), dtype=bool)
    assert np.all(np.abs(products[off]) < 4.5 * np.outer(spread, spread)[off] / np.sqrt(count))


def test_overlaps_scatter_as_predicted(first_tokens):
    """Cov(m^a, m^b) = (1 - eps)^2 / N <W^a W^b (1 - tanh^2)> for all pairs of overlaps."""
    network, found, means = first_tokens
    tables = np.concatenate([network.words[name] for name in "qkvo"])
    wanted = (1 - network.epsilon) ** 2 / len(means) ** 2 * (tables * (1 - means**2)) @ tables.T
    overlaps = np.concatenate([np.asarray(part[:, 0]) for part in found.overlaps[:4]], axis=1)
    centred = overlaps - overlaps.mean(0)
    products = centred[:, :, None] * centred[:, None]
    error = products.std(0) / np.sqrt(len(overlaps))
    assert np.all(np.abs(products.mean(0) - wanted) < 4.5 * error + 1e-15)


def test_bits_of_equal_sites_are_counted(published):
    """Three segments of 33 sites: the number of +1 in each is binomial, whether words are drawn or counts."""
    model = dmft.dynamics(published, beta=0.9, gamma=5.0, epsilon=0.02)
    columns = [0, 33, 66]
    tables = np.asarray(published.output.words)[:, columns]
    attention = np.asarray(dmft.initial_window(model).attention[0])
    up = (1 + np.tanh(model.beta * tables.T @ attention)) / 2
    found = dmft.simulate(
        model, key=jax.random.key(6), steps=1, replicas=20_000, keep="output_words"
    ).overlaps.output_words[:, 0]
    counts = 33 * (np.linalg.solve(tables / 3, np.asarray(found).T) + 1) / 2
    np.testing.assert_allclose(counts, counts.round(), rtol=0, atol=1e-9)
    for segment, probability in zip(counts.round().astype(int), up, strict=True):
        expected = 20_000 * scipy.stats.binom.pmf(np.arange(34), 33, probability)
        seen = np.bincount(segment, minlength=34)
        likely = expected > 5
        seen, expected = (np.append(part[likely], part[~likely].sum()) for part in (seen, expected))
        assert scipy.stats.chi2.sf(np.sum((seen - expected) ** 2 / expected), likely.sum()) > 1e-5
    assert np.all(np.abs(np.corrcoef(counts)[np.triu_indices(3, 1)]) < 4.5 / np.sqrt(20_000))


def test_mean_field_is_the_limit_and_the_approach_goes_as_the_root_of_the_sites(published):
    """Away from chaos, at moderate sharpness, the distance falls as the inverse root of the sites."""
    model = dmft.dynamics(published, beta=1.3, gamma=2.0, epsilon=0.02)
    limit = dmft.trajectory(model, dmft.initial_window(model), steps=8)
    squares = {}
    for times in (4, 64):
        larger = dmft.dynamics(dmft.published_patterns(seed=1, sites=99 * times), beta=1.3, gamma=2.0, epsilon=0.02)
        found = dmft.simulate(
            larger, key=jax.random.key(times), steps=8, replicas=400, keep="attention"
        ).overlaps.attention
        off = np.asarray(found - limit.attention[None]).reshape(400, -1)
        squares[times] = np.sum(off**2, axis=1)
        # The mean itself is off by O(1/N) only.
        assert np.all(np.abs(off.mean(0)) < 4.5 * off.std(0) / 20 + 3 / larger.patterns.sites)
    ratio = squares[4].mean() / squares[64].mean()
    relative = np.sqrt(sum(part.var() / len(part) / part.mean() ** 2 for part in squares.values()))
    # 16 to leading order; the next order is of the relative size 1/N of the smaller network.
    assert abs(ratio / 16 - 1) < 4.5 * relative + 10 / 396


def test_simulations_go_on_where_they_stopped():
    model = model_of(random_network(35)).at(beta=1e9)  # one course only
    whole = dmft.simulate(model, key=jax.random.key(3), steps=12, replicas=2)
    first = dmft.simulate(model, key=jax.random.key(3), steps=5, replicas=2)
    rest = dmft.simulate(model, key=jax.random.key(4), steps=7, replicas=2, window=first.window)
    np.testing.assert_allclose(rest.overlaps.attention, whole.overlaps.attention[:, 5:], rtol=0, atol=1e-13)
