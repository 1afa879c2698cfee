r"""The action: entropy of the order parameters plus $\alpha$ times the energy of the labels.

Equations (11) and (12). In the good coordinates of `coordinates`, $U^{(l)} = A_l A_l^\top$ with
$A_l = \sigma_l (I_{H_l} \otimes A_{l+1}) F_l$ for layers of heads, the entropy falls apart into independent layers and the
prior is isotropic; only the energy couples them.
"""

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.arguments import Arrays, Attentioned, Layers, Number, Numbers, PerLayer
from statmech_attention.model.architecture import Architecture
from statmech_attention.model.paths import as_attentioned
from statmech_attention.theory import coordinates
from statmech_attention.theory.inverse import point_of
from statmech_attention.theory.kernels import check_order_parameter, flat_kernel


def entropy(
    order_parameters: Arrays, *, width: PerLayer = 1, variance: PerLayer = 1.0, layers: Layers
) -> Float[Array, ""]:
    r"""$\mathcal L = \sum_{l=1}^{L+1} \frac{N_l}{N_{max}} [\mathrm{tr}(\Sigma_l^{-1} U^{(l)}) - \ln\det(\Sigma_l^{-1} U^{(l)})]$, (11).

    $\Sigma_l = \sigma_l^2\, I_{H_l} \otimes U^{(l+1)}$ and $\Sigma_{L+1} = \sigma_a^2$. It is smallest, with
    value $\sum_l d_l N_l / N_{max}$, at the Gaussian-process limit. In general a layer adds
    $\frac{N_l}{N_{max}} [|F_l|^2 - 2 \sum_i \ln F_{l,ii}]$, see `statmech_attention.layers.kind`.

    Heads with a value dimension $d$ have $\Sigma_l = \sigma_l\, \mathrm{blockdiag}(G_1 .. G_H)$, and add for every head
    $\frac{d}{N_{max}} [\mathrm{tr}(\Sigma^{-1} G_h) - \ln\det(\Sigma^{-1} G_h)]$ with $\Sigma = \sigma_l U^{(l+1)}$.

    Args:
        order_parameters: $(U^{(1)}, .., U^{(L)}, U^{(L+1)})$; $U^{(l)}$ is `(paths, paths)` over partial
            paths $(h_l .. h_L)$, the last a scalar, or `(outputs, outputs)`. After $U^{(l)}$ of heads with a value dimension
            $G^{(l)}$, `(heads, partial, partial)`. All positive definite.
        width: $N$ or $(N_1, .., N_{L+1})$; only ratios matter here.
        variance: $\sigma^2$ or $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$.
        layers: $(H_1, .., H_L)$, or layers of other kinds among them.

    Returns:
        A scalar.

    Raises:
        ValueError: wrong shapes or lengths, float32, an order parameter that is not positive definite.

    Source: Tiberi et al. (2024), equations (32), (33).
    """
    architecture = Architecture.of(layers, width, variance)
    shares, factors = coordinates.stacked(architecture.shares), coordinates.full_rank(architecture)
    return coordinates.entropy(point_of(order_parameters, factors), shares, factors)


