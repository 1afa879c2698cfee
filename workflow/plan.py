"""Which recorded results a configuration asks for, which of them are out of date, and the commands that make them.

Run by the Snakefile, and in another process than Snakemake's, which may have an environment of its own:

    python workflow/plan.py jobs < CONFIGURATION (JSON)      the jobs, as JSON
    python workflow/plan.py data < CONFIGURATION             reads the images once, so that no job fails for want of them
"""

import itertools
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from statmech_attention.experiments import (
    dynamics_file,
    experiment_file,
    reason_to_remake,
    reason_to_run,
    sampling_file,
)
from statmech_attention.notebooks import runs
from statmech_attention.tasks.one_shot_sets import one_shot_suite

RUNS = Path(__file__).resolve().parents[1] / "book" / "runs"
# A stage writes one file for every network, and reads those of the stages it needs.
WRITES = {"train": "network", "theory": "theory", "pruning": "pruning", "evidence_lost": "evidence"}
WRITES |= {"posterior": "posterior", "weights": "weights"}
NEEDS = {"train": (), "theory": ("train",)}
NEEDS |= dict.fromkeys(("pruning", "evidence_lost", "posterior", "weights"), ("train", "theory"))
# It is a notebook in book/runs, named as the stage but for these, which share one and differ in a parameter.
SAMPLERS = ("posterior", "weights")
# These are of those networks alone that name them.
NAMED = ("evidence_lost", *SAMPLERS)
# Runs that need no network, a list of each in a configuration.
ALONE = ("sampling", "dynamics")
_COMMON = ("data", "layers", "heads", "kind", "seed")
_NOT_RECORDED = ("folder", "progress")


class Wrong(ValueError):
    """A configuration that cannot be run; the message says which entry, and what to do."""


@dataclass(frozen=True)
class Job:
    """One result.

    Attributes:
        name: of its file, without suffix.
        stage: a key of `WRITES`, or one of `ALONE`.
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
    allowed = {"folder", "data", "networks", *ALONE, *WRITES}
    _only(configuration, allowed, "configuration")
    for name in ("folder", "networks"):
        if not configuration.get(name):
            raise Wrong(f"{name}: not in the configuration. Start from a copy of workflow/paper.yaml.")
    folder = Path(configuration["folder"]).absolute()
    found: dict[str, Job] = {}
    for network in configuration["networks"]:
        if not isinstance(network, Mapping) or not {"layers", "heads", "seeds"} <= set(network):
            raise Wrong(f"networks: wanted layers, heads and seeds (a list) of each, got {network!r}.")
        # What is named beside these belongs to the training.
        own = {
            name: value for name, value in network.items() if name not in ("layers", "heads", "kind", "seeds", *WRITES)
        }
        own = {**network, "train": {**own, **(network.get("train") or {})}}
        for seed in network["seeds"]:
            common = {"data": configuration.get("data", "omniglot"), "seed": seed}
            common |= {name: network[name] for name in ("layers", "heads", "kind") if name in network}
            for stage in WRITES:
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
    notebook = RUNS / f"{'one_shot_sampling' if stage in SAMPLERS else stage}.md"
    known = runs.parameters_of(notebook)
    fixed = {"sampler": stage} if stage in SAMPLERS else {}
    if not set(common) <= set(known):
        raise Wrong(f"{stage}: drawn on networks of plain heads alone. Leave it out where a network has a `kind`.")
    _only(own, set(known) - {*_COMMON, *_NOT_RECORDED, *fixed}, stage)
    given = _converted(stage, known, {**common, **own, **fixed})
    wanted = {name: one.default for name, one in known.items() if name not in _NOT_RECORDED} | given
    network = [wanted[name] for name in ("layers", "heads", "seed")] + ([given["kind"]] if "kind" in given else [])
    path = experiment_file(WRITES[stage], folder, *network)
    needs = [experiment_file(WRITES[need], folder, *network).stem for need in NEEDS[stage]]
    reason = reason_to_run(WRITES[stage], folder, wanted)
    reason = reason or next((f"{need} comes first" for need in needs if before[need].reason), None)
    return Job(path.stem, stage, _command(notebook, given, folder), needs, _number(folder, path.stem), reason)


def _jobs_alone(folder: Path, stage: str, run) -> list[Job]:
    """Those of a run that needs no network; of samples one for every width, so that each is made again by itself."""
    notebook = RUNS / f"{stage}.md"
    known = runs.parameters_of(notebook)
    _only(run, set(known) - {"progress"}, stage)
    needed = {"sampling": ("folder", "widths"), "dynamics": ("folder", "diagram")}[stage]
    if not set(needed) <= set(run):
        raise Wrong(f"{stage}: wanted {' and '.join(needed)} of each run, got {run!r}.")
    given = _converted(stage, known, run)
    place = Path(given.pop("folder")).absolute()
    wanted = {name: one.default for name, one in known.items() if name not in _NOT_RECORDED} | given
    if stage == "dynamics":
        path = dynamics_file(place, *(wanted[name] for name in ("diagram", "seed", "low", "high")))
        files = {path: (given, wanted)}
    else:
        fixed = {name: value for name, value in wanted.items() if name != "widths"}
        names = [wanted[name] for name in ("seed", "network", "noise")]
        each = [({**given, "widths": [width]}, {**fixed, "width": width}) for width in wanted["widths"]]
        paths = [sampling_file(place, one["width"], *names) for _, one in each]
        if len(set(paths)) < len(paths):
            raise Wrong(f"sampling: {paths[0].stem} is there twice. Give every run and width once.")
        files = dict(zip(paths, each, strict=True))
    return [
        Job(
            path.stem,
            stage,
            _command(notebook, values, place),
            [],
            _number(folder, path.stem),
            reason_to_remake(path, recorded, {}) or None,
        )
        for path, (values, recorded) in files.items()
    ]


def _converted(stage: str, known: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {name: known[name].convert(value) for name, value in values.items()}
    except runs.Refused as error:
        raise Wrong(f"{stage}: {error}") from None


def _command(notebook: Path, given: Mapping[str, Any], folder: Path) -> list[str]:
    found = [sys.executable, "-m", "statmech_attention", "run", str(notebook), "--overwrite"]
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
