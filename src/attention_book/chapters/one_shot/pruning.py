"""Pruning heads, and the appendix on it."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from attention_book import plotting, results
from attention_book.experiments import importances
from attention_book.notebooks import pages, tables
from attention_book.pruning import ordering

TEN, SHORT = "ten epochs", "two epochs"
# From the authors' script, typed in there by hand: accuracy in percent without each head, lowest score first.
_PRINTED = np.array([81.8, 83.0, 79.5, 75.4, 76.0, 76.5, 74.3, 74.9])
_LOOKS = {"score, either": "theory, either", "score, both": "theory, both", "Taylor, 600": "Taylor"}


def interval(values, digits: int = 0) -> str:
    """Mean with Student's 95 % interval."""
    one = importances.pooled(values, bounds=(-np.inf, np.inf))
    value, low, high = (tables.signed(number, digits) for number in one[:3])
    return f"{value} [{low}, {high}]"


def over(seeds, value):
    """A number per seed: the mean over the networks that share it."""
    return np.array([np.mean([value(one) for one in twins]) for twins in seeds.values()])


def _any(one):
    return 100 * one.costs(str(one.pruned["test_set"].values[0])).mean()


def _cheapest(one):
    return 100 * one.costs(str(one.pruned["test_set"].values[0])).min()


BOUNDS = {"any pair": _any, "cheapest pair": _cheapest}


class Heads:
    """Records of pruned networks of two layers of four heads, by seed, in two groups."""

    def __init__(self, folder: str, ten_epochs: str, two_epochs: Sequence[str], width: float):
        self.folders, self.width = (folder, ten_epochs, *two_epochs), width
        load = importances.recorded_seeds
        self.groups = {TEN: load(folder, ten_epochs, layers=(4, 4)), SHORT: load(*two_epochs, layers=(4, 4))}
        self.ten, self.short = self.groups.values()
        self.every = {seed: self.ten.get(seed, []) + self.short.get(seed, []) for seed in sorted(self.ten | self.short)}
        self.networks = [one for twins in self.every.values() for one in twins]
        first = next(iter(self.ten.values()))[0]
        self.inside, self.outside, *_ = first.drops
        self.at, self.widest = f"N = {width:g}", float(first.pruned["width"].max())
        self.limit = f"N = {self.widest:g}"  # nearly the Gaussian-process limit
        self.shown = {
            "leave one out": "leave one out, 10,000 sequences",
            "Taylor": "Taylor, 10,000",
            "Taylor, few": "Taylor, 600",
            "leave one out, few": "leave one out, 600",
            f"own drop, fitted, {self.at}": f"theory refitted, {self.at}",
            f"own drop, fitted, {self.limit}": f"theory refitted, N = {self.widest:,.0f}",
            f"own drop, {self.at}": f"theory cut, {self.at}",
            f"theory, either, {self.at}": "score, either",
            f"theory, both, {self.at}": "score, both",
            f"theory, weighted, {self.at}": "score, weighted",
            "trained, either": "trained weights, either",
            "weights": "norm of the weights",
            "kernels": "kernels",
            "confidence": "confidence",
        }
        of_interest = f"theory, either, {self.at}", f"theory, both, {self.at}", "Taylor, few"
        fitted = f"own drop, fitted, {self.at}", f"own drop, fitted, {self.limit}"
        self.picks = {name: self.shown[name] for name in (*of_interest, *fitted)}

    def picked(self, measure: str, test_set: str = ""):
        """Cost in percent of the pair of heads that goes first by a measure, as a function of a network."""
        return lambda one: 100 * one.costs(test_set or self.inside)[one.choice(one.lowest(measure))]

    def files(self) -> list[Path]:
        """All records."""
        return [path for place in self.folders for path in sorted(Path(place).glob("pruning-2x4-seed*.nc"))]

    def labelled(self) -> tuple[int, int]:
        """Numbers of labelled sequences of the theory, and of the validation classes, that scores are taken on."""
        path = self.files()[0]
        theory, pruned = (path.with_name(path.name.replace("pruning", kind)) for kind in ("theory", "pruning"))
        return results.record(theory)["parameters"]["examples"], results.record(pruned)["parameters"]["examples"]

    @cached_property
    def costs(self) -> dict:
        """Costs per seed by group and by how the pair is picked."""
        ways = {name: self.picked(name) for name in self.picks} | BOUNDS
        return {(group, name): over(seeds, way) for group, seeds in self.groups.items() for name, way in ways.items()}

    @cached_property
    def orderings(self) -> dict:
        """Rank correlations of all measures with the drops, by measure and whether within layers."""
        return {
            (name, within): importances.ordered(self.every, name, self.inside, within=within)
            for name in self.shown
            for within in (False, True)
        }

    def either(self, kind: str = "either") -> dict:
        """Rank correlation of a score with the drops of single heads, by group."""
        name = f"theory, {kind}, {self.at}"
        return {group: importances.ordered(seeds, name, self.inside) for group, seeds in self.groups.items()}


