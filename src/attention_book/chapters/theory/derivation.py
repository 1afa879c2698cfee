"""From weights to U: a small network over all its weights and over its order parameters, and the limit of both."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize, stats

import statmech_attention as sma
from attention_book import plotting
from attention_book.notebooks.comparisons import exact, sampled


def two_paths(count: int, key):
    """Inputs and labels of which path 1 shows signal and noise, path 2 the noise alone; 30 features."""
    y = jnp.where(jnp.arange(count) % 2, 1.0, -1.0)
    noise = jax.random.normal(key, (count, 30))
    return sma.AttentionedInputs(jnp.stack([0.3 * y[:, None] + noise, noise], axis=1), (2,)), y


def lift(values, below):
    """xi_{l+1} from xi_l: values (.., H, N_out, N_in), below (.., examples, H d, N_in)."""
    count, _, width = values.shape[-3:]
    split = below.reshape(*below.shape[:-2], count, -1, width)
    return np.einsum("...hmn,...ehdn->...edm", values, split, optimize=True) / np.sqrt(count * width)


def weighted(values, weight):
    """Weighted means with their standard errors."""
    weight = weight / weight.sum()
    mean = np.tensordot(weight, values, axes=1)
    return mean, np.sqrt(np.tensordot(weight**2, (values - mean) ** 2, axes=1))


class Averages(NamedTuple):
    """Columns: f*, its squared deviation, cos and sin of tau f*, the upper triangle of U."""

    mean: np.ndarray
    error: np.ndarray


class SmallNetwork:
    """Two layers of two and three heads; all widths and variances differ; the last example is the test."""

    heads, widths, variances = (2, 3), (7, 4, 5), (1.2, 0.8, 1.1, 0.9)
    examples, tokens, features, temperature, tau = 3, 4, 5, 0.5, 0.8
    paths = 6

    def __init__(self, seed: int = 2405):
        self.rng = np.random.default_rng(seed)
        P, features = self.examples, self.features
        self.inputs = self.normal(P + 1, self.tokens, features)
        self.labels = np.array([1.0, -1.0, 1.0])
        self.attention = sma.attention_from_products([self.normal(h, features, features) for h in self.heads])
        self.attentioned = sma.attentioned_inputs(self.inputs, self.attention)
        self.xi = np.asarray(self.attentioned.values)  # (examples, paths, features)
        self.train, self.test = (
            sma.attentioned_inputs(part, self.attention) for part in (self.inputs[:P], self.inputs[P:])
        )
        drawn = sma.sample_weights(
            jax.random.key(seed), layers=self.heads, width=self.widths, features=features, variance=self.variances
        )
        self.V0, (self.V1, self.V2), self.a = (
            np.asarray(drawn.projection),
            map(np.asarray, drawn.values),
            np.asarray(drawn.readout),
        )
        self.w = np.asarray(sma.model.effective_weights(drawn))
        s0 = self.variances[0]
        self.C = np.einsum("epi,fqi->epfq", self.xi, self.xi, optimize=True) * s0 / (self.paths * features)
        self.upper = np.triu_indices(self.paths)

    def normal(self, *shape: int) -> np.ndarray:
        """Standard normal numbers."""
        return self.rng.standard_normal(shape)

    def problem(self, width=None) -> sma.Problem:
        """The training examples as the package has them."""
        numbers: dict[str, Any] = {"temperature": self.temperature, "variance": self.variances}
        return sma.Problem(self.train, self.labels, width=self.widths if width is None else width, **numbers)

    def kernel(self, overlap) -> np.ndarray:
        """kappa of (10) between all examples."""
        return np.asarray(sma.kernel(self.attentioned, self.attentioned, overlap, variance=self.variances))

    def effective(self, V1, V2, a) -> np.ndarray:
        """w^pi of (6) for many networks: (networks, paths, N_1)."""
        upper = np.einsum("km,khmn->khn", a, V2, optimize=True) / np.sqrt(a.shape[1])  # w_2
        lower = np.einsum("kdm,khmn->khdn", upper, V1, optimize=True) / np.sqrt(V1.shape[2])
        return lower.reshape(len(a), self.paths, -1)

    def networks(self, count: int, widths=None):
        """Networks from the prior: effective weights, and outputs by the layers (1) to (4)."""
        (n1, n2, n3), (h1, h2), (s0, s1, s2, sa) = widths or self.widths, self.heads, self.variances
        V0 = np.sqrt(s0) * self.normal(count, n1, self.features)
        V1, V2 = np.sqrt(s1) * self.normal(count, h1, n2, n1), np.sqrt(s2) * self.normal(count, h2, n3, n2)
        a = np.sqrt(sa) * self.normal(count, n3)
        below = np.einsum("kmi,epi->kepm", V0, self.xi, optimize=True) / np.sqrt(self.features)
        outputs = np.einsum("km,kem->ke", a, lift(V2, lift(V1, below))[:, :, 0]) / np.sqrt(n3)
        return self.effective(V1, V2, a), outputs

    def chain(self, count: int, widths=None) -> list[np.ndarray]:
        """Draws of U^(3), U^(2) and U^(1) from the prior, by (D1)."""
        (n1, n2, n3), (h1, h2), (_, s1, s2, sa) = widths or self.widths, self.heads, self.variances
        order = [sa * self.rng.chisquare(n3, (count, 1, 1)) / n3]
        for heads, width, variance in ((h2, n2, s2), (h1, n1, s1)):
            root = np.linalg.cholesky(order[-1])
            z = self.normal(count, width, heads, root.shape[-1])
            rows = np.sqrt(variance) * np.einsum("kpq,knhq->knhp", root, z, optimize=True).reshape(count, width, -1)
            order.append(np.einsum("knp,knq->kpq", rows, rows, optimize=True) / width)
        return order

    def over_weights(self, count: int) -> Averages:
        """Averages over the posterior (8) of all weights: networks of the prior, weighted by their likelihood."""
        w, outputs = self.networks(count)
        P, tau = self.examples, self.tau
        likelihood = np.exp(-np.sum((outputs[:, :P] - self.labels) ** 2, axis=1) / (2 * self.temperature))
        f = outputs[:, P]
        mean = np.average(f, weights=likelihood)
        overlaps = np.einsum("kpn,kqn->kpq", w, w, optimize=True)[:, *self.upper] / self.widths[0]
        columns = [f, (f - mean) ** 2, np.cos(tau * f), np.sin(tau * f), overlaps]
        return Averages(*weighted(np.column_stack(columns), likelihood))

    def over_chain(self, count: int, widths=None) -> Averages:
        """The same by (D3) and (D4)."""
        U, P, tau = self.chain(count, widths)[2], self.examples, self.tau
        kappas = np.einsum("kpq,epfq->kef", U, self.C, optimize=True)
        K, k = kappas[:, :P, :P] + self.temperature * np.eye(P), kappas[:, :P, P]
        solved = np.linalg.solve(K, np.stack([np.tile(self.labels, (count, 1)), k], axis=-1))
        m = np.einsum("ka,ka->k", k, solved[:, :, 0])  # (9)
        v = kappas[:, P, P] - np.einsum("ka,ka->k", k, solved[:, :, 1])  # (30)
        energies = np.linalg.slogdet(K)[1] + solved[:, :, 0] @ self.labels  # P E
        weight = np.exp(-(energies - energies.min()) / 2)
        mean, wave = np.average(m, weights=weight), np.exp(1j * tau * m - tau**2 * v / 2)
        columns = [m, v + (m - mean) ** 2, wave.real, wave.imag, U[:, *self.upper]]
        return Averages(*weighted(np.column_stack(columns), weight))


def rows_deviation(small: SmallNetwork, count: int = 50_000) -> float:
    """(D1) for U^(1) with the upper weights fixed: means and squares of its elements, in standard errors."""
    (n1, n2, n3), (h1, _), (_, s1, _, _) = small.widths, small.heads, small.variances
    w2 = np.einsum("m,hmn->hn", small.a, small.V2) / np.sqrt(n3)
    Sigma = s1 * np.kron(np.eye(h1), w2 @ w2.T / n2)
    V1 = np.sqrt(s1) * small.normal(count, h1, n2, n1)
    w1 = np.einsum("dm,khmn->khdn", w2, V1, optimize=True).reshape(count, small.paths, n1) / np.sqrt(n2)
    given = np.einsum("kpn,kqn->kpq", w1, w1, optimize=True) / n1
    spread = (np.outer(np.diag(Sigma), np.diag(Sigma)) + Sigma**2) / n1
    means = sampled(given[:, *small.upper], Sigma[small.upper], scale=1.0)
    squares = (given - Sigma)[:, *small.upper] ** 2
    return max(means, sampled(squares, spread[small.upper], scale=spread.max()))


def outputs_deviation(small: SmallNetwork, count: int = 50_000) -> float:
    """(D2): covariance of the outputs over V^(0), in standard errors."""
    n1, features, paths = small.widths[0], small.features, small.paths
    V0 = np.sqrt(small.variances[0]) * small.normal(count, n1, features)
    projected = np.einsum("pm,kmi->kpi", small.w, V0, optimize=True) / np.sqrt(n1 * features * paths)
    outputs = np.einsum("kpi,epi->ke", projected, small.xi, optimize=True)
    kappa, pairs = small.kernel(small.w @ small.w.T / n1), np.triu_indices(len(small.xi))
    return sampled((outputs[:, :, None] * outputs[:, None])[:, *pairs], kappa[pairs], scale=kappa.max())


def given_order_parameter(small: SmallNetwork) -> tuple[float, float]:
    """At some U: (10) as a sum over pairs of paths; (12), (9) and (30) by conditioning a joint Gaussian."""
    U, P, T = small.chain(1)[2][0], small.examples, small.temperature
    kappa, problem = small.kernel(U), small.problem()
    by_pairs = sum(U[p, q] * small.C[:, p, :, q] for p, q in np.ndindex(U.shape))
    energy = sma.theory.energy(problem, U)
    density = stats.multivariate_normal(np.zeros(P), kappa[:P, :P] + T * np.eye(P)).logpdf(small.labels)
    precision = np.linalg.inv(kappa + T * np.diag([1, 1, 1, 0]))  # of labels and test output together
    found = sma.kernel_regression(problem, U).predict(small.test)
    mean = -precision[P, :P] @ small.labels / precision[P, P]
    conditioned = exact(
        (-P / 2 * (energy + np.log(2 * np.pi)), density),
        (found.mean[0], mean),
        (found.variance[0], 1 / precision[P, P]),
    )
    return exact((kappa, by_pairs)), conditioned


def densities(small: SmallNetwork, points: int = 5) -> tuple[float, float]:
    """(D5): spread of what should be constant over points, per layer; and (11) against the package."""
    (n1, n2, n3), (h1, h2), (_, s1, s2, sa) = small.widths, small.heads, small.variances
    apart = []
    for u3, U2, U1 in zip(*small.chain(points), strict=True):
        u, scales = u3[0, 0], (s2 * u3[0, 0] * np.eye(h2), s1 * np.kron(np.eye(h1), U2))
        logs = [
            stats.gamma(n3 / 2, scale=2 * sa / n3).logpdf(u),
            *(stats.wishart(n, s / n).logpdf(U) for n, s, U in zip((n2, n1), scales, (U2, U1), strict=True)),
        ]
        entropies = [u / sa - np.log(u / sa)]
        for order, scale in zip((U2, U1), scales, strict=True):
            ratio = np.linalg.solve(scale, order)
            entropies.append(np.trace(ratio) - np.linalg.slogdet(ratio)[1])
        rest = [(len(U) + 1) * np.linalg.slogdet(U)[1] for U in (u3, U2, U1)]
        apart.append(-2 * np.array(logs) - np.array([n3, n2, n1]) * entropies - rest)
    problem = small.problem()
    by_hand = np.dot([n3, n2, n1], entropies) + small.examples * sma.theory.energy(problem, U1)
    return np.ptp(apart, axis=0).max(), exact((sma.theory.action(problem, (U1, U2, u)), by_hand / max(small.widths)))


class AgainstWidth(NamedTuple):
    """Exact averages, theory and limit of the small network at multiples of its widths."""

    factors: tuple[int, ...]
    exact: list[Averages]
    theory: list[float]
    limit: float
    distances: list[float]  # of the mean U from the theory's
    from_prior: list[float]


def against_width(small: SmallNetwork, factors=(1, 2, 4, 8), draws: int = 100_000) -> AgainstWidth:
    """Average over order parameters and solve at multiples of the widths, at fixed examples."""
    scaled = [tuple(factor * width for width in small.widths) for factor in factors]
    averages = [small.over_chain(draws, one) for one in scaled]
    solutions = [sma.solve(small.problem(one)) for one in scaled]
    gp = np.asarray(sma.theory.gp_order_parameters(small.heads, variance=small.variances)[0])
    means = [float(one.predict(small.test).mean[0]) for one in solutions]
    away = [
        [
            float(np.linalg.norm(one.mean[4:] - np.asarray(U)[small.upper]))
            for one, U in zip(averages, matrices, strict=True)
        ]
        for matrices in ([one.order_parameter for one in solutions], [gp] * len(averages))
    ]
    return AgainstWidth(
        factors, averages, means, float(sma.kernel_regression(small.problem(), gp).predict(small.test).mean[0]), *away
    )


def errors_at_fixed_load(widths, alpha: float = 2.0) -> np.ndarray:
    """Error of the theory's mean output for one layer with one head and P = alpha N, by quadrature.

    Each of ten kernel eigenvalues is repeated P / 10 times, so that E(U) is one function for all widths.
    """
    eigenvalues, squares = np.geomspace(0.05, 5, 10), np.array([4, 3, 2, 1, 1, 0.5, 0.5, 0.3, 0.2, 0.1])

    def energy(u):
        spectrum = eigenvalues * u[..., None] + SmallNetwork.temperature
        return np.mean(np.log(spectrum) + squares / spectrum, axis=-1)

    def output(u):  # k^T (K + T)^{-1} Y for some k
        return np.sum(
            np.linspace(-0.2, 0.2, 10) * u[..., None] / (eigenvalues * u[..., None] + SmallNetwork.temperature), axis=-1
        )

    # z1 = ln U^(2), z2 = ln(U / U^(2)): their exact densities are exp(N (z - e^z) / 2).
    z1, z2 = np.meshgrid(*[np.linspace(-2.5, 2.5, 801)] * 2, indexing="ij")
    at = output(np.exp(z1 + z2))
    S = np.exp(z1) - z1 + np.exp(z2) - z2 + alpha * energy(np.exp(z1 + z2))
    least = optimize.minimize_scalar(  # at given U the entropy is least for U^(2) = U^(1/2)
        lambda z: 2 * np.exp(z / 2) - z + alpha * energy(np.exp(np.array(z))),
        bounds=(-4, 4),
        method="bounded",
        options={"xatol": 1e-10},
    )
    weights = [np.exp(-N / 2 * (S - S.min())) for N in widths]
    return np.array([abs(np.sum(w * at) / np.sum(w) - output(np.exp(least.x))) for w in weights])


def rates(found: AgainstWidth, loaded, gaps) -> None:
    """Draw the mean output at fixed examples, and the theory's error at fixed load."""
    figure, (left, right) = plotting.new_figure(1, 2, figsize=(6.5, 3.0))
    left.axhline(found.limit, color=plotting.COLOURS["gp"], label="GP limit")
    left.plot(found.factors, found.theory, color=plotting.COLOURS["theory"], label="theory")
    means, errors = zip(*((one.mean[0], one.error[0]) for one in found.exact), strict=True)
    left.errorbar(found.factors, means, errors, fmt="o", color=plotting.COLOURS["exact"], label="exact")
    left.set(xscale="log", xlabel="multiple of the widths (7, 4, 5)", ylabel="mean output")
    left.set_xticks(found.factors, found.factors)
    left.legend()
    right.loglog(loaded, gaps, "o", color=plotting.COLOURS["theory"])
    right.loglog(loaded, gaps[-1] * loaded[-1] / loaded, color="0.6", zorder=0)
    right.set(xlabel="width $N$", ylabel="error of the theory")
    right.set_xticks(loaded, loaded)
    for panel in (left, right):
        panel.minorticks_off()
