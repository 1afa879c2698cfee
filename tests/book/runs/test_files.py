"""Files are there whole or not at all, also after a kill and on a full disk."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr

import statmech_attention as sma
from attention_book.runs.checkpoints import load_state, save_state
from statmech_attention import records
from statmech_attention.records import replacing

SOURCE = Path(__file__).parents[3] / "src"
HANG = """
import sys, time
from statmech_attention.records import replacing
with replacing(sys.argv[1]) as temporary:
    temporary.write_text("half")
    print("there", flush=True)
    time.sleep(60)
"""
# In a process of its own: what went wrong here once ended the process, after the error had been caught.
FILL = """
import gc, resource, sys
from pathlib import Path
import numpy as np, xarray as xr
from attention_book.runs import results
from attention_book.runs.checkpoints import load_state, save_state

folder, numbers = Path(sys.argv[1]), np.random.default_rng(0).random
write = {
    "one.nc": lambda size: results.save(xr.Dataset({"a": ("x", numbers(size))}), folder / "one.nc", parameters={}),
    "state.npz": lambda size: save_state(folder / "state.npz", numbers(size), {}),
}
for one in write.values():
    one(1000)
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
for one in write.values():
    try:
        one(400_000)
    except OSError as error:
        print(error)
    gc.collect()
