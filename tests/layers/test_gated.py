"""Gated units: forward pass, prior against networks drawn here, one block against its posterior, worth, files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import statmech_attention as sma
from statmech_attention.layers.chains import layers_from_json, layers_to_json
from statmech_attention.pruning import block_kernels, kernel_worth, unit_slopes
from statmech_attention.theory import bias_kernel

EXAMPLES, TOKENS, FEATURES, HEADS, UNITS = 5, 4, 3, 2, 3
CHAIN = [sma.SkipHeads(HEADS), sma.Gated(UNITS)] * 2
VARIANCE = (1.2, 0.8, 1.5, 1.1, 0.7, 1.3)
SIZES = [4, 2, 3, 4, 2]


@pytest.fixture
def given():
    """Inputs, attention, gates of both signs, scales and a mask."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(EXAMPLES, TOKENS, FEATURES))
    attention = [rng.dirichlet(np.ones(TOKENS), (EXAMPLES, HEADS, TOKENS)).swapaxes(-1, -2) for _ in range(2)]
    gates = [rng.normal(0.5, 0.5, size=(EXAMPLES, TOKENS, UNITS)) for _ in range(2)]
    scales = [rng.uniform(0.5, 2, size=(EXAMPLES, TOKENS)) for _ in range(4)]
    return inputs, attention, gates, scales, np.arange(TOKENS) < np.array(SIZES)[:, None]


def one_step(kind, values, x, other, outputs=None):
    """A layer of one example, token by token and unit by unit."""
    width, count = x.shape[1], len(values)
    out = x.copy()
    for part in range(count):
        for token in range(len(x)):
            if kind == "gated":
                through = values[part] @ x[token] * other[token, part]
            else:
                through = values[part] @ sum(other[part, key, token] * x[key] for key in range(len(x)))
            inner = 1 if outputs is None else values.shape[1]
            out[token] += (through if outputs is None else outputs[part] @ through) / np.sqrt(width * count * inner)
    return out


@pytest.mark.parametrize("values", [1, 2, None])
def test_the_block_is_a_sum_over_units(given, values):
    inputs, _, gates, *_ = given
    layers = [sma.Gated(UNITS, values=values)]
    weights = sma.sample_weights(key=jax.random.key(1), layers=layers, width=6, features=FEATURES)
    known = jax.tree.map(np.asarray, weights)
    parts = (known.values[0].values, known.values[0].outputs) if values else (known.values[0], None)
    wanted = []
    for x, gate in zip(inputs, gates[0], strict=True):
        out = one_step("gated", parts[0], x @ known.projection.T / np.sqrt(FEATURES), gate, parts[1])
        wanted.append(out[-1] @ known.readout / np.sqrt(6))
    assert_allclose(sma.forward(weights, inputs, (), layers=layers, gates=gates[:1]), wanted, rtol=1e-10)


@pytest.mark.parametrize("values", [1, None])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_tokens_paths_and_weights_agree(given, values, norm):
    inputs, attention, gates, scales, mask = given
    layers = [sma.SkipHeads(HEADS), sma.Gated(UNITS, values=values)] * 2
    cut = [matrix * mask[:, None, :, None] * mask[:, None, None, :] for matrix in attention]
    options = {"layers": layers, "gates": gates, "scales": scales, "norm": norm, "mask": mask, "readout": "mean"}
    tokens = sma.token_inputs(inputs, lambda _: cut, **options)
    paths = sma.attentioned_inputs(inputs, lambda _: cut, **options)
    kernel = sma.kernel(tokens, tokens, variance=VARIANCE)
    assert_allclose(kernel, sma.kernel(paths, paths, variance=VARIANCE), rtol=1e-10)
    some = sma.kernel(tokens.take([3, 1]), tokens.take([0, 1, 2]), variance=VARIANCE)
    assert_allclose(some, kernel[np.ix_([3, 1], [0, 1, 2])], rtol=1e-10)
    weights = sma.sample_weights(key=jax.random.key(0), layers=layers, width=4, features=FEATURES)
    outputs = sma.forward(weights, inputs, lambda _: cut, **options)
    assert_allclose(outputs, sma.model.forward_paths(weights, paths), rtol=1e-9)


