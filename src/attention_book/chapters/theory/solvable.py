"""The solvable model: networks at their best temperatures, phases, a constant; and data beside it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from IPython.display import Markdown

import statmech_attention as sma
from attention_book import plotting
from attention_book.notebooks.tables import table
from attention_book.solvable_model import SolvableModel
from statmech_attention.compiling import quick_jit

BATCH, DIRECTIONS = 512, 4
HEATS = np.geomspace(0.003, 300, 32)
NETWORK, DIAGONAL, RESCALED, LIMIT = range(4)
NAMES = ("network", "diagonal of $U$", "limit, rescaled", "limit")
COLOURS = tuple(plotting.COLOURS[name] for name in ("theory", "good", "adversarial 1", "gp"))
PHASES = ("weighs", "switched off", "subtracts", "adds")


class Outcomes(NamedTuple):
    """Order parameters, and accuracies and squared errors of network, diagonal, rescaled limit and limit."""

    order_parameter: np.ndarray
    accuracy: np.ndarray
    squared_error: np.ndarray


@quick_jit()
@jax.vmap
def _network(noise, signal, offset, examples, features, width, temperature, start):
    numbers = {"examples": examples, "features": features, "width": width, "temperature": temperature}
    model = SolvableModel(noise, signal, offset=offset, **numbers)
    found = model.solve(start=(start, jnp.ones(())), tolerance=1e-8, throw=False)
    u = found.order_parameters[0]
    scale = jnp.trace(noise @ u) / jnp.trace(noise)
    seen = jax.vmap(model.predict)(jnp.stack([u, jnp.diag(jnp.diag(u)), scale * jnp.eye(2), jnp.eye(2)]))
    return u, seen.accuracy, seen.squared_error, found.minimum.outcome


def outcomes(noise, signal, offset=0.0, *, P=400.0, N_0=400.0, N=40.0, T=0.1, start=None) -> Outcomes:
    """Solve two paths for arrays of any common shape, the matrices in the last two axes; all must converge."""
    numbers = [np.asarray(value, float) for value in (P, N_0, N, T)]
    shape = np.broadcast_shapes(*(one.shape for one in numbers), np.shape(noise)[:-2], np.shape(signal)[:-2])
    offset = np.broadcast_to(offset, (DIRECTIONS, 2)) if np.ndim(offset) == 0 else offset
    matrices = [noise, signal, offset, np.eye(2) if start is None else start]
    flat = [np.broadcast_to(one, (*shape, *np.shape(one)[-2:])).reshape(-1, *np.shape(one)[-2:]) for one in matrices]
    flat = [*flat[:3], *(np.broadcast_to(one, shape).ravel() for one in numbers), flat[3]]
    count = len(flat[0])
    filled = [np.concatenate([one, np.repeat(one[:1], -count % BATCH, axis=0)]) for one in flat]
    parts = [_network(*(one[i : i + BATCH] for one in filled)) for i in range(0, count, BATCH)]
    u, right, error, ended = (np.concatenate(column)[:count] for column in zip(*parts, strict=True))
    assert np.all(ended == 0)
    return Outcomes(u.reshape(*shape, 2, 2), right.reshape(*shape, 4), error.reshape(*shape, 4))


def paths(correlation, second=0.0, first=1.5):
    """Noise of two paths with variance 1, and their signals in one direction."""
    arrays = (np.asarray(one, float) for one in (correlation, second, first))
    correlation, second, first = np.broadcast_arrays(*arrays)
    signal = np.zeros((*correlation.shape, DIRECTIONS, 2))
    signal[..., 0, 0], signal[..., 0, 1] = first, second
    return np.eye(2) + correlation[..., None, None] * (1 - np.eye(2)), signal


def best(noise, signal, offset=0.0, **numbers):
    """At every network's own best temperature: accuracies, U, temperatures."""
    offset = offset if np.ndim(offset) == 0 else offset[..., None, :, :]
    numbers = {name: np.asarray(value, float)[..., None] for name, value in numbers.items()}
    found = outcomes(noise[..., None, :, :], signal[..., None, :, :], offset, T=HEATS, **numbers)
    place = found.accuracy.argmax(axis=-2)
    own = np.take_along_axis(found.order_parameter, place[..., :1, None, None], axis=-3)[..., 0, :, :]
    return found.accuracy.max(axis=-2), own, HEATS[place]


