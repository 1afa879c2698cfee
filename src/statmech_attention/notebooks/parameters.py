"""The parameters of a notebook: read from the source of its parameters cell, checked without running any of it.

One line of the cell is one parameter:

    width: int = 30                  # hidden width N, in [1, inf)
    temperatures: list[float] = [0.01, 0.1]  # T, in (0, 100]
    readout: str = "last"            # the token that is read out, in {first, last, mean}

The comment is the help. Where it ends in `in` and a set, values (or the entries of a list) must lie in that set: an
interval, with round brackets where the end is left out, or a list of words.
"""

import ast
import difflib
import io
import math
import operator
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NUMBER = r"[-+]?(?:inf|\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?)"
_INTERVAL = re.compile(rf"\bin\s+([\[(])\s*({_NUMBER})\s*,\s*({_NUMBER})\s*([\])])\s*$")
_CHOICE = re.compile(r"\bin\s+\{([^{}]+)\}\s*$")
_LOOKS_LIKE_SET = re.compile(r"\bin\s+[\[({][^\[\](){}]*[\])}]\s*$")
_SCALARS = {"int": int, "float": float, "bool": bool, "str": str}
_WANTED = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text"}


class Refused(ValueError):
    """A run that was not started, because of its chapter, its parameters or its output file."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a notebook.

    Attributes:
        name: its name in the notebook.
        type: "int", "float", "bool", "str", or "list[...]" of one of these.
        default: the value that the notebook has by itself.
        help: the comment beside it, with the set of values that are allowed.
        interval: (lower, upper, lower included, upper included), or None.
        choices: the texts that are allowed, or None.
    """

    name: str
    type: str
    default: Any
    help: str = ""
    interval: tuple[float, float, bool, bool] | None = None
    choices: tuple[str, ...] | None = None

    def convert(self, value: Any) -> Any:
        """`value`, a text from the command line or a Python value, as this parameter's type.

        Args:
            value: for a list also a text such as "1000,500" or "[1000, 500]".

        Returns:
            A plain Python value that may be given to the notebook.

        Raises:
            Refused: a value of another type, or one that is out of range.
        """
        kind = self._entry_type
        if not self.type.startswith("list"):
            return self._entry(value)
        if isinstance(value, str):
            value = self._split(value)
        if hasattr(value, "tolist"):
            value = value.tolist()
        if not isinstance(value, list | tuple):
            raise Refused(f"{self.name}: wanted a list, each entry {_WANTED[kind]}, as in 1,2,3, got {value!r}.")
        return [self._entry(entry) for entry in value]

    @property
    def _entry_type(self) -> str:
        return self.type.removeprefix("list[").removesuffix("]")

    def _split(self, text: str) -> Any:
        text = text.strip()
        if not text.startswith("["):
            return [entry.strip() for entry in text.split(",")]
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            # Words without quotes, as in [first, last], are understood too.
            return [entry.strip() for entry in text.strip("[]").split(",")]

    def _entry(self, value: Any) -> Any:
        kind = self._entry_type
        try:
            value = _from_text(kind, value) if isinstance(value, str) else _from_python(kind, value)
        except (TypeError, ValueError, OverflowError):
            raise Refused(f"{self.name}: wanted {_WANTED[kind]}, got {value!r}.") from None
        if self.choices is not None and value not in self.choices:
            raise Refused(f"{self.name}: wanted one of {', '.join(self.choices)}, got {value!r}.")
        if self.interval is not None:
            lower, upper, with_lower, with_upper = self.interval
            above = value >= lower if with_lower else value > lower
            below = value <= upper if with_upper else value < upper
            if not (above and below):
                raise Refused(f"{self.name}: wanted a value in {_interval_text(self.interval)}, got {value!r}.")
        return value


