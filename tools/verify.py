"""Compute a part of every record again and compare: `make verify`, or with the names of records."""

import argparse
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from compiled import share, share_cores

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
# Of every kind of record one that takes seconds; the longest first, so that processes end together.
QUICK = (
    "one_shot/narrow-2x4-seed0.nc",
    "one_shot/theory-2x4-seed0.nc",
    "sampling/calibration-examples8-noise0.01-seed0.nc",
    "one_shot/evidence-2x4-seed0.nc",
    "one_shot/network-2x4-seed0.nc",
    "one_shot/refitted-2x4-seed0.nc",
    "one_shot/ratio-hidden-markov.nc",
    "sampling/evidences-examples100-seed0.nc",
    "sampling/weights-all-noise1-width10-seed0.nc",
    "sentences/encoder-description-entity-seed0.nc",
    "sentences_masked/masked-description-entity-seed0.nc",
    "many_paths/paths-chains-seed0.nc",
    "learned/learned-seed0.nc",
    "learned/learned-seed10.nc",
    "learned/images600-seed0.nc",
    "skips/skips-seed2.nc",
    "dmft/exponents-seed1-beta0-3.nc",
    "benchmarks.nc",
    "benchmarks_calls.nc",
    "benchmarks_sampling.nc",
    "dmft/bifurcation-seed1-beta0-3.nc",
    "benchmarks_dmft.nc",
    "robustness.nc",
    "killed.nc",
)
_MISSED = "not looked at"


def main() -> int:
    """Run the command line; return 1 if a record differs or is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", nargs="*", type=Path, help="records; all if none is named")
    parser.add_argument("--quick", action="store_true", help="a few records, under two minutes")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="number of records at a time (2)")
    options = parser.parse_args()
    records = options.records or (
        [RESULTS / name for name in QUICK] if options.quick else sorted(RESULTS.rglob("*.nc"))
    )
    records = [path.absolute() for path in records if "checkpoints" not in path.parts]
    share(os.environ, ROOT / ".cache" / "compiled")
    share_cores(os.environ, options.jobs)
    began, bad, missed = time.monotonic(), 0, 0
    # A process of its own each: single and double precision do not mix, and memory is given back.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        for path, (good, said) in zip(records, pool.map(verify, records), strict=True):
            name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            print(f"{'ok  ' if good else 'BAD '} {name}: {said}", flush=True)
            bad += not good
            missed += said.startswith(_MISSED)
    stand = f"{len(records) - bad - missed} of {len(records)} records stand"
    unseen = f", {missed} were not looked at" if missed else ""
    print(f"{stand}{unseen}, after {time.monotonic() - began:.0f} s")
    return 1 if bad else 0


def verify(path: Path) -> tuple[bool, str]:
    """Return whether a record stands, and what was found."""
    import jax

    from attention_book import results
    from attention_book.tasks.images import NotPacked

    began = time.monotonic()
    try:
        if results.record(path)["maker"].startswith("benchmark"):
            sys.path.insert(0, str(ROOT))
            from benchmarks import checksums

            jax.config.update("jax_enable_x64", True)
            found = checksums.again(path)
        else:
            from attention_book.experiments import experiment_of

            experiment = experiment_of(path)
            jax.config.update("jax_enable_x64", experiment.double)
            if reason := experiment.reason:
                return False, f"out of date: {reason}"
            if experiment.missing:
                return True, f"{_MISSED}: it needs {experiment.missing}, run `make text`"
            found = experiment.recheck()
    except NotPacked as error:
        return True, f"{_MISSED}: {error}"
    except Exception as error:  # whatever it is, this record does not stand, and the others are still to be looked at
        return False, f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - began
    said = f"{found.what}: differs by {found.difference:.1e} (at most {found.tolerance:g}), {seconds:.0f} s"
    return found.difference <= found.tolerance, said


if __name__ == "__main__":
    sys.exit(main())
