"""NUTS on all weights for the hidden Markov chains: the samples of Figures 2(c) and 2(e)."""

import jax

from statmech_attention import checks
from statmech_attention.tasks import HiddenMarkov, HiddenMarkovTrial

# Heads that are kept in each layer.
NETWORKS = {"all": ((0, 1), (0, 1)), "good and denoising": ((0, 1), (0,))}


def sampling_trial(
    seed: int, *, network: str = "all", noise: float = 1.0, examples: int = 100, test_examples: int = 1000
) -> HiddenMarkovTrial:
    r"""Data and heads of the hidden Markov chains, as a network of `NETWORKS` sees them."""
    trial = HiddenMarkov(perpendicular_noise=noise).trial(jax.random.key(seed), examples, test_examples)
    kept = NETWORKS[checks.choice("network", network, NETWORKS)]
    return trial._replace(train=trial.train.keep_heads(kept), test=trial.test.keep_heads(kept))
