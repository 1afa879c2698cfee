"""Theory on trained queries and keys."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.ticker import LogLocator, NullLocator

import statmech_attention as sma
from attention_book import plotting, results
from attention_book.experiments import reading
from attention_book.experiments.encoded_reading import NAMES
from attention_book.measures import half_interval
from attention_book.notebooks import pages, tables
from attention_book.pruning import rank_correlation
from statmech_attention.plotting.style import MUTED

_SHADES = MUTED["indigo"], MUTED["teal"], MUTED["rose"], MUTED["green"]
_CLAIMS = {(2, 4): ("gain", "gain", "comparable"), (3, 3): ("gain", "comparable", "gain")}  # Figures 3(b), 6
DEPARTURE = 0.15  # temperature at which the order parameter's departure from the limit is taken


def over(datasets, values):
    """Values that errors are over: means of the networks, where there are three or more of them, else all draws."""
    rows = [np.asarray(values(one)) for one in datasets]
    return np.concatenate(rows) if len(rows) < 3 else np.stack([row.mean(axis=0) for row in rows])


def called(kind) -> str:
    """An architecture in words."""
    return f"$L$ = {kind[0]}, $H$ = {kind[1]}"


def interval(values):
    """Mean and the ends of a 95 % interval, by Student's t over what errors are over."""
    value, reach = np.mean(values), half_interval(values)
    return np.array([value, value - reach, value + reach])


def geometric(values):
    """Geometric mean over the first axis."""
    return np.exp(np.mean(np.log(values), axis=0))


def accuracies(datasets):
    """Figure: accuracy against width on each test set, and the limit."""
    first = datasets[0]
    figure, axes = plotting.new_figure(1, first.sizes["test_set"], figsize=(6.6, 3.2), sharey=True)
    for place, (panel, test_set) in enumerate(zip(axes, first["test_set"].values, strict=True)):
        limit = over(datasets, lambda one, place=place: reading.accuracies(one, limit=True)[:, place])
        plotting.reference_line(limit, label="GP limit", axes=panel)
        values = over(datasets, lambda one, place=place: reading.accuracies(one)[..., place])
        plotting.against_width(first["width"], values, label="theory", axes=panel)
        panel.set_title(test_set)
        panel.xaxis.set_major_locator(LogLocator(numticks=4))
    axes[0].set_ylabel("test accuracy")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)


def gains(kinds):
    """Figure: gain over the limit against width, one line per architecture."""
    first = next(iter(kinds.values()))[0]
    figure, axes = plotting.new_figure(1, first.sizes["test_set"], figsize=(6.6, 3.4), sharey=True)
    for place, panel in enumerate(axes):
        for (kind, datasets), shade in zip(kinds.items(), _SHADES, strict=False):
            values = 100 * over(datasets, lambda one, place=place: reading.gains(one)[..., place])
            label = f"{called(kind)} ({len(datasets)})"
            plotting.against_width(datasets[0]["width"], values, label=label, colour=shade, axes=panel)
        panel.set_title(str(first["test_set"].values[place]))
        panel.axhline(0, color="0.7", linewidth=0.8, zorder=0)
        panel.xaxis.set_major_locator(LogLocator(numticks=4))
    axes[0].set_ylabel("gain over the GP limit, points")
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, title="architecture (networks)", loc="outside upper center", ncols=3)


def at(datasets, width: float, values, place: int = 0):
    """Values at a width on one test set, over what errors are over."""
    return over(datasets, lambda one: values(one).sel(width=width)[..., place])


def fair(one):
    """Gains with temperatures chosen on validation classes."""
    return reading.gains(one, chosen_by="validation")


