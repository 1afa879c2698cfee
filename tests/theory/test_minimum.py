"""Which second derivatives the solver takes: measured costs decide, the minimum does not depend on it."""

import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention.model.architecture import architecture
from statmech_attention.theory import minimum
from statmech_attention.theory.action import coordinate_count
from statmech_attention.theory.derivatives import dense_hessian, entropy_curvature
from statmech_attention.theory.minimum import is_dense, problem_of


@pytest.mark.parametrize(
    "examples, paths, features, dense",
    [(100, 4, 231, True), (600, 16, 87, True), (600, 27, 87, True), (600, 64, 87, False)],
)
def test_the_papers_networks_but_the_one_of_64_paths_are_solved_with_the_dense_hessian(
    examples, paths, features, dense
):
    values = np.broadcast_to(0.0, (examples, paths, features))
    assert is_dense("auto", values) is dense
    assert is_dense("dense", values) and not is_dense("products", values)


def test_the_entropys_hessian_is_its_curvature_and_nothing_beside():
    """Without labels and inputs the energy is constant: the Hessian of the action is that of the entropy."""
    layout = architecture((2, 3), (7, 5, 9), 1.3)
    xi = sma.AttentionedInputs(jnp.zeros((4, 6, 2)), (2, 3))
    problem = problem_of(xi.values, xi, jnp.zeros(4), 0.5, layout)
    point = jnp.asarray(np.random.default_rng(5).normal(size=coordinate_count(layout)))
    hessian = dense_hessian(point, problem, layout)[2]
    np.testing.assert_allclose(hessian, np.diag(entropy_curvature(point, problem, layout)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("heads", [(2, 3), (2, sma.SkipHeads(1), sma.Outputs(2))])
def test_products_in_single_precision_lead_to_the_same_minimum(monkeypatch, heads):
    rng = np.random.default_rng(6)
    paths, outputs = (6, ()) if heads == (2, 3) else (4, (2,))
    problem = rng.normal(size=(9, paths, 4)), rng.normal(size=(9, *outputs))
    options = {"heads": heads, "width": 5.0, "temperature": 0.1, "method": "products"}
    double = sma.solve(*problem, **options)
    monkeypatch.setattr(minimum, "_LARGEST_DOUBLE", 0)
    minimum.minimise_action.clear_cache()
    single = sma.solve(*problem, **options)
    assert float(single.gradient_norm) <= 1e-8
    np.testing.assert_allclose(single.order_parameter, double.order_parameter, rtol=0, atol=1e-7)
    # Not the same steps: the other precision was really used.
    assert float(single.gradient_norm) != float(double.gradient_norm)
    minimum.minimise_action.clear_cache()
