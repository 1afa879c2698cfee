"""Recorded results: written whole, read back the same, and refused with a reason."""

import numpy as np
import pytest
import xarray as xr

from attention_book import results

PARAMETERS = {"widths": [1000, 10], "temperature": 0.01, "task": "hidden_markov", "smoke": True}


@pytest.fixture
def dataset():
    rng = np.random.default_rng(0)
    return xr.Dataset(
        {
            "accuracy": (("width", "draw"), rng.uniform(size=(2, 3)), {"units": "1"}),
            "order_parameter": (("width", "path", "other_path"), rng.normal(size=(2, 4, 4))),
            "label": ("width", ["wide", "narrow"]),
        },
        coords={"width": [1000.0, 10.0]},
        attrs={"title": "a test"},
    )


def test_what_is_read_is_what_was_written(tmp_path, dataset):
    made = {"seed": 3, "wall_seconds": 1.5, "inputs": {"network": "abc"}, "revision": 2, "maker": "theory"}
    path = results.save(dataset, tmp_path / "deep" / "one.nc", parameters=PARAMETERS, **made)
    xr.testing.assert_identical(results.load(path), dataset)
    record = results.record(path)
    assert record["parameters"] == PARAMETERS
    assert {name: record[name] for name in made} == made
    assert {"jax", "numpy", "device", "python", "written", "package"} <= set(record)


def test_current_means_same_parameters_inputs_and_revision(tmp_path, dataset):
    path = tmp_path / "one.nc"
    assert results.reason_to_make(path, PARAMETERS) == "not there" and not results.is_current(path, PARAMETERS)
    results.save(dataset, path, parameters=PARAMETERS, inputs={"network": "abc"}, revision=2)
    made_of = {"inputs": {"network": "abc"}, "revision": 2}
    assert results.is_current(path, PARAMETERS, **made_of)
    assert results.is_current(path, {**PARAMETERS, "widths": np.array([1000, 10])}, **made_of)
    for change, reason in (
        ({"temperature": 0.02}, "temperature was 0.01"),
        ({"more": 1}, "more was not there"),
    ):
        assert results.reason_to_make(path, {**PARAMETERS, **change}, **made_of) == reason
    fewer = {name: value for name, value in PARAMETERS.items() if name != "task"}
    assert results.reason_to_make(path, fewer, **made_of) == "task was hidden_markov"
    for other in ("abd", None):
        assert results.reason_to_make(path, PARAMETERS, inputs={"network": other}, revision=2) == "another network"
    reason = results.reason_to_make(path, PARAMETERS, inputs={"network": "abc"}, revision=3)
    assert reason == "revision 3 has other numbers than 2"


def test_bad_input_is_refused(tmp_path, dataset):
    with pytest.raises(ValueError, match=r"ending in \.nc, got 'one\.pkl'"):
        results.save(dataset, tmp_path / "one.pkl", parameters={})
    with pytest.raises(ValueError, match="got object"):
        results.save(dataset, tmp_path / "one.nc", parameters={"what": object()})
    with pytest.raises(FileNotFoundError, match="no such file"):
        results.load(tmp_path / "none.nc")
    dataset.to_netcdf(tmp_path / "plain.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="without parameters"):
        results.record(tmp_path / "plain.nc")
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("damage", ["{", "[1]", "{}", 3])
def test_a_damaged_record_is_named(tmp_path, dataset, damage):
    path = results.save(dataset, tmp_path / "one.nc", parameters=PARAMETERS)
    with xr.open_dataset(path, engine="h5netcdf") as opened:
        spoiled = opened.load().assign_attrs(provenance=damage)
    spoiled.to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match=r"one\.nc: a damaged record.*Remove this file and run again"):
        results.record(path)
    assert results.reason_to_make(path, PARAMETERS) == "damaged"


def test_numbers_that_are_damaged_are_noticed_where_they_are_read(tmp_path):
    path = results.save(
        xr.Dataset({"a": ("x", np.random.default_rng(2).normal(size=2000))}), tmp_path / "one.nc", parameters={}
    )
    content = bytearray(path.read_bytes())
    content[-8000:-4000] = bytes(4000)  # within what is compressed
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"one\.nc: wanted a netCDF file"):
        results.load(path)
    assert results.reason_to_make(path, {}) == "damaged" and results.record(path)["parameters"] == {}
