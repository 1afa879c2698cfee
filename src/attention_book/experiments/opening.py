"""A few draws after hardly any warm-up, which can be drawn again."""

import xarray as xr

from attention_book.experiments.experiment import Recheck, largest_difference
from statmech_attention.sampling import Chains

# Chains forget nothing: draws of the run itself rest on all of its warm-up. An opening does not, and differs for
# another sampler.
OPENING = Chains(draws=4, warmup=2, progress=False, warn=False)
_REPORTED = ("steps", "potential")


def opening_of(found: xr.Dataset) -> xr.Dataset:
    """The recorded part of an opening."""
    axes = ("chain", "opening_draw")
    return xr.Dataset({f"opening_{name}": (axes, found[name].values) for name in _REPORTED})


def recheck_of(found: xr.Dataset, recorded: xr.Dataset) -> Recheck:
    """An opening beside the recorded one."""
    draws, chains = found.sizes["opening_draw"], found.sizes["chain"]
    # Trajectories let rounding grow, which differs between processors.
    return Recheck(f"{draws} draws of {chains} chains", largest_difference(found, recorded), 1e-6)
