"""Attention of images learned by the evidence: measures, claims and figures of the record."""

import numpy as np
import xarray as xr

from attention_book import plotting
from attention_book.experiments import LearnedImages
from attention_book.experiments.learned_images import PATTERNS, Set, columns, restored, seen, set_of
from attention_book.experiments.reading import accuracies
from attention_book.notebooks import tables
from attention_book.temperatures import Difference, difference
from statmech_attention import accuracy
from statmech_attention.training import LearnedAttention

HARDLY, ANOTHER = 0.05, 0.05  # accuracy that may be lost, and distance of another attention
_NAMES = {
    "learned": "evidence",
    "trained": "trained attention",
    "family": "descent, same family",
    "network": "descent, paper's network",
}


def learned(found: xr.Dataset, width: float) -> np.ndarray:
    """Accuracy in each draw of the start with the largest log posterior."""
    one = found.sel(width=width)
    return one.accuracy.isel(start=one.log_posterior.argmax("start")).values


def trained(theory: xr.Dataset, width: float) -> np.ndarray:
    """Accuracy in each draw of the theory on trained attention, at the temperature of the best validation."""
    right = accuracies(theory, limit=np.isinf(width), chosen_by="validation").isel(test_set=0)
    return (right if np.isinf(width) else right.sel(width=width)).values


def descended(found: xr.Dataset) -> np.ndarray:
    """Test accuracy of the paper's network in each draw, where the validation accuracy is largest."""
    one = found.network_accuracy
    return one.isel(part=1).isel(validation=one.isel(part=0).argmax("validation")).values


def arms(found: xr.Dataset, theory: xr.Dataset) -> dict[tuple[str, float], np.ndarray]:
    """Test accuracies in each draw by arm and width; the paper's network is as wide as in the paper."""
    narrow, limit = found.width.values
    by_width = [(("learned", width), learned(found, width)) for width in (narrow, limit)]
    by_width += [(("trained", width), trained(theory, width)) for width in (narrow, limit)]
    return dict(by_width) | {("family", narrow): found.family_accuracy.values, ("network", 512.0): descended(found)}


def claims(found: xr.Dataset, theory: xr.Dataset) -> dict[str, tuple[Difference, str]]:
    """Outcomes of the three claims, and the verdicts by the protocol."""
    narrow = found.width.values[0]
    right = learned(found, narrow)
    outcomes = {
        "few": (difference(right, trained(theory, narrow)), -HARDLY),
        "equal": (difference(right, descended(found)), 0.0),
        "another": (difference(*apart(found)), ANOTHER),
    }
    return {name: (one, _verdict(one, bound)) for name, (one, bound) in outcomes.items()}


def _verdict(one: Difference, bound: float) -> str:
    if one.mean - one.within > bound:
        return "holds"
    return "fails" if one.mean + one.within < bound else "stays open"


def apart(found: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Mean distance, in each draw, of different starts at different widths, and at one width."""
    width, start = (one.ravel() for one in np.indices((found.width.size, found.start.size)))
    other_start = start[:, None] != start
    across, within = other_start & (width[:, None] != width), other_start & (width[:, None] == width)
    distances = found.apart.transpose("draw", "climb", "other").values
    return distances[:, across].mean(axis=1), distances[:, within].mean(axis=1)


def same_start(found: xr.Dataset) -> np.ndarray:
    """Mean distance, in each draw, of the attention that two widths learn from the same start."""
    number = np.arange(found.start.size)
    return found.apart.transpose("draw", "climb", "other").values[:, number, number + found.start.size].mean(axis=1)


def read_by_paths(experiment: LearnedImages, found: xr.Dataset, width: float) -> np.ndarray:
    """Shares that each path of the first draw reads of the image of the right kind, the other and the third."""
    one = found.isel(draw=0).sel(width=width)
    theta = restored(one.theta.isel(start=one.log_posterior.argmax("start")).values)
    sample = experiment.samples(0)[2]
    similar = set_of(experiment.suites(experiment.data).task, sample).similar[:PATTERNS]
    read = np.asarray(columns(theta, similar)).reshape(len(similar), -1, 3, similar.shape[-1] // 3).sum(axis=-1)
    second = np.asarray(sample.labels != sample.sequences.first)[:PATTERNS]
    read[second, :, :2] = read[second, :, 1::-1]
    return read.mean(axis=0)


def share_right(learned: LearnedAttention, test: Set) -> float:
    """Share of right answers at the end of a climb."""
    along = seen(learned.theta, test.inputs, test.similar)
    return float(accuracy(learned.solution.predict(along).mean, test.labels))


def accuracy_figure(found: xr.Dataset, theory: xr.Dataset):
    """Test accuracy in every draw, by arm and width."""
    _, axes = plotting.new_figure(figsize=(5.2, 4.0))
    rows = list(arms(found, theory).items())
    for place, ((_, width), values) in enumerate(rows):
        colour = plotting.COLOURS["gp" if np.isinf(width) else "theory"]
        axes.plot(values, np.full(len(values), place), "o", color=colour, markersize=5)
    axes.axvline(0.5, color="0.6", linestyle=":")
    axes.set_yticks(range(len(rows)), [f"{_NAMES[arm]}\n{_width(width)}" for (arm, width), _ in rows], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlabel("test accuracy")
    return axes


def paths_figure(by_width: dict[float, np.ndarray]):
    """Bars of the shares that paths read of the image of the right kind, the other, and the third one."""
    _, panels = plotting.new_figure(len(by_width), 1, figsize=(5.2, 4.8), sharex=True, sharey=True)
    for panel, (width, read) in zip(panels, by_width.items(), strict=True):
        place = np.arange(len(read))
        for number, (name, colour) in enumerate(zip(_IMAGES, ("theory", "gp", "0.6"), strict=True)):
            shade = plotting.COLOURS.get(colour, colour)
            panel.bar(place + 0.27 * (number - 1), read[:, number], 0.25, color=shade, label=name)
        panel.set_ylabel(f"share read, {_width(width)}")
        panel.set_xticks(place, [f"({first}, {second})" for first in (1, 2) for second in (1, 2)])
    panels[-1].set_xlabel("path: head of layer 1, head of layer 2")
    plotting.legend_above(panels[0], columns=1)
    return panels


def table(found: xr.Dataset, theory: xr.Dataset):
    """Markdown table of mean accuracies and ranges."""
    rows = [
        (_NAMES[arm], _width(width), f"{values.mean():.3f}", f"{values.min():.3f} to {values.max():.3f}")
        for (arm, width), values in arms(found, theory).items()
    ]
    return tables.table(["", "width", "mean accuracy", "range over draws"], rows)


def _width(width: float) -> str:
    return f"$N$ = {width:g}" if np.isfinite(width) else "limit"


_IMAGES = ("labelled image of the third one's kind", "the other labelled image", "the third image itself")
