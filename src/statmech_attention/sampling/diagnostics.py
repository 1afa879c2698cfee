r"""Draws as a Dataset with split $\hat R$ and effective sizes, and means with their errors."""

import warnings

import numpy as np
import xarray as xr
from jax.typing import ArrayLike
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

from statmech_attention import checks
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.kernels.regression import Estimate, Prediction

LARGEST_R_HAT = 1.01
SMALLEST_EFFECTIVE_SIZE = 400
_STATISTICS = {"steps": "n_steps", "acceptance": "acceptance_rate"}  # of the sampler, as ArviZ calls them


class MixingWarning(UserWarning):
    """Chains that disagree, or too few independent draws: results may be unreliable."""


def estimate(draws: ArrayLike | xr.DataArray) -> Estimate:
    r"""The mean over chains and draws, and its standard error $s / \sqrt{n_\mathrm{eff}}$.

    Args:
        draws: `(chain, draw, ..)`, an array or a variable of a Dataset.

    Returns:
        `Estimate(mean, error)`, each with the remaining axes.
    """
    values = _values(draws)
    spread = values.std(axis=(0, 1), ddof=1)
    error = np.where(spread == 0, 0.0, spread / np.sqrt(effective_size(values)))  # known numbers have no error
    return Estimate(values.mean(axis=(0, 1)), error)


def effective_size(draws: ArrayLike | xr.DataArray) -> np.ndarray:
    r"""Number of independent draws whose mean has the same error.

    Args:
        draws: `(chain, draw, ..)`.

    Returns:
        One number per remaining axis, at most $n \log_{10} n$ for $n$ draws; NaN if all draws are
        equal, since a chain that never moves shows nothing, or one of them is NaN.

    Source: Vehtari et al. (2021), equations (10) to (13) and the bound below them.
    """
    values = _values(draws)
    count = values.shape[0] * values.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        time = count / np.asarray(effective_sample_size(values))
    # Of few draws, or of draws that avoid each other, the estimated correlation time can be negative.
    size = count / np.maximum(time, 1 / np.log10(count))
    return np.where(np.ptp(values, axis=(0, 1)) == 0, np.nan, size)


def r_hat(draws: ArrayLike | xr.DataArray) -> np.ndarray:
    r"""Split $\hat R$, the width of all half-chains together relative to that of single ones; 1 if they agree.

    Args:
        draws: `(chain, draw, ..)`, at least two chains.

    Returns:
        One number per remaining axis; NaN if all draws are equal, or one of them is NaN.
    """
    values = _values(draws)
    if values.shape[0] < 2:
        raise ValueError("draws: wanted at least 2 chains to compare, got 1. Sample with SamplerSettings(chains=4).")
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.asarray(split_gelman_rubin(values))
    return np.where(np.ptp(values, axis=(0, 1)) == 0, np.nan, ratio)


def prediction(draws: xr.Dataset) -> Prediction:
    """Mean and variance of the network's output under the posterior, by the laws of total mean and variance.

    The variance is that of `output` over draws, plus the mean of `output_variance` for draws of
    order parameters. For the error of the mean see `estimate(draws["output"])`.

    Args:
        draws: the result of a sampler with test inputs.

    Returns:
        `Prediction(mean, variance)`, each `(examples,)`.
    """
    checks.instance("draws", draws, xr.Dataset, instead="Give what a sampler returns.")
    if "output" not in draws:
        raise ValueError("draws: wanted drawn outputs, got none. Give the sampler test inputs with test=.")
    axes, variance = ("chain", "draw"), draws["output"].var(("chain", "draw"))
    if "output_variance" in draws:
        variance = variance + draws["output_variance"].mean(axes)
    return Prediction(draws["output"].mean(axes).values, variance.values)


