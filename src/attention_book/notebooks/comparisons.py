"""Checks beside equations: two sides of an identity, means of samples against exact values."""

import numpy as np
from IPython.display import Markdown


def exact(*pairs) -> float:
    r"""Return the largest deviation of both sides of identities, relative to the largest entry."""
    return float(
        np.max([np.max(np.abs(np.asarray(one) - np.asarray(two))) / np.max(np.abs(two)) for one, two in pairs])
    )


def sampled(samples, expected, *, scale=None, precision: float = 0.03, limit: float = 4.0) -> float:
    """Assert means of samples equal to `expected`; return the largest deviation in standard errors.

    A standard error above `precision`, in units of `scale` or else of $|$`expected`$|$, fails too:
    it could hide a deviation. Complex samples count twice.
    """
    samples, expected = np.asarray(samples), np.asarray(expected)
    allowed, found = precision * (np.abs(expected) if scale is None else np.asarray(scale)), []
    parts = [(samples.real, expected.real)] + [(samples.imag, expected.imag)] * np.iscomplexobj(samples)
    for values, mean in parts:
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        if not np.all(error < allowed):
            raise AssertionError(
                f"wanted standard errors below {np.min(allowed):.2g}, got {np.max(error):.2g}: more samples."
            )
        found.append(np.max(np.abs(values.mean(axis=0) - mean) / error))
    worst = float(np.max(found))
    if not worst < limit:
        raise AssertionError(f"wanted means within {limit:g} standard errors of what is expected, got {worst:.1f}.")
    return worst


def within(what: str, *deviations: float, limit: float = 4.0) -> Markdown:
    """Assert that means agree within `limit` standard errors; return the line that says so."""
    worst = max(map(float, deviations))
    assert worst < limit, f"{what}: wanted means within {limit:g} standard errors, got {worst:.1f}"
    return Markdown(f"<small>✓ {what}: within {worst:.1f} standard errors.</small>")
