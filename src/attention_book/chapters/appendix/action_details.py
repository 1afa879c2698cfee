"""Details of the action: its coordinates, several minima, what is convex, the first order in P / N."""

import jax
import jax.numpy as jnp
import numpy as np

import statmech_attention as sma
from attention_book import plotting
from attention_book.measures import training_kernel
from attention_book.notebooks.comparisons import exact
from statmech_attention.plotting.style import MUTED


def random_order_parameters(random, heads, spread: float) -> tuple:
    """Positive definite order parameters far from the prior's, layer by layer in the coordinates (A8)."""
    factor = np.exp(spread * random.normal(size=(1, 1)))
    order = [jnp.asarray((factor @ factor.T)[0, 0])]
    for count in reversed(heads):
        size = count * len(factor)
        relative = spread * np.tril(random.normal(size=(size, size)), -1)
        factor = np.kron(np.eye(count), factor) @ (relative + np.diag(np.exp(spread * random.normal(size=size))))
        order.insert(0, jnp.asarray(factor @ factor.T))
    return tuple(order)


def off_coordinates(random, heads=(2, 1, 3), width=(10, 40, 20, 5), variance=(1.0, 0.5, 2.0, 3.0, 0.7)) -> float:
    """(A7) with dense matrices, and (A9), against the package."""
    order = random_order_parameters(random, heads, 0.5)
    matrices = [np.atleast_2d(one) for one in order]
    factors, above = [np.linalg.cholesky(one) for one in matrices], [*map(np.eye, heads), np.eye(1)]
    by_matrices = by_numbers = 0.0
    for l, n in enumerate(width):  # noqa: E741
        upper = np.kron(above[l], matrices[l + 1]) if l < len(heads) else np.eye(1)
        ratio = np.linalg.solve(variance[l + 1] * upper, matrices[l])
        by_matrices += n / max(width) * (np.trace(ratio) - np.linalg.slogdet(ratio)[1])
        prescribed = np.kron(above[l], factors[l + 1]) if l < len(heads) else np.eye(1)
        F = np.linalg.solve(prescribed, factors[l]) / np.sqrt(variance[l + 1])  # (A8)
        assert np.max(np.abs(np.triu(F, 1))) < 1e-12
        by_numbers += n / max(width) * (np.sum(F**2) - 2 * np.sum(np.log(np.diag(F))))
    value = sma.theory.entropy(order, layers=heads, width=width, variance=variance)
    return exact((by_matrices, value), (by_numbers, value))


def off_next_layer(solution: sma.Solution) -> float:
    """(O2) in both layers of a solution with two layers of two heads and unit variances."""
    first, second, third = (np.atleast_2d(value) for value in solution.order_parameters)
    n1, n2, n3 = np.asarray(solution.problem.width)
    pairs = []
    for lower, V, above, share in ((first, second, 2 * [third], n2 / n1), (second, third, [np.eye(1)], n3 / n2)):
        size = len(V)
        B = sum(lower[h * size : (h + 1) * size, h * size : (h + 1) * size] for h in range(2))
        Sigma = np.diag([float(one.squeeze()) for one in above])
        pairs.append((2 * V + share * (V @ np.linalg.solve(Sigma, V) - V), B))
    return exact(*pairs)


def spread_of_starts(problem: sma.Problem, random, starts: int = 8) -> float:
    """Largest difference of the action between saddle points from random starts."""
    found = [sma.solve(problem, start=random_order_parameters(random, (2, 2), 1.5)) for _ in range(starts)]
    return float(np.ptp([one.action for one in found]))


def problems_with_several(random, widths=(10, 3, 1), problems: int = 15, starts: int = 6) -> dict[float, int]:
    """In how many small random problems random starts end in different minima, by width."""
    several = dict.fromkeys(widths, 0)
    begins = [random_order_parameters(random, (2, 2), 1.5) for _ in range(starts)]
    for index in range(problems):
        inputs = random.normal(size=(24, 4, 8)) * np.exp(random.normal(size=(1, 4, 1)))
        labels = np.sign(random.normal(size=24) if index % 2 else inputs[:, 0] @ random.normal(size=8))
        problem = sma.Problem(jnp.asarray(inputs), labels, temperature=0.01, layers=(2, 2))
        for width in widths:
            found = [sma.solve(problem.replace(width=width), start=one, throw=False) for one in begins]
            ended = [float(one.action) for one in found if int(one.outcome) == sma.Outcome.CONVERGED]
            several[width] += len(np.unique(np.round(ended, 6))) > 1
    return several


