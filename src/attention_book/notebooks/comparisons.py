"""Checks in folded cells: two sides of an identity, means of samples against exact values."""

import textwrap

import numpy as np

_COLUMNS = 78  # that fit the box of an output at every width of a window


def say(*parts) -> None:
    """Print one line, broken where the box of an output ends.

    Args:
        *parts: texts and numbers, joined by blanks.
    """
    print(textwrap.fill(" ".join(map(str, parts)), _COLUMNS))


def exact(*pairs, tolerance: float = 1e-12) -> str:
    r"""Assert both sides of identities equal; return their largest deviation as text.

    Args:
        *pairs: `(a, b)`, arrays of any shape that fit each other.
        tolerance: the deviation that fails.

    Returns:
        It as text, such as "3e-16".

    Raises:
        AssertionError: a deviation of `tolerance` or more, or one that is no number.
    """
    worst = np.max([np.max(np.abs(np.asarray(one) - np.asarray(two))) / np.max(np.abs(two)) for one, two in pairs])
    if not worst < tolerance:
        raise AssertionError(f"wanted both sides equal within {tolerance:g} of the largest entry, got {worst:.1e}.")
    return f"{worst:.0e}"


def sampled(samples, expected, *, scale=None, precision: float = 0.03, limit: float = 4.0) -> float:
    r"""The largest deviation of means over samples from what is expected, in standard errors.

    Complex samples count twice, by their real and by their imaginary parts.

    Args:
        samples: `(samples, ..)`, independent.
        expected: `(..)`; complex where imaginary parts are to be compared.
        scale: `(..)` or one number; $|$`expected`$|$ where None.
        precision: the largest standard error allowed, in units of `scale`; a larger one could hide a deviation.
        limit: the number of standard errors that fails.

    Returns:
        The number of standard errors.

    Raises:
        AssertionError: a deviation of `limit` standard errors or more, or too few samples for `precision`.
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
