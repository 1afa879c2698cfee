"""The chain of heavy runs: what is out of date, what follows from it, and the whole of it on drawn glyphs."""

import fcntl
import functools
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from attention_book import results
from attention_book.notebooks import runs

ROOT = Path(__file__).resolve().parents[1]
NAMES = ["network-1x2-seed0", "theory-1x2-seed0", "pruning-1x2-seed0"]


@pytest.fixture(scope="module")
def plan():
    specification = importlib.util.spec_from_file_location("plan", ROOT / "workflow" / "plan.py")
    module = importlib.util.module_from_spec(specification)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "plan", module)  # where dataclasses look for it
        # A plan reads a notebook again for each of its jobs.
        patch.setattr(runs, "parameters_of", functools.cache(runs.parameters_of))
        specification.loader.exec_module(module)
        yield module


def configured(place, **changes):
    network = {"layers": 1, "heads": 2, "seeds": [0]}
    return {"folder": str(place), "data": "glyphs", "networks": [network], **changes}


def record(plan, folder, stage, values, **changes):
    """A result as a stage would record it, but with other numbers in it."""
    known = runs.parameters_of(plan._notebook(stage))
    given = {"data": "glyphs", "layers": 1, "heads": 2, "seed": 0, **changes}
    given |= {"sampler": stage} if stage in plan.SAMPLERS else {}
    experiment = plan._experiment(stage, folder, known, given)
    inputs = {name: results.digest(path) for name, path in experiment.sources.items()}
    dataset = xr.Dataset({"numbers": ("entry", np.asarray(values, float))})
    record = {"parameters": experiment.parameters, "inputs": inputs, "revision": experiment.revision}
    return results.save(dataset, experiment.path, **record)


@pytest.fixture
def recorded(plan, tmp_path):
    for place, stage in enumerate(("train", "theory", "pruning")):
        record(plan, tmp_path, stage, [place])
    return tmp_path


def stale(plan, configuration):
    return {job.name: job.reason for job in plan.jobs(configuration) if job.reason}


def test_without_results_all_is_to_do_in_order(plan, tmp_path):
    found = plan.jobs(configured(tmp_path))
    assert [job.name for job in found] == NAMES
    assert [job.needs for job in found] == [[], NAMES[:1], NAMES[:2]]
    assert all(job.reason == "not there" for job in found)


def test_times_of_files_do_not_matter(plan, recorded):
    assert stale(plan, configured(recorded)) == {}
    # As after a clone: everything at once, or in any order.
    for place, name in enumerate(NAMES):
        os.utime(recorded / f"{name}.nc", (2e9 - place, 2e9 - place))
    assert stale(plan, configured(recorded)) == {}


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"train": {"epochs": 11}}, NAMES),
        ({"theory": {"draws": 4}}, NAMES[1:]),
        ({"theory": {"widths": [100]}}, NAMES[1:]),
        ({"pruning": {"examples": 11}}, NAMES[2:]),
        ({"networks": [{"layers": 1, "heads": 2, "seeds": [0], "dimension": 16}]}, NAMES),
    ],
)
def test_a_changed_parameter_makes_what_depends_on_it_and_nothing_else(plan, recorded, change, names):
    found = stale(plan, configured(recorded, **change))
    assert list(found) == names
    assert "was" in found[names[0]] and all("comes first" in found[name] for name in names[1:])


def test_order_and_spelling_of_numbers_are_no_change(plan, recorded):
    widths = runs.parameters_of(plan.RUNS / "theory.md")["widths"].default
    # YAML reads 3e-4, without a point, as a text.
    change = {"theory": {"widths": widths[::-1]}, "train": {"learning_rate": "3e-4"}}
    assert stale(plan, configured(recorded, **change)) == {}


def test_a_raised_revision_makes_what_rests_on_it(plan, recorded, monkeypatch):
    monkeypatch.setattr(plan.STAGES["theory"], "revision", 2)
    found = stale(plan, configured(recorded))
    assert list(found) == NAMES[1:] and found[NAMES[1]] == "revision 2 has other numbers than 1"