class Jump:
    """Labels that hold a little along many strong directions and much along a few weak ones."""

    def __init__(self, strong: int = 34, weak: int = 6):
        size = strong + weak
        in_labels = np.r_[3.0 * np.ones(strong), 20.0 * np.ones(weak)]  # (v_i . Y)^2, up to the norm of Y
        noise = size / in_labels.sum()
        strengths = noise * np.r_[1000.0 * np.ones(strong), 10.0 * np.ones(weak)]  # eigenvalues of K at U = 1
        labels = np.where(np.arange(size) % 2, 1.0, -1.0)
        mirror = np.sqrt(in_labels * noise) - labels
        rotation = np.eye(size) - 2 * np.outer(mirror, mirror) / (mirror @ mirror)  # these components to labels
        inputs = jnp.asarray((rotation * np.sqrt(size * strengths))[:, None, :])
        problem = sma.Problem(inputs, labels, width=10, temperature=noise, layers=(1,))
        self.widths, ends, start = np.geomspace(30, 6, 37), [], None
        for widths in (self.widths, self.widths[::-1]):
            for width in widths:
                start = sma.solve(problem.replace(width=width), start=start)
                ends.append((float(start.action), float(start.order_parameter[0, 0])))
        found = np.array(ends).reshape(2, -1, 2)
        found[1] = found[1, ::-1]
        self.followed = found[..., 1]  # with falling and with rising width
        gap = found[0, :, 0] - found[1, :, 0]
        both = np.abs(gap) > 1e-8
        self.coexist = self.widths[both].min(), self.widths[both].max()
        order = np.argsort(gap[both])
        self.transition = float(np.exp(np.interp(0, gap[both][order], np.log(self.widths[both])[order])))


class Split:
    """Examples in mirror pairs: one path sees the same vector in both, the other opposite ones."""

    def __init__(self, pairs: int = 8):
        basis = np.eye(3 * pairs)
        rows = [[sign * 2 * basis[i], 2 * basis[i]] for i in range(pairs) for sign in (1, -1)]
        rows += [[0.3 * basis[pairs + i], 0 * basis[0]] for i in range(pairs)]
        rows += [[0 * basis[0], 0.3 * basis[2 * pairs + i]] for i in range(pairs)]
        inputs = jnp.asarray(np.sqrt(3 * pairs) * np.array(rows))
        problem = sma.Problem(inputs, jnp.ones(4 * pairs), width=5, temperature=0.01, layers=(2,))
        self.widths = np.r_[np.geomspace(30, 8, 5), np.linspace(7.7, 7.1, 9), np.geomspace(7, 3, 8)]
        self.branches = []
        for sign in (1, -1):
            start = (jnp.array([[6.0, 3.0 * sign], [3.0 * sign, 6.0]]), jnp.array(3.0))
            self.branches.append([sma.solve(problem.replace(width=width), start=start) for width in self.widths])
        up, down = ([one.action for one in branch] for branch in self.branches)
        np.testing.assert_allclose(up, down, atol=1e-9)
        U = np.array([[one.order_parameter for one in branch] for branch in self.branches])
        self.correlations = U[..., 0, 1] / np.sqrt(U[..., 0, 0] * U[..., 1, 1])
        self.onset = float(self.widths[np.abs(self.correlations[0]) > 1e-3].max())
        # From the limit the solver does not stop at the saddle U_12 = 0.
        assert abs(float(sma.solve(problem).order_parameter[0, 1])) > 1
        turn = np.diag([-1.0, 1.0])
        self.mirrored = exact((turn @ U[0, -1] @ turn, U[1, -1])) + float(np.abs(U[0, 0, 0, 1]))


