"""Heads of dimension d: the small problem, the hidden Markov chains solved here, the images recorded."""

import math
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.interpolate
import scipy.optimize
import scipy.stats

import statmech_attention as sma
from attention_book import plotting, results
from attention_book.chapters.extensions.chain import shared_noise
from attention_book.experiments import reading
from attention_book.notebooks.tables import spaced, table
from attention_book.temperatures import compare
from statmech_attention.plotting.style import MUTED

TASK = sma.tasks.HiddenMarkov()
EXAMPLES, MARKOV_HEAT, IMAGE_HEAT = 100, 0.01, 0.5


def small_problem(seed: int, temperature: float):
    """Two paths: one sees the label and a noise, the other the same noise alone."""
    inputs, labels = shared_noise(seed, paths=2)
    return sma.Problem(inputs[:12], labels[:12], width=np.inf, temperature=temperature, layers=(2,))


def solved(problem, width, *, values=None) -> np.ndarray:
    """U^(1) of the small problem at a width, plain heads or heads with values of a dimension."""
    heads = (2,) if values is None else (sma.Heads(2, values=values),)
    one = sma.Problem(
        problem.attentioned.values, problem.labels, width=width, temperature=problem.temperature, layers=heads
    )
    return np.asarray(sma.solve(one, tolerance=1e-10).order_parameter)


def entries_drawn(dimensions, by_dimension, by_width) -> None:
    """Three entries of U^(1) against the value dimension and against the width."""
    _, panels = plotting.new_figure(1, 2, figsize=(6.4, 3.3), sharey=True)
    entries = {"$U_{11}$": ((0, 0), "indigo"), "$U_{22}$": ((1, 1), "green"), "$U_{12}$": ((0, 1), "rose")}
    for panel, found, name in zip(panels, (by_dimension, by_width), ("value dimension $d$", "width $N$"), strict=True):
        for label, ((row, column), colour) in entries.items():
            plotting.against_width(
                dimensions, found[None, :, row, column], label=label, colour=MUTED[colour], axes=panel
            )
        panel.set_xlabel(name)
    panels[0].set_ylabel("$U^{(1)}$")
    plotting.label_panels(panels)
    panels[0].legend(loc="upper right")


def law(seed: int, width: int, d: int, variance: float, draws: int) -> float:
    """Largest gap of first and second moments of U^(l) between drawn weights and (J3), in standard errors."""
    random, root = np.random.default_rng(seed), math.sqrt(variance)
    w = random.normal(size=(2, width))
    outputs = math.sqrt(root) * random.normal(size=(draws, 2, width, d))
    values = math.sqrt(root) * random.normal(size=(draws, 2, d, width))
    g = np.einsum("pn,khnd->khpd", w, outputs) / math.sqrt(width)
    rows = np.einsum("khpd,khdn->khpn", g, values).reshape(draws, 4, width) / math.sqrt(d)
    by_weights = np.einsum("kan,kbn->kab", rows, rows) / width

    A = np.linalg.cholesky(root * w @ w.T / width)
    stacked = np.zeros((draws, 4, 2 * d))
    for head in range(2):
        stacked[:, 2 * head : 2 * head + 2, head * d : (head + 1) * d] = (
            A @ random.normal(size=(draws, 2, d)) / math.sqrt(d)
        )
    outer = math.sqrt(root / width) * np.einsum("kar,krn->kan", stacked, random.normal(size=(draws, 2 * d, width)))
    by_law = np.einsum("kan,kbn->kab", outer, outer)
    one, other = (found[:, *np.tril_indices(4)] for found in (by_weights, by_law))
    one, other = (np.concatenate([x, (x[:, :, None] * x[:, None, :]).reshape(draws, -1)], axis=1) for x in (one, other))
    error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / draws)
    return float(np.max(np.abs(one.mean(axis=0) - other.mean(axis=0)) / error))


def in_wide_networks(problem, dimensions) -> float:
    """Largest distance of the solver at infinite N from the minimum of (J6)."""
    inputs, labels, gaps = np.asarray(problem.attentioned.values), np.asarray(problem.labels), []

    def action(logs, d):
        gram = np.einsum("mai,nai,a->mn", inputs, inputs, np.exp(logs)) / (2 * inputs.shape[2])
        gram += float(problem.temperature) * np.eye(len(labels))
        return d * np.sum(np.exp(logs) - logs) + np.linalg.slogdet(gram)[1] + labels @ np.linalg.solve(gram, labels)

    for d in dimensions:
        best = scipy.optimize.minimize(action, np.zeros(2), args=(d,), tol=1e-10).x
        gaps.append(np.abs(solved(problem, np.inf, values=d) - np.diag(np.exp(best))).max())
    return float(max(gaps))


