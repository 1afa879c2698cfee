"""The exact posterior: whole networks beside order parameters, on a problem small enough for both."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

import statmech_attention as sma
from attention_book import plotting
from attention_book.notebooks.tables import table, with_error
from statmech_attention import sampling

HEADS, FEATURES, TESTS = (2, 2), 3, 4
SIZES = (4, 2, 1)  # d_1, .., d_(L+1)


def small_problem(key, *, examples: int, temperature: float, width: int):
    """Random inputs with labels of both signs, and test inputs."""
    inputs = jax.random.normal(key, (examples + TESTS, math.prod(HEADS), FEATURES))
    labels = jnp.where(jnp.arange(examples) % 2 == 0, 1.0, -1.0)
    train, test = (sma.AttentionedInputs(part, HEADS) for part in (inputs[:examples], inputs[examples:]))
    return sma.Problem(train, labels, width=width, temperature=temperature), test


class Networks(NamedTuple):
    """Networks from the prior, and their likelihood (8)."""

    overlaps: np.ndarray  # U of each, (networks, paths, paths)
    outputs: np.ndarray  # on the test inputs
    likelihood: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        return self.likelihood / self.likelihood.sum()

    @property
    def effective(self) -> float:
        return float(1 / np.sum(self.weights**2))

    def mean(self, values) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and its standard error."""
        values = values.reshape(len(values), -1)
        mean = self.weights @ values
        return mean, np.sqrt(self.weights**2 @ (values - mean) ** 2)


def from_prior(key, problem, test, networks: int) -> Networks:
    """Draw whole networks and weigh them."""
    everything = sma.AttentionedInputs(jnp.concatenate([problem.attentioned.values, test.values]), HEADS)

    def one(key):
        weights = sma.sample_weights(key, layers=HEADS, width=problem.width, features=FEATURES)
        return sma.model.weights_order_parameters(weights)[0], sma.model.forward_paths(weights, everything)

    overlaps, outputs = jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=2000))(jax.random.split(key, networks))
    overlaps, outputs, labels = (np.asarray(one) for one in (overlaps, outputs, problem.labels))
    loss = np.sum((outputs[:, : len(labels)] - labels) ** 2, axis=1)
    return Networks(overlaps, outputs[:, len(labels) :], np.exp(-loss / (2 * float(problem.temperature))))


def law_figure(chains, solutions, networks: Networks, width: int) -> None:
    """The law of U_11 at every width, and where the saddle point is."""
    figure, panels = plotting.new_figure(1, len(chains), figsize=(6.4, 2.9), squeeze=False)
    for panel, (n, found) in zip(panels.flat, chains.items(), strict=True):
        values, at = found.order_parameter[..., 0, 0].values, float(solutions[n].order_parameter[0, 0])
        edges = np.linspace(0, np.quantile(values, 0.99), 31)
        plotting.law(values, label="exact posterior", bins=edges, filled=True, saddle_point=at, axes=panel)
        if n == width:
            brute: dict[str, Any] = dict(label="all weights, weighted", bins=edges, weights=networks.weights)
            plotting.law(networks.overlaps[:, 0, 0], axes=panel, **brute)
            handles = panel.get_legend_handles_labels()
        panel.set(title=f"$N$ = {n}", xlabel="$U_{11}$", ylabel="density" if n == width else "")
    figure.legend(*handles, loc="outside upper left", ncols=3, columnspacing=1.0)


def _order_parameters(point):
    """F_1, .., F_(L+1) at a point, and U^(1), .., U^(L+1), all as matrices."""
    factors, start = [], 0
    for size in SIZES:
        below = size * (size - 1) // 2
        factor = jnp.diag(jnp.exp(point[start : start + size]))
        factors.append(factor.at[np.tril_indices(size, -1)].set(point[start + size : start + size + below]))
        start += size + below
    roots = [factors[-1]]
    for count, factor in zip(reversed(HEADS), reversed(factors[:-1]), strict=True):
        roots.insert(0, jnp.kron(jnp.eye(count), roots[0]) @ factor)
    return factors, [root @ root.T for root in roots]