def _mark(label: str, place: float, value: float, axes, first: bool):
    colour, style = plotting.CRITERIA[_LOOKS[label]]
    look = dict(color=colour, markerfacecolor="white" if "--" in style else colour, linestyle="none")
    axes.plot(place, value, style[0], label=label if first else "_", **look)


def choices(heads: Heads):
    """Figure: what every pair costs, and which pairs are picked, one column per seed."""
    figure, axes = plotting.new_figure(figsize=(6.6, 3.8))
    measures = dict(zip(_LOOKS, heads.picks, strict=False))
    column, names = 0, list[str]()
    for group, seeds in heads.groups.items():
        axes.text(column - 0.4, 0.98, group, transform=axes.get_xaxis_transform(), va="top")
        for seed, twins in seeds.items():
            costs = np.mean([100 * one.costs(heads.inside) for one in twins], axis=0)
            axes.hlines(costs, column - 0.36, column + 0.36, color="0.8", linewidth=0.7, zorder=0)
            for place, (label, measure) in enumerate(measures.items()):
                value = np.mean([heads.picked(measure)(one) for one in twins])
                _mark(label, column + 0.2 * (place - 1), value, axes, not names)
            names.append(str(seed))
            column += 1
        axes.axvline(column - 0.5, color="0.85", linewidth=0.8)
    axes.set_xticks(range(column), names)
    axes.set(ylabel="cost, % of accuracy above chance", xlabel="seed", xlim=(-0.6, column - 0.4), ylim=(0, None))
    axes.set_ylim(top=1.12 * axes.get_ylim()[1])
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3)


def choices_table(heads: Heads):
    """Table of costs of the picked pairs, in both groups."""
    head, rows = ["the pair is picked by"], []
    for group, seeds in heads.groups.items():
        head += [f"{group} ({len(seeds)} seeds): cost, %", "minus any pair"]
    for name in (*heads.picks, *BOUNDS):
        cells = [heads.picks.get(name, name)]
        for group in heads.groups:
            apart = heads.costs[group, name] - heads.costs[group, "any pair"]
            cells += [tables.averaged(heads.costs[group, name], 0), "" if name == "any pair" else interval(apart)]
        rows.append(cells)
    return tables.table(head, rows)


