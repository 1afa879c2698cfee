"""Run a chapter of the book, or a notebook of `book/runs`, with other parameters."""

import contextlib
import difflib
import errno
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attention_book.runs.execution import RunFailed, alone, execute
from attention_book.runs.parameters import Parameter, Refused, check_parameters, read_parameters
from statmech_attention.installed import version
from statmech_attention.records import replacing

__all__ = ["Parameter", "Refused", "RunFailed", "chapters", "find_chapter", "parameters_of", "run"]

PREFIX = "attention_book-"  # of folders for temporary files; a run that is killed leaves its executed part in one
_SUFFIXES = (".md", ".ipynb")
_GLUED = re.compile(r"\{glue:text\}`([^`:]+):?([^`]*)`")


def run(
    chapter: str | Path,
    parameters: Mapping[str, Any] | None = None,
    *,
    output: str | Path | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Path:
    """Execute a notebook with other parameters and keep the executed notebook."""
    source = find_chapter(chapter)
    notebook = _read(source)
    known = _parameters(notebook, source)
    given = check_parameters(known, parameters or {})
    for name, value in given.items():
        if known[name].is_path:  # the notebook runs in its own folder
            given[name] = os.path.relpath(Path(value).expanduser().absolute(), source.parent)
    record = None
    if "output" in known and known["output"].is_path:  # of a run notebook
        record = (source.parent / given.get("output", known["output"].default)).resolve()
        _make_folder(record.parent)
    targets = _targets(source, output, overwrite)
    stopped: BaseException | None = None
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder, alone(record) if record else contextlib.nullcontext():
        executed = Path(folder) / "executed.ipynb"
        try:
            execute(notebook, source, given, executed, progress=sys.stderr.isatty() if progress is None else progress)
        except (RunFailed, KeyboardInterrupt) as error:
            stopped = error
        try:
            # Also after an error or an interrupt: the computed part is evidence.
            kept = _publish(executed, targets, overwrite, source, _notice(known, given))
        except OSError as error:
            name = next(iter(targets)).name if output else source.stem
            failed = RunFailed(f"{name} could not be written: {error.strerror or error}")
            failed.path = _set_aside(executed, source)
            raise failed from stopped
    if isinstance(stopped, RunFailed):
        stopped.path = kept
    elif stopped is not None and kept is not None:
        stopped.args = (kept,)
    if stopped is not None or kept is None:
        raise stopped or RunFailed("nothing was executed")
    return kept


def parameters_of(chapter: str | Path) -> dict[str, Parameter]:
    """Return the parameters of a notebook by name."""
    source = find_chapter(chapter)
    return _parameters(_read(source), source)


def chapters() -> list[str]:
    """Names of the notebooks that take parameters."""
    book = book_folder()
    # The search for the word is quick: few pages have such a cell.
    sources = [path for path in book.rglob("*.md") if "parameters" in path.read_text(encoding="utf-8")]
    return sorted(_name(path) for path in sources if parameters_of(path))


def book_folder() -> Path:
    """Return the folder of the book, above the current folder or in this checkout."""
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[3]):
        if (folder / "_toc.yml").is_file() and (folder / "book").is_dir():
            return folder / "book"
    raise Refused("no book found: run this in a checkout of the project, or give the path of a notebook.")


def find_chapter(chapter: str | Path) -> Path:
    """Return the file of a chapter, given as a path or as a name below the book folder."""
    path = Path(chapter)
    if not path.name:
        raise Refused(f"chapter: wanted a path, or a name such as theory/choosing_paths, got {str(chapter)!r}.")
    if path.is_file():
        if path.suffix not in _SUFFIXES:
            raise Refused(f"{chapter}: wanted a notebook in MyST Markdown (.md) or .ipynb, got {path.name}.")
        return path.resolve()
    # The Markdown file is the source; an .ipynb beside it may be an old copy.
    named = book_folder() / path.with_suffix(".md")
    if named.is_file():
        return named.resolve()
    near = difflib.get_close_matches(str(chapter), chapters(), 1)
    let = f" Did you mean {near[0]}?" if near else ""
    raise Refused(f"{chapter}: no such file, and no such chapter of the book; the command `list` shows them.{let}")


def _read(source: Path):
    import jupytext

    try:
        return jupytext.read(source)
    except Exception as error:
        raise Refused(f"{source.name}: cannot be read as a notebook ({error}).") from error