def first_order(problem) -> float:
    """Largest relative error of (J7) by hand and against solves at N = 1e4 and at d = 1e4."""
    inputs, labels = np.asarray(problem.attentioned.values), np.asarray(problem.labels)
    narrow = sma.Problem(inputs, labels, temperature=problem.temperature, layers=(sma.Heads(2, values=1),))
    slopes = np.asarray(sma.theory.evidence_slopes(narrow))
    kernels = np.einsum("mai,nbi->abmn", inputs, inputs) / (2 * inputs.shape[2])
    inverse = np.linalg.inv(np.einsum("aamn->mn", kernels) + float(problem.temperature) * np.eye(len(labels)))
    residual = inverse @ labels
    pull = 0.5 * np.einsum("abmn,mn->ab", kernels, inverse - np.outer(residual, residual))
    np.testing.assert_allclose(slopes, [np.sum(pull**2), np.sum(np.diag(pull) ** 2), np.trace(pull) ** 2])
    limit, errors = sma.log_evidence(sma.solve(problem, tolerance=1e-10)), []
    for layers, width, slope in (((2,), 1e4, slopes[0] + slopes[2]), ((sma.Heads(2, values=1e4),), np.inf, slopes[1])):
        one = sma.Problem(inputs, labels, width=width, temperature=problem.temperature, layers=layers)
        gain = sma.log_evidence(sma.solve(one, tolerance=1e-10)) - limit
        errors.append(abs(1e4 * float(gain) / slope - 1))
    return max(errors)


class Task(NamedTuple):
    """One task over draws, widths (with a wide one at the end) and dimensions (plain heads at the end)."""

    accuracy: np.ndarray
    gain: np.ndarray  # in log evidence over the limit
    limit: np.ndarray  # the limit's accuracy
    overlap: np.ndarray
    rates: np.ndarray  # c of (J7), c without the readout, A_N, of each draw
    layers: tuple[int, ...]
    examples: int
    sizes: list[int]
    wide: float

    @property
    def numbers(self) -> np.ndarray:
        return np.array([*self.sizes, self.wide])

    def scores(self) -> np.ndarray:
        """Head scores "both"."""
        flat = [
            np.asarray(sma.head_scores(one, layers=self.layers))
            for one in self.overlap.reshape(-1, *self.overlap.shape[-2:])
        ]
        return np.array(flat).reshape(*self.overlap.shape[:3], -1)

    def between(self) -> np.ndarray:
        """Share of |U| between different paths."""
        size = np.abs(self.overlap)
        return 1 - np.einsum("...ii->...", size) / size.sum(axis=(-2, -1))


def markov_draw(seed: int, number: int):
    """Attentioned inputs and labels of the chains, for training and test."""
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), number), 3)
    attention = sma.attention_from_products(TASK.heads(keys[2]))
    sets = TASK.sample(keys[0], EXAMPLES), TASK.sample(keys[1], 1000)
    return [(sma.attentioned_inputs(one.inputs, attention).values, one.labels) for one in sets]


def _markov_point(sets, d, width):
    (xi, y), (xi_test, y_test) = sets
    heads = 2 * ((2,) if np.isinf(d) else (sma.Heads(2, values=d),))
    one = sma.solve(sma.Problem(xi, y, layers=heads, width=width, temperature=MARKOV_HEAT))
    mean = one.predict(sma.AttentionedInputs(xi_test, heads)).mean
    return float(sma.accuracy(mean, y_test)), float(sma.log_evidence(one)), np.asarray(one.order_parameter)


def _rates(slopes) -> list[float]:
    """Ratio of the part of G to the part of U; the same without the readout; A_N."""
    layers, within = slopes[0] + slopes[2], slopes[1] + slopes[3]
    return [within / (layers + slopes[4]), within / layers, layers + slopes[4]]


def chains(seed: int, repeats: int, sizes, wide: float) -> Task:
    """The hidden Markov chains, every pair of width and dimension solved."""
    drawn = [markov_draw(seed, number) for number in range(repeats)]
    grid = [[[_markov_point(sets, d, n) for d in (*sizes, np.inf)] for n in (*sizes, wide)] for sets in drawn]
    accuracy, evidence, overlap = (
        np.array([[[one[k] for one in row] for row in rows] for rows in grid]) for k in range(3)
    )
    limit = np.array([_markov_point(sets, np.inf, np.inf)[:2] for sets in drawn])
    narrow = 2 * (sma.Heads(2, values=1),)
    problems = [sma.Problem(*sets[0], temperature=MARKOV_HEAT, layers=narrow) for sets in drawn]
    rates = np.array([_rates(np.asarray(sma.theory.evidence_slopes(one))) for one in problems])
    gain = evidence - limit[:, 1, None, None]
    return Task(accuracy, gain, limit[:, 0], overlap, rates, (2, 2), EXAMPLES, list(sizes), wide)


