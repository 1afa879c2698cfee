"""One good path among useless ones: accuracies by the number of heads, and two minima."""

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np
from IPython.display import Markdown
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

import statmech_attention as sma
from attention_book import plotting
from attention_book.chapters.theory.solvable import BATCH, COLOURS, LIMIT, NETWORK, outcomes, paths
from attention_book.notebooks.tables import table
from attention_book.solvable_model import SolvableModel
from statmech_attention import sampling
from statmech_attention.compiling import quick_jit
from statmech_attention.theory.trust_region import exact_step, minimise


@cache
def useless_heads(depth: int) -> Callable:
    """Solver for one good path among heads**depth, all others noise of their own: U is diagonal in few groups.

    Returns a function of load, heads, P / N_0, temperature, squared signal and start: accuracies of network
    and limit, U of the good path, the action, and all levels of U.
    """
    # Logarithms of U: readout, good and useless heads above, then groups of paths, each the sum of factors so far.
    above = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1]], float)
    if depth == 2:
        above = np.zeros((7, 7))
        above[:3, :3] = [[1, 0, 0], [1, 1, 0], [1, 0, 1]]
        above[3:5, :2] = above[5:, [0, 2]] = 1
        above[3:, 3:] = np.eye(4)
    leaves = 2 * depth
    levels = lambda point: jnp.exp(jnp.asarray(above) @ point)  # noqa: E731

    def counts(heads):
        one, more = jnp.ones_like(heads), heads - 1
        return jnp.stack([one, one, more] + [one, more, more, more**2] * (depth - 1))

    def inverse_trace(u, heads, gamma, heat, _):
        """1 / g of (I2), by Newton's method, and c g."""
        h, many = heads ** -float(depth), counts(heads)[-leaves:]

        def newton(_, x):
            part = u / (1 + gamma * h * u / x)
            slope = 1 - gamma * (h / x) ** 2 * jnp.sum(many * part**2)
            return x - (x - heat - h * jnp.sum(many * part)) / slope

        x = jax.lax.stop_gradient(jax.lax.fori_loop(0, 40, newton, heat + h * jnp.sum(many * u)))
        return newton(0, newton(0, x)), gamma * h

    def strength(u, *numbers):
        x, c = inverse_trace(u, *numbers)
        return x, numbers[-1] * c / x * u[0] / (1 + c / x * u[0])  # q of (I4)

    def misfit(u, *numbers):
        x, q = strength(u, *numbers)
        return 1 / x / (1 + q)

    def action(point, load, heads, gamma, heat, squared_signal):
        u, numbers = levels(point)[-leaves:], (heads, gamma, heat, squared_signal)
        x, c = inverse_trace(u, *numbers)
        volume = jnp.log(x) + heat / x - 1 + jnp.sum(counts(heads)[-leaves:] * jnp.log1p(c / x * u)) / gamma
        entropy = jnp.sum(counts(heads) * (jnp.exp(point) - point))
        return entropy + load * (volume + misfit(u, *numbers))

    def one_network(start, load, *numbers):
        def derivatives(point):
            of_point = lambda point: action(point, load, *numbers)  # noqa: E731
            return *jax.value_and_grad(of_point)(point), jax.hessian(of_point)(point)

        def right(u):
            (_, q), c = strength(u, *numbers), inverse_trace(u, *numbers)[1]
            fall = jax.jvp(lambda u: misfit(u, *numbers), (u,), (u**2,))[1]
            return jax.scipy.stats.norm.cdf(q / (1 + q) / jnp.sqrt(-c * fall))

        found = minimise(derivatives, exact_step, start, 1e-8, 300)
        u = levels(found.point)
        accuracies = right(u[-leaves:]), right(jnp.ones(leaves))
        return *accuracies, u[-leaves], found.value, u, found.outcome

    function = quick_jit(jax.vmap(one_network))  # runs for a tenth of a second

    def run(load, heads, gamma, heat, squared_signal=4.0, start=None):
        numbers = (load, heads, gamma, heat, squared_signal)
        numbers = np.broadcast_arrays(*(np.asarray(one, float) for one in numbers))
        flat = [np.append(one.ravel(), np.repeat(one.ravel()[:1], BATCH - one.size)) for one in numbers]
        begin = np.broadcast_to(np.zeros(len(above)) if start is None else start, (BATCH, len(above)))
        *found, ended = (np.asarray(one)[: numbers[0].size] for one in function(begin, *flat))
        assert np.all(ended == 0)
        return [one.reshape((*numbers[0].shape, *one.shape[1:])) for one in found]

    return run


