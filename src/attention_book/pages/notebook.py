"""How a page begins, and the numbers of its text and of `book/claims.yaml`."""

import sys
from typing import Any

from attention_book.stats import Interval

# MIME type of the numbers of a page, which `make check` compares with the bounds in book/claims.yaml; no page shows it.
FACTS = "application/vnd.statmech-attention.facts+json"


def begin() -> None:
    """Set up a page: double precision, the book's figure style, figures as SVG."""
    import jax

    from statmech_attention.plotting import use_style

    jax.config.update("jax_enable_x64", True)
    use_style()
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


def _shell() -> bool:
    """True in a Jupyter kernel; does not load IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")
