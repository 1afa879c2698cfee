"""The benchmarks' rivals, minimisers of other libraries, end at our minimum."""

import pytest

from benchmarks import minimisers, problems


@pytest.mark.parametrize("name", [*minimisers.RIVALS, "L-BFGS (SciPy), plain coordinates"])
def test_every_minimiser_ends_at_the_same_action(name):
    """A line search compares values of the action, so what a rival promises is the action, and not its gradient."""
    task = problems.make("random", examples=20, heads=(2, 2), features=6)
    ours, found = (minimisers.make(one, *task, 0.05)(10.0, 2000) for one in ("auto", name))
    assert ours.gradient <= minimisers.SMALL
    assert ours.action <= found.action + 1e-12  # an action of 10.7; its rounding is 1e-14 at most
    assert found.action == pytest.approx(ours.action, abs=1e-9)
