"""Properties of every chain of layers, on random ones: outputs, saddle point, smaller networks."""

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chains import ALWAYS, EXAMPLES, FEATURES, TEMPERATURE, on_chains
from layers import brute_force

import statmech_attention as sma
from attention_book.one_shot import masked_outputs, path_contributions
from statmech_attention import pruning
from statmech_attention.layers.chains import order_parameters_on
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.levels import paths as coordinates
from statmech_attention.theory.levels.paths import least_entropy, point_of
from statmech_attention.theory.prepared import feature_energy


def close(found, wanted, tolerance=1e-10):
    """Every array within a tolerance of the largest entry."""
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * np.max(np.abs(other), initial=1e-3))


def architecture_of(chain):
    return Architecture.of(chain.heads, chain.widths, chain.variances)


def random_point(chain):
    """The shapes of a chain's factors, and a point of its good coordinates."""
    factors = coordinates.full_rank(architecture_of(chain))
    return factors, jnp.asarray(0.4 * np.random.default_rng(chain.seed).normal(size=factors.coordinates))


@on_chains(2)
def test_layers_paths_and_loops_give_the_same_network(chain):
    plain, weights, inputs, matrices = chain.network()

    @jax.jit
    def computed(weights, inputs, matrices):
        outputs = {}
        for readout in ("last", "mean"):
            options = {"readout": readout, "layers": chain.heads}
            xi = sma.attentioned_inputs(inputs, matrices, **options)
            outputs[readout] = sma.forward(weights, inputs, matrices, **options), sma.model.forward_paths(weights, xi)
        rows = sma.model.effective_weights(weights, layers=chain.heads)
        return outputs, rows, sma.model.weights_order_parameters(weights, layers=chain.heads)

    outputs, rows, overlaps = computed(weights, inputs, matrices)
    for layer_by_layer, along_paths in outputs.values():
        close(along_paths, layer_by_layer)
    close(np.asarray(outputs["last"][0]), brute_force.forward(*plain, inputs, matrices, chain.layers))
    close(rows, jnp.asarray(brute_force.partial_weights(*plain[1:], chain.layers, 0)))
    close(overlaps, brute_force.order_parameters(*plain[1:], chain.layers))


@on_chains(2)
def test_coordinates_and_order_parameters_are_each_others_inverse(chain):
    factors, point = random_point(chain)
    overlaps = coordinates.order_parameters(point, factors)
    np.testing.assert_allclose(point_of(overlaps, factors), point, atol=1e-9)
    gp = sma.theory.gp_order_parameters(layers=chain.heads, variance=chain.variances)
    np.testing.assert_allclose(point_of(gp, factors), 0.0, atol=1e-12)


@on_chains(1)
def test_action_and_its_derivatives_agree_with_loops_and_automatic_differentiation(chain):
    (xi, labels, _), (factors, point) = chain.problem(), random_point(chain)
    overlaps = [np.asarray(one) for one in coordinates.order_parameters(point, factors)]
    inputs = np.asarray(xi.values)
    by_loops = brute_force.action(
        overlaps, inputs, labels, chain.layers, chain.outputs, chain.widths, chain.variances, TEMPERATURE
    )
    whole = sma.Problem(xi, labels, **chain.physics)
    assert float(sma.theory.action(whole, overlaps)) == pytest.approx(by_loops, rel=1e-10)

    landscape = Action.of(feature_energy(whole, whole), whole.architecture, factors)
    direction = jnp.asarray(np.random.default_rng(1).normal(size=point.shape))

    @jax.jit
    def both(point):
        def action(point):
            return sma.theory.action(whole, coordinates.order_parameters(point, factors))

        value, gradient, dense = landscape.dense(point)
        wanted, bent = jax.jvp(jax.grad(action), (point,), (direction,))
        known = value + least_entropy(whole.architecture), gradient, dense.hessian @ direction
        return known, landscape.product(point)(direction), (action(point), wanted, bent)

    dense, product, automatic = both(point)
    close(dense, automatic, 1e-9)
    close(product, automatic[2], 1e-9)