def _parameters(notebook, source: Path) -> dict[str, Parameter]:
    cells = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(cells) > 1:
        raise Refused(f"{source.name}: wanted one cell tagged parameters, got {len(cells)}.")
    try:
        return read_parameters(cells[0]) if cells else {}
    except Refused as error:
        raise Refused(f"{source.name}: {error}") from None


def _name(source: Path) -> str:
    """Name of a chapter below the book folder; of a file elsewhere only its stem."""
    with contextlib.suppress(Refused, ValueError):
        return source.resolve().relative_to(book_folder().resolve()).with_suffix("").as_posix()
    return source.stem


def _targets(source: Path, output: str | Path | None, overwrite: bool) -> Iterable[Path]:
    """Files that the executed notebook may have, of which it takes the first that is free."""
    if output is None:
        stem = Path.cwd() / "executed" / _name(source)
        _make_folder(stem.parent)
        return (stem.with_name(f"{stem.name}-{number:03d}.ipynb") for number in itertools.count(1))
    target = Path(output).absolute()
    if target.suffix != ".ipynb":
        raise Refused(f"output: wanted a name that ends in .ipynb, got {str(output)!r}.")
    if target.is_dir():
        raise Refused(f"output: {output} is a folder. Give the name of a file.")
    if target.exists() and not overwrite:
        raise Refused(f"output: {output} is there already. Give another name, or ask to overwrite it.")
    _make_folder(target.parent)
    return [target]


def _make_folder(folder: Path) -> None:
    """Make a folder and write to it, so that a refusal comes before any computation."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise Refused(f"output: nothing can be written to {folder} ({error.strerror}).") from error


def _notice(known: dict[str, Parameter], given: dict[str, Any]) -> str:
    """The values that the text was not written for, in a sentence; empty where all are the defaults."""
    others = {name: value for name, value in given.items() if value != known[name].default}
    if not others:
        return ""
    defaults = {name: known[name].default for name in others}
    here, before = (", ".join(f"`{name} = {value}`" for name, value in each.items()) for each in (others, defaults))
    return f"Executed with {here}; the sentences and verdicts were written for the defaults ({before})."


def _set_aside(executed: Path, source: Path) -> Path | None:
    """Move a file out of a folder that will be removed; on the same disk this takes no room."""
    with contextlib.suppress(OSError):
        return executed.rename(Path(tempfile.mkdtemp(prefix=PREFIX)) / f"{source.stem}.ipynb")
    return None


def _write_glued(notebook) -> None:
    """Write glued values into the text, as the build of the book does."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    glued = [
        (output.metadata.scrapbook, output.data) for output in outputs if "scrapbook" in output.get("metadata", {})
    ]
    if not glued:
        return
    from myst_nb.core.variables import format_plain_text

    values = {key.name: data.get(f"{key.mime_prefix}text/plain", "") for key, data in glued}

    def written(role: re.Match) -> str:
        try:
            return format_plain_text(values[role[1]], role[2])
        except (KeyError, TypeError, ValueError):  # of a cell that was not reached, or of another kind
            return role[0]

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _GLUED.sub(written, cell.source)


def _publish(executed: Path, targets: Iterable[Path], overwrite: bool, source: Path, notice: str) -> Path | None:
    """Write the executed notebook without this machine's paths; None if nothing was executed."""
    import nbformat

    try:
        notebook = nbformat.read(executed, as_version=4)
    except (FileNotFoundError, nbformat.reader.NotJSONError):  # not begun, or cut off by a full disk
        return None
    record = notebook.metadata.setdefault("papermill", {})
    notebook.metadata["statmech_attention"] = {"version": version()}
    _write_glued(notebook)
    if notice:
        notebook.cells.insert(0, nbformat.v4.new_markdown_cell(notice))
    for target in targets:
        if not overwrite:
            try:
                target.touch(exist_ok=False)  # ours: two runs never write the same file
            except FileExistsError:
                continue
        record["input_path"], record["output_path"] = _name(source), target.name
        try:
            with replacing(target) as temporary:
                nbformat.write(notebook, temporary)
        except OSError:
            if not overwrite:
                target.unlink()
            raise
        return target
    raise FileExistsError(errno.EEXIST, "another run has written it meanwhile")
