"""Parameters of a notebook: read by papermill, checked by pydantic, without running any of it.

One line of the cell is one parameter, and its comment is the help. What is allowed stands in the
cell's metadata, under the arguments of a pydantic field or as a list of words or numbers; for a
list it holds for every entry. A text that is `path` names a file or folder: one given with a run is
seen from where it is run, the default from the notebook.

    ---
    tags: [parameters]
    allowed:
      width: {ge: 1}
      temperatures: {gt: 0, le: 100}
      readout: [first, last, mean]
      folder: path
    ---
    width: int = 30  # hidden width N
    temperatures: list[float] = [0.01, 0.1]  # temperatures T
    readout: str = "last"  # the token that is read out
    folder: str = "../results"  # where the result goes
"""

import ast
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from statmech_attention.installed import need

need("book", "notebooks with parameters")

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import SchemaError

_SCALARS = {"int": int, "float": float, "bool": bool, "str": str}
_WANTED = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text"}
_BOUNDS = {"gt", "ge", "lt", "le", "allow_inf_nan", "multiple_of"}
_PATH = "path"
# A truth value is a whole number to Python, but nobody who writes `width=True` means 1.
_STRICT = ConfigDict(strict=True, allow_inf_nan=False)


class Refused(ValueError):
    """A run that was not started, because of its chapter, its parameters or its output file."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a notebook."""

    name: str  # its name in the notebook
    type: str  # "int", "float", "bool", "str", or "list[...]" of one of these
    default: Any  # the value that the notebook has by itself
    help: str = ""  # the comment beside it
    # Of a number the bounds `gt`, `ge`, `lt`, `le`, `multiple_of`, or a list of numbers; of a text
    # the words, or "path"; None for any.
    allowed: dict[str, Any] | list[str] | list[int] | str | None = None

    def convert(self, value: Any) -> Any:
        """`value`, a text from the command line or a Python value, as this parameter's type."""
        if hasattr(value, "tolist"):  # of NumPy or JAX
            value = value.tolist()
        if not self.type.startswith("list"):
            return self._entry(value)
        if isinstance(value, str):
            inside = value.strip().removeprefix("[").removesuffix("]")
            value = [entry.strip().strip("\"'") for entry in inside.split(",")] if value.strip() != "[]" else []
        if not isinstance(value, list | tuple):
            raise Refused(f"{self.name}: wanted a list, each entry {self._wanted}, as in 1,2,3, got {value!r}.")
        return [self._entry(entry) for entry in value]

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
        step = f", a multiple of {self.allowed['multiple_of']}" if "multiple_of" in self.allowed else ""
        return f"in {'[' if low == 'ge' else '('}{lower:.15g}, {upper:.15g}{']' if high == 'le' else ')'}{step}"

    @property
    def is_path(self) -> bool:
        """Whether its value names a file or a folder."""
        return self.allowed == _PATH

    @property
    def _wanted(self) -> str:
        return f"{_WANTED[self._entry_type]} {self.allowed_text}".strip()

    @property
    def _entry_type(self) -> str:
        return self.type.removeprefix("list[").removesuffix("]")

    def _entry(self, value: Any) -> Any:
        spelled: Any = _SCALARS[self._entry_type]
        if isinstance(self.allowed, dict):
            spelled = Annotated[spelled, Field(**self.allowed)]
        elif self.allowed and not self.is_path:
            spelled = Literal[tuple(self.allowed)]
        read = _whole(value) if self._entry_type == "int" and isinstance(value, str) else value
        adapter: TypeAdapter = TypeAdapter(spelled, config=_STRICT)
        try:
            if isinstance(read, bool) and self._entry_type != "bool":  # equal to 1 in a list of numbers
                raise Refused(f"{self.name}: wanted {self._wanted}, got {value!r}.")
            return adapter.validate_strings(read) if isinstance(read, str) else adapter.validate_python(read)
        except ValidationError:
            raise Refused(f"{self.name}: wanted {self._wanted}, got {value!r}.") from None


def _whole(text: str) -> int | str:
    """A text such as 1e2 as the whole number that it is; others as they are."""
    try:
        return int(float(text)) if "e" in text.lower() and float(text).is_integer() else int(text)
    except ValueError:
        return text


def read_parameters(cell) -> dict[str, Parameter]:
    """The parameters that a parameters cell defines, in its order."""
    from papermill.translators import PythonTranslator

    try:
        statements = ast.parse(cell.source).body
    except SyntaxError as error:
        raise Refused(f"parameters cell: wanted Python, got a syntax error in line {error.lineno}.") from None
    read = PythonTranslator.inspect(cell)
    names = [one.name for one in read]
    for statement in statements:  # papermill skips what it does not understand
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]) if name in names:
                if names.count(name) > 1:
                    raise Refused(f"parameters cell: {name} is defined twice.")
            case _:
                raise Refused(
                    f"parameters cell, line {statement.lineno}: wanted name: type = value  # help, without another =, "
                    f"got {ast.unparse(statement).splitlines()[0]!r}."
                )
    allowed = cell.metadata.get("allowed", {})
    if unknown := set(allowed) - set(names):
        raise Refused(f"parameters cell: allowed values of {', '.join(sorted(unknown))}, which it does not define.")
    return {one.name: _parameter(one, allowed.get(one.name)) for one in read}


def check_parameters(known: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given values, converted to the types of the known parameters."""
    for name in given:
        if name not in known:
            if not known:
                raise Refused(f"{name}: this notebook takes no parameters.")
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]}?" if near else f"It takes {', '.join(known)}."
            raise Refused(f"{name}: no such parameter. {hint}")
    return {name: known[name].convert(value) for name, value in given.items()}


def _parameter(read, allowed) -> Parameter:
    where = f"parameters cell, {read.name}"
    try:
        default = ast.literal_eval(read.default)
    except (ValueError, SyntaxError):
        raise Refused(f"{where}: wanted a literal without a #, got {read.default!r}.") from None
    spelled = read.inferred_type_name
    if spelled == "None":  # not said
        spelled = (
            f"list[{type(default[0]).__name__}]" if isinstance(default, list) and default else type(default).__name__
        )
    entry = spelled.removeprefix("list[").removesuffix("]")
    if spelled not in (entry, f"list[{entry}]") or entry not in _SCALARS:
        raise Refused(f"{where}: wanted int, float, bool, str or a list[...] of one of them, got {spelled}.")
    if entry == "str":
        fits = allowed == _PATH or isinstance(allowed, list) and all(isinstance(word, str) for word in allowed)
    elif isinstance(allowed, list):
        fits = entry == "int" and all(type(number) is int for number in allowed)
    else:
        fits = isinstance(allowed, dict) and set(allowed) <= _BOUNDS and entry != "bool"
    if allowed is not None and not fits:
        raise Refused(
            f"{where}: wanted {{ge: 1, lt: 10}} or the like, a list of words or "
            f"path for a str, or a list of numbers for an int, got {allowed!r}."
        )
    try:
        one = Parameter(read.name, spelled, default, read.help, allowed)
        return replace(one, default=one.convert(default))
    except (Refused, SchemaError) as error:
        raise Refused(f"{where}: the default does not fit. {error}") from None
