"""Choices of heads to keep: weights of kernels beside the theory, scores of heads, evidence lost; recorded."""

from pathlib import Path
from typing import Any

import numpy as np

from attention_book import plotting, results
from attention_book.experiments import encoded_reading as reading
from attention_book.experiments import importances
from attention_book.notebooks.tables import averaged, signed, table
from statmech_attention.plotting.style import MUTED

NETWORKS = {"flat": 72, "deep": 24}
WHOLE = {
    "limit": "equal weights",
    "diagonal": "theory, diagonal $U$",
    "theory": "theory, full $U$",
    "kernel weights": "kernel weights",
}
KEPT = ("both", "kernel weights", "own evidence", "forward selection", "Taylor", "random")
LOOKS = {
    "limit": "0.5",
    "random": "0.5",
    "theory": plotting.COLOURS["theory"],
    "both": plotting.COLOURS["theory"],
    "diagonal": MUTED["cyan"],
    "kernel weights": MUTED["rose"],
    "own evidence": MUTED["green"],
    "forward selection": MUTED["purple"],
    "Taylor": MUTED["teal"],
}


class Heads:
    """Correctness with all heads and with those that a score keeps, by network, method and task."""

    def __init__(self, folder):
        self.chosen = reading.recorded_splits(folder, "selection")
        self.records = reading.encoder_records(folder, "selection")
        self.asked = results.record(self.records[0])["parameters"]
        everything = reading.recorded_splits(folder)
        self.everything = {task: one for task, one in everything.items() if task in self.chosen}
        self.before = {task: one.sel(split=self.chosen[task].split) for task, one in self.everything.items()}
        self.narrow = self.asked["width"]
        self.whole = {
            (network, way): {task: self._all_heads(task, network, way) for task in self.chosen}
            for network in NETWORKS
            for way in WHOLE
        }
        self.kept = {
            (network, order): {task: self._heads_kept(task, network, order) for task in self.chosen}
            for network in NETWORKS
            for order in KEPT
        }

    def _all_heads(self, task, network, way):
        """Correctness on every test sentence, at the temperature of the largest evidence."""
        if way in ("limit", "theory"):
            one = self.before[task].sel({f"width_{network}": np.inf if way == "limit" else self.narrow})
            right = one[f"right_{network}"].sel(temperature=one[f"log_evidence_{network}"].idxmax("temperature"))
        else:
            right = self.chosen[task][f"right_whole_{network}"].sel({f"whole_{network}": way})
        return right.transpose("split", "sentence") / 2

    def _heads_kept(self, task, network, order):
        """The same of the heads that a score keeps, refitted by the theory."""
        right = self.chosen[task][f"right_{network}"].sel({f"way_{network}": "theory", "chosen_by": "evidence"})
        right = right.mean(f"kept_{network}") / 2
        return reading.of_order(right, order, network).transpose("split", "sentence")

    def lead(self, first, second) -> dict[str, reading.Difference]:
        """Paired difference for every task; each side is (all heads?, network, method)."""
        one, other = ((self.whole if side[0] == "all" else self.kept)[side[1:]] for side in (first, second))
        return {task: reading.paired(one[task], other[task]) for task in self.chosen}

    CLAIMS = {
        "1: flat, kernel weights minus full $U$": (("all", "flat", "kernel weights"), ("all", "flat", "theory")),
        "2: deep, full $U$ minus kernel weights": (("all", "deep", "theory"), ("all", "deep", "kernel weights")),
        "2: deep, full $U$ minus diagonal $U$": (("all", "deep", "theory"), ("all", "deep", "diagonal")),
        "3: flat, heads by kernel weights minus “both”": (("few", "flat", "kernel weights"), ("few", "flat", "both")),
        "3: deep, heads by kernel weights minus “both”": (("few", "deep", "kernel weights"), ("few", "deep", "both")),
        "flat, full $U$ minus diagonal $U$": (("all", "flat", "theory"), ("all", "flat", "diagonal")),
        "flat, heads by own evidence minus “both”": (("few", "flat", "own evidence"), ("few", "flat", "both")),
        "deep, heads by own evidence minus “both”": (("few", "deep", "own evidence"), ("few", "deep", "both")),
        "deep minus flat, full $U$": (("all", "deep", "theory"), ("all", "flat", "theory")),
        "flat, full $U$ minus equal weights": (("all", "flat", "theory"), ("all", "flat", "limit")),
        "deep, full $U$ minus equal weights": (("all", "deep", "theory"), ("all", "deep", "limit")),
    }

    def outcome(self, claim: str) -> dict[str, reading.Difference]:
        return self.lead(*self.CLAIMS[claim])

    def figure(self) -> None:
        """Points above equal weights with all heads, and above random heads with few."""
        figure, panels = plotting.new_figure(4, 1, figsize=(5.2, 7.6), sharex=True, height_ratios=(3, 5, 3, 5))
        marks = dict(zip(reading.NAMES, "os^DP", strict=True))
        rows = [(part, network) for network in NETWORKS for part in ("all", "few")]
        for panel, (part, network) in zip(panels, rows, strict=True):
            ways, base = ([*WHOLE][1:], "limit") if part == "all" else (KEPT[:-1], "random")
            for place, way in enumerate(ways):
                apart = self.lead((part, network, way), (part, network, base))
                each = {task: 100 * one.mean for task, one in apart.items()}
                for task, value in each.items():
                    panel.plot(value, place, marks[task], color=LOOKS[way], markerfacecolor="none", markersize=5)
                panel.plot(np.mean([*each.values()]), place, "|", color=LOOKS[way], markersize=13, markeredgewidth=2.4)
            panel.axvline(0, color="0.7", linewidth=0.8)
            panel.set_yticks(range(len(ways)), [WHOLE.get(way, way) if part == "all" else way for way in ways])
            panel.set_ylim(len(ways) - 0.5, -0.5)
            said = "all heads, minus equal weights" if part == "all" else "few heads, minus random ones"
            panel.set_title(f"{network}: {said}")
        panels[-1].set_xlabel("points of accuracy")
        for task in self.chosen:
            look = dict(color="0.35", markerfacecolor="none", label=reading.NAMES[task])
            panels[0].plot([], [], marks[task], **look)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)

    def accuracy_table(self):
        """Accuracies with all heads, means over splits."""
        lines = [
            [
                f"{network}, {WHOLE[way]}",
                *(averaged(100 * np.asarray(right).mean(axis=1)) for right in self.whole[network, way].values()),
            ]
            for network in NETWORKS
            for way in WHOLE
        ]
        return table(["% accurate, all heads", *(reading.NAMES[task] for task in self.chosen)], lines)

    def claims_table(self):
        """Differences in points, and on how many tasks Student's interval lies above zero, and below."""
        lines = []
        for claim in self.CLAIMS:
            apart = self.outcome(claim)
            cells = [f"{signed(100 * one.mean)} ± {100 * one.error:.1f}" for one in apart.values()]
            below = sum(one.mean < -one.half for one in apart.values())
            lines.append([claim, *cells, f"{sum(one.sure for one in apart.values())}, {below}"])
        return table(["points", *(reading.NAMES[task] for task in self.chosen), "above 0, below"], lines)

    def older_claim(self) -> dict[tuple[str, str], dict[str, int]]:
        """Number of tasks on which "both" beats Taylor and random, by network and choice of temperature."""
        passed = {}
        for network, count in NETWORKS.items():
            for by in ("evidence", "validation"):
                here = {"clear": 0, "sure": 0}
                for one in self.everything.values():
                    options: dict[str, Any] = dict(most=count / 3, by=by)
                    right = {
                        order: reading.right_of_kept(one, order, network, **options)
                        for order in ("both", "Taylor", "random")
                    }
                    apart = [reading.paired(right["both"], right[order]) for order in ("Taylor", "random")]
                    for how in here:
                        here[how] += all(getattr(one, how) for one in apart)
                passed[network, by] = here
        return passed

    def of_tasks(self, values) -> float:
        """Mean accuracy over tasks, in percent."""
        return 100 * float(np.mean([right.mean() for right in values.values()]))

    def mean_of(self, claim: str) -> float:
        return 100 * float(np.mean([one.mean for one in self.outcome(claim).values()]))

    def cut(self) -> dict[str, float]:
        """Accuracy of 8 to 2 heads of the deep network, cut out of its predictor without refitting, in percent."""
        found = {}
        for order in ("both", "greedy", "random"):
            each = [one.sel(chosen_by="evidence")["masked_deep"] for one in self.everything.values()]
            found[order] = 100 * float(
                np.mean([reading.of_order(one, order, "deep")[..., 16:23].mean() for one in each])
            )
        return found

    def facts(self) -> dict:
        facts = dict(
            narrow=self.narrow, splits=min(one.sizes["split"] for one in self.chosen.values()), tasks=len(self.chosen)
        )
        facts |= dict(examples=self.asked["examples"], tests=next(iter(self.chosen.values())).sizes["sentence"])
        facts |= {f"kept_{network}": self.asked[f"kept_{network}"][0] for network in NETWORKS}
        facts["flat_kernel_weights_all"] = self.of_tasks(self.whole["flat", "kernel weights"])
        facts |= {f"flat_{way}": self.of_tasks(self.kept["flat", way]) for way in ("both", "random")}
        first = 100 * self.whole["flat", "theory"]["description-entity"].mean("sentence").values
        facts |= dict(flat_theory=first.mean(), flat_theory_0=first[0])
        facts["sure_1"] = sum(one.sure for one in self.outcome([*self.CLAIMS][0]).values())
        facts["sure_3"] = max(sum(one.sure for one in self.outcome(claim).values()) for claim in [*self.CLAIMS][3:5])
        facts["passed"] = sum(of["clear"] >= 3 for of in self.older_claim().values())
        return facts | {f"cut_{order}": accuracy for order, accuracy in self.cut().items()}

    def assert_as_written(self) -> None:
        names = [*self.CLAIMS]
        first, second, third = names[:3]
        assert set(self.chosen) == set(reading.NAMES) - {"made"} and len(names) == 11
        assert (
            all(one.mean > 0.02 for task, one in self.outcome(first).items() if task != "spam")
            and self.mean_of(first) > 2
        )
        assert (
            sum(one.sure for one in self.outcome(first).values())
            >= 3
            > sum(one.sure for one in self.outcome(second).values())
        )
        assert abs(self.mean_of(second)) < 1.5 and abs(self.mean_of(third)) < 1 < self.mean_of(
            "flat, full $U$ minus diagonal $U$"
        )
        sure = [task for task, one in self.outcome(third).items() if one.sure]
        assert sure == ["description-entity", "entity-human"] and self.mean_of("deep minus flat, full $U$") > 1
        for network in NETWORKS:
            claim = f"3: {network}, heads by kernel weights minus “both”"
            assert self.mean_of(claim) < 0.5 and sum(one.sure for one in self.outcome(claim).values()) < 3
            assert abs(self.mean_of(f"{network}, heads by own evidence minus “both”")) < 1.5
            for order in ("both", "own evidence"):
                apart = self.lead(("few", network, order), ("few", network, "random"))
                assert np.mean([one.mean for one in apart.values()]) > 0.01
        assert self.of_tasks(self.whole["flat", "kernel weights"]) > self.of_tasks(self.kept["flat", "both"])
        older = self.older_claim().values()
        assert sum(of["clear"] >= 3 for of in older) == 1 and all(of["sure"] < 3 for of in older)
        cut = self.cut()
        assert cut["greedy"] > cut["both"] + 5