def keep_choices(heads: Heads, published: bool) -> None:
    """Glue what the picked pairs cost, how the scores order heads, and the outcome of the rules."""
    either = heads.either()
    name = f"theory, either, {heads.at}"
    for key, group in (("ten", TEN), ("short", SHORT)):
        pages.glue(f"prune_{key}_count", sum(map(len, heads.groups[group].values())))
        pages.glue(f"prune_{key}_seeds", len(heads.groups[group]))
        pages.glue(f"prune_{key}_rank_either", either[group].in_words)
        pages.glue(f"prune_{key}_either", f"{np.mean(heads.costs[group, name]):.0f}")
        for short, bound in (("any", "any pair"), ("best", "cheapest pair")):
            pages.glue(f"prune_{key}_{short}", f"{np.mean(heads.costs[group, bound]):.0f}")
        outside = over(heads.groups[group], heads.picked(name, heads.outside))
        pages.glue(f"prune_{key}_outside", tables.averaged(outside, 0))
    pages.glue("prune_outside", heads.outside)
    few, many = heads.labelled()
    pages.glue("prune_few", few)
    pages.glue("prune_many", f"{many:,}")
    pages.glue("prune_ten_rank_both", heads.either("both")[TEN].in_words)
    pages.glue("prune_ten_both", f"{np.mean(heads.costs[TEN, f'theory, both, {heads.at}']):.0f}")
    short = heads.costs[SHORT, name] - heads.costs[SHORT, "any pair"] / 2
    pages.glue("prune_short_half", interval(short))
    pages.glue("prune_ten_gain", interval(heads.costs[TEN, name] - heads.costs[TEN, "any pair"]))
    # The rules of workflow/ten_epochs.yaml.
    beyond = heads.costs[TEN, name] - heads.costs[TEN, "any pair"] / 2
    half = plotting.mean_and_error(beyond)
    order = plotting.mean_and_error(either[TEN].each)
    paper = ordering([np.arange(8)], [83.8 - _PRINTED], layers=[(8,)]).value
    pages.glue("prune_ten_half", interval(beyond))
    pages.glue("prune_paper", f"{paper:+.2f}")
    if published:
        assert all(one.each.min() < paper < one.each.max() for one in either.values())
        apart = heads.costs[TEN, name] - heads.costs[TEN, "any pair"]
        assert apart.min() < -15 and apart.max() > 0
        assert len(heads.ten) == 11 and importances.pooled(apart, bounds=(-99, 99)).high < 0
        assert half[0] >= -2 * half[1] and order[0] > 2 * order[1]  # of the rules only the second is met
        assert either[SHORT].p < 0.001 and heads.either("both")[TEN].p > 0.05
        assert importances.pooled(short, bounds=(-99, 99)).high > 0  # nor is the first rule met here
        apart = heads.costs[SHORT, name] - heads.costs[SHORT, "any pair"]
        assert importances.pooled(apart, bounds=(-99, 99)).high < 0


def agreement_text(heads: Heads) -> str:
    """The README's row on two layers of four heads."""
    either = heads.either()
    return (
        f"partly: rank correlation {either[TEN].value:+.2f}; after two epochs {either[SHORT].value:+.2f}; not marginal"
    )


def criteria(heads: Heads):
    """Figure: rank correlation of every score with the drops, over all heads and within layers."""
    rows = sorted(heads.shown, key=lambda name: -heads.orderings[name, False].value)
    figure, axes = plotting.new_figure(1, 2, figsize=(6.6, 1.2 + 0.3 * len(rows)), sharey=True)
    for panel, within, title in zip(axes, (False, True), ("all heads", "within layers"), strict=True):
        found = {name: heads.orderings[name, within] for name in rows}
        values = {heads.shown[name]: (one.each, importances.pooled(one.each)[:3]) for name, one in found.items()}
        chance = found[rows[0]].chance
        plotting.importances_compared(values, ["seed"] * len(heads.every), chance=chance, axes=panel)
        panel.set(title=title, xlabel="rank correlation")


def keep_criteria(heads: Heads) -> None:
    """Glue the rank correlations of some scores."""
    names = {"fitted": f"own drop, fitted, {heads.at}", "limit": f"own drop, fitted, {heads.limit}"}
    for key, name in (names | {"confidence": "confidence", "weights": "weights"}).items():
        pages.glue(f"prune_all_{key}", heads.orderings[name, False].in_words)
    pages.glue("prune_within_weights", heads.orderings["weights", True].in_words)
    pages.glue("prune_every", len(heads.every))
    pages.glue("prune_width", heads.width)
    pages.glue("prune_widest", f"{heads.widest:,.0f}")


