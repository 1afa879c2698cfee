"""Build the book: execute the notebooks that changed, render the pages, print where they are.

Executed notebooks are cached in `.cache/book/KEY`. Jupyter Book's cache knows the cells of a page but not the code they
import, so KEY is a hash of that code, of the pinned versions and of the recorded results: change one of them and every
page is executed anew.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

import yaml

from statmech_attention.notebooks.execution import kernel_environment
from statmech_attention.results.provenance import hash_files, source_hash

ROOT = Path(__file__).resolve().parents[1]
KEPT_CACHES = 3
CORES = 2  # the times in the book are for two; more hardly help at these sizes
COLOUR = re.compile(r"\x1b\[[\d;]*m")
# A line that names what is wrong, in Sphinx's words, or the last line of an exception in a notebook.
COMPLAINT = re.compile(r": (?:WARNING|ERROR|CRITICAL|SEVERE): |^[A-Z]\w*(?:Error|Exception|NotConverged|Violation)\b: ")
# Every kernel says this; ours are reached from this machine only.
NOISE = "Kernel is running over TCP without encryption"


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Build the book into _build/html.")
    parser.add_argument("--clean", action="store_true", help="forget all earlier builds and executions first")
    parser.add_argument("--jobs", type=int, default=1, help="execute so many pages at a time (1)")
    options = parser.parse_args()

    if options.clean:
        for folder in ("_build", ".cache"):
            shutil.rmtree(ROOT / folder, ignore_errors=True)
    key = cache_key(ROOT)
    build, done = ROOT / "_build", ROOT / "_build" / ".done"
    if not done.is_file() or done.read_text() != key:
        # After a failed build Sphinx thinks the broken page was read, and the next build would pass; and pages whose
        # text is unchanged would keep the numbers of the old code. What was executed under this key is still cached.
        for folder in ("html", ".doctrees", "jupyter_execute"):
            shutil.rmtree(build / folder, ignore_errors=True)
    build.mkdir(exist_ok=True)
    done.unlink(missing_ok=True)

    command = _command(key)
    if options.jobs > 1:
        script = str(Path(__file__).with_name("execute_pages.py"))
        # Linear algebra of several pages, with threads that wait by spinning, would take the cores from each other.
        threads = max(1, CORES // options.jobs)
        _watch([sys.executable, script, str(ROOT), str(_cache(key)), str(options.jobs)], threads)
    status, complaints = _watch(command)
    if status:
        print("\nThe book was not built:", *complaints[:20], sep="\n  ", file=sys.stderr)
        return status
    done.write_text(key)
    print(f"\nThe book is ready. Open\n\n    {build / 'html' / 'index.html'}\n")
    return 0


def cache_key(root: Path) -> str:
    """What the outputs of a page depend on besides its own cells, as a short hash.

    Args:
        root: the project's folder.

    Returns:
        16 hexadecimal digits.
    """
    constraints = root / "constraints" / f"python{sys.version_info.major}.{sys.version_info.minor}.txt"
    files = [root / "requirements.txt", constraints, *(root / "benchmarks").rglob("*.py")]
    # Only what is recorded: states of unfinished trainings change all the time.
    files += (root / "results").rglob("*.nc")
    return hash_files([path for path in files if path.is_file()], root)[:8] + source_hash()[:8]


def _cache(key: str) -> Path:
    return ROOT / ".cache" / "book" / key


def _command(key: str) -> list[str]:
    """Jupyter Book's command, with a copy of the settings that names the cache."""
    cache = _cache(key)
    cache.mkdir(parents=True, exist_ok=True)
    os.utime(cache)
    others = sorted(cache.parent.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
    for old in others[KEPT_CACHES:]:
        shutil.rmtree(old)

    settings = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    settings["execute"]["cache"] = str(cache)
    # Interactive figures load it from the book's own files; only where a page asks, since it is large.
    settings["sphinx"]["config"]["html_static_path"] = [
        str(resources.files("plotly") / "package_data" / "plotly.min.js")
    ]
    # Named from where the settings are, and the copy is elsewhere.
    extensions = settings["sphinx"]["local_extensions"]
    settings["sphinx"]["local_extensions"] = {name: str(ROOT / folder) for name, folder in extensions.items()}
    config = ROOT / "_build" / "config.yml"
    config.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    start = "from jupyter_book.cli.main import main; main()"
    options = ["--config", str(config), "--toc", str(ROOT / "_toc.yml"), "--warningiserror", "--keep-going"]
    return [sys.executable, "-c", start, "build", str(ROOT), *options]


def _watch(command: list[str], threads: int = CORES) -> tuple[int, list[str]]:
    """Run a command, pass on what it prints, and collect its complaints, which a long traceback hides."""
    complaints = []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=_environment(threads),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout:
            line = COLOUR.sub("", line)
            if NOISE in line:
                continue
            print(line, end="", flush=True)
            if COMPLAINT.search(line):
                complaints.append(line.strip().removeprefix(f"{ROOT}{os.sep}"))
    return process.returncode, complaints


def _environment(threads: int) -> dict[str, str]:
    """The kernels' environment: this Python, and so many threads each."""
    environment = dict(os.environ)
    kernel_environment(environment)
    for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # XLA reads the first
        environment.setdefault(name, str(threads))
    # Without this the first kernel on a GPU takes most of its memory.
    environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    # Matplotlib announces on the first page that it builds its font cache; let it do that here.
    subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], check=False, stderr=subprocess.DEVNULL)
    return environment


if __name__ == "__main__":
    sys.exit(main())
