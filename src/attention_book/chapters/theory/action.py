"""The action: one path as a function of one number, scale and alignment, two paths, and how far to trust it."""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize
import scipy.stats
import xarray as xr

import statmech_attention as sma
from attention_book import experiments, plotting, results
from attention_book.measures import path_kernel, training_kernel
from attention_book.notebooks.comparisons import exact
from statmech_attention import sampling
from statmech_attention.plotting.style import MUTED

HEATS = {0.01: "#440154", 0.1: "#21918c", 0.4: "#a5b200"}
TASKS = {
    "chains": ("Markov chains", "o", "indigo"),
    "images": ("images", "s", "rose"),
    "sentences": ("sentences", "^", "green"),
}


class OnePath:
    """S(U) for one layer with one head, (A3) plus alpha times (A5), on the first path of some chains."""

    def __init__(self, attentioned, labels):
        self.inputs, self.labels = attentioned.values[:, :1], labels
        kernel = np.asarray(sma.kernel(self.inputs, self.inputs, jnp.eye(1), layers=(1,)))
        self.spectrum, vectors = np.linalg.eigh(kernel)
        self.squares = (np.asarray(labels) @ vectors) ** 2

    def action(self, u, width, temperature):
        """S at any u."""
        spectrum = np.multiply.outer(u, self.spectrum) + temperature
        energy = (np.log(spectrum) + self.squares / spectrum).sum(axis=-1)
        return 2 * np.sqrt(u) - np.log(u) + energy / width

    def minimum(self, width, temperature) -> float:
        """The u with the least action."""
        grid = np.geomspace(0.05, 100, 4000)
        return float(grid[self.action(grid, width, temperature).argmin()])

    def off_package(self) -> float:
        """The action at three saddle points of the solver."""
        pairs = []
        for width, heat in ((300, 0.01), (30, 0.1), (3, 0.4)):
            problem = sma.Problem(self.inputs, self.labels, width=width, temperature=heat, layers=(1,))
            found = sma.solve(problem)
            pairs.append((self.action(float(found.order_parameter[0, 0]), width, heat), found.action))
        return exact(*pairs)

    def slider(self, first: float = 100):
        """The action against U, and the place of its minimum, with a slider for the width."""
        dial, us = np.round(np.geomspace(10000, 3, 22), 0), np.geomspace(0.05, 100, 100)
        entropy = 2 * np.sqrt(us) - np.log(us)
        minima = {heat: np.array([self.minimum(width, heat) for width in dial]) for heat in HEATS}

        def draw(width):
            figure, (left, right) = plotting.new_figure(1, 2, figsize=(6.5, 3.3))
            left.plot(us, entropy - entropy.min(), "--", color="black", zorder=3, label="entropy alone")
            right.axvline(width, color="0.6", linestyle=":")
            for heat, colour in HEATS.items():
                S = self.action(us, width, heat)
                left.plot(us, S - S.min(), color=colour, label=f"$T = {heat:g}$")
                right.plot(dial, minima[heat], color=colour)
            left.set(xscale="log", ylim=(0, 6), xlabel="order parameter $U$", ylabel="action above minimum")
            left.set_title(f"$N = {width:g}$")
            right.set(xscale="log", yscale="log", xlabel="width $N$", ylabel="$U$ at the minimum")
            for panel in (left, right):
                panel.minorticks_off()
            figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=9)
            return figure

        what = "Left, the action of one path against its order parameter at three temperatures, and the entropy alone; "
        what += "right, the place of the minimum against the width."
        place = int(np.argmin(np.abs(dial - first)))
        return plotting.slider(draw, dial, label="width N", first=place, description=what)


def entropies() -> tuple[float, float]:
    """(A2), (A3): values, and slopes where the entropy is at rest."""
    heads, variance = (2, 3), (1.0, 0.5, 2.0, 3.0)
    gp = sma.theory.gp_order_parameters(heads, variance=variance)
    of_order = lambda order: sma.theory.entropy(order, layers=heads, variance=variance)  # noqa: E731
    values = [(of_order(gp), 6 + 3 + 1), (jnp.diag(gp[0]), np.full(6, 0.5 * 2.0 * 3.0))]
    slopes = [jnp.max(jnp.abs(slope)) for slope in jax.jit(jax.grad(of_order))(gp)]
    u = 7.0
    for layers in (1, 2, 5):
        numbers = [jnp.full((1, 1), u ** ((layers + 1 - l) / (layers + 1))) for l in range(layers)]  # noqa: E741
        order = (*numbers, jnp.asarray(u ** (1 / (layers + 1))))
        chain = lambda order, layers=layers: sma.theory.entropy(order, layers=(1,) * layers)  # noqa: E731
        values.append((chain(order), (layers + 1) * u ** (1 / (layers + 1)) - np.log(u)))
        slopes += [jnp.max(jnp.abs(slope)) for slope in jax.jit(jax.grad(chain))(order)[1:]]  # of the upper layers
    return exact(*values), float(max(slopes))