def keep_gains(datasets, width: float, published: bool) -> None:
    """Glue gains of one architecture, with temperatures chosen on test sequences and on validation classes."""
    test_sets = [str(name) for name in datasets[0]["test_set"].values]
    pages.glue("ost_width", width)
    pages.glue("ost_networks", len(datasets))
    pages.glue("ost_draws", datasets[0].sizes["draw"])
    pages.glue("ost_examples", datasets[0].attrs["made"]["examples"])
    for name in ("width", "temperature"):
        pages.glue(f"ost_grid_{name}", datasets[0].sizes[name])
    pages.glue_mean("ost_limit_0", 100 * over(datasets, lambda one: reading.accuracies(one, limit=True)[:, 0]))
    pages.glue_mean("ost_percent_0", 100 * at(datasets, width, reading.accuracies))
    for place in range(len(test_sets[:2])):
        for end, value in zip(("", "_low", "_high"), interval(100 * at(datasets, width, fair, place)), strict=True):
            pages.glue(f"ost_fair_{place}{end}", value)
    by_test, by_classes = (
        over(datasets, lambda one, by=by: reading.accuracies(one, chosen_by=by)[..., 0]) for by in reading.CHOSEN_BY
    )
    pages.glue("ost_optimism", 100 * float((by_test - by_classes).mean()))
    pages.glue_mean("ost_gain_widest", 100 * over(datasets, lambda one: reading.gains(one).isel(width=-1)[..., 0]))
    if published and test_sets[2:] == ["MNIST"]:
        alone, by_others = (100 * at(datasets, width, gain, 2) for gain in (reading.gains, fair))
        pages.glue("ost_alone_low", alone.min())
        pages.glue("ost_alone_high", alone.max())
        for gain in (fair, reading.gains):
            assert all(interval(at(datasets, width, gain, place))[1] > 0 for place in (0, 1))
        assert interval(by_others)[1] < 0 and interval(alone)[1] < 0 < alone.min() and len(datasets) == 3
        steady = over(datasets, lambda one: fair(one)[..., 0]).mean(axis=0)
        assert np.all(np.diff(steady[:5]) < 0)


def gains_table(datasets, width: float):
    """Table of gains with 95 % intervals by both choices of the temperature."""
    rows = [
        (name, *(bracketed(100 * at(datasets, width, gain, place)) for gain in (reading.gains, fair)))
        for place, name in enumerate(datasets[0]["test_set"].values)
    ]
    return tables.table(("test set", "$T$ chosen on the test sequences", "on the validation classes"), rows)


def bracketed(values, digits: int = 1) -> str:
    """Mean with its 95 % interval, in words."""
    value, low, high = (tables.signed(one, digits) for one in interval(values))
    return f"{value} [{low}, {high}]"


def architectures_table(kinds, width: float):
    """Table of all architectures beside the paper's statement."""
    rows = []
    for kind, datasets in kinds.items():
        best = width or reading.telling_width(datasets)
        test_sets = [str(name) for name in datasets[0]["test_set"].values]
        says = _CLAIMS.get(kind, ("not shown",) * 3) if test_sets[0] == "Omniglot" else ("",) * 3
        for place, test_set in enumerate(test_sets):
            limits = over(datasets, lambda one, place=place: reading.accuracies(one, limit=True)[:, place])
            limit, gain = (
                plotting.mean_and_error(100 * values) for values in (limits, at(datasets, best, reading.gains, place))
            )
            cells = "{:.1f} ± {:.1f}".format(*limit), f"{best:g}", "{:+.1f} ± {:.1f}".format(*gain)
            rows.append((f"{called(kind)} ({len(datasets)})", test_set, *cells, says[place]))
    return tables.table(("networks", "test set", "GP limit, %", "$N$", "gain, points", "paper"), rows)


