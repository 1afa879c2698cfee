r"""The law of the order parameters at finite width, in Bartlett's factors.

Given the layer above, the rows of the effective weights are Gaussian, so at every width
$U^{(l)} | U^{(l+1)} \sim \mathcal W_{d_l}(N_l, \Sigma_l / N_l)$ for a layer of heads. In the good coordinates of the action,
$U^{(l)} = A_l A_l^\top$ with $A_l = \sigma_l (I_{H_l} \otimes A_{l+1}) F_l$, the $F_l$ are independent: entry $i$ of the
diagonal, counted from 0, is $\chi_{N_l - i} / \sqrt{N_l}$, what lies below is $\mathcal N(0, 1/N_l)$. Where $N_l$ is
smaller than the number of rows, $F_l$ has only $N_l$ columns and the rest stays as it is. Of a layer with a skip the first
rows are known, and the others have the same law: see `statmech_attention.layers.kind`. Narrow heads have a stage of their own, with a
factor of this law for each of them and $d$ in place of $N_l$: widths below are those of all stages.
"""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import gammaincinv, gammaln, ndtri

from statmech_attention.model.architecture import Architecture
from statmech_attention.sampling._arguments import whole_widths
from statmech_attention.theory.coordinates import Factors, factor_shapes, layer_shares, logarithms


def bartlett(architecture: Architecture) -> Factors:
    """Shapes of the factors of a network with whole, finite widths."""
    return factor_shapes(architecture, whole_widths(architecture))


def chain_potential(
    point: Float[Array, " coordinates"], widths: Float[Array, " stages"], factors: Factors
) -> Float[Array, ""]:
    r"""$\sum_l \frac{N_l}{2} (s_l - d_l)$: half of $N$ times the entropy of (11), less its minimum."""
    terms = jnp.where(logarithms(factors), jnp.expm1(2 * point) - 2 * point, point**2)
    return 0.5 * layer_shares(widths, factors) @ terms


def chain_order_one(point: Float[Array, " coordinates"], factors: Factors) -> Float[Array, ""]:
    r"""$\sum_l \sum_i i \ln F_{l,ii}$: what $-\ln p$ of the chain has besides, and the action leaves out."""
    pieces = zip(factors.places, factors.counts, strict=True)
    return jnp.asarray(np.concatenate([np.pad(place, (0, below)) for place, (_, below) in pieces])) @ point


def prior_constant(widths, factors: Factors) -> float:
    """Constant that makes the two terms above minus the logarithm of a normalised density over points."""
    total = 0.0
    for width, place, (_, below) in zip(np.asarray(widths, float), factors.places, factors.counts, strict=True):
        degrees = width - place
        chi = (degrees / 2 - 1) * math.log(2) + gammaln(degrees / 2) - degrees / 2 * math.log(width) + width / 2
        total += float(np.sum(chi)) - 0.5 * below * math.log(width / (2 * math.pi))
    return total


def prior_points(
    uniforms: Float[np.ndarray, "*points coordinates"], widths, factors: Factors
) -> Float[np.ndarray, "*points coordinates"]:
    """Points of the chain from uniform numbers in (0, 1), by the inverse of its distribution function."""
    found, start = [], 0
    for width, place, (rank, below) in zip(widths, factors.places, factors.counts, strict=True):
        diagonal, lower = np.split(uniforms[..., start : start + rank + below], [rank], axis=-1)
        found += [0.5 * np.log(2 * gammaincinv((width - place) / 2, diagonal) / width), ndtri(lower) / math.sqrt(width)]
        start += rank + below
    return np.concatenate(found, axis=-1)