def _minus_log_prior(point, width):
    """(W4)."""
    total = 0.0
    for factor in _order_parameters(point)[0]:
        logs = jnp.log(jnp.diagonal(factor))
        total += width / 2 * (jnp.sum(factor**2) - 2 * jnp.sum(logs)) + jnp.arange(len(logs)) @ logs
    return total


def _spread(values) -> float:
    return float(np.ptp(np.asarray(values)))


def prior_against_scipy(seed: int, width: int) -> float:
    """By how much (W4) and SciPy's Wishart densities (W2) differ beyond a constant, at six points."""

    def packed(point):
        return jnp.concatenate([u[np.tril_indices(len(u))] for u in _order_parameters(point)[1]])

    jacobian_of, order_of = jax.jit(jax.jacfwd(packed)), jax.jit(lambda point: _order_parameters(point)[1])
    prior = jax.jit(lambda point: _minus_log_prior(point, width))
    gaps = []
    for point in _points(seed):
        order = [np.asarray(u) for u in order_of(point)]
        scales = [np.kron(np.eye(count), u) for count, u in zip(HEADS, order[1:], strict=True)] + [np.eye(1)]
        logs = [scipy.stats.wishart.logpdf(u, width, scale / width) for u, scale in zip(order, scales, strict=True)]
        gaps.append(sum(logs) + np.linalg.slogdet(jacobian_of(point))[1] + float(prior(point)))
    return _spread(gaps)


def posterior_against_action(seed: int, problem) -> float:
    """By how much both sides of (W8) differ beyond a constant, at six points."""

    @jax.jit
    def gap(point):
        factors, order = _order_parameters(point)
        energy = sma.theory.energy(problem, order[0])
        minus_log = _minus_log_prior(point, problem.width[0]) + problem.labels.size / 2 * energy
        rest = sum(jnp.arange(len(f)) @ jnp.log(jnp.diagonal(f)) for f in factors)
        action = sma.theory.action(problem, (*order[:-1], order[-1][0, 0]))
        return minus_log - problem.width[0] / 2 * action - rest

    return _spread([gap(point) for point in _points(seed)])