class Scaled(NamedTuple):
    """Energy of the Gaussian-process kernel times a factor."""

    labels: np.ndarray
    spectrum: np.ndarray
    squares: np.ndarray
    temperature: float

    @classmethod
    def of(cls, problem: sma.Problem) -> "Scaled":
        """Diagonalise the kernel of the limit."""
        limit = jnp.eye(problem.attentioned.values.shape[1])
        spectrum, vectors = np.linalg.eigh(np.asarray(sma.kernel(problem.attentioned, problem.attentioned, limit)))
        labels = np.asarray(problem.labels)
        return cls(labels, spectrum, (labels @ vectors) ** 2, float(problem.temperature))

    def energy(self, factor):
        """(A5)."""
        spectrum = np.multiply.outer(factor, self.spectrum) + self.temperature
        return np.mean(np.log(spectrum) + self.squares / spectrum, axis=-1)

    def best(self) -> tuple[float, float]:
        """The best factor and its energy."""
        found = scipy.optimize.minimize_scalar(
            lambda log: self.energy(np.exp(log)), bounds=(-5, 5), method="bounded", options={"xatol": 1e-10}
        )
        return float(np.exp(found.x)), float(found.fun)

    def counts(self) -> tuple[float, float]:
        """Effective examples, and what the labels have in them, at the best factor."""
        kernel = self.best()[0] * self.spectrum
        spectrum = kernel + self.temperature
        return float(np.sum(kernel / spectrum)), float(np.sum(self.squares * kernel / spectrum**2))


def off_density(problem: sma.Problem, seed: int = 0) -> float:
    """(A4) at a random U."""
    factor = jnp.asarray(np.random.default_rng(seed).normal(size=(4, 6)))
    U, P = factor @ factor.T / 6, len(problem.labels)
    covariance = np.asarray(sma.kernel(problem.attentioned, problem.attentioned, U))
    covariance = covariance + float(problem.temperature) * np.eye(P)
    density = scipy.stats.multivariate_normal(np.zeros(P), covariance).logpdf(np.asarray(problem.labels))
    return exact((sma.theory.energy(problem, U), -2 / P * density - np.log(2 * np.pi)))


def scale_and_alignment(scaled: Scaled, solution: sma.Solution) -> float:
    """Draw energies against the scale of the kernel; return the growth of the theory's trace."""
    growth = float(jnp.trace(training_kernel(solution)) / scaled.spectrum.sum())
    factors = np.geomspace(0.2, 60, 100)
    _, axes = plotting.new_figure(figsize=(5.2, 3.0))
    axes.plot(factors, scaled.energy(factors), color="0.3", label="GP kernel times a factor")
    axes.plot(1, scaled.energy(1.0), "s", color=plotting.COLOURS["gp"], label="GP limit")
    axes.plot(*scaled.best(), "o", color="0.3", label="best factor")
    axes.plot(growth, float(solution.energy), "o", color=plotting.COLOURS["theory"], label="theory, $N = 10$")
    axes.set(xscale="log", xlabel="trace of the kernel over that of the limit", ylabel="energy $E$")
    axes.legend(fontsize=9)
    return growth


def shares_of_scale(task, draws: int = 8, examples: int = 100, width: float = 10, temperature: float = 0.01):
    """Share of the energy gained that a change of scale brings at best, in percent, for draws of data and heads."""
    shares = []
    for draw in range(draws):
        trial = task.trial(jax.random.key(100 + draw), examples, 1)
        problem = sma.Problem(trial.train, trial.labels, width=width, temperature=temperature)
        scaled = Scaled.of(problem)
        limit = scaled.energy(1.0)
        shares.append(100 * (limit - scaled.best()[1]) / (limit - float(sma.solve(problem).energy)))
    return shares


