"""Both papers beside this book: figures and claims with a number, theirs and ours, and a verdict from the two."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float
from scipy import stats

from attention_book.one_shot import load_network
from attention_book.papers import authors
from attention_book.runs import results
from attention_book.stats import Interval, written
from attention_book.theory import chains
from statmech_attention.tasks import HiddenMarkov, HiddenMarkovTrial
from statmech_attention.theory import Problem, accuracy, solve_sweep

RESULTS = results.folder()
SAME, OTHER, OURS = "on their data", "on other data", "ours alone"
TWO_BEST = (0, 1), (0,)  # heads of layers 1 and 2: good and denoising path
HEAT = 0.01  # temperature of the paper on hidden Markov chains
TOLERANCE = 5e-5  # of their minimiser, relative to the largest entry of U
PRINTED = (81.8, 83.0, 79.5, 75.4, 76.0, 76.5, 74.3, 74.9)  # Figure 3(e), from the lowest score up, without one head
UNPRUNED = 83.8  # Figure 3(e), all eight heads


@dataclass(frozen=True)
class Row:
    """A number or a claim of a paper beside ours; distance and effect in units of an error, nan where there is none."""

    where: str
    claim: str
    theirs: str
    ours: str
    data: str
    apart: float = np.nan  # distance of theirs from ours
    most: float = np.nan  # the largest distance at which numbers agree, or the smallest effect that has a sign
    effect: float = np.nan  # of a claim that something is above zero

    @property
    def verdict(self) -> str:
        """What the numbers say; what is not compared with a number or a claim of theirs says nothing about them."""
        if self.data == OURS:
            return OURS
        if np.isfinite(self.effect) and abs(self.effect) > self.most:
            return "same sign" if self.effect > 0 else "opposite sign"
        if np.isfinite(self.effect) or not np.isfinite(self.apart):
            return "cannot be judged"
        if self.apart > self.most:
            return "disagrees"
        return "agrees" if self.data == SAME else "agrees on other data"

    @property
    def halved(self) -> float:
        """1 if half the effect would have a sign, with the same error, 0 if not; nan without an effect."""
        return float(abs(self.effect) / 2 > self.most) if np.isfinite(self.effect) else np.nan


def number(where: str, claim: str, theirs, ours, errors, data: str, show: Callable[[float], str]) -> Row:
    """Numbers of theirs beside as many of ours; the largest distance counts, among so many."""
    theirs, ours, errors = np.broadcast_arrays(*(np.asarray(numbers, float) for numbers in (theirs, ours, errors)))
    apart = np.abs(theirs - ours) / errors
    place = np.unravel_index(apart.argmax(), apart.shape)
    most = float(stats.norm.isf(0.025 / apart.size))  # one in twenty tables of so many numbers has a larger one
    return Row(where, claim, show(theirs[place]), show(ours[place]), data, float(apart[place]), most)


def sign(where: str, claim: str, ours: Interval, units: int, unit: str = "", theirs: float | None = None) -> Row:
    """A claim that something is above zero, over so many units; the distance is that of their single one, if given."""
    most = (ours.high - ours.low) / (2 * ours.error)
    effect, spread = ours.value / ours.error, ours.error * np.sqrt(units + 1)
    said = "above 0" if theirs is None else written(theirs, 2, "+")
    apart = np.nan if theirs is None else abs(theirs - ours.value) / spread
    return Row(where, claim, said, f"{ours:+}{unit}", OTHER, float(apart), float(most), float(effect))


def unread(where: str, claim: str, ours: str) -> Row:
    """A figure of which there are no numbers outside the printed page."""
    return Row(where, claim, "no numbers", ours, OTHER)


def alone(where: str, claim: str, ours: str) -> Row:
    """Two numbers of ours, of which the paper shows its own in a figure."""
    return Row(where, claim, "", ours, OURS)


def digits(count: int) -> Callable[[float], str]:
    """Write a number with so many digits."""
    return lambda value: written(value, count)


def scientific(value: float) -> str:
    """Write a small number."""
    return f"{value:.0e}"


def chain_rows() -> Iterator[Row]:
    """Figures 2(c) and 2(d): their chains through our theory and our sampler."""
    theirs, trial, solutions = authors.theory()
    U = theirs["order_parameter"].values
    size = np.abs(U).max(axis=(1, 2), keepdims=True)
    yield number(
        "2(c)", "$U$, over its largest entry", U / size, solutions.order_parameter / size, TOLERANCE, SAME, digits(4)
    )
    predicted = solutions.predict(trial.test).mean
    right = np.array([float(accuracy(mean, trial.test_labels)) for mean in predicted])
    of_theirs = theirs["accuracy"].values
    spread = np.sqrt(of_theirs * (1 - of_theirs) / len(trial.test_labels))
    yield number("2(c)", "accuracy of the theory", of_theirs, right, spread, SAME, digits(3))
    for width in theirs["sampled_width"].values:
        drawn = authors.sampled(int(width))
        upper = np.triu_indices(len(drawn.ours))
        pair = drawn.theirs[upper], drawn.ours[upper]
        yield number("2(c)", f"$U$ of sampled networks, $N = {width}$", *pair, drawn.error[upper], SAME, digits(2))
    of_theirs, ours = (authors.label_overlaps(trial, overlap) for overlap in (U[0], solutions.order_parameter[0]))
    what = "overlaps of components with the labels, $N = 10$"
    yield number("2(d)", what, of_theirs, ours, TOLERANCE, SAME, digits(4))


def draw_rows() -> Iterator[Row]:
    """Figures 2(c), 2(e) and 5(c) on ten draws of ours, at the temperature of the paper."""
    theirs, _ = authors.chains()
    drawn, widths = chains.draws(), [*map(float, theirs["width"].values), np.inf]
    orders = np.array([_orders(trial, widths) for trial in drawn])
    right = np.array([_accuracy(*pair) for pair in zip(drawn, orders, strict=True)])
    of_theirs = np.append(theirs["accuracy"].values, theirs["gp_accuracy"].values)
    spread = right.std(axis=0, ddof=1) * np.sqrt(1 + 1 / len(right))
    what = "accuracy of the theory and of the limit"
    yield number("2(c)", what, of_theirs, right.mean(axis=0), spread, OTHER, digits(3))
    gain, published = Interval.paired(right[:, 0], right[:, -1]), of_theirs[0] - of_theirs[-1]
    yield sign("2(c)", "accuracy at $N = 10$ minus the limit", gain, len(drawn), theirs=published)
    above_good = lambda U: 1 - np.diagonal(U, axis1=-2, axis2=-1)[..., [1, 3]].mean(axis=-1)  # noqa: E731
    lost, published = Interval.of(above_good(orders[:, 0, 0])), float(above_good(theirs["order_parameter"].values[0]))
    what = "1 minus the weight of adversarial paths, $N = 10$"
    yield sign("2(c)", what, lost, len(drawn), theirs=published)
    two = [_accuracy(chains.kept(trial, TWO_BEST), np.eye(2)) for trial in drawn]
    what = "accuracy at $N = 10$ minus the limit of two paths"
    yield sign("2(c)", what, Interval.paired(right[:, 0], two), len(drawn))
    noisy = [chains.kept(trial, TWO_BEST) for trial in chains.draws(perpendicular_noise=5.0)]
    narrow, diagonal, limit = np.transpose([_with_and_without_pairs(trial) for trial in noisy])
    yield sign("2(e)", "strong noise: $N = 10$ minus the limit", Interval.paired(narrow, limit), len(noisy))
    yield sign("2(e)", "strong noise: with minus without pairs", Interval.paired(narrow, diagonal), len(noisy))
    narrow, _, limit = np.transpose([_with_and_without_pairs(trial) for trial in _uniform_draws()])
    yield sign("5(c)", "uniform attention: $N = 10$ minus the limit", Interval.paired(narrow, limit), len(narrow))


def _accuracy(trial: HiddenMarkovTrial, order_parameters) -> Float[np.ndarray, "*networks"]:
    """Test accuracy at the temperature of the paper."""
    return chains.accuracies(trial, order_parameters, np.array([HEAT]))


def _with_and_without_pairs(trial: HiddenMarkovTrial) -> list[float]:
    """Accuracy of two paths at N = 10, the same without cross entries of U, and in the limit."""
    U = _orders(trial, [10.0])[0]
    return [float(_accuracy(trial, order)) for order in (U, U * np.eye(2), np.eye(2))]


def _uniform_draws() -> list[HiddenMarkovTrial]:
    """Chains under strong noise along the good path and one of uniform attention."""
    task = HiddenMarkov(perpendicular_noise=5.0)
    first, second = np.stack([task.step_head(0), task.uniform_head()]), task.uniform_head()[None]
    return [task.trial(100, 500, key=key, products=(first, second)) for key in list(chains.keys())]


def _orders(trial: HiddenMarkovTrial, widths: list[float]) -> Float[np.ndarray, "widths 1 paths paths"]:
    """Order parameters at each width, at the temperature of the paper."""
    solutions = solve_sweep(Problem(trial.train, trial.labels), widths=widths, temperatures=[HEAT])
    return np.asarray(solutions.order_parameter)


def gain_rows() -> Iterator[Row]:
    """Figures 3(b), 6 and the claims of appendix H: finite width against its limit on images."""
    for name in ("2x4", "3x3", "2x8"):
        networks = [results.load(path) for path in sorted(RESULTS.glob(f"one_shot/theory-{name}-seed*.nc"))]
        for place, test_set in enumerate(networks[0]["test_set"].values):
            gains = np.array([_gain(network, place) for network in networks])
            units, who = (gains.mean(axis=1), name) if len(networks) > 1 else (gains[0], f"one {name}")
            figure = "3(b)" if name == "2x4" and place < 2 else "6"
            what = f"best width minus the limit, {who}, {test_set}"
            yield sign(figure, what, Interval.of(units), len(units), " points")


def _gain(theory: xr.Dataset, test_set: int) -> Float[np.ndarray, " draws"]:
    """Points by which the best width is above the limit; width and temperatures are chosen on validation classes."""
    best = theory["validation_accuracy"].max("temperature").mean("draw").idxmax("width")
    narrow, limit = theory.sel(width=best), theory["gp_validation_accuracy"].idxmax("temperature")
    heat = narrow["validation_accuracy"].idxmax("temperature")
    ours = narrow["accuracy"].isel(test_set=test_set).sel(temperature=heat)
    return 100 * (ours - theory["gp_accuracy"].isel(test_set=test_set).sel(temperature=limit)).values


def sampled_rows() -> Iterator[Row]:
    """Figures 3(b) and 3(c): our theory and our networks, sampled on the same sequences or trained; and 3(d)."""
    sampled = results.load(RESULTS / "one_shot" / "posterior-2x4-seed0.nc").isel(test_set=0)
    theory = results.load(RESULTS / "one_shot" / "theory-2x4-seed0.nc").isel(draw=0, test_set=0)
    for width in sampled["width"].values:
        some = sampled.sel(width=width)
        same = theory["accuracy"].sel(width=width, temperature=float(some["temperature"]))
        both = " and ".join(written(float(accuracy), 3) for accuracy in (some["accuracy"], same))
        yield alone("3(b)", f"accuracy, sampled and theory, Omniglot, $N = {width:.0f}$", both)
    above = np.triu_indices(sampled.sizes["path"], 1)
    ours, drawn = (record["order_parameter"].sel(width=10).values[above] for record in (theory, sampled))
    ranks = Interval.ranks(abs(drawn), abs(ours))
    yield alone("3(c)", "rank correlation of sizes in $U$, sampled and theory", f"{ranks:+}")
    correlations, equal, aligned = [], [], []
    for seed in range(3):
        theory = results.load(RESULTS / "one_shot" / f"theory-2x4-seed{seed}.nc").mean("draw").sel(width=10)
        trained = load_network(RESULTS / "one_shot" / f"network-2x4-seed{seed}.nc").order_parameters[0][above]
        ours = theory["order_parameter"].values[above]
        correlations.append(stats.spearmanr(abs(ours), abs(trained)).statistic)
        equal.append(np.mean(np.sign(ours) == np.sign(trained)))
        aligned.append(float(theory["alignment"] - theory["gp_alignment"]))
    yield alone("3(c)", "rank correlation of sizes in $U$, theory and descent", f"{Interval.of(correlations):+}")
    yield alone("3(c)", "equal signs in $U$ off the diagonal, theory and descent", f"{Interval.of(equal):%}")
    what = "alignment of kernel and labels minus the limit"
    yield sign("3(d)", what, Interval.of(aligned), len(aligned))


def printed_rows() -> Iterator[Row]:
    """Figures 3(e), 3(f) and 7: accuracies that the paper prints for one network, beside those of ours."""
    paths = [*RESULTS.glob("one_shot/pruning-2x4-seed*.nc"), *RESULTS.glob("one_shot_ten_epochs/pruning-*.nc")]
    pruned = [results.load(path) for path in sorted(paths)]
    whole = np.array([100 * float(record["accuracy"][0]) for record in pruned])
    without = np.sort([100 * (record["accuracy"][0] - record["drop"][0]).values for record in pruned], axis=1)
    more = np.sqrt(1 + 1 / len(pruned))
    spread = more * whole.std(ddof=1)
    what = "accuracy of the trained network, Omniglot, %"
    yield number("3(e)", what, UNPRUNED, whole.mean(), spread, OTHER, digits(1))
    spread = more * without.std(axis=0, ddof=1)
    what = "without one head, Omniglot, %"
    yield number("3(e)", what, np.sort(PRINTED), without.mean(axis=0), spread, OTHER, digits(1))

    curves = 100 * np.array([_curve(record) for record in pruned])  # (networks, test sets, heads removed)
    any_two = [100 * float(record["choice_accuracy"][0].mean()) for record in pruned]
    what = "without two lowest heads minus any two, Omniglot"
    yield sign("3(f)", what, Interval.paired(curves[:, 0, 2], any_two), len(curves), " points")
    change = Interval.paired(curves[:, 1, 2], curves[:, 1, 0])
    yield sign("3(f)", "change without two lowest heads, FashionMNIST", change, len(curves), " points")
    curve = 100 * _curve(results.load(RESULTS / "one_shot" / "pruning-2x8-seed0.nc"))
    lost = " and ".join(written(points, 1, "+") for points in curve[:2, 4] - curve[:2, 0])
    yield unread("7", "four of sixteen heads, Omniglot and FashionMNIST", f"{lost} points")


def _curve(pruned: xr.Dataset) -> Float[np.ndarray, "test_sets removed"]:
    """Accuracy against the number of heads removed in the order of the score of the authors' code."""
    return pruned["theory_curve"].sel(definition="either", width=10).mean("draw").values


