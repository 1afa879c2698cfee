"""Which recorded results a configuration asks for, which of them are out of date, and the commands that make them.

Run by the Snakefile, and in another process than Snakemake's, which may have an environment of its own:

    python workflow/plan.py jobs < CONFIGURATION (JSON)      the jobs, as JSON
    python workflow/plan.py data < CONFIGURATION             reads the images once, so that no job fails for want of them
"""

import itertools
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from attention_book import experiments
from attention_book.notebooks import runs
from attention_book.tasks.one_shot_sets import one_shot_suite

RUNS = Path(__file__).resolve().parents[1] / "book" / "runs"
# What each stage runs. Those on networks need the stages before them; those `ALONE` need no network, and a configuration lists them.
STAGES = {
    "train": experiments.Trained,
    "theory": experiments.Theory,
    "narrow": experiments.NarrowHeads,
    "pruning": experiments.Pruning,
    "evidence_lost": experiments.EvidenceLost,
    "posterior": experiments.Samples,
    "weights": experiments.Samples,
    "sampling": experiments.HiddenMarkovWeights,
    "skips": experiments.Skips,
    "calibration": experiments.Calibration,
    "evidences": experiments.Evidences,
    "encoder": experiments.EncodedHeads,
    "points": experiments.EncodedPoints,
    "masked": experiments.MaskedEncoder,
    "dynamics": experiments.Diagram,
}
# With the parameters that each run has to name.
ALONE = {
    "sampling": ("folder", "widths"),
    "skips": ("folder",),
    "calibration": ("folder",),
    "evidences": ("folder",),
    "encoder": ("folder",),
    "points": ("folder",),
    "masked": ("folder",),
    "dynamics": ("folder", "diagram"),
}
ON_NETWORKS = tuple(stage for stage in STAGES if stage not in ALONE)
# It is a notebook in book/runs, named as the stage but for these, which share one and differ in a parameter.
SAMPLERS = ("posterior", "weights")
# These are of those networks alone that name them.
NAMED = ("narrow", "evidence_lost", *SAMPLERS)
_COMMON = ("data", "layers", "heads", "kind", "seed")
_NOT_RECORDED = ("folder", "progress")


class Wrong(ValueError):
    """A configuration that cannot be run; the message says which entry, and what to do."""


@dataclass(frozen=True)
class Job:
    """One result.

    Attributes:
        name: of its file, without suffix.
        stage: a key of `STAGES`.
        command: arguments that make it, without the executed notebook's path.
        needs: names of the results it is computed from.
        number: the first that no earlier attempt has.
        reason: why it must be made; None where it is current.
    """

    name: str
    stage: str
    command: list[str]
    needs: list[str]
    number: str
    reason: str | None


def jobs(configuration: Mapping[str, Any]) -> list[Job]:
    """All results of a configuration, every one behind those it needs.

    Args:
        configuration: as in `workflow/paper.yaml`, where its entries are explained.

    Returns:
        A `Job` for every stage, network and seed, then those of runs that need no network.

    Raises:
        Wrong: an entry that is missing, unknown or out of range.
    """
    allowed = {"folder", "data", "networks", *STAGES}
    _only(configuration, allowed, "configuration")
    alone = any(configuration.get(stage) for stage in ALONE)
    for name in ("folder", "networks"):
        if not configuration.get(name) and not (alone and configuration.get(name) == []):
            raise Wrong(f"{name}: not in the configuration. Start from a copy of workflow/paper.yaml.")
    folder = Path(configuration["folder"]).absolute()
    found: dict[str, Job] = {}
    for network in configuration["networks"]:
        if not isinstance(network, Mapping) or not {"layers", "heads", "seeds"} <= set(network):
            raise Wrong(f"networks: wanted layers, heads and seeds (a list) of each, got {network!r}.")
        # What is named beside these belongs to the training.
        own = {
            name: value
            for name, value in network.items()
            if name not in ("layers", "heads", "kind", "seeds", *ON_NETWORKS)
        }
        own = {**network, "train": {**own, **(network.get("train") or {})}}
        for seed in network["seeds"]:
            common = {"data": configuration.get("data", "omniglot"), "seed": seed}
            common |= {name: network[name] for name in ("layers", "heads", "kind") if name in network}
            for stage in ON_NETWORKS:
                if stage in NAMED and stage not in network:
                    continue
                given = {**(configuration.get(stage) or {}), **(own.get(stage) or {})}
                job = _job(folder, stage, common, given, found)
                if job.name in found:
                    raise Wrong(f"networks: {job.name} is there twice. Give every network and seed once.")
                found[job.name] = job
    for stage in ALONE:
        for run in configuration.get(stage) or ():
            for job in _jobs_alone(folder, stage, run):
                if job.name in found:
                    raise Wrong(f"{stage}: {job.name} is there twice. Give every run once.")
                found[job.name] = job
    return list(found.values())