@on_chains(1)
def test_the_saddle_point_is_the_lowest_point_and_has_the_symmetries_of_the_action(chain):
    xi, labels, test = chain.problem()
    problem = sma.Problem(xi, labels, **chain.physics)
    one = sma.solve(problem)
    mean, variance = one.predict(test)

    # No Gaussian-process limit and no other point is lower; of the entropy that limit is the lowest.
    gp = sma.theory.gp_order_parameters(layers=chain.heads, variance=chain.variances)
    options = {"layers": chain.heads, "width": chain.widths, "variance": chain.variances}
    factors, point = random_point(chain)
    elsewhere = [coordinates.order_parameters(scale * point, factors) for scale in (0.3, 1.0, -1.0)]

    @jax.jit
    def action_and_entropy(overlaps):
        return sma.theory.action(problem, overlaps), sma.theory.entropy(overlaps, **options)

    limit, there, *others = map(action_and_entropy, (gp, one.order_parameters, *elsewhere))
    for action, _ in (limit, *others):
        assert float(one.action) <= float(action) + 1e-9
    for _, entropy in (there, *others):
        assert float(limit[1]) < float(entropy)

    rng = np.random.default_rng(chain.seed)
    rotation, _ = np.linalg.qr(rng.normal(size=(FEATURES, FEATURES)))
    order = rng.permutation(EXAMPLES)
    for values, others, asked, sign in (
        (xi.values, -labels, test.values, -1),
        (xi.values[order], labels[order], test.values, 1),
        (xi.values @ rotation, labels, test.values @ rotation, 1),
    ):
        found = sma.solve(sma.Problem(values, others, layers=chain.heads, **chain.physics))
        close(found.order_parameters, one.order_parameters, 1e-6)
        close(found.predict(asked), sma.theory.Prediction(sign * mean, variance), 1e-5)

    heads = [tuple(rng.permutation(count).tolist()) for count in chain.counts]
    found = sma.solve(sma.Problem(xi.keep_heads(heads), labels, **chain.physics))
    whole = sma.layers.Chain.of(chain.heads)
    moved = order_parameters_on(one.order_parameters, whole, whole.keep(heads)[1])
    close(found.order_parameters, moved, 1e-6)


@pytest.mark.slow
@on_chains(0, ALWAYS[1:])
def test_a_batch_is_its_solutions_and_is_read_as_it_was_written(tmp_path_factory, chain):
    xi, labels, test = chain.problem()
    temperatures, factors = jnp.array([0.3, 0.8]), jnp.array([1.0, 0.7])

    def solved(temperature, factor, throw):
        inputs = sma.AttentionedInputs(factor * xi.values, chain.heads)
        options = {**chain.physics, "temperature": temperature}
        return sma.solve(sma.Problem(inputs, factor * labels, **options), throw=throw)

    batch = jax.vmap(lambda temperature, factor: solved(temperature, factor, False))(temperatures, factors)
    prediction = batch.predict(test)
    for place, (temperature, factor) in enumerate(zip(temperatures, factors, strict=True)):
        alone = solved(temperature, factor, True)
        close(batch[place].order_parameters, alone.order_parameters, 1e-7)
        close((batch.action[place], sma.log_evidence(batch)[place]), (alone.action, sma.log_evidence(alone)), 1e-9)
        close(sma.theory.Prediction(prediction.mean[place], prediction.variance[place]), alone.predict(test), 1e-6)
    for number, found in enumerate((batch, alone)):
        read = sma.load(sma.save(found, tmp_path_factory.mktemp("solutions") / f"{number}.nc"))
        assert jax.tree.structure(read) == jax.tree.structure(found)
        for one, other in zip(jax.tree.leaves(read), jax.tree.leaves(found), strict=True):
            assert np.asarray(one).dtype == np.asarray(other).dtype
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@on_chains(0, ALWAYS[1:])
def test_gradients_through_the_saddle_point_are_finite_differences(chain):
    xi, labels, test = chain.problem()
    method = ("products", "dense")[chain.seed % 2]
    equal = any("skip" in name for name, _ in chain.layers)
    widths = 4.0 if equal else jnp.arange(len(chain.widths)) + 3.5  # where the widest is another the action has a kink

    def number(values, labels, temperature, width, variance):
        """All of a solution, with weights of both signs."""
        options = {"width": width, "temperature": temperature, "variance": variance, "layers": chain.heads}
        found = sma.solve(sma.Problem(values, labels, **options), method=method, tolerance=1e-12, throw=False)
        scores = sma.head_scores(found.order_parameter, layers=found.problem.layers) if sum(chain.counts) else ()
        numbers = (found.order_parameters, found.predict(test), found.action, sma.log_evidence(found), scores)
        return sum(jnp.sum(jnp.sin(1.0 + jnp.arange(one.size)) * one.reshape(-1)) for one in jax.tree.leaves(numbers))

    at = (xi.values, jnp.asarray(labels), jnp.array(TEMPERATURE), widths, jnp.array(chain.variances))
    both = jax.jit(jax.value_and_grad(number, argnums=range(5)))  # one program, for the values too
    rng = np.random.default_rng(chain.seed)
    directions = [0.1 * jnp.asarray(rng.normal(size=np.shape(one))) for one in at]

    def moved(step):
        return both(*(one + step * direction for one, direction in zip(at, directions, strict=True)))[0]

    step = 1e-2  # of a difference of fourth order
    wanted = (8 * (moved(step) - moved(-step)) - (moved(2 * step) - moved(-2 * step))) / (12 * step)
    slopes = both(*at)[1]
    found = sum(float(jnp.sum(slope * direction)) for slope, direction in zip(slopes, directions, strict=True))
    assert found == pytest.approx(float(wanted), rel=1e-6, abs=1e-7)


