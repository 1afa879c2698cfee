"""Style, numbers of the text and of `book/claims.yaml`, and tables, which the pages of the book share."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attention_book.stats import Interval, written

if TYPE_CHECKING:
    import pandas as pd
    from IPython.display import Markdown

# MIME type of the numbers of a page, which `make check` compares with the bounds in book/claims.yaml; no page shows it.
FACTS = "application/vnd.statmech-attention.facts+json"


def begin() -> None:
    """Set up a page: double precision, the book's figure style, figures as SVG."""
    import jax

    from attention_book import plotting

    jax.config.update("jax_enable_x64", True)
    plotting.use_style()
    if _shell():
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("svg")


def glue(name: str, value: Any) -> None:
    """Keep a plain number or text under `name`, for use in the running text."""
    if getattr(value, "size", 1) != 1:
        raise ValueError(f"glue {name!r}: wanted one number, got shape {value.shape}. Glue entries one by one.")
    value = value.item() if hasattr(value, "item") else value  # the repr of a NumPy number is not that of Python's
    if not _shell():
        return
    try:
        from myst_nb import glue as keep
    except ImportError:  # somebody runs the page in a notebook service of their own
        return
    keep(name, value, display=False)


def facts(**numbers: Any) -> None:
    """Keep numbers, intervals and texts under their names, for `{glue:text}` and for `book/claims.yaml`.

    An interval `gain` is glued as "0.125 ± 0.006", and `gain_bracket` as "[0.11, 0.14]".
    """
    kept: dict[str, Any] = {}
    for name, value in numbers.items():
        if isinstance(value, Interval):
            glue(name, str(value))
            glue(f"{name}_bracket", value.bracket)
            kept[name] = {end: float(getattr(value, end)) for end in ("value", "error", "low", "high")}
        else:
            kept[name] = value.item() if hasattr(value, "item") else value
            glue(name, value)
    if _shell():
        from IPython.display import display

        display({FACTS: kept}, raw=True)


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
    from attention_book.results import provenance  # slow to import

    return {
        {"package": "statmech_attention", "python": "Python"}.get(name, name): fact
        for name, fact in provenance().items()
    }


def _shell() -> bool:
    """True in a Jupyter kernel; does not load IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")
