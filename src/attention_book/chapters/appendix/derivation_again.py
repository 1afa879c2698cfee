"""The derivation layer by layer: each step's integral against weights drawn, quadrature or linear algebra."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import integrate, stats

import statmech_attention as sma
from attention_book.chapters.theory.derivation import SmallNetwork, lift
from attention_book.notebooks.comparisons import exact, sampled


class Steps:
    """The steps on the small network, with one value of the auxiliary variables."""

    def __init__(self, small: SmallNetwork):
        self.small = small
        (self.N1, self.N2, self.N3), (self.H1, self.H2) = small.widths, small.heads
        self.s0, self.s1, self.s2, self.sa = small.variances
        self.d1, self.d2 = small.paths, self.H2
        self.t = np.array([1.1, -0.8, 0.9, small.tau])  # the last is the source
        self.xi1 = np.einsum("mi,epi->epm", small.V0, small.xi) / np.sqrt(small.features)
        self.xi2 = lift(small.V1, self.xi1)
        self.xi3 = lift(small.V2, self.xi2)[:, 0]
        M = small.normal(self.d2, self.d2)
        self.Sigma = M @ M.T / self.d2 + 0.3 * np.eye(self.d2)  # a full matrix, as deeper networks have
        self.U2 = self.wisharts(self.Sigma, self.N2, 1)[0]
        self.Sigma1 = self.s1 * np.kron(np.eye(self.H1), self.U2)
        self.t_xi = np.einsum("e,epi->pi", self.t, small.xi)
        self.R1 = self.s0 / (self.N1 * self.d1 * small.features) * self.t_xi @ self.t_xi.T

    def wisharts(self, Sigma, width: int, count: int = 200_000) -> np.ndarray:
        """Wishart matrices of mean Sigma."""
        z = self.small.normal(count, width, len(Sigma)) @ np.linalg.cholesky(Sigma).T
        return np.einsum("knp,knq->kpq", z, z, optimize=True) / width

    def last_layer(self) -> tuple[float, float]:
        """(D11) to (D13): weights drawn, in standard errors; row form and determinant lemma."""
        t, sa, N3, normal = self.t, self.sa, self.N3, self.small.normal
        b = t @ self.xi3
        phases = np.exp(1j * np.sqrt(sa) * normal(200_000, N3) @ b / np.sqrt(N3))
        one = sampled(phases, np.exp(-sa * b @ b / (2 * N3)) + 0j, scale=1.0, precision=0.005)
        g = (np.einsum("e,ehn->hn", t, self.xi2) / np.sqrt(self.N2 * self.H2)).ravel()
        rows = self.small.V2.transpose(1, 0, 2).reshape(N3, self.H2 * self.N2)  # v_k: row k of every head
        c = sa * self.s2 / N3
        lemma = np.linalg.det(np.eye(g.size) + c * np.outer(g, g)), 1 + c * g @ g
        v = np.sqrt(self.s2) * normal(200_000, g.size)
        two = sampled(np.exp(-sa / (2 * N3) * (v @ g) ** 2), lemma[1] ** -0.5)
        values = np.sqrt(self.s2) * normal(200_000, self.H2, N3, self.N2)
        summed = np.einsum("e,kem->km", t, lift(values, self.xi2)[:, :, 0])
        all_rows = sampled(np.exp(-sa / (2 * N3) * np.sum(summed**2, axis=1)), lemma[1] ** (-N3 / 2))
        return max(one, two, all_rows), exact((rows @ g, b), lemma)

    def numbers(self) -> tuple[float, float]:
        """(D14) by quadrature both ways; (D15) by derivatives and (D16)."""
        N, sa = 12, self.sa
        gamma, line = stats.gamma(N / 2, scale=2 * sa / N), np.linspace(-400, 400, 400_001)
        phi = lambda r, U: U * r - jnp.log1p(sa * r)  # noqa: E731
        inverted, saddles = [], []
        for U in (0.3, 0.8, 2.0):
            centre = 1 / U - 1 / sa
            r = centre + 1j * line  # any real part above -1/sigma_a^2 would do
            found = N / (4 * np.pi) * np.trapezoid(np.exp(N / 2 * (U * r - np.log(1 + sa * r))), line)
            inverted.append((found, gamma.pdf(U)))
            saddles += [
                (1 + jax.grad(phi)(centre, U), 1.0),
                (phi(centre, U), 1 - (U / sa - np.log(U / sa))),
                (jax.grad(jax.grad(phi))(centre, U), U**2),
            ]
        g = np.einsum("e,ehn->hn", self.t, self.xi2) / np.sqrt(self.N2 * self.H2)
        rho, u = self.s2 / self.N3 * np.sum(g**2), 0.83  # any value of U^(L+1)
        integrand = lambda U: gamma.pdf(U) * np.exp(-N / 2 * U * rho)  # noqa: E731
        laplace = integrate.quad(integrand, 0, np.inf, epsabs=1e-13)[0], (1 + sa * rho) ** (-N / 2)
        below = np.einsum("e,f,egn,fgn->", self.t, self.t, self.xi2, self.xi2)
        passed_back = self.N3 / 2 * u * rho, self.s2 * u * below / (2 * self.N2 * self.d2)
        return exact(*inverted, laplace), exact(*saddles, passed_back)

    def matrices(self) -> tuple[float, float, float]:
        """(D18), (D19) in standard errors; (D17), (D18) and (D20); spread of (D21) over points."""
        t, N1, N2, H1, d2, Sigma = self.t, self.N1, self.N2, self.H1, self.d2, self.Sigma
        split = self.xi1.reshape(len(t), H1, d2, N1)  # the head is the slow index
        G = np.einsum("e,ehpn->hnp", t, split).reshape(H1 * N1, d2) / np.sqrt(N1 * H1)  # columns g^pi
        rows = self.small.V1.transpose(1, 0, 2).reshape(N2, H1 * N1)
        by_rows = (
            np.trace(rows @ G @ Sigma @ G.T @ rows.T),
            np.einsum("e,f,pq,epn,fqn->", t, t, Sigma, self.xi2, self.xi2),
        )
        R = self.s1 / (N2 * d2) * G.T @ G
        one_row = np.linalg.det(np.eye(d2) + Sigma @ R)
        lemma = np.linalg.det(np.eye(H1 * N1) + self.s1 / (N2 * d2) * G @ Sigma @ G.T), one_row
        v = np.sqrt(self.s1) * self.small.normal(200_000, H1 * N1) @ G
        drawn = sampled(np.exp(-np.einsum("kp,pq,kq->k", v, Sigma, v) / (2 * N2 * d2)), one_row**-0.5)
        U = self.wisharts(Sigma, N2)
        tilted = sampled(np.exp(-N2 / 2 * np.einsum("kpq,qp->k", U, R)), one_row ** (-N2 / 2))
        # (D22): one layer further down.
        turned = (
            N2 / 2 * np.trace(self.U2 @ R),
            np.einsum("e,f,pq,epn,fqn->", t, t, self.Sigma1, self.xi1, self.xi1, optimize=True) / (2 * N1 * self.d1),
        )
        upper = np.triu_indices(d2)

        def phi(elements, U):
            half = jnp.zeros((d2, d2)).at[upper].set(elements)
            r = half + jnp.triu(half, 1).T
            return jnp.trace(U @ r) - jnp.linalg.slogdet(jnp.eye(d2) + Sigma @ r)[1]

        gradient, hessian = jax.jit(jax.grad(phi)), jax.jit(jax.hessian(phi))
        values, logs = [], []
        for one in U[:3]:
            place, ratio = (np.linalg.inv(one) - np.linalg.inv(Sigma))[upper], np.linalg.solve(Sigma, one)
            values += [
                (phi(place, one), d2 - (np.trace(ratio) - np.log(np.linalg.det(ratio)))),
                (1 + gradient(place, one), np.ones(len(place))),
            ]
            logs.append(np.linalg.slogdet(hessian(place, one))[1] - (d2 + 1) * np.log(np.linalg.det(one)))
        return max(drawn, tilted), exact(by_rows, lemma, turned, *values), np.ptp(logs)

    def projection(self) -> tuple[float, float]:
        """(D24) with all weights drawn, in standard errors; (D23)."""
        small, U = self.small, self.small.chain(1)[2][0]
        quadratic = self.N1 / 2 * np.trace(U @ self.R1), self.t @ small.kernel(U) @ self.t / 2
        V0 = np.sqrt(self.s0) * small.normal(200_000, small.features) @ self.t_xi.T / np.sqrt(small.features)
        rows = np.exp(-np.einsum("kp,pq,kq->k", V0, self.Sigma1, V0, optimize=True) / (2 * self.N1 * self.d1))
        one = sampled(rows, np.linalg.det(np.eye(self.d1) + self.Sigma1 @ self.R1) ** -0.5)
        _, outputs = small.networks(100_000)
        kappas = np.einsum("kpq,epfq->kef", small.chain(100_000)[2], small.C, optimize=True)
        mixture = np.exp(-0.5 * np.einsum("e,kef,f->k", self.t, kappas, self.t, optimize=True))
        two = sampled(np.exp(1j * outputs @ self.t) - mixture, 0j, scale=1.0, precision=0.005)
        return max(one, two), exact(quadratic)

    def auxiliary(self) -> tuple[float, float]:
        """(D25) by quadrature over three variables; (D26), Z(tau) / Z(0), in standard errors."""
        small, U = self.small, self.small.chain(1)[2][0]
        P, T, tau, Y = small.examples, small.temperature, small.tau, small.labels
        grid, step = np.linspace(-16, 16, 81, retstep=True)  # exact to machine precision for a Gaussian this smooth
        mesh = np.stack(np.meshgrid(*[grid] * P, indexing="ij"), axis=-1).reshape(-1, P)
        kappa = small.kernel(U)
        A, k, k_star = kappa[:P, :P] + T * np.eye(P), kappa[:P, P], kappa[P, P]
        shifted = Y - 1j * tau * k
        exponent = -0.5 * np.einsum("ka,ab,kb->k", mesh, A, mesh) - 1j * mesh @ shifted - 0.5 * tau**2 * k_star
        left = step**P * np.sum(np.exp(exponent)) / (2 * np.pi) ** (P / 2)
        found, energy = (
            sma.kernel_regression(small.problem(), U).predict(small.test),
            sma.theory.energy(small.problem(), U),
        )
        right = np.exp(-P / 2 * energy + 1j * tau * found.mean[0] - 0.5 * tau**2 * found.variance[0])
        ends = small.over_weights(200_000), small.over_chain(200_000)
        apart = np.abs(ends[0].mean - ends[1].mean)[2:4] / np.hypot(ends[0].error, ends[1].error)[2:4]
        assert ends[1].error[2:4].max() < 0.01
        return exact((left, right)), apart.max()

    def source(self) -> tuple[float, float]:
        """(D27), (D28) with weights and matrices drawn, in standard errors; derivative and saddle point."""
        small, det, N1, d1 = self.small, np.linalg.det, self.N1, self.d1
        J, Sigma1, R1, count = -0.05 * (np.eye(d1) + 0.5), self.Sigma1, self.R1, 50_000
        # Any upper weights with overlap U^(2).
        w2 = np.linalg.cholesky(self.U2) @ np.linalg.qr(small.normal(self.N2, self.d2))[0].T * np.sqrt(self.N2)
        V1 = np.sqrt(self.s1) * small.normal(count, self.H1, self.N2, N1)
        V0 = np.sqrt(self.s0) * small.normal(count, N1, small.features)
        w = np.einsum("dm,khmn->khdn", w2, V1, optimize=True).reshape(count, d1, N1) / np.sqrt(self.N2)
        phase = np.einsum("kpm,kmi,pi->k", w, V0, self.t_xi, optimize=True) / np.sqrt(N1 * small.features * d1)
        weight = np.einsum("pq,kpn,kqn->k", J, w, w, optimize=True) / 2
        right = det(np.eye(d1) + Sigma1 @ (R1 - J)) ** (-N1 / 2)
        one = sampled(np.exp(1j * phase + weight), right + 0j, scale=1.0, precision=0.005)
        drawn = self.wisharts(Sigma1, N1)
        tilt = np.exp(-N1 / 2 * np.einsum("kpq,qp->k", drawn, R1))
        mean, factor = np.linalg.inv(np.linalg.inv(Sigma1) + R1), det(np.eye(d1) + Sigma1 @ R1) ** (-N1 / 2)
        tilted, upper = tilt[:, None, None] * drawn, small.upper
        two = sampled(tilted[:, *upper], (factor * mean)[upper], scale=factor * np.abs(mean).max())
        log_term = lambda J: -N1 / 2 * jnp.linalg.slogdet(jnp.eye(d1) + Sigma1 @ (R1 - J))[1]  # noqa: E731
        slope = 2 * jax.jit(jax.grad(log_term))(jnp.zeros((d1, d1))), N1 * mean
        saddle = np.linalg.inv(drawn[0]) - np.linalg.inv(Sigma1)
        shift = np.linalg.inv(np.linalg.inv(Sigma1) + saddle), drawn[0]
        return max(one, two), exact(slope, shift)

    def with_projection(self) -> float:
        """Overlaps of effective weights that contain V^(0), at any U."""
        small, U, P, N0 = self.small, self.small.chain(1)[2][0], self.small.examples, self.small.features
        seen = small.xi[:P].reshape(P, -1) / np.sqrt(N0 * self.d1)  # f = seen . beta
        before = self.s0 * np.kron(U, np.eye(N0))
        gain = before @ seen.T @ np.linalg.inv(small.kernel(U)[:P, :P] + small.temperature * np.eye(P))
        second = before - gain @ seen @ before + np.outer(gain @ small.labels, gain @ small.labels)
        overlaps = np.einsum("piqi->pq", second.reshape(self.d1, N0, self.d1, N0)) / N0
        problem = small.problem()
        slope = jax.jit(jax.grad(lambda U: sma.theory.energy(problem, U)))
        return exact((self.s0 * (U - P / N0 * U @ slope(U) @ U), overlaps))


def stirling(widths=(10, 100, 1000), variance: float = 0.9) -> np.ndarray:
    """N times the relative excess of the saddle point (D15) over the gamma density, at three U: (widths, points)."""
    U, found = np.array([0.3, 0.8, 2.0]), []
    for N in widths:
        log_saddle = N / 2 * (1 - (U / variance - np.log(U / variance))) + 0.5 * np.log(N / (4 * np.pi)) - np.log(U)
        found.append(N * np.expm1(log_saddle - stats.gamma(N / 2, scale=2 * variance / N).logpdf(U)))
    return np.array(found)
