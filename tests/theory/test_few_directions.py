"""Few directions against a model of their own: the same truncation in Gram matrices, with SciPy's minimiser."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from scipy.optimize import minimize

import statmech_attention as sma
from statmech_attention.theory import on_tokens
from statmech_attention.theory.levels.features import FeatureLevels

EXAMPLES, NEW, TOKENS, FEATURES, TEMPERATURE = 7, 3, 3, 2, 0.1
CHAINS = {
    "two layers of heads": ((2, 2), 1, (6.0, 4.0, 8.0)),
    "skips": ((sma.SkipHeads(2), sma.SkipHeads(1)), 1, 5.0),
    "narrow heads, two outputs": ((sma.SkipHeads(1, values=2), 2), 2, (5.0, 5.0, 4.0)),
}


def arguments(layers):
    """Random tokens and attention; the last examples are new ones."""
    draw, shape = np.random.default_rng(0), (EXAMPLES + NEW, TOKENS)
    counts = [layer if isinstance(layer, int) else layer.count for layer in layers]
    matrices = [draw.dirichlet(np.ones(TOKENS), (shape[0], count, TOKENS)).swapaxes(2, 3) for count in counts]
    return draw.normal(size=(*shape, FEATURES)), matrices


class Truncated:
    r"""(11) of a few features of every level, in Gram matrices of what passes values and of what it passes by.

    Of $\zeta$, what has passed values, the Gram matrix $\zeta \zeta^\top / N = S + X D^{-1} X^\top$ is free, with
    $X = \zeta d^\top / N$ beside a skip. With the covariance $C$ of $\zeta$ the entropy is
    $\mathrm{tr}\, C^{-1} \zeta \zeta^\top / N - \ln\det C^{-1} S$, less its smallest value.
    """

    def __init__(self, layers, outputs, width, labels, count):
        tokens, matrices = arguments(layers)
        self.outputs, self.labels, self.variance = outputs, labels, np.linspace(0.7, 1.4, len(layers) + 2)
        self.narrow = [getattr(layer, "values", None) for layer in layers]
        self.keeps = [isinstance(layer, sma.SkipHeads) for layer in layers]
        self.widths = np.broadcast_to(width, len(layers) + 1)
        self.maps = []  # of every layer and seed, over all rows (example, token)
        for keep, own in zip(self.keeps, matrices, strict=True):
            heads = own.swapaxes(0, 1) / np.sqrt(own.shape[1])
            seeds = [*([np.broadcast_to(np.eye(TOKENS), own[:, 0].shape)] if keep else []), *heads]
            self.maps.append([scipy.linalg.block_diag(*seed) for seed in seeds])
        self.tokens, read = tokens.reshape(-1, FEATURES), np.tile(np.eye(TOKENS)[-1], EXAMPLES + NEW)
        self.above = [np.outer(read, read)]  # Gram matrices of infinite width from the readout down, and their parts
        self.parts = []
        for place in self.down:
            kept, values = self.passed(place, [self.above[-1]] * len(self.maps[place]))
            self.parts.append((kept, values))
            self.above.append(kept + values)
        self.known = slice(EXAMPLES * TOKENS)
        self.products = self.tokens @ self.tokens.T / FEATURES
        self.features = self.leading(count)

    @property
    def down(self):
        return range(len(self.maps) - 1, -1, -1)

    def passed(self, place, grams):
        """What a layer keeps of its input's Gram matrices, one for each seed, and what has passed its values."""
        each = [one @ gram @ one.T for one, gram in zip(self.maps[place], grams, strict=True)]
        kept, values = each[: self.keeps[place]], each[self.keeps[place] :]
        return sum(kept, np.zeros_like(each[0])), self.variance[1 + place] * sum(values)

    def by_example(self, gram):
        """Sums over the tokens of all pairs of examples."""
        return gram.reshape(2 * (EXAMPLES + NEW, TOKENS)).sum(axis=(1, 3))

    def leading(self, count):
        """Features of every level from the readout down: eigenvectors of what the labels feel, on training rows."""
        kernel = self.by_example(self.products * self.above[-1])[:EXAMPLES, :EXAMPLES]
        scaled = self.variance[0] * self.variance[-1] * kernel + TEMPERATURE * np.eye(EXAMPLES)
        solved, inverse = np.linalg.solve(scaled, self.labels.reshape(EXAMPLES, -1)), np.linalg.inv(scaled)
        pull = np.repeat(np.repeat(self.outputs * inverse + solved @ solved.T, TOKENS, axis=0), TOKENS, axis=1)
        felt, found = pull * self.products[self.known, self.known], []
        for level, gram in reversed(list(enumerate(self.above))):
            sizes, vectors = np.linalg.eigh(gram[self.known, self.known])
            root = (vectors * np.sqrt(np.maximum(sizes, 0.0)))[:, sizes > 1e-12 * sizes[-1]]
            leading = np.linalg.eigh(root.T @ felt @ root)[1][:, ::-1][:, :count]
            found.insert(0, np.pad(np.linalg.pinv(root.T) @ leading, ((0, NEW * TOKENS), (0, 0))))
            if level:
                place = self.down[level - 1]
                factors = [1.0] * self.keeps[place] + [self.variance[1 + place]] * len(self.maps[place])
                felt = sum(
                    factor * one[self.known, self.known].T @ felt @ one[self.known, self.known]
                    for factor, one in zip(factors, self.maps[place], strict=False)
                )
        return found

    def kernel(self, point):
        """The entropy, and the kernel of all examples: new ones as their rows pass, by (K5)."""
        numbers, self.entropy, eye = iter(point), 0.0, np.eye(self.outputs)

        def free(*shape):
            return np.array([next(numbers) for _ in range(int(np.prod(shape)))]).reshape(shape)

        def moved(covariance, width, beside=0.0):
            """A free Gram matrix of this covariance; what lies beside it in the entropy is added to it."""
            size = len(covariance)
            triangle = np.diag(np.exp(free(size)))
            triangle[np.tril_indices(size, -1)] = free(size * (size - 1) // 2)
            root = np.linalg.cholesky(covariance)
            gram = root @ triangle @ triangle.T @ root.T
            logs = np.linalg.slogdet(gram)[1] - np.linalg.slogdet(covariance)[1]
            whole = gram + beside
            share = width / self.widths.max()
            self.entropy += share * (np.trace(np.linalg.solve(covariance, whole)) - logs - size)
            return whole

        def spread(maps):
            return np.kron(maps, eye)

        top = moved(self.variance[-1] * eye, self.widths[-1])
        gram = np.kron(np.eye(self.features[0].shape[1]), top)
        across = np.kron(self.above[0] @ self.features[0], top)  # Q of all rows with the features
        within = np.kron(self.above[0], top)
        for level, place in enumerate(self.down):
            keep, variance = self.keeps[place], self.variance[1 + place]
            upper, lower, maps = self.features[level], self.features[level + 1], self.maps[place]
            kept, values = self.parts[level]
            between = [lower.T @ one @ self.above[level] @ upper for one in maps]
            rest = lower.T @ values @ lower - variance * sum(one @ one.T for one in between[keep:])
            inner = [gram] * len(between[keep:])
            if self.narrow[place]:
                inner = [moved(gram, self.narrow[place]) for _ in inner]
            fresh = np.kron(rest, top) + variance * sum(
                spread(one) @ own @ spread(one).T for one, own in zip(between[keep:], inner, strict=True)
            )
            sizes, vectors = np.linalg.eigh(lower.T @ values @ lower)
            span = spread(vectors[:, sizes > 1e-9 * sizes[-1]])
            inside = span.T @ fresh @ span
            cross = free(len(inside), len(gram)) if keep else np.zeros((len(inside), len(gram)))  # X
            whole = moved(inside, self.widths[place], cross @ np.linalg.solve(gram, cross.T))
            # All rows: zeta of a row is seen through its covariance with zeta of the features.
            limit, beyond = np.kron(self.above[level] @ upper, top), np.kron(values @ lower, top)
            of_rows = beyond + variance * sum(
                spread(one) @ ((across @ np.linalg.solve(gram, own)) - limit) @ spread(two).T
                for one, two, own in zip(maps[keep:], between[keep:], inner, strict=True)
            )
            through = of_rows @ span @ np.linalg.inv(inside)
            own = np.kron(np.zeros_like(values), eye)
            for one, narrow in zip(maps[keep:], inner, strict=True):
                lift = across @ np.linalg.inv(gram)
                own = own + variance * spread(one) @ (within + lift @ (narrow - gram) @ lift.T) @ spread(one).T
            below = own + through @ (whole - inside) @ through.T
            seen = through @ whole @ span.T
            if keep:
                first, along = spread(maps[0]), spread(between[0])
                beside = first @ across @ np.linalg.solve(gram, cross.T)
                seen = seen + beside @ span.T + through @ cross @ along.T
                seen = seen + first @ (across - limit) @ along.T + np.kron(kept @ lower, top)
                below = below + first @ within @ first.T + beside @ through.T + through @ beside.T
                left = np.kron(lower.T @ kept @ lower - between[0] @ between[0].T, top)
                turned = along @ cross.T @ span.T
                gram_below = along @ gram @ along.T + left + turned + turned.T + span @ whole @ span.T
            else:
                gram_below = span @ whole @ span.T
            gram, across, within = gram_below, seen, below
        return self.entropy, self.summed(gram, across, within, top)

    def summed(self, gram, across, within, top):
        """Kernels of training with training, of new with training and of new with themselves, (example, output)."""
        lower, eye = self.features[-1], np.eye(self.outputs)
        rows = self.tokens.reshape(EXAMPLES + NEW, TOKENS, FEATURES) / np.sqrt(FEATURES)
        image = (self.above[-1] @ lower).reshape(EXAMPLES + NEW, TOKENS, -1)
        seen = np.kron(np.einsum("eti,eta->eia", rows, image)[:EXAMPLES].swapaxes(0, 1), eye)
        limit = np.kron(self.by_example(self.products * self.above[-1]), top)
        places = slice(EXAMPLES * self.outputs), slice(EXAMPLES * self.outputs, None)
        moved = gram - np.kron(np.eye(lower.shape[1]), top)
        known = limit[places[0], places[0]] + sum(one @ moved @ one.T for one in seen)
        change = (across - np.kron(self.above[-1] @ lower, top)).reshape(EXAMPLES + NEW, TOKENS, self.outputs, -1)
        moved = np.einsum("eti,etca->ieca", rows, change).reshape(FEATURES, -1, len(gram))
        new = limit[places[1], places[0]] + sum(one[places[1]] @ two.T for one, two in zip(moved, seen, strict=True))
        squares = np.kron(self.products, np.ones((self.outputs, self.outputs))) * within
        squares = squares.reshape(2 * (EXAMPLES + NEW, TOKENS, self.outputs)).sum(axis=(1, 4)).reshape(limit.shape)
        return tuple(self.variance[0] * part for part in (known, new, np.diag(squares)[places[1]]))

    def action(self, point):
        """(11) beyond its smallest entropy."""
        entropy, (known, *_) = self.kernel(point)
        covariance = known + TEMPERATURE * np.eye(len(known))
        labels = self.labels.ravel()
        nats = labels @ np.linalg.solve(covariance, labels) + np.linalg.slogdet(covariance)[1]
        return entropy + nats / self.widths.max()

    @property
    def coordinates(self):
        """How many numbers a point has."""
        point = Counted()
        self.kernel(point)
        return point.count

    def predicted(self, point):
        """Mean and variance of the outputs on new examples."""
        _, (known, new, own) = self.kernel(point)
        inverse = np.linalg.inv(known + TEMPERATURE * np.eye(len(known)))
        shape = (NEW, self.outputs)[: self.labels.ndim]
        variance = np.maximum(own - np.sum(new @ inverse * new, axis=1), 0.0)
        return (new @ inverse @ self.labels.ravel()).reshape(shape), variance.reshape(shape)


class Counted:
    """Zeros without an end, which are counted."""

    def __init__(self):
        self.count = 0

    def __iter__(self):
        while True:
            self.count += 1
            yield 0.0


@pytest.mark.parametrize("name", CHAINS)
def test_few_directions_are_a_truncation_of_their_own(name, monkeypatch):
    """Those that were asked for, and as many of all of them, where what the others carry goes to the rest."""
    layers, outputs, width = CHAINS[name]
    count = 3 - outputs
    labels = 3 * np.random.default_rng(1).normal(size=(EXAMPLES, outputs)[:outputs])
    model = Truncated(layers, outputs, width, labels, count)
    shape = (*layers, *map(sma.Outputs, range(2, outputs + 1)))
    tokens = sma.token_inputs(*arguments(layers), layers=shape)
    numbers = {"width": width, "temperature": TEMPERATURE, "variance": tuple(model.variance)}
    problem = sma.Problem(tokens.take(range(EXAMPLES)), labels, **numbers)
    found = sma.solve(problem, directions=count, throw=False, tolerance=1e-9)
    monkeypatch.setattr(on_tokens, "_FEWEST", count)
    cut = sma.solve(problem, settle=np.inf, tolerance=1e-9)
    assert found.converged and not found.settled and found.directions.count == cut.directions.count == count
    assert cut.directions.ranked.most > count
    expected = minimize(model.action, np.zeros(model.coordinates), method="BFGS", options={"gtol": 1e-6})
    assert float(found.excess) == pytest.approx(expected.fun, abs=1e-8)
    assert float(cut.excess) == pytest.approx(expected.fun, abs=1e-8)
    assert model.action(np.zeros(model.coordinates)) > expected.fun + 0.05  # labels have moved the point
    new = found.predict(tokens.take(range(EXAMPLES, EXAMPLES + NEW)))
    for one, other in zip(new, model.predicted(expected.x), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", CHAINS)
def test_points_are_those_of_their_matrices(name):
    """In NumPy and in JAX, with rows enough that the order of the entries counts."""
    layers, outputs, width = CHAINS[name]
    shape = (*layers, *map(sma.Outputs, range(2, outputs + 1)))
    tokens = sma.token_inputs(*arguments(layers), layers=shape)
    labels = np.random.default_rng(1).normal(size=(EXAMPLES + NEW, outputs)[:outputs])
    problem = sma.Problem(tokens, labels, width=width, temperature=TEMPERATURE)
    ranked = on_tokens._ranked(problem, 4, None)
    levels = FeatureLevels.of(ranked.first(4, tokens).maps, problem.architecture)
    point = np.random.default_rng(2).normal(size=levels.coordinates)
    entries = np.where(levels.logarithms, np.exp(point), point)
    factors, same = levels.factors(entries), levels.factors(jnp.asarray(entries))
    np.testing.assert_allclose(levels.point_of(factors), point, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(levels.padded(entries, levels), entries)
    assert all(np.array_equal(np.tril(one), other) for one, other in zip(factors.values, same.values, strict=True))
