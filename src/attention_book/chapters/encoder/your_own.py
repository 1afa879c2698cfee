"""Scores of a real encoder's heads on the sentences that come with the book."""

import numpy as np

from attention_book import plotting
from attention_book.notebooks.tables import table, with_error

METHODS = ("theory",)
_LAYER = 12  # heads per layer of the encoder


def figure(found) -> None:
    """Scores of all heads, layer by layer, by method; the heads kept are coloured."""
    panels = [plotting.new_figure(figsize=(5.2, 2.4))[1]]
    for axes, method in zip(panels, METHODS, strict=True):
        one = found[method]
        heads = np.arange(len(one.scores))
        kept = np.isin(heads, one.kept)
        axes.bar(heads, one.scores, width=0.9, color=np.where(kept, plotting.COLOURS["theory"], "0.72"))
        for edge in heads[_LAYER::_LAYER]:
            axes.axvline(edge - 0.5, color="0.8", linewidth=0.8)
        axes.set(title=method, ylabel="score", xlim=(-0.8, len(heads) - 0.2), ylim=(0, 1.05))
        axes.tick_params(axis="x", length=0)
    middles = np.arange(_LAYER / 2, len(heads), _LAYER) - 0.5
    panels[-1].set_xticks(middles, [f"{layer + 1}" for layer in range(len(middles))])
    panels[-1].set_xlabel("layer of the encoder, its heads in order")


def outcome_table(found):
    """Heads kept, as layer and head counted from 1, and accuracies in percent."""
    lines = []
    for method in METHODS:
        one = found[method]
        names = ", ".join(f"{head // _LAYER + 1}.{head % _LAYER + 1}" for head in one.kept)
        few, every = (with_error(100 * each.mean, 100 * each.error) for each in (one.accuracy, one.accuracy_of_all))
        apart = with_error(100 * one.difference.mean, 100 * one.difference.error, sign=True)
        lines.append([names, few, every, apart, f"{100 * one.majority:.0f}"])
    return table(["heads kept", "% accurate", "with all heads", "difference", "largest class"], lines)


def facts(found) -> dict:
    """Numbers in the text."""
    theory = found["theory"]
    return dict(
        apart=100 * theory.difference.mean,
        error=100 * theory.difference.error,
        level=float(np.median(theory.scores)),
        kept=len(theory.kept),
    )


def assert_as_written(found) -> None:
    """Check the page's sentences at its default parameters."""
    theory, numbers = found["theory"], facts(found)
    assert theory.difference.mean > 2 * theory.difference.error and numbers["level"] > 0.4