def images(paths) -> Task:
    """The recorded one-shot networks: accuracies at the best temperature, evidence and overlaps at one."""
    records, made = [results.load(path).isel(draw=0) for path in paths], results.record(paths[0])["parameters"]
    axes = ("width", "dimension")
    accuracy = [one["accuracy"].isel(test_set=0).max("temperature").transpose(*axes).values for one in records]
    limit = [one["gp_accuracy"].isel(test_set=0).max("temperature").item() for one in records]
    cold = [one.sel(temperature=IMAGE_HEAT) for one in records]
    gain = np.array([one["log_evidence"].transpose(*axes).values - one["gp_log_evidence"].item() for one in cold])
    overlap = np.array([one["order_parameter"].transpose(*axes, ...).values for one in cold]).astype(float)
    rates = np.array([_rates(one["gp_evidence_slope"].values) for one in cold])
    layers = (made["heads"],) * made["layers"]
    sizes = [int(number) for number in made["values"]]
    return Task(
        np.array(accuracy), gain, np.array(limit), overlap, rates, layers, made["examples"], sizes, made["widths"][-1]
    )


def recorded(folder: str):
    """Paths of the records."""
    return reading.recorded_files("narrow", folder)


def families(task: Task) -> dict[str, np.ndarray]:
    """Accuracies `(draws, sizes)` of three families of networks."""
    steps, values = np.arange(len(task.sizes)), task.accuracy
    return {
        "plain heads, $N$": values[:, :-1, -1],
        "$d$, wide": values[:, -1, :-1],
        "$d$ = $N$": values[:, steps, steps],
    }


def accuracy_drawn(tasks: dict[str, Task]) -> None:
    """Accuracy of the three families against width or dimension."""
    figure, panels = plotting.new_figure(1, 2, figsize=(6.4, 3.4))
    looks = (plotting.COLOURS["theory"], "o-"), (MUTED["indigo"], "s-"), (MUTED["green"], "D-")
    for panel, (name, task) in zip(panels, tasks.items(), strict=True):
        for (said, values), (colour, look) in zip(families(task).items(), looks, strict=True):
            mean, error = plotting.mean_and_error(values)
            panel.errorbar(task.sizes, mean, error, fmt=look, color=colour, markersize=4, label=said)
        panel.axhline(task.limit.mean(), color=plotting.COLOURS["gp"], linestyle="--", linewidth=1.2, label="GP limit")
        panel.set(xscale="log", xlabel="width or dimension", title=name)
    panels[0].set_ylabel("accuracy")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)


def at_own_temperature(seed: int, draws, size: int, wide: float, temperatures) -> dict:
    """Comparisons over temperature of plain heads of a width, and of heads of that dimension in a wide network."""
    kinds: dict[str, tuple[Any, float]] = {
        f"plain, $N$ = {size}": (2, size),
        f"$d$ = {size} in $N$ = {spaced(wide)}": (sma.Heads(2, values=size), wide),
    }
    found: dict[str, list] = {name: [] for name in kinds}
    for (train, y), (test, y_test) in (markov_draw(seed, number) for number in draws):
        for name, (kind, _) in kinds.items():
            seen = (sma.AttentionedInputs(values, (kind, kind)) for values in (train, test))
            found[name].append(sma.tasks.HiddenMarkovTrial(next(seen), y, next(seen), y_test))
    return {name: compare(trials, width=kinds[name][1], temperatures=temperatures) for name, trials in found.items()}


def plain_line(task: Task, draw: int):
    """Gain in evidence of plain heads over 1/N, monotone cubic pieces in logarithms."""
    known, plain = np.log(1 / task.numbers[::-1]), np.log(task.gain[draw][::-1, -1])
    line = scipy.interpolate.PchipInterpolator(known, plain)
    return lambda places: np.exp(line(np.log(places)))


def off_the_line(task: Task, rates) -> float:
    """Root mean square distance of narrow pairs from the line of plain heads, relative, with a c for each draw."""
    squares = []
    for draw, c in enumerate(rates):
        places = (1 / task.numbers[:, None] + c / np.array(task.sizes)).ravel()
        inside, wanted = places <= 1 / min(task.sizes) * (1 + 1e-9), plain_line(task, draw)
        squares.append((task.gain[draw][:, :-1].ravel()[inside] / wanted(places[inside]) - 1) ** 2)
    return math.sqrt(np.mean(np.concatenate(squares)))