@on_chains(2)
def test_keeping_heads_before_or_after_they_attend_is_the_same(chain):
    _, _, inputs, matrices = chain.network()
    kept = chain.some_heads()
    found = sma.attentioned_inputs(inputs, matrices, layers=chain.heads).keep_heads(kept)
    left = [list(one) for one, count in zip(kept, chain.counts, strict=True) if count]
    fewer = [matrix[:, one] for matrix, one in zip(matrices, left, strict=True) if one]
    close(found.values, sma.attentioned_inputs(inputs, fewer, layers=found.layers).values)


@on_chains(2)
def test_heads_removed_in_two_steps_are_removed_at_once_and_are_masked(chain):
    _, weights, inputs, matrices = chain.network()
    hypothesis.assume(sum(chain.counts))
    xi, staying = sma.attentioned_inputs(inputs, matrices, layers=chain.heads), chain.some_heads()
    heads = [(layer, head) for layer, count in enumerate(chain.counts) for head in range(count)]
    both = [number for number, (layer, head) in enumerate(heads) if head not in staying[layer]]
    first = both[: len(both) // 2]
    numbers = np.delete(np.arange(sum(chain.counts)), first)
    second = np.flatnonzero(np.isin(numbers, both))
    whole = sma.layers.Chain.of(chain.heads)
    middle, left = (whole.keep(pruning.kept_heads(some, layers=whole))[0].shorthand for some in (first, both))
    rest = pruning.kept_heads(second, layers=middle)
    assert sma.layers.Chain.of(middle).keep(rest)[0].shorthand == left
    smaller = []
    for network in (weights, matrices, xi):
        found = sma.keep_heads(network, pruning.kept_heads(both, layers=whole), layers=chain.heads)
        fewer = sma.keep_heads(network, pruning.kept_heads(first, layers=whole), layers=chain.heads)
        close(sma.keep_heads(fewer, rest, layers=middle), found)
        smaller.append(found)
    parts = whole.keep(pruning.heads.kept_heads(both, layers=chain.heads))[1]

    @jax.jit
    def computed(weights, xi, smaller, inputs):
        outputs = sma.forward(smaller[0], inputs, smaller[1], layers=left)
        overlaps = order_parameters_on(sma.model.weights_order_parameters(weights, layers=chain.heads), whole, parts)
        fewer = sma.model.weights_order_parameters(smaller[0], layers=left)
        along_paths = sma.model.forward_paths(smaller[0], smaller[2])
        return outputs, along_paths, path_contributions(weights, xi), overlaps, fewer

    outputs, along_paths, contributions, overlaps, fewer = computed(weights, xi, smaller, inputs)
    close(along_paths, outputs)
    kept = ~np.isin(np.arange(sum(chain.counts)), both)
    close(masked_outputs(contributions, kept[None], layers=chain.heads)[0], outputs)
    close(overlaps, fewer)
