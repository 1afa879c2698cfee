"""Draws as a Dataset: chain and draw first, then named axes."""

import numpy as np
import xarray as xr

from statmech_attention.model.architecture import Architecture
from statmech_attention.sampling.diagnostics import diagnosed


def dataset(
    found: dict[str, np.ndarray], sampler: str, layout: Architecture, temperature: float, quiet: bool
) -> xr.Dataset:
    """The draws of all chains with their diagnostics.

    Args:
        found: by name arrays `(chains, draws, ..)`.
        sampler: what drew them.
        layout: the network.
        temperature: $T$.
        quiet: do not warn of bad mixing.
    """
    variables = {name: (("chain", "draw", *_axes(name, values.ndim - 2)), values) for name, values in found.items()}
    if "diverging" in found:
        # Counted over the iterations of a draw.
        variables["diverging"] = (("chain", "draw"), found["diverging"] > 0)
    chains, draws = found["order_parameter"].shape[:2]
    result = xr.Dataset(variables, {"chain": np.arange(chains), "draw": np.arange(draws)})
    result = result.assign_attrs(
        sampler=sampler, width=list(layout.widths), temperature=temperature, variance=list(layout.variances)
    )
    return diagnosed(result, ("order_parameter", "output") if "output" in found else ("order_parameter",), quiet=quiet)


def named_overlaps(overlaps) -> dict:
    """$U^{(1)}, U^{(2)}, ..$ under the names that they have in the Dataset."""
    first, *rest = overlaps
    return {"order_parameter": first} | {f"order_parameter_{layer}": one for layer, one in enumerate(rest, start=2)}


def _axes(name: str, count: int) -> tuple[str, ...]:
    """Names of the axes after chain and draw."""
    kind, _, layer = name.rpartition("_") if name[-1].isdigit() else (name, "", "")
    suffix = f"_{layer}" if layer else ""
    known = {
        "order_parameter": (f"path{suffix}", f"other_path{suffix}"),
        "output": ("example", "unit"),
        "output_variance": ("example", "unit"),
        "projection": ("width_1", "feature"),
        "values": (f"head{suffix}", f"width_out{suffix}", f"width_in{suffix}"),
        "readout": ("width_readout", "unit"),
    }
    return known.get(kind, ())[:count]