def best_rates(task: Task) -> np.ndarray:
    """The c with which each draw's evidence lies on the line best."""

    def best(draw):
        one = task._replace(gain=task.gain[[draw]])
        return scipy.optimize.minimize_scalar(lambda c: off_the_line(one, [c]), bounds=(0.02, 1.5), method="bounded").x

    return np.array([best(draw) for draw in range(len(task.gain))])


def one_variable(tasks: dict[str, Task]) -> dict[str, dict[str, tuple[float, float]]]:
    """By task, for three choices of c: its mean, and the evidence's distance from the line in percent."""
    found = {}
    for name, task in tasks.items():
        choices = {"1": np.ones(len(task.gain)), "(J7)": task.rates[:, 0], "fitted": best_rates(task)}
        found[name] = {said: (float(c.mean()), 100 * off_the_line(task, c)) for said, c in choices.items()}
    return found


def one_variable_table(found):
    """Table of `one_variable`."""
    rows = [(name, said, f"{c:.2f}", f"{off:.1f}") for name, one in found.items() for said, (c, off) in one.items()]
    return table(("task", "choice of $c$", "$c$", "evidence off the line, %"), rows)


def one_variable_drawn(task: Task) -> None:
    """Gain in evidence per example of the first draw against P (1/N + c/d), for c = 1 and the c of (J7)."""
    figure, panels = plotting.new_figure(1, 2, figsize=(6.5, 3.2), sharey=True)
    count, inverse, line = task.examples, 1 / task.numbers, np.geomspace(1 / task.wide, 1 / min(task.sizes))
    for panel, c in zip(panels, (1.0, task.rates[0, 0]), strict=True):
        panel.plot(
            count * line, plain_line(task, 0)(line) / count, "-", color=plotting.COLOURS["theory"], label="plain heads"
        )
        places = count * (inverse[:, None] + c / np.array(task.sizes))
        shade = np.broadcast_to(np.log(task.sizes), places.shape)
        dots = panel.scatter(places, task.gain[0][:, :-1] / count, c=shade, cmap="viridis", s=16, zorder=3)
        panel.set(
            xscale="log", yscale="log", xlabel=f"$P\\,(1/N + {'c' if c != 1 else '1'}/d)$", title=f"$c$ = {c:.2f}"
        )
    panels[0].set_ylabel("evidence gained per example")
    bar = figure.colorbar(dots, ax=panels, label="dimension $d$", shrink=0.8)
    bar.set_ticks(np.log(task.sizes), labels=task.sizes)
    bar.ax.minorticks_off()
    panels[0].legend(loc="upper left")


def equal_evidence(task: Task, size: int) -> np.ndarray:
    """Width of plain heads with the evidence of heads of one dimension in the wide network, per draw."""
    place, line = task.sizes.index(size), np.geomspace(1 / task.wide, 1 / min(task.sizes), 1000)
    return np.array([1 / np.interp(one[-1, place], plain_line(task, d)(line), line) for d, one in enumerate(task.gain)])


def scores_apart(task: Task, size: int) -> dict[str, tuple[float, float]]:
    """Largest difference and rank correlation of scores, narrow heads in a wide network against plain ones."""
    place, scores = task.sizes.index(size), task.scores()
    narrow, same = scores[:, -1, place], []
    for draw, width in enumerate(equal_evidence(task, size)):
        same.append([np.interp(math.log(width), np.log(task.numbers), one) for one in scores[draw, :, -1].T])
    found = {}
    for name, other in {"same number": scores[:, place, -1], "same evidence": np.array(same)}.items():
        ranks = [scipy.stats.spearmanr(a, b).statistic for a, b in zip(narrow, other, strict=True)]
        found[name] = float(np.abs(narrow - other).max(axis=1).mean()), float(np.mean(ranks))
    return found


def scores_table(tasks: dict[str, Task], size: int):
    """Table of evidence, overlaps and scores of heads of one dimension in a wide network beside plain heads."""
    rows = []
    for name, task in tasks.items():
        place, apart = task.sizes.index(size), scores_apart(task, size)
        between = (100 * task.between()[:, n, d].mean() for n, d in ((place, -1), (-1, place)))
        pairs = (f"{one:.2f}, {rank:.2f}" for one, rank in apart.values())
        rows.append((name, f"{equal_evidence(task, size).mean():.0f}", *(f"{one:.0f}" for one in between), *pairs))
    heads = ("task", "worth a width of", "between paths, plain, %", "narrow, %", "scores: same number", "same evidence")
    return table(heads, rows)
