"""Reading an order parameter: matrices at several widths, shares of pairs of paths, subsets of paths."""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import AsinhNorm

import statmech_attention as sma
from attention_book import plotting
from attention_book.measures import path_kernel

NAMES = tuple(plotting.HIDDEN_MARKOV_PATHS[path] for path in np.ndindex(2, 2))  # in the order of the arrays
PAIRS = [(a, a) for a in range(4)] + [(a, b) for a in range(4) for b in range(a)]
SUBSETS = {"good": (0,), "good, denoising": (0, 2), "both adversarial": (1, 3), "all": (0, 1, 2, 3)}
HEADS = (((0,), (0,)), ((0, 1), (0,)), ((0, 1), (1,)), ((0, 1), (0, 1)))  # of the subsets, by layer


def matrices(solutions) -> None:
    """Draw order parameters on one colour scale, by width."""
    limit = max(float(jnp.abs(one.order_parameter).max()) for one in solutions.values())
    norm = AsinhNorm(linear_width=1.0, vmin=-limit, vmax=limit)
    figure, panels = plotting.new_figure(1, len(solutions), figsize=(6.4, 2.6))
    for panel, (width, one) in zip(panels, solutions.items(), strict=True):
        plotting.order_parameter(one.order_parameter, layers=(2, 2), limit=limit, axes=panel)
        panel.images[0].set_norm(norm)
        for text, value in zip(panel.texts, np.asarray(one.order_parameter).ravel(), strict=True):
            rounded = f"{np.round(value, 1) + 0.0:.2g}".replace("-", "\N{MINUS SIGN}")
            text.set(text=rounded, color="white" if abs(norm(value) - 0.5) > 0.32 else "black")
        panel.set_title(f"$N = {width}$")
        if panel is not panels[0]:
            panel.set_yticklabels([])
    bar = figure.colorbar(panels[0].images[0], ax=panels, ticks=[-3, -1, 0, 1, 3, 10])
    bar.ax.set_yticklabels(["−3", "−1", "0", "1", "3", "10"])


def shares(solution: sma.Solution) -> np.ndarray:
    """Amount that each of `PAIRS` adds to the trace of the training kernel, as a share of the whole."""
    seen = solution.problem.attentioned
    traces = np.array([[np.trace(path_kernel(seen, seen, a, b)) for b in range(4)] for a in range(4)])
    parts = np.asarray(solution.order_parameter) * traces
    return np.array([parts[a, b] * (1 if a == b else 2) for a, b in PAIRS]) / parts.sum()


def draw_shares(by_width) -> None:
    """Draw shares of pairs of paths as bars."""
    _, axes = plotting.new_figure(figsize=(5.2, 4.4))
    for place, (width, values) in enumerate(by_width.items()):
        shade = plt.cm.viridis(0.85 - 0.35 * place)
        axes.barh(np.arange(len(PAIRS)) + 0.27 * (place - 1), values, 0.25, color=shade, label=f"$N = {width}$")
    axes.axvline(0, color="0.3", linewidth=0.8)
    axes.set_yticks(range(len(PAIRS)), [NAMES[a] if a == b else f"{NAMES[b]} × {NAMES[a]}" for a, b in PAIRS])
    axes.invert_yaxis()
    axes.set(xlabel="share of the trace")
    axes.legend()


def subset_accuracies(solution: sma.Solution, test, labels) -> np.ndarray:
    """Accuracies `(subsets, 3)`: limit, within the network, a network that has only these heads."""
    problem, rows = solution.problem, []
    for paths, heads in zip(SUBSETS.values(), HEADS, strict=True):
        own = sma.solve(problem.replace(attentioned=problem.attentioned.keep_heads(heads)))
        found = (
            sma.predict(problem, test, jnp.eye(4), paths=np.array(paths)),
            solution.predict(test, paths=np.array(paths)),
            own.predict(test.keep_heads(heads)),
        )
        rows.append([float(sma.accuracy(one.mean, labels)) for one in found])
    return np.array(rows)


def denoising_alone(trial, temperature: float = 0.01) -> tuple[float, float]:
    """Test accuracy of the infinitely wide network of the denoising path, with its standard error over test chains."""
    train, test = (one.keep_heads(((1,), (0,))) for one in (trial.train, trial.test))
    problem = sma.Problem(train, trial.labels, temperature=temperature)
    right = float(sma.accuracy(sma.predict(problem, test, jnp.eye(1)).mean, trial.test_labels))
    return right, (right * (1 - right) / len(trial.test_labels)) ** 0.5


def draw_subsets(accuracies, examples: int) -> None:
    """Draw accuracies of subsets with standard errors over test examples."""
    _, axes = plotting.new_figure(figsize=(5.2, 3.4))
    looks = [
        ("GP limit", "gp", "s", "full"),
        ("within $N = 10$", "theory", "o", "full"),
        ("of its own", "theory", "o", "none"),
    ]
    for column, (name, colour, mark, fill) in enumerate(looks):
        values = accuracies[:, column]
        error = np.sqrt(values * (1 - values) / examples)
        look = {"fmt": mark, "fillstyle": fill, "color": plotting.COLOURS[colour], "label": name}
        axes.errorbar(np.arange(4) + 0.15 * (column - 1), values, error, **look)
    axes.axhline(0.5, color="0.6", linestyle=":")
    axes.set_xticks(range(4), [name.replace(", ", ",\n").replace("both ", "both\n") for name in SUBSETS])
    axes.set(ylabel="test accuracy")
    plotting.legend_above(axes, columns=3)
