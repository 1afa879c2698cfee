# mypy: ignore-errors
"""Networks of finite size beside the mean field: noise of one step, its growth, and what is left of statistics."""

from typing import NamedTuple

import jax
import matplotlib.pyplot as plt
import numpy as np

from attention_book import plotting
from attention_book.chapters.dmft.replicas import fluctuations
from attention_book.dynamics import attractors
from attention_book.notebooks.tables import spaced
from statmech_attention import dmft

OVERLAPS = ("query", "key", "value", "output")
TIMES = np.array([1, 5, 10, 20, 40])
BETAS = np.array([1.2, 1.255, 1.27, 1.28, 1.4])
REGIMES = dict(zip(("quiet", "torus", "periodic", "chaos", "strong"), range(len(BETAS)), strict=True))
COPIES = np.array([1, 10, 100, 1000, 10_000, 10**6])  # sizes of the comparison of statistics
CLOSE = 0.005  # Wasserstein distance below which the mean field describes a network


def in_errors(samples, expected) -> float:
    """Largest deviation of means over samples, in standard errors."""
    samples = np.asarray(samples, float)
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    difference = np.abs(samples.mean(axis=0) - np.asarray(expected))
    return float(np.max(difference / np.where(error > 0, error, 1)))  # without scatter there is no deviation either


class OneStep(NamedTuple):
    """Many replicas that draw one token each from the same window."""

    means: float  # (B7), largest deviation in standard errors
    covariances: float  # (G9)
    logits: float  # (G10)
    low: float  # standard deviation of a logit
    high: float


def one_step(model, seed: int, replicas: int = 20_000) -> OneStep:
    """Check (B7), (G9) and (G10) after 30 steps of the mean field."""
    patterns, epsilon = model.patterns, float(model.epsilon)
    tables = np.concatenate([np.asarray(getattr(patterns, name).words) for name in OVERLAPS])
    past = dmft.advance(model, dmft.initial_window(model), steps=30)
    options = dict(key=jax.random.key(seed), steps=1, replicas=replicas, window=past)
    one = dmft.simulate(model, **options).overlaps
    sampled = np.concatenate([np.asarray(getattr(one, name)[:, 0]) for name in OVERLAPS], axis=1)
    expected = dmft.step(model, past)[1]
    away = sampled - np.concatenate([getattr(expected, name) for name in OVERLAPS])
    fields = np.asarray(patterns.output.words).T @ np.asarray(past.attention[past.slot])
    gain = 1 - np.tanh(float(model.beta) * fields) ** 2
    predicted = (1 - epsilon) ** 2 / patterns.sites * (tables * gain) @ tables.T / patterns.sites
    sharpness, count = float(model.gamma) / np.sqrt(patterns.features), patterns.features
    older = (int(past.slot) - np.arange(patterns.window - 1)) % patterns.window  # of the tokens that stay
    keys = np.asarray(past.keys)[older]
    logits = sharpness * np.asarray(one.query[:, 0]) @ keys.T
    sigma = sharpness * np.sqrt(np.einsum("ta,ab,tb->t", keys, predicted[:count, :count], keys))
    squares = (logits - sharpness * np.asarray(expected.query) @ keys.T) ** 2
    covariances = in_errors(away[:, :, None] * away[:, None, :], predicted)
    return OneStep(
        in_errors(away, 0), covariances, in_errors(squares, sigma**2), float(sigma.min()), float(sigma.max())
    )