@pytest.mark.parametrize(("width", "units"), [(3, 3), (8, 24)])
def test_the_kernel_is_the_covariance_of_narrow_networks(width, units):
    """Two layers of attention and a block, post-norm, with biases, the mean token read; 4000 networks each."""
    rng, draws, examples, tokens = np.random.default_rng(2), 4000, 3, 3
    x = rng.normal(size=(examples, tokens, FEATURES))
    attention = rng.dirichlet(np.ones(tokens), (2, examples, HEADS, tokens)).swapaxes(-1, -2)
    gates = rng.normal(0.5, 0.5, size=(2, examples, tokens, units))
    scales = rng.uniform(0.5, 1.5, size=(4, examples, tokens))
    layers = [sma.SkipHeads(HEADS), sma.Gated(units)] * 2
    options = {"layers": layers, "gates": [*gates], "scales": [*scales], "readout": "mean"}
    inputs = sma.token_inputs(x, [*attention], **options)
    biases = 0.3
    kernel = sma.kernel(inputs, inputs) + biases * bias_kernel(inputs, inputs)

    def bias():
        return np.sqrt(biases) * rng.normal(size=(draws, 1, 1, width))

    def heads(hidden, matrix, scale):
        values = rng.normal(size=(draws, HEADS, width, width)) / np.sqrt(width * HEADS)
        moved = np.einsum("dhij,detj,ehts->desi", values, hidden + bias(), matrix, optimize=True)
        return scale[..., None] * (hidden + moved) + bias()

    def block(hidden, gate, scale):
        first, second = rng.normal(size=(2, draws, units, width)) / np.sqrt(np.sqrt(width * units))
        inside = gate * np.einsum("dmj,detj->detm", first, hidden + bias(), optimize=True)
        return scale[..., None] * (hidden + np.einsum("dmi,detm->deti", second, inside, optimize=True)) + bias()

    hidden = np.einsum("dif,etf->deti", rng.normal(size=(draws, width, FEATURES)), x) / np.sqrt(FEATURES)
    for layer in range(2):
        hidden = block(heads(hidden, attention[layer], scales[2 * layer]), gates[layer], scales[2 * layer + 1])
    outputs = np.einsum("deti,di->de", hidden, rng.normal(size=(draws, width))) / tokens / np.sqrt(width)
    products = outputs[:, :, None] * outputs[:, None]
    error = products.std(axis=0) / np.sqrt(draws)
    away = ((products.mean(axis=0) - kernel) / error)[np.triu_indices(examples)]
    assert np.abs(away).max() < 4 and np.sqrt(np.mean(away**2)) < 2
    without = ((products.mean(axis=0) - sma.kernel(inputs, inputs)) / error)[np.triu_indices(examples)]
    assert np.abs(without).max() > 4  # the test sees the biases


