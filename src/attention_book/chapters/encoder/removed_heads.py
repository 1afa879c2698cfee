"""Heads removed from an encoder: accuracy against time; recorded."""

import numpy as np

from attention_book import plotting, results
from attention_book.experiments import encoded_reading as reading
from attention_book.experiments.removed_heads import LAYERS, TAYLOR, THEORY, WEIGHTS
from attention_book.measures import student
from attention_book.notebooks.tables import averaged, signed, table
from statmech_attention.plotting.style import MUTED

WAYS = {
    THEORY: (plotting.COLOURS["theory"], "o", "“both”"),
    WEIGHTS: (MUTED["green"], "v", "kernel weights"),
    TAYLOR: (MUTED["purple"], "D", "encoder's gradient"),
    reading.RANDOM: ("0.5", "x", "random"),
    LAYERS: (MUTED["rose"], "s", "lowest layers"),
}


class Accuracies:
    """Records of encoders with few heads, of the splits of some tasks."""

    def __init__(self, folder, maker: str):
        self.records = reading.encoder_records(folder, maker)
        self.found = [results.load(path) for path in self.records]
        self.asked = [results.record(path)["parameters"] for path in self.records]
        self.task, self.kept = np.array([each["task"] for each in self.asked]), self.found[0]["kept"].values
        self.whole = 100 * np.array([float(each["accuracy_whole"]) for each in self.found])
        self.accuracy = {
            way: 100 * np.array([reading.of_order(each["accuracy"], way).values for each in self.found]) for way in WAYS
        }  # (splits of all tasks, numbers of heads)

    def apart(self, first: str, second: str, size: int) -> tuple[float, float, dict[str, tuple[float, float]]]:
        """First minus second in points with half of Student's interval: all splits, and by task."""
        place = list(self.kept).index(size)
        each = (self.accuracy[first] - self.accuracy[second])[:, place]
        return *_mean_and_half(each), {
            str(task): _mean_and_half(each[self.task == task]) for task in dict.fromkeys(self.task)
        }

    def claims_table(self):
        """The differences of the claims, by task."""
        few, more = self.kept
        asked = {
            f"1. “both” minus random, {few}": (THEORY, reading.RANDOM, few),
            f"2. encoder's gradient minus “both”, {few}": (TAYLOR, THEORY, few),
            f"3. lowest layers minus “both”, {more}": (LAYERS, THEORY, more),
        }
        lines = []
        for said, which in asked.items():
            mean, half, each = self.apart(*which)
            # Two splits say next to nothing.
            cells = ["" if np.sum(self.task == task) < 3 else _interval(*one) for task, one in each.items()]
            lines.append([said, *cells, *([_interval(mean, half)] if len(cells) > 1 else [])])
        tasks = [reading.NAMES[task] for task in dict.fromkeys(self.task)]
        return table(["points", *tasks, *(["all splits"] if len(tasks) > 1 else [])], lines)


class Tuned(Accuracies):
    """Records of such encoders, fine-tuned."""

    def __init__(self, folder):
        super().__init__(folder, "tuned")

    def table(self):
        """Accuracies after fine-tuning, minus those of all heads and of random heads."""
        lines = [["all heads", "72", averaged(self.whole), "", ""]]
        for way, (*_, said) in WAYS.items():
            for place, size in reversed([*enumerate(self.kept)]):
                each = self.accuracy[way][:, place]
                minus = "" if way == reading.RANDOM else _interval(*self.apart(way, reading.RANDOM, size)[:2])
                lost = _interval(*_mean_and_half(each - self.whole))
                lines.append([said, str(_heads(way, size)), averaged(each), lost, minus])
        return table(["kept", "heads", "% accurate", "minus all heads, 95 %", "minus random, 95 %"], lines)

    def facts(self) -> dict:
        few, more = (int(size) for size in self.kept)
        facts: dict = {"splits": len(self.records), "epochs": self.asked[0]["epochs"]}
        facts["splits_last"] = int(np.sum(self.task == self.task[-1]))
        facts["test_examples"] = self.asked[0]["test_examples"]
        pairs = {"random": (THEORY, reading.RANDOM), "gradient": (TAYLOR, THEORY), "layers": (LAYERS, THEORY)}
        pairs["weights"] = (WEIGHTS, reading.RANDOM)
        for name, (first, second) in pairs.items():
            for size in (few, more):
                facts[f"{name}_{size}"], facts[f"{name}_half_{size}"], _ = self.apart(first, second, size)
        for way, name in {THEORY: "both", reading.RANDOM: "any", LAYERS: "lowest"}.items():
            for place, size in enumerate((few, more)):
                lost = _mean_and_half(self.whole - self.accuracy[way][:, place])
                facts[f"{name}_lost_{size}"], facts[f"{name}_lost_half_{size}"] = lost
        return facts

    def assert_as_written(self) -> None:
        (few, more), facts = self.kept, self.facts()
        for claim in ((THEORY, reading.RANDOM, few), (TAYLOR, THEORY, few)):
            mean, half, tasks = self.apart(*claim)
            assert all(abs(mean) < half for mean, half in ((mean, half), *tasks.values()))
        mean, half, tasks = self.apart(LAYERS, THEORY, more)
        *whole, (some, doubt) = tasks.values()
        assert all(mean < -half for mean, half in ((mean, half), *whole)) and abs(some) < doubt
        assert abs(facts[f"both_lost_{more}"] - 2) < facts[f"both_lost_half_{more}"]
        assert facts[f"weights_{few}"] > facts[f"weights_half_{few}"]


