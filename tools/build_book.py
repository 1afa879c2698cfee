"""Build the book: execute the pages that need it, render, print where it is: `make book`.

Jupyter's cache executes the pages, several at a time, and keeps them. A page is executed again if its cells change, and
all pages are if anything changes that they may read.
"""

import argparse
import hashlib
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from functools import partial
from pathlib import Path

import yaml
from check_book import notebooks
from filelock import FileLock, Timeout
from page_notebooks import address, export, launch

from attention_book.runs.execution import kernel_environment

ROOT = Path(__file__).resolve().parents[1]
PAGE_MEMORY = 2 * 2**30  # bytes
# What executed pages may read, and what else the book is made from.
READ = ("constraints.txt", "src", "results")
SOURCES = (*READ, "_config.yml", "_toc.yml", "tools", "_ext", "_static", "book", "workflow")
SUFFIXES = {".bib", ".css", ".html", ".js", ".md", ".mplstyle", ".nc", ".npz", ".png", ".py", ".sh", ".svg", ".txt"}
SUFFIXES |= {".xz", ".yaml", ".yml"}
COLOUR = re.compile(r"\x1b\[[\d;]*m")
# A line that names what is wrong, in Sphinx's words, or the last line of an exception.
COMPLAINT = re.compile(r": (?:WARNING|ERROR|CRITICAL|SEVERE): |^[A-Z]\w*(?:Error|Exception|NotConverged|Violation)\b: ")


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Build the book into _build/html.")
    parser.add_argument("--clean", action="store_true", help="forget earlier builds and executed pages first")
    parser.add_argument("--jobs", type=int, default=pages_at_a_time(), help="pages to execute at a time")
    options = parser.parse_args()
    try:
        (ROOT / ".cache").mkdir(exist_ok=True)
        with FileLock(ROOT / ".cache" / "book.lock", blocking=False):
            return _brought_up_to_date(options.clean, options.jobs)
    except Timeout:
        print("Another process builds the book here. Wait until it is done, or stop it.", file=sys.stderr)
    except OSError as error:
        where = error.filename or ROOT
        print(f"The book was not built: {where} cannot be written ({error.strerror or error}).", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nInterrupted. Pages that were executed are kept.", file=sys.stderr)
    return 1


def _brought_up_to_date(clean: bool, jobs: int) -> int:
    build = ROOT / "_build"
    if clean:
        for folder in (build, ROOT / ".cache" / "book"):  # compiled programs stay valid
            shutil.rmtree(folder, ignore_errors=True)
    build.mkdir(exist_ok=True)
    done, now = build / ".done", fingerprint(ROOT, SOURCES)
    if done.is_file() and done.read_text() == now and (build / "html" / "index.html").is_file():
        print("Nothing has changed.")
    else:
        done.unlink(missing_ok=True)
        (build / "book.log").unlink(missing_ok=True)
        with open(build / "book.log", "a", encoding="utf-8") as log:  # the kernels write to it, too
            try:
                failed = executed(ROOT, jobs, log) or rendered(ROOT, log)
            except Exception as error:  # as of a damaged cache
                traceback.print_exc(file=log)
                failed = [f"{type(error).__name__}: {error}"]
        if failed:
            failed.append(f"\nThe log: {log.name}\nIf a cache is damaged: make book CLEAN=1")
            print("\nThe book was not built:", *failed, sep="\n", file=sys.stderr)
            return 1
        done.write_text(now)
    print(f"\nThe book is ready. Open\n\n    {build / 'html' / 'index.html'}\n")
    return 0


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pages_at_a_time() -> int:
    """Return the number of cores, or fewer if memory is short."""
    return max(1, min(cores(), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // PAGE_MEMORY))


def fingerprint(root: Path, names: tuple[str, ...]) -> str:
    """Return a hash of the names and contents of files and folders, and of the version of Python."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(path for name in names for path in (root / name, *(root / name).rglob("*"))):
        if path.suffix in SUFFIXES and path.is_file() and ".egg-info" not in str(path):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def executed(root: Path, jobs: int, log) -> list[str]:
    """Execute the pages that the cache does not have; return what went wrong."""
    kernel_environment(os.environ)
    for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, str(max(1, cores() // jobs)))
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else the first page takes most of a GPU's memory
    # Matplotlib announces on the first page that it builds its font cache; let it do that here.
    subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], check=False, stderr=subprocess.DEVNULL)
    cache, pages = notebooks(root)
    read, seen = fingerprint(root, READ), root / ".cache" / "book" / ".read"
    if not seen.is_file() or seen.read_text() != read:
        cache.clear_cache()
        seen.parent.mkdir(parents=True, exist_ok=True)
        seen.write_text(read)
    for record in cache.list_project_records():
        cache.remove_nb_from_project(record.pk)
    forget_damaged(cache, root)
    for path in pages.values():
        cache.add_nb_to_project(str(path), read_data={"name": "myst_nb_md", "type": "plugin"})
    stale = [Path(record.uri) for record in cache.list_unexecuted()]
    stale.sort(key=lambda path: path.stat().st_size, reverse=True)  # the longest first, so that none is waited for
    failed = []
    # What the kernels write to standard error goes into the log.
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=_errors_to, initargs=(log.name,)) as pool:
        try:
            for path, seconds, error in pool.imap_unordered(partial(_execute, root), stale):
                name = path.relative_to(root).with_suffix("").as_posix()
                print(f"{name}: {'failed' if error else f'{seconds:.0f} s'}", flush=True)
                if error:
                    print(name, error, sep="\n", file=log)
                    failed.append(f"{name}: {error.splitlines()[-1]}")
        except KeyboardInterrupt:
            for worker in multiprocessing.active_children():
                worker.kill()  # while a page runs, nbclient catches the gentler signals
            raise
    return failed


def forget_damaged(cache, root: Path) -> None:
    """Remove executed pages that cannot be read, and name them: they alone are executed again."""
    for record in cache.list_cache_records():
        try:
            cache.get_cache_bundle(record.pk)
        except Exception:  # whatever a reader of JSON, text or files says
            kept = Path(cache.path) / "executed" / record.hashkey / "base.ipynb"
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.touch()  # an absent one could not be removed
            cache.remove_cache(record.pk)
            name = os.path.relpath(record.uri, root).removesuffix(".md")
            print(f"{name}: its executed page is damaged, so it is executed again", flush=True)


def _errors_to(log: str) -> None:
    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), 2)


def _execute(root: Path, path: Path) -> tuple[Path, float, str]:
    """Execute one page; return it with its time and its error."""
    from jupyter_cache.executors import load_executor

    cache, began = notebooks(root)[0], time.monotonic()
    timeout = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["execute"]["timeout"]
    run = partial(load_executor("local-serial", cache).run_and_cache, filter_uris=[str(path)], timeout=timeout)
    result, error = run(), ""
    if result.errored:  # two kernels can pick the same port; nothing has run yet then
        result = run()
    if result.excepted or result.errored:
        error = cache.get_project_record(str(path)).traceback or "it could not be executed"
    return path, time.monotonic() - began, COLOUR.sub("", error).strip()


def rendered(root: Path, log) -> list[str]:
    """Build the HTML from the executed pages; return what went wrong."""
    build = root / "_build"
    for folder in ("html", ".doctrees"):  # Sphinx does not see all that a page is made from
        shutil.rmtree(build / folder, ignore_errors=True)
    settings = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    where, branch = address(settings, root), settings["repository"]["branch"]
    launch(settings, where)
    # A copy of the settings that names the cache. Folders are named from where the settings are.
    settings["execute"]["cache"] = str(root / ".cache" / "book")
    extensions = settings["sphinx"]["local_extensions"]
    settings["sphinx"]["local_extensions"] = {name: str(root / folder) for name, folder in extensions.items()}
    (build / "config.yml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", str(root)]
    command += ["--config", str(build / "config.yml"), "--toc", str(root / "_toc.yml"), "--warningiserror"]
    done = subprocess.run([*command, "--keep-going"], cwd=root, capture_output=True, text=True, errors="replace")
    lines = COLOUR.sub("", done.stdout + done.stderr).splitlines()
    print(*lines, sep="\n", file=log)
    if done.returncode:
        found = [line.strip().removeprefix(f"{root}{os.sep}") for line in lines if COMPLAINT.search(line)]
        return found or [f"Sphinx ended with status {done.returncode}."]
    export(root, list(notebooks(root)[1]), build, where, branch)
    return []


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as an interrupt: kernels end, and pages are kept
    sys.exit(main())