def slice_sampler(log_likelihood, size: int, sweeps: int, rng):
    """Elliptical slices of a standard normal prior (Murray, Adams, MacKay 2010)."""
    point = rng.normal(size=size)
    value, kept = log_likelihood(point), []
    for _ in range(sweeps):
        other, level = rng.normal(size=size), value + np.log(rng.random())
        low, high = (angle := 2 * np.pi * rng.random()) - 2 * np.pi, angle
        while True:
            new = np.cos(angle) * point + np.sin(angle) * other
            if (value := log_likelihood(new)) > level:
                break
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = rng.uniform(low, high)
        point = new
        kept.append(point)
    return np.array(kept[sweeps // 10 :])


@pytest.mark.slow
@pytest.mark.parametrize("skip", [1, 0])
def test_units_move_as_in_the_posterior(skip):
    """One block of infinite width: given the overlaps of units and readout all is Gaussian, and they are sampled.

    Without a skip units are heads of value dimension one, whose attention is diagonal.
    """
    rng = np.random.default_rng(5)
    units, features, examples, tests, noise = 16, 6, 32, 100, 0.05
    x = rng.normal(size=(examples + tests, 1, features))
    gates = (np.einsum("etf,mf->etm", x, rng.normal(size=(units, features))) > 0).astype(float)
    linear = x[:, 0] @ x[:, 0].T / features

    def kernel(squares):
        return linear * (skip + (gates[:, 0] * squares) @ gates[:, 0].T / units)

    true = rng.normal(size=units) ** 2
    outputs = np.linalg.cholesky(kernel(true) + 1e-9 * np.eye(len(x))) @ rng.normal(size=len(x))
    labels, train = outputs[:examples] + np.sqrt(noise) * rng.normal(size=examples), slice(examples)

    def solved(overlaps):
        return kernel(overlaps**2)[:, train] + 0.0, kernel(overlaps**2)[train, train] + noise * np.eye(examples)

    def log_likelihood(overlaps):
        half = np.linalg.cholesky(solved(overlaps)[1])
        return -0.5 * np.sum(np.linalg.solve(half, labels) ** 2) - np.log(np.diag(half)).sum()

    samples = slice_sampler(log_likelihood, units, 4000, rng)
    means = []
    for overlaps in samples[::10]:
        across, own = solved(overlaps)
        means.append(across[examples:] @ np.linalg.solve(own, labels))
    exact = np.mean(means, axis=0)
    problems = {}
    for values in (1, None):
        if skip:
            inputs = sma.token_inputs(x, (), layers=[sma.Gated(units, values=values)], gates=[gates])
        else:
            layers, maps = [sma.Heads(units, values=values)], gates[:, 0, :, None, None]
            inputs = sma.token_inputs(x, [maps], layers=layers)
        problem = sma.Problem(inputs.take(range(examples)), labels, width=np.inf, temperature=noise)
        problems[values] = sma.solve(problem), inputs.take(range(examples, examples + tests))
    away = {
        values: np.linalg.norm(solution.predict(new).mean - exact) / np.linalg.norm(exact)
        for values, (solution, new) in problems.items()
    }
    assert away[1] < 0.12 and away[1] < 0.6 * away[None]


@pytest.mark.parametrize("values", [1, pytest.param(None, marks=pytest.mark.slow)])
def test_solutions_on_tokens_are_those_along_paths(given, values):
    inputs, attention, gates, scales, _ = given
    layers = [sma.SkipHeads(HEADS), sma.Gated(UNITS, values=values)]
    options = {"layers": layers, "gates": gates[:1], "scales": scales[:2], "readout": "mean"}
    labels = np.array([1.0, -1, 1, 1, -1])
    ends = []
    for make in (sma.token_inputs, sma.attentioned_inputs):
        train = make(inputs, attention[:1], **options)
        problem = sma.Problem(train, labels, width=5, temperature=0.1)
        solution = sma.solve(problem, tolerance=1e-10)
        ends.append((sma.log_evidence(solution), *solution.predict(train), sma.first_order(problem).gain))
    for one, other in zip(*ends, strict=True):
        assert_allclose(one, other, rtol=1e-6, atol=1e-8)


def test_a_block_is_worth_what_its_removal_costs(given):
    inputs, attention, gates, scales, _ = given
    labels = np.array([1.0, -1, 1, 1, -1])

    def kernel(gates):
        options = {"layers": CHAIN, "gates": gates, "scales": scales, "readout": "mean"}
        rows = sma.token_inputs(inputs, attention, **options)
        return rows, sma.kernel(rows, rows, variance=VARIANCE)

    rows, whole = kernel(gates)
    blocks = block_kernels(rows, rows, variance=VARIANCE)
    for place, block in enumerate(blocks):
        left = [0 * gate if number == place else gate for number, gate in enumerate(gates)]
        assert_allclose(whole - block, kernel(left)[1], rtol=1e-9)
    options = {"temperature": 0.3}
    worth, units = (
        kernel_worth(whole, blocks, labels, **options),
        unit_slopes(rows, labels, variance=VARIANCE, **options),
    )
    assert_allclose(worth.slopes, [one.sum() for one in units], rtol=1e-9)
    for sign in (step := 1e-5), -step:
        gates[1] = gates[1].copy()
        more = np.sqrt(np.array([1.0, 1.0 + sign, 1.0]))
        nats = [evidence(kernel([gates[0], gates[1] * factor])[1], labels, 0.3) for factor in (more, 1 / more)]
        assert_allclose((nats[0] - nats[1]) / (2 * sign), units[1][1], rtol=1e-4)

    for losses, left in ((worth.losses, block) for block in (0, 1)):
        without = [gate * (number != left) for number, gate in enumerate(gates)]
        lost = evidence(kernel(gates)[1], labels, 0.3) - evidence(kernel(without)[1], labels, 0.3)
        assert_allclose(losses[left], lost, rtol=1e-3)


def test_the_slope_of_one_unit_of_many_is_what_its_removal_costs():
    rng, units, labels = np.random.default_rng(4), 400, np.array([1.0, -1, 1, 1, -1])
    inputs, gates = rng.normal(size=(5, 2, FEATURES)), rng.uniform(size=(5, 2, units))

    def kernel(gates):
        rows = sma.token_inputs(inputs, (), layers=[sma.Gated(units)], gates=[gates], readout="mean")
        return rows, sma.kernel(rows, rows)

    rows, whole = kernel(gates)
    (slopes,) = unit_slopes(rows, labels, temperature=0.3)
    lost = [evidence(whole, labels, 0.3) - evidence(kernel(gates * one)[1], labels, 0.3) for one in 1 - np.eye(units)]
    assert np.linalg.norm(slopes - lost) < 0.01 * np.linalg.norm(lost)


def evidence(kernel, labels, temperature):
    noisy = kernel + temperature * np.eye(len(kernel))
    return -0.5 * (labels @ np.linalg.solve(noisy, labels) + np.linalg.slogdet(noisy)[1])


def test_heads_go_beside_gates(given):
    inputs, attention, gates, scales, _ = given
    options = {"gates": gates, "scales": scales, "readout": "mean"}
    rows = sma.token_inputs(inputs, attention, layers=CHAIN, **options)
    few = rows.keep_heads(((1,), (), (0, 1), ()))
    left = [attention[0][:, 1:], attention[1]]
    wanted = sma.token_inputs(inputs, left, layers=[sma.SkipHeads(1), *CHAIN[1:]], **options)
    assert_allclose(sma.kernel(few, few), sma.kernel(wanted, wanted), rtol=1e-10)
    chosen = sma.select_heads(sma.Problem(rows, np.array([1.0, -1, 1, 1, -1])), keep=2, folds=2)
    assert len(chosen.kept) == 2 and chosen.scores.shape == (4,)


def test_blocks_are_selected_by_their_worth_and_left_out_without_weights():
    """Labels by the second block's gates alone: it is kept, and accuracies are those of regressions here."""
    rng, examples, variance = np.random.default_rng(8), 60, (1.0, 3.0, 3.0, 3.0, 1.0)
    inputs, gates = rng.normal(size=(examples, 1, 2)), [rng.normal(size=(examples, 1, 4)) for _ in range(3)]

    def kernel(gates):
        rows = sma.token_inputs(inputs, (), layers=[sma.Gated(4)] * 3, gates=gates)
        return rows, sma.kernel(rows, rows, variance=variance)

    second = kernel([0 * gates[0], gates[1], 0 * gates[2]])[1]
    gated = (inputs[:, 0] @ inputs[:, 0].T) * (gates[1][:, 0] @ gates[1][:, 0].T)
    labels = np.sign(np.linalg.cholesky(gated + 1e-9 * np.eye(examples)) @ rng.normal(size=examples))
    rows, whole = kernel(gates)
    problem = sma.Problem(rows, labels, temperature=3.0, variance=variance)
    for definition in ("derivative", "removal"):
        with pytest.warns(UserWarning, match="No block has a positive worth"):
            found = sma.pruning.select_blocks(problem, keep=1, folds=2, definition=definition)
        assert found.kept.tolist() == [1] and found.scores.argmax() == 1
    assert found.heads.tolist() == [[0, -1], [1, -1], [2, -1]]
    assert found.kept_in_folds.tolist() == [0, 1, 0]
    order = np.random.default_rng(0).permutation(examples)
    order, place = order[np.argsort((labels > 0)[order], kind="stable")], np.empty(examples, int)
    place[order] = np.arange(examples) % 2
    for accuracy, one in ((found.accuracy, second), (found.accuracy_of_all, whole)):
        hits = []
        for fold in (0, 1):
            known, new = np.flatnonzero(place != fold), np.flatnonzero(place == fold)
            solved = np.linalg.solve(one[np.ix_(known, known)] + 3.0 * np.eye(len(known)), labels[known])
            hits.extend(np.sign(one[np.ix_(new, known)] @ solved) == labels[new])
        assert accuracy.mean == np.mean(hits)
    with pytest.raises(ValueError, match="wanted infinite width, got a finite one"):
        sma.pruning.select_blocks(problem.replace(width=10), keep=1)
    assert found.difference.mean > 2 * found.difference.error
    held = sma.token_inputs(inputs, (), layers=[sma.Gated(4, values=None)], gates=gates[:1])
    with pytest.raises(ValueError, match="wanted a layer with heads, got .* Of blocks take block_kernels"):
        sma.pruning.head_worth(sma.solve(sma.Problem(held, labels, width=np.inf, temperature=3.0)))


def test_files_keep_gates_and_units_without_values(given, tmp_path):
    inputs, attention, gates, *_ = given
    layers = (sma.SkipHeads(HEADS), sma.Gated(UNITS, values=None), sma.Gated(UNITS))
    assert layers_from_json(layers_to_json(layers)) == layers
    rows = sma.token_inputs(inputs, attention[:1], layers=layers, gates=gates, readout="first")
    problem = sma.Problem(rows, np.array([1.0, -1, 1, 1, -1]), width=8, temperature=0.2)
    solution = sma.solve(problem)
    sma.save(solution, tmp_path / "gates.nc")
    again = sma.load(tmp_path / "gates.nc")
    assert_allclose(again.predict(rows.take([2])).mean, solution.predict(rows.take([2])).mean, rtol=1e-9)
    assert again.problem.attentioned.groups[0].maps[1].shape == (EXAMPLES, 1 + UNITS, TOKENS)


def test_gates_stay_in_single_precision_and_lengths_do_not_matter(given):
    inputs, _, gates, _, mask = given
    layers, single = [sma.Gated(UNITS)], [gates[0].astype(np.float32)]
    rows = sma.token_inputs(inputs, (), layers=layers, gates=single, mask=mask, readout="mean")
    assert rows.groups[0].maps[0].dtype == np.float32
    alone = [
        sma.token_inputs(
            inputs[e : e + 1, :size], (), layers=layers, gates=[single[0][e : e + 1, :size]], readout="mean"
        )
        for e, size in enumerate(SIZES)
    ]
    wanted = [[float(sma.kernel(one, other)[0, 0]) for other in alone] for one in alone]
    assert_allclose(sma.kernel(rows, rows), wanted, rtol=1e-6)


def test_doors(given):
    inputs, attention, gates, *_ = given
    with pytest.raises(ValueError, match="one for every Gated layer, got 1"):
        sma.token_inputs(inputs, attention, layers=CHAIN, gates=gates[:1])
    with pytest.raises(ValueError, match="one for every Gated layer, got 0"):
        sma.attentioned_inputs(inputs, attention, layers=CHAIN)
    with pytest.raises(ValueError, match="gates of block 1: wanted shape"):
        sma.token_inputs(inputs, attention, layers=CHAIN, gates=[gates[0][:, :, :2], gates[1]])
    with pytest.raises(ValueError, match="gates: wanted 0 arrays"):
        sma.token_inputs(inputs, attention, gates=gates)
    with pytest.raises(ValueError, match="wanted a Gated layer"):
        block_kernels(*2 * [sma.token_inputs(inputs, attention)])
    with pytest.raises(ValueError, match="at least 1"):
        sma.Gated(0)
    many = np.repeat(gates[0], 100, axis=2)
    rows = sma.token_inputs(inputs, (), layers=[sma.Gated(300)], gates=[many])
    problem = sma.Problem(rows, np.array([1.0, -1, 1, 1, -1]), width=10, temperature=0.1)
    with pytest.raises(ValueError, match="at most 128 units at a finite width, got 300"):
        sma.solve(problem)
    held = sma.token_inputs(inputs, (), layers=[sma.Gated(300, values=None)], gates=[many])
    wide = sma.solve(problem.replace(attentioned=held, width=np.inf))
    assert jnp.isfinite(sma.log_evidence(wide))
