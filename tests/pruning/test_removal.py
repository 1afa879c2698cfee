"""Costs of a removal, against networks that are run layer by layer with values at zero."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from attention_book.one_shot import (
    every_removal,
    head_drops,
    path_contributions,
    pruning_curve,
    taylor_importance,
)
from statmech_attention import pruning

from .networks import CHAIN, EXAMPLES, chain_network, contributions_of, network_of, right_answers, silenced


def test_without_its_only_head_a_layer_lets_nothing_through():
    drops = head_drops(np.array([[1.0], [1.0], [-1.0], [2.0]]), np.array([1.0, 1, 1, 1]), layers=(1, 1))
    np.testing.assert_allclose(drops.mean, [0.25, 0.25])


def test_curve_is_that_of_networks_that_are_run():
    heads, order = (2, 3), np.array([4, 0, 2])
    parameters, inputs, labels = network_of(heads)
    found = pruning_curve(contributions_of(parameters, inputs), labels, order, layers=heads)
    for removals in range(4):
        share = right_answers(parameters, inputs, labels, order[:removals]).mean()
        assert found.mean[removals] == pytest.approx(share, abs=1e-12)
        assert found.error[removals] == pytest.approx(np.sqrt(share * (1 - share) / (EXAMPLES - 1)), abs=1e-12)
    with pytest.raises(ValueError, match="order: wanted different heads"):
        pruning_curve(contributions_of(parameters, inputs), labels, [5], layers=heads)


def test_lowest_scores_go_first_and_the_last_head_of_a_layer_stays():
    # Layer 1 loses head 0, then keeps head 1, though it has the second lowest score.
    np.testing.assert_array_equal(pruning.removal_order([0.1, 0.2, 0.5, 1.0, 0.3], layers=(2, 3)), [0, 4, 2])
    assert pruning.removal_order([0.3, 0.1, 0.2], layers=(1, 2)).tolist() == [1]
    grouped = pruning.removal_order([0.1, 0.9, 0.2, 0.3, 0.8, 0.8, 0.0, 0.7], layers=(4, sma.SkipHeads(4)), groups=2)
    assert grouped.tolist() == [2, 3, 6, 7, 4, 5]  # sums 1.0 0.5 1.6 0.7, and a last group stays without a skip
    with pytest.raises(ValueError, match=r"groups: wanted a divisor of the heads of every layer, \(2, 3\), got 2"):
        pruning.removal_order([0.1] * 5, layers=(2, 3), groups=2)
    with pytest.raises(ValueError, match="wanted the same number in scores and the network's heads"):
        pruning.removal_order([0.1, 0.2], layers=(2, 3))


def test_drops_curve_and_taylor_importance_of_a_chain_with_a_skip():
    weights, inputs, matrices, labels = chain_network()
    contributions = path_contributions(weights, sma.attentioned_inputs(inputs, matrices, layers=CHAIN))

    def right(removed):
        outputs = np.asarray(silenced(weights, inputs, matrices, removed))
        return (outputs.argmax(axis=1) == np.asarray(labels).argmax(axis=1)).astype(float)

    drops = head_drops(contributions, labels, layers=CHAIN)
    for head in range(4):
        assert drops.mean[head] == pytest.approx((right([]) - right([head])).mean(), abs=1e-12)
    # The only layer that must keep a head is the first.
    assert pruning.removal_order([0.2, 0.1, 0.3, 0.4], layers=CHAIN).tolist() == [1, 2, 3]
    order = [2, 0, 3]
    curve = pruning_curve(contributions, labels, order, layers=CHAIN)
    assert curve.mean[-1] == pytest.approx(right(order).mean(), abs=1e-12)

    def errors(gates):
        values = [block * gate[:, None, None] for block, gate in zip(weights.values[:2], gates, strict=True)]
        gated = weights._replace(values=(*values, weights.values[2]))
        return jnp.sum((sma.forward(gated, inputs, matrices, layers=CHAIN) - labels) ** 2, axis=1)

    slope = jax.jacobian(errors)(jnp.ones((2, 2))).reshape(EXAMPLES, 4)
    found = taylor_importance(contributions, labels, layers=CHAIN)
    np.testing.assert_allclose(found, jnp.mean(jnp.abs(slope), axis=0), rtol=1e-9)
    signed = taylor_importance(contributions, labels, layers=CHAIN, signed=True)
    np.testing.assert_allclose(signed, -jnp.mean(slope, axis=0), rtol=1e-9, atol=1e-12)


def test_every_removal_tries_all_choices_that_leave_a_network():
    heads = (2, 3)
    parameters, inputs, labels = network_of(heads)
    found = every_removal(contributions_of(parameters, inputs), labels, layers=heads, count=2)
    assert found.removed.tolist() == [pair for pair in map(list, itertools.combinations(range(5), 2)) if pair != [0, 1]]
    wanted = [right_answers(parameters, inputs, labels, pair).mean() for pair in found.removed.tolist()]
    np.testing.assert_allclose(found.accuracy, wanted, atol=1e-12)
    with pytest.raises(ValueError, match="count: wanted so few heads"):
        every_removal(contributions_of(parameters, inputs), labels, layers=heads, count=4)
