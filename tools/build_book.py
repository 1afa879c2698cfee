"""Build the book: execute the pages that need it, render, print where it is: `make book`."""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from compiled import cores, share, share_cores
from filelock import FileLock, Timeout
from page_notebooks import address, export, launch
from tqdm import tqdm

from attention_book.notebooks.execution import kernel_environment
from attention_book.results import hash_files

ROOT = Path(__file__).resolve().parents[1]
PAGE_MEMORY = 2 * 2**30  # bytes
# What executed pages may read, and what else the book is made from.
READ = ("constraints.txt", "src", "results")
SOURCES = (*READ, "_config.yml", "_toc.yml", "tools", "_ext", "_static", "book", "workflow")
HELP = "A damaged cache is forgotten by `make book CLEAN=1`."
SUFFIXES = {".bib", ".css", ".html", ".js", ".md", ".mplstyle", ".nc", ".npz", ".png", ".py", ".sh", ".svg", ".txt"}
SUFFIXES |= {".xz", ".yaml", ".yml"}
COLOUR = re.compile(r"\x1b\[[\d;]*m")
# A line that names what is wrong, in Sphinx's words, or the last line of an exception.
COMPLAINT = re.compile(r": (?:WARNING|ERROR|CRITICAL|SEVERE): |^[A-Z]\w*(?:Error|Exception|NotConverged|Violation)\b: ")


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Build the book into _build/html.")
    parser.add_argument("--clean", action="store_true", help="forget earlier builds and executed pages first")
    parser.add_argument("--jobs", type=int, help="pages to execute at a time (number of cores)")
    options = parser.parse_args()
    (ROOT / ".cache").mkdir(exist_ok=True)
    try:
        with FileLock(ROOT / ".cache" / "book.lock", blocking=False):
            return _brought_up_to_date(options)
    except Timeout:
        print("Another process builds the book here. Wait until it is done, or stop it.", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nInterrupted. Pages that were executed are kept.", file=sys.stderr)
    return 1


def _brought_up_to_date(options: argparse.Namespace) -> int:
    build = ROOT / "_build"
    if options.clean:
        for folder in (build, ROOT / ".cache" / "book"):  # compiled programs stay valid
            shutil.rmtree(folder, ignore_errors=True)
    build.mkdir(exist_ok=True)
    done, now = build / ".done", fingerprint(ROOT, SOURCES)
    if done.is_file() and done.read_text() == now and (build / "html" / "index.html").is_file():
        print("Nothing has changed.")
    else:
        done.unlink(missing_ok=True)
        with open(build / "book.log", "w", encoding="utf-8") as log:
            failed = _build(build, options.jobs or pages_at_a_time(), log)
        if failed:
            print(
                "\nThe book was not built:",
                *failed,
                f"\nThe log: {build / 'book.log'}",
                HELP,
                sep="\n",
                file=sys.stderr,
            )
            return 1
        done.write_text(now)
    print(f"\nThe book is ready. Open\n\n    {build / 'html' / 'index.html'}\n")
    return 0


def fingerprint(root: Path, names: tuple[str, ...]) -> str:
    """Return a hash of files and folders, with the version of Python."""
    paths = (path for name in names for path in (root / name, *(root / name).rglob("*")))
    digest = hash_files(
        (path for path in paths if path.suffix in SUFFIXES and path.is_file() and ".egg-info" not in str(path)), root
    )
    return f"{digest} {sys.version.split()[0]}"


def pages_at_a_time() -> int:
    """Return the number of cores, or fewer if memory is short."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(cores(), memory // PAGE_MEMORY))


def _build(build: Path, jobs: int, log) -> list[str]:
    """Execute and render; return what went wrong."""
    from execute_pages import Pages  # takes seconds, and often nothing is to be done

    pages, read, environment = Pages(ROOT), fingerprint(ROOT, READ), _environment(jobs)
    settings = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    failed = pages.execute(pages.stale(read), read, jobs, settings["execute"]["timeout"], environment, log)
    if failed:
        complaints = [f"{name}: {COLOUR.sub('', error).strip()}\n" for name, error in failed.items()]
        print(*complaints, sep="\n", file=log)
        return complaints

    for folder in ("html", ".doctrees"):  # Sphinx does not see all that a page is made from
        shutil.rmtree(build / folder, ignore_errors=True)
    where = address(settings, ROOT)
    branch = settings["repository"]["branch"]
    launch(settings, where)
    status, complaints = _watch(_command(settings, pages.folder), environment, log)
    if status:
        return complaints or [f"Sphinx ended with status {status}."]
    export(ROOT, list(pages.notebooks), build, where, branch)
    return []


def _command(settings: dict, cache: Path) -> list[str]:
    """Return Jupyter Book's command, with a copy of the settings that names the cache."""
    settings["execute"]["cache"] = str(cache)
    # Named from where the settings are, and the copy is elsewhere.
    extensions = settings["sphinx"]["local_extensions"]
    settings["sphinx"]["local_extensions"] = {name: str(ROOT / folder) for name, folder in extensions.items()}
    config = ROOT / "_build" / "config.yml"
    config.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    start = "from jupyter_book.cli.main import main; main()"
    options = ["--config", str(config), "--toc", str(ROOT / "_toc.yml"), "--warningiserror", "--keep-going"]
    return [sys.executable, "-c", start, "build", str(ROOT), *options]


def _watch(command: list[str], environment: dict[str, str], log) -> tuple[int, list[str]]:
    """Run a command and log what it prints; return its exit status and its complaints."""
    complaints, pipes = [], {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) as process:
        for line in tqdm(process.stdout, desc="rendering", unit="line", disable=None, leave=False):
            line = COLOUR.sub("", line)
            print(line, end="", file=log, flush=True)
            if COMPLAINT.search(line):
                complaints.append(line.strip().removeprefix(f"{ROOT}{os.sep}"))
    return process.returncode, complaints


def _environment(jobs: int) -> dict[str, str]:
    """Return the kernels' environment: this Python, a share of the cores, the cache of programs."""
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