def test_other_numbers_upstream_make_what_was_computed_from_them(plan, recorded):
    record(plan, recorded, "train", [17])
    found = stale(plan, configured(recorded))
    assert list(found) == NAMES[1:] and found[NAMES[1]] == "another network"
    record(plan, recorded, "train", [0])  # the same numbers again, at another time
    assert stale(plan, configured(recorded)) == {}


def test_a_damaged_or_missing_result_is_made_again(plan, recorded):
    path = recorded / f"{NAMES[2]}.nc"
    path.write_bytes(path.read_bytes()[:-100])
    assert stale(plan, configured(recorded)) == {NAMES[2]: "damaged"}
    path.unlink()
    assert stale(plan, configured(recorded)) == {NAMES[2]: "not there"}


def test_networks_with_skips_have_files_of_their_own(plan, recorded):
    networks = [{"layers": 1, "heads": 2, "seeds": [0]}, {"layers": 1, "heads": 2, "kind": "skip", "seeds": [0]}]
    found = {job.name: job for job in plan.jobs(configured(recorded, networks=networks))}
    skips = [name.replace("1x2", "1x2-skip") for name in NAMES]
    assert list(found) == [*NAMES, *skips] and found[skips[2]].needs == skips[:2]
    assert not any(found[name].reason or "kind=" in " ".join(found[name].command) for name in NAMES)
    assert all("kind=skip" in found[name].command for name in skips)
    assert found[skips[0]].reason == "not there"


def sampled(place, **changes):
    network = {"layers": 1, "heads": 2, "seeds": [0], "posterior": {}, "weights": {"widths": [10]}}
    return configured(place, networks=[network], **changes)


def test_samples_are_drawn_for_networks_that_name_them(plan, recorded):
    samples = ["posterior-1x2-seed0", "weights-1x2-seed0"]
    found = {job.name: job for job in plan.jobs(sampled(recorded))}
    assert list(found) == [*NAMES, *samples]
    assert all(found[name].reason == "not there" and found[name].needs == NAMES[:2] for name in samples)
    for name, sampler in zip(samples, ("posterior", "weights"), strict=True):
        command = found[name].command
        assert f"sampler={sampler}" in command and any("one_shot_sampling.md" in one for one in command)
        record(plan, recorded, sampler, [1], **({"widths": [10]} if sampler == "weights" else {}))
    assert stale(plan, sampled(recorded)) == {}
    assert stale(plan, sampled(recorded, posterior={"draws": 501})) == {samples[0]: "draws was 500"}
    record(plan, recorded, "theory", [17])
    assert stale(plan, sampled(recorded))[samples[1]] == "another theory"


RUNS = {
    "sampling": (
        {"widths": [10, 30], "draws": 100},
        [("weights-all-noise1-width10-seed0", {"width": 10}), ("weights-all-noise1-width30-seed0", {"width": 30})],
        ("widths=30", {"thinning": 2}, "thinning was 1"),
    ),
    "dynamics": (
        {"diagram": "exponents", "low": 1, "high": 1.5, "networks": 20},
        [("exponents-seed1-beta1-1.5", {})],
        ("diagram=exponents", {"steps": 30000}, "steps was 20000"),
    ),
}


@pytest.mark.parametrize("stage", RUNS)
def test_runs_beside_the_networks_are_jobs(plan, recorded, tmp_path_factory, stage):
    settings, wanted, (said, change, reason) = RUNS[stage]
    place = tmp_path_factory.mktemp(stage)
    run = {"folder": str(place), **settings}
    found = [job for job in plan.jobs(configured(recorded, **{stage: [run]})) if job.stage == stage]
    assert [(job.name, job.reason, job.needs) for job in found] == [(name, "not there", []) for name, _ in wanted]
    assert said in found[-1].command
    parameters = {one.name: one.default for one in runs.parameters_of(plan.RUNS / f"{stage}.md").values()} | run
    for name, own in wanted:
        left_out = {"folder", "progress", *(["widths"] if own else [])}
        kept = {key: value for key, value in parameters.items() if key not in left_out} | own
        revision = plan.STAGES[stage].revision
        results.save(xr.Dataset({"numbers": 1.0}), place / f"{name}.nc", parameters=kept, revision=revision)
    assert stale(plan, configured(recorded, **{stage: [run]})) == {}
    assert set(stale(plan, configured(recorded, **{stage: [run | change]})).values()) == {reason}


