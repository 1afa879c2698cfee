"""Kernels: similarity of two examples, summed over pairs of attention paths, (10), and the share of a head in them."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.layers.chains import Chain, Layers
from statmech_attention.model.architecture import variances
from statmech_attention.model.paths import AttentionedInputs, as_attentioned

DEFINITIONS = ("both", "either")
_ROUNDING = 1e-6  # of the largest entry of an order parameter, which may come from single precision


def kernel_of_paths(
    left: AttentionedInputs, right: AttentionedInputs, order_parameter, variance
) -> Float[Array, "examples *others"]:
    r"""(10) of an order parameter, that of infinite width if None.

    The path-path kernels $C_{\pi\pi'}$ are never formed: a single matrix product over (path, feature) suffices.
    """
    known, axes = variances(variance, len(left.chain.layers)), left.chain.readout.axes
    if order_parameter is None:
        order_parameter = prior_order_parameter(left.chain, known)
    overlap = check_order_parameter(order_parameter, left.chain.partial_paths[0])
    flat = flat_kernel(left, right, overlap, known)
    return flat.reshape(left.values.shape[0], *axes, right.values.shape[0], *axes)


def prior_order_parameter(chain: Chain, variances) -> Float[Array, "paths paths"]:
    r"""$U$ of infinite width, $U^{(l)} = M_l M_l^\top \otimes U^{(l+1)}$ with the mixing $M_l$ of every layer."""
    overlap = variances[-1] * jnp.eye(chain.outputs)
    for layer, variance in zip(reversed(chain.layers), reversed(variances[1:-1]), strict=True):
        mixing = jnp.asarray(layer.mixing(variance**0.5))
        overlap = jnp.kron(mixing @ mixing.T, overlap)
    return overlap


def kernel_scale(attentioned: AttentionedInputs, variance):
    r"""$\sigma_0^2 / (N_0 \prod_l H_l)$, what stands before the sum of (10) once $C$ is written out."""
    chain = attentioned.chain
    return variances(variance, len(chain.layers))[0] / (attentioned.values.shape[-1] * chain.divisor)


def kernel_inputs(attentioned: AttentionedInputs) -> Float[Array, "rows paths features"]:
    """Factors of the kernel: inputs times the gains of their paths, one row and one path per output.

    With several outputs row (example, output) is zero on the paths of other outputs.
    """
    chain, values = attentioned.chain, attentioned.values
    if np.any(chain.path_gains != 1):
        values = values * jnp.asarray(chain.path_gains, values.dtype)[None, :, None]
    return over_outputs(values, chain.outputs)


def over_outputs(values: Float[Array, "examples paths features"], outputs: int) -> Float[Array, "rows all features"]:
    """A row and a path per output, zero where they are of different ones."""
    if outputs == 1:
        return values
    examples, paths, features = values.shape
    spread = jnp.einsum("epi,cd->ecpdi", values, jnp.eye(outputs, dtype=values.dtype))
    return spread.reshape(examples * outputs, paths * outputs, features)


@jax.jit
def flat_kernel(
    left: AttentionedInputs, right: AttentionedInputs, order_parameter, variance
) -> Float[Array, "rows columns"]:
    """The kernel over pairs (example, output)."""
    rows, columns = kernel_inputs(left), kernel_inputs(right)
    weighted = jnp.einsum("eai,ab->ebi", rows, order_parameter)
    product = weighted.reshape(rows.shape[0], -1) @ columns.reshape(columns.shape[0], -1).T
    return kernel_scale(left, variance) * product


def diagonal_kernel(inputs: AttentionedInputs, order_parameter, variance) -> Float[Array, " rows"]:
    """The kernel of each pair (example, output) with itself."""
    rows = kernel_inputs(inputs)
    weighted = jnp.einsum("eai,ab->ebi", rows, order_parameter)
    return kernel_scale(inputs, variance) * jnp.sum(weighted * rows, axis=(1, 2))


def check_order_parameter(order_parameter, paths: int, *, double: bool = True) -> Float[Array, "paths paths"]:
    """Validate $U$, given the number of its rows, paths times outputs: positive semi-definite, float64 if `double`."""
    order_parameter = checks.array("order_parameter", order_parameter, "paths paths", double=double)
    if order_parameter.shape != (paths, paths):
        raise ValueError(f"order_parameter: wanted shape ({paths}, {paths}), got {order_parameter.shape}.")
    check_semi_definite("order_parameter", order_parameter)
    return order_parameter


def check_semi_definite(name: str, matrix) -> None:
    """Raise ValueError unless the matrices are symmetric and positive semi-definite; traced ones pass."""
    if not checks.concrete(matrix):
        return
    known = np.asarray(matrix)
    size, rounding = known.shape[-1], max(_ROUNDING, 4 * float(jnp.finfo(known.dtype).eps))
    rounding *= size**0.5 * float(np.max(np.abs(known)))
    if np.max(np.abs(known - np.swapaxes(known, -1, -2))) > rounding:
        raise ValueError(f"{name}: wanted a symmetric matrix, got one that is not. Take 0.5 * (U + U.T).")
    try:
        np.linalg.cholesky(known.astype(float) + (rounding + np.finfo(float).tiny) * np.eye(size))
    except np.linalg.LinAlgError:
        message = f"{name}: wanted a positive semi-definite matrix, got one with negative eigenvalues."
        raise ValueError(message) from None


def inputs_like(name: str, value, train: AttentionedInputs) -> AttentionedInputs:
    """Validate inputs of the same layers, paths and features as the training inputs."""
    value = as_attentioned(name, value, None if isinstance(value, AttentionedInputs) else train.layers)
    if (train.layers, train.values.shape[1:]) != (value.layers, value.values.shape[1:]):
        raise ValueError(
            f"{name}: wanted (paths, features) = {train.values.shape[1:]} and heads {train.layers}, "
            f"got {value.values.shape[1:]} and {value.layers}."
        )
    return value


def head_scores(order_parameter: ArrayLike, *, layers: Layers, definition: str = "either") -> Float[Array, " heads"]:
    r"""$s_{l,h} \propto \sum_{\pi, \pi'} |U^{\pi\pi'}|$ over pairs of paths through a head, the largest one 1.

    A pair of different paths counts twice. If the paths' coefficients differ, beside a skip, an
    entry counts by its weight in the kernel, $|c_\pi c_{\pi'} U^{\pi\pi'}|$; a skip itself has no
    score.

    Args:
        order_parameter: $U$ of the theory, or of trained weights by (13), `(paths, paths)`, each
            output a path.
        layers: $(H_1, .., H_L)$, or layers of other kinds among them.
        definition: "either": pairs of which at least one path goes through the head; "both": of
            which both do. In eleven networks trained on images "either" ordered the heads by what
            their removal costs, "both" hardly (the book's page on pruning has the numbers).

    Returns:
        `(all heads,)`, in the order of `head_indices`.

    Source: Tiberi et al. (2024), section 4.2, whose code computes "either"; the text reads as
    "both".
    """
    checks.choice("definition", definition, DEFINITIONS)
    layers = Chain.of(layers)
    if not any(layers.heads):
        raise ValueError(f"layers: wanted a layer with heads to score, got none in {layers.shorthand}.")
    through = jnp.asarray(np.repeat(path_heads(layers), layers.outputs, axis=0))
    order_parameter = check_order_parameter(order_parameter, len(through), double=False)
    gains = np.repeat(layers.path_gains, layers.outputs)
    magnitude = jnp.abs(order_parameter) * np.outer(gains, gains)
    if checks.concrete(magnitude) and not np.any(np.asarray(magnitude)):
        raise ValueError("order_parameter: wanted an entry other than zero, got none.")
    scores = jnp.einsum("ph,pq,qh->h", through, magnitude, through)
    if definition == "either":
        scores = (jnp.sum(magnitude, axis=0) + jnp.sum(magnitude, axis=1)) @ through - scores
    return scores / jnp.max(scores)


def path_heads(layers) -> Float[np.ndarray, "paths heads"]:
    """1 where a path goes through a head of the network, 0 elsewhere."""
    layers = Chain.of(layers)
    columns = [layers.path_heads[:, place] == head for place, count in enumerate(layers.heads) for head in range(count)]
    return np.array(columns, float).reshape(-1, layers.paths).T
