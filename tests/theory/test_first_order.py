"""The first order in 1/N against covariances of all pairs of pairs, against solutions, and against drawn weights."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chains import ALWAYS, TEMPERATURE, on_chains
from layers import brute_force

import statmech_attention as sma
from statmech_attention import sampling


def wishart(mean, width, largest):
    """N times the covariance of a Wishart matrix over its width."""
    one = np.einsum("ac,bd->abcd", mean, mean)
    return (one + np.einsum("ad,bc->abcd", mean, mean)) * largest / width


def order_parameter_law(chain):
    """The mean of U and N Cov(U_ab, U_cd), from the readout down with an entry for every pair of pairs."""
    largest, variances = max(chain.widths), chain.variances
    mean = variances[-1] * np.eye(chain.outputs or 1)
    law = wishart(mean, chain.widths[-1], largest)
    for place, (name, count) in reversed(list(enumerate(chain.layers))):
        variance, width, size = variances[place + 1], chain.widths[place], len(mean)
        values = np.kron(np.eye(count), variance * mean)
        given = np.zeros((count * size,) * 4)
        blocks = [slice(head * size, (head + 1) * size) for head in range(count)]
        for one, two in itertools.product(blocks, repeat=2):
            given[one, one, two, two] += variance**2 * law
        if name in brute_force.DIMENSIONS:
            for one in blocks:
                given[one, one, one, one] += variance**2 * wishart(mean, brute_force.DIMENSIONS[name], largest)
        fresh = given + wishart(values, width, largest)
        if "skip" not in name:
            mean, law = values, fresh
            continue
        above, heads = slice(0, size), slice(size, None)
        below = np.zeros((size + count * size,) * 4)
        below[above, above, above, above], below[heads, heads, heads, heads] = law, fresh
        for block in blocks:
            head = slice(size + block.start, size + block.stop)
            below[above, above, head, head] = below[head, head, above, above] = variance * law
        cross = np.einsum("ab,ij->aibj", mean, values) * largest / width
        below[above, heads, above, heads] = cross
        below[heads, above, above, heads] = cross.transpose(1, 0, 2, 3)
        below[above, heads, heads, above] = cross.transpose(0, 1, 3, 2)
        below[heads, above, heads, above] = cross.transpose(1, 0, 3, 2)
        whole = np.zeros((len(below),) * 2)
        whole[above, above], whole[heads, heads] = mean, values
        mean, law = whole, below
    return mean, law


def expansion(chain, inputs, labels, new=None):
    """(Q2), (Q3) and the first order of mean and variance, as sums over pairs of pairs of kernel entries."""
    mean, law = order_parameter_law(chain)
    size = len(mean)
    both = inputs if new is None else np.concatenate([inputs, new])
    units = np.eye(size**2).reshape(size, size, size, size)
    each = [
        [brute_force.kernel(both, both, one, chain.layers, chain.outputs, chain.variances[0]) for one in row]
        for row in units
    ]
    kernel = np.tensordot(mean, each, 2)
    covariance = np.einsum("abmn,abcd,cdrs->mnrs", each, law, each, optimize=True)
    known = labels.size
    R = np.zeros_like(kernel)
    R[:known, :known] = np.linalg.inv(kernel[:known, :known] + TEMPERATURE * np.eye(known))
    v = R @ np.append(labels, np.zeros(len(R) - known))
    slope = (np.outer(v, v) - R) / 2  # of ln p(Y) in K
    gain = np.einsum("mn,mnrs,rs", slope, covariance, slope) / 2
    noise = np.einsum("mnrs,nr,sm", covariance, R, R) / 4 - np.einsum("m,mnrs,nr,s", v, covariance, R, v) / 2
    a = np.eye(len(R))[known:] - kernel[known:] @ R
    first = np.einsum("im,n,mnrs,rs->i", a, v, covariance, slope) - np.einsum("im,mnrs,nr,s->i", a, covariance, R, v)
    second = np.einsum("im,in,mnrs,rs->i", a, a, covariance, slope)
    second += np.einsum("im,n,mnrs,ir,s->i", a, v, covariance, a, v) - np.einsum(
        "im,mnrs,nr,is->i", a, covariance, R, a
    )
    return gain, noise, first, second


@on_chains(2)
def test_the_coefficients_are_sums_over_all_pairs_of_pairs(chain):
    train, labels, _ = chain.problem()
    found = sma.first_order(sma.Problem(train, labels, **chain.physics))
    gain, noise, *_ = expansion(chain, np.asarray(train.values), labels)
    assert np.allclose([found.gain, found.fluctuations], [gain, noise], rtol=1e-9) and found.error == 0
    assert np.allclose(found.layers.sum(axis=0), [gain, noise], rtol=1e-9)
    assert [heads.shape[1] for heads in found.heads] == [count for _, count in chain.layers]


@pytest.mark.parametrize("chain", ALWAYS)
def test_predictions_are_sums_over_all_pairs_of_pairs(chain):
    train, labels, test = chain.problem()
    found = sma.first_order(sma.Problem(train, labels, **chain.physics)).predict(test)
    *_, mean, variance = expansion(chain, np.asarray(train.values), labels, np.asarray(test.values))
    assert np.allclose(found.slope.mean.ravel(), mean, rtol=1e-8, atol=1e-9)
    assert np.allclose(found.slope.variance.ravel(), variance, rtol=1e-8, atol=1e-9)


LAYERS = {
    "heads": (2, 2),
    "skips": (sma.SkipHeads(1), sma.Linear(), sma.SkipHeads(2)),
    "narrow": (2, sma.Heads(2, values=3)),
    "outputs": (sma.SkipHeads(1), 2, sma.Outputs(2)),
}


def sentences(layers, lengths=(3, 1, 2, 3, 4, 2)):
    """Tokens, attention and labels of examples of unequal lengths."""
    rng = np.random.default_rng(3)
    heads = [layer if isinstance(layer, int) else layer.heads for layer in layers if not isinstance(layer, sma.Outputs)]
    tokens = [rng.normal(size=(length, 3)) for length in lengths]
    attention = [
        [rng.dirichlet(np.ones(length), (count, length)).swapaxes(1, 2) for length in lengths]
        for count in heads
        if count
    ]
    labels = rng.normal(size=(len(lengths), 2) if layers[-1] == sma.Outputs(2) else len(lengths))
    return tokens, attention, labels


SLOW = pytest.mark.slow


@pytest.fixture(params=[pytest.param(name, marks=[SLOW] if name in ("heads", "skips") else []) for name in LAYERS])
def both_ways(request):
    """The same problem along tokens and along paths, and the inputs of one more example."""
    layers = LAYERS[request.param]
    tokens, attention, labels = sentences(layers)
    rows = sma.token_inputs(tokens, attention, layers=layers, readout="mean")
    paths = sma.attentioned_inputs(tokens, attention, layers=layers, readout="mean")
    cut = [sma.AttentionedInputs(one, paths.chain) for one in (paths.values[:-1], paths.values[-1:])]
    physics = {"width": 7.0, "temperature": 0.2, "variance": 1.3}
    problems = [sma.Problem(one, labels[:-1], **physics) for one in (rows.take(range(5)), cut[0])]
    return *problems, rows.take(5), cut[1]


def test_tokens_paths_and_components_agree(both_ways):
    tokens, paths, new, along = both_ways
    one, two = sma.first_order(tokens, probes=60), sma.first_order(paths)
    components = sma.projection(tokens.attentioned, 100, variance=1.3)(tokens.attentioned)
    seen = sma.first_order(tokens.replace(attentioned=components), probes=60)
    assert np.allclose(np.concatenate(seen.heads, axis=1), np.concatenate(one.heads, axis=1), rtol=1e-10, atol=1e-12)
    assert np.allclose(jax.tree.leaves(seen.predict(new)), jax.tree.leaves(one.predict(new)), rtol=1e-8, atol=1e-9)
    assert np.allclose(np.concatenate(one.heads, axis=1), np.concatenate(two.heads, axis=1), rtol=1e-10)
    assert np.allclose(one.layers, two.layers, rtol=1e-10)
    assert np.allclose([heads.sum(axis=1) for heads in two.heads], two.layers[:-1], rtol=1e-12)
    assert np.allclose(jax.tree.leaves(one.predict(new)), jax.tree.leaves(two.predict(along)), rtol=1e-8, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("both_ways", ["skips"], indirect=True)
def test_what_a_projection_leaves_out_is_noise(both_ways):
    tokens, _, new, _ = both_ways
    network = sma.projection(tokens.attentioned, 2, variance=1.3)
    seen = tokens.replace(attentioned=network(tokens.attentioned))
    assert seen.attentioned.left_out > 0.01
    solution, found = sma.solve(seen.replace(width=math.inf)), sma.first_order(seen, probes=60).predict(new)
    assert np.allclose(jax.tree.leaves(found.limit), jax.tree.leaves(solution.predict(new)), rtol=1e-9)


@pytest.mark.parametrize("both_ways", ["outputs"], indirect=True)
def test_probes_agree_with_the_sum_within_their_error(both_ways):
    _, paths, *_ = both_ways
    exact = sma.first_order(paths).fluctuations
    size = paths.labels.size
    for probes in (size - 1, size * (size + 1) // 2 - 1):
        some = [sma.first_order(paths, probes=probes, key=jax.random.key(one)) for one in range(100)]
        found, errors = (np.array([getattr(one, name) for one in some]) for name in ("fluctuations", "error"))
        assert abs(found.mean() - exact) < 4 * found.std() / math.sqrt(len(some))
        assert 0.7 < np.sqrt(np.mean(errors**2)) / found.std() < 1.4


def plain_problem(layers, labels=1.0):
    """A problem of paths and a new example."""
    tokens, attention, known = sentences(layers, lengths=(3,) * 6)
    paths = sma.attentioned_inputs(tokens, attention, layers=layers)
    train, test = (sma.AttentionedInputs(one, paths.chain) for one in (paths.values[:-1], paths.values[-1:]))
    return sma.Problem(train, labels * known[:-1], width=np.inf, temperature=0.2), test


@pytest.mark.parametrize(
    "layers", [LAYERS["outputs"], *(pytest.param(LAYERS[name], marks=SLOW) for name in ("heads", "skips"))]
)
def test_evidence_and_corrections_of_solutions_tend_to_it(layers):
    problem, test = plain_problem(layers)
    found, infinite = sma.first_order(problem), sma.solve(problem)
    predicted, limit = found.predict(test), infinite.predict(test)
    assert np.allclose(jax.tree.leaves(predicted.limit), jax.tree.leaves(limit), rtol=1e-9)
    wanted = found.gain, found.gain + found.fluctuations, *jax.tree.leaves(predicted.slope)
    errors = []
    for width in (1e4, 1e5):
        solution = sma.solve(problem.replace(width=width), tolerance=1e-12)
        nats = [sma.log_evidence(solution, corrected=one) - sma.log_evidence(infinite) for one in (False, True)]
        after = sampling.corrected(solution, test=test).prediction
        moved = [jnp.asarray(one) - two for one, two in zip(after, limit, strict=True)]
        errors.append([np.max(np.abs(width * one - two)) for one, two in zip((*nats, *moved), wanted, strict=True)])
    sizes = [np.max(np.abs(one)) for one in wanted]
    assert np.all(np.array(errors[1]) < 1e-3 * np.array(sizes))
    assert np.all(
        np.array(errors[1]) < np.maximum(0.2 * np.array(errors[0]), 1e-4 * np.array(sizes))
    )  # remainder 1 / N


@pytest.mark.slow
def test_corrected_evidence_of_tokens_tends_to_it():
    tokens, attention, labels = sentences(LAYERS["skips"])
    rows = sma.token_inputs(tokens, attention, layers=LAYERS["skips"], readout="mean")
    problem = sma.Problem(rows, labels, width=np.inf, temperature=0.2)
    found, infinite = sma.first_order(problem, probes=100), sma.solve(problem)
    solution = sma.solve(problem.replace(width=1e5), directions=40, settle=0.0, tolerance=1e-12, throw=False)
    nats = [sma.log_evidence(solution, corrected=one) - sma.log_evidence(infinite) for one in (False, True)]
    assert np.allclose(1e5 * np.array(nats), [found.gain, found.gain + found.fluctuations], rtol=1e-3)


@pytest.mark.parametrize(
    "layers", [pytest.param([("heads", 2), ("heads", 2)], marks=SLOW), [("skip", 1), ("heads", 2)]]
)
def test_networks_with_all_weights_drawn_tend_to_it(layers):
    problem, _ = plain_problem(brute_force.shorthand(layers, None), labels=0.7)
    inputs, labels = np.asarray(problem.attentioned.values), np.asarray(problem.labels)
    mean = np.asarray(sma.theory.gp_order_parameters(layers=problem.layers)[0])
    units = np.eye(mean.size).reshape(-1, *mean.shape)
    each = np.stack([brute_force.kernel(inputs, inputs, one, layers, None) for one in units])
    R = np.linalg.inv(np.tensordot(mean.ravel(), each, 1) + 0.2 * np.eye(len(labels)))
    v = R @ labels
    rng, found = np.random.default_rng(0), []
    for width, draws in ((20, 20_000), (80, 3_000)):
        widths = (width,) * (len(layers) + 1)
        drawn = brute_force.weights(rng, layers, widths, 1, (1.0,) * (len(layers) + 2), 3, (draws,))
        rows = brute_force.partial_weights(*drawn[1:], layers, 0)
        moved = np.tensordot((rows @ rows.swapaxes(1, 2) / width - mean).reshape(draws, -1), each, 1)
        likelier = np.linalg.inv(R) + moved
        logs = -0.5 * (np.linalg.slogdet(R @ likelier)[1] + labels @ np.linalg.solve(likelier, labels).T - labels @ v)
        # The linear term has the mean zero: without it the error does not grow with the width.
        terms = width * (np.expm1(logs) - 0.5 * np.tensordot(moved, np.outer(v, v) - R, 2))
        found.append((terms.mean(), terms.std() / math.sqrt(draws)))
    (one, its), (two, other) = found
    wanted = sma.first_order(problem)
    error = math.hypot(its / 3, 4 * other / 3)
    assert abs((4 * two - one) / 3 - wanted.gain - wanted.fluctuations) < 4 * error  # without the next order
    assert error < 0.2 * abs(wanted.gain + wanted.fluctuations), found


def test_labels_of_the_infinite_network_gain_nothing_on_average():
    whole, _ = plain_problem((2, 2))
    inputs = sma.AttentionedInputs(whole.attentioned.values[:3], (2, 2))
    overlaps = sma.theory.gp_order_parameters(layers=(2, 2))[0]
    root = np.linalg.cholesky(np.asarray(sma.kernel(inputs, inputs, overlaps)) + 0.2 * np.eye(3))
    nodes, weights = np.array([-1.0, 0.0, 1.0]) * math.sqrt(3), np.array([1, 4, 1]) / 6  # exact to the fifth power
    total = size = 0.0
    for places in itertools.product(range(3), repeat=3):
        labels = root @ nodes[list(places)]
        found = sma.first_order(sma.Problem(inputs, labels, width=np.inf, temperature=0.2))
        total += np.prod(weights[list(places)]) * (found.gain + found.fluctuations)
        size += np.prod(weights[list(places)]) * found.gain
    assert abs(total) < 1e-12 * size


def test_infinite_widths_leave_narrow_heads_alone():
    layers = LAYERS["narrow"]
    tokens, attention, labels = sentences(layers)
    paths = sma.attentioned_inputs(tokens, attention, layers=layers)
    wide, infinite = (
        sma.first_order(sma.Problem(paths, labels, width=width, temperature=0.2)) for width in (1e9, np.inf)
    )
    assert np.allclose(infinite.layers / 3, wide.layers / 1e9, rtol=1e-6, atol=1e-6 * infinite.gain)
    assert infinite.layers[0, 0] == infinite.layers[2, 0] == 0 < infinite.layers[1, 0]


def test_missing_numbers_are_refused():
    problem, _ = plain_problem((2, 2))
    with pytest.raises(ValueError, match="width: not set"):
        sma.first_order(sma.Problem(problem.attentioned, problem.labels, temperature=1.0))
    with pytest.raises(ValueError, match="probes: wanted a whole number of at least 2"):
        sma.first_order(problem, probes=1)
