"""Scores of heads and what masking a head costs an encoder, by four outcomes; recorded."""

from typing import ClassVar

import numpy as np
from scipy.stats import rankdata

from attention_book import plotting, results
from attention_book.experiments import encoded_reading as reading
from attention_book.measures import half_interval, student
from attention_book.notebooks.tables import signed, table, with_error
from attention_book.pruning.random_orders import unit_ranks
from statmech_attention.plotting.style import MUTED

NETWORKS = {"probe": "as it is", "tuned": "fine-tuned"}
TEMPERED = "log loss, refitted $T$"
OUTCOMES = {  # as adopted
    "log loss": "loss_rise",
    "margin": "margin_fall",
    "accuracy": "accuracy_drop",
    TEMPERED: "tempered_rise",
}
LOOKS = {
    "both": (plotting.COLOURS["theory"], "o-"),
    "either": ("0.35", "^-"),
    "Taylor": (MUTED["green"], "v-"),
    "alignment": (MUTED["rose"], "s-"),
    "Taylor in the encoder": (MUTED["purple"], "D-"),
    "random": ("0.5", "x--"),
}
SCORES = ("both", "either", "Taylor", "alignment", "Taylor in the encoder")
_SAID = {"Taylor": "Taylor, theory", "Taylor in the encoder": "Taylor, encoder"}
_HEADS, _LAYERS = 72, 6


def _within(values):
    """Ranks within each of the encoder's layers, all layers alike."""
    return np.concatenate([rankdata(part, axis=-1) for part in np.split(values, _LAYERS, axis=-1)], axis=-1)


