"""Tables of results for pages: Markdown, numbers with their errors, marks of sampled checks."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.display import Markdown


def table(head: Sequence[str], rows: Iterable[Sequence]) -> "Markdown":
    """Markdown table; all columns but the first are right-aligned."""
    from IPython.display import Markdown

    lines = ["| " + " | ".join(head) + " |", "|:---" + "|---:" * (len(head) - 1) + "|"]
    return Markdown("\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]))


def with_error(value: float, error: float, *, sign: bool = False) -> str:
    """Write a value and its error, both to the error's two digits."""
    value, error = float(value), float(error)
    digits = max(0, 1 - math.floor(math.log10(error))) if math.isfinite(error) and error > 0 else 2
    return f"{value:{'+' if sign else ''}.{digits}f} ± {error:.{digits}f}".replace("-", "−")


def signed(value: float, digits: int = 1) -> str:
    """Write a number with its sign, a true minus."""
    return f"{float(value):+.{digits}f}".replace("-", "−")


def agrees(what: str, standard_errors: float, at_most: float = 5.0) -> "Markdown":
    """Assert that sampled means agree with exact values; return the line that says so."""
    from IPython.display import Markdown

    assert standard_errors <= at_most, (
        f"{what}: {standard_errors:.1f} standard errors apart, wanted at most {at_most:g}"
    )
    return Markdown(f"<small>✓ {what} agrees within {standard_errors:.1f} standard errors.</small>")
