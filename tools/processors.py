"""Run tests as other processors would: `python tools/processors.py [--jobs N] [TESTS]`.

OpenBLAS chooses its kernels, and XLA its instructions, by the processor; both sum in another order with more threads.
Here each is told what to choose, as far as this processor can do it. The last lines are the tests whose outcome is not
the same everywhere, or which fail everywhere; if there are any, the exit status is 1.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
# The kernels that are apart in the OpenBLAS of NumPy and SciPy; "Zen" are those of Haswell there.
NEEDS = {"Nehalem": "sse4_2", "Sandybridge": "avx", "Haswell": "avx2", "SkylakeX": "avx512f"}
NEEDS |= {"AVX": "avx", "AVX2": "avx2", "AVX512": "avx512f"}


class Setting(NamedTuple):
    """The kernels of OpenBLAS, the instructions of XLA, and the number of threads of each."""

    kernels: str
    instructions: str
    threads: int

    def __str__(self) -> str:
        return f"{self.kernels} {self.instructions} {self.threads}"

    def lacks(self, processor: set[str]) -> list[str]:
        """Return what the processor cannot do."""
        return [one for one in (NEEDS[self.kernels], NEEDS[self.instructions]) if one not in processor]

    def environment(self) -> dict[str, str]:
        """Return the variables that make libraries choose this."""
        others = re.sub(r"--xla_cpu_max_isa=\w+", "", os.environ.get("XLA_FLAGS", ""))
        chosen = {"OPENBLAS_CORETYPE": self.kernels, "XLA_FLAGS": f"--xla_cpu_max_isa={self.instructions} {others}"}
        threads = {"OPENBLAS_NUM_THREADS": str(self.threads), "NPROC": str(self.threads)}
        return os.environ | chosen | threads | {"CI": "true"}  # the same examples of hypothesis each time


# Neighbours share their instructions, and so their compiled programs.
SETTINGS = [
    Setting("Haswell", "AVX2", 1),
    Setting("SkylakeX", "AVX2", 2),
    Setting("Nehalem", "AVX2", 1),
    Setting("Sandybridge", "AVX2", 4),
    Setting("Nehalem", "AVX", 2),
    Setting("Haswell", "AVX", 4),
    Setting("SkylakeX", "AVX512", 1),
    Setting("Haswell", "AVX512", 2),
]


def main() -> int:
    """Run the tests under each setting and compare; return 1 if they do not all pass everywhere."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", default="logical", help="so many files of tests at a time; 0 for none beside another")
    parser.add_argument("tests", nargs="*", help="files or folders of tests; without any, all")
    options = parser.parse_args()
    found = {}
    for setting in SETTINGS:
        if lacking := setting.lacks(processor()):
            print(f"{setting}: left out, this processor has no {' or '.join(lacking)}", flush=True)
            continue
        found[setting] = outcomes(setting, options.tests, options.jobs)
        passed = sum(one == "passed" for one in found[setting].values())
        print(f"{setting}: {passed} of {len(found[setting])} passed", flush=True)
    if not found:
        return 0
    rows = table(found)
    print("\n".join(rows) if rows else "The same outcome everywhere, and no failure.")
    return 1 if rows else 0


def processor() -> set[str]:
    """Return the names of what this processor can do, on Linux; elsewhere none."""
    about = Path("/proc/cpuinfo")
    lines = re.findall(r"^flags\s*:(.*)", about.read_text(), re.MULTILINE) if about.exists() else []
    return set(lines[0].split()) if lines else set()


def outcomes(setting: Setting, tests: list[str], jobs: str) -> dict[str, str]:
    """Return the outcome of each test: passed, failed, error or skipped. RuntimeError if no test ran."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        command += ["-n", jobs, "--dist", "worksteal", *tests]
        done = subprocess.run(command, cwd=ROOT, env=setting.environment(), capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"{setting}: the tests did not run.\n{done.stdout}{done.stderr}")
        if done.returncode:
            print(done.stdout, flush=True)
        cases = list(ElementTree.parse(report).iter("testcase"))
    return {f"{case.get('classname')}::{case.get('name')}": _outcome(case) for case in cases}


def _outcome(case: ElementTree.Element) -> str:
    kinds = {"failure": "failed", "error": "error", "skipped": "skipped"}
    return next((kinds[one.tag] for one in case if one.tag in kinds), "passed")


def table(found: dict[Setting, dict[str, str]]) -> list[str]:
    """Return a line for each test that fails or whose outcome differs, with its outcome under each setting."""
    names = sorted(set().union(*found.values()))
    rows = {name: [outcome.get(name, "missing") for outcome in found.values()] for name in names}
    rows = {name: row for name, row in rows.items() if len(set(row)) > 1 or row[0] in ("failed", "error")}
    head = [" | ".join([*map(str, found), "test"])] if rows else []
    return head + [
        " | ".join([*(one.ljust(len(str(setting))) for setting, one in zip(found, row, strict=True)), name])
        for name, row in rows.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
