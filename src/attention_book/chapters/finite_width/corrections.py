"""How far to trust the theory: its distance from the exact posterior, and the coverage of its error bars."""

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

import statmech_attention as sma
from attention_book import plotting
from attention_book.experiments.calibration import WRONG_VARIANCE
from attention_book.notebooks.tables import signed, table, with_error
from statmech_attention import sampling
from statmech_attention.plotting.style import DARK, MUTED

KINDS = {"U": "order parameter", "f": "mean output"}


def _distance(one, other) -> dict[str, float]:
    """Differences: of order parameters relative to the second, of mean outputs root mean square."""
    return {
        "U": float(np.linalg.norm(one[0] - other[0]) / np.linalg.norm(other[0])),
        "f": float(np.linalg.norm(one[1] - other[1]) / math.sqrt(other[1].size)),
    }


def _theory(problem, test):
    """U and mean output at the saddle point, and corrected."""
    solution = sma.solve(problem)
    better = sampling.corrected(solution, test)
    saddle = np.asarray(solution.order_parameter), np.asarray(solution.predict(test).mean)
    return saddle, (np.asarray(better.order_parameters[0]), np.asarray(better.prediction.mean))


def size_of_correction(problem, test) -> dict[str, float]:
    """Size of the first correction, which needs no sampling."""
    return _distance(*reversed(_theory(problem, test)))


def compare(problem, test, *, seed: int, sampled: int, draws: int, points: int) -> dict[str, float]:
    """Distances of saddle point and corrected values from the exact ones, with Monte Carlo errors."""
    width = int(problem.width[0])
    key = jax.random.key(seed + width)
    if width <= sampled:
        found = sampling.posterior(problem, key=key, test=test, chains=sma.Chains(draws=draws, warn=False))
        u, f = sampling.estimate(found.order_parameter), sampling.estimate(found.output)
        effective = min(float(found[f"{name}_effective_size"].min()) for name in ("order_parameter", "output"))
    else:
        points_found = sampling.importance(problem, key=key, points=points, test=test, warn=False)
        assert points_found.output is not None  # there are test inputs
        u, f, effective = points_found.order_parameter, points_found.output, float(points_found.effective_size)
    exact, (saddle, corrected) = (np.asarray(u.mean), np.asarray(f.mean)), _theory(problem, test)
    row = {"effective": effective, "U error": float(np.linalg.norm(u.error) / np.linalg.norm(exact[0]))}
    row["f error"] = float(np.sqrt(np.mean(np.asarray(f.error) ** 2)))
    for name, one, other in (("saddle", saddle, exact), ("corrected", corrected, exact), ("size", corrected, saddle)):
        row |= {f"{kind} {name}": value for kind, value in _distance(one, other).items()}
    return row


def fewer_labels(trial, count: int):
    """Keep the first examples: zeros with labels zero leave the posterior as it is, and nothing is compiled anew."""
    known = jnp.arange(len(trial.labels)) < count
    values = jnp.where(known[:, None, None], trial.train.values, 0.0)
    train = sma.AttentionedInputs(values, trial.train.layers)
    return trial._replace(train=train, labels=jnp.where(known, trial.labels, 0.0))


def distance_figure(rows: Mapping[int, Mapping], sizes: Mapping[int, Mapping]) -> None:
    """Distances against width, and the size of the correction."""
    figure, panels = plotting.new_figure(1, 2, figsize=(6.4, 3.4))
    for panel, (kind, title) in zip(panels, KINDS.items(), strict=True):
        shown = {name: [row[f"{kind} {name}"] for row in rows.values()] for name in ("saddle", "corrected")}
        errors = {name: [row[f"{kind} error"] for row in rows.values()] for name in shown}
        plotting.distance_against_width(np.array(list(rows)), shown, errors=errors, axes=panel)
        panel.plot(list(sizes), [size[kind] for size in sizes.values()], "--", color="0.5", label="size of correction")
        panel.set(title=title, ylabel="distance" if kind == "U" else "")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=3, columnspacing=1.0)


