"""The main functions can be compiled for accelerators, which needs none of them."""

import jax
import numpy as np
import pytest
from jax import export

import statmech_attention as sma


def solved(problem):
    return sma.solve(problem, throw=False)


def log_evidence(problem):
    return sma.log_evidence(solved(problem), corrected=True)


def predicted(problem):
    return solved(problem).predict(problem.attentioned)


def seen(inputs):
    attention = sma.attention_from_products([np.ones((2, 3, 3))] * 2)
    return sma.attentioned_inputs(inputs, attention).values


@pytest.mark.parametrize("function", [solved, predicted, log_evidence, jax.grad(log_evidence), seen])
def test_a_function_is_lowered_for_cuda_and_tpu(function):
    random = np.random.default_rng(0)
    inputs, labels = random.normal(size=(5, 4, 3)), np.sign(random.normal(size=5))
    problem = sma.Problem(inputs, labels, layers=(2, 2), width=10, temperature=0.1)
    given = jax.numpy.asarray(inputs) if function is seen else problem
    lowered = jax.jit(lambda *leaves: jax.tree.leaves(function(jax.tree.unflatten(jax.tree.structure(given), leaves))))
    found = export.export(lowered, platforms=("cuda", "tpu"))(*map(jax.numpy.asarray, jax.tree.leaves(given)))
    assert found.platforms == ("cuda", "tpu") and len(found.mlir_module()) > 1000
