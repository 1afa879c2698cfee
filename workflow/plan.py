"""Results that a configuration asks for, the reasons to make them, and the commands that do.

Run by the Snakefile, and in another process than Snakemake's, which may have an environment of its own:

    python workflow/plan.py jobs < CONFIGURATION (JSON)      the jobs, as JSON
    python workflow/plan.py data < CONFIGURATION             looks whether all images are there, before any job
"""

import functools
import itertools
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attention_book import experiments
from attention_book.experiments.networks import OnNetwork
from attention_book.notebooks import runs
from attention_book.tasks.one_shot_sets import one_shot_suite

RUNS = Path(__file__).resolve().parents[1] / "book" / "runs"
# The experiment of each stage. Those on networks need the stages before them; those `ALONE` have runs listed.
STAGES = {
    "train": experiments.Trained,
    "theory": experiments.Theory,
    "narrow": experiments.NarrowHeads,
    "pruning": experiments.Pruning,
    "evidence_lost": experiments.EvidenceLost,
    "refitted": experiments.Refitted,
    "posterior": experiments.Samples,
    "weights": experiments.Samples,
    "sampling": experiments.HiddenMarkovWeights,
    "skips": experiments.Skips,
    "calibration": experiments.Calibration,
    "evidences": experiments.Evidences,
    "ratio": experiments.Ratio,
    "learning_curve": experiments.LearningCurve,
    "encoder": experiments.EncodedHeads,
    "points": experiments.EncodedPoints,
    "selection": experiments.EncodedSelection,
    "masked": experiments.MaskedEncoder,
    "removed": experiments.RemovedHeads,
    "tuned": experiments.TunedHeads,
    "many_paths": experiments.ManyPaths,
    "learned": experiments.Learned,
    "learned_images": experiments.LearnedImages,
    "dynamics": experiments.Diagram,
}
ALONE = tuple(stage for stage, one in STAGES.items() if not issubclass(one, OnNetwork))
ON_NETWORKS = tuple(stage for stage in STAGES if stage not in ALONE)
# Parameters that each run has to name.
NEEDED = {stage: ("folder",) for stage in ALONE} | {"sampling": ("folder", "widths"), "dynamics": ("folder", "diagram")}
# These share a notebook and differ in a parameter; the notebooks of all others have the stage's name.
SAMPLERS = ("posterior", "weights")
# These run only for networks that name them.
NAMED = ("narrow", "evidence_lost", "refitted", *SAMPLERS)
_COMMON = ("data", "layers", "heads", "kind", "seed")
_NOT_RECORDED = ("folder", "progress")


class Wrong(ValueError):
    """A configuration that cannot be run; the message says which entry, and what to do."""


@dataclass(frozen=True)
class Job:
    """One result."""

    name: str  # of its file, without suffix
    stage: str
    command: list[str]  # arguments that make it, without the executed notebook's path
    needs: list[str]  # names of the results it is computed from
    number: str  # the first that no earlier attempt has
    reason: str | None  # to make it; None if it is current


def jobs(configuration: Mapping[str, Any]) -> list[Job]:
    """All results of a configuration as in `workflow/paper.yaml`, in the order of their needs."""
    _only(configuration, {"folder", "data", "networks", *STAGES}, "configuration")
    alone = any(configuration.get(stage) for stage in ALONE)
    for name in ("folder", "networks"):
        if not configuration.get(name) and not (alone and configuration.get(name) == []):
            raise Wrong(f"{name}: not in the configuration. Start from a copy of workflow/paper.yaml.")
    folder = Path(configuration["folder"]).absolute()
    found: dict[str, Job] = {}

    def add(job: Job, where: str, what: str) -> None:
        if job.name in found:
            raise Wrong(f"{where}: {job.name} is there twice. Give every {what} once.")
        found[job.name] = job

    for network in configuration["networks"]:
        if not isinstance(network, Mapping) or not {"layers", "heads", "seeds"} <= set(network):
            raise Wrong(f"networks: wanted layers, heads and seeds (a list) of each, got {network!r}.")
        # All other entries belong to the training.
        training = set(network) - {"layers", "heads", "kind", "seeds", *ON_NETWORKS}
        own = {**network, "train": {**{name: network[name] for name in training}, **(network.get("train") or {})}}
        for seed in network["seeds"]:
            common = {"data": configuration.get("data", "omniglot"), "seed": seed}
            common |= {name: network[name] for name in ("layers", "heads", "kind") if name in network}
            for stage in ON_NETWORKS:
                if stage in NAMED and stage not in network:
                    continue
                given = {**(configuration.get(stage) or {}), **(own.get(stage) or {})}
                add(_job(folder, stage, common, given, found), "networks", "network and seed")
    for stage in ALONE:
        for run in itertools.chain.from_iterable(_each(stage, run) for run in configuration.get(stage) or ()):
            for job in _jobs_alone(stage, run, found):
                add(job, stage, "run and width")
    return list(found.values())


