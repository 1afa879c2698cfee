"""One chain of layers, with skips."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

import statmech_attention as sma
from attention_book import plotting
from statmech_attention import sampling
from statmech_attention.layers import chain
from statmech_attention.plotting.style import MUTED

LAYERS = (2, sma.SkipHeads(1), sma.Linear(), sma.Outputs(2))
VARIANCE = 1.3
SKIP = (sma.SkipHeads(1), 2)  # of the small problem: a skip with one head, below a layer of two heads


def layers_drawn():
    """Draw the effective weights that layers of four kinds make of those above them."""
    figure, panels = plotting.new_figure(1, 4, figsize=(6.6, 2.3), width_ratios=(5, 3.4, 3.4, 3.4))
    kinds = (("two heads", 2, False), ("beside a skip", 3, True), ("linear block", 1, False), ("outputs", 3, False))
    for panel, (name, count, keeps) in zip(panels, kinds, strict=True):
        for place, x in enumerate(np.arange(count) - (count - 1) / 2):
            kept = keeps and place == 0
            panel.plot([0, x], [2, 1], color="0.2" if kept else "0.6", linewidth=3 if kept else 1.2, zorder=0)
            panel.plot([x, x], [1, 0], color="0.6", linewidth=1.2, zorder=0)
            panel.plot(x, 1, "o", markersize=11, markeredgecolor="0.2", color="0.2" if kept else "white")
            panel.plot(x, 0, "s", markersize=10, markeredgecolor="0.2", color="0.85")
        panel.plot(0, 2, "D", markersize=9, color="0.5")
        panel.set_title(name, fontsize=12)
        panel.set(xlim=(-3.3 if panel is panels[0] else -1.7, 1.7), ylim=(-0.4, 2.5))
        panel.axis("off")
    for y, text in ((2, "row"), (1, "seeds"), (0, "branches")):
        panels[0].text(-3.3, y, text, fontsize=11, color="0.35", va="center")


def outputs(seed: int, width: int) -> dict[str, float]:
    """Errors of (X1), (X2) and (X7) in one network with weights from the prior."""
    examples, tokens, features, layers = 3, 4, 5, chain(LAYERS)
    keys = jax.random.split(jax.random.key(seed), 4)
    weights = sma.sample_weights(keys[0], layers=LAYERS, width=width, features=features, variance=VARIANCE)
    rows = np.ones((1, 1))
    above = np.asarray(weights.readout).T[:, None], *reversed(weights.values)
    for layer, matrices in zip(reversed(layers.kinds), above, strict=True):
        seeds = [rows] if layer.keeps else []
        seeds += [rows @ np.asarray(one) / math.sqrt(VARIANCE * rows.shape[1]) for one in matrices]
        rows = np.einsum("bs,spn->bpn", layer.mixing(math.sqrt(VARIANCE)), seeds).reshape(-1, width)  # (X1)

    inputs = jax.random.normal(keys[1], (examples, tokens, features))
    logits = [
        jax.random.normal(key, (examples, count, tokens, tokens)) for key, count in zip(keys[2:], (2, 1), strict=True)
    ]
    attention = [jax.nn.softmax(one, axis=2) for one in logits]
    xi = sma.attentioned_inputs(inputs, attention, layers=LAYERS)
    coefficients = layers.path_gains / math.sqrt(layers.divisor)
    by_path = rows.reshape(layers.paths, layers.outputs, width)
    sums = jnp.einsum("p,pcn,ni,epi->ec", coefficients, by_path, weights.projection, xi.values)  # (X2)

    plain = sma.attentioned_inputs(inputs, attention, layers=LAYERS[:-1])
    overlap = np.cov(np.random.default_rng(seed).normal(size=(layers.paths, 20)))
    common = jnp.einsum("epi,fqi->epfq", plain.values, plain.values) / features
    gram = jnp.einsum("p,q,pq,epfq->ef", coefficients, coefficients, overlap, common)  # (X7)
    return {
        "X1": _apart(sma.model.effective_weights(weights, layers=LAYERS), rows),
        "X2": _apart(sma.forward(weights, inputs, attention, layers=LAYERS), sums / math.sqrt(width * features)),
        "X7": _apart(sma.kernel(plain, plain, overlap), gram),
    }


def bartlett(random, rows: int, known: int, width: int, draws: int):
    """Triangular factors (X4), `(draws, rows, columns)`; the first rows are known where a seed is kept."""
    columns = min(rows, width)
    factors, places = np.tril(random.normal(size=(draws, rows, columns)) / math.sqrt(width)), np.arange(columns)
    factors[:, places, places] = np.sqrt(random.chisquare(width - places, size=(draws, columns)) / width)
    factors[:, :known] = np.eye(known, columns)
    return factors


def from_factors(draw):
    """Order parameters (X3) from the readout down; `draw(rows, known)` gives the factor of a layer."""
    root, found = np.ones((1, 1, 1)), []
    for layer in reversed(chain(LAYERS).kinds):
        lift = np.einsum("bs,krc->kbrsc", layer.mixing(math.sqrt(VARIANCE)), root)
        lift = lift.reshape(len(root), layer.branches * root.shape[1], layer.seeds * root.shape[2])
        root = lift @ draw(lift.shape[2], layer.keeps * root.shape[2])
        found.insert(0, root @ np.swapaxes(root, 1, 2))
    return found


def prior(seed: int, width: int, networks: int):
    """U^(1) by (X3), (X4) and of networks; largest gap of all order parameters in standard errors."""
    random = np.random.default_rng(seed)
    by_law = from_factors(lambda rows, known: bartlett(random, rows, known, width, networks))

    @jax.jit
    @jax.vmap
    def of_network(key):
        drawn = sma.sample_weights(key, layers=LAYERS, width=width, features=1, variance=VARIANCE)
        return sma.model.weights_order_parameters(drawn, layers=LAYERS)

    by_weights = [np.asarray(one) for one in of_network(jax.random.split(jax.random.key(seed), networks))]
    gaps = []
    for one, other in zip(by_law, by_weights, strict=True):
        for a, b in ((one, other), (one**2, other**2), (np.abs(one), np.abs(other))):
            error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / networks)
            gaps.append(float(np.max(np.abs(a.mean(axis=0) - b.mean(axis=0)) / error)))
    assert np.linalg.matrix_rank(by_law[0][0]) == np.linalg.matrix_rank(by_weights[0][0]) == min(width, 8)
    return by_law[0], by_weights[0], max(gaps)


def prior_drawn(by_law, by_weights) -> None:
    """Law of one entry, and mean absolute values of all entries."""
    _, (left, right) = plotting.new_figure(1, 2, figsize=(6.4, 3.2))
    edges = np.linspace(0, np.quantile(by_weights[:, 0, 0], 0.98), 50)
    plotting.law(by_weights[:, 0, 0], label="networks", bins=edges, filled=True, axes=left)
    plotting.law(by_law[:, 0, 0], label="factors", bins=edges, axes=left)
    left.set_xlabel("$U^{(1)}_{11}$")
    left.legend()
    one, other = np.abs(by_law), np.abs(by_weights)
    errors = np.sqrt((one.var(axis=0) + other.var(axis=0)) / len(one))
    plotting.entries_sampled(one.mean(axis=0), other.mean(axis=0), errors, axes=right)
    right.set(xlabel="$E|U|$, factors", ylabel="$E|U|$, networks")
    plotting.label_panels((left, right))


def entropies(seed: int, width: int = 20) -> float:
    """Error of (X5): against the package's entropy, and against SciPy's densities of (X4) up to a constant."""
    random, rests, apart = np.random.default_rng(seed), [], []
    for _ in range(3):
        parts: list[tuple[float, float]] = []

        def draw(rows, known, parts=parts):
            factor = bartlett(random, rows, known, width, 1)
            free, places = factor[0, known:], np.arange(known, rows)
            diagonal, below = np.diagonal(factor[0])[known:], free[np.tril(np.ones((rows, rows), bool), -1)[known:]]
            entropy = np.sum(free**2) - 2 * np.sum(np.log(diagonal))  # (X5)
            density = scipy.stats.norm.logpdf(below, scale=1 / math.sqrt(width)).sum() + np.sum(
                scipy.stats.chi.logpdf(diagonal, width - places, scale=1 / math.sqrt(width)) + np.log(diagonal)
            )
            parts.append((entropy, density + width / 2 * entropy + np.sum(places * np.log(diagonal))))
            return factor

        overlaps = [jnp.asarray(one[0]) for one in from_factors(draw)]
        apart.append(
            float(sma.theory.entropy(overlaps, layers=LAYERS, variance=VARIANCE)) - sum(one for one, _ in parts)
        )
        rests.append([rest for _, rest in parts])
    return max(np.ptp(rests, axis=0).max(), np.abs(apart).max())


def limit() -> float:
    """Error of (X6)."""
    variances, above, errors = (1.0, 0.7, 1.4, 0.6, 2.0), np.eye(1), []
    overlaps = sma.theory.gp_order_parameters(LAYERS, variance=variances)
    for layer, squared, overlap in zip(
        reversed(chain(LAYERS).kinds), reversed(variances[1:]), reversed(overlaps), strict=True
    ):
        mixing = layer.mixing(math.sqrt(squared))
        above = np.kron(mixing @ mixing.T, above)
        errors.append(_apart(overlap, above))
    return max(errors)


def beside_a_skip(seed: int, width: int, draws: int, variance: float = 1.5) -> tuple[float, float]:
    """Largest gap of moments of (R3) and (R4) in standard errors, two heads below two outputs; error of (R5)."""
    random, layers = np.random.default_rng(seed), (sma.SkipHeads(2), sma.Outputs(2))
    w = random.normal(size=(2, width))
    U, d, freedom = w @ w.T / width, 2, width - 2
    values = random.normal(size=(draws, 2, width, width)) * math.sqrt(variance)
    X = np.einsum("an,khnm->kham", w, values).reshape(draws, -1, width) / math.sqrt(width)
    B, W = np.einsum("an,kbn->kab", w, X) / width, np.einsum("kan,kbn->kab", X, X) / width
    schur = W - np.einsum("kab,ac,kcd->kbd", B, np.linalg.inv(U), B)
    Sigma = variance * np.kron(np.eye(2), U)
    swapped = np.einsum("ac,bd->abcd", Sigma, Sigma) + np.einsum("ad,bc->abcd", Sigma, Sigma)
    exact = [
        (np.einsum("kab,kcd->kabcd", B, B), np.einsum("ac,bd->abcd", U, Sigma) / width),  # (R3)
        (schur, freedom / width * Sigma),  # (R4), its mean, its squares, independence
        (
            np.einsum("kab,kcd->kabcd", schur, schur),
            (freedom**2 * np.einsum("ab,cd->abcd", Sigma, Sigma) + freedom * swapped) / width**2,
        ),
        (
            np.einsum("kab,kcd,kef->kabcdef", B, B, schur),
            np.einsum("ac,bd,ef->abcdef", U, Sigma, freedom / width * Sigma) / width,
        ),
    ]
    gaps = [np.max(np.abs(a.mean(axis=0) - b) / (a.std(axis=0) / math.sqrt(draws))) for a, b in exact]

    # With a unit matrix added to W the Schur complement is positive definite at every width.
    points, errors = [(U, B[0], W[0] + np.eye(4)), (2 * U + np.eye(2), B[1], W[1] + np.eye(4))], []
    for number in (3 * d, 1000):
        rests = [
            _density(*one, number, variance) - _kept_entropy(*one, variance) - _left_out(*one, number) for one in points
        ]
        errors.append(abs(rests[0] - rests[1]))
    for U_one, B_one, W_one in points:
        blocks = np.block([[U_one, B_one], [B_one.T, W_one]]), U_one
        package = float(sma.theory.entropy(blocks, layers=layers, variance=(1.0, variance, 1.0)))
        by_hand = _kept_entropy(U_one, B_one, W_one, variance) + np.trace(U_one) - np.linalg.slogdet(U_one)[1]
        errors.append(abs(package - by_hand))
    return float(max(gaps)), float(max(errors))


def _kept_entropy(U, B, W, variance):
    """The layer's entropy s_l of (R5)."""
    Sigma, schur = variance * np.kron(np.eye(2), U), W - B.T @ np.linalg.solve(U, B)
    return np.trace(np.linalg.solve(Sigma, W)) - np.linalg.slogdet(schur)[1] + np.linalg.slogdet(Sigma)[1]


