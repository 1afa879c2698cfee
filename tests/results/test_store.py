"""Recorded results: written whole, read back the same, and refused with a reason."""

import numpy as np
import pytest
import xarray as xr

from statmech_attention import results
from statmech_attention.results import provenance

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
    path = results.save(dataset, tmp_path / "deep" / "one.nc", parameters=PARAMETERS, seed=3, wall_seconds=1.5)
    xr.testing.assert_identical(results.load(path), dataset)
    record = results.record(path)
    assert record["parameters"] == PARAMETERS
    assert (record["seed"], record["wall_seconds"]) == (3, 1.5)
    assert record["source"] == provenance.source_hash()
    assert {"jax", "numpy", "device", "python", "written", "package"} <= set(record)


def test_nothing_but_the_result_is_left_behind(tmp_path, dataset):
    results.save(dataset, tmp_path / "one.nc", parameters={})
    results.save(dataset.isel(draw=[0]), tmp_path / "one.nc", parameters={})
    assert [file.name for file in tmp_path.iterdir()] == ["one.nc"]
    assert results.load(tmp_path / "one.nc").sizes["draw"] == 1


def test_a_failed_write_keeps_the_old_result(tmp_path, dataset, monkeypatch):
    path = results.save(dataset, tmp_path / "one.nc", parameters={})

    def broken(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(xr.Dataset, "to_netcdf", broken)
    with pytest.raises(OSError, match="no space left"):
        results.save(dataset, path, parameters={"other": 1})
    monkeypatch.undo()
    assert results.record(path)["parameters"] == {}
    assert [file.name for file in tmp_path.iterdir()] == ["one.nc"]


def test_current_means_same_parameters_and_same_source(tmp_path, dataset, monkeypatch):
    path = tmp_path / "one.nc"
    assert not results.is_current(path, PARAMETERS)
    results.save(dataset, path, parameters=PARAMETERS)
    assert results.is_current(path, PARAMETERS)
    assert results.is_current(path, {**PARAMETERS, "widths": np.array([1000, 10])})
    assert not results.is_current(path, {**PARAMETERS, "temperature": 0.02})
    monkeypatch.setattr(provenance, "source_hash", lambda: "another source")
    assert not results.is_current(path, PARAMETERS)


def test_a_confirmed_record_stands_though_the_code_changed(tmp_path, dataset, monkeypatch):
    path = results.save(dataset, tmp_path / "one.nc", parameters=PARAMETERS, seed=3, modules=["kernels"])
    monkeypatch.setattr(results.store, "_source", lambda modules: "another")
    assert not results.is_current(path, PARAMETERS)
    before = results.record(path)
    results.confirm(path, how="a row of it", difference=1e-12)
    assert results.is_current(path, PARAMETERS) and not results.is_current(path, {})
    after = results.record(path)
    (said,) = after.pop("confirmed")
    assert before.pop("confirmed") == [] and after == before
    assert (said["source"], said["how"], said["difference"]) == ("another", "a row of it", 1e-12)
    xr.testing.assert_identical(results.load(path), dataset)
    monkeypatch.setattr(results.store, "_source", lambda modules: "a third")
    assert not results.is_current(path, PARAMETERS)
    for wrong in (float("nan"), -1.0):
        with pytest.raises(ValueError, match="difference: wanted a finite number"):
            results.confirm(path, how="", difference=wrong)


def test_a_truncated_file_is_named_and_not_used(tmp_path, dataset):
    path = results.save(dataset, tmp_path / "one.nc", parameters=PARAMETERS)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match=r"one\.nc: wanted a netCDF file"):
        results.load(path)
    assert not results.is_current(path, PARAMETERS)


def test_bad_input_is_refused(tmp_path, dataset):
    with pytest.raises(ValueError, match=r"ending in \.nc, got 'one\.pkl'"):
        results.save(dataset, tmp_path / "one.pkl", parameters={})
    with pytest.raises(ValueError, match="got object"):
        results.save(dataset, tmp_path / "one.nc", parameters={"what": object()})
    with pytest.raises(ValueError, match="provenance"):
        results.save(dataset.assign_attrs(provenance="mine"), tmp_path / "one.nc", parameters={})
    with pytest.raises(FileNotFoundError, match="no recorded result"):
        results.load(tmp_path / "none.nc")
    dataset.to_netcdf(tmp_path / "plain.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="without parameters"):
        results.record(tmp_path / "plain.nc")
    assert not list(tmp_path.glob("*.part"))