def test_runs_that_need_no_network_are_a_configuration_of_their_own(plan, tmp_path):
    yaml = pytest.importorskip("yaml")
    configuration = yaml.safe_load((ROOT / "workflow" / "sentences.yaml").read_text())
    wanted = {"encoder": 20, "points": 124, "selection": 20, "masked": 8, "removed": 15, "tuned": 15}
    runs = {stage: [{**run, "folder": str(tmp_path)} for run in configuration[stage]] for stage in wanted}
    found = plan.jobs({**configuration, "folder": str(tmp_path), **runs})
    assert Counter(job.stage for job in found) == wanted and {job.reason for job in found} == {"not there"}
    assert found[-1].name == "tuned-reviews-seed4" and found[-1].needs == ["removed-reviews-seed4"]
    selection = next(job for job in found if job.stage == "selection")
    assert selection.needs == ["encoder-description-entity-seed0"]
    assert found[0].name == "encoder-description-entity-seed0" and "stored=true" in found[0].command
    with pytest.raises(plan.Wrong, match="encoder: task"):
        plan.jobs({**configuration, "encoder": [{"folder": str(tmp_path), "task": ["spam", "weather"]}]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"networks": [{"layers": 1, "heads": 2, "seeds": [0], "kind": "gated"}]}, "train: kind"),
        ({"dynamics": [{"folder": "x"}]}, "dynamics: wanted folder and diagram"),
        ({"dynamics": [{"folder": "x", "diagram": "phases"}] * 2}, "phases-seed1-beta0-3 is there twice"),
        ({"dynamics": [{"folder": "x", "diagram": "maps"}]}, "dynamics: diagram"),
        ({"skips": [{"seed": 1}]}, "skips: wanted folder of each run"),
        ({"sampling": [{"folder": "x"}]}, "sampling: wanted folder and widths"),
        ({"sampling": [{"folder": "x", "widths": [0]}]}, "sampling: widths"),
        ({"sampling": [{"folder": "x", "widths": [10], "drawz": 1}]}, "sampling: unknown: drawz"),
        (
            {"networks": [{"layers": 1, "heads": 2, "seeds": [0], "posterior": {"sampler": "weights"}}]},
            "unknown: sampler",
        ),
        ({"folder": ""}, "folder: not in the configuration"),
        ({"nets": []}, "unknown: nets"),
        ({"networks": [{"layers": 1, "seeds": [0]}]}, "wanted layers, heads and seeds"),
        ({"networks": [{"layers": 1, "heads": 2, "seeds": [0, 0]}]}, "there twice"),
        ({"networks": [{"layers": 1, "heads": 2, "seeds": [0], "widht": 3}]}, "train: unknown: widht"),
        ({"networks": [{"layers": 0, "heads": 2, "seeds": [0]}]}, "layers"),
        ({"train": {"epochs": 1.5}}, "train: epochs"),
        ({"theory": {"layers": 2}}, "theory: unknown: layers"),
        ({"data": "imagenet"}, "data"),
    ],
)
def test_a_wrong_configuration_is_refused(plan, tmp_path, change, message):
    with pytest.raises(plan.Wrong, match=message):
        plan.jobs(configured(tmp_path, **change))


