"""The order parameter of a trained network."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.ticker import LogLocator

import statmech_attention as sma
from attention_book import experiments, plotting, tasks
from attention_book.comparison import agreement, block_share
from attention_book.notebooks import pages, tables
from attention_book.training import load_network
from attention_book.training.path_form import effective_vectors, initial
from statmech_attention.plotting.style import MUTED

_SHADES = MUTED["indigo"], MUTED["cyan"], MUTED["teal"], MUTED["green"], MUTED["rose"], MUTED["purple"]
ROWS: dict[str, dict[str, str]] = {
    "all entries, ranks": dict(entries="all", compared="ranks"),
    "diagonal, ranks": dict(entries="diagonal", compared="ranks"),
    "off-diagonal, ranks": dict(entries="off-diagonal", compared="ranks"),
    "within blocks, ranks": dict(entries="blocks", compared="ranks"),
    "off-diagonal, signs": dict(entries="off-diagonal", compared="signs"),
    "within blocks, signs": dict(entries="blocks", compared="signs"),
}


def shape(one) -> tuple[int, ...]:
    """Heads per layer of the network of a record."""
    return (one.attrs["made"]["heads"],) * one.attrs["made"]["layers"]


def network_of(one, folder: str):
    """The trained network of a recorded theory."""
    made = {key: one.attrs["made"][key] for key in ("layers", "heads", "seed")}
    return load_network(experiments.experiment_file("network", folder, **made))


def compared(theory, trained, layers):
    """Figure: U of the theory and of a trained network, and entry against entry, in units of the mean diagonal."""
    figure = plotting.new_figure(figsize=(5.6, 5.6))[0]
    figure.clear()
    top, bottom = figure.subfigures(2, 1, height_ratios=(1, 1.1))
    axes = top.subplots(1, 2)
    for panel, matrix, title in zip(axes, (theory, trained), ("theory", "gradient descent"), strict=True):
        scaled = np.asarray(matrix, float) / np.mean(np.diag(matrix))
        plotting.path_blocks(scaled, layers=layers, limit=2.0, axes=panel, title=title)
        panel.set(xticks=[], yticks=[])
    bar = top.colorbar(axes[0].images[0], ax=axes, shrink=0.8, extend="both")
    bar.set_label("$U$ / mean diagonal")
    panel = plotting.entries_compared(theory, trained, layers=layers, axes=bottom.subplots())
    panel.set(xlabel="theory", ylabel="gradient descent")
    panel.legend()


def conversion_errors(seed: int) -> float:
    """Largest relative error of outputs and U of a small trained network, beside layers and loops."""
    heads = (2, 3)
    trained = initial(jax.random.key(seed), heads, 32, 8, 192)
    tokens = (
        tasks.OneShot(tasks.glyphs(classes=8, drawings=4)).sample(jax.random.key(seed + 1), 4, jnp.arange(8)).inputs
    )
    attention = sma.attention_from_queries_and_keys(trained.queries, trained.keys)
    xi = sma.attentioned_inputs(tokens, attention, readout="mean")
    outputs = jnp.einsum("epi,pi->e", xi.values, effective_vectors(trained))
    by_layers = sma.forward(trained.weights(), tokens, attention, readout="mean")
    paths = itertools.product(range(heads[0]), range(heads[1]))
    readout = np.asarray(trained.readout, float)
    products = np.array([readout @ trained.values[1][h2] @ trained.values[0][h1] for h1, h2 in paths])
    measured = sma.model.weights_order_parameters(trained.weights())[0]
    pairs = (outputs, by_layers), (measured, products @ products.T)
    return max(float(np.max(np.abs(one - other)) / np.max(np.abs(other))) for one, other in pairs)


def shares(theory, trained, layers, layer: int):
    """Share of the off-diagonal in a layer's blocks: theory's, its error over draws, the network's, the even one."""
    each = [block_share(matrix, layers=layers, layer=layer).value for matrix in theory]
    one = block_share(trained, layers=layers, layer=layer)
    return *plotting.mean_and_error(each), one.value, one.even


def shares_table(theory, trained, shapes):
    """Table of `shares` in the blocks of the first and of the last layer."""
    head = "network", "first layer: theory", "gradient descent", "last layer: theory", "gradient descent"
    head += "first layer, squares: theory", "gradient descent", "even"
    rows = []
    for name, layers in shapes.items():
        cells = [name]
        for layer in (1, len(layers)):
            mean, error, network, even = shares(theory[name], trained[name], layers, layer)
            cells += [f"{mean:.2f} ± {error:.2f}", f"{network:.2f}"]
        mean, _, network, _ = shares(theory[name] ** 2, trained[name] ** 2, layers, 1)
        rows.append((*cells, f"{mean:.2f}", f"{network:.2f}", f"{even:.2f}"))
    return tables.table(head, rows)


