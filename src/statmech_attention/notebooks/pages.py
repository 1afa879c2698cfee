"""Helpers for the pages of the book. They work outside it too, where they have nothing to do."""

import importlib.util
import numbers
import sys
from typing import Any

from statmech_attention.results.provenance import provenance

_LABELS = {"package": "statmech_attention", "source": "source hash", "python": "Python"}


def begin() -> None:
    """Set up a chapter: double precision, the book's figure style, sharp figures. Call it first.

    Returns:
        Nothing; JAX, Matplotlib and, inside a notebook, IPython's display of figures are set.
    """
    import jax

    jax.config.update("jax_enable_x64", True)

    from statmech_attention import plotting

    plotting.use_style()
    if _in_notebook():
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        # Lines stay sharp at any size as SVG; a page with a large image can ask for "png" itself.
        set_matplotlib_formats("svg")


def glue(name: str, value: Any, *, display: bool = False) -> None:
    """Keep a number or text under `name`, for use in the running text by `` {glue:text}`name:.3f` ``.

    Args:
        name: the key; unique in the book.
        value: a number, a text, a truth value, or an array of one number. It is kept as a plain Python value, because
            a NumPy or JAX scalar cannot be formatted in the text. A figure or other object is kept as it is.
        display: show the value below the cell too.

    Returns:
        Nothing. Outside a notebook, and where `myst_nb` is not installed, nothing happens.

    Raises:
        ValueError: an array of several numbers, which has no place in a sentence.
    """
    value = _plain(name, value)
    if not _in_notebook():
        return
    try:
        from myst_nb import glue as keep
    except ImportError:  # somebody runs the chapter in a notebook service of their own
        return
    keep(name, value, display=display)


def images_at_hand() -> bool:
    """Whether the image data sets can be read here without a download: decoded before, or as originals beside torch.

    Returns:
        True or False; pages that show real images show drawn glyphs instead where it is False.
    """
    from statmech_attention.tasks.images import DATA_SETS, data_root

    root = data_root()
    if all(any((root / "decoded").glob(f"{name}-*.npz")) for name in DATA_SETS):
        return True
    originals = all((root / folder).is_dir() for folder in ("omniglot-py", "MNIST", "FashionMNIST"))
    return originals and importlib.util.find_spec("torch") is not None


def versions() -> dict[str, str]:
    """What this page was computed with, for display in a table.

    Returns:
        Texts by label: package version, source hash (12 digits), Python, libraries, platform, device.
    """
    facts = provenance()
    facts["source"] = facts["source"][:12]
    return {_LABELS.get(name, name): fact for name, fact in facts.items()}


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, str | bool | int | float):
        # A NumPy float64 is a float as well; its repr is not that of one.
        return float(value) if isinstance(value, float) else value
    if isinstance(value, numbers.Number):
        return value.item() if hasattr(value, "item") else value
    if hasattr(value, "dtype") and hasattr(value, "item"):
        if value.size != 1:
            raise ValueError(
                f"glue {name!r}: wanted one number, got shape {tuple(value.shape)}. Glue entries one by one."
            )
        return value.item()
    return value


def _in_notebook() -> bool:
    """True in a Jupyter kernel, without loading IPython where nobody uses it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")
