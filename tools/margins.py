"""List the numerical assertions that nearly fail: `PYTHONPATH=tools python -m pytest -p margins [TESTS]`.

Of every `pytest.approx`, `np.testing.assert_allclose`, `np.allclose` and `np.isclose` in a test the distance that was
found is divided by the one that is allowed. Places where the largest of these is above 0.2 are the last lines. Another
kernel or another number of threads moves the distance by rounding; what is near 1 for another reason should say so.
"""

import sys
from collections import defaultdict
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

TESTS = Path(__file__).resolve().parents[1] / "tests"
MOST = 0.2
ApproxScalar = type(pytest.approx(1.0))
found: dict[str, list[float]] = defaultdict(list)  # by file and line


def note(distance, allowed) -> None:
    """Keep the largest share of what is allowed at the line of the test that asks."""
    frame: FrameType | None = sys._getframe(2)
    while frame and not Path(frame.f_code.co_filename).is_relative_to(TESTS):
        frame = frame.f_back
    with np.errstate(all="ignore"):
        shares = np.abs(np.asarray(distance)) / np.asarray(allowed)
    shares = shares[np.isfinite(shares)]
    if frame and shares.size:
        found[f"{Path(frame.f_code.co_filename).relative_to(TESTS)}:{frame.f_lineno}"].append(float(shares.max()))


def noting(function, rtol: float, atol: float):
    """The function of NumPy that also notes."""

    def with_note(actual, desired, *others, **options):
        given = dict(zip(("rtol", "atol"), others, strict=False)) | options
        try:
            size = np.abs(np.asarray(desired))
            note(np.asarray(actual) - np.asarray(desired), given.get("atol", atol) + given.get("rtol", rtol) * size)
        except (TypeError, ValueError):  # not numbers, or of other shapes: for the function to refuse
            pass
        return function(actual, desired, *others, **options)

    return with_note


def noting_scalar(equal):
    """The comparison of one number with `pytest.approx` that also notes."""

    def with_note(self, actual):
        if isinstance(actual, (int, float, np.number)) and isinstance(self.expected, (int, float, np.number)):
            note([actual - self.expected], [self.tolerance])
        return equal(self, actual)

    return with_note


def pytest_configure() -> None:
    """Put the functions that note in the place of the others."""
    np.testing.assert_allclose = noting(np.testing.assert_allclose, 1e-7, 0.0)
    np.allclose, np.isclose = (noting(function, 1e-5, 1e-8) for function in (np.allclose, np.isclose))
    ApproxScalar.__eq__ = noting_scalar(ApproxScalar.__eq__)


def pytest_terminal_summary(terminalreporter) -> None:
    """Write the places above the limit, the largest first, with how often they were asked."""
    large = {place: shares for place, shares in found.items() if max(shares) > MOST}
    asked = sum(map(len, found.values()))
    terminalreporter.write_line(f"{asked} assertions at {len(found)} places, {len(large)} above {MOST}")
    for place, shares in sorted(large.items(), key=lambda item: -max(item[1])):
        terminalreporter.write_line(f"{max(shares):6.2f}  {place}  ({len(shares)})")