def _density(U, B, W, width, variance):
    """-2/N ln p by SciPy, (R3) and (R4)."""
    Sigma, schur = variance * np.kron(np.eye(2), U) / width, W - B.T @ np.linalg.solve(U, B)
    log_b = scipy.stats.matrix_normal.logpdf(B, rowcov=U, colcov=Sigma)
    return -2 / width * (log_b + scipy.stats.wishart.logpdf(schur, width - len(U), Sigma))


def _left_out(U, B, W, width):
    """The bracket of (R5) over N."""
    schur = W - B.T @ np.linalg.solve(U, B)
    return ((len(U) + len(W) + 1) * np.linalg.slogdet(schur)[1] + len(W) * np.linalg.slogdet(U)[1]) / width


def shared_noise(seed: int, paths: int) -> tuple[np.ndarray, np.ndarray]:
    """52 examples and their labels: the first path sees label and noise, the last one the same noise alone."""
    random, labels = np.random.default_rng(seed + 1), np.where(np.arange(52) % 2, 1.0, -1.0)
    inputs, noise = 0.3 * random.normal(size=(52, paths, 4)), random.normal(size=52)
    inputs[:, 0, 0] += labels + noise
    inputs[:, -1, 0] += noise
    return inputs, labels


def small_problem(seed: int, temperature: float, width: float = 8):
    """Twelve examples seen along four paths: one sees label and noise, one the same noise alone; and test inputs."""
    inputs, labels = shared_noise(seed, paths=4)
    return sma.Problem(inputs[:12], labels[:12], width=width, temperature=temperature, layers=SKIP), inputs[12:]


