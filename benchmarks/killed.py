"""Runs that are killed: do they come to the same end as one that is left alone? `python -m benchmarks.killed`.

A recorded experiment, a recorded sweep over widths, a training and a sampling are killed with SIGKILL at random moments and started
again, until they end. Every attempt is a process of its own, forked from one that has imported everything and computed nothing.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import xarray as xr
from tqdm import tqdm

import statmech_attention as sma
from attention_book import experiments, results
from attention_book.tasks import OneShot, OneShotSuite, TestSet, glyph_split, glyphs
from attention_book.training import train, trained_network
from attention_book.training.path_form import initial
from statmech_attention.sampling import posterior
from statmech_attention.training import save_network

RECORDED = Path(__file__).resolve().parents[1] / "results" / "killed.nc"
MAKER, REVISION = "benchmark of the kills", 1
SAME = "same end"
UNITS = {
    "run": ("", "several kills hit a run before it ends"),
    "moment": ("s", "after the attempt began"),
    "alone": ("s", "what a run takes that is left alone"),
    "kept": ("", "parts, validations or draws that are kept after the kill"),
    "writing": ("", "whether the kill came while a file was being written"),
    "outcome": ("", f"of the whole run: {SAME}, or what else"),
}


class Task(NamedTuple):
    """What is killed.

    Attributes:
        work: goes on with what is in a folder, to the end.
        kept: how much of the work is kept in a folder.
        double: whether in double precision.
    """

    work: Callable[[Path], object]
    kept: Callable[[Path], int]
    double: bool = True


def _suite(_: str) -> OneShotSuite:
    task = OneShot(glyphs(24, 4))
    split = glyph_split(task.images)
    return OneShotSuite(task, split, {"new": TestSet(task, split.test, split.test)})


def experiment(folder: Path) -> Path:
    """Evidences over a few draws of hidden Markov chains."""
    counts = {"seed": 1, "draws": 8, "examples": 12, "test_examples": 20, "points": 8}
    return experiments.Evidences(folder=folder, widths=[10], temperatures=[0.1], **counts).run(progress=False)


def sweep(folder: Path) -> Path:
    """The theory over widths, each started from the next larger one, of a network that was not trained."""
    network = experiments.experiment_file("network", folder, layers=2, heads=2, seed=0)
    if not network.exists():
        attention = trained_network(initial(jax.random.key(7), (2, 2), 16, 8, 192))
        save_network(attention, network, parameters={"made": "at random"}, maker="network")
    names = {"data": "glyphs", "layers": 2, "heads": 2, "kind": "heads", "seed": 0, "suites": _suite}
    counts = {"draws": 2, "examples": 12, "test_examples": 20}
    sweep = experiments.Theory(folder=folder, widths=[10, 30, 100], temperatures=[0.1, 1.0], **names, **counts)
    return sweep.run(progress=False)


def training(folder: Path) -> Path:
    """A small network trained on glyphs, its state kept at every validation."""
    suite = _suite("glyphs")
    options = {"heads": (2, 2), "width": 32, "dimension": 8, "seed": 0, "epochs": 30, "batch": 8, "validate_every": 20}
    found = train(suite.task, suite.split, **options, checkpoint=folder / "state.npz", progress=False)
    return save_network(found.network(), folder / "end.nc", parameters=found.settings)


def sampling(folder: Path) -> Path:
    """Order parameters of a small random problem, the chains' state kept after every block."""
    random = np.random.default_rng(0)
    inputs, labels = random.normal(size=(20, 4, 5)), np.sign(random.normal(size=20))
    options = {"width": 10, "temperature": 0.1, "heads": (2, 2), "warmup": 200, "draws": 1000, "warn": False}
    state = {"checkpoint": folder / "state.npz", "progress": False}
    found = posterior(inputs, labels, key=jax.random.key(0), **options, **state)
    return results.save(found, folder / "end.nc", parameters=options)


def _parts(folder: Path) -> int:
    return sum(len(results.load(file).variables) > 0 for file in folder.glob("checkpoints/*/*.nc"))


def _state(leaf: int, count: Callable[[np.ndarray], int]) -> Callable[[Path], int]:
    """What a state says of how far it is: the leaf, counted from the end where it is negative."""

    def kept(folder: Path) -> int:
        if not (folder / "state.npz").exists():
            return 0
        with np.load(folder / "state.npz") as archive:
            leaves = len(archive.files) - 1
            return int(count(archive[f"leaf_{leaf % leaves}"]))

    return kept


TASKS = {
    "experiment": Task(experiment, _parts),
    "sweep": Task(sweep, _parts),
    "training": Task(training, _state(-2, len), double=False),
    "sampling": Task(sampling, _state(0, int)),
}