def agreements(theory, trained, shapes) -> dict:
    """By network and row: agreement with the network, and mean agreement of the theory's draws with each other."""
    found = {}
    for name, layers in shapes.items():
        for label, options in ROWS.items():
            if options["entries"] != "blocks" or len(layers) > 1:
                full: dict[str, Any] = dict(layers=layers, **options)
                pairs = itertools.combinations(theory[name], 2)
                each = [agreement(*pair, **full, renumber=False).value for pair in pairs]
                itself = float(np.mean(each)) if each else np.nan
                found[name, label] = agreement(theory[name].mean(axis=0), trained[name], **full), itself
    return found


def agreement_figure(found, names):
    """Figure: agreement of theory and networks beside renumbered heads."""
    figure, axes = plotting.new_figure(figsize=(6.2, 5.2))
    for group, label in enumerate(ROWS):
        for number, name in enumerate(names):
            if (name, label) in found:
                (one, itself), place = found[name, label], group + 0.13 * (number - (len(names) - 1) / 2)
                axes.hlines(place, one.null_low, one.null_high, color="0.8", linewidth=4)
                axes.plot(itself, place, "x", color="0.35", markersize=4)
                style = dict(color=_SHADES[number % len(_SHADES)], label=name if not group else "_")
                axes.plot(one.value, place, "o", markersize=5, **style)
    axes.axvline(0, color="0.7", linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(ROWS)), list(ROWS))
    axes.set(ylim=(len(ROWS) - 0.5, -0.5), xlim=(-1, 1.03), xlabel="agreement of theory and gradient descent")
    plotting.legend_above(axes, columns=2)


def keep_agreement(found, theory, trained, shapes, first, published: bool) -> None:
    """Glue agreements of the networks of the first architecture, and shares of all in the blocks."""
    layers = shapes[first[0]]
    single = [agreement(u, trained[name], layers=layers, renumber=False).value for name in first for u in theory[name]]
    pages.glue("oso_single", np.mean(single))
    pages.glue("oso_itself", np.mean([found[name, "all entries, ranks"][1] for name in first]))
    pages.glue("oso_networks", len(first))
    rows = {label: [found[name, label][0] for name in first] for label in ROWS}
    pages.glue("oso_off_each", in_words(rows["off-diagonal, ranks"], "value"))
    for key, label in (("off", "off-diagonal, ranks"), ("all", "all entries, ranks")):
        pages.glue(f"oso_{key}_null", in_words(rows[label], "null_high"))
    chosen = {"all": "all entries, ranks", "diagonal": "diagonal, ranks", "signs": "within blocks, signs"}
    for key, label in chosen.items():
        pages.glue(f"oso_{key}", np.mean([one.value for one in rows[label]]))
        pages.glue(f"oso_{key}_high", max(one.null_high for one in rows[label]))
        pages.glue(f"oso_{key}_p", max(one.p_value for one in rows[label]))
    blocks = np.array([shares(theory[name], trained[name], shapes[name], 1) for name in shapes])
    ratios = blocks[:, [0, 2]] / blocks[:, 3:]
    pages.glue("oso_ratio_low", ratios.min())
    pages.glue("oso_ratio_high", ratios.max())
    squares = [shares(theory[name] ** 2, trained[name] ** 2, shapes[name], 1)[2] for name in shapes]
    pages.glue("oso_squares", ", ".join(f"{one:.2f}" for one in squares))
    if published:
        every = [found[name, "all entries, ranks"][0] for name in shapes]
        assert all(one.value > one.null_high and one.p_value < 0.01 for one in every)
        assert ratios.min() > 1 and blocks[:, [0, 2]].max() < 0.5
        assert all(one.value > one.null_high for one in rows["off-diagonal, ranks"])
        assert all(one.null_high > 0.9 for one in rows["within blocks, signs"])


def in_words(found, part: str) -> str:
    """One part of several agreements, with commas."""
    return ", ".join(f"{getattr(one, part):.2f}" for one in found)


def against_width(kinds, trained):
    """Figure: rank correlation of theory and networks against the theory's width, one panel per architecture."""
    figure, axes = plotting.new_figure(1, len(kinds), figsize=(6.6, 3.2), sharey=True, squeeze=False)
    for panel, ((layers, heads), members) in zip(axes.flat, kinds.items(), strict=True):
        for entries, colour in (("all", MUTED["indigo"]), ("diagonal", MUTED["teal"]), ("blocks", MUTED["rose"])):
            options: dict[str, Any] = dict(entries=entries, renumber=False, layers=(heads,) * layers)
            values = [
                [agreement(matrix, trained[name], **options).value for matrix in row]
                for name, one in members.items()
                for row in one["order_parameter"].values
            ]
            widths = next(iter(members.values()))["width"]
            plotting.against_width(widths, values, label=entries, colour=colour, axes=panel)
        panel.axhline(0, color="0.7", linewidth=0.8, zorder=0)
        panel.xaxis.set_major_locator(LogLocator(numticks=4))
        panel.set_title(f"$L$ = {layers}, $H$ = {heads}")
    axes[0, 0].set_ylabel("rank correlation")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
