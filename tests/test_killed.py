"""Runs killed at any change of their folder come to the same end and leave nothing over."""

import multiprocessing
import os
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import xarray as xr

from attention_book.experiments.experiment import Experiment, Part
from statmech_attention.files import load_state, save_state

ROOT = Path(__file__).resolve().parents[1]
# What Python says it is about to do; each of these changes a folder.
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate"}
UNDER_WAY = (".part", ".lock")  # the only names that anything is written to

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such signal")


@dataclass(frozen=True, kw_only=True)
class Steps(Experiment):
    """Two parts, the second made from the first in steps whose state is kept."""

    name: ClassVar[str] = "steps"
    revision: ClassVar[int] = 1
    double: ClassVar[bool] = False

    @property
    def path(self) -> Path:
        return Path(self.folder) / "steps.nc"

    def make(self, state, progress):
        first = yield Part("first", lambda step: xr.Dataset({"a": ("x", np.arange(5.0))}))

        def second(step):
            path, now = state("second"), (0, first["a"].values)
            if path.exists():
                now = load_state(path, now, {})
            for done in range(int(now[0]), 2):
                now = (done + 1, np.sin(now[1] + done))
                save_state(path, now, {})
            return xr.Dataset({"a": ("x", now[1])})

        return (yield Part("second", second))

    def recheck(self):
        raise NotImplementedError


def steps(folder: Path, die_before: int | None = None) -> None:
    """Run it, and kill the process before its n-th change; only files under way are written to."""
    changes = 0

    def look(event, arguments):
        nonlocal changes
        writes = event == "open" and bool((arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR))
        if writes and str(folder) in str(arguments[0]) and not str(arguments[0]).endswith(UNDER_WAY):
            raise AssertionError(f"written to in place: {arguments[0]}")
        if writes or event in CHANGES:
            changes += 1
            if changes == die_before:
                os.kill(os.getpid(), signal.SIGKILL)

    folder.mkdir(exist_ok=True)
    sys.addaudithook(look)
    Steps(folder=folder).run(progress=False)


def exit_code(context, *arguments) -> int:
    process = context.Process(target=steps, args=arguments)
    process.start()
    process.join(60)
    return process.exitcode


@pytest.fixture
def killed(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import killed

    return killed


@pytest.fixture(scope="module")
def context():
    """Processes forked from one in which all is imported and nothing was computed."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["attention_book.experiments", "statmech_attention.sampling"])
    return found


def test_killed_before_each_of_its_changes_a_run_comes_to_the_same_end(context, killed, tmp_path):
    assert exit_code(context, tmp_path / "alone") == 0
    wanted = killed.end(tmp_path / "alone")
    assert list(wanted) == ["steps.nc"]
    for number in range(1, 1000):
        folder = tmp_path / str(number)
        code = exit_code(context, folder, number)
        if code == 0:  # it makes no more changes than that
            break
        assert code == -signal.SIGKILL
        Steps(folder=folder).run(progress=False)
        assert killed.end(folder) == wanted, f"killed before change {number}"
    assert 10 < number < 200


def without_room(folder: Path, errors) -> None:
    """Run where no file may be longer than a little."""
    import resource  # not on Windows

    resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
    report(folder, errors)


def unprivileged(folder: Path, errors) -> None:
    """Run as a user who may not write to the folder, which root may."""
    if not os.geteuid():
        os.seteuid(65534)
    report(folder, errors)


def report(folder: Path, errors) -> None:
    try:
        Steps(folder=folder).run(progress=False)
    except OSError as error:
        errors.put((type(error).__name__, str(error)))


@pytest.mark.parametrize(("target", "wanted"), [(without_room, "OSError"), (unprivileged, "PermissionError")])
def test_a_folder_that_cannot_be_written_to_is_named_and_stays_empty(context, target, wanted):
    with tempfile.TemporaryDirectory() as folder:  # not below pytest's, which other users may not see
        os.chmod(folder, 0o555 if target is unprivileged else 0o755)
        queue = context.Queue()
        process = context.Process(target=target, args=(Path(folder), queue))
        process.start()
        name, said = queue.get(timeout=60)
        process.join()
        assert name == wanted and folder in said
        assert not [file for file in Path(folder).rglob("*") if file.suffix in (".nc", *UNDER_WAY)]
        if target is without_room:  # and it goes on once there is room
            assert Steps(folder=Path(folder)).run(progress=False).is_file()
