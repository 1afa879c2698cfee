r"""Contributions of the paths to an output, and the cost of removing heads from them alone.

Without some heads the output is $\sum_\pi c^\pi \prod_l g_{l,h_l}$ with the path contributions
$c^\pi$ and $g_{l,h} = \sqrt{H_l / H'_l}$ where head $h$ is one of the $H'_l$ that are left in layer
$l$, 0 where it is not. Along a skip connection the factor is 1. `layers` are those of the network,
`bias` is that of its readout.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from statmech_attention import checks
from statmech_attention.layers.chains import Chain, Layers
from statmech_attention.model.network import Weights, path_vectors
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.kernels.of_paths import check_order_parameter, kernel_inputs, kernel_scale
from statmech_attention.theory.kernels.regression import Estimate, hit
from statmech_attention.theory.kernels.similarity import kernel
from statmech_attention.theory.problem import Problem


def path_contributions(network: Any, attentioned: AttentionedInputs) -> Float[Array, "examples paths *outputs"]:
    r"""Return $v^\pi \cdot \xi^\pi(x)$, the terms of (5), of `Weights` or of a network with
    `vectors_for` and `offsets`.
    """
    if isinstance(network, Weights):
        vectors, offsets = path_vectors(network, attentioned), None
    elif hasattr(network, "vectors_for"):
        vectors, offsets = network.vectors_for(attentioned), network.offsets
    else:
        raise ValueError(f"network: wanted Weights or a trained network, got {type(network).__name__}.")
    contributions = jnp.einsum("epi,p...i->ep...", attentioned.values, vectors)
    return contributions if offsets is None else contributions + jnp.asarray(offsets, contributions.dtype)[None]


def predictor_vectors(problem: Problem, order_parameter: ArrayLike) -> Float[Array, "paths features"]:
    r"""Return $v^\pi$ of the mean predictor (9),
    $\langle f(x) \rangle = \sum_\pi v^\pi \cdot \xi^\pi(x)$, of one output.

    $v^\pi = \frac{1}{N_0} c_\pi \sum_{\pi'} c_{\pi'} U^{\pi\pi'} \sum_\mu [(K + T I)^{-1} Y]_\mu\,
    \xi^{\pi'}(x_\mu)$.
    """
    return _vectors(problem, check_order_parameter(order_parameter, problem.attentioned.chain.partial_paths[0]))


@jax.jit
def _vectors(problem: Problem, order_parameter):
    train, variance = problem.attentioned, problem.variance
    gram = kernel(train, train, order_parameter, variance=variance) + problem.temperature * jnp.eye(len(problem.labels))
    coefficients = cho_solve((jnp.linalg.cholesky(gram), True), problem.labels)
    summed = jnp.einsum("e,epi->pi", coefficients, kernel_inputs(train))
    gains = jnp.asarray(train.chain.path_gains)[:, None]
    return gains * (kernel_scale(train, variance) * order_parameter @ summed)


def masked_outputs(
    contributions: ArrayLike, kept: ArrayLike, *, layers: Layers, bias: float = 0.0
) -> Float[np.ndarray, "networks examples *outputs"]:
    r"""Return outputs of the network with only the heads `kept`, `(networks, all heads)` booleans."""
    contributions, layers = checked_contributions(contributions, layers)
    kept = np.asarray(checks.array("kept", kept, "networks heads"), bool)
    checks.same("kept", "columns", kept.shape[1], "the network's heads", sum(layers.heads))
    return np.tensordot(path_gates(layers, kept), contributions, axes=(1, 1)) + bias


def head_drops(contributions: ArrayLike, labels: ArrayLike, *, layers: Layers, bias: float = 0.0) -> Estimate:
    """Return the drop of the accuracy when one head is removed, for every head; positive for a useful one."""
    contributions, layers = checked_contributions(contributions, layers)
    outputs = masked_outputs(contributions, whole_and_without_each(layers), layers=layers, bias=bias)
    hits = hit(outputs, _labels(labels, len(contributions), layers))
    return _estimate(hits[:1] - hits[1:])


def pruning_curve(
    contributions: ArrayLike, labels: ArrayLike, order: ArrayLike | Sequence[int], *, layers: Layers, bias: float = 0.0
) -> Estimate:
    """Return the accuracy against the number of heads removed in `order`, the whole network first."""
    contributions, layers = checked_contributions(contributions, layers)
    labels = _labels(labels, len(contributions), layers)
    removed = checks.indices("order", order, sum(layers.heads), what="heads, counted through all layers,")
    kept = np.ones((len(removed) + 1, sum(layers.heads)), bool)
    for removals, number in enumerate(removed, start=1):
        kept[removals:, number] = False
    return _estimate(hit(masked_outputs(contributions, kept, layers=layers, bias=bias), labels))


def whole_and_without_each(layers: Layers) -> Bool[np.ndarray, "networks heads"]:
    """Masks of heads: the whole network, then the network without each head."""
    count = sum(Chain.of(layers).heads)
    return np.concatenate([np.ones((1, count), bool), ~np.eye(count, dtype=bool)])


def _estimate(samples: Float[np.ndarray, "... examples"]) -> Estimate:
    count = samples.shape[-1]
    spread = samples.std(axis=-1, ddof=1) if count > 1 else np.full(samples.shape[:-1], np.nan)
    return Estimate(samples.mean(axis=-1), spread / math.sqrt(count))


def checked_contributions(contributions, layers) -> tuple[Float[np.ndarray, "..."], Chain]:
    """Contributions `(examples, paths)`, or with an axis of outputs, and the chain of layers."""
    layers = Chain.of(layers)
    axes = "examples paths outputs" if layers.readout.axes else "examples paths"
    contributions = checks.array("contributions", contributions, axes, double=True)
    paths = f"the paths of layers={layers.shorthand}"
    checks.same("contributions", "the paths axis", contributions.shape[1], paths, layers.paths)
    if layers.readout.axes:
        outputs = contributions.shape[2]
        checks.same("contributions", "the outputs axis", outputs, "the network's outputs", layers.outputs)
    return np.asarray(contributions), layers


def _labels(labels, examples: int, layers: Chain):
    axes = layers.readout.axes
    return np.asarray(checks.labels(labels, examples, signs=not axes, axes=axes))


def path_gates(layers, kept) -> Float[np.ndarray, "networks paths"]:
    r"""Factors of the paths' coefficients in networks with only some of the heads; 0 for removed paths.

    $\prod_l \sqrt{H_l / H'_l}$ with the $H'_l$ heads that are left of a layer; along a skip the
    factor is 1.
    """
    layers, start = Chain.of(layers), 0
    factors = np.ones((1, 1))
    for layer, branches in zip(layers.layers, layers.path_branches.T, strict=True):
        rows, place = np.unique(kept[:, start : start + layer.heads], axis=0, return_inverse=True)
        gates = np.zeros((len(rows), layer.branches))
        for gate, row in zip(gates, rows, strict=True):
            left = np.flatnonzero(row).tolist()
            if len(left) >= layer.fewest:
                part = layer.keep(left)
                before = np.asarray(layer.gains)[list(part.branches)]
                gate[list(part.branches)] = (
                    np.asarray(part.layer.gains) / before * np.sqrt(layer.divisor / part.layer.divisor)
                )
        factors = factors * gates[place.reshape(-1)][:, branches]
        start += layer.heads
    return factors