def exponents(values, at) -> np.ndarray:
    """Slopes between neighbours on logarithmic axes."""
    return np.diff(np.log(values)) / np.diff(np.log(at))


class Copies:
    """One layer of two heads with as many copies of eight examples as keep the load: four coordinates."""

    SHOWN = {"order parameter": slice(0, 4), "mean output": slice(4, 8), "variance": slice(8, 12)}

    def __init__(self, seed: int, *, base: int, examples: int = 8, temperature: float = 0.3):
        inputs = jax.random.normal(jax.random.key(seed), (examples + 4, 2, 3))
        self.train, self.test = (sma.AttentionedInputs(part, (2,)) for part in (inputs[:examples], inputs[examples:]))
        labels = jnp.array([1.0, -1.0] * (examples // 2))
        self.problem = sma.Problem(self.train, labels, width=base, temperature=temperature)
        self.slope = jax.jit(jax.grad(self._minus_log_density))
        self.curvature = jax.jit(jax.hessian(self._minus_log_density))
        seen = jax.vmap(lambda x, width: (self._minus_log_density(x, width), self._observed(x)), (0, None))
        self.at_points = jax.jit(seen)

    @staticmethod
    def _overlaps(x):
        """U at ln F_11, ln F_22, F_21 of the layer and ln F of the readout."""
        factor = jnp.array([[jnp.exp(x[0]), 0.0], [x[2], jnp.exp(x[1])]])
        return jnp.exp(2 * x[3]) * factor @ factor.T

    def _minus_log_density(self, x, width):
        """(C1), with width / base copies."""
        entropy = jnp.exp(2 * x[jnp.array([0, 1, 3])]).sum() + x[2] ** 2 - 2 * (x[0] + x[1] + x[3])
        load = self.problem.labels.size / self.problem.width[0]
        return width / 2 * (entropy + load * sma.theory.energy(self.problem, self._overlaps(x))) + x[1]

    def _observed(self, x):
        """U, the mean output (9), and the second moment that (30) gives."""
        u = self._overlaps(x)
        gram = sma.kernel(self.train, self.train, u) + self.problem.temperature * jnp.eye(self.problem.labels.size)
        cross = sma.kernel(self.test, self.train, u)
        mean = cross @ jnp.linalg.solve(gram, self.problem.labels)
        variance = jnp.diagonal(sma.kernel(self.test, self.test, u) - cross @ jnp.linalg.solve(gram, cross.T))
        return jnp.concatenate([u.ravel(), mean, mean**2 + variance])

    def exact(self, width: int, nodes: int, mode) -> tuple[np.ndarray, jnp.ndarray]:
        """E[U], the mean output and its variance, by Gauss and Hermite's rule around the mode; and the mode."""
        for _ in range(40):
            step = jnp.linalg.solve(self.curvature(mode, width), self.slope(mode, width))
            mode -= step / max(1.0, 2 * float(jnp.linalg.norm(step)))
        root = jnp.linalg.inv(jnp.linalg.cholesky(self.curvature(mode, width))).T
        ticks, weights = np.polynomial.hermite.hermgauss(nodes)
        grid = np.stack(np.meshgrid(*[ticks] * 4, indexing="ij"), axis=-1).reshape(-1, 4)
        products = np.prod(np.meshgrid(*[weights] * 4, indexing="ij"), axis=0).ravel()
        potential, values = self.at_points(mode + math.sqrt(2) * grid @ root.T, width)
        mass = products * np.exp(np.sum(grid**2, axis=1) - (potential - self._minus_log_density(mode, width)))
        means = np.array(mass @ values / mass.sum())
        means[8:] -= means[4:8] ** 2
        return means, mode

    def errors(self, widths, nodes: int) -> dict[str, dict[str, list[float]]]:
        """Distances of the saddle point and of the corrected values, root mean squares."""
        solution = sma.solve(self.problem, tolerance=1e-12)
        better = sampling.corrected(solution, self.test)
        saddle = np.concatenate([np.ravel(solution.order_parameter), *solution.predict(self.test)])
        change = np.concatenate([np.ravel(better.order_parameters[0]), *better.prediction]) - saddle
        gaps: dict[str, dict[str, list[float]]] = {kind: {"saddle": [], "corrected": []} for kind in self.SHOWN}
        mode, base = jnp.zeros(4), self.problem.width[0]
        for width in widths:
            truth, mode = self.exact(width, nodes, mode)
            for name, gap in (("saddle", truth - saddle), ("corrected", truth - saddle - change * base / width)):
                for kind, part in self.SHOWN.items():
                    gaps[kind][name].append(float(np.sqrt(np.mean(gap[part] ** 2))))
        return gaps


def exponent_figure(widths, gaps: Mapping[str, Mapping]) -> None:
    """Errors at a fixed load against width."""
    figure, panels = plotting.new_figure(1, 2, figsize=(6.4, 3.2))
    for panel, kind in zip(panels, ("order parameter", "mean output"), strict=True):
        plotting.distance_against_width(widths, gaps[kind], slopes=(-1, -2), axes=panel)
        panel.set(title=kind, ylabel="distance" if panel is panels[0] else "")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=4, columnspacing=1.0)


def bar_figure(cases: Mapping[tuple, Mapping]) -> None:
    """True distance against the size of the correction; the first entry of a key is the number of examples."""
    counts = sorted({count for count, *_ in cases}, reverse=True)
    figure, panels = plotting.new_figure(1, 2, figsize=(6.4, 3.4))
    for panel, (kind, title) in zip(panels, KINDS.items(), strict=True):
        seen = [row[f"{kind} {name}"] for row in cases.values() for name in ("size", "saddle")]
        ends = np.array([min(seen) / 1.5, max(seen) * 1.5])
        for factor, line in ((1, "-"), (2, ":"), (0.5, ":")):
            panel.plot(ends, factor * ends, line, color="0.7", linewidth=0.8, zorder=0)
        for count, marker, colour in zip(counts, "os", (DARK, MUTED["rose"]), strict=False):
            own = [row for (many, *_), row in cases.items() if many == count]
            across, upwards, error = ([row[f"{kind} {name}"] for row in own] for name in ("size", "saddle", "error"))
            style = dict(fmt=marker, color=colour, capsize=2, markersize=4)
            panel.errorbar(across, upwards, error, label=f"$P$ = {count}", **style)
        panel.set(title=title, xscale="log", yscale="log", xlabel="size of the correction")
    panels[0].set_ylabel("true distance")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=2)