def ratio_records(folder: str) -> dict[str, xr.Dataset]:
    """Records at several numbers of sequences, by task; draws of one trained network share a `network`."""
    one_shot = [results.load(path) for path in sorted(Path(folder).glob("ratio-2x4-seed*.nc"))]
    one_shot = [one.assign_coords(network=("draw", [n] * one.sizes["draw"])) for n, one in enumerate(one_shot)]
    chains = results.load(Path(folder) / "ratio-hidden-markov.nc")
    found = {"one-shot": xr.concat(one_shot, "draw"), "hidden Markov chains": chains}
    for task, said in NAMES.items():
        if (path := Path(folder) / f"ratio-{task}.nc").exists():
            found[f"sentences, {said}"] = results.load(path)
    for name, one in found.items():  # elsewhere each draw counts by itself
        if "network" not in one.coords:
            found[name] = one.assign_coords(network=("draw", range(one.sizes["draw"])))
    return found


def per_network(one, values):
    """Means over the draws of each network, of values whose first axis is the draw."""
    owner, values = one["network"].values, np.asarray(values)
    return np.array([values[owner == network].mean(axis=0) for network in np.unique(owner)])


def by_ratio(swept) -> dict[str, dict]:
    """Per task: gain, logarithm of the departure, and the rescaled limit's gain."""
    found = {}
    for name, one in swept.items():
        chosen = one["validation_accuracy"].idxmax("temperature")
        limit = reading.accuracies(one, limit=True, chosen_by="validation")
        rescaled = one["rescaled"].sel(temperature=chosen).drop_vars("temperature") - limit
        departure = np.log10(one["departure"].sel(temperature=DEPARTURE))
        found[name] = {"gain": fair(one), "departure": departure, "rescaled": rescaled}
    return found


def ratios(swept, found):
    """Figure: gain and departure of U against P/N, one line per P."""
    figure, axes = plotting.new_figure(2, len(found), figsize=(0.6 + 2 * len(found), 5.2), sharex="col", sharey="row")
    for (upper, lower), (name, one) in zip(axes.T, found.items(), strict=True):
        for P, shade in zip(swept[name]["examples"].values, _SHADES, strict=False):
            across = P / swept[name]["width"].values
            style: dict[str, Any] = dict(fmt="o-", color=shade, markersize=4)
            mean, error = plotting.mean_and_error(100 * per_network(swept[name], one["gain"].sel(examples=P)))
            upper.errorbar(across, mean, error, **style)
            mean, error = plotting.mean_and_error(per_network(swept[name], 10 ** one["departure"].sel(examples=P)))
            lower.errorbar(across, mean, error, label=f"$P$ = {P}", **style)
        upper.set(title=name.split(",")[0], xscale="log")
        upper.axhline(0, color="0.7", linewidth=0.8, zorder=0)
        lower.set(xlabel="$P/N$", yscale="log", yticks=(0.1, 0.3, 1, 3), yticklabels=("0.1", "0.3", "1", "3"))
        lower.yaxis.set_minor_locator(NullLocator())
        lower.legend(loc="lower right")
    axes[0, 0].set_ylabel("gain in points")
    axes[1, 0].set_ylabel("departure of $U$")


def ratio_outcomes(swept, found) -> tuple:
    """Outcome of each test by the rule written down before, over draws, and over networks; and a table."""
    head = "at equal $P/N$, per factor of ten in $P$", "$\\log_{10}$ of the departure", "collapse", "gain", "collapse"
    outcomes, rows = {}, []
    for name, one in found.items():
        counts = swept[name]["examples"].values
        span, words = np.log10(counts[-1] / counts[0]), f"{name}, $P$ = {counts[0]} to {counts[-1]}"
        allowed = {"departure": (1, np.log10(2), 2), "gain": (100, 50 * float(one["gain"].mean()), 1)}
        each = {w: allowed[w][0] * reading.slopes_in_examples(one[w], at="ratio") for w in allowed}
        units = {"draws": each}
        if len(np.unique(swept[name]["network"])) < swept[name].sizes["draw"]:
            units["networks"] = {w: per_network(swept[name], slopes) for w, slopes in each.items()}
        for unit, of in units.items():
            cells = [f"{words}, {len(of['gain'])} {unit}"]
            for what, (_, most, digits) in allowed.items():
                _, low, high = interval(of[what])
                outcome = "refuted" if low * high > 0 else "holds" if span * max(-low, high) < most else "open"
                outcomes[name, what, unit] = outcome
                cells += [bracketed(of[what], digits), outcome]
            rows.append(cells)
    return outcomes, tables.table(head, rows)