class FewPaths:
    """Two minima with 36 paths: in closed form, and on data by the number of examples, for diagonal U and for all of U.

    `data` has U of the good path and the action at the ends of both starts, by P and draw.
    """

    heads, load, gamma, heat = 6, 1000.0, 0.25, 1.0
    condensed = np.array([0, 2.5, -0.5, 2.5, -0.5, -0.5, -0.5])

    def __init__(self, keys, draws: Mapping[int, int] = MappingProxyType({100: 40})):
        H, numbers = self.heads, (self.load, float(self.heads), self.gamma, self.heat, 1.0)
        self.closed = [useless_heads(2)(*numbers, start=one) for one in (None, self.condensed)]
        # Logarithms of U: the readout's, then of heads above, then of paths, added up; h_1 slowest.
        self.above = np.hstack([np.ones((H * H, 1)), np.tile(np.eye(H), (H, 1)), np.eye(H * H)])
        starts = [self._point(np.log(one[4])) for one in self.closed]
        self.data: dict[int, list] = {P: [] for P in draws}
        self.whole = None
        for P, count in draws.items():
            for _ in range(count):
                problem = self._sample(next(keys), P)
                ends = [self._diagonal(problem, start) for start in starts]
                self.data[P].append([(np.exp(self.above @ end.x)[0], end.fun) for end in ends])
                if self.whole is None and self.coexist(self.data[P][-1]):
                    self.whole = [self._solved(problem, end.x) for end in ends]

    @staticmethod
    def coexist(ends) -> bool:
        """Return whether both starts end in different minima."""
        (one, _), (other, _) = ends
        return bool(abs(np.log(one / other)) > 1e-2)

    def shares(self) -> dict[int, tuple[int, int]]:
        """Draws with two minima, and draws, by P."""
        return {P: (sum(map(self.coexist, rows)), len(rows)) for P, rows in self.data.items()}

    def _point(self, levels) -> np.ndarray:
        readout, good, useless, *path = levels
        paths = np.full((self.heads,) * 2, path[3] - useless)
        paths[1:, 0], paths[0, 1:], paths[0, 0] = path[1] - good, path[2] - useless, path[0] - good
        return np.array([readout, good - readout, *[useless - readout] * (self.heads - 1), *paths.ravel()])

    def _sample(self, key, examples: int) -> sma.Problem:
        layers = (self.heads,) * 2
        sizes = {"examples": examples, "features": round(examples / self.gamma), "width": examples / self.load}
        paths = np.eye(self.heads**2)
        return SolvableModel(paths, paths[0], layers=layers, temperature=self.heat, **sizes).sample(key, 1)[0]

    def _diagonal(self, problem: sma.Problem, start):
        """Minimum of the action over diagonal U."""
        values, y = np.asarray(problem.attentioned.values), np.asarray(problem.labels)
        count, paths, features = values.shape
        grams = np.array([one @ one.T for one in values.transpose(1, 0, 2)]).reshape(paths, -1) / (features * paths)

        def action(point):
            u = np.exp(self.above @ point)
            factor = cho_factor((u @ grams).reshape(count, count) + self.heat * np.eye(count))
            inverse, v = cho_solve(factor, np.eye(count)), cho_solve(factor, y)
            energy = (2 * np.sum(np.log(np.diag(factor[0]))) + y @ v) / count
            slope = u * (grams @ (inverse - np.outer(v, v)).ravel()) / count
            return np.sum(np.exp(point) - point) + self.load * energy, np.exp(
                point
            ) - 1 + self.load * slope @ self.above

        return minimize(action, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-6, "ftol": 1e-14})

    def _solved(self, problem: sma.Problem, point) -> tuple[float, float]:
        """U of the good path and the action at the solver's end from a diagonal U."""
        readout, heads = np.exp(point[0]), np.exp(point[0] + point[1 : 1 + self.heads])
        start = np.diag(np.exp(self.above @ point)), np.diag(heads), readout
        found = sma.solve(problem, start=tuple(map(jnp.asarray, start)))
        return float(found.order_parameter[0, 0]), float(found.action)