def by_correlation(rho, accuracy, u) -> None:
    """Draw accuracies and entries of U against the correlation of the noise."""
    _, (left, right) = plotting.new_figure(1, 2, figsize=(6.5, 3.1))
    for column in (NETWORK, DIAGONAL, LIMIT):
        left.plot(rho, accuracy[:, column], color=COLOURS[column], label=NAMES[column])
    left.set(xlabel=r"noise correlation $\rho$", ylabel="test accuracy")
    left.legend()
    for (a, b), style in (((0, 0), "-"), ((1, 1), "--"), ((0, 1), ":")):
        right.plot(rho, u[:, a, b], style, color="0.2", label=f"$U_{{{a + 1}{b + 1}}}$")
    right.set(xlabel=r"noise correlation $\rho$", ylabel="order parameter")
    right.legend()


def limit_off_scale() -> float:
    """The limit's kernel times a constant, at a temperature times the constant: the accuracy should not change."""
    noise, signal = paths(0.5)
    scaled = SolvableModel(noise, np.array([1.5, 0]), examples=400, features=400, temperature=0.6)
    limit = outcomes(noise, signal, T=0.3, N=np.inf).accuracy[LIMIT]
    return abs(float(scaled.predict(2 * jnp.eye(2)).accuracy) - limit)


def measured(model: SolvableModel, overlap, keys, draws: int = 6, tests: int = 1500):
    """Volume, misfit, m, b, var z, accuracy and (30), by linear algebra on data: means and standard errors."""
    rows = []
    for _ in range(draws):
        problem, test, right = model.sample(next(keys), tests)
        seen, new, y, labels = map(np.asarray, (problem.attentioned.values, test.values, problem.labels, right))
        scale = 2 * seen.shape[2]
        weighted = lambda a: np.einsum("iaf,ab->ibf", a, overlap)  # noqa: E731
        kernel = lambda a, b: weighted(a).reshape(len(a), -1) @ b.reshape(len(b), -1).T / scale  # noqa: B023, E731
        gram, across = kernel(seen, seen) + model.temperature * np.eye(len(y)), kernel(new, seen)
        output, dual = across @ np.linalg.solve(gram, y), np.linalg.solve(gram, across.T)
        up, down = output[labels > 0], output[labels < 0]
        own = np.sum(weighted(new) * new, axis=(1, 2)) / scale
        rows.append(
            [
                np.linalg.slogdet(gram)[1] / len(y),
                y @ np.linalg.solve(gram, y) / len(y),
                (up.mean() - down.mean()) / 2,
                (up.mean() + down.mean()) / 2,
                (up.var() + down.var()) / 2,
                np.mean(labels * output > 0),
                np.mean(own - np.sum(across * dual.T, axis=1)),
            ]
        )
    return np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / draws**0.5


def formulas_and_data(keys) -> Markdown:
    """(I3) to (I8) beside data, at a U that is no saddle point, as a table."""
    noise, signal, offset = np.array([[[1, 0.6], [0.6, 0.8]], [[1.8, 0], [0, 0]], [[1.5, 0.2], [0, 2]]])
    model = SolvableModel(noise, signal, offset=offset, examples=600, features=400, temperature=0.1)
    overlap = np.array([[1.3, -0.5], [-0.5, 0.9]])
    seen, energy = model.predict(overlap), float(model.energy(overlap))
    misfit = (1 - float(seen.slope)) / (float(seen.variance) + model.temperature)
    theory = np.array(
        [energy - misfit, misfit, seen.slope, seen.offset, seen.spread, seen.accuracy, seen.variance], float
    )
    values, errors = measured(model, overlap, keys)
    assert np.all(np.abs(values - theory) < 4 * errors + np.array([5, 3, 3, 3, 3, 3, 5]) / 600)
    names = ("volume", "misfit", "$m$", "$b$", "var $z$", "accuracy", "(30)")
    rows = [
        (name, f"{formula:.4f}", f"{value:.4f} ± {error:.4f}")
        for name, formula, value, error in zip(names, theory, values, errors, strict=True)
    ]
    return table(["", "formula", "data"], rows)


