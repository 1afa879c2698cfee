"""Small problems that the tests of the samplers share, and their posterior on a grid: NumPy and SciPy alone."""

import numpy as np
from scipy.stats import chi

TRAIN, TEST, FEATURES, TEMPERATURE = 6, 2, 3, 0.2


def inputs(paths, seed=3):
    """Attentioned inputs for training and testing, and labels."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(TRAIN + TEST, paths, FEATURES))
    return values[:TRAIN], np.sign(rng.normal(size=TRAIN)), values[TRAIN:]


def on_a_grid(width, variances, centre, root, reach=14.0, points=401):
    """Posterior of one layer of one head at whole width: mean of U and f, variance of f, log evidence.

    U^(2) = s_a chi^2/N, U^(1) = s_1 U^(2) chi^2/N. The grid is over the logarithms of both chi / sqrt(N), around
    `centre` and along `root`; a smooth density that ends far from its edge is summed up to rounding.
    """
    train, labels, test = inputs(1)
    train, test = train[:, 0], test[:, 0]
    ticks = np.linspace(-reach, reach, points)
    steps = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)
    logs = centre + steps @ root.T
    prior = chi.logpdf(np.sqrt(width) * np.exp(logs), width) + 0.5 * np.log(width) + logs
    overlap = variances[1] * variances[2] * np.exp(2 * logs.sum(axis=1))

    scale = variances[0] / FEATURES
    eigenvalues, vectors = np.linalg.eigh(scale * train @ train.T)
    seen, across = vectors.T @ labels, vectors.T @ (scale * train @ test.T)
    spread = overlap[:, None] * eigenvalues + TEMPERATURE
    likelihood = -0.5 * np.sum(np.log(2 * np.pi * spread) + seen**2 / spread, axis=1)
    logs = prior.sum(axis=1) + likelihood
    weights = np.exp(logs - logs.max())
    volume = abs(np.linalg.det(root)) * (ticks[1] - ticks[0]) ** 2
    evidence = np.log(weights.sum() * volume) + logs.max()
    weights /= weights.sum()

    mean = overlap[:, None] * ((seen / spread) @ across)
    own = scale * np.sum(test**2, axis=1)
    given = overlap[:, None] * own - overlap[:, None] ** 2 * ((1 / spread) @ across**2)
    total = weights @ mean
    return weights @ overlap, total, weights @ given + weights @ mean**2 - total**2, evidence