def dataset(
    sampled: dict[str, np.ndarray], sampler: str, architecture: Architecture, temperature: float, warn: bool, **about
) -> xr.Dataset:
    """The draws of all chains, and the sampler's statistics by ArviZ's names; `about` are further attributes."""
    sampled = {_STATISTICS.get(name, name): values for name, values in sampled.items()}
    sampled["lp"] = -sampled.pop("potential")
    variables = {
        name: (("chain", "draw", *_axes(name, values.ndim - 2, sampled)), values) for name, values in sampled.items()
    }
    variables["diverging"] = (("chain", "draw"), sampled["diverging"] > 0)  # counted over the iterations of a draw
    chains, draws = sampled["lp"].shape[:2]
    result = xr.Dataset(variables, {"chain": np.arange(chains), "draw": np.arange(draws)})
    numbers = {"width": list(architecture.widths), "temperature": temperature, "variance": list(architecture.variances)}
    result = result.assign_attrs(sampler=sampler, **numbers, **about)
    return _diagnosed(result, warn)


def named_overlaps(overlaps, stages) -> dict:
    """The order parameters of a draw, one per stage, under their names in the Dataset."""
    return {stage.variable: overlap for stage, overlap in zip(stages, overlaps, strict=True)}


def _axes(name: str, count: int, names) -> tuple[str, ...]:
    """Names of the axes after chain and draw of one of the variables `names`."""
    stem, _, layer = name.rpartition("_") if name[-1].isdigit() else (name, "", "")
    suffix = f"_{layer}" if layer else ""
    width_out = f"dimension{suffix}" if f"outputs{suffix}" in names else f"width_out{suffix}"
    known = {
        "order_parameter": (f"path{suffix}", f"other_path{suffix}"),
        "head_order_parameter": (f"head{suffix}", f"partial_path{suffix}", f"other_partial_path{suffix}"),
        "kernel": ("row", "other_row"),
        "output": ("example", "unit"),
        "output_variance": ("example", "unit"),
        "projection": ("width_1", "feature"),
        "values": (f"head{suffix}", width_out, f"width_in{suffix}"),
        "outputs": (f"head{suffix}", f"width_out{suffix}", f"dimension{suffix}"),
        "readout": ("width_readout", "unit"),
    }
    return known.get(stem, tuple(f"{name}_axis_{axis}" for axis in range(count)))[:count]


def _diagnosed(draws: xr.Dataset, warn: bool) -> xr.Dataset:
    """The Dataset, and a warning where `r_hat` or `effective_size` of order parameter or output are bad."""
    problems = []
    for name in ("order_parameter", "kernel", "output"):
        if name not in draws:
            continue
        values = draws[name].values
        ratio, size = r_hat(values), effective_size(values)
        moving = np.ptp(values, axis=(0, 1)) > 0  # entries that a skip fixes never move; if none does, chains are stuck
        if not moving.any():
            problems.append(f"no draw of {name} differs from another")
        elif not ratio[moving].max() <= LARGEST_R_HAT:
            problems.append(f"R-hat of {name} up to {ratio[moving].max():.3f} (at most {LARGEST_R_HAT} is good)")
        if moving.any() and not size[moving].min() >= SMALLEST_EFFECTIVE_SIZE:
            least = f"(at least {SMALLEST_EFFECTIVE_SIZE} is good)"
            problems.append(f"effective size of {name} down to {size[moving].min():.0f} {least}")
    if divergent := int(draws["diverging"].sum()):
        problems.append(f"{divergent} draws diverged")
    if problems and (modes := draws.attrs.get("modes", 1)) > 1:
        problems.append(f"the density has {modes} modes, which sampling.importance weighs")
    text = "; ".join(problems)
    if text and warn:
        warnings.warn(
            f"The chains have not mixed: {text}. Take more draws, or more warm-up.", MixingWarning, stacklevel=4
        )
    return draws.assign_attrs(warning=text)


def _values(draws) -> np.ndarray:
    values = np.asarray(checks.several("draws", draws, "chains"), float)
    if values.ndim < 2 or values.shape[1] < 4:
        raise ValueError(f"draws: wanted (chain, draw, ..) with at least 4 draws per chain, got shape {values.shape}.")
    return values