def read_parameters(source: str) -> dict[str, Parameter]:
    """The parameters that a parameters cell defines, in its order.

    Args:
        source: the text of the cell; nothing of it is executed.

    Returns:
        `Parameter` by name.

    Raises:
        Refused: a line that is not `name: type = literal  # help`, or whose default is not allowed by its own comment.
    """
    try:
        statements = ast.parse(source).body
        comments = {
            token.start[0]: token.string.lstrip("# ").strip()
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT
        }
    except (SyntaxError, tokenize.TokenError) as error:
        raise Refused(f"parameters cell: wanted Python, got a syntax error in line {error.args[1][1]}.") from None
    found: dict[str, Parameter] = {}
    for statement in statements:
        parameter = _read_statement(statement, comments.get(statement.end_lineno, ""))
        if parameter.name in found:
            raise Refused(f"parameters cell: {parameter.name} is defined twice.")
        found[parameter.name] = parameter
    return found


def check_parameters(known: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given values, converted to the types of the known parameters.

    Args:
        known: what the notebook has.
        given: values by name, as texts or Python values.

    Returns:
        Plain Python values by name, only of the given names.

    Raises:
        Refused: an unknown name (with the nearest known one), an ill-typed value, or one out of range.
    """
    for name in given:
        if name not in known:
            if not known:
                raise Refused(f"{name}: this notebook takes no parameters.")
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]}?" if near else f"It takes {', '.join(known)}."
            raise Refused(f"{name}: no such parameter. {hint}")
    return {name: known[name].convert(value) for name, value in given.items()}


def _read_statement(statement: ast.stmt, comment: str) -> Parameter:
    where = f"parameters cell, line {statement.lineno}"
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            kind = ast.unparse(statement.annotation)
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            kind = None
        case _:
            raise Refused(f"{where}: wanted name: type = value, got {ast.unparse(statement).splitlines()[0]!r}.")
    try:
        default = ast.literal_eval(value)
    except ValueError:
        raise Refused(f"{where}: wanted a literal for {name}, got {ast.unparse(value)!r}.") from None
    kind = kind or _type_of(default)
    if kind not in _SCALARS and kind not in {f"list[{entry}]" for entry in _SCALARS}:
        raise Refused(f"{where}: wanted int, float, bool, str or a list[...] of one of them for {name}, got {kind}.")
    interval, choices = _read_set(where, comment)
    try:
        parameter = Parameter(name, kind, default, comment, interval, choices)
        return Parameter(name, kind, parameter.convert(default), comment, interval, choices)
    except (Refused, TypeError) as error:
        raise Refused(f"{where}: the default does not fit its own line. {error}") from None


def _read_set(where: str, comment: str) -> tuple[tuple[float, float, bool, bool] | None, tuple[str, ...] | None]:
    if match := _INTERVAL.search(comment):
        left, lower, upper, right = match.groups()
        interval = (float(lower), float(upper), left == "[", right == "]")
        if not interval[0] <= interval[1]:
            raise Refused(f"{where}: the interval {match.group(0)!r} is empty.")
        return interval, None
    if match := _CHOICE.search(comment):
        return None, tuple(choice.strip().strip("\"'") for choice in match.group(1).split(","))
    if match := _LOOKS_LIKE_SET.search(comment):
        raise Refused(f"{where}: wanted a set such as in [1, 10] or in {{first, last}}, got {match.group(0)!r}.")
    return None, None


def _type_of(default: Any) -> str:
    if isinstance(default, list) and default:
        return f"list[{type(default[0]).__name__}]"
    return type(default).__name__


def _from_text(kind: str, text: str) -> Any:
    if kind == "bool":
        truth = {"true": True, "false": False}.get(text.strip().lower())
        if truth is None:
            raise ValueError
        return truth
    return _from_python(kind, _SCALARS[kind](text))


def _from_python(kind: str, value: Any) -> Any:
    # Truth values are whole numbers to Python, but nobody who writes `width=True` means 1.
    is_truth = isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")
    if kind == "bool":
        if not is_truth:
            raise TypeError
        return bool(value)
    if kind == "str":
        if not isinstance(value, str):
            raise TypeError
        return str(value)
    if is_truth:
        raise TypeError
    if kind == "int":
        return operator.index(value)
    number = float(value)
    if math.isnan(number):
        raise ValueError
    return number


def _interval_text(interval: tuple[float, float, bool, bool]) -> str:
    lower, upper, with_lower, with_upper = interval
    return f"{'[' if with_lower else '('}{lower:.15g}, {upper:.15g}{']' if with_upper else ')'}"
