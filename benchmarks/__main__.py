"""Command line of the benchmarks."""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tqdm import tqdm

import statmech_attention as sma
from benchmarks.plan import cases
from benchmarks.table import Table

sma.enable_x64()  # for the checksum
ROOT = Path(__file__).resolve().parents[1]
RECORDED, QUICK = ROOT / "results" / "benchmarks.nc", ROOT / ".cache" / "benchmarks_quick.nc"


def main() -> int:
    """Run the cases that are not recorded yet; returns the exit status."""
    options = _parser().parse_args()
    path = options.output or (QUICK if options.quick else RECORDED)
    if path.suffix != ".nc":
        _parser().error(f"--output: wanted a file name ending in .nc, got {path.name!r}")
    planned = [case for case in cases(options.quick) if options.only is None or options.only in case["group"]]
    if not planned:
        groups = sorted({case["group"] for case in cases(options.quick)})
        _parser().error(f"--only: wanted a part of one of {groups}, got {options.only!r}")
    table = Table(path, fresh=options.fresh)
    missing = [case for case in planned if not table.has(case)]
    if len(missing) < len(planned):
        print(
            f"{len(planned) - len(missing)} of {len(planned)} cases are recorded already (--fresh measures them again)"
        )

    start, failed = time.perf_counter(), []
    bar = tqdm(missing, unit="case", disable=not missing)
    for case in bar:
        name = f"{case['group']}, {case['minimiser']}"
        bar.set_description(name)
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
        rows, complaint = _measure(case, options.patience)
        if rows is None:
            failed.append(f"{name}: {complaint}")
            continue
        table.add(case, [{**row, "load": load} for row in rows], time.perf_counter() - start)
    _report(table, planned)
    for line in failed:
        print("FAILED", line, file=sys.stderr)
    if table.rows:
        print(f"\nWritten to {path}")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure speed and memory of the saddle point beside the usual minimisers. Every case runs in a process of "
        "its own, one after the other; leave the machine alone meanwhile. A run that was interrupted goes on where it stopped, "
        "unless the package or the benchmarks have changed. All of it takes several minutes on two cores.",
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny problems, to see that everything works; times mean nothing"
    )
    parser.add_argument(
        "--only", metavar="GROUP", help="only groups whose name contains this: widths, large, growth, .."
    )
    parser.add_argument("--fresh", action="store_true", help="forget what is recorded and measure everything again")
    parser.add_argument(
        "--output", type=Path, metavar="FILE.nc", help="where to write (default: results/benchmarks.nc)"
    )
    parser.add_argument(
        "--patience", type=float, default=900, metavar="SECONDS", help="give a case up after this long (default: 900)"
    )
    return parser


def _measure(case: dict, patience: float):
    """Rows of a case and None, or None and what went wrong."""
    command = [sys.executable, "-m", "benchmarks.worker", json.dumps(case)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=patience)
    except subprocess.TimeoutExpired:
        return None, f"not done after {patience:g} s (see --patience)"
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return None, last[0]
    return json.loads(done.stdout.splitlines()[-1]), None


def _report(table: Table, planned: list[dict]) -> None:
    print(
        f"\n{'group':22s} {'minimiser':24s} {'P':>4s} {'heads':>7s} {'N0':>4s} {'N':>5s} {'first s':>8s} {'s':>9s} {'MiB':>6s} {'evals':>6s} {'gradient':>9s}"
    )
    for group in dict.fromkeys(case["group"] for case in planned):
        for row in table.rows:
            if row["group"] == group:
                heads = ",".join(map(str, json.loads(row["heads"])))
                print(
                    f"{group:22s} {row['minimiser']:24s} {row['examples']:4d} {heads:>7s} {row['features']:4d} {row['width']:5.0f} "
                    f"{row['seconds_first']:8.2f} {row['seconds']:9.4f} {row['peak_megabytes']:6.0f} {row['evaluations']:6d} {row['gradient']:9.1e}"
                )


if __name__ == "__main__":
    sys.exit(main())
