"""Little is compiled before the first answer, `quick_jit` is `jax.jit`, and batches suit the backend."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampling import problem

import statmech_attention
import statmech_attention as sma
from statmech_attention import compiling
from statmech_attention.compiling import map_factorisations, quick_jit

# The README's lines up to the data that are solved for, and once more with other numbers.
LINES = """
import jax
import statmech_attention as sma
from statmech_attention.compiling import compilations

sma.enable_x64()

def see(task):
    train_key, test_key, heads_key = jax.random.split(jax.random.key(0), 3)
    train, test = task.sample(train_key, 4), task.sample(test_key, 6)
    attention = sma.attention_from_products(task.heads(heads_key))
    return train.labels, test.labels, *(sma.attentioned_inputs(one.inputs, attention) for one in (train, test))

def answer(labels, test_labels, train, test, U, **numbers):
    return sma.accuracy(sma.predict(sma.Problem(train, labels, **numbers), test, U).mean, test_labels)

def count(function, *arguments, **named):
    before = compilations()
    result = function(*arguments, **named)
    print(compilations() - before)
    return result

small = {"length": 3, "token_size": 4}
seen = count(see, sma.tasks.HiddenMarkov(**small))
other = {"slow": 0.1, "fast": 1, "parallel_noise": 0, "perpendicular_noise": 2.0, "hardness": 3}
seen = count(see, sma.tasks.HiddenMarkov(**small, **other))
import numpy as np
count(answer, *seen, U=np.eye(4), temperature=0.1)
count(answer, *seen, U=2 * np.eye(4), temperature=1, variance=(1, 2.0, 0.5, 3))
"""


def test_little_is_compiled_before_the_first_answer_and_nothing_again_for_other_numbers():
    source = str(Path(statmech_attention.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "JAX_PLATFORMS": "cpu"}
    printed = subprocess.run(
        [sys.executable, "-c", LINES], env=environment, capture_output=True, text=True, check=True
    ).stdout
    see, see_again, predict, predict_again = map(int, printed.split())
    # JAX's own, for a key and its split: 4. Of ours: heads 1; chains, tokens, attention and paths 4
    # for each of two sizes.
    assert see <= 4 + 1 + 2 * 4
    assert see_again == 0
    assert predict == 1
    assert predict_again == 0


@pytest.mark.parametrize("effort", [0, 1])
def test_quick_jit_may_stand_within_any_transformation(effort):
    quick = quick_jit(static=("power",), effort=effort)(lambda x, power: jnp.sin(x) ** power)
    at = np.array([0.3, 0.7])
    np.testing.assert_allclose(quick(at, 2), np.sin(at) ** 2, rtol=1e-14)
    for transformed in (jax.jit, jax.vmap, lambda f: jax.jit(jax.vmap(f)), lambda f: lambda x: jax.lax.map(f, x)):
        np.testing.assert_allclose(transformed(lambda x: quick(x, power=2))(at), np.sin(at) ** 2, rtol=1e-14)
    np.testing.assert_allclose(jax.grad(lambda x: quick(x, 2))(0.3), np.sin(0.6), rtol=1e-14)
    np.testing.assert_allclose(jax.jit(lambda x: x + quick(0.3, 1))(1.0), 1 + np.sin(0.3), rtol=1e-14)  # nothing traced


def test_batches_of_factorisations_as_on_an_accelerator_give_the_same_numbers(monkeypatch, request):
    train, labels, test = problem.inputs(4)
    found = sma.Problem(train, labels, layers=(2, 2), width=5, temperature=problem.TEMPERATURE)
    solution, key = sma.solve(found), jax.random.key(0)

    def numbers():
        jax.clear_caches()  # the backend decides when a function is compiled
        matrices = jnp.tile(jnp.eye(2), (6, 1, 1))
        batched = "f64[4,2,2]" in str(jax.make_jaxpr(lambda x: map_factorisations(jnp.linalg.cholesky, x))(matrices))
        chains = sma.sampling.Chains(count=2, draws=4, warmup=3, warn=False)
        draws = sma.sampling.tempered_posterior(found, key=key, rungs=6, test=test, chains=chains)
        importance = sma.sampling.importance(found, key=key, points=4, test=test, warn=False)
        corrected = sma.sampling.corrected(solution, test)
        predictors = sma.sampling.predictors(draws, found)
        values = {name: draws[name].values for name in draws}
        return batched, jax.tree.leaves((values, importance, corrected, predictors))

    batched, one_by_one = numbers()
    assert not batched
    request.addfinalizer(jax.clear_caches)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(compiling, "_AT_ONCE", 4)  # six rungs are a batch and what remains
    batched, together = numbers()
    assert batched
    for one, other in zip(one_by_one, together, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-12)


def test_a_terminal_shows_that_a_new_shape_is_compiled_and_nothing_else(monkeypatch, capsys):
    inputs, labels = np.random.default_rng(0).normal(size=(4, 1, 2)), np.array([1.0, -1, 1, -1])
    options = {"layers": (1,), "width": 5, "temperature": 0.1}
    one, other = (sma.Problem(inputs[:count], labels[:count], **options) for count in (3, 4))
    monkeypatch.setattr(compiling, "_announced", set())
    sma.solve(one)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for asked, shown in ((one, 0), (other, 1), (other, 0)):
        sma.solve(asked)
        said = capsys.readouterr().err
        assert said.count("compiling the solver") == shown and said.rpartition("\r")[2] == ""