class Useless:
    """One good path among the heads of one layer, or of two: accuracies, data beside them, and two minima."""

    heads = np.array([2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64.0])
    loads, heats, titles = (1.0, 10.0, 100.0), np.geomspace(1e-3, 100, 15), {1: "one layer", 2: "two layers"}

    def __init__(self, keys):
        self.solve = {depth: useless_heads(depth) for depth in self.titles}
        places = np.array(self.loads)[:, None, None], self.heads[None, :, None]
        found = {depth: solve(*places, 1.0, self.heats) for depth, solve in self.solve.items()}
        self.network = {depth: one[0].max(axis=-1) for depth, one in found.items()}
        self.limit = {depth: one[1][0].max(axis=-1) for depth, one in found.items()}
        self.alone = float(self.solve[1](0.0, 1.0, 1.0, self.heats)[1].max())
        self.data, self.exact = {}, None
        for depth, H in ((1, 2), (1, 8), (2, 2), (2, 4)):
            heat = float(self.heats[found[depth][0][1, list(self.heads).index(H)].argmax()])
            numbers = {"examples": 100, "features": 100, "width": 10.0, "temperature": heat}
            paths = np.eye(H**depth)
            model, rows = SolvableModel(paths, 2.0 * paths[0], layers=(H,) * depth, **numbers), []
            for draw in range(6):
                problem, test, labels = model.sample(next(keys), 2000)
                rows.append(float(sma.accuracy(sma.solve(problem).predict(test).mean, labels)))
                if H == 8 and not draw:
                    chains = sma.Chains(draws=200, count=2, warmup=200, warn=False)
                    samples = sampling.posterior(problem, key=next(keys), test=test, chains=chains)
                    self.exact = float(sma.accuracy(sampling.prediction(samples).mean, labels)), rows[-1]
            self.data[depth, H] = plotting.mean_and_error(np.array(rows))

    def draw(self) -> None:
        """Draw accuracies against the number of heads."""
        _, panels = plotting.new_figure(1, 2, figsize=(6.5, 3.3), sharey=True)
        shades = ("#9ecae1", plotting.COLOURS["theory"], "#08306b")
        for (depth, title), panel in zip(self.titles.items(), panels, strict=True):
            panel.plot(self.heads, self.limit[depth], color=COLOURS[LIMIT], label="limit")
            for load, row, shade in zip(self.loads, self.network[depth], shades, strict=True):
                panel.plot(self.heads, row, color=shade, label=rf"$\alpha = {load:g}$")
            panel.axhline(self.alone, linestyle="--", color="0.5", zorder=0)
            panel.set(xscale="log", xlabel="heads per layer $H$", title=title)
            panel.set_xticks([2, 4, 8, 16, 32, 64], [2, 4, 8, 16, 32, 64])
            panel.minorticks_off()
        for (depth, H), one in self.data.items():
            panels[depth - 1].errorbar(H, *one, fmt="o", color=shades[1], capsize=2, markersize=5)
        panels[0].plot(8, self.exact[0], "x", color="black", markersize=7, zorder=5)
        panels[0].set_ylabel("test accuracy")
        panels[1].legend()

    def most(self, curve) -> float:
        """Heads at which the accuracy is 0.05 below that of the good path alone; infinite beyond those computed."""
        low = np.nonzero(curve < self.alone - 0.05)[0]
        if not len(low) or low[0] == 0:
            return np.inf if not len(low) else self.heads[0]
        ends = [low[0], low[0] - 1]
        return float(np.exp(np.interp(self.alone - 0.05, curve[ends], np.log(self.heads[ends]))))

    def table(self) -> Markdown:
        """These numbers of heads, of the limit and by load."""
        text = lambda x: "> 64" if np.isinf(x) else f"{x:.0f}"  # noqa: E731
        rows = [
            (title, *(text(self.most(curve)) for curve in (self.limit[depth], *self.network[depth])))
            for depth, title in self.titles.items()
        ]
        return table(["heads", "limit", *(f"load {load:g}" for load in self.loads)], rows)

    def coexistence(self, heat: float = 0.01) -> dict[str, float]:
        """Two layers at load 100: fewest heads with two minima, and their accuracies; none in one layer."""
        many = np.array([24.0, 32.0, 40.0, 48.0, 56.0, 64.0])
        condensed = np.array([0, 2.5, -0.5, 2.5, -0.5, -0.5, -0.5])
        low, high = self.solve[2](100.0, many, 1.0, heat), self.solve[2](100.0, many, 1.0, heat, start=condensed)
        coexist = np.abs(np.log(low[2] / high[2])) > 1e-3
        for load in (10.0, 100.0, 1000.0):
            one, other = (
                self.solve[1](load, many, 1.0, heat, start=start)[2] for start in (None, np.array([0, 4.0, -0.5]))
            )
            assert np.abs(np.log(one / other)).max() < 1e-6
        at = int(np.nonzero(coexist)[0][0])
        return {"heads": float(many[at]), "low": float(low[0][at]), "high": float(high[0][at])}

    def hold(self) -> None:
        """Assert that the groups of paths are the library's model, and what the text says of data."""
        pair = outcomes(*paths(0.0, 0.0, 2.0)).accuracy[NETWORK]
        assert abs(float(self.solve[1](10.0, 2.0, 1.0, 0.1)[0]) - pair) < 1e-6
        *_, value, levels = self.solve[2](10.0, 2.0, 1.0, 0.1)
        orders = [np.diag(levels[[3, 5, 4, 6]]), np.diag(levels[1:3]), levels[0]]
        numbers = {"examples": 400, "features": 400, "width": 40.0, "temperature": 0.1}
        full = SolvableModel(np.eye(4), 2.0 * np.eye(4)[0], layers=(2, 2), **numbers)
        action = float(sma.theory.entropy(orders, layers=(2, 2)) + 10 * full.energy(orders[0]))
        assert abs(action / value - 1) < 1e-8
        most = [self.most(curve) for curve in (self.limit[1], *self.network[1])]
        assert all(a < b for a, b in zip(most, most[1:], strict=False))
        for (depth, H), (mean, error) in self.data.items():
            assert abs(mean - self.network[depth][1, list(self.heads).index(H)]) < 0.01 + 3 * error
        assert abs(self.exact[0] - self.exact[1]) < 0.02
