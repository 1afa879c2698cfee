"""Theory against samples."""

from typing import Any

import jax
import numpy as np
import scipy.stats
from matplotlib.ticker import LogLocator

import statmech_attention as sma
from attention_book import experiments, plotting
from attention_book.chains import kept as keep
from attention_book.comparison import agreement
from attention_book.experiments import reading
from attention_book.measures import mean_accuracy
from attention_book.notebooks import pages, tables
from statmech_attention import sampling

_ENTRIES = {
    "good (1,1)": (0, 0),
    "denoising (2,1)": (2, 2),
    "adversarial (1,2)": (1, 1),
    "adversarial (2,2)": (3, 3),
    "good and denoising": (0, 2),
}


def recorded_weights(folder: str, **asked) -> dict:
    """Recorded draws of all weights on the chains, by width."""
    found = experiments.recorded_sampling(folder)
    asked |= {"network": "all", "noise": 1}
    return {one.attrs["width"]: one for one in found if all(one.attrs[name] == value for name, value in asked.items())}


def theory_accuracies(trial, solutions) -> list[float]:
    """Test accuracy of each solution."""
    return [float(sma.accuracy(one.predict(trial.test).mean, trial.test_labels)) for one in solutions]


def limits(trial, temperature: float) -> dict[str, float]:
    """Accuracies of infinitely wide networks."""
    found = {}
    for name, heads in {"all": ((0, 1), (0, 1)), "good": ((0,), (0,)), "good + denoising": ((0, 1), (0,))}.items():
        small = keep(trial, heads)
        problem = sma.Problem(small.train, small.labels, temperature=temperature)
        mean = sma.kernel_regression(problem, np.eye(small.train.values.shape[1])).predict(small.test).mean
        found[name] = float(sma.accuracy(mean, small.test_labels))
    return found


def accuracies(trial, widths, limits, theory, exact, on_all):
    """Figure: accuracy against width of the theory, the exact posterior and all weights."""
    figure, axes = plotting.new_figure(figsize=(6.2, 4.0))
    for (name, value), style in zip(limits.items(), ("-", "--", ":"), strict=True):
        plotting.reference_line([value], label=f"GP limit, {name}", style=style, axes=axes)
    plotting.against_width(widths, [theory], label="saddle point", axes=axes)
    drawn = [mean_accuracy(sampling.estimate(exact[n].output), trial.test_labels) for n in widths]
    plotting.estimates(widths, *np.transpose(drawn), label="exact posterior", axes=axes)
    if on_all:
        means = [sampling.Estimate(one.output_mean.mean("chain"), one.output_error) for one in on_all.values()]
        by_nuts = [mean_accuracy(one, trial.test_labels) for one in means]
        plotting.estimates(list(on_all), *np.transpose(by_nuts), label="weights, NUTS", axes=axes)
        saddle = [theory[list(widths).index(width)] for width in on_all]
        apart = np.abs(np.transpose(by_nuts)[0] - saddle)
        assert np.all(apart < 3 * np.transpose(by_nuts)[1] + 0.5 / len(trial.test_labels)), apart
        pages.glue("hms_nuts_gap", 100 * apart.max())
    axes.set_ylabel("test accuracy")
    plotting.legend_above(axes)
    return np.array(drawn)[:, 0]


def keep_accuracies(widths, theory, drawn, as_written: bool) -> None:
    """Glue how far apart theory and exact posterior are."""
    gap = np.abs(np.array(theory) - drawn)
    pages.glue("hms_gap", 100 * gap.max())
    pages.glue("hms_span", 100 * float(np.ptp(theory)))
    pages.glue("hms_narrow", min(widths))
    pages.glue("hms_wide", max(widths))
    if as_written:
        assert gap.max() < 0.005 and np.ptp(theory) > 0.08


def ratios(solutions, exact, widths) -> dict:
    """Posterior means of entries of U, and their errors, in percent above the saddle point, `(widths, 2)`."""
    found: dict[str, Any] = {}
    for name, entry in _ENTRIES.items():
        each = [sampling.estimate(exact[n].order_parameter[(..., *entry)]) for n in widths]
        solved = [float(one.order_parameter[entry]) for one in solutions]
        found[name] = np.array([(100 * (m / u - 1), 100 * e / abs(u)) for (m, e), u in zip(each, solved, strict=True)])
    return found


def ratios_table(widths, ratios):
    """Table of `ratios`."""
    rows = [(name, *(tables.with_error(*one, sign=True) for one in values)) for name, values in ratios.items()]
    return tables.table(("entry of $U$", *(f"$N$ = {n}" for n in widths)), rows)


