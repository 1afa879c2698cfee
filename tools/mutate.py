"""Change one place of the two packages at a time and see whether its tests notice: `python tools/mutate.py [WORD]`.

With a word, only those of the lines of `mutations.yaml` are tried that have it. What is changed is a copy; the checkout
stays as it is.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "statmech_attention"


def main() -> int:
    """Try the mutations; return 1 if one survives."""
    word, survivors, tried = " ".join(sys.argv[1:]), [], 0
    mutations = yaml.safe_load((ROOT / "tools" / "mutations.yaml").read_text(encoding="utf-8"))
    chosen = [one for one in mutations if word in str(one)]
    for one in chosen:
        caught = noticed(**one)
        said = f"{one['file']}: {one['old'].strip()} -> {one['new'].strip()}"
        print(f"{ {True: 'caught  ', False: 'SURVIVES', None: 'not run '}[caught] } {said}", flush=True)
        survivors += [said] if caught is False else []
        tried += caught is not None
    print(f"{tried - len(survivors)} of {tried} were caught, {len(chosen) - tried} not run for want of a package")
    return 1 if survivors else 0


def place(file: str) -> Path:
    """Return where a file is under `src`: in the library, unless its name begins with the other package."""
    return Path(file) if file.startswith("attention_book/") else Path(PACKAGE) / file


def noticed(file: str, old: str, new: str, tests: list[str]) -> bool | None:
    """True if a test fails with the changed file, None if all are skipped; ValueError if the line is out of date."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        (Path(folder) / "results").symlink_to(ROOT / "results")  # read from beside `src`
        path = source / place(file)
        text = path.read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise ValueError(f"{file}: wanted {old!r} once, got it {text.count(old)} times.")
        path.write_text(text.replace(old, new), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command += [str(ROOT / "tests" / one) for one in tests]
        searched = filter(None, [str(source), os.environ.get("PYTHONPATH")])
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(searched)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, errors="replace")
    if done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED and "skipped" in done.stdout:
        return None
    if done.returncode not in (0, 1):
        raise ValueError(f"{file}: the tests did not run.\n{done.stdout}{done.stderr}")
    return done.returncode == 1


if __name__ == "__main__":
    sys.exit(main())
