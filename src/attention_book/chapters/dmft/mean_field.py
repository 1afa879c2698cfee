# mypy: ignore-errors
"""The generating functional on networks so small that every sum and integral is carried out."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from scipy.special import gammaln, logsumexp

from attention_book import plotting
from statmech_attention import dmft
from statmech_attention.plotting.style import MUTED

WINDOW, STEPS = 2, 3


def approach_figure(model, target, seed: int, sizes) -> None:
    """One run each of growing networks beside the limit."""
    steps = len(target)
    figure, axes = plotting.new_figure(len(sizes), 1, figsize=(5.2, 1.35 * len(sizes)), sharex=True, sharey=True)
    for panel, copies in zip(axes, sizes, strict=True):
        options = dict(steps=steps, copies=copies, keep="output_words")
        run = dmft.simulate(model, key=jax.random.key(seed), **options).overlaps.output_words[0]
        panel.plot(np.arange(1, steps + 1), run[:, 0], color="0.35", linewidth=1.3)
        panel.plot(np.arange(1, steps + 1), target[:, 0], ":", color=MUTED["rose"], linewidth=1.8)
        panel.set_title(f"$N$ = {copies * model.patterns.sites:,}".replace(",", "\u2009"), loc="left")
        panel.set_ylabel("$m^o_1$")
    axes[-1].set(xlabel="time $t$")


def random_patterns(random, features: int, sites: int):
    """Independent bits for a small network."""

    def draw():
        return random.choice([-1.0, 1.0], (features, sites)), random.choice([-1.0, 1.0], (features, 1))

    return dmft.patterns_from_arrays(query=draw(), key=draw(), value=draw(), output=draw())


class Small:
    """A network with few sites: all its paths, and the action (B6) of its overlaps."""

    def __init__(self, patterns, beta: float, gamma: float, epsilon: float):
        self.patterns, self.beta, self.gamma, self.epsilon = patterns, beta, gamma, epsilon
        self.first = jnp.asarray(patterns.output.words[0])
        self.tables = (patterns.query, patterns.key, patterns.value)
        self.nothing = jnp.zeros((STEPS, patterns.sites))

    def _positions(self, t: int):
        code = dmft.positional_code(WINDOW)[t % WINDOW]
        return [table.positions @ code / self.patterns.bits for table in self.tables]

    def overlaps(self, word, t: int):
        """m^q, m^k, m^v of (B1)."""
        sites, share = self.patterns.sites, self.epsilon
        pairs = zip(self.tables, self._positions(t), strict=True)
        return [(1 - share) * table.words @ word / sites + share * position for table, position in pairs]

    def field(self, tokens):
        """h_i for the word after the last of the tokens, each a triple of overlaps; (B2) and (B3)."""
        tokens = tokens[-WINDOW:]
        keys, values = jnp.stack([k for _, k, _ in tokens]), jnp.stack([v for _, _, v in tokens])
        weights = jax.nn.softmax(self.gamma / np.sqrt(keys.shape[1]) * keys @ tokens[-1][0])
        return self.patterns.output.words.T @ (weights @ values)

    def _fields(self, tokens):
        return self.beta * jnp.stack([self.field(tokens[: t + 1]) for t in range(len(tokens) - 1)])

    def log_weight(self, path):
        """Logarithm of (G1); the path begins with s_0."""
        h = self._fields([self.overlaps(word, t) for t, word in enumerate(path)])
        return jnp.sum(path[1:] * h - jnp.log(2 * jnp.cosh(h)))

    def paths(self, steps: int = STEPS):
        """All paths and the logarithms of their probabilities."""
        words = np.array(list(itertools.product([-1.0, 1.0], repeat=len(self.first) * steps)))
        words = words.reshape(-1, steps, len(self.first))
        paths = np.concatenate([np.broadcast_to(self.first, (len(words), 1, len(self.first))), words], axis=1)
        return paths, jax.jit(jax.vmap(self.log_weight))(paths)

    def phi(self, m, y, sources):
        """(B6) with m-hat = -i y; m and y are (steps, 3, features)."""
        h = self._fields([self.overlaps(self.first, 0), *[list(one) for one in m]])
        tables = jnp.stack([table.words for table in self.tables])
        position = jnp.stack([jnp.stack(self._positions(t)) for t in range(1, len(m) + 1)])
        inner = h + sources - (1 - self.epsilon) * jnp.einsum("txa,xai->ti", y, tables)
        ratio = jnp.sum(jnp.log(jnp.cosh(inner) / jnp.cosh(h))) / self.patterns.sites
        return jnp.sum(y * (m - self.epsilon * position)) + ratio


def generating(sources, logs, paths):
    """Z(g) of (G2)."""
    return jnp.sum(jnp.exp(logs + jnp.sum(sources * paths[:, 1:], axis=(1, 2))))


def functional_against_paths(small: Small, random) -> float:
    """Largest deviation in (G2), (G3), Z(0) = 1 and causality from sums over all paths."""
    paths, logs = small.paths()

    def ln_z(sources):
        return jnp.log(generating(sources, logs, paths))

    mean, covariance = jax.jit(jax.grad(ln_z))(small.nothing), jax.jit(jax.hessian(ln_z))(small.nothing)
    weights, centred = np.exp(logs), paths[:, 1:] - np.asarray(mean)
    shorter, shorter_logs = small.paths(STEPS - 1)
    sources = jnp.asarray(random.normal(size=small.nothing.shape)).at[-1].set(0)
    sides = [
        (weights.sum(), 1.0),
        (mean, np.einsum("p,pti->ti", weights, paths[:, 1:])),
        (covariance, np.einsum("p,pti,puj->tiuj", weights, centred, centred)),
        (generating(sources, logs, paths) / generating(sources[:-1], shorter_logs, shorter), 1.0),
    ]
    return float(max(np.max(np.abs(np.asarray(one) - np.asarray(other))) for one, other in sides))


def integral_against_paths(single: Small, sources) -> float:
    """Relative deviation of the sums (B6), (G4) from the list of paths, with sources and without; one pattern."""
    sites = single.patterns.sites
    table = np.concatenate([np.asarray(one.words) for one in single.tables])  # three overlaps, sites
    lattice = np.array(list(itertools.product(range(-sites, sites + 1, 2), repeat=3)))  # K of query, key, value
    angles = np.pi * np.array(list(itertools.product(range(sites + 1), repeat=3))) / (sites + 1)

    def token(sums, t):
        positions = enumerate(single._positions(t))
        return [(1 - single.epsilon) * sums[n, None] / sites + single.epsilon * one for n, one in positions]

    def weight(h, g):
        """For every K the sum over theta of exp(N Phi_t), with fields h and sources g of one time."""
        inner = single.beta * h + g - 1j * angles @ table
        spins = jnp.prod(jnp.cosh(inner) / jnp.cosh(single.beta * h), axis=1)
        return jnp.exp(1j * lattice @ angles.T) @ spins / len(angles)

    @jax.jit
    def integral(sources):
        start = single.overlaps(single.first, 0)

        def first_step(sums):
            one = token(sums, 1)

            def second_step(others):
                h = single.beta * single.field([one, token(others, 2)])
                return jnp.prod(jnp.cosh(h + sources[2]) / jnp.cosh(h))

            return weight(single.field([start, one]), sources[1]) @ jax.vmap(second_step)(lattice)

        return weight(single.field([start]), sources[0]) @ jax.vmap(first_step)(lattice)

    paths, logs = single.paths()
    return float(max(abs(integral(g) / generating(g, logs, paths) - 1) for g in (sources, 0 * sources)))


def saddle_point_deviation(small: Small, random) -> float:
    """(G6) read backwards for any m, and gradient and value of Phi at (G7)."""
    shape = (STEPS, 3, small.patterns.features)
    by_m, by_y = (jax.jit(jax.grad(small.phi, argnums=place)) for place in (0, 1))
    some, others = (jnp.asarray(random.uniform(-1, 1, shape)) for _ in range(2))
    gaps = [by_m(some, others.at[t + 1 :].set(0), small.nothing)[t] - others[t] for t in range(STEPS)]
    model = dmft.dynamics(small.patterns, beta=small.beta, gamma=small.gamma, epsilon=small.epsilon)
    limit = dmft.trajectory(model, dmft.initial_window(model), steps=STEPS)
    m = jnp.stack([limit.query, limit.key, limit.value], axis=1)
    gaps += [by_m(m, 0 * m, small.nothing), by_y(m, 0 * m, small.nothing), small.phi(m, 0 * m, small.nothing)]
    return float(max(jnp.max(jnp.abs(gap)) for gap in gaps))


def next_order(single: Small, sources, sizes) -> tuple[dict[int, float], float]:
    """ln Z - N Phi by N, of the network with every site repeated, and its limit by (G8); two steps."""
    pull, shape = 0.5 * sources[:2], (2, 3, 1)
    size = int(np.prod(shape))

    def phi_of(z, part):
        return single.phi(z[:size].reshape(shape), z[size:].reshape(shape), part * pull)

    gradient, curvature = jax.jit(jax.grad(phi_of)), jax.jit(jax.hessian(phi_of))
    model = dmft.dynamics(single.patterns, beta=single.beta, gamma=single.gamma, epsilon=single.epsilon)
    begin = dmft.trajectory(model, dmft.initial_window(model), steps=2)
    guess = np.concatenate([np.stack([begin.query, begin.key, begin.value], axis=1).ravel(), np.zeros(size)])
    for part in np.linspace(0, 1, 11):  # turn the sources on step by step
        guess = scipy.optimize.root(gradient, guess, args=(part,), jac=curvature, tol=1e-12).x
    assert np.abs(gradient(guess, 1.0)).max() < 1e-9
    start, words = single.overlaps(single.first, 0), single.patterns.output.words
    h = single.beta * np.asarray(single.field([start]))

    @jax.jit
    @jax.vmap
    def second(mean):
        """Logarithm of the sum over the second word, per copy, after a first word with this mean."""
        later = single.beta * single.field([start, single.overlaps(mean, 1)])
        return jnp.sum(jnp.log(jnp.cosh(later + pull[1]) / jnp.cosh(later)))

    def log_z(times):
        counts = np.array(list(itertools.product(range(times + 1), repeat=words.shape[1])))
        ways = np.sum(gammaln(times + 1) - gammaln(counts + 1) - gammaln(times - counts + 1), axis=1)
        means = 2 * counts / times - 1  # mean word of a site's copies
        first = ways + times * (means @ (h + np.asarray(pull[0])) - np.sum(np.log(2 * np.cosh(h))))
        return float(logsumexp(first + times * np.asarray(second(means))))

    paths, logs = single.paths()
    listed = jnp.log(generating(jnp.concatenate([pull, 0 * pull[:1]]), logs, paths))
    assert abs(log_z(1) - listed) < 1e-12
    sites, limit = single.patterns.sites, float(phi_of(guess, 1.0))
    sign, determinant = np.linalg.slogdet(np.asarray(curvature(guess, 1.0)))
    assert sign == (-1) ** size
    return {sites * times: log_z(times) - sites * times * limit for times in sizes}, -0.5 * float(determinant)


def averages_deviation(patterns, beta: float, random) -> float:
    """(B9), (B10) and (B11) against a sum over sites, for any attention."""
    tables = [np.asarray(getattr(patterns, name).words) for name in ("query", "key", "value", "output")]
    count, vector = patterns.features, random.normal(size=patterns.features)
    subsets = [T for size in range(1, count + 1, 2) for T in itertools.combinations(range(count), size)]
    products = np.stack([np.prod(tables[3][list(T)], axis=0) for T in subsets])
    correlations = [products @ table.T / patterns.sites for table in tables]
    by_sites = np.array([table @ np.tanh(beta * tables[3].T @ vector) / patterns.sites for table in tables])
    starts = np.arange(0, patterns.sites, patterns.sites // 3)
    by_segments = [table[:, starts] @ np.tanh(beta * tables[3][:, starts].T @ vector) / 3 for table in tables]
    signs = np.array(list(itertools.product([-1, 1], repeat=count)))
    c = [np.mean(np.prod(signs[:, T], axis=1) * np.tanh(beta * signs @ vector)) for T in subsets]
    by_characters = [sum(one * row for one, row in zip(c, C, strict=True)) for C in correlations]
    half = signs[signs[:, 0] == 1]

    def outer(rows):
        return sum(np.outer(np.prod(half[:, T], axis=1), row) for T, row in zip(subsets, rows, strict=True))

    by_vectors = [outer(C).T @ np.tanh(beta * half @ vector) / len(half) for C in correlations]
    return float(max(np.max(np.abs(np.array(one) - by_sites)) for one in (by_segments, by_characters, by_vectors)))
