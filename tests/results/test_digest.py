"""The fingerprint of a record: its numbers, names and texts count; clocks and the record itself do not."""

import numpy as np
import pytest
import xarray as xr

from attention_book import results
from attention_book.results import digest


def save(path, values=(1.0, 2.0), names=("a", "b"), seconds=3.0, **parameters):
    dataset = xr.Dataset(
        {"numbers": ("entry", np.array(values)), "seconds": ("entry", [seconds, seconds])},
        coords={"entry": list(names)},
    )
    return results.save(dataset, path, parameters=parameters)


def test_what_a_clock_measured_and_the_record_do_not_count(tmp_path):
    wanted = digest(save(tmp_path / "one.nc"))
    assert digest(save(tmp_path / "two.nc", seconds=4.0, width=30)) == wanted


@pytest.mark.parametrize("change", [{"values": (1.0, np.nextafter(2, 3))}, {"names": ("a", "c")}])
def test_a_number_or_a_text_counts(tmp_path, change):
    assert digest(save(tmp_path / "one.nc")) != digest(save(tmp_path / "two.nc", **change))
