r"""Worth of heads and blocks to a network of infinite width, without paths: its kernel is linear in their gates.

A gate $g$ multiplies a head's term in (K3), $\sigma_l^2 H_l^{-1} \Omega_h G \Omega_h^\top$. So
$K - \partial K / \partial g$ is the kernel without the head, exactly. The derivatives of all heads are found at once,
a block of pairs of examples at a time, by automatic differentiation of (K3).

A feed-forward block's term is $\sigma_l^2 \Gamma \circ G_{l+1}$, a unit's the part of it with its own gates.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from statmech_attention import checks
from statmech_attention.layers.chains import Layers
from statmech_attention.model.architecture import variances
from statmech_attention.model.tokens import TokenInputs
from statmech_attention.pruning.heads import head_indices
from statmech_attention.theory.kernels.in_blocks import kernel_in_blocks, pulled_in_blocks, slopes_in_blocks
from statmech_attention.theory.kernels.of_paths import check_semi_definite
from statmech_attention.theory.kernels.of_tokens import check_alike
from statmech_attention.theory.kernels.regression import Regression

_NOISE = np.geomspace(1e-4, 1e2, 121)  # T over the kernel's mean


class KernelWorth(NamedTuple):
    r"""Worth of every head to a kernel, counted through the network from the first layer up.

    The slope is no removal where a layer has few heads, since the evidence is not linear in $K$.

    Attributes:
        slopes: $\partial \ln p(Y) / \partial g$ with all heads.
        losses: $\ln p(Y)$ with all heads minus that without the head, by a regression of its own.
        scale: factor of the kernel at which the evidence of all heads is largest.
        temperature: $T$, where it is.
        heads: layer and number of every head, both from 0, if the layers were given.
    """

    slopes: Float[np.ndarray, " heads"]
    losses: Float[np.ndarray, " heads"]
    scale: float
    temperature: float
    heads: Int[np.ndarray, "heads 2"] | None = None


def head_kernels(
    inputs: TokenInputs, others: TokenInputs, *, variance: ArrayLike | Sequence[ArrayLike] = 1.0
) -> Float[np.ndarray, "heads examples others"]:
    r"""Derivatives $\partial K_{\mu\nu} / \partial g$ of all heads, layer by layer from the first, at infinite width.

    Args:
        inputs, others: from `token_inputs`, of the same chain.
        variance: as in `kernel`.

    Raises:
        ValueError: layers whose value matrices are not one for every head, or no head.
    """
    chain = checks.instance("inputs", inputs, TokenInputs).chain
    if any(layer.heads not in (0, layer.value_matrices) for layer in chain.layers):
        raise ValueError(f"layers: wanted one value matrix per head, got {chain.shorthand}.")
    slopes = _slopes(inputs, others, variance)
    each = [part for layer, part in zip(chain.layers, slopes, strict=True) if layer.heads]
    return np.concatenate(_some(each, inputs, "a layer with heads"))


def block_kernels(
    inputs: TokenInputs, others: TokenInputs, *, variance: ArrayLike | Sequence[ArrayLike] = 1.0
) -> Float[np.ndarray, "blocks examples others"]:
    r"""Derivatives $\partial K_{\mu\nu} / \partial g$ of all blocks of `Gated` units, at infinite width.

    A gate multiplies $\sigma_l^2 \Gamma \circ G_{l+1}$, so that $K - \partial K / \partial g$ is the kernel without the
    block, exactly. `kernel_worth` takes them in the place of heads. At a finite width the units of a block move
    together, and a block has no kernel of its own: there take the difference of `log_evidence` without its layer.

    Args:
        inputs, others: from `token_inputs`, of the same chain.
        variance: as in `kernel`.

    Raises:
        ValueError: no layer with gates.
    """
    slopes = _slopes(checks.instance("inputs", inputs, TokenInputs), others, variance)
    each = [part for layer, part in zip(inputs.chain.layers, slopes, strict=True) if layer.gates]
    return np.concatenate(_some(each, inputs, "a Gated layer"))


def unit_slopes(
    inputs: TokenInputs,
    labels: ArrayLike,
    *,
    variance: ArrayLike | Sequence[ArrayLike] = 1.0,
    temperature: float | None = None,
) -> list[Float[np.ndarray, " units"]]:
    r"""Derivatives $\partial \ln p(Y) / \partial g$ in a gate of every unit of every block, from the first layer up.

    That is $\sum_{\mu\nu} W_{\mu\nu}\, \partial K_{\mu\nu} / \partial g$ with $W = \partial \ln p / \partial K$.

    Args:
        inputs: from `token_inputs`.
        labels, temperature: as in `kernel_worth`.
        variance: as in `kernel`.

    Raises:
        ValueError: no layer with gates.
    """
    known = variances(variance, len(checks.instance("inputs", inputs, TokenInputs).chain.layers))
    kernel = known[-1] * kernel_in_blocks(inputs, inputs, known)
    targets, scale, temperature = _fitted(kernel, labels, temperature)
    pull = 0.5 * scale * twice_slope(Regression.of(scale * kernel, temperature, targets), targets)
    slopes = pulled_in_blocks(inputs, known, known[-1] * pull)
    each = [part for layer, part in zip(inputs.chain.layers, slopes, strict=True) if layer.gates]
    return _some(each, inputs, "a Gated layer")


def _some(slopes: list, inputs: TokenInputs, wanted: str) -> list:
    if not slopes:
        raise ValueError(f"inputs: wanted {wanted}, got {inputs.layers}.")
    return slopes


def _slopes(inputs: TokenInputs, others: TokenInputs, variance) -> list[Float[np.ndarray, "_gates examples others"]]:
    """Derivatives in the gates of all seeds, or of a block of units, of every layer from the first."""
    check_alike(inputs, others, "others")
    known, layers = variances(variance, len(inputs.chain.layers)), inputs.chain.layers
    gates = sum(1 if layer.gates else layer.seeds for layer in layers)
    checks.memory("inputs", len(inputs), len(others), 2 * gates, "Take fewer texts.")
    slopes = slopes_in_blocks(inputs, others, known)
    return [known[-1] * part for part in slopes]


def kernel_worth(
    kernel: Float[Array | np.ndarray, "examples examples"],
    heads: Float[Array | np.ndarray, "heads examples examples"],
    labels: ArrayLike,
    *,
    temperature: float | None = None,
    layers: Layers | None = None,
) -> KernelWorth:
    r"""Derivative of $\ln p(Y)$ in the gate of every head, and what is lost without the head.

    Args:
        kernel: $K$ of infinite width, from `kernel`; of one of several outputs.
        heads: from `head_kernels`, or of blocks from `block_kernels`, with the same variance.
        labels: $Y$, `(examples,)` or `(examples, outputs)`.
        temperature: $T$; by default scale and temperature are those of the largest evidence. At
            another scale most of a head's worth is that it makes the kernel larger.
        layers: of the inputs, such as `inputs.layers`, to have the heads' layers in the result.
    """
    kernel, heads = _checked_kernels(kernel, heads)
    targets, scale, temperature = _fitted(kernel, labels, temperature)
    whole = Regression.of(scale * kernel, temperature, targets)
    slopes = 0.5 * scale * np.einsum("hpq,pq->h", heads, twice_slope(whole, targets))
    without = [float(Regression.of(scale * (kernel - head), temperature, targets).nats) for head in heads]
    numbers = None if layers is None else head_indices(layers=layers)
    if numbers is not None:
        checks.same("layers", "layers", len(numbers), "heads", len(heads))
    return KernelWorth(slopes, 0.5 * (np.array(without) - float(whole.nats)), scale, temperature, numbers)


def _fitted(kernel, labels, temperature):
    """Labels, `(examples, outputs)`, with scale and temperature."""
    if temperature is not None:
        temperature = checks.positive("temperature", temperature)
    targets = np.asarray(checks.labels(labels, len(kernel), axes=np.shape(labels)[1:]), float).reshape(len(kernel), -1)
    return targets, *scale_and_temperature(kernel, targets, temperature)


def twice_slope(whole: Regression, targets) -> Float[np.ndarray, "examples examples"]:
    """Twice the derivative of the log evidence in the kernel."""
    solved, inverse = np.asarray(whole.solve(targets)), np.asarray(whole.solve(np.eye(len(targets))))
    return solved @ solved.T - targets.shape[1] * inverse


def _checked_kernels(kernel, heads):
    """Validate a kernel and its derivatives in the gates of heads."""
    kernel = np.asarray(checks.array("kernel", kernel, "examples examples", double=True))
    if len(checks.several("heads", heads)):
        heads = np.asarray(checks.array("heads", heads, "heads examples examples", double=True))
    for name, shape in (("kernel", kernel.shape), ("heads", np.shape(heads)[1:])):
        if shape != 2 * (len(kernel),):
            raise ValueError(f"{name}: wanted {len(kernel)} x {len(kernel)} examples, got {shape}.")
    check_semi_definite("kernel", kernel)
    if not kernel.any():
        raise ValueError("kernel: wanted an entry other than zero, got none.")
    return kernel, heads


def scale_and_temperature(kernel, targets, temperature: float | None) -> tuple[float, float]:
    """Return 1 and the temperature, if given, or those of the largest evidence, where the best scale is known."""
    if temperature is not None:
        return 1.0, temperature
    sizes, vectors = np.linalg.eigh(kernel)
    squares = np.sum((vectors.T @ targets) ** 2, axis=1)
    noise = _NOISE * np.mean(np.diag(kernel))
    spectra = np.maximum(sizes, 0.0) + noise[:, None]
    scales = np.mean(squares / spectra, axis=1) / targets.shape[1]
    place = np.argmin(np.log(scales) + np.mean(np.log(spectra), axis=1))
    return float(scales[place]), float(scales[place] * noise[place])
