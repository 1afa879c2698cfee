"""What skips change: the record of the hidden Markov chains, with skips and without."""

from pathlib import Path
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

import statmech_attention as sma
from attention_book import experiments, plotting, results
from attention_book.experiments.skips import Skips
from attention_book.notebooks.tables import table, with_error
from attention_book.pruning import (
    head_drops,
    head_shares,
    kernel_shares,
    layer_shares,
    path_covariance,
    path_weights,
    predictor_contributions,
    without_layers,
)
from attention_book.temperatures import LIMIT, compare, difference
from statmech_attention.plotting.style import MUTED

KINDS: dict[str, tuple[int | sma.SkipHeads, ...]] = {"heads": (2, 2), "skip": (sma.SkipHeads(2), sma.SkipHeads(2))}
TITLES = {"heads": "without skips", "skip": "with skips"}
PATHS = sma.model.path_indices(KINDS["skip"])
NAMES = [plotting.path_name(one) for one in PATHS]
THROUGH = np.flatnonzero((PATHS >= 0).all(axis=1))  # paths that the network without skips has too


class Record:
    """The record, and the draws of data that it was made with."""

    def __init__(self, path: Path):
        if not path.is_file():
            raise FileNotFoundError(f"{path}: not recorded. Run `make reproduce`, or name another folder.")
        self.found = results.load(path)
        self.run = cast(Skips, experiments.experiment_of(path))
        self.heat, self.widths = self.found.temperature.values, self.found.width.values
        self.narrow, self.cold, self.draws = int(self.widths[0]), float(self.heat[0]), self.found.sizes["draw"]
        self.trials = [self.run.trials(number) for number in range(self.draws)]

    def solved(self, kind: str, temperature: int = 0) -> np.ndarray:
        """Order parameters of all draws at the narrowest width."""
        return self.found[f"order_parameter_{kind}"].values[:, 0, temperature]

    def fresh(self, count: int, temperatures) -> dict:
        """Comparisons over temperature on draws that are not in the record."""
        others = [self.run.trials(number) for number in range(self.draws, self.draws + count)]
        return {
            TITLES[kind]: compare([one[kind] for one in others], width=self.narrow, temperatures=temperatures)
            for kind in KINDS
        }


def costs(compared: dict) -> dict:
    """Cost of skips at the narrowest width, in the limit, and how much less at the first; paired over draws."""
    plain, beside = compared.values()
    narrow, limit = plain.at_best() - beside.at_best(), plain.at_best(LIMIT) - beside.at_best(LIMIT)
    return {
        "narrow": difference(narrow, 0 * narrow),
        "limit": difference(limit, 0 * limit),
        "made_up": difference(limit, narrow),
    }


def traces(record: Record) -> dict[str, float]:
    """tr K / P in the limit, by kind, first draw."""
    found = {}
    for kind, layers in KINDS.items():
        seen = record.trials[0][kind].train
        gram = sma.kernel(seen, seen, sma.theory.gp_order_parameters(layers)[0])
        found[kind] = float(jnp.trace(gram)) / record.run.examples
    return found


def accuracy_drawn(record: Record) -> None:
    """Accuracy against width, one panel per temperature: theory, limit, exact posterior at the narrowest width."""
    heat, found = record.heat, record.found
    figure, axes = plotting.new_figure(1, len(heat), figsize=(6.6, 3.6), sharey=True, squeeze=False)
    for place, (panel, temperature) in enumerate(zip(axes.flat, heat, strict=True)):
        for kind, line, marker in (("heads", "-", "o"), ("skip", "--", "s")):
            plotting.reference_line(found[f"gp_accuracy_{kind}"].values[:, place], label="_", style=line, axes=panel)
            theory = found[f"accuracy_{kind}"].values[:, :, place]
            plotting.against_width(record.widths, theory, label=TITLES[kind], style=marker + line, axes=panel)
            value, error = plotting.mean_and_error(found[f"exact_accuracy_{kind}"].values[:, place])
            look = dict(fmt=marker, color=plotting.COLOURS["exact"], markersize=5, capsize=3, zorder=4)
            panel.errorbar(0.8 * record.narrow, value, error, label="_", **look)
        panel.set_title(f"$T$ = {temperature:g}")
    axes[0, 0].set_ylabel("test accuracy")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)


