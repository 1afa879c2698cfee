# mypy: ignore-errors
"""Chaos and memory: Lyapunov exponents, nudged mean fields, networks with one bit flipped."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from attention_book import plotting
from attention_book.chapters.dmft.orbits import floquet_multipliers
from attention_book.chapters.dmft.replicas import damage, log_likelihood_ratios
from attention_book.dynamics import attractors
from attention_book.notebooks.tables import spaced, table, with_error
from statmech_attention import dmft
from statmech_attention.plotting.style import MUTED

GRID = 32  # probabilities of a segment's bits are rounded to so many
MARKS = np.array([2, 4, 6, 8, 16, 32, 40])  # times at which single words are read
TABLES = ("query", "key", "value", "output")


def jacobian_against_differences(model, window, step: float = 1e-6) -> float:
    """Largest deviation of (B12) from differences of the map at three points, relative to the largest entry."""
    shape, worst = (model.patterns.window, model.patterns.features), 0.0

    def after_one(state, slot):
        moved, _ = dmft.step(model, dmft.window_from_attention(model, state.reshape(shape), slot=slot))
        return moved.newest_first().ravel()

    for _ in range(3):
        formula, state, slot = np.asarray(dmft.jacobian(model, window)), window.newest_first().ravel(), int(window.slot)
        pairs = [(after_one(state + step * e, slot), after_one(state - step * e, slot)) for e in np.eye(state.size)]
        differences = np.stack([(one - other) / (2 * step) for one, other in pairs], axis=1)
        worst = max(worst, float(np.abs(formula - differences).max() / np.abs(formula).max()))
        window = dmft.advance(model, window, steps=1)
    return worst


def both_sides(model, count: int = 2000) -> float:
    """Relative difference of both sides of (B13) along one run."""
    begin = dmft.advance(model, dmft.initial_window(model), steps=2000)
    found = dmft.lyapunov_spectrum(model, begin, steps=count, discard=0, blocks=2)

    def log_determinant(window, _):
        there = dmft.advance(model, window, steps=1)
        return there, jnp.linalg.slogdet(dmft.jacobian(model, window))[1]

    _, logs = jax.jit(lambda w: jax.lax.scan(log_determinant, w, None, length=count))(begin)
    assert float(jnp.max(found.rounding)) < 1e-6
    return float(abs(jnp.sum(found.exponents) / jnp.mean(logs) - 1))


def exponent_figure(grid, found) -> None:
    """The three largest exponents by inverse temperature."""
    figure, axes = plotting.new_figure(figsize=(5.2, 4.2))
    plotting.exponents(grid, found.exponents, found.errors, regimes=found.regime, axes=axes)
    axes.set_ylim(-0.4, 0.25)
    plotting.legend_above(axes, columns=2)


def assert_floquet(model, grid, found) -> None:
    """Exponents of the shortest and the longest orbit are those of their Floquet multipliers."""
    periodic = np.flatnonzero(found.period > 0)
    assert np.all(np.asarray(found.exponents)[periodic, 0] < dmft.THRESHOLD)
    by_period = periodic[np.argsort(found.period[periodic], kind="stable")]
    for place in {int(one) for one in (*by_period[:1], *by_period[-1:])}:
        here, period = model.at(beta=grid[place]), int(found.period[place])
        window = jax.tree.map(lambda part: part[place] if part.ndim else part, found.window)  # noqa: B023
        multiplier = floquet_multipliers(here, window, period)[0]
        exponent, error = (float(part[place, 0]) for part in (found.exponents, found.errors))
        assert abs(np.log(abs(multiplier)) / period - exponent) < 5 * error + 2e-3


class Nudges:
    """Mean fields on their attractors, one of each pair nudged by 1e-8."""

    def __init__(self, model, origin, betas, seed: int, *, nudges: int = 200, horizon: int = 400, size: float = 1e-8):
        self.betas, self.window, window = np.array(betas), model.patterns.window, model.patterns.window
        models = model.at(beta=self.betas)
        settled = dmft.advance(models, origin, steps=200_000)
        self.first = dmft.lyapunov_spectrum(models, settled, steps=50_000, count=2)
        again = dmft.lyapunov_spectrum(models, dmft.advance(models, settled, steps=100_000), steps=50_000, count=2)
        self.kinds = [plotting.REGIMES[kind] for kind in dmft.regimes(self.first)]
        self.periods = np.asarray(attractors(models, settled, transient=0, steps=2000).period)
        joint = np.hypot(self.first.errors[:, 0], again.errors[:, 0])
        apart = np.abs(self.first.exponents[:, 0] - again.exponents[:, 0]) / joint
        self.again = max(
            (float(one) for one, kind in zip(apart, self.kinds, strict=True) if kind == "chaotic"), default=0.0
        )
        every = 37 * window  # steps between the points that are nudged
        path = dmft.trajectory(models, settled, steps=nudges * every, keep="attention").attention
        ends = every * np.arange(1, nudges + 1)
        points = np.stack([np.asarray(path)[:, end - 1 - np.arange(window)] for end in ends], axis=1)
        many = model.at(beta=np.repeat(self.betas[:, None], nudges, axis=1))
        moves = np.random.default_rng(seed).normal(size=points.shape)
        moves *= size / np.sqrt(np.mean(moves**2, axis=(2, 3), keepdims=True))
        runs = []
        for sign in (0, 1):
            begin = dmft.window_from_attention(many, points + sign * moves, slot=int(settled.slot))
            runs.append(np.asarray(dmft.trajectory(many, begin, steps=horizon, keep="attention").attention))
        self.logs = np.log(np.maximum(np.sqrt(np.mean((runs[1] - runs[0]) ** 2, axis=3)), 1e-16))
        self.growth = [self._growth(logs) for logs in self.logs]

    def _growth(self, logs) -> tuple[float, float]:
        """Rate per step and its error, over the second half of the exponential part: faster directions die out."""
        mean, start, horizon = logs.mean(axis=0), 2 * self.window, logs.shape[1]
        inside = (mean[start:] > np.log(1e-14)) & (mean[start:] < np.log(1e-4))
        end = start + int(np.argmax(~inside)) or horizon
        end = horizon if end == start else end
        begin = (start + end) // 2
        slopes = (logs[:, end - 1] - logs[:, begin]) / (end - 1 - begin)
        return float(slopes.mean()), float(slopes.std(ddof=1) / np.sqrt(len(slopes)))

    def figure(self) -> None:
        """Geometric mean of the difference after the nudge, beside the rate of the largest exponent."""
        figure, axes = plotting.new_figure(figsize=(5.4, 4.0))
        axes.axvspan(0, self.window, color="0.85", linewidth=0)
        horizon, start = self.logs.shape[2], 2 * self.window
        time = np.arange(1, horizon + 1)
        for row, (beta, kind) in enumerate(zip(self.betas, self.kinds, strict=True)):
            line, rate = np.exp(self.logs[row].mean(axis=0)), float(self.first.exponents[row, 0])
            axes.semilogy(time, line, color=plotting.REGIME_COLOURS[kind], linewidth=1.6)
            until = (time > start) & (line < 1e-3) & (line > 3e-16)
            axes.semilogy(
                time[until],
                (line[start] * np.exp(rate * (time - time[start])))[until],
                "--",
                color="0.2",
                linewidth=0.8,
            )
            place = min(int(np.sum(line > 3e-16)) - 1, 150 if rate > 0.1 else 240)
            offset = (-40, 10) if rate > 0.1 else (6, -14) if rate > 0.02 else (4, 5)  # beside the curve, not on it
            look = dict(xytext=offset, textcoords="offset points", fontsize=9)
            axes.annotate(rf"$\beta$ = {beta:g}: {kind}", (time[place], line[place]), **look)
        labels = dict(xlabel="steps after the nudge", ylabel=r"difference of $\hat A$")
        axes.set(ylim=(1e-16, 3), xlim=(0, horizon), **labels)

    def table(self):
        """Growth of a nudge beside the largest exponent."""
        rows = []
        for row, (beta, kind) in enumerate(zip(self.betas, self.kinds, strict=True)):
            said = kind + (f", period {self.periods[row]}" if self.periods[row] else "")
            exponent = with_error(self.first.exponents[row, 0], self.first.errors[row, 0], sign=True)
            rows.append([f"{beta:g}", said, with_error(*self.growth[row], sign=True), exponent])
        return table([r"$\beta$", "regime", "growth per step", r"$\lambda_1$"], rows)

    def assert_as_written(self) -> None:
        for row, (rate, error) in enumerate(self.growth):
            doubt = np.hypot(error, float(self.first.errors[row, 0]))
            assert abs(rate - float(self.first.exponents[row, 0])) < 5 * doubt + 1e-3, (self.betas[row], rate)
        assert self.periods[2] == 28 and self.again < 3


class Flips:
    """One random bit of the newest token flipped, after several histories of one run."""

    def __init__(self, model, seed: int, run_seed: int, replicas: int, histories: int):
        self.model, self.seed, self.run_seed, self.replicas, self.histories = model, seed, run_seed, replicas, histories
        self.window, self.sites = model.patterns.window, model.patterns.sites

    def _pairs(self, copies: int, beta: float):
        """Windows of each history with and without the flip."""
        patterns = dmft.published_patterns(seed=self.seed, sites=copies * self.sites)
        here = dmft.dynamics(patterns, beta=beta, gamma=self.model.gamma, epsilon=self.model.epsilon)
        random, key = np.random.default_rng(self.run_seed), jax.random.key(self.run_seed)
        words = dmft.simulate(here, key=key, steps=100 + 20 * self.histories, keep="words").words[0]
        words, pairs = np.array(words, float), []
        for history in range(self.histories):
            end = 100 + 20 * (history + 1)
            before = words[end - self.window : end]
            after = before.copy()
            after[-1, random.integers(patterns.sites)] *= -1
            slot = (end + 1 - self.window) % self.window
            pairs.append([dmft.window_from_words(here, one, slot=slot) for one in (before, after)])
        return here, pairs

    def told(self, copies: int, beta: float) -> tuple[np.ndarray, np.ndarray]:
        """TV of the first t words, and mutual information in bits: (histories, steps) each."""
        here, pairs = self._pairs(copies, beta)
        variation, information = [], []
        for place, (one, other) in enumerate(pairs):
            keys, ratios = jax.random.split(jax.random.key(self.run_seed + 1 + place)), []
            for key, a, b in zip(keys, (one, other), (other, one), strict=True):
                options = dict(key=key, steps=2 * self.window, first=a, second=b, replicas=self.replicas)
                ratios.append(np.asarray(log_likelihood_ratios(here, **options)))
            variation.append(np.mean([np.maximum(-np.expm1(r), 0).mean(axis=0) for r in ratios], axis=0))
            information.append(np.mean([1 - np.logaddexp(0, r).mean(axis=0) / np.log(2) for r in ratios], axis=0))
            last = ratios[0][:, self.window - 1 : self.window]
            assert np.max(np.abs(ratios[0][:, self.window :] - last)) < 1e-9  # (B14)
        return np.array(variation), np.array(information)

    def later(self, copies: int, beta: float) -> tuple[np.ndarray, np.ndarray]:
        """Lower bound from single words, and the share of pairs that differ with common random numbers."""
        here, pairs = self._pairs(copies, beta)
        keys = jax.random.split(jax.random.key(self.run_seed + 7), (self.histories, 2))
        alone = [self._by_one_word(here, pair, key[0]) for pair, key in zip(pairs, keys, strict=True)]
        options = dict(steps=int(MARKS[-1]), pairs=200)
        both = [damage(here, key=key[1], first=a, second=b, **options) for (a, b), key in zip(pairs, keys, strict=True)]
        return np.array(alone), np.array([np.mean(np.asarray(one) > 0, axis=0) for one in both])

    def _by_one_word(self, here, pair, key) -> np.ndarray:
        """A lower bound: the test is chosen on one half of the runs, counted on the other, and the reverse."""
        features, replicas = here.patterns.features, self.replicas
        rows = np.concatenate([np.asarray(getattr(here.patterns, name).words) for name in TABLES]).T
        groups, sizes = np.unique(rows, axis=0, return_counts=True)
        centres = (np.arange(GRID) + 0.5) / GRID
        kernels = [scipy.stats.binom.pmf(np.arange(size + 1), size, centres[:, None]) for size in sizes]
        laws = []
        for window, one in zip(pair, jax.random.split(key), strict=True):
            options = dict(steps=int(MARKS[-1]) - 1, replicas=replicas, window=window, keep="attention")
            run = np.asarray(dmft.simulate(here, key=one, **options).overlaps.attention)
            first = np.broadcast_to(np.asarray(window.attention[window.slot]), (replicas, 1, features))
            fields = np.concatenate([first, run], axis=1)[:, MARKS - 1] @ groups[:, -features:].T
            cells = np.minimum(((1 + np.tanh(float(here.beta) * fields)) / 2 * GRID).astype(int), GRID - 1)
            laws.append(
                [[self._law(half[:, place], kernels) for place in range(len(MARKS))] for half in np.split(cells, 2)]
            )
        (p1, p2), (q1, q2) = np.array(laws)
        return 0.5 * (np.sum((p2 - q2) * (p1 > q1), axis=1) + np.sum((p1 - q1) * (p2 > q2), axis=1))

    @staticmethod
    def _law(cells, kernels) -> np.ndarray:
        """Law of the numbers of positive bits in the segments, from the cells of their probabilities."""
        found = np.zeros((GRID,) * len(kernels))
        np.add.at(found, tuple(cells.T), 1 / len(cells))
        for kernel in kernels:  # every turn replaces the first axis and moves it to the end
            found = np.tensordot(found, kernel, axes=(0, 0))
        return found.ravel()


def flip_figure(told, later, window: int) -> None:
    """Total variation of all words, of single words, and shares of pairs that differ, by inverse temperature."""
    figure, axes = plotting.new_figure(1, len(later), figsize=(5.6, 3.2), sharey=True, squeeze=False)
    for panel, (beta, (alone, coupled)) in zip(axes[0], later.items(), strict=True):
        panel.axvspan(0, window, color="0.9", linewidth=0)
        level, error = plotting.mean_and_error(told[beta][0])
        steps = np.append(np.arange(1, 2 * window + 1), MARKS[-1])
        style = dict(color="black", linewidth=1.6, elinewidth=0.8, label="all words up to $t$")
        panel.errorbar(steps, np.append(level, level[-1]), np.append(error, error[-1]), **style)
        style = dict(fmt="o", color=MUTED["rose"], markersize=4, elinewidth=0.8, label="word $t$ alone")
        panel.errorbar(MARKS, *plotting.mean_and_error(alone), **style)
        shared = plotting.mean_and_error(coupled)[0]
        panel.plot(np.arange(1, MARKS[-1] + 1), shared, color="0.6", linewidth=1.2, label="common random numbers")
        panel.set(xlabel="steps $t$", title=rf"$\beta$ = {beta:g}", ylim=(-0.03, 1.0))
    axes[0, 0].set_ylabel("total variation")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, columnspacing=1.0)


def told_table(told, later, window: int):
    """Total variation after one window, of single words later, and of pairs with common random numbers."""
    rows = []
    for beta, (variation, information) in told.items():
        cells = [with_error(*plotting.mean_and_error(one[:, window - 1])) for one in (variation, information)]
        if beta in later:
            alone, coupled = later[beta]
            places = [list(MARKS).index(2 * window), list(MARKS).index(8 * window)]
            cells += [with_error(*plotting.mean_and_error(alone[:, place])) for place in places]
            cells.append(f"{coupled.mean(axis=0)[-1]:.2f}")
        rows.append([f"{beta:g}", *cells, *[""] * (5 - len(cells))])
    heads = ["all words", "bits of information", f"word {2 * window}", f"word {8 * window}", f"pairs at {MARKS[-1]}"]
    return table([r"$\beta$", *heads], rows)


def size_table(by_size, sites: int):
    """Total variation of the whole future against the number of bits."""
    rows = []
    for copies in sorted(next(iter(by_size.values()))):
        cells = [with_error(*plotting.mean_and_error(values[copies])) for values in by_size.values()]
        rows.append([spaced(copies * sites), *cells])
    return table(["$N$", *(rf"$\beta$ = {beta:g}" for beta in by_size)], rows)


def power(values) -> tuple[float, float]:
    """Power of N with which the mean over histories falls, and its standard error by leaving out one history."""
    sizes, each = np.log(list(values)), np.array(list(values.values()))  # (sizes, histories)
    slope = lambda part: float(np.polyfit(sizes, np.log(part.mean(axis=1)), 1)[0])  # noqa: E731
    count = each.shape[1]
    without = [slope(np.delete(each, one, axis=1)) for one in range(count)] if count > 1 else [np.nan]
    return slope(each), float(np.sqrt((count - 1) * np.var(without)))


def counted(found) -> str:
    """Numbers of runs in each regime, as in "23 are periodic, 63 chaotic"."""
    names, numbers = np.unique(found.regime, return_counts=True)
    said = [f"{number} {plotting.REGIMES[kind]}" for kind, number in zip(names, numbers, strict=True)]
    return ", ".join(said).replace(" ", " are ", 1)
