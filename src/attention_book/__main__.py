"""The command line: `python -m attention_book run CHAPTER -p NAME=VALUE`, and `... list`."""

import argparse
import logging
import os
import signal
import sys
from pathlib import Path

from statmech_attention.installed import EXTRAS, NAME, absent, version

_EXAMPLES = """\
examples:
  python -m attention_book list
  python -m attention_book run theory/choosing_paths -p widths=5,50
  python -m attention_book run theory/action -p temperature=0.01 --output ten.ipynb
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    options = _parser().parse_args(arguments)
    everything = options.command == "list" and not options.chapters
    from attention_book.runs import notebooks

    try:
        if options.command == "list":
            _list(notebooks, options.chapters or notebooks.chapters())
        else:
            _run(notebooks, options)
        if everything and (lacking := report()):
            print(lacking)
    except notebooks.Refused as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except notebooks.RunFailed as error:
        kept = f"\nThe notebook up to there is in {_shown(error.path)}" if error.path else ""
        print(f"error: {error}{kept}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        kept = f"; the notebook up to there is in {_shown(error.args[0])}" if error.args else ""
        print(f"interrupted{kept}", file=sys.stderr)
        return 130
    return 0


def report() -> str:
    """Extras that are not installed, a line each; empty if all are there."""
    lacking = {extra: missing for extra in EXTRAS if (missing := absent(extra))}
    return "\n".join(f"without {', '.join(names)}: pip install '{NAME}[{extra}]'" for extra, names in lacking.items())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m attention_book",
        description="Run chapters of the book with other parameters.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{NAME} {version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="execute a chapter with other parameters and keep the executed notebook")
    run.add_argument("chapter", metavar="CHAPTER", help="a path, or a name such as theory/choosing_paths")
    run.add_argument(
        "-p", "--parameter", type=_pair, action="append", default=[], metavar="NAME=VALUE", help="a list is 1,2,3"
    )
    run.add_argument("-o", "--output", metavar="FILE", help="the executed notebook (default: executed/NAME-001.ipynb)")
    run.add_argument("--overwrite", action="store_true", help="replace FILE if it is there")

    show = commands.add_parser("list", help="show the chapters and their parameters")
    show.add_argument("chapters", metavar="CHAPTER", nargs="*", help="only these (default: all that take parameters)")
    return parser


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"wanted NAME=VALUE, as in -p width=30, got {text}")
    return name, value


def _list(notebooks, chapters: list[str]) -> None:
    for chapter in chapters:
        parameters = notebooks.parameters_of(chapter)
        print(chapter)
        if not parameters:
            print("  takes no parameters")
        for parameter in parameters.values():
            text = ", ".join(filter(None, (parameter.help, parameter.allowed_text)))
            print(f"  {parameter.name:<18} {parameter.type:<12} {parameter.default!s:<18} {text}".rstrip())
        print()


def _run(notebooks, options: argparse.Namespace) -> None:
    parameters = dict(options.parameter)
    if len(parameters) < len(options.parameter):
        names = [name for name, _ in options.parameter]
        twice = next(name for name in names if names.count(name) > 1)
        raise notebooks.Refused(f"{twice}: given twice. Give it once, a list as 1,2,3.")
    if not sys.stderr.isatty():
        # Without a terminal, as in a batch job's log, a line per cell instead of a bar that redraws itself.
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(message)s")
        logging.getLogger("papermill").setLevel(logging.INFO)
    path = notebooks.run(options.chapter, parameters, output=options.output, overwrite=options.overwrite)
    print(_shown(path))


def _shown(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # of a batch system: what was executed is kept, too
    sys.exit(main())