def series(name: str, kills: int, folder: Path, seed: int = 0) -> Iterator[dict]:
    """Kill runs of a task and let each come to its end.

    Args:
        name: of the task.
        kills: how many.
        folder: an empty one, for the runs.
        seed: of the moments, which lie anywhere in the time that a run takes that is left alone.

    Yields:
        A row for each kill, as its run has ended.

    Raises:
        RuntimeError: the run that is left alone fails, or two of them have not the same end.
    """
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # XLA warns of every program that it reads
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([part.__module__ for part in (experiments.Theory, posterior, train)])
    random, task = np.random.default_rng([seed, len(name)]), TASKS[name]
    # The first compiles; those that follow read what it compiled.
    again = folder / "again"
    for place in (folder / "alone", again):
        code, alone = attempt(context, task, place, folder / "programs", None)
        if code:
            raise RuntimeError(f"{name}: ended with {code} though nobody killed it")
    wanted = end(again)
    if end(folder / "alone") != wanted:
        raise RuntimeError(f"{name}: two runs that nobody killed have not the same end")
    number = done = 0
    while done < kills:
        place, rows, outcome = folder / f"run{number}", [], SAME
        while True:
            moment = random.uniform(0, alone) if done + len(rows) < kills else None
            code, seconds = attempt(context, task, place, folder / "programs", moment)
            if code is not None:
                break
            writing, before = any(place.rglob("*.part")), rows[-1]["kept"] if rows else 0
            # Of a run that has ended but for what it is to remove, nothing need be kept.
            kept = max(before, task.kept(place)) if _ended(place, wanted) else task.kept(place)
            if kept < before:
                outcome = "lost what was kept"
            facts = {"task": name, "run": number, "moment": seconds, "alone": alone}
            rows.append(facts | {"kept": kept, "writing": writing})
        if code:
            outcome = f"ended with {code}"
        elif end(place) != wanted:
            outcome = "another end"
        yield from ({**row, "outcome": outcome} for row in rows)
        number, done = number + 1, done + len(rows)


def attempt(context, task: Task, folder: Path, programs: Path, moment: float | None) -> tuple[int | None, float]:
    """A process at a task, killed after so many seconds.

    Returns:
        How it ended by itself, None where it was killed; and the seconds.
    """
    begun = context.Event()
    process = context.Process(target=_work, args=(task.work, task.double, folder, programs, begun))
    process.start()
    begun.wait()
    began = time.monotonic()
    process.join(moment)
    alive = process.is_alive()
    process.kill()
    process.join()
    return None if alive else process.exitcode, time.monotonic() - began


def _work(work, double: bool, folder: Path, programs: Path, begun) -> None:
    jax.config.update("jax_enable_x64", double)
    jax.config.update("jax_compilation_cache_dir", str(programs))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    folder.mkdir(parents=True, exist_ok=True)
    begun.set()
    work(folder)


def end(folder: Path) -> dict[str, str]:
    """All files of a folder, and what is in the records among them, but for the times."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): results.digest(file) if file.suffix == ".nc" else "" for file in files}


def _ended(folder: Path, wanted: dict[str, str]) -> bool:
    """True where the result is there and only what it was made of is still to be removed."""
    return wanted.items() <= end(folder).items()


def record(kills: int, path: Path, names=tuple(TASKS)) -> xr.Dataset:
    """Kill runs of every task and record how they end.

    Args:
        kills: of every task.
        path: of the record.
        names: of the tasks.

    Returns:
        What is recorded.
    """
    began, rows = time.monotonic(), []
    with tqdm(total=kills * len(names), unit="kill", disable=None) as bar:
        for name in names:
            with tempfile.TemporaryDirectory(prefix="killed-") as folder:
                for row in series(name, kills, Path(folder)):
                    rows.append(row)
                    bar.update()
    dataset = xr.Dataset({name: ("kill", np.array([row[name] for row in rows])) for name in rows[0]})
    for name, (unit, text) in UNITS.items():
        dataset[name].attrs.update(units=unit, long_name=text)
    from benchmarks.checksums import CHECKSUMS  # which reads this module

    dataset.attrs["checksum"] = CHECKSUMS[MAKER]().ravel()
    about = {"parameters": {"kills": kills}, "revision": REVISION, "maker": MAKER, "seed": 0}
    results.save(dataset, path, **about, wall_seconds=time.monotonic() - began)
    return dataset


def main() -> int:
    """Run the command line; returns 1 if a run that was killed did not come to the same end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.killed", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="of every task (20)")
    parser.add_argument("--output", type=Path, default=RECORDED, metavar="FILE.nc", help="where to write")
    options = parser.parse_args()
    sma.enable_x64()
    dataset = record(options.kills, options.output)
    outcomes = zip(dataset["task"].values.tolist(), dataset["outcome"].values.tolist(), strict=True)
    for (task, outcome), number in Counter(outcomes).items():
        print(f"{number:5d} kills of the {task}: {outcome}")
    print(f"{int(dataset['writing'].sum()):5d} of them in the middle of a file")
    return 0 if (dataset["outcome"] == SAME).all() else 1


if __name__ == "__main__":
    sys.exit(main())