def denoising_alone(task, draws: int = 8, examples: int = 100, temperature: float = 0.01) -> list[float]:
    """Test accuracy of the infinitely wide network of the denoising path, for draws of data and heads."""
    rights = []
    for draw in range(draws):
        trial = task.trial(jax.random.key(100 + draw), examples, 1000)
        train, test = (one.keep_heads(((1,), (0,))) for one in (trial.train, trial.test))
        problem = sma.Problem(train, trial.labels, temperature=temperature)
        rights.append(
            float(sma.accuracy(sma.kernel_regression(problem, jnp.eye(1)).predict(test).mean, trial.test_labels))
        )
    return rights


def balance(*solutions: sma.Solution) -> float:
    """(A6) at saddle points."""
    pairs = []
    for one in solutions:
        gram, labels = np.asarray(training_kernel(one)), np.asarray(one.problem.labels)
        resolvent = np.linalg.inv(gram + float(one.problem.temperature) * np.eye(len(gram)))
        dual = resolvent @ labels
        right = 1 + (dual @ gram @ dual - np.trace(resolvent @ gram)) / one.problem.width[-1]
        pairs.append((one.order_parameters[-1] / one.problem.variance[-1], right))
    return exact(*pairs)


class TwoPaths:
    """The action of one layer with two heads over entries of U."""

    def __init__(self, problem: sma.Problem):
        self.problem, seen = problem, problem.attentioned
        grams = [np.asarray(path_kernel(seen, seen, a, b)) / 2 for a, b in ((0, 0), (1, 1), (0, 1))]
        self.grams = np.array([grams[0], grams[1], grams[2] + grams[2].T])

    def action(self, u11, u22, u12, width):
        """S with U^(2) at its best value."""
        trace, determinant, labels = u11 + u22, u11 * u22 - u12**2, np.asarray(self.problem.labels)
        top = 0.5 * (np.sqrt(1 + 4 * trace) - 1)  # solves u^2 + (H - 1) u = tr U
        entropy = trace / top - np.log(determinant) + 2 * np.log(top) + top - np.log(top)
        gram = np.tensordot(np.stack([u11, u22, u12], axis=-1), self.grams, axes=1)
        gram = gram + float(self.problem.temperature) * np.eye(len(labels))
        misfit = np.linalg.solve(gram, labels[:, None])[..., 0] @ labels
        return entropy + (np.linalg.slogdet(gram)[1] + misfit) / width

    def over_u22(self, u11, u12, width, steps: int = 10):
        """S with U_22 at its best, too, by golden sections on its logarithm above the edge of the positive cone."""
        value = lambda log: self.action(u11, u12**2 / u11 + np.exp(log), u12, width)  # noqa: E731
        ratio = (np.sqrt(5) - 1) / 2
        low, high = np.full_like(u11, -3.0), np.full_like(u11, 4.0)
        first, second = high - ratio * (high - low), low + ratio * (high - low)
        at_first, at_second = value(first), value(second)
        for _ in range(steps):
            left = at_first < at_second  # where the minimum lies to the left of `second`
            low, high = np.where(left, low, first), np.where(left, second, high)
            new = np.where(left, high - ratio * (high - low), low + ratio * (high - low))
            at_new = value(new)
            first, second = np.where(left, new, second), np.where(left, first, new)
            at_first, at_second = np.where(left, at_new, at_second), np.where(left, at_first, at_new)
        return np.minimum(at_first, at_second)

    def solve(self, width) -> sma.Solution:
        """The saddle point at a width."""
        return sma.solve(self.problem.replace(width=width))

    def landscape(self, widths=(1000, 20, 3)) -> None:
        """Draw contours of the action at three widths, and the way of its minimum."""
        u11, u12 = np.meshgrid(np.geomspace(0.3, 40, 24), np.linspace(-10, 4, 24))
        trail = [self.solve(width).order_parameter for width in np.geomspace(2000, 2.5, 13)]
        path = np.array([[U[0, 0], U[0, 1]] for U in trail])
        figure, panels = plt.subplots(1, 3, figsize=(6.6, 3.0), sharey=True, layout="constrained")
        for panel, width in zip(panels, widths, strict=True):
            minimum = self.solve(width)
            above = self.over_u22(u11.ravel(), u12.ravel(), width).reshape(u11.shape) - float(minimum.action)
            levels = np.arange(0, 5.01, 0.25)
            shown = panel.contourf(u11, u12, np.minimum(above, 5), levels=levels, cmap="viridis_r")
            panel.plot(*path.T, color="white", linewidth=1.5)
            panel.plot(*path[0], "o", markerfacecolor="none", color="white")
            panel.plot(minimum.order_parameter[0, 0], minimum.order_parameter[0, 1], "o", color="black")
            panel.set(xscale="log", xlabel="$U_{11}$", title=f"$N = {width}$")
        panels[0].set_ylabel("$U_{12}$")
        figure.colorbar(shown, ax=panels, label="action above its minimum")