def dynamics_rows() -> Iterator[Row]:
    """The second paper: attention step by step, and Lyapunov exponents."""
    followed = authors.followed()
    yield number("attention", "largest distance after one step", followed.one_step, 0, 1e-14, SAME, scientific)
    grown = 1e-14 * np.exp(0.2 * np.arange(len(followed.from_the_start)))  # rounding, enlarged by chaos
    yield number("attention", "largest distance over 60 steps", followed.from_the_start, 0, grown, SAME, scientific)
    theirs, _ = authors.networks()
    exponents, ours = authors.exponents()
    cycle = theirs["period"].values > 0
    share = 1 / 75_000  # what one step more or less, by one e-fold, changes in the mean
    name = "exponents per step"
    yield number(name, f"{cycle.sum()} networks on a cycle", exponents[cycle], ours[cycle], 5 * share, SAME, digits(4))
    wandering = np.abs(exponents - ours)[~cycle, 0].max()
    yield unread(name, f"{(~cycle).sum()} networks in transient chaos", f"apart by up to {wandering:.2f}")


PARTS = {
    "chains": chain_rows,
    "draws": draw_rows,
    "gains": gain_rows,
    "sampled": sampled_rows,
    "printed": printed_rows,
    "dynamics": dynamics_rows,
}
NAMES = {"claim": "what", "theirs": "theirs", "ours": "ours"}
ERRORS = {"apart": "apart", "effect": "effect"}