print(results.load(folder / "one.nc").sizes["x"], len(load_state(folder / "state.npz", np.zeros(0), {})))
print(sorted(file.name for file in folder.iterdir()))
"""


def test_killed_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "one.nc"
    path.write_text("old")
    command, environment = [sys.executable, "-c", HANG, str(path)], os.environ | {"PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout.readline() == "there\n"
        process.send_signal(signal.SIGKILL)
    assert path.read_text() == "old"


def test_failed_write_leaves_what_was_there_and_no_temporary_file(tmp_path):
    path = tmp_path / "folder" / "one"
    with replacing(path) as temporary:
        temporary.write_text("old")
    with pytest.raises(KeyError), replacing(path) as temporary:
        temporary.write_text("new")
        raise KeyError("something")
    assert path.read_text() == "old" and list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_records_and_checkpoints_that_do_not_fit_on_the_disk_leave_the_old_ones(tmp_path):
    command, environment = [sys.executable, "-c", FILL, str(tmp_path)], os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    *errors, sizes, names = done.stdout.splitlines()
    assert len(errors) == 2 and all("could not be written: File too large" in error for error in errors)
    assert sizes == "1000 1000" and names == "['one.nc', 'state.npz']"


@pytest.fixture
def solution():
    inputs = np.random.default_rng(0).normal(size=(6, 4, 3))
    return sma.solve(sma.Problem(inputs, [1, -1, 1, 1, -1, -1], layers=(2, 2), width=4, temperature=0.3))


def test_every_flipped_bit_is_refused_before_a_library_parses_it(solution, tmp_path, monkeypatch):
    path = sma.save(solution, tmp_path / "one.nc")
    content, seal = path.read_bytes(), len("\nSHA-256 \n") + 64
    places = np.random.default_rng(1).integers(len(content), size=40)
    for place, bit in [
        (508, 0),
        *((place, place % 8) for place in places),
        *((-1 - place, 2) for place in range(seal)),
    ]:
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(bit)
        path.write_bytes(flipped)
        with pytest.MonkeyPatch.context() as patch:
            if flipped[-seal:] == content[-seal:]:
                patch.delattr("h5py.File")
            with pytest.raises(ValueError, match="got one that cannot be read .* that were written|their SHA-256"):
                sma.load(path)


def test_flipped_bit_in_an_older_solution_is_refused_or_changes_nothing(old_files):
    path, refused = old_files / "solution.nc", 0
    content, solution = path.read_bytes(), sma.load(path)
    wanted, generator = jax.tree.leaves(solution), np.random.default_rng(1)
    for place, bit in np.stack([generator.integers(len(content), size=100), generator.integers(8, size=100)], 1):
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(bit)
        path.write_bytes(flipped)
        try:
            found = sma.load(path)
        except ValueError:
            refused += 1
            continue
        assert all(map(np.array_equal, jax.tree.leaves(found), wanted)) and found.start == solution.start
        assert found.problem.layers == solution.problem.layers
    assert refused > 10


def test_flipped_bit_in_a_checkpoint_is_refused_or_changes_nothing(tmp_path):
    path, state, settings = tmp_path / "state.npz", [np.arange(3.0), np.int64(2)], {"width": 3}
    save_state(path, state, settings)
    content, refused = path.read_bytes(), 0
    entry = content.index(b"PK\x01\x02")  # in the directory of the archive: versions, flags and method are behind it
    places = [*range(entry, entry + 16), *np.random.default_rng(1).integers(len(content), size=60).tolist()]
    for place in places:
        for bit in range(8):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            try:
                found = load_state(path, state, settings)
            except ValueError as error:
                assert "state.npz: a damaged checkpoint" in str(error)
                refused += 1
                continue
            assert all(map(np.array_equal, found, state))
    assert refused > 100


@pytest.mark.parametrize("here", [{"width": 4, "seed": 1}, {"width": 3}, {"width": 3, "seed": 1, "steps": 2}])
def test_checkpoint_of_a_run_with_other_settings_is_refused(tmp_path, here):
    path, state, settings = tmp_path / "state.npz", [np.arange(3.0)], {"width": 3, "seed": 1}
    save_state(path, state, settings)
    assert np.array_equal(load_state(path, state, dict(reversed(settings.items())))[0], state[0])
    (name,) = (name for name in {**settings, **here} if settings.get(name) != here.get(name))
    with pytest.raises(ValueError, match=f"checkpoint of another run: {name} .* there and .* here. Give another file"):
        load_state(path, state, here)


def test_older_files_are_read(old_files, solution):
    found = sma.load(old_files / "solution.nc")
    np.testing.assert_allclose(found.order_parameter, solution.order_parameter, rtol=1e-6)
    np.testing.assert_array_equal(found.problem.attentioned.values, solution.problem.attentioned.values)
    assert sma.load(old_files / "problem.nc").layers == solution.problem.layers
    without_paths = sma.load(old_files / "without_paths.nc")
    again = sma.solve(without_paths.problem)
    assert float(without_paths.excess) == pytest.approx(0.8839896268440561, abs=1e-12)
    assert float(again.excess) == pytest.approx(0.8839896268440561, abs=1e-9)
    test = without_paths.problem.attentioned
    np.testing.assert_allclose(without_paths.predict(test).mean, again.predict(test).mean, atol=1e-5)


def test_what_save_writes_is_a_netcdf_file(solution, tmp_path):
    path = sma.save(solution, tmp_path / "one.nc")
    with xr.open_dataset(path) as lazy:
        assert lazy["excess"].item() == solution.excess and lazy.attrs["format"] == 1
        np.testing.assert_array_equal(lazy["labels"][2:4], solution.problem.labels[2:4])


@pytest.mark.parametrize(
    ("name", "more", "attributes", "message"),
    [
        ("problem", {}, {"format": 2}, "wanted a file of format 1 or lower, got 2."),
        ("solution", {"curvature": 1.0}, {}, "has curvature, unknown here."),
        ("problem", {}, {"noise": 1.0}, "has noise, unknown here."),
        ("without_paths", {"tokens_more": 1.0}, {}, "has tokens_more, unknown here."),
        ("problem", {"action": 1.0}, {}, "has action, unknown here."),
        ("problem", {"outcome": 0}, {}, "lacks what is needed here .No variable named 'order_parameter'.*"),
    ],
)
def test_file_of_a_newer_version_is_refused(old_files, monkeypatch, name, more, attributes, message):
    path = sma.save(sma.load(old_files / f"{name}.nc"), old_files / "one.nc")
    dataset = records.read_netcdf(path).assign(more)
    monkeypatch.setattr(records, "_FORMAT", attributes.pop("format", 1))
    dataset.attrs = {name: value for name, value in dataset.attrs.items() if name != "fingerprint"} | attributes
    digest = records.fingerprint(dataset.assign(dataset.attrs))
    records.write_netcdf(dataset.assign_attrs(fingerprint=digest), path)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=f"one.nc: {message} Load it with the version that saved it, or a newer one."):
        sma.load(path)


def test_place_that_takes_no_file_is_told(solution, tmp_path):
    (tmp_path / "a.txt").touch()
    (tmp_path / "folder.nc").mkdir()
    places = {"a.txt/x.nc": "no file can be made in", "a.txt/b/x.nc": "no file can be made in", "folder.nc": "Is a dir"}
    if sys.platform == "linux":
        places["/proc/x.nc"] = r"no file can be made in /proc \(.*\)\. Choose another folder"
    for place, why in places.items():
        with pytest.raises(OSError, match=f"{place} could not be written: {why}"):
            sma.save(solution, tmp_path / place)
        with pytest.raises(OSError, match=f"{place} could not be written: {why}"):
            save_state(tmp_path / place, np.zeros(3), {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "folder.nc"]
    with pytest.raises(ValueError, match=r"folder\.nc: wanted a netCDF file, got a folder"):
        sma.load(tmp_path / "folder.nc")


@pytest.mark.parametrize("mask", [0o077, 0o002])
def test_files_follow_the_umask(mask, solution, tmp_path):
    before = os.umask(mask)
    try:
        path = sma.save(solution, tmp_path / "one.nc")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_home_folder_is_the_one_of_the_user(solution, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    sma.save(solution, "~/runs/one.nc")
    assert sma.load("~/runs/one.nc").action == solution.action and (tmp_path / "runs" / "one.nc").is_file()
