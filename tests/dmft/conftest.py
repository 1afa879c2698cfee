"""Networks that the tests of the mean field share."""

import numpy as np
import pytest

from statmech_attention import dmft

from .reference import Network

NAMES = {"query": "q", "key": "k", "value": "v", "output": "o"}


@pytest.fixture(scope="session")
def published():
    """The published setting."""
    return dmft.published_patterns(seed=1)


@pytest.fixture(scope="session")
def at_three(published):
    """The published setting at beta = 3 after a transient, with its window: an orbit of period 24."""
    model = dmft.dynamics(published, beta=3.0, gamma=220.0, epsilon=0.02)
    return model, dmft.advance(model, dmft.initial_window(model), steps=20_000)


def patterns_of(network: Network) -> dmft.Patterns:
    """The tables of a reference network, given to the package."""
    return dmft.patterns_from_arrays(
        **{name: (network.words[short], network.positions[short]) for name, short in NAMES.items()}
    )


def model_of(network: Network) -> dmft.Dynamics:
    """A reference network as the package has it."""
    parameters = {"beta": network.beta, "gamma": network.gamma, "epsilon": network.epsilon}
    return dmft.dynamics(patterns_of(network), **parameters)


def assert_overlaps(found: dmft.Overlaps, wanted: dict, skip: int, atol: float):
    """All observables against those of the reference, without the tokens it was given."""
    for name, short in zip(dmft.Overlaps._fields, ("q", "k", "v", "o", "o words", "A"), strict=True):
        np.testing.assert_allclose(getattr(found, name), wanted[short][skip:], rtol=0, atol=atol, err_msg=name)