def keep_fewer(folder: str, published: bool) -> None:
    """Glue the accuracy of three heads per layer from scratch minus that of four, and the cost of a pair of these."""
    fewer, whole = (importances.recorded_seeds(folder, layers=(heads,) * 2) for heads in (3, 4))
    records = [[one[seed][0].pruned.isel(test_set=0) for one in (fewer, whole)] for seed in fewer]
    few, all_heads = 100 * np.array([[float(one.accuracy) for one in pair] for pair in records]).T
    cost = (all_heads - [100 * float(one.choice_accuracy.mean()) for _, one in records]).mean()
    apart = importances.pooled(few - all_heads, bounds=(-np.inf, np.inf))
    outcome = "holds" if max(-apart.low, apart.high) < 3 else "fails" if apart.high < 0 else "stays open"
    facts = {"": interval(few - all_heads, 1), "_pair": cost, "_seeds": len(records), "_outcome": outcome}
    for name, value in facts.items():
        pages.glue(f"prune_fewer{name}", value)
    if published:
        assert outcome == "fails" and -apart.value < cost / 2


def differences(heads: Heads) -> dict:
    """Paired differences of scores by name and group: of rank correlations, and of costs."""
    either, fitted, limit = f"theory, either, {heads.at}", *(f"own drop, fitted, {n}" for n in (heads.at, heads.limit))
    pairs = {
        "either minus both": (either, f"theory, both, {heads.at}"),
        "Taylor, 600 minus either": ("Taylor, few", either),
        f"theory refitted, {heads.at} minus either": (fitted, either),
        f"theory refitted, N = {heads.widest:,.0f} minus either": (limit, either),
        f"theory refitted, {heads.at} minus N = {heads.widest:,.0f}": (fitted, limit),
        "leave one out, 10,000 minus Taylor, 600": ("leave one out", "Taylor, few"),
    }
    apart = {}
    for label, names in pairs.items():
        for group, seeds in (*heads.groups.items(), ("all", heads.every)):
            ranks = [importances.ordered(seeds, name, heads.inside).each for name in names]
            costs = [over(seeds, heads.picked(name)) for name in names]
            apart[label, group] = ranks[0] - ranks[1], costs[0] - costs[1]
    return apart


def differences_table(heads: Heads, apart):
    """Table of `differences`."""
    head, rows = ["difference, 95 % interval"], []
    for group in heads.groups:
        head += [f"{group}: rank correlation", "cost, %"]
    for label in dict.fromkeys(label for label, _ in apart):
        pairs = [apart[label, group] for group in heads.groups]
        rows.append((label, *(cell for one, cost in pairs for cell in (interval(one, 2), interval(cost)))))
    return tables.table(head, rows)


def keep_differences(heads: Heads, apart, published: bool) -> None:
    """Glue the differences over all seeds."""
    labels = dict.fromkeys(label for label, _ in apart)
    whole = {}
    for key, label in zip(("both", "taylor", "fitted", "limit", "width", "loo"), labels, strict=True):
        ranks, costs = apart[label, "all"]
        whole[key] = importances.pooled(ranks, bounds=(-2, 2))
        pages.glue(f"prune_{key}_apart", interval(ranks, 2))
        if key == "width":
            pages.glue("prune_width_cost_apart", interval(costs))
    if published:
        assert whole["both"].low > 0 and whole["taylor"].low > 0 and whole["fitted"].low > 0
        assert 0 < whole["width"].low < whole["width"].high < 0.2 and whole["loo"].low < 0 < whole["loo"].high
        assert abs(np.mean(apart[list(labels)[4], "all"][1])) < 2
        weights = (heads.orderings["weights", within].p for within in (True, False))
        assert next(weights) < 0.001 < 0.01 < next(weights)


