"""Training on the one-shot task: single steps, learning curves, interruptions, what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import statmech_attention as sma
from attention_book.one_shot import train
from attention_book.one_shot.path_form import initial
from attention_book.one_shot.steps import Data, State, adam, advance
from attention_book.one_shot.task import OneShot
from statmech_attention.layers import Chain, Heads, SkipHeads

TINY = {"layers": (2, 2), "width": 16, "dimension": 4, "seed": 3, "batch": 8, "validate_every": 10, "progress": False}


@pytest.fixture(scope="module")
def whole_run(task, split):
    return train(task, split, epochs=3, **TINY)


def test_training_step_is_adam_on_the_layer_by_layer_gradient(task, split):
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
        return jnp.mean((sma.forward(parameters.weights(), inputs, attention, readout="mean") - labels) ** 2)

    value, gradient = jax.jit(jax.value_and_grad(loss))(parameters)
    assert done.curve[0, 1] == pytest.approx(float(value), rel=1e-5)
    gradient = jax.tree.map(lambda g, p: g + 5e-5 * p, gradient, parameters)
    optimiser = optax.adam(3e-4)
    updates, _ = optimiser.update(gradient, optimiser.init(parameters))
    leaves = (jax.tree.leaves(tree) for tree in (done.parameters, optax.apply_updates(parameters, updates), gradient))
    for found, wanted, slope in zip(*leaves, strict=True):
        # Adam's first step is the gradient's sign times the learning rate: that of a gradient near zero is anyone's.
        clear = jnp.abs(slope) > 1e-4 * jnp.max(jnp.abs(slope))
        assert float(jnp.mean(clear)) > 0.99
        assert float(jnp.max(jnp.where(clear, jnp.abs(found - wanted), 0))) < 1e-7


def test_every_pair_counts_the_first_one_too_and_none_that_fills_up_a_batch(task, split):
    pairs = jnp.asarray(task.all_pairs(split.train), jnp.int32)
    layers, draw, rates = Chain.of((2, 2)), jax.random.key(1), (3e-4, 5e-5)
    parameters = initial(jax.random.key(0), layers, 16, 4, task.features)
    sequences = task.sequences(jax.random.fold_in(draw, 7), pairs[jnp.array([5, 0, 0, 0])])
    inputs = task.inputs(sequences).astype(jnp.float32)[:2]
    attention = sma.attention_from_queries_and_keys(parameters.queries, parameters.keys)
    outputs = sma.forward(parameters.weights(), inputs, attention, readout="mean")
    squares = float(jnp.sum((outputs - sequences.labels[:2]) ** 2))
    right = int(jnp.sum(outputs * sequences.labels[:2] > 0))
    state = State(parameters, adam(*rates).init(parameters), jnp.zeros(3, jnp.float32))
    order, data = jnp.array([5, 0, -1, -1]), Data(task.compact, task.starts, pairs)
    after = advance(state, data, order, draw, 7, 0, 1, layers=layers, batch=4, rates=rates)
    assert after.sums.tolist() == pytest.approx([squares, right, 2], rel=1e-5)


def test_learning_curve_is_whole_and_the_best_parameters_are_kept(whole_run, split):
    pairs = len(split.train) * (len(split.train) - 1) // 2
    total = 3 * -(-pairs // 8)
    assert whole_run.finished and whole_run.steps == total
    assert whole_run.curve[:, 0].tolist() == [*range(10, total, 10), total]
    assert np.all(np.isfinite(whole_run.curve)) and np.all(
        (whole_run.curve[:, [2, 4]] >= 0) & (whole_run.curve[:, [2, 4]] <= 1)
    )
    best = whole_run.curve[np.argmax(whole_run.curve[:, 4])]
    assert whole_run.best_step == whole_run.network().best_step == best[0]
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


def test_resumed_training_ends_as_an_uninterrupted_one(task, split, whole_run, tmp_path):
    path = tmp_path / "run" / "state.npz"
    # Twice in the middle of things: between validations, and in another epoch.
    first = train(task, split, epochs=3, **TINY, checkpoint=path, stop_after=24)
    assert not first.finished and first.steps == 24 and len(first.curve) == 2
    train(task, split, epochs=3, **TINY, checkpoint=path, stop_after=17)
    assert_same(train(task, split, epochs=3, **TINY, checkpoint=path), whole_run)
    # What is finished is not done again.
    assert_same(train(task, split, epochs=3, **TINY, checkpoint=path), whole_run)
    assert [entry.name for entry in path.parent.iterdir()] == ["state.npz"]


def test_checkpoints_of_other_runs_and_damaged_ones_are_refused(task, split, tmp_path):
    path = tmp_path / "state.npz"
    train(task, split, epochs=1, **TINY, checkpoint=path, stop_after=10)
    with pytest.raises(
        ValueError, match=r"another run: learning_rate 0.0003 there and 0.001 here, seed 3 there and 7 here"
    ):
        train(task, split, epochs=1, **{**TINY, "seed": 7}, learning_rate=1e-3, checkpoint=path)
    with pytest.raises(ValueError, match="another run: epochs 1 there and 2 here"):
        train(task, split, epochs=2, **TINY, checkpoint=path)
    with pytest.raises(ValueError, match="another run: task"):
        train(OneShot(task.images, label_seed=1), split, epochs=1, **TINY, checkpoint=path)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ValueError, match="state.npz: a damaged checkpoint"):
        train(task, split, epochs=1, **TINY, checkpoint=path)


def test_training_that_diverges_raises(task, split):
    with pytest.raises(FloatingPointError, match="Lower learning_rate"):
        train(task, split, epochs=2, **TINY, learning_rate=1e9)


def test_resumed_training_with_skips_and_narrow_heads_ends_as_an_uninterrupted_one(task, split, tmp_path):
    options = {**TINY, "layers": (SkipHeads(2), Heads(2, values=3)), "epochs": 1, "validate_every": 4}
    whole = train(task, split, **options, stop_after=8)
    path = tmp_path / "state.npz"
    train(task, split, **options, stop_after=5, checkpoint=path)
    parts = train(task, split, **options, stop_after=4, checkpoint=path)
    written = ["SkipHeads(count=2)", "Heads(count=2, values=3)"]
    assert whole.layers == options["layers"] and whole.settings["heads"] == written
    assert whole.parameters.values[1].outputs.shape == (2, 16, 3)
    assert_same(parts, whole)
    with pytest.raises(ValueError, match=r"another run: heads \['SkipHeads\(count=2\)'.* there and \[2, 2\] here"):
        train(task, split, **{**options, "layers": (2, 2)}, checkpoint=path)
