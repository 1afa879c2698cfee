"""Parameters of a notebook: read by papermill, checked by pydantic, without running any of it.

One line of the cell is one parameter, and its comment is the help, which may end with what is allowed:

    width: int = 30  # width N, in [1, 10000]
    noise: float = 1.0  # noise of the tokens, in [0, inf)
    task: str = "chains"  # what is learned, one of chains, images
    network: str = "../../results/network.nc"  # a record, as a path

A path given with a run is relative to the current folder, the default to the notebook.
"""

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import SchemaError

_SCALARS = {"int": int, "float": float, "bool": bool, "str": str}
_PATH = "path"
_RANGE = re.compile(r",? *in ([\[(])([^,\[\]()]+),([^,\[\]()]+)([\])])$")
_CHOICE = re.compile(r",? *one of ([^:;]+)$")
_AS_PATH = re.compile(r",? *\bas a path$")
# A truth value is a whole number to Python, but nobody who writes `width=True` means 1.
_STRICT = ConfigDict(strict=True, allow_inf_nan=False)


class Refused(ValueError):
    """Raised before a run starts, for its chapter, its parameters or its output file."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a notebook."""

    name: str
    type: str  # "int", "float", "bool", "str", or "list[...]" of one of these
    default: Any
    help: str = ""  # the comment beside it
    allowed: Any = None  # bounds, words, or a path

    def convert(self, value: Any) -> Any:
        """Return a text from the command line, or a Python value, as this parameter's type."""
        if hasattr(value, "tolist"):  # of NumPy or JAX
            value = value.tolist()
        if self.is_path and isinstance(value, Path):
            value = str(value)
        ending = Path(self.default).suffix if self.is_path else ""
        if ending and Path(str(value)).suffix != ending:
            raise Refused(f"{self.name}: wanted a file name ending in {ending}, got {str(value)!r}.")
        if not self.type.startswith("list"):
            return self._entry(value)
        if isinstance(value, str):
            inside = value.strip().removeprefix("[").removesuffix("]")
            value = [entry.strip().strip("\"'") for entry in inside.split(",")] if value.strip() != "[]" else []
        if not isinstance(value, list | tuple):
            raise Refused(f"{self.name}: wanted a list as in 1,2,3, got {value!r}.")
        if not value and self.default:
            raise Refused(f"{self.name}: wanted at least one entry, got an empty list.")
        entries = [self._entry(entry) for entry in value]
        if re.search(r"\brising\b", self.help) and entries != sorted(set(entries)):
            raise Refused(f"{self.name}: wanted rising numbers, got {entries}. Sort them.")
        return entries

    @property
    def allowed_text(self) -> str:
        """Range of the values or of a list's entries, as "in [1, inf)"; empty if unlimited."""
        if self.is_path:
            return "a path"
        if not isinstance(self.allowed, dict):
            return f"in {{{', '.join(map(str, self.allowed))}}}" if self.allowed else ""
        low, high = (
            next((name for name in names if name in self.allowed), None) for names in (("ge", "gt"), ("le", "lt"))
        )
        lower, upper = self.allowed.get(low or "", -math.inf), self.allowed.get(high or "", math.inf)
        return f"in {'[' if low == 'ge' else '('}{lower:.15g}, {upper:.15g}{']' if high == 'le' else ')'}"

    @property
    def is_path(self) -> bool:
        """True if its value names a file or a folder."""
        return self.allowed == _PATH

    @property
    def _entry_type(self) -> str:
        return self.type.removeprefix("list[").removesuffix("]")

    @cached_property
    def _adapter(self) -> TypeAdapter:
        kind: Any = _SCALARS[self._entry_type]
        if isinstance(self.allowed, dict):
            kind = Annotated[kind, Field(**self.allowed)]
        elif self.allowed and not self.is_path:
            kind = Literal[tuple(self.allowed)]
        return TypeAdapter(kind, config=_STRICT)

    def _entry(self, value: Any) -> Any:
        read = _whole(value) if self._entry_type == "int" and isinstance(value, str) else value
        as_text = isinstance(read, str) and self._entry_type != "str"
        try:
            return self._adapter.validate_strings(read) if as_text else self._adapter.validate_python(read)
        except ValidationError:
            wanted = f"{self._entry_type} {self.allowed_text}".strip()
            raise Refused(f"{self.name}: wanted {wanted}, got {value!r}.") from None


def _whole(text: str) -> int | str:
    """Convert a text such as 1e2 to the whole number that it is; return others as they are."""
    try:
        return int(float(text)) if "e" in text.lower() and float(text).is_integer() else int(text)
    except ValueError:
        return text


def read_parameters(cell) -> dict[str, Parameter]:
    """Read the parameters of a parameters cell, in its order, without executing it."""
    from papermill.translators import PythonTranslator

    try:
        lines = len(ast.parse(cell.source).body)
    except SyntaxError as error:
        raise Refused(f"parameters cell: wanted Python, got a syntax error in line {error.lineno}.") from None
    read = {line.name: line for line in PythonTranslator.inspect(cell)}
    if len(read) < lines:  # papermill skips other lines
        raise Refused(f"parameters cell: wanted {lines} different lines `name: type = value  # help`, got {len(read)}.")
    return {name: _parameter(line) for name, line in read.items()}


def check_parameters(known: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert given values to the types of the known parameters, or refuse them."""
    for name in given:
        if name not in known:
            takes = f"It takes {', '.join(known)}." if known else "This notebook takes no parameters."
            raise Refused(f"{name}: no such parameter. {takes}")
    return {name: known[name].convert(value) for name, value in given.items()}


def _allowed(about: str, kind: str) -> tuple[str, Any]:
    """Split a comment into the help and what is allowed: arguments of a pydantic field, words, or a path."""
    if match := _RANGE.search(about):
        low, high = float(match[2]), float(match[3])
        kept = {"ge" if match[1] == "[" else "gt": low, "le" if match[4] == "]" else "lt": high}
        return about[: match.start()], {name: end for name, end in kept.items() if math.isfinite(end)}
    if match := _CHOICE.search(about):
        words = [word.strip() for word in match[1].split(",")]
        return about[: match.start()], [int(word) for word in words] if "int" in kind else words
    if match := _AS_PATH.search(about):
        return about[: match.start()], _PATH
    return about, None


def _parameter(read) -> Parameter:
    where = f"parameters cell, {read.name}"
    try:
        default = ast.literal_eval(read.default)
    except (ValueError, SyntaxError):
        raise Refused(f"{where}: wanted a literal without a #, got {read.default!r}.") from None
    kind = read.inferred_type_name
    if kind == "None":  # without a type
        kind = f"list[{type(default[0]).__name__}]" if isinstance(default, list) and default else type(default).__name__
    parameter = Parameter(read.name, kind, default, *_allowed(read.help, kind))
    if parameter._entry_type not in _SCALARS or kind not in (parameter._entry_type, f"list[{parameter._entry_type}]"):
        raise Refused(f"{where}: wanted int, float, bool, str or a list[...] of one of them, got {kind}.")
    try:
        return replace(parameter, default=parameter.convert(default))
    except (Refused, SchemaError, TypeError) as error:
        raise Refused(f"{where}: the default does not fit. {error}") from None