def minima(jump: Jump, split: Split) -> None:
    """Draw the hysteresis of the one and the pitchfork of the other."""
    _, (left, right) = plotting.new_figure(1, 2, figsize=(6.5, 3.1))
    for U, colour, name in zip(jump.followed, ("indigo", "teal"), ("falling", "rising"), strict=True):
        left.plot(jump.widths, U, ".-", color=MUTED[colour], label=f"$N$ {name}")
    left.axvline(jump.transition, color="0.6", linestyle="--")
    left.set(xscale="log", yscale="log", xlabel="width $N$", ylabel="order parameter $U$")
    left.legend()
    for correlation, colour in zip(split.correlations, ("indigo", "rose"), strict=True):
        right.plot(split.widths, correlation, ".-", color=MUTED[colour])
    right.set(xscale="log", xlabel="width $N$", ylabel=r"$U_{12} / \sqrt{U_{11} U_{22}}$")
    for panel, marks in ((left, (6, 10, 20, 30)), (right, (3, 5, 10, 20, 30))):
        panel.set_xticks(marks, marks)
        panel.minorticks_off()


def turned(two: sma.Problem) -> float:
    """Exercise 3: one path's inputs with the other sign give D U D and the same kernel."""
    inputs, sign = two.attentioned.values, np.diag([-1.0, 1.0])
    found = sma.solve(two)
    other = sma.solve(two.replace(attentioned=sma.AttentionedInputs(inputs * jnp.array([-1.0, 1.0])[:, None], (2,))))
    return exact(
        (sign @ other.order_parameter @ sign, found.order_parameter),
        (
            training_kernel(other),
            training_kernel(found),
        ),
    )


def first_order(problem: sma.Problem, width: float = 1e6) -> float:
    """Exercise 4: N (U - I) of the theory against its first order, two layers of two heads."""
    energy = lambda U: len(problem.labels) * sma.theory.energy(problem, U)  # noqa: E731
    G = np.asarray(jax.jit(jax.grad(energy))(jnp.eye(4)))
    blocks = (0.5 * (G + G.T)).reshape(2, 2, 2, 2)
    upper = np.kron(np.eye(2), np.einsum("kpkq->pq", blocks))
    found = sma.solve(problem.replace(width=width)).order_parameter
    return exact((width * (np.asarray(found) - np.eye(4)), -(0.5 * (G + G.T) + upper + np.eye(4) * np.trace(G))))


def _power(matrix, exponent):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * values**exponent) @ vectors.T


def _midpoint(a, b):
    a, b = np.atleast_2d(a), np.atleast_2d(b)
    root, inverse = _power(a, 0.5), _power(a, -0.5)
    return root @ _power(inverse @ b @ inverse, 0.5) @ root


def convexity(problem: sma.Problem, random, pairs: int = 50) -> dict[str, float]:
    """Least excess of the mean of two ends over the midpoint, per part of the action and kind of line."""
    labels, T = np.asarray(problem.labels), float(problem.temperature)

    def parts(U):
        gram = np.asarray(sma.kernel(problem.attentioned, problem.attentioned, jnp.asarray(U))) + T * np.eye(
            len(labels)
        )
        return np.array([np.linalg.slogdet(gram)[1], labels @ np.linalg.solve(gram, labels)]) / len(labels)

    found: dict[str, float] = {}
    for _ in range(pairs):
        ends = [random_order_parameters(random, (2, 2), 1.0) for _ in range(2)]
        *bent, top = (jnp.asarray(_midpoint(a, b)) for a, b in zip(*ends, strict=True))
        entropy = [float(sma.theory.entropy(order, layers=(2, 2))) for order in (*ends, (*bent, top[0, 0]))]
        excess = {"entropy, geodesic": (entropy[0] + entropy[1]) / 2 - entropy[2]}
        mean = (parts(ends[0][0]) + parts(ends[1][0])) / 2
        for name, middle in (("geodesic", bent[0]), ("straight", (ends[0][0] + ends[1][0]) / 2)):
            volume, misfit = mean - parts(middle)
            excess |= {f"volume, {name}": volume, f"misfit, {name}": misfit}
        excess["volume, straight"] *= -1  # concave
        found = {name: min(value, found.get(name, np.inf)) for name, value in excess.items()}
    return found