class Sizes:
    """Squared distances of networks from the mean field, (sizes, replicas, times), and (G12)."""

    def __init__(self, model, copies, replicas: int, seed: int):
        self.model, self.replicas = model, replicas
        self.sizes = np.array(sorted(copies), dtype=float) * model.patterns.sites
        self.squares, self.growth = {}, {}
        for name, strength in (("strong", float(model.gamma)), ("weak", float(model.gamma) / 100)):
            here = model.at(gamma=strength)
            begin, options = dmft.initial_window(here), dict(steps=int(TIMES[-1]), keep="output_words")
            target = np.asarray(dmft.trajectory(here, begin, **options).output_words)
            found = []
            for number, times in enumerate(sorted(copies)):
                key = jax.random.fold_in(jax.random.key(seed + 1), number)
                run = dmft.simulate(here, key=key, replicas=replicas, copies=times, **options).overlaps.output_words
                found.append(np.mean((np.asarray(run) - target) ** 2, axis=2)[:, TIMES - 1])
            self.squares[name] = np.array(found)
            linear = np.asarray(fluctuations(here, begin, steps=200))
            self.growth[name] = np.trace(linear, axis1=1, axis2=2) / model.patterns.features  # c_t

    def first_step(self) -> float:
        """The error at t = 1, times N, against c_1, in standard errors."""
        return in_errors(self.squares["strong"][:, :, 0].T * self.sizes, self.growth["strong"][0])

    def distance(self, name: str, place: int) -> tuple[float, float]:
        """Root mean square distance at the last time for one size, measured and by (G12)."""
        measured = np.sqrt(self.squares[name].mean(axis=1)[place, -1])
        return float(measured), float(np.sqrt(self.growth[name][TIMES[-1] - 1] / self.sizes[place]))

    def measured_below(self, needed: float, time: int) -> str:
        """Root mean square distance at the largest size that is not above a number of bits, with that size."""
        place = int(np.searchsorted(self.sizes, needed, side="right")) - 1
        if place < 0 or time not in TIMES:
            return ""
        measured = np.sqrt(self.squares["strong"][place, :, list(TIMES).index(time)].mean())
        return f"{measured:.3f} ({spaced(self.sizes[place])})"

    def figure(self, needed: float) -> None:
        """Distance against the number of bits."""
        figure, axes = plotting.new_figure(2, 1, figsize=(5.2, 6.2), sharex=True)
        shades = [plt.get_cmap("viridis")(level) for level in np.linspace(0, 0.9, len(TIMES))]
        for panel, (name, found) in zip(axes, self.squares.items(), strict=True):
            level, scatter = found.mean(axis=1), found.std(axis=1, ddof=1) / np.sqrt(self.replicas)
            for place, (t, shade) in enumerate(zip(TIMES, shades, strict=True)):
                root = np.sqrt(level[:, place])
                look = dict(fmt="o", color=shade, label=f"$t$ = {t}", capsize=2)
                panel.errorbar(self.sizes, root, scatter[:, place] / (2 * root), **look)
                panel.plot(self.sizes, np.sqrt(self.growth[name][t - 1] / self.sizes), "-", color=shade, linewidth=1)
            panel.set(
                xscale="log", yscale="log", ylabel="distance from mean field", ylim=(0.5 * np.sqrt(level.min()), 3)
            )
        axes[0].axvline(needed, linestyle=":", color="0.4")
        strength = float(self.model.gamma)
        axes[0].set_title(rf"$\gamma$ = {strength:g}")
        axes[1].set(title=rf"$\gamma$ = {strength / 100:g}", xlabel="sites $N$")
        axes[1].legend(ncols=2)


def _wasserstein(first, second) -> float:
    return float(np.mean(np.abs(np.sort(first.ravel()) - np.sort(second.ravel()))))