def _only(entries, allowed, where: str) -> None:
    if not isinstance(entries, Mapping):
        raise Wrong(f"{where}: wanted names with values, got {entries!r}.")
    unknown = sorted(set(map(str, entries)) - set(allowed))
    if unknown:
        raise Wrong(f"{where}: unknown: {', '.join(unknown)}; wanted {', '.join(sorted(allowed))}.")


def _job(folder: Path, stage: str, common: dict, own: dict, before: dict[str, Job]) -> Job:
    known = _known(stage)
    fixed = {"sampler": stage} if stage in SAMPLERS else {}
    _only(own, set(known) - {*_COMMON, *_NOT_RECORDED, *fixed}, stage)
    given = _converted(stage, known, {**common, **own, **fixed})
    experiment = _experiment(stage, folder, known, given)
    needs = [path.stem for path in experiment.sources.values()]
    reason = next((f"{need} comes first" for need in needs if before[need].reason), None)
    return _planned(stage, experiment, given, needs, experiment.reason or reason)


def _each(stage: str, run) -> list[Any]:
    """Runs that one entry stands for: one for each value in a list where the notebook wants one value."""
    known = _known(stage)
    _only(run, set(known) - {"progress"}, stage)
    single = [
        name for name, value in run.items() if isinstance(value, list) and not known[name].type.startswith("list")
    ]
    return [
        {**run, **dict(zip(single, each, strict=True))} for each in itertools.product(*(run[name] for name in single))
    ]


def _jobs_alone(stage: str, run, before: dict[str, Job]) -> list[Job]:
    """Jobs of a run that needs no network; of samples one for every width, made by itself."""
    known = _known(stage)
    if not set(NEEDED[stage]) <= set(run):
        raise Wrong(f"{stage}: wanted {' and '.join(NEEDED[stage])} of each run, got {run!r}.")
    given = _converted(stage, known, run)
    place = Path(given.pop("folder")).absolute()
    # One width is a list of one to the notebook, and a number to the experiment.
    each = [{"widths": [width], "width": width} for width in given["widths"]] if stage == "sampling" else [{}]
    found = []
    for width in each:
        experiment = _experiment(stage, place, known, {**given, **width})
        values = {name: value for name, value in {**given, **width}.items() if name in known}
        needs = [path.stem for path in experiment.sources.values() if path.stem in before]
        reason = next((f"{need} comes first" for need in needs if before[need].reason), None)
        found.append(_planned(stage, experiment, values, needs, experiment.reason or reason))
    return found


def _experiment(stage: str, folder: Path, known: Mapping[str, Any], given: Mapping[str, Any]):
    """The experiment of a job, with the notebook's parameters but for those given."""
    return STAGES[stage].of({name: one.default for name, one in known.items()} | given | {"folder": folder})


def _planned(stage: str, experiment, given: Mapping[str, Any], needs: list[str], reason: str | None) -> Job:
    folder, name = Path(experiment.folder), experiment.path.stem
    return Job(name, stage, _command(_notebook(stage), given, folder), needs, _number(folder, name), reason or None)


def _notebook(stage: str) -> Path:
    return RUNS / f"{'one_shot_sampling' if stage in SAMPLERS else stage}.md"


@functools.cache
def _known(stage: str) -> Mapping[str, Any]:
    return runs.parameters_of(_notebook(stage))


def _converted(stage: str, known: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {name: known[name].convert(value) for name, value in values.items()}
    except runs.Refused as error:
        raise Wrong(f"{stage}: {error}") from None


def _command(notebook: Path, given: Mapping[str, Any], folder: Path) -> list[str]:
    found = [sys.executable, "-m", "attention_book", "run", str(notebook), "--overwrite"]
    for name, value in {**given, "folder": str(folder), "progress": False}.items():
        found += ["-p", f"{name}={_text(value)}"]
    return found


def _text(value) -> str:
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(folder: Path, name: str) -> str:
    """Number of the next attempt: files of earlier ones are kept."""
    numbers = (f"{number:03d}" for number in itertools.count(1))
    return next(number for number in numbers if not any((folder / "executed").glob(f"{name}-{number}.*")))


def main(what: str) -> int:
    configuration = json.load(sys.stdin)
    try:
        if what == "data":
            for one in one_shot_suite(configuration.get("data", "omniglot")).test_sets.values():
                one.task.images.require(range(len(one.task.images.pixels)))
        else:
            print(json.dumps([asdict(job) for job in jobs(configuration)]))
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
