"""Part of a record, computed again: how far it is from what was recorded."""

from typing import NamedTuple

import numpy as np
import xarray as xr


class Again(NamedTuple):
    """Part of a record, computed again.

    Attributes:
        what: was computed, in a few words.
        difference: the largest one from the record, relative to the largest number of a variable.
        tolerance: what it may be.
    """

    what: str
    difference: float
    tolerance: float


def difference(found, recorded) -> float:
    """The largest difference of two arrays, relative to the largest finite number of the second; infinite for other shapes."""
    found, recorded = np.asarray(found, float), np.asarray(recorded, float)
    if found.shape != recorded.shape:
        return np.inf
    # Infinite and undefined entries are equal or they are not.
    differ = ~((found == recorded) | (np.isnan(found) & np.isnan(recorded)))
    if not differ.any():
        return 0.0
    size = np.max(np.abs(recorded), where=np.isfinite(recorded), initial=np.finfo(float).tiny)
    largest = float(np.max(np.abs(found[differ] - recorded[differ])) / size)
    return np.inf if np.isnan(largest) else largest


def largest_difference(found: xr.Dataset, recorded: xr.Dataset, names) -> float:
    """The largest `difference` of some variables."""
    return max(difference(found[name].values, recorded[name].values) for name in names)
