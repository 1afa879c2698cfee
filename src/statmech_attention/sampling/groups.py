"""Draws in ArviZ's layout, from which its own diagnostics are computed: `arviz.summary`."""

from typing import Any

import xarray as xr

from statmech_attention import checks

_OUTPUTS = ("output", "output_variance")
# The sampler's own numbers by ArviZ's names; those that it has none for keep theirs.
_STATISTICS = {"acceptance": "acceptance_rate", "diverging": "diverging", "steps": "n_steps", "exchanged": "exchanged"}


@checks.objects
def inference_data(draws: xr.Dataset) -> xr.DataTree:
    r"""The draws of a sampler in ArviZ's layout, `(chain, draw, ..)` everywhere.

    ArviZ from version 1, and its part arviz-stats, take it as it is: `arviz.summary(inference_data(draws))`. Earlier ones read with
    `arviz.from_netcdf` what `.to_netcdf(path, engine="h5netcdf")` writes.

    Args:
        draws: what `posterior`, `tempered_posterior`, `weights_posterior` or `gibbs_posterior` returned.

    Returns:
        DataTree with the groups `posterior`, order parameters and, where they were kept, weights; `predictions`, outputs on test
        inputs where there are any; `sample_stats`, `lp`, $\ln p$ up to a constant, `n_steps`, `acceptance_rate`, `diverging`, as far as the
        sampler has them. Width, temperature, variances and sampler are attributes.

    Raises:
        ValueError: something else than draws.
    """
    if "order_parameter" not in draws or not {"chain", "draw"} <= set(draws["order_parameter"].dims):
        raise ValueError(
            "draws: wanted draws of a sampler, got a Dataset without an order_parameter of every chain and draw."
        )
    drawn = {name: one.transpose("chain", "draw", ...) for name, one in draws.data_vars.items() if "draw" in one.dims}
    statistics = {new: drawn[name] for name, new in _STATISTICS.items() if name in drawn}
    if "potential" in drawn:
        statistics["lp"] = -drawn["potential"]
    told = {*_STATISTICS, *_OUTPUTS, "potential"}
    groups: dict[str, Any] = {
        "posterior": {name: one for name, one in drawn.items() if name not in told},
        "predictions": {name: drawn[name] for name in _OUTPUTS if name in drawn},
        "sample_stats": statistics,
    }
    about = {"inference_library": "statmech_attention", **draws.attrs}
    datasets = {name: xr.Dataset(group, attrs=about) for name, group in groups.items() if group}
    return xr.DataTree.from_dict(datasets)
