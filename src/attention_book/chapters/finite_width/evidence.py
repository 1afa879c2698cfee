"""Choosing the width and the temperature by the evidence: recorded draws, and a few solved again."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import statmech_attention as sma
from attention_book import experiments, plotting
from attention_book.notebooks.tables import signed, table, with_error
from attention_book.temperatures import difference
from statmech_attention import sampling

TASKS = {"chains": "hidden Markov chains", "images": "one-shot images", "sentences": "sentences"}
CRITERIA = {
    "exact evidence": "log_evidence",
    "Laplace (V2)": "laplace",
    "theory (V3)": "theory",
}


def written(values, *, sign: bool = False) -> str:
    return with_error(*plotting.mean_and_error(values), sign=sign)


def temperature_figure(found) -> None:
    """Exact evidence and accuracy against temperature, for all widths and the limit."""
    figure, panels = plotting.new_figure(1, 2, figsize=(6.6, 3.4))
    temperatures = found.temperature.values
    for panel, column, label in zip(
        panels, ("log_evidence", "accuracy"), (r"$\ln p(Y)$", "test accuracy"), strict=True
    ):
        shown = {
            f"$N$ = {width}": plotting.mean_and_error(found[column].sel(width=width)) for width in found.width.values
        }
        shown["GP limit"] = plotting.mean_and_error(found[f"gp_{column}"])
        curves, errors = ({name: one[part] for name, one in shown.items()} for part in (0, 1))
        plotting.over_temperatures(temperatures, curves, errors=errors, mark=True, axes=panel)
        panel.set_ylabel(label)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=4, columnspacing=1.0)


class Solved(NamedTuple):
    """Draws of the record solved again, and at smaller widths."""

    widths: list[int]
    temperatures: list[float]
    corrected: np.ndarray  # (V4), (draws, widths, temperatures)
    leading: np.ndarray  # (V3)
    accuracy: np.ndarray

    def part(self, widths, temperatures) -> "Solved":
        """Some widths and temperatures."""
        rows, columns = [self.widths.index(n) for n in widths], [self.temperatures.index(t) for t in temperatures]
        parts = (one[:, rows][:, :, columns] for one in (self.corrected, self.leading, self.accuracy))
        return Solved(list(widths), list(temperatures), *parts)


def solved_again(seed: int, draws: int, widths, temperatures, *, examples: int, test_examples: int) -> Solved:
    """Theory of the first draws, with the corrected evidence."""
    shape = draws, len(widths), len(temperatures)
    corrected, leading, accuracy = (np.zeros(shape) for _ in range(3))
    for number in range(draws):
        one = experiments.sampling_trial(seed + number, examples=examples, test_examples=test_examples)
        sweep = sma.solve_sweep(sma.Problem(one.train, one.labels), widths=widths, temperatures=temperatures)
        leading[number] = sma.log_evidence(sweep)
        for place in np.ndindex(shape[1:]):
            here = sweep[place]
            corrected[number][place] = sma.log_evidence(here, corrected=True)
            accuracy[number][place] = sma.accuracy(here.predict(one.test).mean, one.test_labels)
    return Solved(list(widths), list(temperatures), corrected, leading, accuracy)


class ManyPaths:
    """Recorded cases with few and many paths: exact evidence, leading order and correction."""

    def __init__(self, records: Mapping[str, xr.Dataset]):
        cases = [one.stack(case=("paths", "width")).reset_index("case") for one in records.values()]
        self.cases, self.chains = xr.concat(cases, "case"), records["chains"]
        self.paths, self.width = self.cases.paths.values, self.cases.width.values
        exact, blur = self.cases.exact.values, self.cases.exact_error.values
        self.before, self.after = self.cases.theory.values - exact, self.cases.corrected.values - exact
        self.sure, self.removed = abs(self.before) > 4 * blur, 1 - abs(self.after) / abs(self.before)
        self.broad = self.width >= 10
        self.few = self.broad & (self.paths <= 4 * self.width)
        self.claims = {  # outcome of each case, and the cases that a claim speaks of
            "high": (self.before > 2 * blur, np.ones_like(self.sure)),
            "removed": (self.removed >= 0.75, self.sure),
            "nat": (abs(self.after) < 1 + 2 * blur, self.broad),
        }

    def error(self, column: str, paths: int, width: int) -> float:
        one = self.chains.sel(paths=paths, width=width)
        return float(one[column] - one.exact)

    def figure(self) -> None:
        """Error of both evidences against width on the chains, by number of paths."""
        figure, panels = plotting.new_figure(1, 2, figsize=(6.6, 3.5), sharey=True)
        chains = self.chains
        for panel, column, title in zip(panels, ("theory", "corrected"), ("leading order", "corrected"), strict=True):
            panel.axhline(0, color="0.8", linewidth=0.8)
            for place, paths in enumerate(chains.paths.values):
                one, colour = chains.sel(paths=paths), plt.cm.viridis(0.92 * place / (chains.sizes["paths"] - 1))
                style = dict(fmt="o-", markersize=3, capsize=2, color=colour, label=f"{paths}")
                panel.errorbar(one.width, one[column] - one.exact, one.exact_error, **style)
            panel.set(xscale="log", title=title, xlabel="width $N$")
            panel.set_xticks(chains.width.values, chains.width.values)
            panel.minorticks_off()
        panels[0].set_ylabel("theory − exact, nats")
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside upper left", ncols=6, columnspacing=1.0, title="paths", alignment="left")

    def facts(self) -> dict:
        facts: dict[str, Any] = {}
        for name, (right, among) in self.claims.items():
            facts |= {name: int(np.sum(right & among)), f"{name}_of": int(np.sum(among))}
        facts |= dict(fewest=int(self.paths.min()), largest=int(self.paths.max()))
        facts |= dict(most=float(self.before.max()), median=100 * float(np.median(self.removed[self.sure])))
        facts |= {
            f"{paths}_{width}": self.error("theory", paths, width) for paths, width in ((1, 10), (72, 10), (72, 3))
        }
        facts |= {f"72_{width}_after": signed(self.error("corrected", 72, width)) for width in (3, 10)}
        return facts | {"few": float(abs(self.after[self.few]).max())}

    def assert_as_written(self) -> None:
        assert self.claims["high"][0].all() and np.mean(self.claims["removed"][0][self.sure]) < 0.9
        assert self.few.sum() > 20 and abs(self.after[self.few]).max() < 0.5
        wrong = np.flatnonzero(self.broad & ~self.claims["nat"][0])
        assert [(int(self.paths[one]), int(self.width[one])) for one in wrong] == [(72, 10)] and self.after[wrong] < 0
        missed = self.sure & (self.removed < 0.75)
        assert np.all((self.width[missed] == 3) | (self.paths[missed] == 72) | (self.before[missed] < 1))


class Choices:
    """Widths and temperatures that the evidence chooses on the recorded draws."""

    def __init__(self, found):
        self.found, self.draws = found, np.arange(found.sizes["draw"])
        self.widths, self.temperatures = found.width.values.tolist(), found.temperature.values.tolist()
        self.evidence, self.accuracy = (  # draw, width and limit, temperature
            np.concatenate([found[name].values, found[f"gp_{name}"].values[:, None]], axis=1)
            for name in ("log_evidence", "accuracy")
        )

    def width_table(self):
        """Differences of exact log evidence and of accuracy, at every temperature."""
        first, last = self.widths[0], self.widths[-1]
        lines = []
        for place, heat in enumerate(self.temperatures):
            one, accuracy = self.evidence[..., place], 100 * self.accuracy[..., place]
            cells = [written(one[:, 0] - one[:, n], sign=True) for n in (len(self.widths) - 1, -1)]
            lines.append([f"{heat:g}", *cells, written(accuracy[:, 0] - accuracy[:, -1], sign=True)])
        heads = [f"nats over $N$ = {last}", "nats over GP limit", "points over GP limit"]
        return table([f"$T$, $N$ = {first}", *heads], lines)

    def by_criterion(self, column: str, width: int) -> np.ndarray:
        """Index of the chosen temperature in each draw."""
        return self.found[column].sel(width=width).values.argmax(axis=1)

    def given_up(self, column: str, width: int) -> np.ndarray:
        """Accuracy of the best temperature of each draw minus that at the chosen one."""
        right = self.found.accuracy.sel(width=width).values
        return right.max(axis=1) - right[self.draws, self.by_criterion(column, width)]

    def same(self, column: str) -> int:
        """Number of choices that are those of the exact evidence."""
        exact = "log_evidence"
        return sum(int(np.sum(self.by_criterion(column, n) == self.by_criterion(exact, n))) for n in self.widths)

    def temperature_table(self):
        """Evidence that each criterion gives up, and number of its choices that are those of the exact evidence."""
        lines = []
        for name, column in CRITERIA.items():
            lost = [written(100 * self.given_up(column, width)) for width in self.widths]
            lines.append(
                [
                    name,
                    *lost,
                    f"{self.same(column)} of {self.found.log_evidence.sel(temperature=self.temperatures[0]).size}",
                ]
            )
        return table(["points given up", *(f"$N$ = {n}" for n in self.widths), "choices of the exact evidence"], lines)

    def at_chosen(self, width: int) -> np.ndarray:
        """Accuracies at the temperature that the evidence chooses for one width, -1 for the limit."""
        return self.accuracy[self.draws, width, self.evidence[:, width].argmax(axis=1)]

    def facts(self) -> dict:
        first, last = plotting.mean_and_error(self.evidence[:, 0] - self.evidence[:, -2]), self.at_chosen(0)
        flat, rights = self.evidence.reshape(len(self.draws), -1), self.accuracy.reshape(len(self.draws), -1)
        both = rights.max(axis=1) - rights[self.draws, flat.argmax(axis=1)]
        few = self.found.effective_size < sampling.diagnostics.SMALLEST_EFFECTIVE_SIZE
        off = self.found.theory - self.found.log_evidence
        return dict(
            prefers=with_error(first[0][0], first[1][0]),
            over_limit=str(difference(last, self.at_chosen(-1))),
            over_broad=str(difference(last, self.at_chosen(-2))),
            both=written(100 * both),
            loss=written(100 * self.given_up("log_evidence", self.widths[0])),
            smallest=sum(int(np.sum(self.by_criterion("log_evidence", n) == 0)) for n in self.widths),
            choices=len(self.widths) * len(self.draws),
            cold_off=written(off.sel(width=self.widths[0], temperature=self.temperatures[0]), sign=True),
            hot_off=written(off.sel(width=self.widths[0], temperature=self.temperatures[-1]), sign=True),
            laplace=float(abs(self.found.laplace - self.found.log_evidence).mean("draw").max()),
            error=float(self.found.error.max()),
            unsure=int(few.sum()),
        )

    def assert_as_written(self) -> None:
        cold = [place for place, heat in enumerate(self.temperatures) if heat <= 0.3]
        assert np.all(self.evidence.argmax(axis=1) == 0)  # the narrowest, in all draws at all temperatures
        assert all((self.evidence[:, 0, place] - self.evidence[:, 2, place]).min() > 10 for place in cold)
        assert np.all(np.diff([self.at_chosen(n).mean() for n in range(len(self.widths) + 1)]) < 0)
        for other in (-1, -2):
            one = difference(self.at_chosen(0), self.at_chosen(other))
            assert one.mean > one.within
        assert all(self.given_up("log_evidence", width).mean() < 0.02 for width in self.widths)
        gaps = (self.found.theory - self.found.log_evidence).mean("draw").sel(width=self.widths[0]).values
        assert np.all(np.diff(gaps) < 0) and self.same("laplace") > self.same("theory")
        few = self.found.effective_size < sampling.diagnostics.SMALLEST_EFFECTIVE_SIZE
        assert int(few.sel(width=self.widths[0]).sum()) == int(few.sum()) and float(self.found.error.max()) < 0.5
        assert (self.found.log_evidence.argmax("temperature") == 0).sum() < 0.1 * self.evidence[:, :-1, 0].size


def lower_table(lower: Solved):
    """Corrected evidence and accuracy below the widths of the record."""
    lines = []
    for n, width in enumerate(lower.widths):
        cells = [
            (f"{lower.corrected[:, n, t].mean():.1f}", f"{100 * lower.accuracy[:, n, t].mean():.1f}")
            for t in range(len(lower.temperatures))
        ]
        lines.append([str(width), *(text.replace("-", "−") for pair in cells for text in pair)])
    heads = [head for heat in lower.temperatures for head in (f"nats, $T$ = {heat:g}", "% accurate")]
    return table(["$N$", *heads], lines)


def fits(seed: int, draws: int, width: int, found, *, examples: int, test_examples: int) -> np.ndarray:
    """Per draw: fitted T, accuracies with T and with the variance fitted, too, best accuracy of the grid."""
    rows = []
    for number in range(draws):
        one = experiments.sampling_trial(seed + number, examples=examples, test_examples=test_examples)
        problem, here = sma.Problem(one.train, one.labels, width=width), found.isel(draw=number).sel(width=width)
        alone, both = sma.fit(problem, chosen=["temperature"]), sma.fit(problem)
        right = [float(sma.accuracy(fit.solution.predict(one.test).mean, one.test_labels)) for fit in (alone, both)]
        rows.append([alone.temperature, *right, float(here.accuracy.max())])
        best, edges = int(np.argmax(here.theory.values)), [1e-4, *found.temperature.values, 1e2]
        assert edges[best] <= alone.temperature <= edges[best + 2]  # between the neighbours of the grid's best
        assert alone.log_evidence > float(here.theory.max()) - 1e-6 and max(map(abs, both.slopes.values())) < 1e-3
    return np.array(rows)
