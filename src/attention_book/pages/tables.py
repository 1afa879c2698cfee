"""Tables of a page, in Markdown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attention_book.stats import written

if TYPE_CHECKING:
    import pandas as pd
    from IPython.display import Markdown


def rows(head: Sequence[str], rows: Iterable[Sequence]) -> "Markdown":
    """Show rows as a Markdown table; all columns but the first are right-aligned."""
    from IPython.display import Markdown

    lines = ["| " + " | ".join(head) + " |", "|:---" + "|---:" * (len(head) - 1) + "|"]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return Markdown("\n".join(lines).replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"))


def table(frame: "pd.DataFrame", formats: str | Mapping[Any, str | Callable] = "", index: bool = True) -> "Markdown":
    """Show a frame as a Markdown table, numbers to the right; `formats` are one for all numbers or one per column."""
    from IPython.display import Markdown

    rows = frame.reset_index() if index else frame
    labels = frame.index.nlevels if index else 1

    def text(value: Any, column: Any) -> str:
        kind = formats if isinstance(formats, str) else formats.get(column, "")
        if callable(kind):
            return str(kind(value))
        if isinstance(value, str | bool):
            return str(value)
        if isinstance(value, float) and kind.endswith("f"):
            return written(value, int(kind.strip("+.f") or 0), "+" * kind.startswith("+"))
        return (
            format(value, kind).replace("-", "\N{MINUS SIGN}")
            if isinstance(value, float | int)
            else format(value, kind)
        )

    names = ["" if name in ("index", None) else str(name) for name in rows.columns]
    lines = ["| " + " | ".join(names) + " |", "|" + ":---|" * labels + "---:|" * (len(names) - labels)]
    for row in rows.itertuples(index=False):
        lines.append("| " + " | ".join(map(text, row, rows.columns)) + " |")
    return Markdown("\n".join(lines))


def versions() -> dict[str, str]:
    """Versions of package, Python and libraries, platform and device, for a table."""
    from attention_book.runs.results import provenance  # slow to import

    return {
        {"package": "statmech_attention", "python": "Python"}.get(name, name): fact
        for name, fact in provenance().items()
    }