def block_drawn(below, above) -> None:
    """Order parameters of two layers; the frame is what the skip keeps."""
    figure, panels = plotting.new_figure(1, 2, figsize=(6.4, 3.1))
    for panel, matrix, layer in zip(panels, (above, below), (2, 1), strict=True):
        plotting.chain_order_parameter(matrix, layers=SKIP, layer=layer, limit=np.abs(below).max(), axes=panel)
    plotting.label_panels(panels)
    figure.colorbar(panels[1].images[0], ax=panels, shrink=0.8, label="$U$")


def without_variance(problem, test) -> float:
    """Exponent of (R7): of the mean output's distance from the network without the layer, in the variance."""
    less = sma.solve(_two_heads(problem, (2,)), tolerance=1e-11).predict(test[:, :2]).mean
    distances, variances = [], (1e-1, 1e-3, 1e-4)
    for small in variances:
        full = sma.solve(problem.replace(variance=(1.0, small, 1.0, 1.0)), tolerance=1e-11).predict(test).mean
        distances.append(math.sqrt(np.mean((np.asarray(full) - np.asarray(less)) ** 2)))
    assert distances[-1] < distances[0] / 10
    return math.log(distances[-2] / distances[-1]) / math.log(variances[-2] / variances[-1])


def linear_block(problem) -> tuple[float, float]:
    """A linear block below two heads: exponent of its effect on U in a width; effect of exchanging its widths."""
    without = sma.solve(_two_heads(problem, (2,)), tolerance=1e-11).order_parameter
    wides, apart = (1000, 3000), []
    for wide in wides:
        ways = [_two_heads(problem, (sma.Linear(), 2), width) for width in ((8, wide, 8), (wide, 8, 8))]
        found = [np.asarray(sma.solve(one, tolerance=1e-11).order_parameter) for one in ways]
        apart.append(np.abs(found[0] - without).max())
    return math.log(apart[1] / apart[0]) / math.log(wides[1] / wides[0]), float(
        np.abs(found[0] - found[1]).max() / apart[1]
    )


