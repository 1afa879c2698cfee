"""Bad input is refused with what was wanted, before anything is compiled: a table of cases, and what is let through."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention import checks

RNG = np.random.default_rng(110)
HEADS, FEATURES = (2, 2), 5
INPUTS = RNG.normal(size=(3, 4, FEATURES))
MATRICES = [RNG.dirichlet(np.ones(4), size=(3, 2, 4)).swapaxes(2, 3) for _ in HEADS]
SCALES = [RNG.uniform(0.5, 2, size=(3, 4)) for _ in HEADS]
PRODUCTS = [RNG.normal(size=(2, FEATURES, FEATURES)) for _ in HEADS]
XI, LABELS, UNIT = RNG.normal(size=(3, 4, FEATURES)), np.array([1.0, -1.0, 1.0]), np.eye(4)
WELL = {"width": 4.0, "temperature": 0.1, "layers": HEADS}
NAN, INF = math.nan, math.inf
FINITE = r"wanted finite numbers, got NaN or infinity\. Look for them with jnp\.isfinite"


def with_nan(array):
    changed = np.array(array, float)
    changed.flat[1] = NAN
    return changed


def problem(values=XI, labels=LABELS, **changes):
    return sma.Problem(values, labels, **WELL | changes)


def solve(**how):
    return sma.solve(problem(), **how)


def weights(**options):
    return sma.sample_weights(key=jax.random.key(0), **{"layers": HEADS, "width": 3, "features": FEATURES} | options)


def kernel(values=XI, others=XI, order_parameter=UNIT, **options):
    return sma.kernel(values, others, order_parameter, **{"layers": HEADS} | options)


def seen(**options):
    return sma.attentioned_inputs(INPUTS, MATRICES, **options)


SOLVE = [  # before anything is compiled
    (
        lambda: problem(XI[0]),
        r"attentioned: wanted .* of shape \(examples, paths, features\), got .* \(4, 5\)",
    ),
    (lambda: problem(with_nan(XI)), f"attentioned: {FINITE}"),
    (lambda: problem([[[1.0], [2.0, 3.0]]]), "attentioned: wanted real numbers of shape .* got no array"),
    (lambda: problem(XI.astype("float32")), r"attentioned: wanted float64, got float32\. Convert it"),
    (
        lambda: problem(sma.AttentionedInputs(jnp.asarray(XI, "float32"), HEADS)),
        r"attentioned: wanted float64, got float32\. Convert it",
    ),
    (lambda: problem(1j * XI), "attentioned: wanted real numbers .* got complex"),
    (lambda: problem(labels=LABELS[:2]), "labels: wanted the same number in labels .* got 2 and 3"),
    (lambda: problem(labels=LABELS[:, None]), r"labels: wanted shape .*got \(3, 1\)\. Write np\.ravel"),
    (lambda: problem(labels=LABELS > 0), "labels: wanted .* got bool values .*np.where"),
    (lambda: problem(labels=["spam", "ham", "ham"]), r"labels: .*got <U4 values such as .*'spam'.* write np\.where"),
    (
        lambda: problem(labels=[0, 1, 1]),
        r"labels: wanted \+1\.0 and -1\.0, got int64 values .*0.* write np\.where",
    ),
    (lambda: problem(layers=None), r"layers: plain arrays do not say their layers\. Pass layers="),
    (lambda: problem(layers=()), "the set of paths is empty"),
    (lambda: problem(layers=(3, 2)), r"attentioned: .* got 4 and 6"),
    (lambda: problem(temperature=0.0), "temperature: wanted a positive finite .* got 0.0"),
    (lambda: problem(width=(4, 4)), r"width: wanted one number or 3 of them, \(N_1, \.\."),
    (lambda: problem(width=(4, INF, 4)), "width: wanted all widths finite or all inf"),
    (lambda: problem(variance=(1, 1, 0, 1)), r"variance\[2\]: wanted a positive finite number"),
    (lambda: solve(max_steps=1.5), "max_steps: wanted a whole number of at least 1, got 1.5"),
    (lambda: solve(method="adam"), "method: wanted one of auto, dense, products, gradients, got 'adam'"),
    (lambda: solve(start=(UNIT, np.eye(3), 1.0)), r"wanted U\^\(2\) of shape \(2, 2\), got \(3, 3\)"),
]
BAD = [
    *SOLVE,
    (lambda: solve(start=(UNIT, -np.eye(2), 1.0)), r"start\[1\]: wanted a positive semi-definite matrix"),
    (lambda: sma.solve_sweep(problem(), widths=[], temperatures=[1]), "widths: wanted a list"),
    (lambda: kernel(others=XI[..., :2]), r"others: wanted \(paths, features\) = \(4, 5\)"),
    (lambda: kernel(sma.AttentionedInputs(jnp.asarray(XI), HEADS), layers=(4,)), r"already has layers \(2, 2\)"),
    (lambda: kernel(order_parameter=np.eye(3)), r"order_parameter: wanted shape \(4, 4\), got \(3, 3\)"),
    (
        lambda: sma.kernel_regression(sma.Problem(XI, LABELS, layers=HEADS, temperature=1), UNIT).predict(
            XI, paths=[0, 0]
        ),
        r"paths: wanted different indices out of 0\.\.3.* got \[0, 0\]",
    ),
    (lambda: sma.accuracy(LABELS, [1.0, 0.0, 1.0]), r"labels: wanted \+1 or -1 everywhere"),
    (lambda: sma.head_scores(0 * UNIT, layers=HEADS), "order_parameter: wanted an entry other than zero"),
    (lambda: sma.attentioned_inputs(INPUTS), "attention: wanted matrices or a function of the inputs, got none"),
    (
        lambda: sma.attentioned_inputs(INPUTS, [np.stack([one, one]) for one in MATRICES[0]]),
        "layer 1: .*Layers belong outside, examples inside",
    ),
    (lambda: seen(readout=4), r"readout: wanted 'first', .* an index in 0\.\.3, got 4"),
    (lambda: seen(scales=SCALES[:1]), "scales: wanted 2 arrays .* for 2 layers and norm='post', got 1"),
    (lambda: seen(scales=[SCALES[0], -SCALES[1]]), "scales of layer 2: wanted positive numbers .* a smallest one of -"),
    (lambda: seen().keep_heads(((0,), (2,))), r"kept, layer 2: wanted different heads out of 0\.\.1, .* got \(2,\)"),
    (lambda: sma.keep_heads(seen(), [4]), r"kept: wanted different heads, counted through all layers, out of 0\.\.3"),
    (
        lambda: sma.model.attention_matrices(INPUTS[:2], MATRICES),
        r"layer 1: wanted shape \(2, heads, 4, 4\), got \(3, 2, 4, 4\)",
    ),
    (
        lambda: sma.attention_from_products([np.zeros((2, 3, 4))]),
        r"products: wanted \(heads, 4, 4\) in every layer, got",
    ),
    (lambda: sma.forward(weights(), INPUTS, MATRICES[:1]), r"weights: wanted shapes .* for layers=\(2,\), got"),
    (
        lambda: sma.forward(weights()._replace(readout=jnp.ones(4)), INPUTS, MATRICES),
        r"weights: .* got .*\(4,\)\)",
    ),
    (lambda: sma.model.normalisation_scales(weights(), 0 * INPUTS, MATRICES), "norm number 1 meets a token of zeros"),
    (lambda: weights(width=2.5), "width: wanted a whole number of at least 1, got 2.5"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=range(len(BAD)))
def test_bad_input_is_refused_with_a_reason(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert caught.type is ValueError


@pytest.mark.parametrize("call", [solve, kernel, lambda: sma.accuracy(LABELS, LABELS)], ids=range(3))
def test_single_precision_is_refused_with_what_to_call(call):
    message = r"wanted float64, but JAX runs in single precision\. Call .*enable_x64\(\)"
    with jax.enable_x64(False), pytest.raises(ValueError, match=message):
        call()


def test_enable_x64_makes_doubles():
    with jax.enable_x64(False):
        before = jnp.ones(1).dtype
    sma.enable_x64()
    assert (before, jnp.ones(1).dtype) == (jnp.float32, jnp.float64)


def test_inside_transformations_shapes_are_checked_and_values_are_not():
    with pytest.raises(ValueError, match="labels: .* got 2 and 3"):
        jax.jit(lambda xi, labels: sma.solve(problem(xi, labels), throw=False).action)(XI, LABELS[:2])
    with pytest.raises(ValueError, match=r"temperature: wanted one positive number, got an array of shape \(3,\)"):
        jax.jit(lambda heat: sma.solve(problem(temperature=heat), throw=False).action)(LABELS**2)
    assert not jax.jit(lambda x: jnp.array(checks.concrete(x)))(1.0)
    assert np.isnan(jax.jit(lambda x: checks.array("x", x, "rows"))(np.array([NAN]))[0])


def test_whole_numbers_lists_and_booleans_become_doubles():
    found = checks.array("x", [[1, 2], [3, 4]], "rows columns", double=True)
    assert (found.dtype, found.shape) == (jnp.float64, (2, 2))
    assert checks.array("x", np.array([True]), "rows", double=True).dtype == jnp.float64
    assert checks.labels([1, -1], 2, signs=True).tolist() == [1.0, -1.0]
    assert checks.positive("n", INF, infinite=True) == INF and checks.positive("n", np.float32(2)) == 2.0


@pytest.mark.parametrize(
    "value", [0, None, "seed", np.zeros(1, "uint32"), np.zeros(2), jax.random.split(jax.random.key(0))]
)
def test_keys_of_either_style_pass_and_nothing_else(value):
    with pytest.raises(ValueError, match="key: wanted (a|one) JAX random key, got .*(jax.random.key|vmap)"):
        checks.key("key", value)
    for good in (jax.random.key(0), jax.random.PRNGKey(0), np.array([0, 1], "uint32")):
        assert checks.key("key", good) is good
    jax.jit(lambda key: checks.key("key", key))(jax.random.key(0))


@pytest.mark.parametrize("value", [True, np.True_, 0, 6, 1.5, "3", None, NAN, INF])
def test_whole_numbers_between_both_ends_pass_and_nothing_else(value):
    with pytest.raises(ValueError, match="n: wanted a whole number of at least 1 and at most 5, got "):
        checks.whole("n", value, most=5)
    assert [checks.whole("n", good, most=5) for good in (1, 3.0, np.int64(5), np.float32(5))] == [1, 3, 5, 5]