def keep_ratios(swept, found, outcomes, published: bool) -> None:
    """Glue slopes at equal P/N, the limit's accuracies, what the scale alone gains, and the grid."""
    heat = next(iter(swept.values()))["temperature"].values
    facts = {"temperatures": len(heat), "coolest": heat.min(), "hottest": heat.max()}
    for name, value in (facts | {"widest": max(float(one["width"].max()) for one in swept.values())}).items():
        pages.glue(f"ratio_{name}", value)
    for name, one in found.items():
        key = name.split()[0].strip(",").replace("-", "_")
        limits = 100 * swept[name]["gp_accuracy"].max("temperature").mean("draw").values
        slope = interval(100 * reading.slopes_in_examples(one["gain"], at="ratio"))
        pages.glue(f"ratio_{key}_gain", bracketed(100 * reading.slopes_in_examples(one["gain"], at="ratio")))
        pages.glue(f"ratio_{key}_limits", f"{limits[0]:.0f} to {limits[-1]:.0f}")
        pages.glue(f"ratio_{key}_rescaled", f"{round(100 * float(one['rescaled'].mean()), 1) + 0.0:+.1f}")
        pages.glue(f"ratio_{key}_mean", f"{100 * float(one['gain'].mean()):+.1f}")
        steepness = np.mean(per_network(swept[name], reading.slopes_in_examples(one["departure"], at="ratio")))
        pages.glue(f"ratio_{key}_factor", float(10 ** abs(steepness)))
        pages.glue(f"ratio_{key}_examples", int(swept[name]["examples"][-1]))
        pages.glue(f"ratio_{key}_diagonal", float(swept[name]["examples"][-1] / swept[name]["width"][2]))
        if name.startswith("hidden"):
            for end, P in (("small", 30), ("large", 90)):
                value = 10 ** one["departure"].sel(examples=P, width=P)
                pages.glue(f"ratio_hidden_one_{end}", float(value.mean()))
        # On the diagonal of the grid P/N is the same: the largest that three numbers of sequences share.
        size = [one["departure"].isel(examples=place - 3, width=place) for place in range(3)]
        pages.glue(f"ratio_{key}_fall", bracketed((size[-1] - size[0]).values, 2))
        if published and key != "sentences":
            assert abs(float(one["rescaled"].mean())) < 0.1 * float(one["gain"].mean())
            assert outcomes[name, "gain", "draws"] == "refuted" and slope[2] < 0
    if published:
        passed = {name: outcomes[name, "departure", "draws"] for name in found}
        assert [*passed.values()] == ["refuted", "holds", "holds"]
        assert outcomes[[*found][2], "gain", "draws"] == "open"
        assert outcomes["one-shot", "departure", "networks"] == outcomes["one-shot", "gain", "networks"] == "refuted"


def temperatures(kinds):
    """Figure: accuracy against temperature at some widths, and the best temperature against width."""
    figure, (left, right) = plotting.new_figure(1, 2, figsize=(6.6, 4.0))
    datasets = next(iter(kinds.values()))
    widths = datasets[0]["width"].values
    shown = widths[np.unique(np.linspace(0, len(widths) - 1, min(3, len(widths))).round().astype(int))]
    curves = {n: over(datasets, lambda one, n=n: one["accuracy"].sel(width=n)[:, 0]) for n in shown}
    limit = over(datasets, lambda one: one["gp_accuracy"][:, 0])
    plotting.against_temperature(datasets[0]["temperature"].values, curves, limit=limit, axes=left)
    plotting.legend_above(left)
    left.set_ylabel("accuracy on new characters")
    for (kind, members), shade in zip(kinds.items(), _SHADES, strict=False):
        found = np.concatenate([one["best_temperature"].values for one in members])
        plotting.best_temperatures(members[0]["width"], found, label=called(kind), colour=shade, axes=right)
        limits = np.concatenate([one["gp_best_temperature"].values for one in members])
        right.axhline(geometric(limits), color=shade, linestyle="--", linewidth=1)
    right.xaxis.set_major_locator(LogLocator(numticks=4))
    plotting.legend_above(right, columns=1)