def against_exact(problem, test, widths, seed: int) -> dict[int, dict]:
    """By width, the saddle point and the exact posterior by weighted points, at the same examples."""
    rows: dict[int, dict] = {}
    for number in sorted(set(widths)):
        at_width = problem.replace(width=number)
        theory = sma.solve(at_width, tolerance=1e-11)
        exact: Any = sampling.importance(at_width, key=jax.random.key(seed + number), points=256, test=test, warn=False)
        gap = np.asarray(theory.predict(test).mean) - exact.output.mean
        rows[number] = {
            "effective": exact.effective_size,
            "distance": math.sqrt(np.mean(gap**2)),
            "error": math.sqrt(np.mean(exact.output.error**2)),
            "theory": np.asarray(theory.order_parameter),
            "exact": exact.order_parameter,
        }
    first, last = rows[min(rows)], rows[max(rows)]
    if max(rows) >= 8 * min(rows):
        assert last["distance"] < first["distance"] / 2 + 5 * last["error"]
    return rows


def against_exact_drawn(rows) -> None:
    """Three entries of U, and the distance of the mean output, against width."""
    _, (left, right) = plotting.new_figure(1, 2, figsize=(6.6, 3.6))
    entries = {
        "kept, $U_{11}$": ((0, 0), "indigo", "o"),
        "head, $W_{22}$": ((3, 3), "green", "s"),
        "between, $B_{12}$": ((0, 3), "rose", "^"),
    }
    for name, ((row, column), colour, marker) in entries.items():
        line = np.array([[one["theory"][row, column] for one in rows.values()]])
        plotting.against_width(list(rows), line, label=name, colour=MUTED[colour], style="-", axes=left)
        means, errors = (
            [getattr(one["exact"], part)[row, column] for one in rows.values()] for part in ("mean", "error")
        )
        left.errorbar(list(rows), means, errors, fmt=marker, color=MUTED[colour], markersize=4)
    left.set_ylabel("$U^{(1)}$")
    plotting.legend_above(left, columns=1)
    found, errors = ([one[part] for one in rows.values()] for part in ("distance", "error"))
    plotting.distance_against_width(
        np.array(list(rows)), {"theory": found}, errors={"theory": errors}, slopes=(-1,), axes=right
    )
    right.set_ylabel("distance of the mean output")
    plotting.legend_above(right)


def _two_heads(problem, layers, width=8):
    """The problem along the two paths of the skip, with other layers."""
    values = problem.attentioned.values[:, :2]
    return sma.Problem(values, problem.labels, width=width, temperature=problem.temperature, layers=layers)


def _apart(one, other) -> float:
    return float(np.max(np.abs(np.asarray(one) - np.asarray(other))))
