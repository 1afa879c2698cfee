"""The run-time type checks of the tests: beartype, but for what public functions check themselves."""

import inspect
from typing import Any, get_args

from beartype import beartype


def typecheck(function):
    """Check shapes and classes of arguments and results.

    Loose arguments of functions, such as `ArrayLike`, `int` or a sequence, are left to the function's own checks, whose
    words are better and which take more than the annotation says.
    """
    if inspect.isclass(function):
        return beartype(function)
    hints = function.__annotations__
    function.__annotations__ = {
        name: hint if name == "return" or _of_arrays(hint) else Any for name, hint in hints.items()
    }
    return beartype(function)


def _of_arrays(hint) -> bool:
    """True for jaxtyping's arrays, alone or within another annotation."""
    return "jaxtyping" in getattr(hint, "__module__", "") or any(map(_of_arrays, get_args(hint)))
