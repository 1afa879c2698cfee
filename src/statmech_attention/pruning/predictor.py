r"""The theory's own predictor, path by path: heads are removed from it as from a trained network, without solving anew."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.arguments import Layers, Number, Numbers
from statmech_attention.model.accuracy import Estimate
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.pruning.heads import head_indices
from statmech_attention.pruning.removal import pruning_curve
from statmech_attention.theory.kernels import check_order_parameter, kernel, kernel_inputs, kernel_scale


@checks.objects
def predictor_vectors(
    attentioned: AttentionedInputs, labels: Numbers, order_parameter: Numbers, *, temperature: Number
) -> Float[Array, "paths features"]:
    r"""$v^\pi$ of the mean predictor (9), $\langle f(x) \rangle = \sum_\pi v^\pi \cdot \xi^\pi(x)$: no kernel of test inputs is needed.

    $v^\pi = \frac{1}{N_0} c_\pi \sum_{\pi'} c_{\pi'} U^{\pi\pi'} \sum_\mu [(K + T I)^{-1} Y]_\mu\, \xi^{\pi'}(x_\mu)$.

    Args:
        attentioned: training inputs; input variance 1.
        labels: `(examples,)`.
        order_parameter: $U$, `(paths, paths)`.
        temperature: $T$.

    Returns:
        `(paths, features)`.

    Raises:
        ValueError: shapes that do not fit each other, $T \le 0$.
    """
    labels = checks.labels(labels, len(attentioned.values))
    order_parameter = check_order_parameter(order_parameter, attentioned)
    return _vectors(attentioned, labels, order_parameter, checks.positive("temperature", temperature))


@jax.jit
def _vectors(train: AttentionedInputs, labels, order_parameter, temperature):
    gram = kernel(train, train, order_parameter) + temperature * jnp.eye(len(labels))
    coefficients = jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(gram), True), labels)
    summed = jnp.einsum("e,epi->pi", coefficients, kernel_inputs(train))
    gains = jnp.asarray(train.chain.path_gains)[:, None]
    return gains * (kernel_scale(train, 1.0) * order_parameter @ summed)


@checks.objects
def predictor_contributions(
    attentioned: AttentionedInputs,
    labels: Numbers,
    attentioned_test: AttentionedInputs,
    order_parameter: Numbers,
    *,
    temperature: Number,
) -> Float[Array, "examples paths"]:
    r"""What each path adds to the mean predictor (9): $v^\pi \cdot \xi^\pi(x)$ with the vectors of `predictor_vectors`.

    Args:
        attentioned: training inputs; input variance 1.
        labels: $Y$, `(training examples,)`.
        attentioned_test: test inputs.
        order_parameter: $U$, `(paths, paths)`.
        temperature: $T > 0$.

    Returns:
        `(test examples, paths)`; their sums over paths are the mean of `predict`.

    Raises:
        ValueError: shapes that do not fit each other, $T \le 0$.
    """
    vectors = predictor_vectors(attentioned, labels, order_parameter, temperature=temperature)
    return jnp.einsum("epi,pi->ep", attentioned_test.values, vectors)


def without_layers(contributions: Numbers, labels: Numbers, *, layers: Layers) -> Estimate:
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