def off_in_norm(record: Record, kind: str, temperature: int) -> np.ndarray:
    """Distance of the saddle point's order parameter from the exact mean, over the latter's norm, per draw."""
    mean = record.found[f"exact_order_parameter_{kind}"].values[:, temperature]
    apart = np.linalg.norm(record.solved(kind, temperature) - mean, axis=(1, 2))
    return apart / np.linalg.norm(mean, axis=(1, 2))


def too_high(record: Record, kind: str, temperature: int) -> np.ndarray:
    """Accuracy of the theory minus that of the exact posterior, in points, per draw."""
    theory = record.found[f"accuracy_{kind}"].values[:, 0, temperature]
    return 100 * (theory - record.found[f"exact_accuracy_{kind}"].values[:, temperature])


def against_exact(record: Record):
    """Table of the theory beside the exact posterior at the narrowest width."""
    rows = []
    for t, temperature in enumerate(record.heat):
        for kind in KINDS:
            output = record.found[f"distance_{kind}"].values[:, t] / record.found[f"output_size_{kind}"].values[:, t]
            exact = 100 * record.found[f"exact_accuracy_{kind}"].values[:, t]
            cells = [
                with_error(*plotting.mean_and_error(one))
                for one in (exact, 100 * output, 100 * off_in_norm(record, kind, t))
            ]
            high = with_error(*plotting.mean_and_error(too_high(record, kind, t)), sign=True)
            rows.append((f"$T$ = {temperature:g}, {TITLES[kind]}", cells[0], high, *cells[1:]))
    return table(("", "exact accuracy, %", "theory minus exact", "mean output off by, %", "$U$ off by, %"), rows)


def found_again(record: Record) -> float:
    """Solve one saddle point of the record again; return the largest relative difference of U."""
    trial = record.trials[0]["skip"]
    again = sma.solve(sma.Problem(trial.train, trial.labels, width=record.narrow, temperature=record.cold))
    saddle = record.solved("skip")[0]
    np.testing.assert_allclose(again.order_parameters[0][:3, :3], again.order_parameters[1], rtol=1e-9)  # (R2)
    return float(np.abs(np.asarray(again.order_parameter) - saddle).max() / np.abs(saddle).max())


@jax.jit
def _accuracy_along(inputs, labels, tests, wanted, heat):
    train, test = (sma.AttentionedInputs(values[:, None], (1,)) for values in (inputs, tests))
    mean = sma.kernel_regression(sma.Problem(train, labels, temperature=heat), jnp.eye(1)).predict(test).mean
    return sma.accuracy(mean, wanted)


def single_paths(record: Record) -> np.ndarray:
    """Accuracy `(draws, paths)` of the limit along each path alone, at the lowest temperature."""
    found = np.zeros((record.draws, len(PATHS)))
    for row, both in zip(found, record.trials, strict=True):
        one = both["skip"]
        for number in range(len(PATHS)):
            seen, tests = one.train.values[:, number], one.test.values[:, number]
            row[number] = _accuracy_along(seen, one.labels, tests, one.test_labels, record.cold)
    return found


def single_paths_drawn(single: np.ndarray) -> None:
    """One column of dots per path."""
    _, axes = plotting.new_figure(figsize=(6.2, 3.2))
    colours = [MUTED["indigo"] if number in THROUGH else "0.6" for number in range(len(PATHS))]
    plotting.groups(single, NAMES, colours=colours, axes=axes)
    axes.axhline(0.5, color="0.7", linewidth=0.8, zorder=0)
    axes.set(xlabel="path", ylabel="test accuracy")


