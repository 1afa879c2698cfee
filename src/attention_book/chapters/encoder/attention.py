"""Recorded accuracies on the attention of a pretrained encoder, and on what is put in its place."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from attention_book import plotting, results
from attention_book.experiments import encoded_inputs
from attention_book.experiments import encoded_reading as reading
from attention_book.notebooks.tables import averaged, signed, table, with_error
from statmech_attention.plotting.style import MUTED

CHANGED = {
    "shuffled0": "the first shuffle",
    "shuffled1": "a second shuffle",
    "uniform": "uniform attention",
    "centred": "centred paths",
}
KINDS = {
    "real": ("o", "the encoder's"),
    "shuffled": ("s", "shuffled"),
    "uniform": ("v", "uniform"),
    "centred": ("D", "centred"),
}
QUESTIONS, REST = ("description-entity", "entity-human"), ("reviews", "spam")
BY = ("validation", "evidence")
COLOURS = dict(zip(reading.NAMES, (MUTED["indigo"], MUTED["teal"], MUTED["rose"], MUTED["green"], "0.5"), strict=True))


def _points(folder, kind: str) -> dict[str, xr.Dataset]:
    """Records of the theory at chosen points, by task; none is an empty dictionary."""
    return reading.recorded_splits(folder, kind) if reading.encoder_records(folder, kind) else {}


class Attention:
    """Correctness with the encoder's attention and with other attention, by task."""

    def __init__(self, folder):
        self.folder, self.found = Path(folder), reading.recorded_splits(folder)
        self.records = reading.encoder_records(folder)
        self.asked = results.record(self.records[0])["parameters"]
        self.changed = {name: _points(folder, f"points200-{name}") for name in CHANGED}
        self.shuffles = [name for name in ("shuffled0", "shuffled1") if self.changed[name]]
        self.more = {count: _points(folder, f"points{count}") for count in (400, 1000)}
        self.skips = _points(folder, "points200-skips")
        self.narrow, self.tasks = min(self.asked["widths"]), [*self.changed["shuffled0"]]
        masked = self.folder.with_name("sentences_masked")
        self.tuned = _points(masked, "masked")
        tuned = reading.encoder_records(masked, "masked")
        self.tests = results.record(tuned[0])["parameters"]["test_examples"] if tuned else 0
        self.adds, self.gain, self.mixed = {}, {}, {}  # by task and choice of T: per split and sentence
        for by, task in itertools.product(BY, self.tasks):
            real, mixed = ([f(task, width, by) for width in (self.narrow, np.inf)] for f in (self.real, self.shuffled))
            self.gain[task, by], self.mixed[task, by] = real[0] - real[1], mixed[0] - mixed[1]
            self.adds[task, by] = self.added(real, mixed)
        self.double = {key: self.gain[key] - self.mixed[key] for key in self.gain}

    def files(self):
        """Paths of all records that the page reads."""
        return [
            *self.records,
            *(path for name in CHANGED for path in reading.encoder_records(self.folder, f"points200-{name}")),
        ]

    def _right(self, one, width, by):
        one = one.sel(width_deep=[width])
        heat = reading.heat_of(one, by=by)
        return (
            one["right_deep"].sel(temperature=heat).transpose("split", "sentence", "width_deep").isel(width_deep=0) / 2
        )

    def real(self, task, width, by="validation", splits=None):
        """Correctness on every test sentence with the encoder's attention, temperatures chosen by split."""
        one = self.found[task] if splits is None else self.found[task].sel(split=splits)
        return self._right(one, width, by)

    def shuffled(self, task, width, by="validation"):
        """The same with shuffled attention, the mean over the shuffles of each split."""
        return self.by_shuffle(task, width, by).mean("shuffle")

    def by_shuffle(self, task, width, by="validation"):
        """The same with each shuffle."""
        each = [
            self._right(self.changed[name][task], width, by) for name in self.shuffles if task in self.changed[name]
        ]
        return xr.concat(each, "shuffle", join="outer")

    def added(self, real, mixed):
        """Points that attention adds, from correctness at the narrowest width and in the limit."""
        return sum(one - other for one, other in zip(real, mixed, strict=True)) / 2

    def adds_by_shuffle(self, task) -> np.ndarray:
        """Points that attention adds, (shuffle, split)."""
        sides = [[f(task, width) for width in (self.narrow, np.inf)] for f in (self.real, self.by_shuffle)]
        return 100 * self.added(*sides).mean("sentence").transpose("shuffle", "split").values

    def with_first_shuffle(self, task):
        """Points that attention adds, and gain minus that with shuffled attention, by the first shuffle alone."""
        mixed = [self.by_shuffle(task, width).isel(shuffle=0) for width in (self.narrow, np.inf)]
        adds = self.added([self.real(task, width) for width in (self.narrow, np.inf)], mixed)
        return points(adds), points(self.gain[task, "validation"] - (mixed[0] - mixed[1]))

    def between_shuffles(self) -> float:
        """Standard deviation between shuffles of one split, of the points that attention adds; all tasks together."""
        each = [self.adds_by_shuffle(task) for task in self.tasks]
        return float(np.sqrt(np.nanmean([one.var(axis=0, ddof=1) for one in each]))) if len(each[0]) > 1 else np.nan

    def gained(self, kind, task):
        """Correctness at the narrowest width minus that of the limit."""
        if kind in ("real", "shuffled"):
            return (self.gain if kind == "real" else self.mixed)[task, "validation"]
        one = self.changed[kind][task]
        return self._right(one, self.narrow, "validation") - self._right(one, np.inf, "validation")

    def tracks(self, by: str) -> tuple[float, float]:
        """Correlation of gain and what attention adds over splits, task means subtracted, and its one-sided p."""
        most = max(self.adds[task, by].sizes["split"] for task in self.tasks)
        whole = [task for task in self.tasks if self.adds[task, by].sizes["split"] == most]
        pair = []
        for values in (self.adds, self.gain):
            each = np.array([points(values[task, by].sel(split=self.adds[task, by]["split"])).each for task in whole])
            pair.append(each - each.mean(axis=1, keepdims=True))
        # The same order of splits for all tasks; the first is that of the data.
        null = np.array([np.sum(pair[0] * pair[1][:, list(order)]) for order in itertools.permutations(range(most))])
        size = np.sqrt(np.prod([np.sum(one**2) for one in pair]))
        return float(null[0] / size), float(np.mean(null >= null[0] - 1e-9))

    def figure(self) -> None:
        """Gain against what attention adds, and gain by kind of attention."""
        figure, (left, right) = plotting.new_figure(2, 1, figsize=(5.2, 6.2))
        for task in self.tasks:
            adds = self.adds[task, "validation"]
            gain = self.gain[task, "validation"].sel(split=adds["split"])
            across, up = points(adds), points(gain)
            each = self.adds_by_shuffle(task)
            left.plot(each, np.tile(up.each, (len(each), 1)), "o-", color=COLOURS[task], markersize=3.5, alpha=0.4)
            look = dict(fmt="o", markersize=8, color=COLOURS[task], label=reading.NAMES[task])
            left.errorbar(across.mean, up.mean, xerr=across.half, yerr=up.half, **look)
        for axes in (left, right):
            axes.axhline(0, color=plotting.COLOURS["gp"], linestyle="--", linewidth=1)
            axes.set_ylabel(f"gain of $N$ = {self.narrow:g}, points")
        left.axvline(0, color="0.7", linewidth=0.8)
        left.set_xlabel("what attention adds, points")
        left.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, columnspacing=0.8)
        shown = [kind for kind in KINDS if kind not in CHANGED or self.changed[kind]]
        for (row, task), (place, kind) in itertools.product(enumerate(self.tasks), enumerate(shown)):
            if kind in CHANGED and task not in self.changed[kind]:
                continue
            one, colour = points(self.gained(kind, task)), COLOURS[task]
            look = dict(
                fmt=KINDS[kind][0], markersize=5, color=colour, markerfacecolor=colour if kind == "real" else "white"
            )
            right.errorbar(row + 0.17 * (place - 1.5), one.mean, one.half, **look)
        right.set_xticks(range(len(self.tasks)), [reading.NAMES[task].replace(" or ", " or\n") for task in self.tasks])
        for kind in shown:
            mark, label = KINDS[kind]
            right.plot([], [], mark, color="0.3", markerfacecolor="0.3" if kind == "real" else "white", label=label)
        right.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, columnspacing=0.8, handletextpad=0.1)
        plotting.label_panels([left, right])

    def claims_table(self):
        """Points that attention adds, and gains, with Student's 95 % intervals over splits."""
        rows = {
            "attention adds": (self.adds, "validation", None),
            "gain": (self.gain, "validation", None),
            "gain, shuffled": (self.mixed, "validation", None),
            "gain minus that": (self.double, "validation", None),
            "the same, $T$ by evidence": (self.double, "evidence", None),
            "the same, three new splits": (self.double, "validation", (2, 3, 4)),
        }
        lines = []
        for name, (values, by, splits) in rows.items():
            lines.append([name, *(_interval(points(values[task, by], splits)) for task in self.tasks)])
        for name, one in {
            "log evidence over the limit": self.found,
            "the same, shuffled": self.changed["shuffled0"],
        }.items():
            lines.append([f"{name}, nats", *(_interval(self.evidence_over_limit(one[task])) for task in self.tasks)])
        return table(["points", *(reading.NAMES[task] for task in self.tasks)], lines)

    def evidence_over_limit(self, one) -> reading.Difference:
        """Log evidence at the narrowest width minus that of the limit, each at its best temperature, by split."""
        best = one["log_evidence_deep"].max("temperature")
        each = (best.sel(width_deep=self.narrow) - best.sel(width_deep=np.inf)).values
        return reading.Difference(float(each.mean()), float(each.std(ddof=1)) / math.sqrt(len(each)), each)

    def at_ends(self) -> tuple[int, np.ndarray]:
        """Number of temperatures chosen by validation, with the encoder's attention and shuffled; and, for those at an
        end of the grid, the test accuracy one temperature inside minus that at the end, in points."""
        found, count = [], 0
        for records in (self.found, *(self.changed[name] for name in self.shuffles)):
            for one, width in itertools.product(records.values(), (self.narrow, np.inf)):
                at, heats = one.sel(width_deep=width), one["temperature"].size
                best = at["validation_accuracy_deep"].argmax("temperature").values
                accuracy = at["accuracy_deep"].transpose("split", "temperature").values
                count += len(best)
                inside = np.clip(best, 1, heats - 2)
                places = zip(accuracy, inside, best, strict=True)
                found += [100 * (row[near] - row[end]) for row, near, end in places if near != end]
        return count, np.array(found)

    def new_splits(self, values, task):
        return points(values[task, "validation"], (2, 3, 4))

    def accuracies(self) -> dict[str, dict[str, np.ndarray]]:
        """Accuracies over splits, by row and task."""
        rows: dict[str, dict[str, np.ndarray]] = {}

        def put(row, task, values):
            rows.setdefault(row, {})[task] = np.asarray(values)

        for task in self.tasks:
            if task in self.changed["uniform"]:
                beside = self.changed["uniform"][task]
                put("the larger class", task, beside["majority_deep"].values)
                put("counted words, ridge", task, beside["bag_right_deep"].mean("sentence").values / 2)
                uniform = self._right(beside, self.narrow, "validation").mean("sentence")
                put("(E1), narrow, uniform attention", task, uniform)
            of_embedding = self.found[task]["ridge_by_labels"].sel(labels=self.asked["examples"])
            put("pooled embedding, ridge", task, of_embedding.values)
            put("(E1), limit", task, self.real(task, np.inf).mean("sentence"))
            put("(E1), narrow", task, self.real(task, self.narrow).mean("sentence"))
            if task in self.tuned:
                few = self.real(task, self.narrow, splits=self.tuned[task]["split"]).isel(sentence=slice(self.tests))
                put("(E1), narrow, these splits", task, few.mean("sentence"))
                put("fine-tuned, these splits", task, self.tuned[task]["accuracy"].sel(network="tuned").values)
        return rows

    def accuracy_table(self):
        lines = []
        for name, of in self.accuracies().items():
            said = name.replace("narrow", f"$N$ = {self.narrow:g}")
            lines.append(
                [said, *(averaged(100 * np.asarray(of[task], float)) if task in of else "" for task in self.tasks)]
            )
        return table(["% accurate", *(reading.NAMES[task] for task in self.tasks)], lines)

    def width_figure(self) -> None:
        """Accuracy above the limit against width, temperatures by evidence."""
        widths = sorted(self.asked["widths"])
        figure, axes = plotting.new_figure(figsize=(5.4, 3.9))
        for place, (task, one) in enumerate(self.found.items()):
            limit = reading.right_at(one, limit=True)
            right = (
                one["right_deep"].sel(temperature=reading.heat_of(one)).transpose("split", "sentence", "width_deep") / 2
            )
            above = [reading.paired(right.sel(width_deep=width), limit) for width in widths]
            # Beside each other, so that all error bars are seen.
            look = dict(fmt="o-", color=COLOURS[task], label=reading.NAMES[task])
            across = np.array(widths) * 1.06 ** (place - 1.5)
            axes.errorbar(across, [100 * one.mean for one in above], [100 * one.error for one in above], **look)
        axes.axhline(0, color=plotting.COLOURS["gp"], linestyle="--", label="Gaussian-process limit")
        axes.set(xscale="log", xlabel="width $N$", ylabel="accuracy above the limit, points")
        axes.set_xticks(widths, [f"{width:g}" for width in widths])
        axes.minorticks_off()
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2)

    def further(self) -> dict[str, dict[str, reading.Difference]]:
        """Differences of accuracy by row and task, temperatures by evidence."""
        rows: dict[str, dict[str, reading.Difference]] = {}

        def put(row, task, first, second):
            rows.setdefault(row, {})[task] = reading.paired(first, second)

        at_limit: dict[str, Any] = {"limit": True}
        for task, one in self.found.items():
            limit = reading.right_at(one, **at_limit)
            put("largest evidence minus limit", task, reading.right_at(one), limit)
            put("$N$ = 100 minus limit", task, reading.right_at(one.sel(width_deep=[100])), limit)
            own = f"value dimension {self.asked['head_dimension']} minus full heads, limit"
            put(own, task, reading.right_at(one, "narrow", **at_limit), limit)
            if task in self.more[400]:
                more = self.more[400][task]
                put("400 labels: narrow minus limit", task, reading.right_at(more), reading.right_at(more, **at_limit))
            if task in self.skips:
                skips = self.skips[task]
                without = one.sel(split=skips["split"], width_deep=[self.narrow, np.inf])
                put("skips minus none, narrow", task, reading.right_at(skips), reading.right_at(without))
        return rows

    def further_table(self):
        lines = []
        for row, of in self.further().items():
            cells = [
                with_error(100 * of[task].mean, 100 * of[task].error, sign=True) if task in of else ""
                for task in self.found
            ]
            lines.append([row.replace("narrow", f"$N$ = {self.narrow:g}"), *cells])
        return table(["points", *(reading.NAMES[task] for task in self.found)], lines)

    def edges(self) -> tuple[int, int]:
        """In how many splits the evidence is largest at the smallest width, and of how many."""
        stacked = [one["log_evidence_deep"].stack(point=("width_deep", "temperature")) for one in self.found.values()]
        places = [width for one in stacked for width, _ in one.idxmax("point").values]
        return sum(width == self.narrow for width in places), len(places)

    def likeness(self) -> dict[str, float]:
        """Shares that paths of the stored split have in common, in percent of mean squares; their effective number."""
        stored = self.stored()
        inputs = np.asarray(stored.train.values, float)  # sentences, paths, features
        centred = inputs - inputs.mean(axis=0)
        rest = centred - centred.mean(axis=1, keepdims=True)
        # Centring is part of the participation ratio, so that of centred paths is that of the encoder's attention.
        apart = {
            kind: [one["participation_deep"].values for name in names for one in self.changed[name].values()]
            for kind, names in (("centred", ["centred"]), ("shuffled", self.shuffles))
        }
        effective = {kind: np.concatenate(each) if each else np.array([np.nan]) for kind, each in apart.items()}
        return dict(
            constant=100 * (1 - np.mean(centred**2) / np.mean(inputs**2)),
            common=100 * (1 - np.mean(rest**2) / np.mean(centred**2)),
            effective=encoded_inputs.participation(stored.train),
            effective_least=effective["centred"].min(),
            effective_most=effective["centred"].max(),
            effective_shuffled=effective["shuffled"].max(),
            lost=100 * float(np.mean([one["variance_lost_deep"].mean() for one in self.found.values()])),
        )

    def record(self) -> xr.Dataset:
        """The split whose attentioned inputs are kept."""
        path = next(path for path in self.records if results.record(path)["parameters"]["stored"])
        return results.load(path).sel(chosen_by="evidence")

    def stored(self):
        return encoded_inputs.stored_inputs(self.record())

    def facts(self) -> dict:
        """Numbers of the text."""
        asked, rows = self.asked, self.further()
        facts = {
            name: asked[name]
            for name in ("examples", "validation_examples", "test_examples", "directions", "head_dimension")
        }
        heats = asked["temperatures"]
        facts |= dict(temperatures=len(heats), coolest=min(heats), hottest=max(heats))
        facts |= dict(hundred=100 * max(one.mean for one in rows["$N$ = 100 minus limit"].values()))
        facts |= dict(narrowest=self.narrow, splits=min(one.sizes["split"] for one in self.found.values()))
        for task in QUESTIONS:
            for name, values in (("adds", self.adds), ("double", self.double)):
                facts[f"{name}_{task}"] = _interval(points(values[task, "validation"])).lstrip("+")
        reviews = points(self.adds["reviews", "validation"])
        before = self.with_first_shuffle("reviews")[0]
        facts |= dict(
            adds_end=reviews.mean + reviews.half,
            adds_end_first=before.mean + before.half,
            clear=sum(one.clear for one in rows["largest evidence minus limit"].values()),
            between=self.between_shuffles(),
            double_first=_interval(self.with_first_shuffle("description-entity")[1]).lstrip("+"),
        )
        facts["edge"], facts["edge_of"] = self.edges()
        facts["chosen"], inside = self.at_ends()
        facts |= dict(at_ends=len(inside), inside=signed(inside.mean(), 1), inside_most=np.abs(inside).max())
        correlation, facts["tracks_p"] = self.tracks("validation")
        facts["tracks"] = signed(correlation, 2)
        uniform = self.changed["uniform"]
        if "spam" in uniform:
            facts["majority"] = 100 * float(uniform["spam"]["majority_deep"].mean())
        behind = [value for task, value in self.behind().items() if task != "spam"]
        rows_of = self.accuracies()
        for key, row in (("mean_ridge", "pooled embedding, ridge"), ("mean_network", "(E1), narrow")):
            facts[key] = 100 * float(np.mean([values.mean() for values in rows_of[row].values()]))
        facts |= dict(behind_least=min(behind, default=np.nan), behind_most=max(behind, default=np.nan))
        facts |= dict(
            tuned_splits=min((one.sizes["split"] for one in self.tuned.values()), default=0), tuned_tests=self.tests
        )
        return facts | self.likeness()

    def behind(self) -> dict[str, float]:
        """Fine-tuned encoder minus the narrow network, in points."""
        rows = self.accuracies()
        tuned, ours = rows.get("fine-tuned, these splits", {}), rows.get("(E1), narrow, these splits", {})
        return {task: 100 * float(np.mean(tuned[task] - ours[task])) for task in tuned}

    def assert_as_written(self) -> None:
        """The verdicts of the text, on the book's records."""
        every = [*self.changed.values(), self.skips, *self.more.values()]
        assert not any(one[f"outcome_{kind}"].any() for one in self.found.values() for kind in ("deep", "narrow"))
        assert not any(one["outcome_deep"].any() for kind in every for one in kind.values())
        for by in BY:
            adds = {task: points(self.adds[task, by]) for task in self.tasks}
            assert all(adds[task].sure and min(adds[task].each) > 0 for task in QUESTIONS)
            upper = [adds[task].mean + adds[task].half for task in REST]
            assert upper[1] < upper[0] < 2 and all(len(adds[task].each) == 5 for task in REST)
            sure = [task for task in self.tasks if points(self.double[task, by]).sure]
            assert sure == ["description-entity"] and self.tracks(by)[1] > 0.05
        kinds = (self.found, self.changed["shuffled0"])
        real, mixed = ({task: self.evidence_over_limit(of[task]) for task in self.tasks} for of in kinds)
        assert all(one.sure for of in (real, mixed) for one in of.values())
        assert real["description-entity"].mean > mixed["description-entity"].mean + 5
        assert real["reviews"].mean < mixed["reviews"].mean - 5
        before = self.with_first_shuffle("reviews")[0]
        assert before.mean + before.half > 2 and not self.with_first_shuffle("description-entity")[1].sure
        assert not any(self.new_splits(self.double, task).sure for task in QUESTIONS)
        rows, rest = self.further(), [task for task in self.found if task != "description-entity"]
        ahead = rows["largest evidence minus limit"]
        assert [task for task, one in ahead.items() if one.clear] == [*QUESTIONS]
        assert all(ahead[task].sure for task in QUESTIONS)
        more = rows["400 labels: narrow minus limit"]
        assert all(more[task].clear for task in QUESTIONS) and not any(more[task].clear for task in REST)
        hundred = {task: one.mean for task, one in rows["$N$ = 100 minus limit"].items()}
        assert hundred["description-entity"] > 0.005 > max(hundred[task] for task in rest)
        skips = rows["skips minus none, narrow"]
        assert {task for task, one in skips.items() if one.mean < -one.half} == {"description-entity"}
        behind = self.behind()
        assert {task for task, value in behind.items() if value > 3} == {*self.found} - {"spam"} and abs(
            behind["spam"]
        ) < 1
        mean = {
            row: {task: 100 * float(values.mean()) for task, values in of.items()}
            for row, of in self.accuracies().items()
        }
        bag, ours = mean["counted words, ridge"], mean["(E1), narrow"]
        uniform = mean["(E1), narrow, uniform attention"]
        assert all(abs(uniform[task] - bag[task]) < 3 and ours[task] - bag[task] > 4 for task in QUESTIONS)
        assert uniform["reviews"] > ours["reviews"] + 1
        over = {task: ours[task] - mean["pooled embedding, ridge"][task] for task in self.found}
        assert over["description-entity"] > 4 and over["spam"] > 0 > over["entity-human"] > -2 > over["reviews"]


def points(values, splits=None) -> reading.Difference:
    """A difference per split and sentence, in points, with its errors."""
    if splits is not None:
        values = values.sel(split=[split for split in splits if split in values["split"]])
    return reading.paired(100 * values, 0 * values)


def _interval(one: reading.Difference) -> str:
    """Mean with half of Student's interval, and the number of splits where it is not five or three."""
    few = "" if len(one.each) in (3, 5) else f" ({len(one.each)} splits)"
    return (f"{one.mean:+.1f} ± {one.half:.1f}{few}" if len(one.each) > 1 else f"{one.mean:+.1f}{few}").replace(
        "-", "−"
    )