class Removed(Accuracies):
    """Records of removed heads, a probe refitted, and times."""

    def __init__(self, folder):
        super().__init__(folder, "removed")
        self.timed = [each for each in self.found if "sentence_seconds" in each]
        self.selection = np.median([each["selection_seconds"].values for each in self.found], axis=0)
        self.criteria = self.found[0]["criterion"].values.tolist()

    def milliseconds(self, way: str | None, batch: int):
        """Processor time per sentence by number of heads, mean over the tasks timed."""
        if way is None:
            return 1e3 * np.mean([float(each["whole_seconds"].sel(batch=batch)) for each in self.timed])
        name = "random 0" if way == reading.RANDOM else way
        return 1e3 * np.mean([each["sentence_seconds"].sel(timed=name, batch=batch) for each in self.timed], axis=0)

    def figure(self) -> None:
        """Accuracy against processor time per sentence, alone and in a batch."""
        batches = self.timed[0]["batch"].values
        figure, panels = plotting.new_figure(1, len(batches), figsize=(6.6, 3.4), sharey=True)
        for panel, batch in zip(panels, batches, strict=True):
            panel.plot(self.milliseconds(None, batch), self.whole.mean(), "k*", markersize=9, label="all 72 heads")
            for way, (colour, mark, said) in WAYS.items():
                times, means = self.milliseconds(way, batch), self.accuracy[way].mean(axis=0)
                panel.plot(times, means, f"{mark}-", color=colour, markersize=5, linewidth=0.8, label=said)
            panel.set(xlabel="milliseconds per sentence", title=f"batch of {batch}", xlim=(0, None))
        panels[0].set_ylabel("test accuracy (%)")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)

    def table(self):
        """Accuracies, differences to random heads, and seconds to choose."""
        lines = [["all heads", "72", averaged(self.whole), "", ""]]
        for way, (*_, said) in WAYS.items():
            for place, size in reversed([*enumerate(self.kept)]):
                mean, half, _ = self.apart(way, reading.RANDOM, size)
                minus = "" if way == reading.RANDOM else _interval(mean, half)
                seconds = f"{self.selection[self.criteria.index(way)]:.0f}" if way in self.criteria else ""
                lines.append([said, str(_heads(way, size)), averaged(self.accuracy[way][:, place]), minus, seconds])
        return table(["kept", "heads", "% accurate", "minus random, 95 %", "seconds to choose"], lines)

    def facts(self) -> dict:
        few, more = (int(size) for size in self.kept)
        asked = self.asked[0]
        facts: dict = dict(splits=len(self.records), few=few, more=more)
        facts |= {name: int(asked[name]) for name in ("examples", "random", "width")}
        facts |= dict(layers_few=-(-few // 12), layers_more=-(-more // 12))
        pairs = {"random": (THEORY, reading.RANDOM), "weights": (WEIGHTS, reading.RANDOM), "layers": (LAYERS, THEORY)}
        for name, (first, second) in pairs.items():
            for size in (few, more):
                facts[f"{name}_{size}"], facts[f"{name}_half_{size}"], _ = self.apart(first, second, size)
        for way, name in {THEORY: "both", LAYERS: "lowest"}.items():
            for batch in self.timed[0]["batch"].values:
                saved = 100 * (1 - self.milliseconds(way, batch) / self.milliseconds(None, batch))
                facts |= {f"{name}_saved_{size}_{batch}": one for size, one in zip((few, more), saved, strict=True)}
        facts["apart"] = max(float(each["removed_apart"]) for each in self.timed)
        return {name: int(value) if isinstance(value, int) else float(value) for name, value in facts.items()}

    def assert_as_written(self) -> None:
        (few, more), facts = self.kept, self.facts()
        for claim in ((THEORY, reading.RANDOM, few), (TAYLOR, THEORY, few)):
            assert sum(mean > half for mean, half in self.apart(*claim)[2].values()) < 2
        assert facts[f"random_{few}"] < facts[f"random_half_{few}"]
        ahead = self.apart(LAYERS, THEORY, more)[2]
        assert all(mean > -half for mean, half in ahead.values()) and ahead["reviews"] == max(ahead.values())
        assert facts[f"layers_{more}"] > facts[f"layers_half_{more}"]
        assert facts[f"weights_{more}"] > facts[f"weights_half_{more}"]
        for batch in self.timed[0]["batch"].values:
            assert facts[f"lowest_saved_{more}_{batch}"] > 2 * facts[f"both_saved_{more}_{batch}"] > 0
            assert facts[f"lowest_saved_{few}_{batch}"] > 2 * facts[f"both_saved_{few}_{batch}"]
        assert facts["apart"] < 1e-5


def _heads(way: str, size: int) -> int:
    """Number of heads left: whole layers of twelve have at least as many as asked for."""
    return 12 * -(-size // 12) if way == LAYERS else size


def _mean_and_half(values) -> tuple[float, float]:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(values.mean()), float(student(len(values)) * error)


def _interval(mean: float, half: float) -> str:
    """A mean and half of Student's interval, which one split does not have."""
    return f"{signed(mean)} ± {half:.1f}" if np.isfinite(half) else signed(mean)
