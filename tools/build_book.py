"""Build the book: execute the pages that depend on a change, render, print where it is.

What depends on what is in `page_cache.py`. All that Sphinx and the kernels say goes to `_build/book.log`.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

import yaml
from compiled import cores, share, share_cores
from page_notebooks import address, export, launch
from progress import overwrite

from attention_book.notebooks.execution import kernel_environment
from attention_book.records import hash_files

ROOT = Path(__file__).resolve().parents[1]
MEMORY_A_PAGE = 2 * 2**30  # bytes
# What the book is made from: all of it decides whether there is anything to do, and the frame whether pages can stay rendered.
FRAME = ("_config.yml", "_toc.yml", "requirements.txt", "constraints", "tools", "_ext", "_static")
SOURCES = (*FRAME, "book", "src", "benchmarks", "workflow", "results")
MATHJAX = "tex-svg-full.js"
SUFFIXES = {".bib", ".css", ".md", ".mplstyle", ".nc", ".png", ".py", ".sh", ".svg", ".txt", ".yaml", ".yml"}
COLOUR = re.compile(r"\x1b\[[\d;]*m")
# A line that names what is wrong, in Sphinx's words, or the last line of an exception in a notebook.
COMPLAINT = re.compile(r": (?:WARNING|ERROR|CRITICAL|SEVERE): |^[A-Z]\w*(?:Error|Exception|NotConverged|Violation)\b: ")


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Build the book into _build/html.")
    parser.add_argument("--clean", action="store_true", help="forget all earlier builds and executions first")
    parser.add_argument("--jobs", type=int, help="execute so many pages at a time (as many as there are cores)")
    options = parser.parse_args()
    build = ROOT / "_build"
    if options.clean:
        for folder in (build, ROOT / ".cache"):
            shutil.rmtree(folder, ignore_errors=True)
    build.mkdir(exist_ok=True)
    done = build / ".done"
    before, now = _recorded(done), fingerprints(ROOT)
    if before != now or not (build / "html" / "index.html").is_file():
        done.unlink(missing_ok=True)
        with open(build / "book.log", "w", encoding="utf-8") as log:
            failed = _build(build, before, now, options.jobs or pages_at_a_time(), log)
        if failed:
            print("\nThe book was not built:", *failed, f"\nThe log: {build / 'book.log'}", sep="\n", file=sys.stderr)
            return 1
        done.write_text(json.dumps(now))
    else:
        print("Nothing has changed.")
    print(f"\nThe book is ready. Open\n\n    {build / 'html' / 'index.html'}\n")
    return 0


def fingerprints(root: Path) -> dict[str, str]:
    """What a built book was built from.

    Args:
        root: the project's folder.

    Returns:
        Hashes: `frame`, of what every page rests on; `package`, whose docstrings are on some pages; and `all`.
    """
    from attention_book.tasks.images import data_root

    images = sorted(path.name for path in (data_root() / "decoded").glob("*.npz"))
    parts = {"frame": FRAME, "package": ("src",), "all": SOURCES}
    hashes = {name: hash_files(_files(root, folders), root) for name, folders in parts.items()}
    hashes["frame"] += f" Python {sys.version.split()[0]}"
    hashes["all"] += f" {hashes['frame']} {' '.join(images)}"
    return hashes


def _recorded(done: Path) -> dict:
    """The fingerprints of the last build; empty if it failed, or left a file of another form."""
    try:
        found = json.loads(done.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def pages_at_a_time() -> int:
    """As many as there are cores, and memory for the pages."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(cores(), memory // MEMORY_A_PAGE))


def _files(root: Path, names: tuple[str, ...]) -> list[Path]:
    paths = [path for name in names for path in (root / name, *(root / name).rglob("*"))]
    return [path for path in paths if path.suffix in SUFFIXES and path.is_file()]