class EvidenceLost:
    """Rank correlations of trained networks: the score "either" and the evidence lost, with the drop in accuracy."""

    def __init__(self, *folders):
        lost = "evidence lost, N = "
        self.networks: dict[tuple, list] = {}  # by layers and seed, which twins of other folders share
        self.paths = []
        for folder in folders:
            for name, one in importances.recorded_heads(folder).items():
                if any(measure.startswith(lost) for measure in one.measures):
                    self.networks.setdefault((one.layers, name.rsplit("seed", 1)[1]), []).append(one)
                    self.paths.append(Path(folder) / f"evidence-{name}.nc")
        every = [one for ones in self.networks.values() for one in ones]
        widths = [name.removeprefix(lost) for one in every for name in one.measures if name.startswith(lost)]
        self.narrow = min(map(float, widths))
        self.count, self.first_set = len(every), next(iter(every[0].drops))

    def ordered(self, kind: str, *, within: bool = False):
        return importances.ordered(self.networks, f"{kind}, N = {self.narrow:g}", self.first_set, within=within)

    def apart(self, *, within: bool = False) -> importances.Pooled:
        """Evidence lost minus score, mean over networks with its interval."""
        one, other = (self.ordered(kind, within=within).each for kind in ("evidence lost", "theory, either"))
        return importances.pooled(one - other, bounds=(-2, 2))

    def table(self):
        """Rank correlations over all heads and within layers."""
        lines = [
            [said, *(self.ordered(kind, within=within).in_table for within in (False, True))]
            for kind, said in (("evidence lost", "evidence lost"), ("theory, either", "score “either”"))
        ]
        apart = [self.apart(within=within) for within in (False, True)]
        ends = ([signed(number, 2) for number in (one.value, one.low, one.high)] for one in apart)
        lines.append(["difference", *(f"{value} [{low}, {high}]" for value, low, high in ends)])
        return table(["rank correlation with the drop (one-sided $p$)", "all heads", "within layers"], lines)

    def files(self):
        return self.paths

    def assert_as_written(self) -> None:
        for within in (False, True):
            assert self.apart(within=within).low < 0 < self.apart(within=within).high
        assert self.ordered("evidence lost").p < 0.01