def energy(
    attentioned: Attentioned,
    labels: Numbers,
    order_parameter: Numbers,
    *,
    temperature: Number,
    variance: PerLayer = 1.0,
    layers: Layers | None = None,
) -> Float[Array, ""]:
    r"""$E(U) = \frac1P [\ln\det(K + T I) + Y^\top (K + T I)^{-1} Y]$, equation (12).

    Up to a constant, $-2/P$ times the log density of the labels under $\mathcal N(0, K + T I)$. With several outputs $Y$ runs
    over pairs (example, output), and so does $K$; $P$ remains the number of examples.

    Args:
        attentioned: training inputs, `AttentionedInputs`, or an array `(examples, paths, features)` with `layers`.
        labels: $Y$, `(examples,)`, or `(examples, outputs)`.
        order_parameter: $U$, `(paths, paths)`, each output a path of its own.
        temperature: $T > 0$.
        variance: $\sigma^2$, or one number a layer with $\sigma_0^2$ first.
        layers: only for plain arrays.

    Returns:
        A scalar; NaN where $K + T I$ is not positive definite.

    Raises:
        ValueError: wrong shapes, NaN or infinity, $T \le 0$, float32.

    Source: Tiberi et al. (2024), equations (12) and (34).
    """
    attentioned = as_attentioned("attentioned", attentioned, layers)
    labels = checks.labels(labels, attentioned.values.shape[0], axes=attentioned.chain.readout.axes)
    temperature = checks.positive("temperature", temperature)
    order_parameter = check_order_parameter(order_parameter, attentioned)
    gram = flat_kernel(attentioned, attentioned, order_parameter, variance)
    return _energy(gram, labels.reshape(-1), temperature) / labels.shape[0]


@jax.jit
def _energy(gram, labels, temperature):
    chol = jnp.linalg.cholesky(gram + temperature * jnp.eye(gram.shape[0]))
    return 2 * jnp.sum(jnp.log(jnp.diagonal(chol))) + labels @ cho_solve((chol, True), labels)


def action(
    attentioned: Attentioned,
    labels: Numbers,
    order_parameters: Arrays,
    *,
    width: PerLayer,
    temperature: Number,
    variance: PerLayer = 1.0,
    layers: Layers | None = None,
) -> Float[Array, ""]:
    r"""$S = \mathcal L + \alpha E$ with $\alpha = P / N_{max}$, equation (11); $P / d_{max}$ for narrow heads in infinitely wide networks.

    Args:
        attentioned: training inputs, `AttentionedInputs`, or an array `(examples, paths, features)` with `layers`.
        labels: $Y$, `(examples,)`, or `(examples, outputs)`.
        order_parameters: $(U^{(1)}, .., U^{(L)}, U^{(L+1)})$ as for `entropy`.
        width: $N$ or $(N_1, .., N_{L+1})$.
        temperature: $T > 0$.
        variance: $\sigma^2$ or $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$.
        layers: only for plain arrays.

    Returns:
        A scalar.

    Raises:
        ValueError: as for `entropy` and `energy`.

    Source: Tiberi et al. (2024), equations (11) and (32).
    """
    attentioned = as_attentioned("attentioned", attentioned, layers)
    alpha = attentioned.values.shape[0] / Architecture.of(attentioned.layers, width, variance).unit
    return entropy(order_parameters, layers=attentioned.layers, width=width, variance=variance) + alpha * energy(
        attentioned, labels, order_parameters[0], temperature=temperature, variance=variance
    )


def gp_order_parameters(layers: Layers, *, variance: PerLayer = 1.0) -> tuple[Float[Array, "..."], ...]:
    r"""The order parameters of the Gaussian-process limit $\alpha \to 0$: $U^{(l)} = \sigma_a^2 \prod_{m \ge l} \sigma_m^2\, I$.

    In general $U^{(l)} = M_l M_l^\top \otimes U^{(l+1)}$ with the mixing $M_l$ of the layer's kind.

    Args:
        layers: $(H_1, .., H_L)$, or layers of other kinds among them.
        variance: $\sigma^2$ or $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$.

    Returns:
        $(U^{(1)}, .., U^{(L)}, U^{(L+1)})$, the last a scalar, or `(outputs, outputs)`.

    Raises:
        ValueError: numbers out of range or of the wrong count.
    """
    factors = coordinates.full_rank(Architecture.of(layers, 1, variance))
    return coordinates.order_parameters(jnp.zeros(factors.coordinates), factors)


def smallest_entropy(architecture: Architecture):
    r"""The entropy at the Gaussian-process limit, $\sum_l d_l N_l / N_{max}$ for layers of heads."""
    counts = coordinates.full_rank(architecture).counts
    return sum(diagonal * share for (diagonal, _), share in zip(counts, architecture.shares, strict=True))