def _only(entries, allowed, where: str) -> None:
    if not isinstance(entries, Mapping):
        raise Wrong(f"{where}: wanted names with values, got {entries!r}.")
    unknown = sorted(set(map(str, entries)) - set(allowed))
    if unknown:
        raise Wrong(f"{where}: unknown: {', '.join(unknown)}; wanted {', '.join(sorted(allowed))}.")


def _job(folder: Path, stage: str, common: dict, own: dict, before: dict[str, Job]) -> Job:
    known = runs.parameters_of(_notebook(stage))
    fixed = {"sampler": stage} if stage in SAMPLERS else {}
    _only(own, set(known) - {*_COMMON, *_NOT_RECORDED, *fixed}, stage)
    given = _converted(stage, known, {**common, **own, **fixed})
    experiment = _experiment(stage, folder, known, given)
    needs = [path.stem for path in experiment.sources.values()]
    reason = next((f"{need} comes first" for need in needs if before[need].reason), None)
    return _planned(stage, experiment, given, needs, experiment.reason or reason)


def _jobs_alone(folder: Path, stage: str, run) -> list[Job]:
    """Those of a run that needs no network; of samples one for every width, so that each is made again by itself."""
    known = runs.parameters_of(_notebook(stage))
    _only(run, set(known) - {"progress"}, stage)
    if not set(ALONE[stage]) <= set(run):
        raise Wrong(f"{stage}: wanted {' and '.join(ALONE[stage])} of each run, got {run!r}.")
    given = _converted(stage, known, run)
    place = Path(given.pop("folder")).absolute()
    if stage != "sampling":
        found = [(given, _experiment(stage, place, known, given))]
    else:
        widths = given.get("widths", known["widths"].default)
        each = [({**given, "widths": [width]}, {**given, "width": width}) for width in widths]
        found = [(values, _experiment(stage, place, known, asked)) for values, asked in each]
        if len({experiment.path for _, experiment in found}) < len(found):
            raise Wrong(f"sampling: {found[0][1].path.stem} is there twice. Give every run and width once.")
    return [_planned(stage, experiment, values, [], experiment.reason) for values, experiment in found]


def _experiment(stage: str, folder: Path, known: Mapping[str, Any], given: Mapping[str, Any]):
    """What a job runs: the notebook's parameters, but for those given."""
    wanted = {name: one.default for name, one in known.items()} | given | {"folder": folder}
    names = {one.name for one in fields(STAGES[stage])}
    return STAGES[stage](**{name: value for name, value in wanted.items() if name in names})


def _planned(stage: str, experiment, given: Mapping[str, Any], needs: list[str], reason: str | None) -> Job:
    folder, name = Path(experiment.folder), experiment.path.stem
    return Job(name, stage, _command(_notebook(stage), given, folder), needs, _number(folder, name), reason or None)


def _notebook(stage: str) -> Path:
    return RUNS / f"{'one_shot_sampling' if stage in SAMPLERS else stage}.md"


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
    """Of the next attempt: what earlier ones left is kept, and Snakemake takes none of them for this one."""
    numbers = (f"{number:03d}" for number in itertools.count(1))
    return next(number for number in numbers if not any((folder / "executed").glob(f"{name}-{number}.*")))


def main(what: str) -> int:
    configuration = json.load(sys.stdin)
    try:
        if what == "data":
            one_shot_suite(configuration.get("data", "omniglot"))
        else:
            print(json.dumps([asdict(job) for job in jobs(configuration)]))
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
