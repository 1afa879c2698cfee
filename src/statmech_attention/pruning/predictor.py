r"""The theory's own predictor, path by path: heads are removed from it as from a trained network, without solving anew."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention.layers.chains import Layers
from statmech_attention.model.accuracy import Estimate
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.pruning.heads import head_indices
from statmech_attention.pruning.removal import pruning_curve
from statmech_attention.theory.kernels import (
    check_order_parameter,
    inputs_like,
    kernel,
    kernel_inputs,
    kernel_scale,
)
from statmech_attention.theory.problem import Problem, need_problem


def predictor_vectors(problem: Problem, order_parameter: ArrayLike) -> Float[Array, "paths features"]:
    r"""$v^\pi$ of the mean predictor (9), $\langle f(x) \rangle = \sum_\pi v^\pi \cdot \xi^\pi(x)$: no kernel of test inputs is needed.

    $v^\pi = \frac{1}{N_0} c_\pi \sum_{\pi'} c_{\pi'} U^{\pi\pi'} \sum_\mu [(K + T I)^{-1} Y]_\mu\, \xi^{\pi'}(x_\mu)$.

    Args:
        problem: a `Problem` of one output with a temperature; its width does not matter.
        order_parameter: $U$, `(paths, paths)`.

    Returns:
        `(paths, features)`.

    Raises:
        ValueError: shapes that do not fit each other, $T \le 0$.
    """
    problem = need_problem(problem, "temperature")
    order_parameter = check_order_parameter(order_parameter, problem.attentioned)
    return _vectors(problem, order_parameter)


@jax.jit
def _vectors(problem: Problem, order_parameter):
    train, variance = problem.attentioned, problem.variance
    gram = kernel(train, train, order_parameter, variance=variance) + problem.temperature * jnp.eye(len(problem.labels))
    coefficients = jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(gram), True), problem.labels)
    summed = jnp.einsum("e,epi->pi", coefficients, kernel_inputs(train))
    gains = jnp.asarray(train.chain.path_gains)[:, None]
    return gains * (kernel_scale(train, variance) * order_parameter @ summed)


def predictor_contributions(
    problem: Problem, test: AttentionedInputs | ArrayLike, order_parameter: ArrayLike
) -> Float[Array, "examples paths"]:
    r"""Contribution of each path to the mean predictor (9): $v^\pi \cdot \xi^\pi(x)$ with the vectors of `predictor_vectors`.

    Args:
        problem: a `Problem` of one output with a temperature; its width does not matter.
        test: test inputs.
        order_parameter: $U$, `(paths, paths)`.

    Returns:
        `(test examples, paths)`; their sums over paths are the mean of `predict`.

    Raises:
        ValueError: shapes that do not fit each other, $T \le 0$.
    """
    vectors = predictor_vectors(problem, order_parameter)
    return jnp.einsum("epi,pi->ep", inputs_like("test", test, need_problem(problem).attentioned).values, vectors)


def without_layers(contributions: ArrayLike, labels: ArrayLike, *, layers: Layers) -> Estimate:
    """Accuracy of the whole network, and without all heads of one layer or of all, where skips let the rest through.

    Args:
        contributions: what every path adds to the output, `(examples, paths)`.
        labels: `(examples,)`, every one +1 or -1.
        layers: number of heads in every layer, or layers of other kinds; without a skip nothing passes a layer without heads.

    Returns:
        `Estimate`, each `(layers + 2,)`: whole, without the heads of layer 1, 2, .., without any.

    Raises:
        ValueError: as for `pruning_curve`.
    """
    layer = head_indices(layers)[:, 0]
    orders: list[Any] = [
        [],
        *(np.flatnonzero(layer == number) for number in range(layer.max() + 1)),
        np.arange(len(layer)),
    ]
    curves = [pruning_curve(contributions, labels, order, layers=layers) for order in orders]
    return Estimate(*(np.array([getattr(curve, part)[-1] for curve in curves]) for part in ("mean", "error")))