def keep_temperatures(kinds, published: bool) -> None:
    """Glue best temperatures at both ends, and their rank correlation with the width."""
    best, trends = {}, {}
    for kind, datasets in kinds.items():
        best[kind] = np.concatenate([one["best_temperature"].values for one in datasets])
        trends[kind] = rank_correlation(np.tile(datasets[0]["width"].values, (len(best[kind]), 1)), best[kind])
    for end, value in zip(("", "_low", "_high"), trends[min(kinds)], strict=True):
        pages.glue(f"ost_trend{end}", value)
    for key, kind in (("", min(kinds)), ("_deep", max(kinds))):
        pages.glue(f"ost{key}_best_narrow", geometric(best[kind])[0])
        pages.glue(f"ost{key}_best_wide", geometric(best[kind])[-1])
    pages.glue("ost_widest", kinds[min(kinds)][0]["width"].values[-1])
    if published:
        assert trends[2, 4].high < -0.7 and trends[2, 8].high < -0.7 and trends[3, 3].value > -0.5
        diagonals = [np.einsum("...ii->...i", one["order_parameter"].values).mean(axis=-1) for one in kinds[min(kinds)]]
        grown, ratio = geometric(np.concatenate(diagonals)), geometric(best[min(kinds)])
        assert ratio[0] / ratio[-1] > grown[0] / grown[-1]  # not a matter of scale alone


def alignment(datasets, width: float, components: int):
    """Figure: overlap of principal components with the labels."""
    figure, axes = plotting.new_figure(figsize=(6.2, 3.4))
    renormalised = over(datasets, lambda one: one["overlap"].sel(width=width))
    plotting.principal_overlaps(renormalised, label=f"$N$ = {width:g}", count=components, axes=axes)
    limit = over(datasets, lambda one: one["gp_overlap"])
    plotting.principal_overlaps(limit, label="GP limit", colour="gp", count=components, axes=axes)
    axes.legend()


def keep_alignment(datasets, width: float, components: int, published: bool) -> None:
    """Glue how much of the labels the leading components hold, and the kernels' alignment."""

    def leading(overlaps):
        return (np.asarray(overlaps)[..., :components].astype(float) ** 2).sum(axis=-1)

    pages.glue("ost_components", components)
    pages.glue_mean("ost_aligned", over(datasets, lambda one: one["alignment"].sel(width=width)))
    pages.glue_mean("ost_aligned_gp", over(datasets, lambda one: one["gp_alignment"]))
    pages.glue_mean("ost_leading", over(datasets, lambda one: leading(one["overlap"].sel(width=width))))
    pages.glue_mean("ost_leading_gp", over(datasets, lambda one: leading(one["gp_overlap"])))
    if published:
        apart = over(datasets, lambda one: leading(one["overlap"]) - leading(one["gp_overlap"])[:, None]).mean(axis=0)
        assert apart[0] > 0.2 and np.all(np.diff(apart) < 0)


def attentioned(network, inputs):
    """Inputs along the network's paths, a hundred sequences at a time."""
    run = jax.jit(lambda part: sma.attentioned_inputs(part, network.attention, readout="mean").values)
    parts = [run(inputs[start : start + 100]) for start in range(0, len(inputs), 100)]
    return sma.AttentionedInputs(jnp.concatenate(parts), network.layers)