def saddle_points_on_data(model: SolvableModel, U, keys, sizes=((100, 12), (400, 6))) -> dict[int, tuple]:
    """Distances in percent, by P: of the mean U of the draws from `U`, its standard error, of one draw."""
    found, size = {}, np.linalg.norm(U)
    for P, draws in sizes:
        sized = model.replace(examples=P, features=P * 3 // 4, width=P / 20)
        solved = np.array([sma.solve(sized.sample(next(keys), 1)[0]).order_parameter for _ in range(draws)])
        away = np.linalg.norm(solved.mean(axis=0) - U)
        error = np.linalg.norm(solved.std(axis=0, ddof=1)) / draws**0.5
        single = np.mean([np.linalg.norm(one - U) for one in solved])
        found[P] = tuple(100 * one / size for one in (away, error, single))
    return found


class Curves:
    """Learning curves at rho = 0.8 with a signal on the first path, and data beside them."""

    examples = np.geomspace(20, 2000, 41)
    styles = {np.inf: "gp", 40.0: "theory", 5.0: "denoising"}

    def __init__(self, keys, looked=(60, 160, 400)):
        noise, signal = paths(np.full(41, 0.8))
        sizes = {"P": self.examples, "N_0": 100.0}
        self.error = {N: outcomes(noise, signal, N=N, T=1e-3, **sizes).squared_error[:, NETWORK] for N in self.styles}
        self.hot = outcomes(noise, signal, N=5.0, T=0.1, **sizes).squared_error[:, NETWORK].max()
        self.dots = {}  # of data, and by the formula
        for N in self.styles:
            for P in looked:
                numbers = {"examples": P, "features": 100, "width": N, "temperature": 1e-3}
                sized = SolvableModel(noise[0], [1.5, 0.0], **numbers)
                overlap = outcomes(noise[0], signal[0], P=P, N_0=100.0, N=N, T=1e-3).order_parameter
                (_, _, m, b, spread, *_), _ = measured(sized, overlap, keys, draws=4, tests=400)
                self.dots[N, P] = (1 - m) ** 2 + b**2 + spread, float(sized.predict(overlap).squared_error)
        self.by_heat = outcomes(*paths(np.full(len(HEATS), 0.8)), T=HEATS).accuracy

    def draw(self) -> None:
        """Draw squared error against examples, and accuracy against temperature."""
        _, (left, right) = plotting.new_figure(1, 2, figsize=(6.5, 3.3))
        for N, colour in self.styles.items():
            look = {"color": plotting.COLOURS[colour]}
            left.plot(self.examples, self.error[N], label="limit" if np.isinf(N) else f"$N = {N:g}$", **look)
            shown = [(P, value) for (width, P), (value, _) in self.dots.items() if width == N]
            left.plot(*zip(*shown, strict=True), "o", markersize=4, **look)
        left.axvline(200, linestyle=":", color="0.5")
        left.set(xscale="log", yscale="log", xlabel="examples $P$", ylabel="squared error")
        left.set_yticks([0.2, 0.5, 1, 2, 4], ["0.2", "0.5", "1", "2", "4"])
        left.minorticks_off()
        left.legend()
        for column, name in enumerate(NAMES):
            right.plot(HEATS, self.by_heat[:, column], color=COLOURS[column], label=name)
        right.set(xscale="log", xlabel="temperature $T$", ylabel="test accuracy")
        right.legend()


def phase(u):
    """The phase of order parameters of two paths."""
    r, off = u[..., 0, 1] / np.sqrt(u[..., 0, 0] * u[..., 1, 1]), u[..., 1, 1] < 0.25 * u[..., 0, 0]
    return np.select([r < -0.5, r > 0.5, off], ["subtracts", "adds", "switched off"], "weighs")


class Plane:
    """Two paths over noise correlation and signal ratio at three loads, the network at its best temperature."""

    rhos, ratios, loads = np.linspace(0, 0.96, 25), np.linspace(0, 1, 11), (1.0, 10.0, 100.0)

    def __init__(self):
        places = np.meshgrid(self.rhos, 1.5 * self.ratios)
        self.maps = {load: best(*paths(*places), N=np.full(places[0].shape, 400 / load)) for load in self.loads}
        self.gains = {load: one[0][..., NETWORK] - one[0][..., LIMIT] for load, one in self.maps.items()}
        self.shares = {
            load: {name: float(np.mean(phase(one[1]) == name)) for name in PHASES} for load, one in self.maps.items()
        }

    def table(self) -> Markdown:
        """Shares of the plane in percent, by load."""
        rows = [
            (f"{load:g}", *(f"{100 * shares[name]:.0f} %" for name in PHASES), f"{self.gains[load].max():.3f}")
            for load, shares in self.shares.items()
        ]
        return table(["load", *PHASES, "largest gain"], rows)

    def draw(self) -> None:
        """Draw the correlation of the weights, and the gain over the limit."""
        figure, rows = plotting.new_figure(2, 3, figsize=(6.6, 4.8), sharex=True, sharey=True)
        for load, (top, bottom) in zip(self.loads, rows.T, strict=True):
            u = self.maps[load][1]
            r, share = u[..., 0, 1] / np.sqrt(u[..., 0, 0] * u[..., 1, 1]), u[..., 1, 1] / u[..., 0, 0]
            place = self.rhos, self.ratios
            coloured = top.pcolormesh(*place, r, cmap="RdBu_r", vmin=-1, vmax=1, rasterized=True)
            levels = {"colors": "black", "linestyles": ["-", "--", "-"], "linewidths": 1}
            top.contour(*place, r, [-0.5, 0, 0.5], **levels)
            if share.min() < 0.25:
                top.contour(*place, share, [0.25], colors="black", linestyles=":", linewidths=1.4)
            top.set(title=rf"$\alpha = {load:g}$")
            gained = bottom.pcolormesh(*place, self.gains[load], cmap="Greys", vmin=0, vmax=0.16, rasterized=True)
        figure.colorbar(coloured, ax=rows[0], label="$r$")
        figure.colorbar(gained, ax=rows[1], label="gain in accuracy")
        figure.supxlabel(r"noise correlation $\rho$", fontsize=11)
        figure.supylabel("signal ratio $s_2 / s_1$", fontsize=11)

    def hold(self) -> None:
        """Assert what the text says of the plane."""
        shares, maps = self.shares, self.maps
        assert shares[1.0]["subtracts"] < shares[10.0]["subtracts"] < shares[100.0]["subtracts"]
        assert shares[100.0]["adds"] > 0 == shares[1.0]["adds"] and phase(maps[100.0][1][-1, 0]) == "adds"
        at = int(np.argmin(np.abs(self.rhos - 0.4)))  # U_12 changes its sign near s_2 / s_1 = rho
        assert all(maps[load][1][2, at, 0, 1] < 0 < maps[load][1][6, at, 0, 1] for load in (10.0, 100.0))
        assert all(np.abs(gain[-1]).max() < 0.015 and gain.min() > -1e-3 for gain in self.gains.values())

    def on_data(self, keys) -> None:
        """Assert phases and one minimum of the solver on data, from four starts, at five places of the plane."""
        starts = [np.eye(2), np.diag([9.0, 0.1]), np.array([[2, 1.9], [1.9, 2]]), np.array([[2, -1.9], [-1.9, 2]])]
        for load, rho, ratio in ((10, 0.0, 0.3), (100, 0.0, 0.0), (100, 0.8, 0.0), (100, 0.0, 1.0), (100, 0.88, 0.3)):
            place = np.argmin(np.abs(self.ratios - ratio)), np.argmin(np.abs(self.rhos - rho))
            numbers: dict[str, Any] = {"width": 200 / load, "temperature": float(self.maps[load][2][(*place, 0)])}
            model = SolvableModel(paths(rho)[0], np.array([1.5, 1.5 * ratio]), examples=200, features=200, **numbers)
            problem, *_ = model.sample(next(keys), 1)
            solved = [sma.solve(problem, start=(jnp.asarray(u), jnp.ones(()))).order_parameter for u in starts]
            assert np.max(np.ptp(np.array(solved), axis=0)) < 1e-4
            assert phase(np.asarray(solved[0])) == phase(np.asarray(model.solve().order_parameters[0]))


def several_minima(models: int = 512, starts: int = 8, seed: int = 1) -> int:
    """In how many random models of two paths random starts end in different minima."""
    random = np.random.default_rng(seed)
    spread = np.exp(random.normal(size=models) * 0.7)
    mixed = random.uniform(-0.98, 0.98, models) * spread
    noise = np.stack([np.stack([np.ones(models), mixed], -1), np.stack([mixed, spread**2], -1)], -2)
    signal = np.zeros((models, DIRECTIONS, 2))
    signal[:, :2] = random.normal(size=(models, 2, 2)) * np.exp(random.normal(size=(models, 1, 1)))
    sizes = {"N_0": (20, 4000), "N": (1.3, 1300), "T": (0.01, 3)}
    numbers = {name: np.exp(random.uniform(np.log(ends[0]), np.log(ends[1]), models)) for name, ends in sizes.items()}
    found = []
    for _ in range(starts):
        triangle = np.tril(random.normal(size=(2, 2))) * 1.5
        np.fill_diagonal(triangle, np.exp(np.diag(triangle)))
        found.append(outcomes(noise, signal, **numbers, start=triangle @ triangle.T).order_parameter)
    apart = np.max(np.ptp(np.array(found), axis=0), axis=(1, 2)) / np.max(np.abs(found[0]), axis=(1, 2))
    return int(np.sum(apart > 1e-4))


class Constant:
    """The second path against its constant alone: chains with two kinds of second head, and their model."""

    heads, widths, grid = ("random", "uniform"), (10.0, np.inf), np.linspace(0, 0.95, 20)

    def __init__(self, keys, draws: int = 5):
        temperatures = np.geomspace(0.01, 3, 6)
        task = sma.tasks.HiddenMarkov(perpendicular_noise=5.0)
        differences: dict[str, list] = {head: [] for head in self.heads}
        models: dict[str, list] = {head: [] for head in self.heads}
        for _ in range(draws):
            data_key, head_key = jax.random.split(next(keys))
            first = jnp.stack([task.step_head(0), task.random_head(head_key), task.uniform_head()])
            trial = task.trial(data_key, 100, 1000, products=(first, task.uniform_head()[None]))
            for place, head in enumerate(self.heads, start=1):
                train, test = (np.asarray(one.values)[:, [0, place]] for one in (trial.train, trial.test))
                constant = [np.stack([one[:, 0], np.broadcast_to(train[:, 1].mean(axis=0), one[:, 1].shape)], 1)
                            for one in (train, test)]  # fmt: skip
                rights = []
                for a, b in ((train, test), constant):
                    problem = sma.Problem(a, trial.labels, width=10, temperature=0.1, layers=(2,))
                    sweep = sma.solve_sweep(problem, widths=[10, np.inf], temperatures=temperatures)
                    means = np.asarray(sweep.predict(sma.AttentionedInputs(jnp.asarray(b), (2,))).mean)
                    rights.append(np.mean(means * np.asarray(trial.test_labels) > 0, axis=-1).max(axis=1))
                    if a is train:
                        models[head].append(SolvableModel.of(problem))
                differences[head].append(rights[0] - rights[1])
        self.rho = {head: np.array([self.correlation(one) for one in models[head]]) for head in self.heads}
        self.lines, self.measured, self.predicted, self.crossing = {}, {}, {}, {}
        for head in self.heads:
            for column, N in enumerate(self.widths):
                line = self.lines[head, N] = self.difference(models[head][:1] * len(self.grid), self.grid, N)
                self.measured[head, N] = plotting.mean_and_error(np.array(differences[head])[:, column])
                self.predicted[head, N] = float(self.difference(models[head], self.rho[head], N).mean())
                up = np.nonzero((line[:-1] < 0) & (line[1:] >= 0))[0]
                ends = slice(up[-1], up[-1] + 2) if len(up) else slice(0, 0)
                self.crossing[head, N] = float(np.interp(0, line[ends], self.grid[ends])) if len(up) else np.nan

    @staticmethod
    def correlation(model: SolvableModel) -> float:
        """rho of the noise."""
        return float(model.noise[0, 1] / jnp.sqrt(model.noise[0, 0] * model.noise[1, 1]))

    @staticmethod
    def difference(models, rho, N) -> np.ndarray:
        """Accuracy with the second path minus that with its constant, each at its best temperature, at other rho."""
        noise, signal, offset, P, N_0 = (
            np.array([getattr(one, name) for one in models], float)
            for name in ("noise", "signal", "offset", "examples", "features")
        )
        real, alone = noise.copy(), np.zeros_like(noise)
        real[:, 0, 1] = real[:, 1, 0] = rho * np.sqrt(noise[:, 0, 0] * noise[:, 1, 1])
        alone[:, 0, 0] = noise[:, 0, 0]
        ends = (real, signal), (alone, signal * np.array([1.0, 0.0]))
        with_path, constant = (
            best(noise, signal, offset, P=P, N_0=N_0, N=np.full(len(P), N))[0][:, NETWORK] for noise, signal in ends
        )
        return with_path - constant

    def draw(self) -> None:
        """Draw both differences against the correlation."""
        _, axes = plotting.new_figure(figsize=(5.2, 3.5))
        axes.axhline(0, color="0.6", linewidth=0.8)
        for head, style, marker in zip(self.heads, ("-", "--"), ("o", "s"), strict=True):
            for N, colour in zip(self.widths, (COLOURS[NETWORK], COLOURS[LIMIT]), strict=True):
                axes.plot(self.grid, self.lines[head, N], style, color=colour)
                look = {"fmt": marker, "color": colour, "capsize": 2}
                axes.errorbar(self.rho[head].mean(), *self.measured[head, N], **look)
        axes.set(xlabel=r"correlation $\rho$ of the noise of both paths", ylabel="second path minus constant")

    def numbers(self) -> dict[str, float]:
        """Statements of the text on them."""
        found = {f"rho-{head}": float(self.rho[head].mean()) for head in self.heads}
        for head in self.heads:
            found[f"crossing-{head}"] = self.crossing[head, 10.0]
            found[f"predicted-{head}"] = self.predicted[head, 10.0]
            found[f"measured-{head}"], found[f"error-{head}"] = map(float, self.measured[head, 10.0])
        return found

    def hold(self) -> None:
        """Assert what the text says of them."""
        rho, crossing, seen = self.rho, self.crossing, self.measured
        assert rho["random"].mean() < crossing["random", 10.0]
        assert crossing["uniform", 10.0] < rho["uniform"].mean()
        assert self.predicted["random", 10.0] < 0 < self.predicted["uniform", 10.0]
        assert seen["uniform", 10.0][0] > 3 * seen["uniform", 10.0][1]
        assert seen["random", 10.0][0] < 2 * seen["random", 10.0][1]
        for head in self.heads:
            assert seen[head, np.inf][0] < -3 * seen[head, np.inf][1] and self.predicted[head, np.inf] < 0


def gains_by_ratio(correlations=(0.0, 0.6), ratios=(0.25, 1.0, 4.0), loads=(1.0, 10.0, 100.0)) -> dict:
    """Gains over the limit at these loads, by correlation and P / N_0."""
    found = {}
    for rho in correlations:
        for gamma in ratios:
            sizes = {"N_0": np.full(len(loads), 400 / gamma), "N": 400 / np.array(loads)}
            right, *_ = best(*paths(np.full(len(loads), rho)), **sizes)
            found[rho, gamma] = right[:, NETWORK] - right[:, LIMIT]
    return found