@pytest.mark.parametrize("name", ["paper", "ratio", "smoke"])
def test_the_configurations_in_the_repository_are_right(plan, tmp_path, name):
    yaml = pytest.importorskip("yaml")
    configuration = yaml.safe_load((ROOT / "workflow" / f"{name}.yaml").read_text())
    places = {
        stage: [{**run, "folder": str(tmp_path / run["folder"])} for run in configuration[stage]]  # not those recorded
        for stage in plan.ALONE
        if stage in configuration
    }
    found = plan.jobs({**configuration, "folder": str(tmp_path), **places})
    stages = [3 + sum(stage in network for stage in plan.NAMED) for network in configuration["networks"]]
    of_networks = sum(
        count * len(network["seeds"]) for count, network in zip(stages, configuration["networks"], strict=True)
    )
    alone = sum(len(run["widths"]) for run in configuration.get("sampling", []))
    alone += sum(len(configuration.get(stage, [])) for stage in plan.ALONE if stage != "sampling")
    assert len(found) == of_networks + alone


# From here on with Snakemake, in a folder of its own.

TINY = {
    "train": {"width": 16, "dimension": 8, "epochs": 1, "batch": 64, "validate_every": 20},
    "theory": {"draws": 1, "widths": [100, 20], "temperatures": [0.1], "examples": 40, "test_examples": 100},
    "pruning": {"examples": 200, "test_examples": 200},
}


def arguments(folder, configuration, *options):
    pytest.importorskip("snakemake", reason="Snakemake is not installed; `make workflow` does it")
    file = folder / "runs.json"
    file.write_text(json.dumps(configuration))
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder)]
    return [*command, "--profile", str(ROOT / "workflow" / "local"), "--configfile", str(file), *options]


def snakemake(folder, configuration, *options, status=0):
    done = subprocess.run(arguments(folder, configuration, *options), capture_output=True, text=True, timeout=1200)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def lock(folder):
    """The open lock of a folder of results, or None where it is taken."""
    file = open(folder / "results" / "executed" / "lock", "w")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """The whole chain, after a first attempt that was killed in the training; and what both left behind."""
    folder = tmp_path_factory.mktemp("chain")
    configuration = configured(folder / "results", **TINY)
    checkpoints = folder / "results" / "checkpoints"
    with open(folder / "killed.txt", "w") as output:
        killed = subprocess.Popen(
            arguments(folder, configuration), stdout=output, stderr=output, start_new_session=True
        )
        until = time.monotonic() + 600
        while killed.poll() is None and not list(checkpoints.rglob("*.npz")) and time.monotonic() < until:
            time.sleep(0.05)
        locked = not lock(folder)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        assert locked, (folder / "killed.txt").read_text()
    left = [path.name for path in checkpoints.rglob("*.npz")], (folder / "results" / f"{NAMES[0]}.nc").exists()
    return folder, configuration, left, snakemake(folder, configuration)


def test_a_killed_run_goes_on_from_what_it_kept(chain):
    folder, _, (kept, finished), _ = chain
    assert len(kept) == 1 and not finished, (folder / "killed.txt").read_text()
    assert not list((folder / "results" / "checkpoints").rglob("*.npz"))


def test_the_chain_leaves_results_notebooks_and_logs(chain):
    folder, _, _, printed = chain
    assert "0 of 3 results" in printed
    for name in NAMES:
        assert results.record(folder / "results" / f"{name}.nc")["parameters"]["data"] == "glyphs"
    names = {path.name for path in (folder / "results" / "executed").iterdir() if not path.name.startswith(".")}
    # The killed attempt was the first one of the training.
    numbered = [f"{NAMES[0]}-002", f"{NAMES[1]}-001", f"{NAMES[2]}-001"]
    assert {f"{name}.{suffix}" for name in numbered for suffix in ("done", "ipynb", "log")} <= names


def test_in_a_copy_there_is_nothing_to_do(chain, plan, tmp_path):
    folder, configuration, _, _ = chain
    # As a clone: results alone, all as old as each other, and nothing that Snakemake has written down.
    for path in (folder / "results").glob("*.nc"):
        shutil.copy(path, tmp_path)
    assert stale(plan, {**configuration, "folder": str(tmp_path)}) == {}


def test_two_of_them_at_the_same_results_are_refused(chain):
    folder, configuration, _, _ = chain
    with lock(folder):
        assert "another snakemake" in snakemake(folder, configuration, status=1)