def keep_ratios(widths, ratios, as_written: bool) -> None:
    """Glue the shift of the good path's weight."""
    (value, error), (wide, _) = ratios["good (1,1)"][[int(np.argmin(widths)), int(np.argmax(widths))]]
    pages.glue("hms_shift", value)
    pages.glue("hms_shift_error", error)
    pages.glue("hms_wide_shift", wide)
    if as_written:
        assert 6 < value < 15 and error < 2


def quality_table(rows: dict):
    """Table of chains: draws, divergences, R-hat and effective sizes, by name and width."""
    head = ["sampler", "$N$", "draws", "diverged", "R-hat of $U$", "of $f$", "effective size of $U$", "of $f$"]
    cells = []
    for (name, width), one in rows.items():
        r_hat = (f"{float(one[f'{what}_r_hat'].max()):.3f}" for what in ("order_parameter", "output"))
        size = (f"{float(one[f'{what}_effective_size'].min()):.0f}" for what in ("order_parameter", "output"))
        drawn = f"{one.sizes['chain']} × {one.sizes['draw']}", int(one.diverging.sum())
        cells.append((name, f"{width:g}", *drawn, *r_hat, *size))
    return tables.table(head, cells)


def quality(exact, on_all, images) -> dict:
    """Chains of this page by sampler and width."""
    rows = {("chains, exact posterior", n): one for n, one in exact.items()}
    rows |= {("chains, weights by NUTS", n): one for n, one in sorted(on_all.items())}
    for name, one in images.items():
        rows |= {(f"images, {name}", float(n)): one.sel(width=n) for n in one.width.values}
    return rows


def keep_quality(rows: dict, as_written: bool) -> None:
    """Glue the worst of the exact posterior's chains on hidden Markov chains."""
    exact = [one for (name, _), one in rows.items() if name.startswith("chains, exact")]
    whats = "order_parameter", "output"
    effective = min(float(one[f"{what}_effective_size"].min()) for one in exact for what in whats)
    r_hat = max(float(one[f"{what}_r_hat"].max()) for one in exact for what in whats)
    pages.glue("hms_effective", effective)
    pages.glue("hms_r_hat", r_hat)
    if as_written:
        assert effective > 400 and r_hat < 1.015


def keep_two_samplers(exact, on_all) -> list[int]:
    """Glue the distance of the means of both samplers, in standard errors; return the widths that both have."""
    upper, furthest, spread = np.triu_indices(4), [0.0], [0.0]
    common = sorted(set(on_all) & set(exact))
    for width in common:
        one, other = (sampling.estimate(found[width].order_parameter) for found in (on_all, exact))
        furthest.append(float(np.abs((one.mean - other.mean) / np.hypot(one.error, other.error))[upper].max()))
        outputs, drawn = on_all[width], sampling.estimate(exact[width].output)
        apart = (outputs.output_mean.mean("chain").values - drawn.mean) / np.hypot(outputs.output_error, drawn.error)
        spread.append(float(np.sqrt(np.mean(np.asarray(apart) ** 2))))
    assert max(furthest) < 4 and max(spread) < 1.4
    pages.glue("hms_furthest", max(furthest))
    pages.glue("hms_entries", len(upper[0]) * len(common))
    pages.glue("hms_spread", max(spread))
    return common


def keep_truncated(on_all) -> None:
    """Glue the largest number of steps of NUTS, and where it truncates more than nine of ten trajectories."""
    most = max((int(one.steps.max()) for one in on_all.values()), default=0)
    shares = {width: 100 * float((one.steps == most).mean()) for width, one in sorted(on_all.items())}
    often = {width: share for width, share in shares.items() if share > 90}
    pages.glue("hms_steps", most)
    pages.glue("hms_truncated_widths", " and ".join(f"{width:g}" for width in often) or "(not recorded)")
    pages.glue("hms_truncated", min(often.values(), default=float("nan")))


def under_noise(trials, widths, temperature: float, seed: int) -> dict:
    """Two paths under strong noise: accuracies `(draws, widths)` of saddle point and exact posterior, and limits."""
    found: dict[str, list] = {"limit": [], "saddle": [], "exact": []}
    for trial in trials:
        problem = sma.Problem(trial.train, trial.labels, temperature=temperature)
        mean = sma.kernel_regression(problem, np.eye(2)).predict(trial.test).mean
        found["limit"].append(float(sma.accuracy(mean, trial.test_labels)))
        at = [problem.replace(width=width) for width in widths]
        found["saddle"].append(theory_accuracies(trial, [sma.solve(one) for one in at]))
        options: dict[str, Any] = {"key": jax.random.key(seed), "points": 16, "test": trial.test, "warn": False}
        drawn: list[Any] = [sampling.importance(one, **options).output for one in at]
        found["exact"].append([mean_accuracy(one, trial.test_labels)[0] for one in drawn])
    return {name: np.array(values, float) for name, values in found.items()}