class Statistics:
    """The first output overlap in the long run, of the mean field and of networks."""

    def __init__(self, patterns, gamma: float, epsilon: float, seed: int, *, parallel=32, dropped=500, steps=2000):
        many = dmft.dynamics(patterns, beta=BETAS[:, None] * np.ones(parallel), gamma=gamma, epsilon=epsilon)
        wild = np.random.default_rng(seed).uniform(-0.5, 0.5, (*many.shape, patterns.window, patterns.features))
        begin = dmft.advance(many, dmft.window_from_attention(many, wild, slot=0), steps=200_000)
        regimes = attractors(many, begin, transient=0, steps=10_000).regime
        self.kinds = [plotting.REGIMES[np.bincount(row).argmax()] for row in regimes]
        options = dict(steps=dropped + steps, keep="output_words")
        self.exact = np.asarray(dmft.trajectory(many, begin, **options).output_words)[:, :, dropped:, 0]
        self.noisy, self.sites = np.empty((len(COPIES), *self.exact.shape)), patterns.sites
        for row, beta in enumerate(BETAS):
            model = dmft.dynamics(patterns, beta=beta, gamma=gamma, epsilon=epsilon)
            there = jax.tree.map(lambda part: part[row] if part.ndim else part, begin)  # noqa: B023
            for place, times in enumerate(COPIES):
                key = jax.random.fold_in(jax.random.key(seed + 2), 10 * row + place)
                run = dmft.simulate(model, key=key, replicas=parallel, copies=int(times), window=there, **options)
                self.noisy[place, row] = np.asarray(run.overlaps.output_words)[:, dropped:, 0]
        rows, places = range(len(BETAS)), range(len(COPIES))
        self.moved = np.array([[_wasserstein(self.noisy[p, row], self.exact[row]) for row in rows] for p in places])
        self.halves = np.array([_wasserstein(self.exact[row, ::2], self.exact[row, 1::2]) for row in rows])
        quiet = dmft.dynamics(patterns, beta=BETAS[0], gamma=gamma, epsilon=epsilon)
        settled = dmft.advance(quiet, dmft.initial_window(quiet), steps=5000)
        last = np.asarray(fluctuations(quiet, settled, steps=600))[-1]
        self.stationary = float(np.sqrt(np.trace(last) / patterns.features))  # times N^(-1/2)

    def spread(self, regime: str, place: int | None = None) -> float:
        """Standard deviation of the overlap at one size, or in the mean field."""
        values = self.exact if place is None else self.noisy[place]
        return float(values[REGIMES[regime]].std())

    def enough(self, *regimes: str) -> tuple[float, float]:
        """The number of bits from which on all distances in some regimes are below `CLOSE`, and the size before it."""
        far = np.any(self.moved[:, [REGIMES[name] for name in regimes]] >= CLOSE, axis=1)
        last = int(np.flatnonzero(far).max(initial=-1))
        sizes = [0.0, *(COPIES * self.sites), np.inf]
        return float(sizes[last + 2]), float(sizes[last + 1])

    def figure(self) -> None:
        """Distributions in chaos, and distances of distributions against the number of bits."""
        figure, axes = plotting.new_figure(2, 1, figsize=(5.2, 6.6))
        edges, row = np.linspace(-0.8, 0.8, 81), REGIMES["chaos"]

        def heights(values):
            return np.histogram(values, bins=edges, density=True)[0]

        for place, grey in zip((0, 1, 3), ("0.75", "0.5", "0.0"), strict=True):
            label = f"$N$ = {self.sites * COPIES[place]:,}".replace(",", "\u2009")
            axes[0].stairs(heights(self.noisy[place, row]), edges, color=grey, linewidth=1.2, label=label)
        look = dict(color=plotting.REGIME_COLOURS[self.kinds[row]], linewidth=1.4, linestyle=":", label="mean field")
        axes[0].stairs(heights(self.exact[row]), edges, **look)
        axes[0].set(xlabel="$m^o_1$", ylabel="density", title=rf"$\beta$ = {BETAS[row]:g}")
        axes[0].legend()
        for row, (value, kind, marker) in enumerate(zip(BETAS, self.kinds, "ovsD^", strict=True)):
            colour = plotting.REGIME_COLOURS[kind]
            look = dict(color=colour, markersize=4, linewidth=1, label=rf"$\beta$ = {value:g}, {kind}")
            axes[1].loglog(COPIES * self.sites, self.moved[:, row], f"{marker}-", **look)
            axes[1].axhline(self.halves[row], color=colour, linestyle=":", linewidth=0.8)
        axes[1].set(xlabel="sites $N$", ylabel="Wasserstein distance", ylim=(2e-7, 1))
        axes[1].legend(loc="lower left")

    def assert_as_written(self) -> None:
        moved = self.moved
        assert moved[0, 3:].max() < 0.06 and moved[4, 2] > 10 * CLOSE
        assert self.enough("chaos", "strong")[0] < self.enough("torus")[0] < self.enough("periodic")[0] < np.inf
        assert abs(self.spread("quiet", 4) * np.sqrt(self.sites * COPIES[4]) / self.stationary - 1) < 0.15