def weights_drawn(record: Record) -> None:
    """Weights of pairs of paths without and with skips, mean over draws."""
    weighed = {
        kind: np.mean([path_weights(u, layers=k) for u in record.solved(kind)], axis=0) for kind, k in KINDS.items()
    }
    scale = max(np.abs(one).max() for one in weighed.values())
    figure, axes = plotting.new_figure(1, 2, figsize=(6.6, 3.6), width_ratios=(4, 7))
    for panel, (kind, layers) in zip(axes, KINDS.items(), strict=True):
        plotting.order_parameter(weighed[kind], layers=layers, limit=scale, annotate=False, axes=panel)
        panel.tick_params(labelsize=10)
        panel.set_title(TITLES[kind])
    figure.colorbar(axes[1].images[0], ax=axes, shrink=0.8, label=r"$c_\pi c_{\pi'} U^{\pi\pi'}$")


def parts_of_the_kernel(record: Record) -> tuple[np.ndarray, np.ndarray]:
    """Shares `(draws, 3)` along both skips, through two heads, of other pairs: narrowest width, and limit."""
    layers = KINDS["skip"]
    limit = sma.theory.gp_order_parameters(layers)[0]
    found = []
    for matrix, both in zip(record.solved("skip"), record.trials, strict=True):
        covariance = np.asarray(path_covariance(both["skip"].train))
        found.append(
            [kernel_shares(path_weights(u, layers=layers), covariance, layers=layers) for u in (matrix, limit)]
        )
    narrow, wide = np.swapaxes(found, 0, 1)
    return narrow, wide


def shares_and_drops(record: Record):
    """Shares of heads and their drops by kind; accuracies without the heads of layers; shares of layers."""
    shares: dict[str, np.ndarray] = {}
    drops: dict[str, list] = {}
    cuts = []
    for kind, layers in KINDS.items():
        shares[kind] = np.array([head_shares(matrix, layers=layers) for matrix in record.solved(kind)])
        drops[kind] = []
        for both, matrix in zip(record.trials, record.solved(kind), strict=True):
            one = both[kind]
            problem = sma.Problem(one.train, one.labels, temperature=record.cold)
            parts = predictor_contributions(problem, one.test, matrix)
            drops[kind].append(head_drops(parts, one.test_labels, layers=layers).mean)
            if kind == "skip":
                cuts.append(without_layers(parts, one.test_labels, layers=layers).mean)
    of_layers = np.array([layer_shares(one, layers=KINDS["skip"]) for one in record.solved("skip")])
    return shares, drops, np.array(cuts), of_layers


def shares_drawn(shares, drops) -> None:
    """Drop in accuracy of each head against its share."""
    layer_of = sma.pruning.head_indices((2, 2))[:, 0] + 1
    _, axes = plotting.new_figure(1, 2, figsize=(6.4, 3.2), sharey=True)
    for panel, kind in zip(axes, KINDS, strict=True):
        mean, error = plotting.mean_and_error(np.array(drops[kind]))
        plotting.scores_and_drops(shares[kind], mean, error, layer_of, colour=MUTED["indigo"], axes=panel)
        panel.set(title=TITLES[kind], xlabel="share of the head")
    axes[1].set_ylabel("")
    axes[0].legend()


def layers_removed(record: Record, cuts, of_layers):
    """Table of layers: their share, and the accuracy without their heads."""
    whole = with_error(*plotting.mean_and_error(100 * cuts[:, 0]))
    rows = [("none", "", whole, "")]
    for layer in range(2):
        drop = with_error(*plotting.mean_and_error(100 * (cuts[:, layer + 1] - cuts[:, 0])), sign=True)
        share = with_error(*plotting.mean_and_error(of_layers[:, layer]))
        rows.append(
            (f"heads of layer {layer + 1}", share, with_error(*plotting.mean_and_error(100 * cuts[:, layer + 1])), drop)
        )
    rows.append(("all heads", "", with_error(*plotting.mean_and_error(100 * cuts[:, -1])), ""))
    return table(("removed", r"share $\hat s_l$", "accuracy, %", "change"), rows)
