"""Training in path form: outputs and gradients against the network layer by layer, interruptions, what is stored."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import statmech_attention as sma
from statmech_attention.layers import Linear, Outputs, SkipHeads, chain
from statmech_attention.pruning import masked_outputs, path_contributions, prune
from statmech_attention.tasks._sequences import normalised_patches
from statmech_attention.tasks.glyphs import glyph_split, glyphs
from statmech_attention.tasks.images import ImageSet
from statmech_attention.tasks.one_shot import OneShot
from statmech_attention.training import load_network, one_shot, save_network, train, trained_network
from statmech_attention.training.path_form import effective_vectors, initial, outputs

HEADS = [(2,), (2, 3), (3, 1, 2), (SkipHeads(2),), (SkipHeads(2), SkipHeads(3)), (2, SkipHeads(3), Linear())]
TINY = {"heads": (2, 2), "width": 16, "dimension": 4, "seed": 3, "batch": 8, "validate_every": 10, "progress": False}


@pytest.fixture(scope="module")
def task():
    return OneShot(glyphs(24, 5, seed=2))


@pytest.fixture(scope="module")
def split(task):
    return glyph_split(task.images)


@pytest.fixture(scope="module")
def whole_run(task, split):
    return train(task, split, epochs=3, **TINY)


def parameters_of(heads, scale=3.0):
    # Larger than initial ones, so that attention is far from uniform.
    return jax.tree.map(lambda array: scale * array, initial(jax.random.key(1), heads, 20, 8, 192))


def both_outputs(task, heads, examples=9):
    """The network in path form on compact tokens and layer by layer on full ones, as functions of the parameters."""
    sample = task.sample(jax.random.key(4), examples, classes=range(24))
    sequences = sample.sequences
    patches = normalised_patches(task.compact, sequences.drawings, jnp.float32)

    def by_paths(parameters):
        return outputs(parameters, task.compact, patches, sequences.first, chain(heads))

    def by_layers(parameters):
        # In double precision: what is compared is the error of the path form alone.
        inputs, parameters = sample.inputs, jax.tree.map(lambda array: array.astype(jnp.float64), parameters)
        sides = ([layer for layer in side if len(layer)] for side in (parameters.queries, parameters.keys))
        attention = sma.attention_from_queries_and_keys(*sides)
        return sma.forward(parameters.weights(), inputs, attention, "mean", heads)

    return by_paths, by_layers, sample


def relative(found, wanted):
    return float(jnp.max(jnp.abs(found - wanted)) / jnp.max(jnp.abs(wanted)))


@pytest.mark.parametrize("heads", HEADS)
def test_outputs_agree_with_the_network_layer_by_layer_after_conversion(task, heads):
    by_paths, by_layers, _ = both_outputs(task, heads)
    parameters = parameters_of(heads)
    found = jax.jit(by_paths)(parameters)
    assert found.dtype == jnp.float32
    assert relative(found, jax.jit(by_layers)(parameters)) < 1e-5


@pytest.mark.parametrize("heads", HEADS)
def test_gradients_agree_with_the_network_layer_by_layer(task, heads):
    by_paths, by_layers, sample = both_outputs(task, heads)
    parameters = parameters_of(heads)

    def gradient(function):
        def loss(parameters):
            found = function(parameters)
            return jnp.mean((found - sample.labels.astype(found.dtype)) ** 2)

        return jax.jit(jax.grad(loss))(parameters)

    found, wanted = gradient(by_paths), gradient(by_layers)
    for name, one, other in zip(parameters._fields, found, wanted, strict=True):
        for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            assert left.dtype == jnp.float32 and left.shape == right.shape
            assert not left.size or relative(left, right) < 1e-5, name


@pytest.mark.parametrize("heads", HEADS[:3])
def test_effective_vectors_are_those_of_equation_5(heads):
    parameters = parameters_of(heads)
    weights = parameters.weights()
    paths = int(np.prod(heads))
    wanted = sma.effective_weights(weights) @ weights.projection / np.float32(np.sqrt(20 * 192 * paths))
    assert relative(effective_vectors(parameters), wanted) < 1e-5


def test_initial_scale_and_its_variance_after_conversion():
    parameters = initial(jax.random.key(0), (2,), 200, 50, 192)
    for array, inputs in ((parameters.queries[0], 192), (parameters.values[0], 200), (parameters.projection, 192)):
        assert 0.99 < float(jnp.max(jnp.abs(array))) * np.sqrt(inputs) <= 1
    # Uniform in plus or minus one: the prior variance that training starts from is a third.
    assert float(jnp.var(parameters.weights().values[0])) == pytest.approx(1 / 3, rel=0.02)


def test_a_step_is_adam_on_the_layer_by_layer_gradient(task, split):
    done = train(task, split, epochs=1, **{**TINY, "validate_every": 1}, stop_after=1)
    assert done.steps == 1 and not done.finished
    begin, shuffle, draw = jax.random.split(jax.random.key(3), 3)
    parameters = initial(begin, (2, 2), 16, 4, 192)
    pairs = task.all_pairs(split.train)[
        jax.random.permutation(jax.random.fold_in(shuffle, 0), len(task.all_pairs(split.train)))
    ]
    sequences = task.sequences(jax.random.fold_in(draw, 0), pairs[:8])
    inputs, labels = task.inputs(sequences).astype(jnp.float32), sequences.labels

    def loss(parameters):
        attention = sma.attention_from_queries_and_keys(parameters.queries, parameters.keys)
        return jnp.mean((sma.forward(parameters.weights(), inputs, attention, "mean") - labels) ** 2)

    value, gradient = jax.jit(jax.value_and_grad(loss))(parameters)
    assert done.curve[0, 1] == pytest.approx(float(value), rel=1e-5)
    gradient = jax.tree.map(lambda g, p: g + 5e-5 * p, gradient, parameters)
    optimiser = optax.adam(3e-4)
    updates, _ = optimiser.update(gradient, optimiser.init(parameters))
    wanted = jax.tree.leaves(optax.apply_updates(parameters, updates))
    found = jax.tree.leaves(done.parameters)
    for left, right, start in zip(found, wanted, jax.tree.leaves(parameters), strict=True):
        # Adam's first step is the gradient's sign times the learning rate, but for gradients that vanish.
        moved = jnp.abs(left - right) < 1e-6
        assert float(jnp.mean(moved)) > 0.999 and relative(left - start, right - start) < 2.1


def test_the_curve_and_the_best_parameters(whole_run, split):
    pairs = len(split.train) * (len(split.train) - 1) // 2
    total = 3 * -(-pairs // 8)
    assert whole_run.finished and whole_run.steps == total
    assert whole_run.curve[:, 0].tolist() == [*range(10, total, 10), total]
    assert np.all(np.isfinite(whole_run.curve)) and np.all(
        (whole_run.curve[:, [2, 4]] >= 0) & (whole_run.curve[:, [2, 4]] <= 1)
    )
    best = whole_run.curve[np.argmax(whole_run.curve[:, 4])]
    assert whole_run.best_step == best[0]
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(whole_run.parameters))


def assert_same(one, other):
    for left, right in zip(jax.tree.leaves(one.parameters), jax.tree.leaves(other.parameters), strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(one.curve, other.curve)
    assert (one.best_step, one.steps, one.finished, one.settings) == (
        other.best_step,
        other.steps,
        other.finished,
        other.settings,
    )


def test_a_resumed_run_ends_as_an_uninterrupted_one(task, split, whole_run, tmp_path):
    path = tmp_path / "run" / "state.npz"
    # Twice in the middle of things: between validations, and in another epoch.
    first = train(task, split, epochs=3, **TINY, checkpoint=path, stop_after=24)
    assert not first.finished and first.steps == 24 and len(first.curve) == 2
    train(task, split, epochs=3, **TINY, checkpoint=path, stop_after=17)
    assert_same(train(task, split, epochs=3, **TINY, checkpoint=path), whole_run)
    # What is finished is not done again.
    assert_same(train(task, split, epochs=3, **TINY, checkpoint=path), whole_run)
    assert [entry.name for entry in path.parent.iterdir()] == ["state.npz"]


def test_an_interrupt_in_the_middle_loses_nothing_but_time(task, split, whole_run, tmp_path, monkeypatch):
    path = tmp_path / "state.npz"
    advance, calls = one_shot.advance, []

    def interrupted(*arguments, **settings):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return advance(*arguments, **settings)

    monkeypatch.setattr(one_shot, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(task, split, epochs=3, **TINY, checkpoint=path)
    monkeypatch.undo()
    assert path.exists()
    assert_same(train(task, split, epochs=3, **TINY, checkpoint=path), whole_run)


def test_stopping_before_the_first_validation_gives_the_initial_parameters(task, split):
    done = train(task, split, epochs=1, **TINY, stop_after=2)
    start = initial(jax.random.split(jax.random.key(3), 3)[0], (2, 2), 16, 4, 192)
    np.testing.assert_array_equal(done.parameters.readout, start.readout)
    assert done.best_step == 0 and done.curve.shape == (0, 5)


def test_seeds_matter(task, split, whole_run):
    other = train(task, split, epochs=1, **{**TINY, "seed": 4}, stop_after=10)
    assert np.any(other.parameters.readout != whole_run.parameters.readout)
    assert other.curve[0, 1] != whole_run.curve[0, 1]


def test_checkpoints_of_other_runs_and_damaged_ones_are_refused(task, split, tmp_path):
    path = tmp_path / "state.npz"
    train(task, split, epochs=1, **TINY, checkpoint=path, stop_after=10)
    with pytest.raises(
        ValueError, match=r"another run: learning_rate 0.0003 there and 0.001 here, seed 3 there and 7 here"
    ):
        train(task, split, epochs=1, **{**TINY, "seed": 7}, learning_rate=1e-3, checkpoint=path)
    with pytest.raises(ValueError, match="another run: task"):
        train(OneShot(task.images, label_seed=1), split, epochs=1, **TINY, checkpoint=path)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ValueError, match="state.npz: a damaged checkpoint"):
        train(task, split, epochs=1, **TINY, checkpoint=path)


@pytest.mark.parametrize(
    "name, value",
    [
        ("heads", ()),
        ("heads", (2, Outputs(3))),
        ("width", 0),
        ("batch", -1),
        ("epochs", 0),
        ("learning_rate", 0.0),
        ("weight_decay", -1.0),
        ("stop_after", 0),
    ],
)
def test_numbers_out_of_range_are_refused(task, split, name, value):
    with pytest.raises(ValueError, match=f"{name}: wanted"):
        train(task, split, **{**TINY, name: value})


def test_divergence_is_said(task, split):
    with pytest.raises(FloatingPointError, match="Lower learning_rate"):
        train(task, split, epochs=2, **TINY, learning_rate=1e9)


def test_it_learns_to_compare_images_of_new_classes():
    # One patch an image: each class a texture, each drawing of it a little noisy. Glyphs take thousands of steps.
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (60, 1, 8, 8)) + rng.normal(0, 10, (60, 6, 8, 8))
    pixels = np.clip(pixels, 0, 255).astype(np.uint8).reshape(-1, 8, 8)
    images = ImageSet("textures", pixels, 6 * np.arange(61), tuple(map(str, range(60))))
    done = train(
        OneShot(images),
        glyph_split(images),
        heads=(2, 2),
        width=64,
        dimension=16,
        seed=0,
        epochs=100,
        batch=64,
        learning_rate=3e-3,
        stop_after=200,
        validate_every=200,
        progress=False,
    )
    assert done.curve[0, 2] > 0.8 and done.curve[0, 4] > 0.8


def test_stored_network_is_small_and_gives_the_same_outputs(task, tmp_path):
    parameters = initial(jax.random.key(2), (4, 4), 64, 128, 192)
    curve = np.random.default_rng(0).random((41, 5))
    network = trained_network(parameters, curve, best_step=7)
    path = save_network(network, tmp_path / "network.nc", parameters={"heads": [4, 4]}, seed=2, wall_seconds=1.5)
    assert path.stat().st_size < 2e6
    loaded = load_network(path)
    assert loaded.heads == (4, 4) and loaded.width == 64 and loaded.best_step == 7
    np.testing.assert_array_equal(loaded.curve, curve)
    sample = task.sample(jax.random.key(4), 6, classes=range(24))
    attentioned = sma.attentioned_inputs(sample.inputs, loaded.attention, "mean")
    wanted = sma.forward(parameters.weights(), sample.inputs, loaded.attention, "mean")
    assert relative(loaded.outputs(attentioned), wanted) < 1e-5
    for found, overlap in zip(loaded.order_parameters, sma.weights_order_parameters(parameters.weights()), strict=True):
        np.testing.assert_allclose(found, overlap, rtol=1e-6, atol=1e-7)
    assert loaded.value_norms[1] == pytest.approx(np.linalg.norm(parameters.weights().values[1], axis=(1, 2)), rel=1e-5)
    with pytest.raises(ValueError, match="attentioned: wanted heads"):
        loaded.outputs(attentioned.keep_heads(((0, 1), (0,))))


def test_stored_networks_of_unequal_layers(tmp_path, whole_run):
    network = trained_network(parameters_of((3, 1, 2)))
    loaded = load_network(save_network(network, tmp_path / "network.nc", parameters={}))
    assert loaded.heads == (3, 1, 2) and [len(u) for u in loaded.order_parameters[:-1]] == [6, 2, 2]
    np.testing.assert_array_equal(loaded.vectors, network.vectors)
    assert whole_run.network().best_step == whole_run.best_step


SKIPS = (SkipHeads(2), SkipHeads(3))


def test_effective_vectors_beside_skips_are_written_out():
    parameters = parameters_of(SKIPS)
    lower, upper = parameters.values
    rows = [parameters.readout, *(parameters.readout @ value / np.sqrt(3) for value in upper)]
    # The branch of layer 1 is the slowest: the skip, then its heads.
    wanted = np.array([*rows, *(row @ value / np.sqrt(2) for value in lower for row in rows)]) @ parameters.projection
    assert relative(effective_vectors(parameters, SKIPS), wanted) < 1e-5


def test_a_network_with_skips_is_trained_interrupted_and_gone_on_with(task, split, tmp_path):
    options = {**TINY, "heads": (SkipHeads(2), SkipHeads(2)), "epochs": 1, "validate_every": 4}
    whole = train(task, split, **options, stop_after=8)
    path = tmp_path / "state.npz"
    train(task, split, **options, stop_after=5, checkpoint=path)
    parts = train(task, split, **options, stop_after=4, checkpoint=path)
    assert whole.heads == options["heads"] and whole.settings["heads"] == ["SkipHeads(count=2)"] * 2
    assert_same(parts, whole)
    with pytest.raises(ValueError, match=r"another run: heads \['SkipHeads\(count=2\)'.* there and \[2, 2\] here"):
        train(task, split, **{**options, "heads": (2, 2)}, checkpoint=path)


def test_stored_networks_with_skips_and_linear_blocks(task, tmp_path):
    heads = (2, SkipHeads(3), Linear())
    parameters = parameters_of(heads)
    network = trained_network(parameters, heads=heads)
    loaded = load_network(save_network(network, tmp_path / "network.nc", parameters={}))
    assert loaded.heads == heads and [len(norms) for norms in loaded.value_norms] == [2, 3, 1]
    for name in ("queries", "keys", "order_parameters", "value_norms"):
        for found, wanted in zip(getattr(loaded, name), getattr(network, name), strict=True):
            np.testing.assert_array_equal(found, wanted)
    sample = task.sample(jax.random.key(4), 6, classes=range(24))
    attentioned = sma.attentioned_inputs(sample.inputs, loaded.attention, "mean", heads)
    wanted = sma.forward(parameters.weights(), sample.inputs, loaded.attention, "mean", heads)
    assert relative(loaded.outputs(attentioned), wanted) < 1e-5
    for found, overlap in zip(
        loaded.order_parameters, sma.weights_order_parameters(parameters.weights(), heads), strict=True
    ):
        np.testing.assert_allclose(found, overlap, rtol=1e-6, atol=1e-7)


def test_a_kind_that_cannot_be_read_again_is_not_stored(tmp_path):
    class Unknown(SkipHeads):
        pass

    network = trained_network(parameters_of((2, Unknown(2))), heads=(2, Unknown(2)))
    with pytest.raises(
        ValueError, match="heads: wanted numbers and layers of Linear, SkipHeads to record, got .*Unknown"
    ):
        save_network(network, tmp_path / "network.nc", parameters={})


def test_a_record_of_plain_heads_says_nothing_of_kinds(tmp_path):
    network = trained_network(parameters_of((2, 3)))
    dataset = sma.results.load(save_network(network, tmp_path / "network.nc", parameters={}))
    assert set(dataset.attrs) == {"width", "best_step", "layers"} and set(dataset.dims) == {
        *("path", "feature", "dimension", "validation", "head_1", "head_2"),
        *(f"partial_path_{layer}{other}" for layer in (1, 2) for other in ("", "_other")),
    }


@pytest.mark.parametrize("removed", [[1], [0, 2, 4], [0, 1, 3], [0, 1, 2, 3, 4]])
def test_removal_of_heads_beside_skips_is_masking_and_a_network_without_them(task, removed):
    parameters = parameters_of(SKIPS)
    network = trained_network(parameters, heads=SKIPS)
    sample = task.sample(jax.random.key(4), 7, classes=range(24))
    attentioned = sma.attentioned_inputs(sample.inputs, network.attention, "mean", SKIPS)
    kept = np.isin(np.arange(5), removed, invert=True)
    masked = masked_outputs(path_contributions(network, attentioned), SKIPS, kept[None])[0]
    smaller = prune(network, removed)
    left = (kept[:2].sum(), kept[2:].sum())
    assert smaller.heads == tuple(SkipHeads(int(count)) for count in left)
    again = sma.attentioned_inputs(sample.inputs, smaller.attention, "mean", smaller.heads)
    assert relative(smaller.outputs(again), masked) < 1e-5
    weights = prune(parameters.weights(), removed, SKIPS)
    by_layers = sma.forward(weights, sample.inputs, smaller.attention, "mean", smaller.heads)
    assert relative(masked, by_layers) < 1e-5
    for found, overlap in zip(
        smaller.order_parameters, sma.weights_order_parameters(weights, smaller.heads), strict=True
    ):
        np.testing.assert_allclose(found, overlap, rtol=1e-5, atol=1e-6)


def test_another_result_is_not_taken_for_a_network(tmp_path):
    import xarray as xr

    path = sma.results.save(xr.Dataset({"accuracy": 0.5}), tmp_path / "other.nc", parameters={})
    with pytest.raises(ValueError, match="wanted a trained network, got a result with accuracy"):
        load_network(path)