class Masked:
    """Records of masked heads: scores, costs, and accuracies of few heads."""

    def __init__(self, folder):
        self.found = reading.recorded_splits(folder, "masked")
        self.records = reading.encoder_records(folder, "masked")
        self.asked = results.record(self.records[0])["parameters"]
        self.number_of = [one.sizes["split"] for one in self.found.values()]
        random = np.random.default_rng(0)
        self.anywhere = random.permuted(np.tile(np.arange(_HEADS), (4000, 1)), axis=1)
        size = _HEADS // _LAYERS
        inside = random.permuted(np.tile(np.arange(size), (4000, _LAYERS, 1)), axis=2)
        self.in_layers = (inside + size * np.arange(_LAYERS)[:, None]).reshape(4000, _HEADS)
        self.score, self.fall = {}, {}
        for network in NETWORKS:
            for name in SCORES:
                self.score[network, name] = self._of_splits(lambda one: one["score"].sel(criterion=name), network)  # noqa: B023
            for outcome, name in OUTCOMES.items():
                self.fall[network, outcome] = self._of_splits(lambda one: one[name].mean("half"), network)  # noqa: B023
        self.cost = {
            (network, name, outcome): self.compared(self.score[network, name], self.fall[network, outcome])
            for network in NETWORKS
            for name in SCORES
            for outcome in OUTCOMES
        }
        margins = {network: self.fall[network, "margin"] for network in NETWORKS}
        self.inside, self.size = {}, {}
        for (network, name), values in self.score.items():
            self.inside[network, name] = self.compared(_within(values), _within(margins[network]), self.in_layers)
            self.size[network, name] = self.compared(values, np.abs(margins[network]))

    def _of_splits(self, values, network) -> np.ndarray:
        """One row per split, of all tasks."""
        each = [values(one.sel(network=network)).transpose("split", "head").values for one in self.found.values()]
        return np.concatenate(each)

    def by_task(self, values):
        """Rows of all splits, a part per task."""
        return np.split(values, np.cumsum(self.number_of)[:-1])

    def compared(self, first, second, renumbered=None) -> tuple[float, float, float, float, list]:
        """Mean rank correlation over splits, its error over tasks, p, width of the null, and each task.

        The null renumbers heads alike in all splits, since falls of different tasks are alike.
        """
        renumbered = self.anywhere if renumbered is None else renumbered
        first, second = unit_ranks(first), unit_ranks(second)
        tasks = [part.mean() for part in self.by_task((first * second).sum(axis=1))]
        matrix = first.T @ second / len(first)
        chance = matrix[renumbered, np.arange(_HEADS)].sum(axis=1)
        value = float(np.trace(matrix))
        error = float(np.std(tasks, ddof=1) / np.sqrt(len(tasks))) if len(tasks) > 1 else 1 / np.sqrt(_HEADS - 1)
        return value, error, (1 + np.sum(np.abs(chance) >= abs(value))) / (1 + len(chance)), float(chance.std()), tasks

    def repeated(self, network, outcome) -> float:
        """Agreement of the falls on two halves of the test sentences."""
        name = OUTCOMES[outcome]
        halves = [unit_ranks(self._of_splits(lambda one: one[name].isel(half=half), network)) for half in (0, 1)]  # noqa: B023
        return float((halves[0] * halves[1]).sum(axis=1).mean())

    def between(self, network, outcome) -> float:
        """Agreement of the falls of different tasks."""
        falls = self.by_task(unit_ranks(self.fall[network, outcome]))
        ranks = unit_ranks(np.array([part.mean(axis=0) for part in falls]))
        pairs = (ranks @ ranks.T)[np.triu_indices(len(ranks), 1)]
        return float(pairs.mean()) if len(pairs) else float("nan")

    def rank_figure(self) -> None:
        """Rank correlation of every score with every outcome in both encoders."""
        marks = dict(zip(reading.NAMES, "os^DP", strict=True))
        figure, panels = plotting.new_figure(len(OUTCOMES), 2, figsize=(5.6, 8.2), sharey=True, sharex=True)
        for column, (network, said) in zip(panels.T, NETWORKS.items(), strict=True):
            for panel, outcome in zip(column, OUTCOMES, strict=True):
                null = max(self.cost[network, score, outcome][3] for score in SCORES)
                panel.axvspan(-2 * null, 2 * null, color="0.93", linewidth=0)
                panel.axvline(0, color="0.7", linewidth=0.8)
                for place, score in enumerate(SCORES):
                    mean, *_, tasks = self.cost[network, score, outcome]
                    colour = LOOKS[score][0]
                    for task, value in zip(self.found, tasks, strict=True):
                        panel.plot(value, place, marks[task], color=colour, markerfacecolor="none", markersize=4)
                    panel.plot(mean, place, "|", color=colour, markersize=13, markeredgewidth=2.4)
                panel.set_title(f"{said}: {outcome}", fontsize=9)  # the longest beside each other
                panel.set_xlim(-0.7, 0.95)
        for panel in panels[-1]:
            panel.set_xlabel("rank correlation")
        panels[0, 0].set_yticks(range(len(SCORES)), [_SAID.get(score, score) for score in SCORES])
        panels[0, 0].invert_yaxis()
        for task in self.found:
            look = dict(color="0.35", markerfacecolor="none", label=reading.NAMES[task])
            panels[0, 0].plot([], [], marks[task], **look)
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)

    def rank_table(self, scores=SCORES):
        """Rank correlations by outcome, within layers, and with the size of the change."""
        lines = []
        for network, said in NETWORKS.items():
            for score in scores:
                cells = [self.cost[network, score, outcome] for outcome in OUTCOMES]
                cells += [self.inside[network, score], self.size[network, score]]
                lines.append([f"{said}: {_SAID.get(score, score)}", *map(_marked, cells)])
            for name, of in (("halves of the sentences", self.repeated), ("between tasks", self.between)):
                lines.append([f"{said}: *{name}*", *(signed(of(network, outcome), 2) for outcome in OUTCOMES), "", ""])
        return table(["", *OUTCOMES, "margin, within layers", "margin, size of change"], lines)

    def short_table(self):
        """Rank correlations by outcome of the theory's score and of the encoder's own gradient."""
        lines = [
            [
                f"{said}: {_SAID.get(score, score)}",
                *(_marked(self.cost[network, score, outcome]) for outcome in OUTCOMES),
            ]
            for network, said in NETWORKS.items()
            for score in ("both", "Taylor in the encoder")
        ]
        return table(["", *OUTCOMES], lines)

    CASES = {"a": ("probe", "accuracy_kept"), "b": ("probe", "accuracy_again"), "c": ("tuned", "accuracy_kept")}

    ORDERS: ClassVar = {
        "gradient_a": ("a", "Taylor in the encoder"),
        "gradient_c": ("c", "Taylor in the encoder"),
        "both_b": ("b", "both"),
    }

    def curve(self, case: str, order: str) -> np.ndarray:
        """Accuracies of the heads that an order keeps, (splits, sizes)."""
        network, name = self.CASES[case]
        here = [one[name].sel(network=network) for one in self.found.values()]
        return np.concatenate([reading.of_order(one, order).transpose("split", "kept").values for one in here])

    def curves_figure(self) -> None:
        """Accuracy against heads kept."""
        figure, panels = plotting.new_figure(3, 1, figsize=(5.0, 7.0), sharey=True, sharex=True)
        first = next(iter(self.found.values()))
        for panel, (case, (network, _)) in zip(panels, self.CASES.items(), strict=True):
            whole = np.concatenate([one["accuracy"].sel(network=network).values for one in self.found.values()])
            panel.axhline(whole.mean(), color="0.3", linewidth=0.9, linestyle=":", label="all heads")
            for order in (one for one in LOOKS if one == "random" or one in first["order"]):
                colour, style = LOOKS[order]
                panel.plot(
                    first["kept"], self.curve(case, order).mean(axis=0), style, color=colour, markersize=4, label=order
                )
            panel.set(xscale="log", ylabel="test accuracy")
            panel.set_xticks(first["kept"].values, [f"{size}" for size in first["kept"].values])
            panel.minorticks_off()
        panels[-1].set_xlabel("heads kept")
        plotting.label_panels(panels)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)

    def few(self, case: str, order: str) -> float:
        """Accuracy with the middle number of heads, in percent."""
        return 100 * float(self.curve(case, order).mean(axis=0)[len(self.asked["kept"]) // 2])

    def over_random(self, case: str, order: str) -> list[tuple[float, float]]:
        """Accuracy by an order minus random, in points, with errors over tasks, by number of heads kept."""
        apart = 100 * (self.curve(case, order) - self.curve(case, "random"))
        each = [np.array([part.mean() for part in self.by_task(column)]) for column in apart.T]
        return [(float(one.mean()), float(one.std(ddof=1) / np.sqrt(len(one)))) for one in each]

    def beyond(self) -> list[tuple[str, int]]:
        """Orders and numbers of heads kept whose accuracy differs from random by more than 95 % of its error."""
        quantile = student(len(self.found))
        return [
            (name, size)
            for name, of in self.ORDERS.items()
            for size, (mean, error) in zip(self.asked["kept"], self.over_random(*of), strict=True)
            if abs(mean) > quantile * error
        ]

    def mean_of(self, network: str, name: str) -> float:
        return float(np.mean([float(one[name].sel(network=network).mean()) for one in self.found.values()]))

    def mixed(self) -> dict[tuple[str, str], np.ndarray]:
        """Accuracies of the theory in percent, one per task, by the attention's encoder and the tokens'."""
        found = {}
        for network, other in (("probe", "tuned"), ("tuned", "probe")):
            for tokens, name in ((network, "theory_accuracy"), (other, "theory_accuracy_mixed")):
                each = [100 * one[name].sel(network=network).mean() for one in self.found.values()]
                found[network, tokens] = np.array(each, float)
        return found

    def mixed_table(self):
        """Accuracies of the theory with attention and tokens of either encoder, means over tasks."""
        found, names = self.mixed(), {"probe": "original", "tuned": "fine-tuned"}
        lines = [
            [f"{said} attention", *(f"{found[network, tokens].mean():.1f}" for tokens in names)]
            for network, said in names.items()
        ]
        return table(["", *(f"{said} tokens" for said in names.values())], lines)

    def gains(self) -> dict[str, np.ndarray]:
        """Points, one per task, that attention or tokens of the fine-tuned encoder add to the original one."""
        found = self.mixed()
        whole = found["probe", "probe"]
        return {"attention": found["tuned", "probe"] - whole, "tokens": found["probe", "tuned"] - whole}

    def alike(self) -> float:
        """Rank correlation of the falls of the margin in both encoders."""
        return self.compared(self.fall["probe", "margin"], self.fall["tuned", "margin"])[0]

    def facts(self) -> dict:
        facts = {name: self.asked[name] for name in ("examples", "test_examples", "epochs", "batch", "width", "random")}
        facts |= dict(
            tasks=len(self.found),
            splits=sum(self.number_of),
            kept=int(self.asked["kept"][len(self.asked["kept"]) // 2]),
        )
        training = [float(one["training_loss"][..., -1].mean()) for one in self.found.values()]
        facts |= dict(training=float(np.mean(training)), loss=self.mean_of("tuned", "loss"), alike=self.alike())
        falls = self.fall["probe", "accuracy"]
        facts |= dict(moved=100 * float(np.abs(falls).mean()), most=100 * float(falls.max()), drops=falls.size)
        gains, mixed = self.gains(), self.mixed()
        for part, points in gains.items():
            facts[f"gain_{part}"] = with_error(points.mean(), half_interval(points), sign=True)
        facts |= {f"mixed_{network}_{tokens}": float(values.mean()) for (network, tokens), values in mixed.items()}
        facts["mixed_spam"] = float(mixed["probe", "probe"][[*self.found].index("spam")])
        facts["gain_least"] = float(np.sort(gains["attention"])[1])
        own = "Taylor in the encoder"
        for name, key in {"both": ("probe", "both"), "own": ("probe", own), "own_tuned": ("tuned", own)}.items():
            for outcome, said in {"accuracy": "accuracy", TEMPERED: "tempered"}.items():
                value, _, p, *_ = self.cost[*key, outcome]
                facts[f"{name}_{said}"] = f"{signed(value, 2)} (p {'< 0.001' if p < 0.001 else f'= {p:.3f}'})"
        facts["own_tuned_verdict"] = "holds" if self.cost["tuned", own, "accuracy"][2] < 0.05 else "fails"
        for order in ("both", "random", "Taylor in the encoder"):
            facts[f"few_a_{order.replace(' ', '_')}"] = self.few("a", order)
        for name, of in self.ORDERS.items():
            facts[f"over_{name}"] = ", ".join(with_error(*one, sign=True) for one in self.over_random(*of))
        facts["beyond"] = " and ".join(str(size) for _, size in self.beyond())
        facts["sizes"] = ", ".join(map(str, self.asked["kept"]))
        facts |= dict(student=student(len(self.found)), differences=len(self.ORDERS) * len(self.asked["kept"]))
        return facts

    def assert_as_written(self) -> None:
        value, others = {key: one[0] for key, one in self.cost.items()}, [score for score in SCORES if score != "both"]
        assert set(self.found) == set(reading.NAMES) - {"made"}
        for outcome in OUTCOMES:
            assert self.cost["probe", "both", outcome][2] < 0.05 and 0 < value["probe", "both", outcome] < 0.35
        assert all(self.cost["probe", score, outcome][2] > 0.05 for score in others for outcome in OUTCOMES)
        encoder = self.size["probe", "Taylor in the encoder"]
        assert encoder[0] > 0.4 and encoder[2] < 0.001
        for score in others:
            assert value["tuned", score, "margin"] > 0.4 and value["tuned", score, "log loss"] < -0.1
            if score != "Taylor in the encoder":
                assert value["tuned", score, "margin"] > 2 * self.inside["tuned", score][0] - 0.05
        assert max(value["tuned", score, "accuracy"] for score in others) < 0.2
        assert value["tuned", "both", "accuracy"] > 0 and self.cost["tuned", "both", "accuracy"][2] < 0.01
        assert abs(value["tuned", "both", "margin"]) < 0.1 and self.alike() < 0.25
        assert all(self.repeated(network, "accuracy") < 0.35 for network in NETWORKS)
        assert all(self.repeated(network, TEMPERED) > self.repeated(network, "accuracy") + 0.2 for network in NETWORKS)
        for score in SCORES:
            assert self.cost["tuned", score, TEMPERED][2] > 0.01 or value["tuned", score, TEMPERED] > 0
        for case in "ac":
            both, random = self.few(case, "both"), self.few(case, "random")
            assert self.few(case, "Taylor in the encoder") > max(both, random)
        assert {name for name, _ in self.beyond()} == {"gradient_c"}
        ahead = self.curve("c", "Taylor in the encoder") - self.curve("c", "random")
        assert all(part.mean(axis=0).min() > 0 for part in self.by_task(ahead))
        assert self.mean_of("tuned", "theory_accuracy") > self.mean_of("probe", "theory_accuracy") + 0.05
        assert abs(self.mean_of("tuned", "theory_accuracy") - self.mean_of("tuned", "accuracy")) < 0.03
        mixed, gains = self.mixed(), self.gains()
        assert all(abs(mixed["tuned", "probe"] - mixed["tuned", "tuned"]) < 1)
        assert all(one.mean() < half_interval(one) for one in gains.values())
        assert np.sort(gains["attention"])[0] < 1 < 5 < np.sort(gains["attention"])[1]


def _marked(one) -> str:
    """A correlation with its error, and marks of p."""
    mark = "‡" if one[2] < 0.001 else "†" if one[2] < 0.01 else ""
    return f"{signed(one[0], 2)} ± {one[1]:.2f}{mark}"