def ratios(cases: Mapping[tuple, Mapping], kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Distance over size of correction, and what the correction leaves, of distances known to a quarter."""
    enough = sampling.diagnostics.SMALLEST_EFFECTIVE_SIZE
    kept = [row for row in cases.values() if row["effective"] >= enough]
    kept = [row for row in kept if row[f"{kind} error"] < row[f"{kind} saddle"] / 4]
    found = [
        (row[f"{kind} saddle"] / row[f"{kind} size"], row[f"{kind} corrected"] / row[f"{kind} saddle"]) for row in kept
    ]
    one, other = np.array(found).T
    return one, other


def facts(rows, sizes, cases, gaps, multiples) -> dict:
    """Numbers of the page on distances."""
    first, error = rows[min(rows)], rows[min(rows)]["f error"]
    enough = sampling.diagnostics.SMALLEST_EFFECTIVE_SIZE
    found = dict(narrow=min(rows), bar_cases=sum(row["effective"] >= enough for row in cases.values()))
    for name, key in (("main_f", "f saddle"), ("main_left_f", "f corrected")):
        found[name] = with_error(100 * first[key], 100 * error) + " %"
    for kind in KINDS:
        bar, rest = ratios(cases, kind)
        found |= {
            f"bar_{kind}_low": bar.min(),
            f"bar_{kind}_high": bar.max(),
            f"rest_{kind}": f"{100 * rest.max():.0f} %",
        }
        found[f"last_{kind}"] = signed(exponents([one[kind] for one in sizes.values()], list(sizes))[-1], 2)
    for name, kind, what in (
        ("U", "order parameter", "saddle"),
        ("f", "mean output", "saddle"),
        ("better", "mean output", "corrected"),
    ):
        found[f"exponent_{name}"] = signed(exponents(gaps[kind][what], multiples)[-1], 3)
    if len(rows) > 2:
        _, one, other, *_ = sorted(rows)
        growth = other * rows[other]["f size"] / (one * rows[one]["f size"])
        found |= dict(growth=growth, growth_from=one, growth_to=other)
    return found


def assert_exponents(gaps, multiples) -> None:
    """(C5): -1 for the saddle point, -2 for the corrected values."""
    for kind in Copies.SHOWN:
        for name, wanted in (("saddle", -1), ("corrected", -2)):
            assert abs(exponents(gaps[kind][name], multiples)[-1] - wanted) < 0.02, (kind, name)


def assert_distances(rows, sizes, cases) -> None:
    """Statements of the page on the default parameters."""
    first = rows[10]
    assert first["U saddle"] > 0.07 and first["U corrected"] < 0.03 and first["f corrected"] < 0.006
    assert first["effective"] > 400 and 100 * rows[100]["f size"] > 2.5 * 30 * rows[30]["f size"]
    for kind, wanted in (("U", -2), ("f", -1)):
        bar, rest = ratios(cases, kind)
        assert len(bar) > 5 and bar.min() > 0.7 and bar.max() < 1.3 and rest.max() < 0.5
        assert abs(exponents([one[kind] for one in sizes.values()], list(sizes))[-1] - wanted) < 0.2


LEVELS = np.linspace(0.05, 0.95, 19)
NINETY = int(np.argmin(np.abs(LEVELS - 0.9)))
PREDICTORS = {"exact": "exact posterior", "theory": "theory", "GP limit": "GP limit"}
REPLACED = {
    "theory and Var_U m": r"theory, its variance plus $\mathrm{Var}_U m$",
    "exact mean, theory's variance": "theory, with the exact mean",
    "exact mean and variance": "Gaussian, exact mean and variance",
}
_TESTED = {"U_11": "$U_{11}$", "U_12": "$U_{12}$", "U_44": "$U_{44}$", "readout": "readout"}
_PRIORS = {
    "true": "true prior",
    "without psi": r"without $\psi$",
    "readout variance": f"readout variance {WRONG_VARIANCE}",
}


class Coverage:
    """Recorded networks of the prior, and how often central intervals hold their outputs."""

    def __init__(self, found, resamples: int):
        self.found, self.widths, self.count = found, found.width.values.tolist(), found.sizes["problem"]
        self.chosen = np.random.default_rng(0).integers(self.count, size=(resamples, self.count))
        everything = [(width, name) for width in self.widths for name in found.predictor.values]
        self.held = {key: self._inside(*key) for key in everything}  # per network and level
        self.curves = {key: self._with_band(self.held[key]) for key in everything}

    def _inside(self, width, predictor) -> np.ndarray:
        u = self.found.output_u.sel(width=width, predictor=predictor).values
        return (np.abs(u - 0.5)[:, None] < LEVELS[:, None] / 2).mean(axis=2)

    def _with_band(self, fractions):
        """Mean, a band that holds the whole curve in 95 %, and the chance that one without bias is as far off."""
        mean, error = fractions.mean(axis=0), fractions.std(axis=0, ddof=1) / math.sqrt(self.count)
        away = (np.abs(fractions[self.chosen].mean(axis=1) - mean) / error).max(axis=1)
        return mean, error * np.quantile(away, 0.95), float(np.mean(away >= np.max(np.abs(mean - LEVELS) / error)))

    def at(self, width, predictor, level: int = NINETY, less: str | None = None) -> tuple[float, float]:
        """Coverage of one level in percent, with its error; or minus that of another predictor."""
        fractions = self.held[width, predictor] - (self.held[width, less] if less else 0)
        return 100 * fractions[:, level].mean(), 100 * fractions[:, level].std(ddof=1) / math.sqrt(self.count)

    def figure(self) -> None:
        """Coverage minus level."""
        figure, panels = plotting.new_figure(1, len(self.widths), figsize=(6.4, 3.0), sharey=True, squeeze=False)
        for panel, width in zip(panels.flat, self.widths, strict=True):
            panel.axhline(0, color="0.6", linewidth=0.8)
            for (name, label), colour in zip(PREDICTORS.items(), ("exact", "theory", "gp"), strict=True):
                seen, band, _ = self.curves[width, name]
                plotting.coverage(LEVELS, seen, band, label=label, colour=plotting.COLOURS[colour], axes=panel)
            panel.set(title=f"$N$ = {width}", ylabel="coverage − level" if panel is panels[0, 0] else "")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=3, columnspacing=1.0)

    def table(self):
        """Coverage of the interval of 90 % in percent, and whether the whole curve differs from its levels."""
        lines = []
        for name, label in (PREDICTORS | REPLACED).items():
            cells = []
            for width in self.widths:
                chance = self.curves[width, name][2]
                cells += [with_error(*self.at(width, name)), f"{chance:.2f}" if chance >= 0.005 else "< 0.01"]
            lines.append([label, *cells])
        heads = [head for width in self.widths for head in (f"$N$ = {width}", "$p$")]
        return table(["within its interval, %", *heads], lines)

    def chances(self) -> dict[tuple, list[float]]:
        """p-values of Kolmogorov and Smirnov's test of (Q1), by width and prior."""
        found = {}
        for width in self.widths:
            for prior in _PRIORS:
                values = [self.found.prior_output_u.sel(width=width, prior=prior)[:, 0].values]
                values += [self.found.order_u.sel(width=width, prior=prior, quantity=name).values for name in _TESTED]
                found[width, prior] = [float(scipy.stats.kstest(one, "uniform").pvalue) for one in values]
        return found

    def tests(self):
        """The p-values as a table."""
        lines = [
            [f"$N$ = {width}, {_PRIORS[prior]}", *(f"{p:.2f}" if p >= 0.005 else "< 0.01" for p in row)]
            for (width, prior), row in self.chances().items()
        ]
        return table(["$p$ of (Q1)", "output", *_TESTED.values()], lines)

    def facts(self) -> dict:
        """Numbers of the page on coverage."""
        narrow = min(self.widths)
        return dict(
            narrow=narrow,
            problems=self.count,
            theory_narrow=with_error(*self.at(narrow, "theory")),
            r_hat=float(self.found.r_hat.max()),
            effective=int(self.found.effective_size.min()),
            tests=len(self.widths) * (1 + len(_TESTED)),
        )

    def assert_as_written(self) -> None:
        narrow, wide = min(self.widths), max(self.widths)
        p = {key: curve[2] for key, curve in self.curves.items()}
        assert min(p[narrow, "exact"], p[wide, "exact"], p[wide, "theory"], p[wide, "GP limit"]) > 0.05
        assert max(p[narrow, "theory"], p[narrow, "GP limit"]) < 0.01
        away = {name: (self.at(narrow, name)[0] - 90) / self.at(narrow, name)[1] for name in REPLACED}
        assert away["theory and Var_U m"] > 3 and away["exact mean, theory's variance"] < -3
        gap, error = self.at(narrow, "exact mean and variance", less="exact")
        assert gap > 2 * error and self.found.r_hat.max() < 1.01 and self.found.effective_size.min() > 400
        for (_, prior), row in self.chances().items():
            if prior == "true":
                assert min(row) > 0.01
            else:  # of the five tests those of order parameters reject
                assert 5 * min(row[1:]) < 0.01 < row[0]
