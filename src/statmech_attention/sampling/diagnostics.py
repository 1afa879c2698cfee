r"""Draws as a Dataset with split $\hat R$ and effective sizes, and means with their errors."""

import warnings
from typing import Any

import numpy as np
import xarray as xr
from jax.typing import ArrayLike
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

from statmech_attention import checks
from statmech_attention.model.accuracy import Estimate
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.predictor import Prediction

LARGEST_R_HAT = 1.01
SMALLEST_EFFECTIVE_SIZE = 400
_OUTPUTS = ("output", "output_variance")
# The sampler's own numbers by ArviZ's names; those that it has none for keep theirs.
_STATISTICS = {"acceptance": "acceptance_rate", "diverging": "diverging", "steps": "n_steps", "exchanged": "exchanged"}


class MixingWarning(UserWarning):
    """Chains that disagree, or too few independent draws: do not trust what follows from them."""


def estimate(draws: ArrayLike | xr.DataArray) -> Estimate:
    r"""The mean over chains and draws, and its standard error $s / \sqrt{n_\mathrm{eff}}$.

    Args:
        draws: `(chain, draw, ..)`, an array or a variable of a Dataset.

    Returns:
        `Estimate(mean, error)`, each with the remaining axes.

    Raises:
        ValueError: fewer than four draws per chain.
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
    found = count / np.maximum(time, 1 / np.log10(count))
    return np.where(np.ptp(values, axis=(0, 1)) == 0, np.nan, found)


def r_hat(draws: ArrayLike | xr.DataArray) -> np.ndarray:
    r"""Split $\hat R$, the width of all half-chains together relative to that of single ones; 1 if they agree.

    Args:
        draws: `(chain, draw, ..)`, at least two chains.

    Returns:
        One number per remaining axis; NaN if all draws are equal, or one of them is NaN.

    Raises:
        ValueError: one chain, or fewer than four draws.
    """
    values = _values(draws)
    if values.shape[0] < 2:
        raise ValueError(
            "draws: wanted at least 2 chains, since R-hat compares chains, got 1. Sample with Chains(count=4)."
        )
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.asarray(split_gelman_rubin(values))
    return np.where(np.ptp(values, axis=(0, 1)) == 0, np.nan, found)


@checks.objects
def prediction(draws: xr.Dataset) -> Prediction:
    """Mean and variance of the network's output under the posterior, by the laws of total mean and variance.

    The variance is that of `output` over draws, plus the mean of `output_variance` for draws of
    order parameters.

    Args:
        draws: the result of a sampler with test inputs.

    Returns:
        `Prediction(mean, variance)`, each `(examples,)`. For the error of the mean see
        `estimate(draws["output"])`.

    Raises:
        ValueError: draws without test inputs.
    """
    found = draws.get("output")
    if found is None or not {"chain", "draw"} <= set(found.dims) or found.dtype.kind not in "fiu":
        raise ValueError("draws: wanted drawn outputs, got none. Give the sampler test inputs with test=.")
    axes = ("chain", "draw")
    variance = found.var(axes)
    if "output_variance" in draws:
        variance = variance + draws["output_variance"].mean(axes)
    return Prediction(found.mean(axes).values, variance.values)


@checks.objects
def inference_data(draws: xr.Dataset) -> xr.DataTree:
    r"""The draws of a sampler in ArviZ's layout, `(chain, draw, ..)` everywhere.

    ArviZ 1 and arviz-stats take it directly: `arviz.summary(inference_data(draws))`. Earlier
    versions read with `arviz.from_netcdf` the file of `.to_netcdf(path, engine="h5netcdf")`.

    Args:
        draws: the result of a sampler.

    Returns:
        DataTree with the groups `posterior`, order parameters and weights if kept; `predictions`,
        outputs on test inputs; `sample_stats`: `lp`, $\ln p$ up to a constant, `n_steps`,
        `acceptance_rate`, `diverging`. Width, temperature, variances and sampler are attributes.

    Raises:
        ValueError: something else than draws.
    """
    if "order_parameter" not in draws or not {"chain", "draw"} <= set(draws["order_parameter"].dims):
        raise ValueError("draws: wanted draws of a sampler, got a Dataset without drawn order_parameter.")
    drawn = {name: one.transpose("chain", "draw", ...) for name, one in draws.data_vars.items() if "draw" in one.dims}
    statistics = {new: drawn[name] for name, new in _STATISTICS.items() if name in drawn}
    if "potential" in drawn:
        statistics["lp"] = -drawn["potential"]
    others = {*_STATISTICS, *_OUTPUTS, "potential"}
    groups: dict[str, Any] = {
        "posterior": {name: one for name, one in drawn.items() if name not in others},
        "predictions": {name: drawn[name] for name in _OUTPUTS if name in drawn},
        "sample_stats": statistics,
    }
    about = {"inference_library": "statmech_attention", **draws.attrs}
    datasets = {name: xr.Dataset(group, attrs=about) for name, group in groups.items() if group}
    return xr.DataTree.from_dict(datasets)


def dataset(
    found: dict[str, np.ndarray], sampler: str, architecture: Architecture, temperature: float, warn: bool
) -> xr.Dataset:
    """The draws of all chains with their diagnostics."""
    variables = {
        name: (("chain", "draw", *_axes(name, values.ndim - 2, found)), values) for name, values in found.items()
    }
    if "diverging" in found:
        # Counted over the iterations of a draw.
        variables["diverging"] = (("chain", "draw"), found["diverging"] > 0)
    chains, draws = found["order_parameter"].shape[:2]
    result = xr.Dataset(variables, {"chain": np.arange(chains), "draw": np.arange(draws)})
    result = result.assign_attrs(
        sampler=sampler, width=list(architecture.widths), temperature=temperature, variance=list(architecture.variances)
    )
    return _diagnosed(result, ("order_parameter", "output") if "output" in found else ("order_parameter",), warn)


def named_overlaps(overlaps, stages) -> dict:
    """The order parameters of a draw, one per stage, under their names in the Dataset."""
    return {stage.variable: overlap for stage, overlap in zip(stages, overlaps, strict=True)}


def _axes(name: str, count: int, names) -> tuple[str, ...]:
    """Names of the axes after chain and draw of one of the variables `names`."""
    stem, _, layer = name.rpartition("_") if name[-1].isdigit() else (name, "", "")
    suffix = f"_{layer}" if layer else ""
    narrow = f"outputs{suffix}" in names
    known = {
        "order_parameter": (f"path{suffix}", f"other_path{suffix}"),
        "head_order_parameter": (f"head{suffix}", f"partial_path{suffix}", f"other_partial_path{suffix}"),
        "output": ("example", "unit"),
        "output_variance": ("example", "unit"),
        "projection": ("width_1", "feature"),
        "values": (f"head{suffix}", f"{'dimension' if narrow else 'width_out'}{suffix}", f"width_in{suffix}"),
        "outputs": (f"head{suffix}", f"width_out{suffix}", f"dimension{suffix}"),
        "readout": ("width_readout", "unit"),
    }
    return known.get(stem, tuple(f"{name}_axis_{axis}" for axis in range(count)))[:count]


def _diagnosed(draws: xr.Dataset, watched: tuple[str, ...], warn: bool) -> xr.Dataset:
    """The Dataset with `r_hat` and `effective_size` of some variables, and a warning where they are bad."""
    complaints = []
    for name in watched:
        values = draws[name].transpose("chain", "draw", ...)
        rest = values.dims[2:]
        ratio, size = r_hat(values.values), effective_size(values.values)
        draws[f"{name}_r_hat"] = (rest, ratio, {"long_name": f"split R-hat of {name}"})
        draws[f"{name}_effective_size"] = (rest, size, {"long_name": f"effective size of {name}"})
        # Entries that a skip fixes never move; if none does, the chains are stuck.
        moving = np.ptp(values.values, axis=(0, 1)) > 0
        if not moving.any():
            complaints.append(f"no draw of {name} differs from another")
            continue
        worst, fewest = float(ratio[moving].max()), float(size[moving].min())
        if not worst <= LARGEST_R_HAT:
            complaints.append(f"R-hat of {name} up to {worst:.3f} (at most {LARGEST_R_HAT} is good)")
        if not fewest >= SMALLEST_EFFECTIVE_SIZE:
            complaints.append(
                f"effective size of {name} down to {fewest:.0f} (at least {SMALLEST_EFFECTIVE_SIZE} is good)"
            )
    divergent = int(draws["diverging"].sum()) if "diverging" in draws else 0
    if divergent:
        complaints.append(f"{divergent} draws diverged")
    text = "; ".join(complaints)
    if text and warn:
        warnings.warn(
            f"The chains have not mixed: {text}. Take more draws, or more warm-up.", MixingWarning, stacklevel=4
        )
    return draws.assign_attrs(warning=text)


def _values(draws) -> np.ndarray:
    axes = checks.axes(draws)
    values = checks.known("draws", draws, " ".join(("chain", "draw", *map(str, range(2, max(axes, 2))))), finite=False)
    if values.shape[1] < 4:
        raise ValueError(f"draws: wanted at least 4 draws of every chain, (chain, draw, ..), got shape {values.shape}.")
    return values
