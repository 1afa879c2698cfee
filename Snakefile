# The recorded runs: makes the records of workflow/runs.yaml that are missing, and goes on where it was stopped.
#
#   snakemake -n                                              what would run
#   snakemake --profile workflow/local                        on this machine: `make reproduce`
#   snakemake --profile workflow/slurm --configfile mine.yaml the runs of another file, on a cluster
#
# A record that is there is never touched, whatever its time: to make one again, remove it.
import os
import re
import shlex
import sys
from pathlib import Path

import yaml
from filelock import FileLock, Timeout
from snakemake.exceptions import WorkflowError

from attention_book.runs.workflow import records

ROOT = Path(workflow.basedir)
if "runs" not in config:
    config = yaml.safe_load((ROOT / "workflow" / "runs.yaml").read_text())

workdir: str(ROOT)


def place(path):
    return os.path.relpath(path, ROOT)


RECORDS = {place(one.path): one for one in records(config, ROOT)}
MISSING = [path for path in RECORDS if not (ROOT / path).exists()]
RUNS = {place(output): (RECORDS[path], given) for path in MISSING for output, given in RECORDS[path].runs()}


def needed(wildcards, output=None):
    """The missing records that a run reads."""
    one, _ = RUNS[f"{wildcards.place}.nc"]
    return [place(path) for path in one.inputs if place(path) in MISSING]


def command(wildcards, output):
    one, given = RUNS[str(output)]
    return shlex.join([sys.executable, "-m", "attention_book", "run", *one.arguments(output, given)])


def places(files):
    return "|".join(re.escape(file.removesuffix(".nc")) for file in files) or "none"


if workflow.is_main_process and not workflow.dryrun:
    # Two at once would remove each other's records. The system frees this lock when the process ends, also if it is killed;
    # a run that goes on without it holds the lock of its own record, and a second one for that record is refused.
    (ROOT / "executed").mkdir(exist_ok=True)
    LOCK = FileLock(ROOT / "executed" / f"{config['folder'].replace('/', '-')}.lock", blocking=False)
    try:
        LOCK.acquire()
    except Timeout:
        raise WorkflowError("Another process makes these records here. Wait until it is done, or stop it.") from None

if workflow.is_main_process:
    for asked in sys.argv[1:]:  # Snakemake itself says neither
        if asked in RECORDS and asked not in MISSING:
            raise WorkflowError(f"{asked} is there. To make it again, remove it first.")
        if asked.endswith(".nc") and asked not in {*MISSING, *RUNS}:
            raise WorkflowError(f"{asked}: no such record in the list of runs.")
    print(f"{len(RECORDS) - len(MISSING)} of {len(RECORDS)} records are there.", file=sys.stderr)


rule all:
    input:
        MISSING,
    localrule: True


for run in sorted({one.run for one in RECORDS.values()}):

    rule:
        name:
            run
        input:
            needed,
        output:
            "{place}.nc",
        log:
            "executed/{place}.log",
        wildcard_constraints:
            place=places(file for file, (one, _) in RUNS.items() if one.run == run),
        params:
            command=command,
            notebook=lambda wildcards: shlex.quote(f"executed/{wildcards.place}.ipynb"),
        shell:
            "{params.command} --overwrite --output {params.notebook} > {log:q} 2>&1"


rule join_pieces:
    input:
        lambda wildcards: [place(piece) for piece, _ in RECORDS[f"{wildcards.place}.nc"].runs()],
    output:
        "{place}.nc",
    wildcard_constraints:
        place=places(path for path in MISSING if RECORDS[path].pieces),
    params:
        python=shlex.quote(sys.executable),
        axes=lambda wildcards: ",".join(RECORDS[f"{wildcards.place}.nc"].pieces),
    localrule: True
    shell:
        "{params.python} -m attention_book.runs.workflow {output:q} {params.axes} {input:q}"
