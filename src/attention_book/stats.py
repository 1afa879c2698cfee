"""One number with its uncertainty, by scipy.stats: ± is one standard error, [a, b] a 95 % interval."""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

LEVEL = 0.95
NOT_DEFINED = "not defined"  # as a mean over nothing, or a quotient of nothing


@dataclass(frozen=True)
class Interval:
    """A value, its standard error, and the ends of its 95 % interval: numbers, or arrays of one shape."""

    value: Any
    error: Any
    low: Any
    high: Any
    p: float = math.nan  # of a rank correlation: that a random order has one as far from zero

    @classmethod
    def of(cls, values, axis: int | None = None, shared: float = 0.0) -> "Interval":
        r"""Mean over units, along an axis or over all, with Student's interval; NaN around a single unit.

        `shared` is the correlation $\rho$ of two units. The variance of a mean of $n$ then is
        $\frac{1 + (n - 1) \rho}{1 - \rho}$ times that of independent ones of the same spread (Nadeau and Bengio, 2003).
        """
        values = np.asarray(values, float)
        values = values.ravel() if axis is None else np.moveaxis(values, axis, 0)
        count, mean = len(values), values.mean(axis=0)
        error = np.std(values, axis=0, ddof=1) / math.sqrt(count) if count > 1 else np.full_like(mean, math.nan)
        error = error * math.sqrt((1 + (count - 1) * shared) / (1 - shared))
        return cls._student(mean, error, max(count - 1, 1))

    @classmethod
    def paired(cls, first, second, axis: int | None = None, shared: float = 0.0) -> "Interval":
        """Mean of `first - second`, unit by unit."""
        return cls.of(np.asarray(first, float) - np.asarray(second, float), axis, shared)

    @classmethod
    def grouped(cls, groups, shared) -> "Interval":
        """Mean over all units of independent groups, each with its own `shared`; Welch and Satterthwaite's interval."""
        groups = [np.asarray(group, float) for group in groups]
        weights = np.array([len(group) for group in groups]) / sum(map(len, groups))
        each = [cls.of(group, shared=own) for group, own in zip(groups, shared, strict=True)]
        parts = np.array([weight * one.error for weight, one in zip(weights, each, strict=True)]) ** 2
        freedom = parts.sum() ** 2 / sum(part**2 / (len(group) - 1) for part, group in zip(parts, groups, strict=True))
        return cls._student(sum(weights * [one.value for one in each]), math.sqrt(parts.sum()), freedom)

    @classmethod
    def _student(cls, mean, error, freedom: float) -> "Interval":
        half = stats.t.ppf((1 + LEVEL) / 2, freedom) * error
        numbers = (mean, error, mean - half, mean + half)
        return cls(*numbers) if np.ndim(mean) else cls(*map(float, numbers))

    @classmethod
    def between(cls, some, others) -> "Interval":
        """Mean of some units minus that of other units, with Welch's interval."""
        test = stats.ttest_ind(some, others, equal_var=False)
        ends = test.confidence_interval(LEVEL)
        apart = float(np.mean(some) - np.mean(others))
        return cls(apart, abs(apart / float(test.statistic)), float(ends.low), float(ends.high))

    @classmethod
    def share(cls, count: int, total: int) -> "Interval":
        """Share of independent events, with Wilson's interval."""
        low, high = stats.binomtest(int(count), int(total)).proportion_ci(LEVEL, method="wilson")
        share = float(count / total)
        return cls(share, math.sqrt(share * (1 - share) / total), float(low), float(high))

    @classmethod
    def ranks(cls, first, second, resamples: int = 9999) -> "Interval":
        """Spearman's rank correlation over units, with Bonett and Wright's interval, and p by permuting the units."""
        ranks = [stats.rankdata(values) for values in (first, second)]
        left, right = ((rank - rank.mean()) / (rank.std() * math.sqrt(len(rank))) for rank in ranks)
        correlation, count = float(left @ right), len(left)
        options: dict[str, Any] = {"permutation_type": "pairings", "vectorized": True, "n_resamples": resamples}
        order = stats.permutation_test((left,), lambda some, axis: (some * right).sum(axis), **options, rng=0)
        spread = math.sqrt((1 + correlation**2 / 2) / (count - 3)) if count > 3 else math.nan
        centre = math.atanh(max(-1 + 1e-12, min(correlation, 1 - 1e-12)))
        ends = np.tanh(centre + np.array([-1, 1]) * stats.norm.ppf((1 + LEVEL) / 2) * spread)
        return cls(correlation, (1 - correlation**2) * spread, float(ends[0]), float(ends[1]), float(order.pvalue))

    def above(self, number: float):
        """True if the whole interval lies above a number."""
        return self.low > number

    def below(self, number: float):
        """True if the whole interval lies below a number."""
        return self.high < number

    def __getitem__(self, place) -> "Interval":
        """One entry, or some, of an interval of arrays."""
        value, error, low, high = (np.asarray(part)[place] for part in (self.value, self.error, self.low, self.high))
        return Interval(value, error, low, high, self.p)

    @property
    def bracket(self) -> str:
        """The 95 % interval, as "[0.11, 0.14]"."""
        return self.within()

    def within(self, kind: str = "") -> str:
        """The 95 % interval, its numbers in a format such as "+.1f" or ".0%"."""
        sign, digits, percent = self._digits(kind)
        if math.isnan(self.low) or math.isnan(self.high):
            return NOT_DEFINED
        scale = 100 if percent else 1
        return f"[{written(scale * self.low, digits, sign)}, {written(scale * self.high, digits, sign)}]" + percent

    def __str__(self) -> str:
        return format(self, "")

    def __format__(self, kind: str) -> str:
        """As "0.125 ± 0.006"; `kind` may have a sign, digits and per cent, such as "+", ".1f", "+.1%"."""
        sign, digits, percent = self._digits(kind)
        if math.isnan(self.value):
            return NOT_DEFINED
        scale = 100 if percent else 1
        value, error = written(scale * self.value, digits, sign), written(scale * self.error, digits)
        return (value if math.isnan(self.error) else f"{value}\xa0±\xa0{error}") + percent

    def _digits(self, kind: str) -> tuple[str, int, str]:
        """Sign, decimals and unit: the mean has the digits of its error, two of them if it starts with 1."""
        asked = re.fullmatch(r"(\+?)(?:\.(\d+))?([f%]?)", kind)
        if not asked:
            raise ValueError(f'Invalid format {kind!r} of an Interval: wanted one such as "+", ".2f" or ".1%".')
        sign, digits, unit = asked.groups()
        percent = "\xa0%" if unit == "%" else ""
        size = (self.error if self.error > 0 else (self.high - self.low) / 4) * (100 if percent else 1)
        if digits is None and math.isfinite(size) and size > 0:
            exponent = math.floor(math.log10(size))
            digits = max(0, (1 if size / 10**exponent < 1.95 else 0) - exponent)
        return sign, int(2 if digits is None else digits), percent


def written(number: float, digits: int, sign: str = "") -> str:
    """A number with a true minus; what rounds to zero has no sign."""
    number = round(float(number), digits) + 0.0
    return f"{number:{sign if number else ''}.{digits}f}".replace("-", "\N{MINUS SIGN}")
