"""Compute a part of every record again and compare: `make verify`, or with the files of some records."""

import argparse
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import yaml

from attention_book.runs.workflow import MOST_ERRORS, Record, recompute, records

ROOT = Path(__file__).resolve().parents[1]
MISSED = "not looked at"


def main() -> int:
    """Run the command line; return 1 if a record differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", nargs="*", type=Path, help="records; all if none is named")
    parser.add_argument("--quick", action="store_true", help="one record of each kind, in a minute")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="number of records at a time (2)")
    options = parser.parse_args()
    for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, str(max(1, (os.cpu_count() or 1) // options.jobs)))
    known = {one.path: one for one in records(yaml.safe_load((ROOT / "workflow" / "runs.yaml").read_text()))}
    asked = [path.absolute() for path in options.records]
    asked = asked or [path for path, one in known.items() if path.is_file() and (one.quick or not options.quick)]
    strange = [path for path in asked if path not in known]
    began, bad, missed = time.monotonic(), len(strange), 0
    for path in strange:
        print(f"BAD  {path}: workflow/runs.yaml names no such record")
    # A process of its own each: single and double precision do not mix, and memory is given back.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        chosen = [known[path] for path in asked if path in known]
        for one, (good, said) in zip(chosen, pool.map(verify, chosen), strict=True):
            print(f"{'ok  ' if good else 'BAD '} {one.path.relative_to(ROOT)}: {said}", flush=True)
            bad += not good
            missed += said.startswith(MISSED)
    unseen = f", {missed} were {MISSED}" if missed else ""
    print(f"{len(asked) - bad - missed} of {len(asked)} records stand{unseen}, after {time.monotonic() - began:.0f} s")
    return 1 if bad else 0


def verify(one: Record) -> tuple[bool, str]:
    """Return whether a record stands, and what was found."""
    began = time.monotonic()
    if absent := [path.name for path in one.inputs if not path.is_file()]:
        return True, f"{MISSED}: it was made from {', '.join(absent)}, which `make reproduce` makes"
    if not one.path.is_file():
        return False, "it is not there; `make reproduce` makes it"
    try:
        apart, errors = recompute(one)
    except Exception as error:  # whatever it is, this record does not stand, and the others are still to be looked at
        if getattr(error, "raised", "") in ("NotPacked", "ModuleNotFoundError"):
            return True, f"{MISSED}: {error}"
        return False, f"{type(error).__name__}: {error}"
    drawn = f", drawn numbers by {errors:.1f} standard errors (at most {MOST_ERRORS:g})" if one.drawn else ""
    said = f"differs by {apart:.1e} (at most {one.tolerance:g}){drawn}, {time.monotonic() - began:.0f} s"
    return apart <= one.tolerance and errors <= MOST_ERRORS, said


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nInterrupted.")