def table(record: xr.Dataset) -> pd.DataFrame:
    """The rows of the record as pages show them; distances and effects are in standard errors."""
    columns: dict[str, Any] = {title: record[name].values for name, title in NAMES.items()}
    for name, title in ERRORS.items():
        columns[title] = [written(value, 1) if np.isfinite(value) else "" for value in record[name].values]
    columns["verdict"] = record["verdict"].values
    return pd.DataFrame(columns, index=pd.Index(record["figure"].values, name="figure"))


def totals(record: xr.Dataset) -> Counter[str]:
    """How many rows have which verdict."""
    return Counter(map(str, record["verdict"].values))


def summary(record: xr.Dataset) -> dict[str, str]:
    """For every figure how many of its numbers have which verdict, as "3 agree, 1 cannot be judged"."""
    said = {}
    for figure in dict.fromkeys(map(str, record["figure"].values)):
        counts = totals(record.isel(row=record["figure"].values == figure))
        counts.pop(OURS, None)
        said[figure] = ", ".join(f"{count} {_counted(kind, count)}" for kind, count in counts.items()) or "not compared"
    return said


def _counted(verdict: str, count: int) -> str:
    """A verdict on one number or on several."""
    if verdict.endswith("sign"):
        return f"{'have' if count > 1 else 'has'} the {verdict}"
    return verdict.replace("agrees", "agree") if count > 1 else verdict
