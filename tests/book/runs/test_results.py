"""Records: written whole, read back the same, and refused with a reason."""

import numpy as np
import pytest
import xarray as xr

from attention_book.runs import results
from statmech_attention.records import read_netcdf, write_netcdf

PARAMETERS = {"widths": [1000, 10], "temperature": 0.01, "task": "hidden_markov", "smoke": True}


@pytest.fixture
def dataset():
    rng = np.random.default_rng(0)
    return xr.Dataset(
        {
            "accuracy": (("width", "draw"), rng.uniform(size=(2, 3)), {"units": "1"}),
            "order_parameter": (("width", "path", "other_path"), rng.normal(size=(2, 4, 4))),
            "label": ("width", ["wide", "narrow"]),
            "seconds": 3.0,
        },
        coords={"width": [1000.0, 10.0]},
        attrs={"title": "a test"},
    )


@pytest.fixture
def saved(tmp_path, dataset):
    return results.save(dataset, tmp_path / "one.nc", parameters=PARAMETERS)


def test_record_that_is_read_is_the_one_that_was_written(tmp_path, dataset):
    made = {"seed": 3, "wall_seconds": 1.5, "inputs": {"network": "abc"}, "revision": 2, "maker": "theory"}
    path = results.save(dataset, tmp_path / "deep" / "one.nc", parameters=PARAMETERS, **made)
    xr.testing.assert_identical(results.load(path), dataset)
    record = results.record(path)
    assert record["parameters"] == PARAMETERS
    assert {name: record[name] for name in made} == made
    assert {"jax", "numpy", "device", "python", "written", "package"} <= set(record)


def test_record_that_a_page_names_is_found_from_another_folder(saved, results_root, monkeypatch):
    monkeypatch.setattr(results, "__file__", str(results_root / "site" / "attention_book" / "runs" / "results.py"))
    page = "../../results/dmft/one.nc"
    with pytest.raises(FileNotFoundError, match=r"\.\./one\.nc: wanted a netCDF file, got no such file"):
        results.load("../one.nc")
    with pytest.raises(FileNotFoundError, match="Run this in a checkout, or set .* STATMECH_ATTENTION_RESULTS to that"):
        results.load(page)
    (results_root / "elsewhere" / "dmft").mkdir(parents=True)
    there = saved.rename(results_root / "elsewhere" / "dmft" / "one.nc")
    monkeypatch.setenv("STATMECH_ATTENTION_RESULTS", str(there.parents[1]))
    assert results.load(page).attrs == {"title": "a test"} and results.record(page)["parameters"] == PARAMETERS
    with pytest.raises(FileNotFoundError, match="elsewhere/dmft/two.nc: wanted a netCDF file"):
        results.load("../../results/dmft/two.nc")
    monkeypatch.delenv("STATMECH_ATTENTION_RESULTS")
    (results_root / "_toc.yml").touch()
    there.parents[1].rename(results_root / "results")
    (results_root / "a" / "b" / "c").mkdir(parents=True)
    monkeypatch.chdir(results_root / "a" / "b" / "c")
    assert results.folder() == results_root / "results" and results.digest(page)


def test_run_notebook_records_its_parameters_and_what_it_reads(tmp_path, dataset, saved):
    cell = {"__annotations__": {"width": int, "network": str, "output": str}, "width": 3, "network": "n", "other": 1}
    record = results.record(
        results.save(dataset, tmp_path / "two.nc", parameters={**cell, "output": "o"}, reads={"network": saved})
    )
    assert record["parameters"] == {"width": 3} and record["inputs"] == {"network": results.digest(saved)}
    assert record["wall_seconds"] > 0


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("one.pkl", {}, r"ending in \.nc, got 'one\.pkl'"),
        ("one.nc", {"what": object()}, "got object"),
        ("one.nc", {"width": np.inf}, "wanted finite numbers"),
    ],
)
def test_record_that_cannot_be_written_is_refused(tmp_path, dataset, name, parameters, message):
    with pytest.raises(ValueError, match=message):
        results.save(dataset, tmp_path / name, parameters=parameters)
    assert not list(tmp_path.iterdir())


def test_file_that_is_no_record_is_refused(tmp_path, dataset):
    with pytest.raises(FileNotFoundError, match="no such file"):
        results.load(tmp_path / "none.nc")
    dataset.to_netcdf(tmp_path / "plain.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="without parameters"):
        results.record(tmp_path / "plain.nc")


@pytest.mark.parametrize("damage", ["{", "[1]", "{}", 3])
def test_record_with_damaged_provenance_is_named(saved, damage):
    write_netcdf(read_netcdf(saved).assign_attrs(provenance=damage), saved)
    with pytest.raises(ValueError, match=r"one\.nc: a damaged record.*Remove this file and run again"):
        results.record(saved)


def test_every_flipped_byte_of_a_record_is_refused(saved):
    content = saved.read_bytes()
    for place in np.random.default_rng(1).integers(len(content), size=40):
        saved.write_bytes(content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :])
        for read in (results.load, results.record):
            with pytest.raises(ValueError, match=r"one\.nc: .* that were written.* Remove this file and run again"):
                read(saved)


def test_every_flipped_bit_of_a_record_of_the_book_is_refused_before_a_library_parses_it(tmp_path):
    whole, generator = tmp_path / "one.nc", np.random.default_rng(1)
    kept = sorted(results.folder().rglob("*.nc"))
    assert len(kept) > 150
    for content in (path.read_bytes() for path in kept):
        seal = content.rindex(b"\nSHA-256 ")
        for place in (generator.integers(seal), len(content) - 1 - generator.integers(len(content) - seal)):
            flipped = bytearray(content)
            flipped[place] ^= 1 << int(generator.integers(8))
            whole.write_bytes(flipped)
            with pytest.MonkeyPatch.context() as patch:
                if flipped[seal:] == content[seal:]:
                    patch.delattr("h5py.File")
                with pytest.raises(ValueError, match=r"one\.nc: .* that were written|their SHA-256"):
                    results.load(whole)


@pytest.mark.parametrize("damaged", [False, True])
def test_record_from_before_files_had_a_last_line_is_read_unless_its_numbers_differ(old_files, damaged):
    path = old_files / "record.nc"
    if damaged:
        content = path.read_bytes()
        place = content.index(np.array([0.1, 0.2]).tobytes())
        path.write_bytes(content[:place] + np.array([0.1, 0.3]).tobytes() + content[place + 16 :])
        with pytest.raises(ValueError, match="other numbers than were written. Remove this file and run again"):
            results.load(path)
    else:
        numbers = {"value": ("width", [0.1, 0.2]), "seconds": 3.0, "label": ("width", ["wide", "narrow"])}
        xr.testing.assert_identical(results.load(path), xr.Dataset(numbers, {"width": [10, 30]}, {"title": "old"}))
        assert results.record(path)["parameters"] == {"width": 3} and results.record(path)["revision"] == 2


def save(path, values=(1.0, 2.0), names=("a", "b"), seconds=3.0, **parameters):
    numbers = {"numbers": ("entry", np.array(values)), "seconds": ("entry", [seconds, seconds])}
    return results.save(xr.Dataset(numbers, {"entry": list(names)}), path, parameters=parameters)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"seconds": 4.0, "width": 30}, True),
        ({"values": (1.0, np.nextafter(2, 3))}, False),
        ({"names": ("a", "c")}, False),
    ],
)
def test_digest_is_that_of_numbers_and_texts_without_clocks(tmp_path, change, same):
    one, other = (results.digest(save(tmp_path / name, **given)) for name, given in (("1.nc", {}), ("2.nc", change)))
    assert (one == other) is same
