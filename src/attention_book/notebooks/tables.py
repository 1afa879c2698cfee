"""Tables of results for pages: Markdown, numbers with their errors."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.display import Markdown


def table(head: Sequence[str], rows: Iterable[Sequence]) -> "Markdown":
    """Markdown table; all columns but the first are right-aligned."""
    from IPython.display import Markdown

    lines = ["| " + " | ".join(head) + " |", "|:---" + "|---:" * (len(head) - 1) + "|"]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return Markdown("\n".join(lines).replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"))


def with_error(value: float, error: float, *, sign: bool = False) -> str:
    """Write a value and its error, both to the error's two digits."""
    value, error = float(value), float(error)
    digits = max(0, 1 - math.floor(math.log10(error))) if math.isfinite(error) and error > 0 else 2
    return f"{value:{'+' if sign else ''}.{digits}f} ± {error:.{digits}f}".replace("-", "−")


def averaged(values, digits: int = 1) -> str:
    """Write the mean over draws with its standard error, or alone if there is one draw."""
    from attention_book import plotting

    value, error = plotting.mean_and_error(values)
    return f"{value:.{digits}f} ± {error:.{digits}f}" if len(values) > 1 else f"{value:.{digits}f}"


def spaced(number: float, kind: str = ".0f") -> str:
    """Write a number with spaces between its thousands."""
    return f"{number:,{kind}}".replace(",", " ")


def signed(value: float, digits: int = 1) -> str:
    """Write a number with its sign, a true minus; what rounds to zero has none."""
    value = round(float(value), digits) + 0.0  # no negative zero
    return f"{value:{'+' if value else ''}.{digits}f}".replace("-", "−")