def noise(widths, found):
    """Figure: accuracy against width of two paths under strong noise."""
    figure, axes = plotting.new_figure(figsize=(6.2, 3.4))
    plotting.reference_line(found["limit"], label="GP limit", axes=axes)
    plotting.against_width(widths, found["saddle"], label="saddle point", axes=axes)
    plotting.estimates(widths, *plotting.mean_and_error(found["exact"]), label="exact posterior", axes=axes)
    axes.set_ylabel("test accuracy")
    plotting.legend_above(axes, columns=3)


def on_images(theory, number: int, recorded):
    """Figure: accuracy against width on each test set; return the largest gap per sampler and width, in points."""
    accuracy = reading.accuracies(theory).sel(draw=number)
    limit = reading.accuracies(theory, limit=True).sel(draw=number)
    figure, axes = plotting.new_figure(1, theory.sizes["test_set"], figsize=(6.6, 3.2), sharey=True, squeeze=False)
    for place, (panel, name) in enumerate(zip(axes.flat, theory.test_set.values, strict=True)):
        plotting.reference_line([float(limit[place])], label="GP limit", axes=panel)
        plotting.against_width(theory.width, [accuracy.values[:, place]], label="saddle point", axes=panel)
        for label, one in recorded.items():
            plotting.estimates(one.width, one.accuracy[:, place], one.accuracy_error[:, place], label=label, axes=panel)
        panel.set_title(str(name))
        panel.xaxis.set_major_locator(LogLocator(numticks=4))
    axes[0, 0].set_ylabel("test accuracy")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return {
        (label, float(n)): 100 * float(np.abs(one.accuracy.sel(width=n) - accuracy.sel(width=n)).max())
        for label, one in recorded.items()
        for n in one.width.values
    }


def keep_divergences(nuts) -> dict:
    """Glue facts on divergences of NUTS on the images; return them."""
    row = nuts.isel(width=0)
    bad = row.diverging.values.astype(bool)
    facts = {"count": int(bad.sum()), "share": 100 * bad.mean(), "chain": int(bad.sum(axis=1).max())}
    facts["p"] = scipy.stats.ks_2samp(row.potential.values[bad], row.potential.values[~bad]).pvalue
    for name, value in facts.items():
        pages.glue(f"oss_diverged_{name}", value)
    return facts


def keep_pair(one, other) -> float:
    """Glue the differences of both samplers on images, in standard errors; return the largest of an entry of U."""
    spread = np.hypot(one.order_parameter_error, other.order_parameter_error).values
    apart = ((one.order_parameter - other.order_parameter).values / spread)[np.triu_indices(len(spread))]
    outputs = ((one.output - other.output) / np.hypot(one.output_error, other.output_error)).values
    furthest = float(np.abs(apart).max())
    pages.glue("oss_pair_largest", furthest)
    pages.glue("oss_pair_chance", 1 - (2 * scipy.stats.norm.cdf(furthest) - 1) ** apart.size)
    pages.glue("oss_pair_spread", float(np.sqrt(np.mean(apart**2))))
    pages.glue("oss_pair_outputs", float(np.sqrt(np.mean(outputs**2))))
    return furthest


def image_matrices(saddle, means, errors, layers):
    """Figure: order parameters of the saddle point and of the posterior's mean, and their entries."""
    figure = plotting.new_figure(figsize=(6.2, 5.6))[0]
    figure.clear()
    top, bottom = figure.subfigures(2, 1, height_ratios=(1, 1.1))
    axes, scale = top.subplots(1, 2), max(np.abs(saddle).max(), np.abs(means).max())
    for panel, matrix, title in zip(axes, (saddle, means), ("saddle point", "posterior, $E[U]$"), strict=True):
        plotting.path_blocks(matrix, layers=layers, limit=scale, axes=panel, title=title)
        panel.set(xticks=[], yticks=[])
    top.colorbar(axes[0].images[0], ax=axes, shrink=0.85, label="$U$")
    panel = bottom.subplots()
    plotting.entries_sampled(saddle, means, errors, axes=panel)
    panel.legend()


def keep_image_matrices(saddle, means, errors, layers) -> tuple[float, float]:
    """Glue the distance of both matrices and their rank correlation; return these."""
    size = np.linalg.norm(means)
    distance, alike = 100 * np.linalg.norm(means - saddle) / size, agreement(saddle, means, layers=layers)
    pages.glue("oss_distance", distance)
    pages.glue("oss_noise", 100 * np.linalg.norm(errors) / size)
    pages.glue("oss_alike", alike.value)
    pages.glue("oss_alike_high", alike.null_high)
    pages.glue("oss_paths", len(saddle))
    return float(distance), float(alike.value)
