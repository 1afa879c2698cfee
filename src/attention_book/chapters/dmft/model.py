"""The 1-bit network as it is written: loops over bits and words beside the library."""

import itertools

import numpy as np

from attention_book import plotting
from statmech_attention import dmft


def overlap_by_loops(table, word, slot: int, share: float, code) -> np.ndarray:
    """m_a of (B1), as it is written."""
    words, positions = np.asarray(table.words), np.asarray(table.positions)
    found = []
    for a in range(len(words)):
        semantic = sum(words[a, i] * word[i] for i in range(len(word))) / len(word)
        positional = sum(positions[a, j] * code[slot, j] for j in range(code.shape[1])) / code.shape[1]
        found.append((1 - share) * semantic + share * positional)
    return np.array(found)


def words_against_bits(seed: int, beta: float, few: int = 9) -> float:
    """Largest relative difference of the softmax over all words and the product of bits (B4), for any fields."""
    vocabulary = np.array(list(itertools.product([-1, 1], repeat=few)))
    fields = np.random.default_rng(seed).normal(size=few)
    logits = beta * vocabulary @ fields
    softmax = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    by_bits = np.prod(np.exp(beta * vocabulary * fields) / (2 * np.cosh(beta * fields)), axis=1)
    return float(np.max(np.abs(softmax / by_bits - 1)))


def run_against_loops(model, run) -> tuple[float, float]:
    """A run once more in plain loops: largest difference of overlaps and attention, and of the bits from their means.

    Sums of s - mu and of mu (s - mu) over all bits are in units of their standard errors.
    """
    patterns, code = model.patterns, dmft.positional_code(model.patterns.window)
    window, sharpness = patterns.window, float(model.gamma) / np.sqrt(patterns.features)
    words = np.asarray(run.words[0])
    history = [np.asarray(patterns.output.words[0]), *words]
    tables = {name: getattr(patterns, name) for name in ("query", "key", "value", "output")}
    shares = {
        name: [overlap_by_loops(table, word, t % window, float(model.epsilon), code) for t, word in enumerate(history)]
        for name, table in tables.items()
    }
    attention = []
    for t in range(len(history)):
        seen = range(max(0, t - window + 1), t + 1)
        logit = np.array([sharpness * shares["query"][t] @ shares["key"][tau] for tau in seen])
        weight = np.exp(logit - logit.max())
        attention.append(sum(w * shares["value"][tau] for w, tau in zip(weight / weight.sum(), seen, strict=True)))
    gaps = [np.max(np.abs(shares[name][1:] - np.asarray(getattr(run.overlaps, name)[0]))) for name in tables]
    gaps.append(np.max(np.abs(attention[1:] - np.asarray(run.overlaps.attention[0]))))
    mean = np.tanh(float(model.beta) * np.array(attention[:-1]) @ np.asarray(patterns.output.words))
    off = [np.sum(f * (words - mean)) / np.sqrt(np.sum(f**2 * (1 - mean**2))) for f in (np.ones_like(mean), mean)]
    return float(max(gaps)), float(np.max(np.abs(off)))


def run_figure(small, larger, limit, sites: int, copies: int) -> None:
    """Tokens, and overlaps of two sizes beside the limit."""
    steps, features = np.asarray(limit.output_words).shape
    figure, axes = plotting.new_figure(3, 1, figsize=(5.2, 6.2), sharex=True)
    ends = (0.5, steps + 0.5, sites, 0)
    axes[0].imshow(small.words[0].T, cmap="Greys", vmin=-1.4, vmax=1.2, aspect="auto", extent=ends)
    axes[0].set_ylabel("site $i$")
    for edge in (sites / 3, 2 * sites / 3):
        axes[0].axhline(edge, color="white", linewidth=2.5)
    plotting.overlap_series(small.overlaps.output_words[0], axes=axes[1])
    plotting.overlap_series(larger.overlaps.output_words[0], symbol="", axes=axes[2])
    plotting.overlap_series(limit.output_words, symbol="", style=":", axes=axes[2])
    for panel, what, size in zip(axes, ("tokens", "overlaps", "overlaps"), (sites, sites, sites * copies), strict=True):
        panel.set_title(f"{what}, $N$ = {size}", loc="left")
        panel.set_xlabel("time $t$" if panel is axes[2] else "")
    axes[1].legend(ncols=features, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)


def leaves(run, limit, distance: float = 0.1) -> tuple[float, int]:
    """Root mean square distance from the limit in the first word, and the step at which it exceeds `distance`."""
    apart = np.sqrt(np.mean((np.asarray(run.overlaps.output_words[0]) - np.asarray(limit.output_words)) ** 2, axis=1))
    return float(apart[0]), int(np.argmax(apart > distance)) + 1 if np.any(apart > distance) else len(apart)
