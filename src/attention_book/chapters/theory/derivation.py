"""A small network over all its weights and over its order parameters."""

from typing import Any, NamedTuple

import jax
import numpy as np

import statmech_attention as sma


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