def _build(build: Path, before: dict, now: dict, jobs: int, log) -> list[str]:
    """Execute and render; returns what went wrong."""
    # Late, since this takes seconds, and often nothing is to be done.
    from execute_pages import execute
    from page_cache import PageCache

    cache, environment = PageCache(ROOT), _environment(jobs)
    settings = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    stale = cache.stale()
    for name, reason in stale.items():
        print(f"{name} is executed: {reason}", file=log, flush=True)
    failed = execute(cache, stale, jobs, settings["execute"]["timeout"], environment, log) if stale else {}
    if failed:
        complaints = [f"{name}: {COLOUR.sub('', error).strip()}\n" for name, error in failed.items()]
        print(*complaints, sep="\n", file=log)
        return complaints

    # Every page is written again, so that all references are looked at; what is read again is what changed.
    shutil.rmtree(build / "html", ignore_errors=True)
    if before.get("frame") != now["frame"]:  # or the last build failed: Sphinx thinks that its broken page was read
        shutil.rmtree(build / ".doctrees", ignore_errors=True)
    # Sphinx sees a page's text, but neither its outputs nor what is made of the package's docstrings or of other pages' times.
    changed = ["{nb-exec-table}"] * bool(stale) + ["{eval-rst}"] * (before.get("package") != now["package"])
    for page in (ROOT / "book").rglob("*.md"):
        name, text = page.relative_to(ROOT).with_suffix("").as_posix(), page.read_text(encoding="utf-8")
        if name in stale or any(directive in text for directive in changed):
            (build / ".doctrees" / f"{name}.doctree").unlink(missing_ok=True)
    where = address(settings, ROOT)
    branch = settings["repository"]["branch"]
    launch(settings, where)
    status, complaints = _watch(_command(settings, cache.folder), environment, log)
    export(ROOT, list(cache.notebooks), build, where, branch)
    return complaints or [f"Sphinx ended with status {status}."] if status else []


def _command(settings: dict, cache: Path) -> list[str]:
    """Jupyter Book's command, with a copy of the settings that names the cache."""
    settings["execute"]["cache"] = str(cache)
    # What pages load, from the book's own files: Plotly only where a page asks, since it is large; MathJax with its letters as
    # drawings, since browsers refuse fonts to pages that are opened as files.
    settings["sphinx"]["config"]["html_static_path"] = [
        str(resources.files("plotly") / "package_data" / "plotly.min.js"),
        str(resources.files("sphinx-mathjax-offline") / "static" / "mathjax" / MATHJAX),
    ]
    settings["sphinx"]["config"]["mathjax_path"] = MATHJAX
    # Named from where the settings are, and the copy is elsewhere.
    extensions = settings["sphinx"]["local_extensions"]
    settings["sphinx"]["local_extensions"] = {name: str(ROOT / folder) for name, folder in extensions.items()}
    config = ROOT / "_build" / "config.yml"
    config.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    start = "from jupyter_book.cli.main import main; main()"
    options = ["--config", str(config), "--toc", str(ROOT / "_toc.yml"), "--warningiserror", "--keep-going"]
    return [sys.executable, "-c", start, "build", str(ROOT), *options]


def _watch(command: list[str], environment: dict[str, str], log) -> tuple[int, list[str]]:
    """Run a command, keep what it prints, and collect its complaints."""
    complaints = []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout:
            line = COLOUR.sub("", line)
            print(line, end="", file=log, flush=True)
            overwrite(f"rendering: {line.strip()}")
            if COMPLAINT.search(line):
                complaints.append(line.strip().removeprefix(f"{ROOT}{os.sep}"))
    overwrite("")
    return process.returncode, complaints


def _environment(jobs: int) -> dict[str, str]:
    """The kernels' environment: this Python, their share of the cores, one cache of compiled programs."""
    environment = dict(os.environ)
    kernel_environment(environment)
    share(environment, ROOT / ".cache" / "compiled")
    share_cores(environment, jobs)
    # Without this the first kernel on a GPU takes most of its memory.
    environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    # Matplotlib announces on the first page that it builds its font cache; let it do that here.
    subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], check=False, stderr=subprocess.DEVNULL)
    return environment


if __name__ == "__main__":
    sys.exit(main())
