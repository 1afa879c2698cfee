"""Helpers for the pages of the book; outside a notebook they do nothing."""

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.display import Markdown

_LABELS = {"package": "statmech_attention", "python": "Python"}
# MIME type of a row of the README's table; no page shows it.
AGREEMENT = "application/vnd.statmech-attention.agreement+json"


def begin() -> None:
    """Set up a chapter: double precision, the book's figure style, sharp figures."""
    import jax

    jax.config.update("jax_enable_x64", True)

    from attention_book import plotting

    plotting.use_style()
    if _in_notebook():
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        # Lines stay sharp at any size as SVG; a page with a large image can ask for "png" itself.
        set_matplotlib_formats("svg")


def glue(name: str, value: Any, *, display: bool = False) -> None:
    """Keep a plain number or text under `name`, for use in the running text."""
    value = _plain(name, value)
    if not _in_notebook():
        return
    try:
        from myst_nb import glue as keep
    except ImportError:  # somebody runs the chapter in a notebook service of their own
        return
    keep(name, value, display=display)


def glue_mean(name: str, values) -> tuple[float, float]:
    """Keep the mean over draws under `name`, its standard error under `name_error`; return both."""
    from attention_book import plotting

    mean, error = plotting.mean_and_error(values)
    glue(name, mean)
    glue(f"{name}_error", error)
    return mean, error


def in_powers(value: float, digits: int = 2) -> str:
    """A number in powers of ten for the running text, such as "5.5 × 10⁻⁴"."""
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    if not int(exponent):
        return mantissa
    power = "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return power if mantissa == "1" else f"{mantissa} × {power}"


def check(what: str, error, at_most: float) -> "Markdown":
    """Assert that an equation holds up to rounding; return the line that says so."""
    import numpy as np
    from IPython.display import Markdown

    worst = float(np.max(np.abs(error)))
    assert worst <= at_most, f"{what}: wanted an error of at most {at_most:g}, got {worst:g}"
    verb = "hold" if re.search(r"\)(?:,| and| to) \(", what) else "holds"
    return Markdown(f"<small>✓ {what} {verb} to {in_powers(worst, 1) if worst else 'the last bit'}.</small>")


def agreement(figure: str, what: str, says: str, *, recorded: bool = False) -> None:
    """Leave a row for the README's table of reproduced figures."""
    row = {"figure": figure, "what": what, "says": says}
    for name, text in row.items():
        if "|" in text or "\n" in text:
            raise ValueError(
                f"{name}: wanted one line without an upright stroke, got {text!r}. It is one cell of a table."
            )
    if _in_notebook():
        from IPython.display import display

        display({AGREEMENT: {**row, "recorded": recorded}}, raw=True)


def made(*paths: str | os.PathLike) -> "Markdown":
    """Return a line on dates, versions and machines of records; of several, with a folded list."""
    from IPython.display import Markdown

    from attention_book import results

    found = {path: results.record(path) for path in map(Path, paths) if path.is_file()}
    if not found:
        return Markdown("*Nothing is recorded here yet.*")
    found = dict(sorted(found.items(), key=lambda item: item[1]["written"]))
    records = list(found.values())
    days = [one["written"][:10] for one in records]
    seconds = [float(one["wall_seconds"]) for one in records if one.get("wall_seconds") is not None]
    package, jax, device = (_all(records, name) for name in ("package", "jax", "device"))
    by = f"by statmech_attention {package} with JAX {jax} on {device}"
    took = f", in {_duration(sum(seconds))}" if seconds else ""
    if len(found) == 1:
        return Markdown(f"Recorded {days[0]} {by}{took}: {_title(*found)}.")
    folders = {path.parent for path in found}
    when = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    if seconds:
        silent = len(found) - len(seconds)
        took += " altogether" + (f", not counting {silent} whose time was not kept" if silent else "")
    lines = [f"{len(found)} records, made {when} {by}{took}.", "", "<details><summary>Each of them</summary>", ""]
    for path, one in found.items():
        facts = [one["written"][:10], f"JAX {one['jax']}", one["device"]]
        if one.get("wall_seconds") is not None:
            facts.append(_duration(float(one["wall_seconds"])))
        place = f" (`{path.parent.name}`)" if len(folders) > 1 else ""
        lines.append(f"- {_title(path)}{place}: {', '.join(facts)}")
    return Markdown("\n".join([*lines, "", "</details>"]))


def versions() -> dict[str, str]:
    """Versions of package, Python and libraries, platform and device, for a table."""
    # Only here: what reads records is slow to import, and most pages read none.
    from attention_book.results import provenance

    return {_LABELS.get(name, name): fact for name, fact in provenance().items()}


def _plain(name: str, value: Any) -> Any:
    if getattr(value, "size", 1) != 1:
        raise ValueError(f"glue {name!r}: wanted one number, got shape {value.shape}. Glue entries one by one.")
    return value.item() if hasattr(value, "item") else value  # the repr of a NumPy number is not that of Python's


def _title(path: Path) -> str:
    """Name of a record in words: network-2x4-seed0.nc is "network 2x4, seed 0"."""
    parts = re.split(r"-(?=[a-z])", path.stem)
    return ", ".join(re.sub(r"^([a-z_]+)-?(?=\d)", r"\1 ", part).replace("_", " ") for part in parts)


def _all(records: Iterable[dict], name: str) -> str:
    """Distinct values of one entry, in the order of the records."""
    *first, last = dict.fromkeys(one[name] for one in records)
    return f"{', '.join(first)} and {last}" if first else last


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


def _in_notebook() -> bool:
    """True in a Jupyter kernel; does not load IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")