def keep_biases(heads: Heads, published: bool) -> None:
    """Glue in how many networks a score prefers the first layer, and how seeds change between the groups."""
    for kind in ("both", "either"):
        scores = [one.measures[f"theory, {kind}, {heads.at}"] for one in heads.networks]
        count = sum(bool(one[:4].mean() > one[4:].mean()) for one in scores)
        pages.glue(f"prune_bias_{kind}", count)
        assert not published or (count > 0.9 * len(scores) if kind == "both" else count < 0.1 * len(scores))
    pages.glue("prune_networks", len(heads.networks))
    shared = [seed for seed in heads.ten if seed in heads.short]
    ways = heads.picked(f"theory, either, {heads.at}"), _any
    moved = [
        over({s: heads.ten[s] for s in shared}, way) - over({s: heads.short[s] for s in shared}, way) for way in ways
    ]
    pages.glue("prune_shared", len(shared))
    pages.glue("prune_moved", interval(moved[0] - moved[1]))


def refits(heads: Heads) -> dict[int, Path]:
    """Records of values refitted after a removal, by seed."""
    found = [path for place in heads.folders[:2] for path in Path(place).glob("refitted-2x4-seed*.nc")]
    return dict(sorted((int(path.stem.rsplit("seed", 1)[1]), path) for path in found))


class Refitted:
    """Costs of all pairs before and after the values are refitted, in percent, by seed."""

    def __init__(self, heads: Heads, paths: dict[int, Path]):
        self.heads, self.records = heads, {seed: results.load(path) for seed, path in paths.items()}
        self.made = results.record(next(iter(paths.values())))["parameters"]
        self.before, self.after = (
            {
                seed: 100 * ((one[f"whole_{k}"] - one[k]) / (one[f"whole_{k}"] - 0.5)).values
                for seed, one in self.records.items()
            }
            for k in ("cut", "refitted")
        )
        self.left = np.array([self.after[seed].mean() / self.before[seed].mean() for seed in self.records])
        self.spared = {
            label: np.array(
                [self.after[seed][self.place(seed, name)] - self.after[seed].mean() for seed in self.records]
            )
            for name, label in heads.picks.items()
        }

    def place(self, seed: int, measure: str) -> int:
        """Number of the pair that goes first by a measure."""
        one = self.heads.ten[seed][0]
        return one.choice(one.lowest(measure))

    def figure(self):
        """Figure: cost of every pair after the fit against before, one panel per seed."""
        figure, axes = plotting.new_figure(
            1, len(self.records), figsize=(6.6, 3.0), sharex=True, sharey=True, squeeze=False
        )
        for panel, seed in zip(axes.flat, self.records, strict=True):
            panel.axline((0, 0), slope=1, color="0.8", linewidth=0.8, zorder=0)
            panel.plot(self.before[seed], self.after[seed], ".", color="0.6", label="every pair")
            for label, measure in zip(_LOOKS, self.heads.picks, strict=False):
                place = self.place(seed, measure)
                _mark(label, self.before[seed][place], self.after[seed][place], panel, True)
            panel.set(title=f"seed {seed}", xlabel="before the fit, %")
        axes[0, 0].set_ylabel("cost after the fit, %")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4)

    def table(self):
        """Table of what the picked pairs cost after the fit."""
        rows = [(label, interval(values)) for label, values in self.spared.items()]
        return tables.table(("after the fit, the pair picked by", "cost minus any pair, %, 95 % interval"), rows)

    def keep(self) -> None:
        """Glue what is left of the cost, the outcome of both claims, and operations and seconds."""
        pages.glue("prune_refit_examples", f"{self.made['examples']:,}")
        pages.glue("prune_refit_left", interval(100 * self.left).replace("+", ""))
        for name, costs, take in (
            ("before", self.before, np.mean),
            ("after", self.after, np.mean),
            ("best", self.after, np.min),
        ):
            pages.glue(f"prune_refit_{name}", tables.averaged([take(one) for one in costs.values()], 0))
        pages.glue("prune_refit_either", interval(self.spared["score, either"]))
        whole = [100 * float(one["whole_refitted"] - one["whole_cut"]) for one in self.records.values()]
        pages.glue("prune_refit_whole", interval(whole, 1))
        edge = [np.mean(one["temperature"] == self.made["temperatures"][0]) for one in self.records.values()]
        pages.glue("prune_refit_edge", f"{100 * np.mean(edge):.0f}")
        share, apart = (
            importances.pooled(one, bounds=(-np.inf, np.inf)) for one in (self.left, self.spared["score, either"])
        )
        first = "holds" if share.high < 0.5 else "fails" if share.low > 0.5 else "stays open"
        second = "holds" if apart.high < 0 else "fails" if apart.low > 0 else "stays open"
        pages.glue("prune_refit_first", first)
        pages.glue("prune_refit_second", second)
        seconds = [float((one["seconds"][:, 1] / one["seconds"][:, 0]).median()) for one in self.records.values()]
        operations = [float(one["flops"][1] / one["flops"][0]) for one in self.records.values()]
        pages.glue("prune_refit_seconds", tables.averaged(100 * (1 - np.array(seconds)), 0))
        for place, name in enumerate(("whole", "pruned")):
            taken = [float(one["seconds"][:, place].median()) for one in self.records.values()]
            pages.glue(f"prune_refit_{name}_time", f"{np.mean(taken):.1f}")
        pages.glue("prune_refit_flops", f"{100 * (1 - np.mean(operations)):.0f}")


