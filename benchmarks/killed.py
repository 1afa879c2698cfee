"""Kill runs at random moments and compare their ends: `python -m benchmarks.killed`.

A recorded experiment, a recorded sweep over widths, a training and a sampling are killed with
SIGKILL and started again until they end. Every attempt is a process of its own, forked from one
that has imported everything and computed nothing.
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
from tqdm import tqdm

import statmech_attention as sma
from attention_book import experiments, results
from attention_book.tasks import OneShot, OneShotSuite, TestSet, glyph_split, glyphs
from attention_book.training import save_network, train, trained_network
from attention_book.training.path_form import initial
from benchmarks import table
from statmech_attention.sampling import Chains, posterior
from statmech_attention.theory.problem import Problem

RECORDED, MAKER = table.RESULTS / "killed.nc", "benchmark of the kills"
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
    """Work that continues in a folder, a count of what is kept there, and its precision."""

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
    """The theory of an untrained network over widths, each started from the next larger one."""
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
    options = {"layers": (2, 2), "width": 32, "dimension": 8, "seed": 0, "epochs": 30, "batch": 8, "validate_every": 20}
    found = train(suite.task, suite.split, **options, checkpoint=folder / "state.npz", progress=False)
    return save_network(found.network(), folder / "end.nc", parameters=found.settings)


def sampling(folder: Path) -> Path:
    """Order parameters of a small random problem, the chains' state kept after every block."""
    random = np.random.default_rng(0)
    inputs, labels = random.normal(size=(20, 4, 5)), np.sign(random.normal(size=20))
    problem = {"width": 10, "temperature": 0.1, "layers": (2, 2)}
    chains = {"warmup": 200, "draws": 1000, "warn": False}
    state = {"checkpoint": folder / "state.npz", "progress": False}
    found = posterior(Problem(inputs, labels, **problem), key=jax.random.key(0), chains=Chains(**chains, **state))
    return results.save(found, folder / "end.nc", parameters=chains)


def _parts(folder: Path) -> int:
    return sum(len(results.load(file).variables) > 0 for file in folder.glob("checkpoints/*/*.nc"))


def _state(leaf: int, count: Callable[[np.ndarray], int]) -> Callable[[Path], int]:
    """Return a count of what a state holds, from one leaf of it."""

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
    """Kill runs of a task, let each come to its end, and yield a row per kill."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # XLA warns of every program that it reads
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([part.__module__ for part in (experiments.Theory, posterior, train)])
    random, task, number, done = np.random.default_rng([seed, len(name)]), TASKS[name], 0, 0
    # The first compiles; those that follow read what it compiled.
    for place in (folder / "alone", folder / "again"):
        code, alone = attempt(context, task, place, folder / "programs", None)
    wanted = end(place)
    if code or end(folder / "alone") != wanted:
        raise RuntimeError(f"{name}: left alone, a run ended with {code}, or two have different ends")
    while done < kills:
        place, rows, code, lost = folder / f"run{number}", [], None, False
        while code is None:
            moment = random.uniform(0, alone) if done + len(rows) < kills else None
            code, seconds = attempt(context, task, place, folder / "programs", moment)
            if code is None:
                writing, before = any(place.rglob("*.part")), rows[-1]["kept"] if rows else 0
                # If only what the result was made of is still to be removed, nothing need be kept.
                ended = wanted.items() <= end(place).items()
                kept = max(before, task.kept(place)) if ended else task.kept(place)
                lost |= kept < before
                facts = {"task": name, "run": number, "moment": seconds, "alone": alone}
                rows.append(facts | {"kept": kept, "writing": writing})
        outcome = "lost what was kept" if lost else SAME
        if code or end(place) != wanted:
            outcome = f"ended with {code}" if code else "another end"
        yield from ({**row, "outcome": outcome} for row in rows)
        number, done = number + 1, done + len(rows)


def attempt(context, task: Task, folder: Path, programs: Path, moment: float | None) -> tuple[int | None, float]:
    """Run a task, killed at a moment; return its exit code, None if it was killed, and its time."""
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
    """Return the files of a folder, with the digest of each record, which leaves out times."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): results.digest(file) if file.suffix == ".nc" else "" for file in files}


def checksum() -> np.ndarray:
    """Actions of the sweep that is killed, left alone."""
    with tempfile.TemporaryDirectory() as folder:
        return results.load(sweep(Path(folder)))["action"].values


def main() -> int:
    """Kill, record and count; return 1 if a run that was killed did not come to the same end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.killed", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="number of kills of each task (20)")
    kills, began, rows = parser.parse_args().kills, time.monotonic(), []
    sma.enable_x64()
    for name in TASKS:
        with tempfile.TemporaryDirectory(prefix="killed-") as folder:
            rows += tqdm(series(name, kills, Path(folder)), total=kills, desc=name, unit="kill")
    about = {"dimension": "kill", "parameters": {"kills": kills}, "revision": 1}
    table.write(RECORDED, rows, UNITS, maker=MAKER, checksum=checksum(), began=began, **about)
    for (task, outcome), number in Counter((row["task"], row["outcome"]) for row in rows).items():
        print(f"{number:5d} kills of the {task}: {outcome}")
    return int(any(row["outcome"] != SAME for row in rows))


if __name__ == "__main__":
    sys.exit(main())