def _points(seed: int):
    count = sum(size * (size + 1) // 2 for size in SIZES)
    return jnp.asarray(0.4 * np.random.default_rng(seed).normal(size=(6, count)))


def _log_mean(values) -> tuple[float, float]:
    return math.log(values.mean()), values.std() / values.mean() / math.sqrt(len(values))


def _evidence(problem, networks: Networks):
    """ln p(Y) over networks, and by (W5) over their order parameters, with standard errors."""

    @jax.jit
    def density(overlap):
        return jnp.exp(-problem.labels.size / 2 * (sma.theory.energy(problem, overlap) + math.log(2 * math.pi)))

    scale = (2 * math.pi * float(problem.temperature)) ** (-problem.labels.size / 2)
    some = jnp.asarray(networks.overlaps[:20000])
    return *_log_mean(networks.likelihood * scale), *_log_mean(np.asarray(jax.lax.map(density, some, batch_size=1000)))


def _errors_from_parts(exact):
    """Standard errors of (W7) and of its first term, from halves of the chains."""
    found = []
    for chain in range(exact.sizes["chain"]):
        for part in np.array_split(np.arange(exact.sizes["draw"]), 2):
            one = exact.isel(chain=[chain], draw=part)
            found.append([sampling.prediction(one).variance, one.output_variance.mean(("chain", "draw")).values])
    return np.std(found, axis=0, ddof=1) / math.sqrt(len(found))


def against_all_weights(problem, networks: Networks, exact):
    """Table of both estimates of each quantity, and the largest difference of each in standard errors."""
    overlap, output = sampling.estimate(exact.order_parameter), sampling.estimate(exact.output)
    mean, _ = networks.mean(networks.outputs)
    variance = networks.mean((networks.outputs - mean) ** 2)
    whole, part = sampling.prediction(exact).variance, exact.output_variance.mean(("chain", "draw")).values
    whole_error, part_error = _errors_from_parts(exact)
    rows = {
        r"$\mathbb E[U_{11}]$": (*networks.mean(networks.overlaps), np.ravel(overlap.mean), np.ravel(overlap.error)),
        r"$\langle f(x^*) \rangle$": (*networks.mean(networks.outputs), output.mean, output.error),
        r"$\mathrm{Var} f(x^*)$": (*variance, whole, whole_error),
        r"the same without $\mathrm{Var}_U m$": (*variance, part, part_error),
        r"$\ln p(Y)$": tuple(np.array([value]) for value in _evidence(problem, networks)),
    }
    apart = [float(np.max(np.abs(a - b) / np.hypot(error, other))) for a, error, b, other in rows.values()]
    lines = [
        [name, with_error(a[0], error[0]), with_error(b[0], other[0]), f"{gap:.1f}"]
        for (name, (a, error, b, other)), gap in zip(rows.items(), apart, strict=True)
    ]
    return table(["", "all weights", "order parameters", "apart, standard errors"], lines), apart


def shares(chains) -> dict[int, float]:
    """Part of the variance of an output that is Var_U m, by width, in percent."""
    return {
        n: 100 * float((found.output.var(("chain", "draw")) / sampling.prediction(found).variance).mean())
        for n, found in chains.items()
    }


def saddle_beside_exact(chains, solutions, test):
    """Table of U_11 and of the mean output on one test input, at every width."""
    lines = []
    for n, found in chains.items():
        u, f = sampling.estimate(found.order_parameter[..., 0, 0]), sampling.estimate(found.output[..., 0])
        u_star, f_star = solutions[n].order_parameter[0, 0], solutions[n].predict(test).mean[0]
        values = [
            with_error(u.mean, u.error),
            f"{f_star:.3f}",
            with_error(f.mean, f.error),
            f"{shares(chains)[n]:.1f} %",
        ]
        lines.append([str(n), f"{u_star:.3f}", *values])
    exact = r"$\mathbb E[U_{11}]$", r"$f$, saddle", r"$\langle f \rangle$", r"$\mathrm{Var}_U m$ of the variance"
    return table(["$N$", "$U_{11}$, saddle", *exact], lines)


def fewer_rows_than_paths(key, problem, networks: Networks, draws: int):
    """Table of both samplers beside weighted networks whose U is singular, and the largest differences."""
    mean, error = networks.mean(networks.overlaps)
    lines, worst = [], []
    for name in ("posterior", "tempered_posterior"):
        drawn = getattr(sampling, name)(problem, key=key, chains=sma.Chains(draws=draws, warn=False))
        found, r_hat = sampling.estimate(drawn.order_parameter), float(drawn.order_parameter_r_hat.max())
        rank = np.linalg.matrix_rank(drawn.order_parameter[0, -1].values, tol=1e-8)
        assert rank == np.linalg.matrix_rank(networks.overlaps[0])
        worst.append(float((np.abs(mean - found.mean.ravel()) / np.hypot(error, found.error.ravel())).max()))
        lines.append([f"`sampling.{name}`", str(rank), f"{worst[-1]:.1f}", f"{r_hat:.3f}"])
    return table(["", "rank of $U$", r"$\mathbb E[U]$ apart, standard errors", r"largest $\hat R$"], lines), worst


def mixing(key, problem, temperatures, draws: int):
    """Table of the largest R-hat and smallest effective size of U with both samplers, against temperature."""
    lines = []
    for heat in temperatures:
        cells = []
        for name in ("posterior", "tempered_posterior"):
            sampler = getattr(sampling, name)
            drawn = sampler(problem.replace(temperature=heat), key=key, chains=sma.Chains(draws=draws, warn=False))
            cells.append(f"{float(drawn.order_parameter_r_hat.max()):.3f}")
            cells.append(f"{float(drawn.order_parameter_effective_size.min()):.0f}")
        lines.append([f"{heat:g}", *cells])
    measures = (r"largest $\hat R$", "smallest effective size")
    heads = [f"`{name}`, {what}" for name in ("posterior", "tempered") for what in measures]
    return table(["$T$", *heads], lines)