def curves(heads: Heads, wide):
    """Figure: accuracy in and out of distribution against heads removed, with four and with eight heads per layer."""
    sets = next(iter(heads.ten.values()))[0].drops
    figure, axes = plotting.new_figure(len(sets), 2, figsize=(6.4, 2.3 * len(sets) + 0.4), sharey="row", sharex="col")
    for column, members, name in zip(axes.T, (heads.ten, wide), ("$H$ = 4", "$H$ = 8"), strict=True):
        records = [one.pruned for twins in members.values() for one in twins]
        for panel, test_set in zip(column, sets, strict=True):
            parts = [one.sel(test_set=test_set) for one in records]
            shown: dict[str, Any] = {}
            for kind in ("both", "either"):
                values = [one["theory_curve"].sel(definition=kind, width=heads.width).values for one in parts]
                shown[f"theory, {kind}"] = (
                    values[0] if len(parts) == 1 else np.array([one.mean(axis=0) for one in values])
                )
            shown["Taylor"] = np.array([one["curve"].sel(criterion="Taylor").values for one in parts])
            shown["greedy"] = np.array([one["greedy_curve"].values for one in parts])
            random = [np.mean([one[f"random_curve{end}"].values for one in parts], axis=0) for end in ("", "_spread")]
            plotting.pruning_curves(shown, random=np.array(random), axes=panel)
            panel.set_title(f"{test_set}, {name}")
            panel.set(xlabel="heads removed" if panel is column[-1] else "")
            panel.set_ylabel("test accuracy" if panel in axes[:, 0] else "")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)


def keep_wide(heads: Heads, wide, published: bool) -> str:
    """Glue how sixteen heads are ordered and what a quarter costs; return the README's row."""
    (large,) = next(iter(wide.values()))
    names = {kind: f"theory, {kind}, {heads.at}" for kind in ("either", "both")}
    order = {kind: importances.ordered(wide, name, heads.inside) for kind, name in names.items()}
    costs = {"either": heads.picked(names["either"])(large), "any": _any(large), "best": _cheapest(large)}
    for kind, one in order.items():
        pages.glue(f"prune_wide_{kind}", one.in_words)
    for kind, cost in costs.items():
        pages.glue(f"prune_wide_{kind}_cost", f"{cost:.0f}")
    curve = large.pruned["theory_curve"].sel(definition="either", width=heads.width).mean("draw")
    fashion = ", ".join(f"{value:.3f}" for value in curve.isel(test_set=1).values[1:4])
    pages.glue("prune_wide_fashion", f"{float(curve[1, 0]):.3f} to {fashion}")
    pages.glue("prune_wide_omniglot", f"{float(curve[0, 0]):.3f} to {float(curve[0, 4]):.3f}")
    if published:
        assert order["either"].p < 0.05 < order["both"].p
        assert float(curve[1, 0]) > float(curve[1, 1:4].max())
    return f'partly, one network: "either" orders heads ({order["either"].value:+.2f}), "both" does not'
