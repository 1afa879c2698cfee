"""The benchmarks' rivals, minimisers of other libraries, end at our minimum."""

import numpy as np
import pytest

from benchmarks import minimisers, problems


@pytest.mark.parametrize("name", [*minimisers.RIVALS, "L-BFGS (SciPy), plain coordinates"])
def test_every_minimiser_ends_at_the_same_action(name):
    task = problems.make("random", examples=20, heads=(2, 2), features=6)
    wanted, found = (minimisers.make(one, *task, 0.05)(10.0, 2000) for one in ("auto", name))
    # A line search compares values of the action, in which a gradient below the root of rounding does not show.
    assert found.gradient <= np.sqrt(np.finfo(float).eps)
    assert found.action == pytest.approx(wanted.action, abs=1e-9)
