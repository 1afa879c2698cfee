r"""How well chains have mixed, by the ranks of their draws: for heavy tails, and for scales that differ between chains.

$\hat R$ and effective sizes of ranks instead of values do not change under monotone maps of a draw, and exist where a draw has no
variance. Those of `diagnostics`, by which recorded runs are judged, are of the values themselves.
"""

import numpy as np
from numpyro.diagnostics import gelman_rubin
from scipy.special import ndtri
from scipy.stats import rankdata

from statmech_attention import checks
from statmech_attention.arguments import Numbers
from statmech_attention.sampling.diagnostics import effective_size

_TAILS = (0.05, 0.95)


def rank_r_hat(draws: Numbers) -> np.ndarray:
    r"""Rank-normalised split $\hat R$: the larger one of that of the ranks and that of the ranks of $|\theta - \mathrm{median}|$.

    Args:
        draws: `(chain, draw, ..)`, at least two chains, of at least eight draws.

    Returns:
        One number for each of the remaining axes; 1 where all draws are the same. At most 1.01 is good.

    Raises:
        ValueError: one chain, too few draws, NaN or infinity.

    Source: Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021), section 4.
    """
    values = _halves(_values(draws, chains=2))
    folded = np.abs(values - np.median(values, axis=(0, 1)))
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.maximum(*(gelman_rubin(_normalised(one)) for one in (values, folded)))
    return np.where(np.ptp(values, axis=(0, 1)) == 0, 1.0, found)


def bulk_size(draws: Numbers) -> np.ndarray:
    """How many independent draws would place the middle of the distribution as well: the effective size of the ranks.

    Args:
        draws: `(chain, draw, ..)`, of at least eight draws.

    Returns:
        One number for each of the remaining axes, of all draws where they are the same.

    Raises:
        ValueError: too few draws, NaN or infinity.

    Source: Vehtari et al. (2021), section 4.2.
    """
    return effective_size(_normalised(_halves(_values(draws))))


def tail_size(draws: Numbers) -> np.ndarray:
    """How many independent draws would place the 5 % and 95 % quantiles as well, the worse one of both.

    Args:
        draws: `(chain, draw, ..)`, of at least eight draws.

    Returns:
        One number for each of the remaining axes, of all draws where they are the same.

    Raises:
        ValueError: too few draws, NaN or infinity.

    Source: Vehtari et al. (2021), section 4.3.
    """
    values = _values(draws)
    quantiles = np.quantile(values, _TAILS, axis=(0, 1))
    lower, upper = (effective_size(_halves((values <= one).astype(float))) for one in quantiles)
    return np.asarray(np.minimum(lower, upper))


def _normalised(values: np.ndarray) -> np.ndarray:
    """Normal scores of the ranks among all draws (Blom 1958), equal ones in the middle of their ranks."""
    count = values.shape[0] * values.shape[1]
    ranks = rankdata(values.reshape(count, -1), axis=0)
    return ndtri((ranks - 0.375) / (count + 0.25)).reshape(values.shape)


def _halves(values: np.ndarray) -> np.ndarray:
    """Either half of every chain as a chain of its own; of an odd number of draws without the middle one."""
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, -half:]])


def _values(draws, chains: int = 1) -> np.ndarray:
    axes = checks.axes(draws)
    values = checks.known("draws", draws, " ".join(("chain", "draw", *map(str, range(2, max(axes, 2))))))
    if values.shape[0] < chains or values.shape[1] < 8:
        raise ValueError(
            f"draws: wanted at least {chains} chains of at least 8 draws, (chain, draw, ..), got shape {values.shape}."
        )
    return values
