"""Execute pages of the book at the ends of their parameters' ranges, and inside: `make ranges`.

Each parameter at its lower end, all of them there, all at the upper ends, and points drawn at random, with sizes up to
their defaults. A page that fails, or takes longer than the limit, is named.
"""

import argparse
import random
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import nbformat

from attention_book.runs.notebooks import chapters, parameters_of
from attention_book.runs.parameters import Parameter

# Also Python's words for a number, and a warning of one; an exponent of minus infinity is a number.
NO_NUMBER = re.compile(r"\b(?:nan|(?<!-)(?<!N = )inf)\b|\bnp\.\w+\(|RuntimeWarning")
KINDS = ("lower", "all-lower", "all-upper", "random")


def main() -> int:
    """Run the command line; return 1 if a page failed or took too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "pages", nargs="*", help="names such as theory/action, or of folders; all that take parameters if none is given"
    )
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"some of {', '.join(KINDS)}")
    parser.add_argument("--points", type=int, default=3, help="random points of each page (3)")
    parser.add_argument("--limit", type=int, default=300, help="seconds of processor time for each execution (300)")
    options = parser.parse_args()
    every, bad, tried = [one for one in chapters() if not one.startswith("runs/")], 0, 0
    asked = [one for one in every if any(f"{one}/".startswith(f"{part}/") for part in options.pages or [one])]
    if not asked:
        parser.error(f"wanted some of {', '.join(every)}")
    for page in asked:
        for kind, given in points(page, options.points):
            if kind in options.kinds.split(","):
                began, tried = processor_time(), tried + 1
                error = attempt(page, given, options.limit)
                bad += bool(error)
                said = " ".join((page, *(f"{name}={text(value)}" for name, value in given.items())))
                seconds = processor_time() - began
                print(f"{'BAD ' if error else 'ok  '} {said}: {seconds:.0f} s {error}".rstrip(), flush=True)
    print(f"{tried - bad} of {tried} executions succeeded")
    return 1 if bad else 0


def attempt(page: str, given: dict[str, Any], limit: int) -> str:
    """Execute a page in a process of its own; return what went wrong, in a line."""
    arguments = [part for name, value in given.items() for part in ("-p", f"{name}={text(value)}")]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "attention_book", "run", page, *arguments, "-o", f"{folder}/page.ipynb"]
        limited = ["sh", "-c", f'ulimit -t {limit}; exec "$@"', "sh", *command]  # without a fork of this process
        done = subprocess.run(limited, capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.splitlines() or [f"ended with {done.returncode}"]
            error = next((line for line in lines if line.startswith("error: ")), lines[-1])
            return f"{error} (or more than {limit} s)" if "kernel died" in error else error
        return shown_nothing(nbformat.read(f"{folder}/page.ipynb", as_version=4))


def shown_nothing(notebook) -> str:
    """The first printed line with a number that is none; empty if there is none."""
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        if "scrapbook" not in output.get("metadata", {}):  # numbers for the claims, which nobody sees
            data = output.get("data", {})
            shown = output.get("text", data.get("text/markdown", data.get("text/plain", "")))
            for line in filter(NO_NUMBER.search, shown.splitlines()):
                return f"prints {line.strip()!r}"
    return ""


def processor_time() -> float:
    """Seconds of processor time that the executions have taken; another program beside them adds none."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def points(page: str, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Parameters of a page to be tried, with their kind."""
    known = {name: one for name, one in parameters_of(page).items() if not one.is_path}
    lowest, highest = ({name: ends(one)[side] for name, one in known.items()} for side in (0, -1))
    for name, one in known.items():
        if lowest[name] != one.default:
            yield "lower", {name: lowest[name]}
    yield "all-lower", lowest
    yield "all-upper", highest
    generator = random.Random(page)
    for _ in range(number):
        yield "random", {name: inside(one, generator) for name, one in known.items()}


def ends(one: Parameter) -> list[Any]:
    """The first and the last value that a parameter may have; of a list, as its only entry."""
    if isinstance(one.allowed, dict):
        found = [one.allowed.get("ge", 1e-6), one.allowed["le"]]
        found = [int(value) for value in found] if "int" in one.type else found
    else:
        found = list(one.allowed or ([False, True] if one.type == "bool" else [one.default]))
    return [[value] for value in found] if one.type.startswith("list") and one.allowed else found


def inside(one: Parameter, generator: random.Random) -> Any:
    """A value at random: of a seed or a real number anywhere, of a size up to its default."""
    if not isinstance(one.allowed, dict):
        return generator.choice(ends(one))
    low, high = one.allowed.get("ge", 1e-6), one.allowed["le"]
    whole, several = "int" in one.type, one.type.startswith("list")
    if whole and "seed" not in one.name + one.help:
        high = max(one.default if several else [one.default])
    rank = generator.random()
    value = low * (high / low) ** rank if low > 0 else low + (high - low) * rank
    value = round(value) if whole else float(f"{value:.3g}")
    return [value] if several else value


def text(value: Any) -> str:
    """A value as on the command line."""
    return ",".join(map(text, value)) if isinstance(value, list) else str(value)


if __name__ == "__main__":
    sys.exit(main())