class Trust:
    """Recorded errors of the theory over numbers of paths, widths and sources of attention, and the criterion r."""

    def __init__(self, folder: Path):
        self.files = {name: folder / f"paths-{name}-seed0.nc" for name in TASKS}
        self.recorded = {name: results.load(file) for name, file in self.files.items()}
        cases = {name: one.stack(case=("paths", "width")).reset_index("case") for name, one in self.recorded.items()}
        self.cases = {
            name: one.isel(case=np.flatnonzero(np.isfinite(one.output_correction))) for name, one in cases.items()
        }
        every = xr.concat(list(self.cases.values()), "case")
        self.size, self.off, self.noise = (
            np.asarray(one) for one in (every.output_correction, every.output_off, every.output_off_error)
        )
        self.ratio, self.scaled = np.asarray(every.paths / every.width), np.asarray(every.width * every.output_off)
        self.known = self.noise < self.off / 4
        self.within = self.known & (self.size / 2 <= self.off) & (self.off <= 2 * self.size)
        self.small = self.size <= 0.1
        self.small_right = self.small & (self.off <= 0.2 + 2 * self.noise)

    def numbers(self) -> dict[str, int | float]:
        """Statements of the text on them."""
        counts = {name: int(getattr(self, name).sum()) for name in ("known", "within", "small", "small_right")}
        ranks = {
            name: float(scipy.stats.spearmanr(one, self.off).statistic)
            for name, one in (("rank_r", self.size), ("rank_paths", self.ratio))
        }
        ends = {"least": float(self.scaled[self.known].min()), "most": float(self.scaled[self.known].max())}
        return counts | ranks | ends | {"ratio": float(self.ratio.max())}

    def recomputed(self) -> float:
        """r of one case computed again, relative to the record."""
        file = self.files["chains"]
        experiment = experiments.ManyPaths(folder=file.parent, **results.record(file)["parameters"])
        posed, unseen = experiment.problem(experiment.seen(), 4, 10)
        found = sma.solve(posed)
        return float(criterion(found, unseen) / self.recorded["chains"].output_correction.sel(paths=4, width=10)) - 1

    def draw(self) -> None:
        """Errors against the criterion, and against the number of paths per neuron."""
        figure, panels = plotting.new_figure(1, 2, figsize=(6.5, 3.5), sharey=True)
        for name, (label, marker, colour) in TASKS.items():
            one, colour = self.cases[name], MUTED[colour]
            known = (one.output_off_error < one.output_off / 4).values
            shown = one.output_off.clip(min=1e-4)
            for panel, across in zip(panels, (one.output_correction, one.paths / one.width), strict=True):
                panel.errorbar(across, shown, one.output_off_error, fmt="none", color=colour, linewidth=0.7, alpha=0.6)
                for fill, among in ((colour, known), ("white", ~known)):
                    said = label if panel is panels[0] and fill == colour else None
                    look = {"color": colour, "markerfacecolor": fill, "markersize": 4.5, "label": said}
                    panel.plot(across[among], shown[among], marker, **look)
        ends = np.array([1e-3, 1.0])
        for factor, style in ((1, "-"), (2, ":"), (0.5, ":")):
            panels[0].plot(ends, factor * ends, style, color="0.6", linewidth=0.8, zorder=0)
        panels[0].set(xscale="log", yscale="log", ylim=(1e-3, 1), xlabel="criterion $r$")
        panels[0].set_ylabel("error of the mean output\nover posterior deviation")
        panels[1].set(xscale="log", xlabel="paths per neuron, $d_1 / N$")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=3)


def criterion(solution: sma.Solution, test):
    """Size r of the first correction to the mean output over the posterior deviation, root mean squares."""
    mean, spread = solution.predict(test)
    better = sampling.corrected(solution, test).prediction.mean
    return jnp.sqrt(jnp.mean((better - mean) ** 2) / jnp.mean(spread))
