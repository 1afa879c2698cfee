"""Pruning: scores by brute force, smaller networks against the layer-by-layer network with the heads' values at zero."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import statmech_attention as sma
from statmech_attention import pruning
from statmech_attention.training import load_network, save_network, trained_network
from statmech_attention.training.path_form import initial

CASES = [((2, 3), [3]), ((2, 3), [0, 2, 4]), ((3, 1, 2), [1, 5]), ((3,), [0, 1]), ((2, 2), [])]
EXAMPLES, TOKENS, FEATURES, WIDTH = 40, 5, 12, 8


def network_of(heads):
    """A network with attention far from uniform, as `Weights` and as what is stored of it, and inputs and labels."""
    keys = jax.random.split(jax.random.key(sum(heads)), 3)
    parameters = jax.tree.map(lambda array: 3.0 * array, initial(keys[0], heads, WIDTH, 4, FEATURES))
    parameters = jax.tree.map(lambda array: array.astype(jnp.float64), parameters)
    inputs = jax.random.normal(keys[1], (EXAMPLES, TOKENS, FEATURES))
    labels = jnp.where(jax.random.bernoulli(keys[2], 0.5, (EXAMPLES,)), 1.0, -1.0)
    return parameters, inputs, labels


def forward_with_heads_silenced(parameters, inputs, removed):
    """Layer by layer: the heads' values at zero, and every layer's 1/sqrt(H) turned into that of the heads left."""
    values, factor, number = [], 1.0, 0
    for layer in parameters.weights().values:
        layer = np.array(layer)
        count, left = len(layer), len(layer)
        for head in range(count):
            if number in removed:
                layer[head] = 0
                left -= 1
            number += 1
        factor *= np.sqrt(count / left)
        values.append(jnp.asarray(layer))
    weights = parameters.weights()._replace(values=tuple(values))
    attention = sma.attention_from_queries_and_keys(parameters.queries, parameters.keys)
    return factor * sma.forward(weights, inputs, attention, "mean")


def right_answers(parameters, inputs, labels, removed):
    outputs = np.asarray(forward_with_heads_silenced(parameters, inputs, removed))
    return (np.sign(outputs) == np.asarray(labels)).astype(float)


def contributions_of(parameters, inputs):
    attention = sma.attention_from_queries_and_keys(parameters.queries, parameters.keys)
    attentioned = sma.attentioned_inputs(inputs, attention, "mean")
    return pruning.path_contributions(parameters.weights(), attentioned)


@pytest.mark.parametrize("heads", [(2, 3), (3, 1, 2), (4,)])
@pytest.mark.parametrize("kind", ["both", "either"])
def test_scores_are_sums_over_ordered_pairs_of_paths(heads, kind):
    paths = list(itertools.product(*map(range, heads)))
    factor = np.random.default_rng(0).normal(size=(len(paths), len(paths)))
    matrix = factor @ factor.T
    wanted = []
    for layer, count in enumerate(heads):
        for head in range(count):
            total = 0.0
            for (row, one), (column, other) in itertools.product(enumerate(paths), enumerate(paths)):
                through = (one[layer] == head, other[layer] == head)
                if all(through) or (kind == "either" and any(through)):
                    total += abs(matrix[row, column])
            wanted.append(total)
    np.testing.assert_allclose(sma.head_scores(matrix, heads, kind), np.array(wanted) / max(wanted), rtol=1e-12)


def test_scores_by_hand():
    matrix = np.array([[4.0, -1.0], [-1.0, 2.0]])
    np.testing.assert_allclose(sma.head_scores(matrix, (2,)), [1, 1 / 2])
    np.testing.assert_allclose(sma.head_scores(matrix, (2,), "either"), [1, 4 / 6])
    # In the Gaussian-process limit no head is told from another, by either definition.
    for kind in ("both", "either"):
        np.testing.assert_allclose(sma.head_scores(np.eye(8), (2, 4), kind), [1] * 2 + [1 / 2] * 4)


def test_scores_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match="kind: wanted one of both, either, got 'all'"):
        sma.head_scores(np.eye(4), (2, 2), "all")
    with pytest.raises(ValueError, match=r"order_parameter: wanted shape \(4, 4\) for heads \(2, 2\)"):
        sma.head_scores(np.eye(3), (2, 2))
    with pytest.raises(ValueError, match="wanted an entry other than zero"):
        sma.head_scores(np.zeros((4, 4)), (2, 2))
    with pytest.raises(ValueError, match="NaN or infinity"):
        sma.head_scores(np.full((4, 4), np.nan), (2, 2))


def test_heads_are_numbered_layer_by_layer():
    np.testing.assert_array_equal(sma.head_indices((2, 3)), [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]])


@pytest.mark.parametrize("heads, removed", CASES)
def test_smaller_network_equals_the_masked_one(heads, removed):
    parameters, inputs, _ = network_of(heads)
    weights = parameters.weights()
    wanted = forward_with_heads_silenced(parameters, inputs, removed)
    left = np.bincount(np.delete(sma.head_indices(heads)[:, 0], removed), minlength=len(heads))

    def check(found):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)

    smaller = sma.prune(weights, removed)
    assert [len(layer) for layer in smaller.values] == left.tolist()
    attention = sma.attention_from_queries_and_keys(parameters.queries, parameters.keys)
    check(sma.forward(smaller, inputs, sma.prune(attention, removed), "mean"))
    matrices = attention(inputs)
    check(sma.forward(smaller, inputs, sma.prune(matrices, removed), "mean"))
    check(sma.forward(smaller, inputs, sma.prune(list(matrices), removed), "mean"))
    products = tuple(
        jnp.einsum("hgi,hgj->hij", keys, queries) / np.sqrt(queries.shape[1])
        for keys, queries in zip(parameters.keys, parameters.queries, strict=True)
    )
    check(sma.forward(smaller, inputs, sma.prune(sma.attention_from_products(products), removed), "mean"))

    attentioned = sma.attentioned_inputs(inputs, attention, "mean")
    check(sma.forward_paths(smaller, sma.prune(attentioned, removed)))
    kept = np.ones((1, sum(heads)), bool)
    kept[0, removed] = False
    check(pruning.masked_outputs(pruning.path_contributions(weights, attentioned), heads, kept)[0])


@pytest.mark.parametrize("heads, removed", CASES)
def test_smaller_trained_network_equals_the_masked_one_and_can_be_stored(heads, removed, tmp_path):
    parameters, inputs, _ = network_of(heads)
    network = trained_network(parameters)
    wanted = forward_with_heads_silenced(parameters, inputs, removed)
    smaller = load_network(save_network(sma.prune(network, removed), tmp_path / "smaller.nc", parameters={}))
    assert smaller.vectors.nbytes <= network.vectors.nbytes and sum(smaller.heads) == sum(heads) - len(removed)
    attentioned = sma.attentioned_inputs(inputs, smaller.attention, "mean")
    np.testing.assert_allclose(smaller.outputs(attentioned), wanted, rtol=1e-10, atol=1e-12)
    # What else is stored is that of the weights left.
    left = sma.prune(parameters.weights(), removed)
    for found, overlap in zip(smaller.order_parameters, sma.weights_order_parameters(left), strict=True):
        np.testing.assert_allclose(found, overlap, rtol=1e-10, atol=1e-12)
    for norms, values in zip(smaller.value_norms, left.values, strict=True):
        np.testing.assert_allclose(norms, np.linalg.norm(values, axis=(1, 2)))
    contributions = pruning.path_contributions(smaller, attentioned)
    np.testing.assert_allclose(contributions.sum(axis=1), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("removed", [[5], [-1], [0, 0], [1.0], 1, [[1]]])
def test_heads_that_are_not_there_are_refused(removed):
    weights = network_of((2, 3))[0].weights()
    with pytest.raises(ValueError, match=r"removed: wanted different heads out of 0..4"):
        sma.prune(weights, removed)


def test_a_layer_is_never_left_without_heads():
    parameters = network_of((2, 3))[0]
    for network in (parameters.weights(), trained_network(parameters)):
        with pytest.raises(ValueError, match="at least one head left in every layer, got none in layer 1"):
            sma.prune(network, [0, 1, 3])
    with pytest.raises(ValueError, match="network: wanted a TrainedNetwork, Weights, attention, .*got dict"):
        sma.prune({}, [0])


def test_contributions_refuse_another_networks_inputs():
    parameters, inputs, _ = network_of((2, 3))
    attention = sma.attention_from_queries_and_keys(parameters.queries, parameters.keys)
    attentioned = sma.attentioned_inputs(inputs, attention, "mean")
    for network in (parameters.weights(), trained_network(parameters)):
        with pytest.raises(ValueError, match="attentioned: wanted heads"):
            pruning.path_contributions(network, sma.prune(attentioned, [0]))
    with pytest.raises(ValueError, match="wanted a TrainedNetwork or Weights, got int"):
        pruning.path_contributions(3, attentioned)


def test_drops_are_those_of_networks_that_are_run():
    heads = (2, 3)
    parameters, inputs, labels = network_of(heads)
    whole = right_answers(parameters, inputs, labels, [])
    drops = pruning.head_drops(contributions_of(parameters, inputs), labels, heads)
    for head in range(sum(heads)):
        change = whole - right_answers(parameters, inputs, labels, [head])
        assert drops.value[head] == pytest.approx(change.mean(), abs=1e-12)
        assert drops.error[head] == pytest.approx(change.std(ddof=1) / np.sqrt(EXAMPLES), abs=1e-12)


def test_without_its_only_head_a_layer_lets_nothing_through():
    drops = pruning.head_drops(np.array([[1.0], [1.0], [-1.0], [2.0]]), np.array([1.0, 1, 1, 1]), (1, 1))
    np.testing.assert_allclose(drops.value, [0.25, 0.25])


def test_curve_is_that_of_networks_that_are_run():
    heads, order = (2, 3), np.array([4, 0, 2])
    parameters, inputs, labels = network_of(heads)
    found = pruning.pruning_curve(contributions_of(parameters, inputs), labels, heads, order)
    for removals in range(4):
        share = right_answers(parameters, inputs, labels, order[:removals]).mean()
        assert found.value[removals] == pytest.approx(share, abs=1e-12)
        assert found.error[removals] == pytest.approx(np.sqrt(share * (1 - share) / (EXAMPLES - 1)), abs=1e-12)
    with pytest.raises(ValueError, match="order: wanted different heads"):
        pruning.pruning_curve(contributions_of(parameters, inputs), labels, heads, [5])


def test_lowest_scores_go_first_and_the_last_head_of_a_layer_stays():
    # Layer 1 loses head 0, then keeps head 1, though it has the second lowest score.
    np.testing.assert_array_equal(pruning.removal_order([0.1, 0.2, 0.5, 1.0, 0.3], (2, 3)), [0, 4, 2])
    assert pruning.removal_order([0.3, 0.1, 0.2], (1, 2)).tolist() == [1]
    with pytest.raises(ValueError, match="wanted the same number in scores and the network's heads"):
        pruning.removal_order([0.1, 0.2], (2, 3))


def test_greedy_order_takes_the_best_step_each_time():
    heads = (3, 2)
    parameters, inputs, labels = network_of(heads)
    layer, removed = sma.head_indices(heads)[:, 0], []
    for _ in range(3):
        shares = {}
        for head in set(range(5)) - set(removed):
            trial = [*removed, head]
            if len(set(layer[[number for number in range(5) if number not in trial]])) == 2:
                shares[head] = right_answers(parameters, inputs, labels, trial).mean()
        best = max(shares.values())
        removed.append(min(head for head, share in shares.items() if share == best))
    found = pruning.greedy_order(contributions_of(parameters, inputs), labels, heads)
    np.testing.assert_array_equal(found, removed)


@pytest.mark.parametrize("heads", [(2, 3), (3, 1, 2)])
def test_taylor_importance_is_the_gradient_of_a_gate_in_the_network_layer_by_layer(heads):
    parameters, inputs, labels = network_of(heads)
    attention = sma.attention_from_queries_and_keys(parameters.queries, parameters.keys)
    weights = parameters.weights()

    def errors(gates):
        values, start = [], 0
        for layer in weights.values:
            gate = gates[start : start + len(layer)]
            values.append(layer * gate[:, None, None])
            start += len(layer)
        return (sma.forward(weights._replace(values=tuple(values)), inputs, attention, "mean") - labels) ** 2

    slope = jax.jacobian(errors)(jnp.ones(sum(heads)))
    contributions = contributions_of(parameters, inputs)
    found = pruning.taylor_importance(contributions, labels, heads)
    np.testing.assert_allclose(found, jnp.mean(jnp.abs(slope), axis=0), rtol=1e-9)
    signed = pruning.taylor_importance(contributions, labels, heads, signed=True)
    np.testing.assert_allclose(signed, -jnp.mean(slope, axis=0), rtol=1e-9, atol=1e-12)


def test_weight_norms_are_those_of_the_trained_parameters():
    parameters = network_of((2, 3))[0]
    network = trained_network(parameters)
    sides = zip(parameters.values, parameters.queries, parameters.keys, strict=True)
    every, alone = [], []
    for layer in sides:
        for arrays in zip(*layer, strict=True):
            every.append(np.sqrt(sum(np.sum(np.asarray(array) ** 2) for array in arrays)))
            alone.append(np.linalg.norm(arrays[0]))
    np.testing.assert_allclose(pruning.head_weight_norms(network), every, rtol=1e-6)
    np.testing.assert_allclose(pruning.head_weight_norms(network, values_only=True), alone, rtol=1e-6)


def test_rank_correlation_is_spearmans_with_scipys_interval():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=60)
    drops = np.round(scores + rng.normal(size=60), 1)
    found = pruning.rank_correlation(scores, drops, resamples=4000)
    assert found.value == pytest.approx(scipy.stats.spearmanr(scores, drops).statistic, abs=1e-12)

    def statistic(one, other, axis=-1):
        ranks = scipy.stats.rankdata(one, axis=axis), scipy.stats.rankdata(other, axis=axis)
        return np.array([np.corrcoef(*pair)[0, 1] for pair in zip(*map(np.atleast_2d, ranks), strict=True)]).squeeze()

    wanted = scipy.stats.bootstrap(
        (scores, drops), statistic, paired=True, vectorized=True, method="percentile", n_resamples=4000, rng=rng
    )
    # The ends are quantiles of 4000 draws: four standard errors of each, with the density of a normal distribution.
    tolerance = 4 * np.sqrt(2) * wanted.standard_error * np.sqrt(0.025 * 0.975 / 4000) / scipy.stats.norm.pdf(1.96)
    np.testing.assert_allclose(
        [found.low, found.high], [wanted.confidence_interval.low, wanted.confidence_interval.high], atol=tolerance
    )


def test_rank_correlation_of_several_networks_is_the_mean():
    rng = np.random.default_rng(2)
    scores, drops = rng.normal(size=(2, 3, 8))
    found = pruning.rank_correlation(scores, drops)
    each = [scipy.stats.spearmanr(*pair).statistic for pair in zip(scores, drops, strict=True)]
    assert found.value == pytest.approx(np.mean(each), abs=1e-12)
    assert -1 <= found.low <= found.high <= 1
    assert pruning.rank_correlation(scores, scores**3) == (pytest.approx(1), pytest.approx(1), pytest.approx(1))
    assert np.isnan(pruning.rank_correlation([1.0, 1.0], [0.1, 0.2]).value)
    with pytest.raises(ValueError, match="wanted equal shapes"):
        pruning.rank_correlation(scores, drops[0])
    with pytest.raises(ValueError, match="NaN or infinity"):
        pruning.rank_correlation([1.0, np.nan], [0.1, 0.2])
    with pytest.raises(ValueError, match="resamples and level"):
        pruning.rank_correlation([1.0, 2.0], [0.1, 0.2], level=1.5)


def test_labels_and_shapes_are_checked():
    contributions = np.ones((4, 6))
    with pytest.raises(ValueError, match="contributions: wanted the same number in the paths axis"):
        pruning.head_drops(contributions, np.ones(4), (2, 2))
    with pytest.raises(ValueError, match=r"labels: wanted \+1 or -1"):
        pruning.head_drops(contributions, np.arange(4.0), (2, 3))
    with pytest.raises(ValueError, match=r"kept: wanted booleans of shape \(networks, 5\)"):
        pruning.masked_outputs(contributions, (2, 3), np.ones((1, 5)))


def test_path_covariance_is_the_trace_of_centred_path_path_kernels():
    parameters, inputs, _ = network_of((2, 2))
    attention = sma.attention_from_queries_and_keys(parameters.queries, parameters.keys)
    attentioned = sma.attentioned_inputs(inputs, attention, "mean")
    centring = np.eye(EXAMPLES) - np.full((EXAMPLES, EXAMPLES), 1 / EXAMPLES)
    found = pruning.path_covariance(attentioned)
    for one, other in [(0, 0), (1, 2), (3, 0)]:
        kernel = np.asarray(sma.path_kernel(attentioned, attentioned, one, other))
        assert found[one, other] == pytest.approx(np.trace(centring @ kernel @ centring) / EXAMPLES, rel=1e-10)
    with pytest.raises(ValueError, match="at least two examples"):
        pruning.path_covariance(sma.attentioned_inputs(inputs[:1], attention, "mean"))


CHAIN = (2, sma.SkipHeads(2), sma.Linear(), sma.Outputs(3))


def chain_network():
    """A network with a skip, a linear block and three outputs, its attention, inputs and labels of classes."""
    keys = jax.random.split(jax.random.key(9), 4)
    weights = sma.sample_weights(keys[0], heads=CHAIN, width=WIDTH, features=FEATURES)
    inputs = jax.random.normal(keys[1], (EXAMPLES, TOKENS, FEATURES))
    matrices = [jax.random.normal(key, (EXAMPLES, 2, TOKENS, TOKENS)) for key in jax.random.split(keys[2])]
    labels = jnp.eye(3)[jax.random.randint(keys[3], (EXAMPLES,), 0, 3)]
    return weights, inputs, matrices, labels


def silenced(weights, inputs, matrices, removed):
    """Layer by layer: values at zero, and the values of the heads left of a layer times sqrt(H / H')."""
    values = []
    for place, block in enumerate(weights.values):
        heads = [head for head in range(2) if place == 2 or 2 * place + head not in removed]
        factor = np.sqrt(2 / max(len(heads), 1)) if place < 2 else 1.0
        mask = jnp.asarray([float(head in heads) for head in range(len(block))])
        values.append(factor * mask[:, None, None] * block)
    return sma.forward(weights._replace(values=tuple(values)), inputs, matrices, heads=CHAIN)


@pytest.mark.parametrize("removed", [[0], [3], [2, 3], [1, 2, 3], []])
def test_smaller_chains_equal_the_masked_ones(removed):
    weights, inputs, matrices, _ = chain_network()
    wanted = silenced(weights, inputs, matrices, removed)
    smaller, left = sma.prune(weights, removed, CHAIN), pruning.heads_left(CHAIN, removed)
    assert left[2:] == CHAIN[2:] and left[1] == sma.SkipHeads(2 - len({2, 3} & set(removed)))
    fewer = sma.prune(matrices, removed, CHAIN)
    np.testing.assert_allclose(sma.forward(smaller, inputs, fewer, heads=left), wanted, rtol=1e-9, atol=1e-10)
    attentioned = sma.attentioned_inputs(inputs, matrices, heads=CHAIN)
    pruned = sma.prune(attentioned, removed)
    assert pruned.heads == left
    np.testing.assert_allclose(sma.forward_paths(smaller, pruned), wanted, rtol=1e-9, atol=1e-10)
    kept = ~np.isin(np.arange(4), removed)[None]
    contributions = pruning.path_contributions(weights, attentioned)
    assert contributions.shape == (EXAMPLES, 6, 3)
    np.testing.assert_allclose(pruning.masked_outputs(contributions, CHAIN, kept)[0], wanted, rtol=1e-9, atol=1e-10)


def test_drops_orders_and_taylor_importance_of_a_chain_with_a_skip():
    weights, inputs, matrices, labels = chain_network()
    contributions = pruning.path_contributions(weights, sma.attentioned_inputs(inputs, matrices, heads=CHAIN))

    def right(removed):
        outputs = np.asarray(silenced(weights, inputs, matrices, removed))
        return (outputs.argmax(axis=1) == np.asarray(labels).argmax(axis=1)).astype(float)

    drops = pruning.head_drops(contributions, labels, CHAIN)
    for head in range(4):
        assert drops.value[head] == pytest.approx((right([]) - right([head])).mean(), abs=1e-12)
    # The only layer that must keep a head is the first.
    assert pruning.removal_order([0.2, 0.1, 0.3, 0.4], CHAIN).tolist() == [1, 2, 3]
    order = pruning.greedy_order(contributions, labels, CHAIN)
    assert len(order) == 3 and {2, 3} < set(order.tolist())
    curve = pruning.pruning_curve(contributions, labels, CHAIN, order)
    assert curve.value[-1] == pytest.approx(right(order).mean(), abs=1e-12)

    def errors(gates):
        values = [block * gate[:, None, None] for block, gate in zip(weights.values[:2], gates, strict=True)]
        gated = weights._replace(values=(*values, weights.values[2]))
        return jnp.sum((sma.forward(gated, inputs, matrices, heads=CHAIN) - labels) ** 2, axis=1)

    slope = jax.jacobian(errors)(jnp.ones((2, 2))).reshape(EXAMPLES, 4)
    found = pruning.taylor_importance(contributions, labels, CHAIN)
    np.testing.assert_allclose(found, jnp.mean(jnp.abs(slope), axis=0), rtol=1e-9)


def test_beside_a_skip_an_entry_counts_by_its_weight_in_the_kernel():
    """One skip, two heads, coefficients 1 and 1/sqrt 2: the skip's own entry belongs to no head."""
    matrix = np.array([[9.0, 1.0, -2.0], [1.0, 4.0, 0.5], [-2.0, 0.5, 3.0]])
    np.testing.assert_allclose(sma.head_scores(matrix, (sma.SkipHeads(2),)), [1, 3 / 4])
    either = np.array([4 + 2 * 0.5 + 2 * 2**0.5, 3 + 2 * 0.5 + 4 * 2**0.5])
    np.testing.assert_allclose(sma.head_scores(matrix, (sma.SkipHeads(2),), "either"), either / either.max())
    assert sma.head_indices((sma.SkipHeads(1), sma.Linear(), 2)).tolist() == [[0, 0], [2, 0], [2, 1]]
    # Of a path (path, output) is an entry each.
    doubled = sma.head_scores(np.kron(matrix, np.ones((2, 2))), (sma.SkipHeads(2), sma.Outputs(2)))
    np.testing.assert_allclose(doubled, [1, 3 / 4])
    with pytest.raises(ValueError, match="heads: wanted a layer with heads to score, got none"):
        sma.head_scores(np.eye(1), (sma.Linear(),))


def test_removals_that_do_not_fit_the_chain_are_refused():
    weights, _, matrices, _ = chain_network()
    with pytest.raises(ValueError, match="at least one head left in every layer, got none in layer 1"):
        sma.prune(weights, [0, 1], CHAIN)
    with pytest.raises(ValueError, match=r"network: wanted attention of \[2, 2\] heads .* got \[2\]"):
        sma.prune(matrices[:1], [0], CHAIN)
