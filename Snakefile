# The heavy runs: train -> theory -> pruning, evidence lost, samples, and train -> narrow, for every network and seed of a configuration (workflow/*.yaml),
# and those that need no network.
#
#   snakemake -n                                              what would run, and why
#   snakemake --profile workflow/local                        the paper's scale, on this machine: `make reproduce`
#   snakemake --profile workflow/slurm --configfile mine.yaml other runs, on a cluster
#
# What runs is not decided by times of files, which mean nothing in a fresh clone, but by what results carry: parameters,
# the revision of their experiment, and a fingerprint of the results they were computed from. Results are therefore no
# `output` here, and Snakemake, which removes outputs before a job, never touches one: they are replaced in one step, by
# the run itself, once it is done. The outputs are empty files beside logs and executed notebooks, with a new number for
# each attempt.
import fcntl
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import yaml
from snakemake.exceptions import WorkflowError

ROOT = Path(workflow.basedir)
if "networks" not in config:
    config = {**yaml.safe_load((ROOT / "workflow" / "paper.yaml").read_text()), **config}
# Another Python, where Snakemake has an environment of its own.
PYTHON = os.environ.get("STATMECH_ATTENTION_PYTHON", sys.executable)


def plan(what):
    command = [PYTHON, str(ROOT / "workflow" / "plan.py"), what]
    # On the CPU: this process has to do with no device, and a login node has none.
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, input=json.dumps(config), capture_output=True, text=True, env=environment)
    if done.returncode:
        raise WorkflowError(done.stderr.strip())
    return done.stdout


JOBS = {job["name"]: job for job in json.loads(plan("jobs"))}
STALE = [name for name, job in JOBS.items() if job["reason"]]
FOLDER = Path(config["folder"]).absolute()
LOCK = []  # kept open until this process ends, however it ends: nothing is left to unlock after a crash
DONE = f"{FOLDER}/executed/{{job}}-{{number}}.done"


def done(names):
    return [DONE.format(job=name, number=JOBS[name]["number"]) for name in names]


if workflow.is_main_process:
    print(f"{len(JOBS) - len(STALE)} of {len(JOBS)} results in {config['folder']} are current.", file=sys.stderr)


onstart:
    (FOLDER / "executed").mkdir(parents=True, exist_ok=True)
    LOCK.append(open(FOLDER / "executed" / "lock", "w"))
    try:
        fcntl.flock(LOCK[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise WorkflowError(f"{FOLDER}: another snakemake is at work there. Wait for it, or stop it.")
    if STALE:
        plan("data")


rule all:
    input:
        done(STALE),
    localrule: True


for stage in ("train", "theory", "narrow", "pruning", "evidence_lost", "refitted", "posterior", "weights", "sampling", "skips", "calibration", "evidences", "ratio", "learning_curve", "encoder", "points", "selection", "masked", "removed", "tuned", "many_paths", "learned", "learned_images", "dynamics"):

    rule:
        name:
            stage
        input:
            lambda wildcards: done(need for need in JOBS[wildcards.job]["needs"] if JOBS[need]["reason"]),
        output:
            touch(DONE),
        log:
            DONE.replace(".done", ".log"),
        wildcard_constraints:
            job="|".join(name for name, job in JOBS.items() if job["stage"] == stage) or "none",
            number=r"\d+",
        params:
            command=lambda wildcards: shlex.join(JOBS[wildcards.job]["command"]),
            notebook=lambda wildcards, output: shlex.quote(str(output[0]).replace(".done", ".ipynb")),
            reason=lambda wildcards: JOBS[wildcards.job]["reason"] or "asked for by name",
        message:
            "{wildcards.job}: {params.reason}"
        shell:
            "{params.command} --output {params.notebook} > {log:q} 2>&1"
