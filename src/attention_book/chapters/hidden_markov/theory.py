"""Theory against width."""

import jax
import jax.numpy as jnp
import numpy as np

import statmech_attention as sma
from attention_book import plotting
from attention_book.chapters.hidden_markov.task import keep
from attention_book.measures import centred_alignment, principal_overlaps
from attention_book.notebooks import pages, tables
from attention_book.temperatures import LIMIT, RESCALED, compare, difference
from statmech_attention.compiling import quick_jit

NETWORKS = {"all": ((0, 1), (0, 1)), "good + denoising": ((0, 1), (0,)), "good": ((0,), (0,))}  # heads kept
CROSS, DIAGONAL = "cross terms zeroed", "best diagonal"


def against_width(widths, accuracy):
    """Figure: accuracies `(draws, widths and limit)` by network, and their limits."""
    figure, axes = plotting.new_figure(figsize=(6.2, 4.4))
    styles = {"all": "-", "good + denoising": ":", "good": "--"}
    for name, style in styles.items():
        plotting.reference_line(accuracy[name][:, -1], label=f"GP limit, {name}", style=style, axes=axes)
    for name, style in styles.items():
        values = accuracy[name][:, : len(widths)]
        plotting.against_width(widths, values, label=f"theory, {name}", style=f"o{style}", axes=axes)
    axes.set_ylabel("test accuracy")
    plotting.legend_above(axes)


def keep_accuracies(widths, accuracy, as_written: bool) -> None:
    """Glue gains at the narrowest width and accuracies at the widest."""
    narrow, wide = int(np.argmin(widths)), int(np.argmax(widths))
    theory = {name: values[:, narrow] for name, values in accuracy.items()}
    limit = {name: values[:, -1] for name, values in accuracy.items()}
    pages.glue("hmc_narrowest", int(min(widths)))
    pages.glue("hmc_widest", int(max(widths)))
    pages.glue_mean("hmc_gp", limit["all"])
    pages.glue_mean("hmc_wide", accuracy["all"][:, wide])
    gain = pages.glue_mean("hmc_gain", theory["all"] - limit["all"])
    above_good = pages.glue_mean("hmc_above_good", theory["all"] - limit["good"])
    pages.glue_mean("hmc_above_two", theory["all"] - limit["good + denoising"])
    two_gain = pages.glue_mean("hmc_two_gain", theory["good + denoising"] - limit["good + denoising"])
    good_gain = pages.glue_mean("hmc_good_gain", theory["good"] - limit["good"])
    if as_written:
        assert gain[0] > 0.1 and above_good[0] > 3 * above_good[1]
        assert abs(two_gain[0]) < 0.01 and good_gain[0] < -3 * good_gain[1]


def uncrossed(solution) -> dict:
    """The order parameter without its entries between different paths."""
    return {CROSS: solution.order_parameter * jnp.eye(len(solution.order_parameter))}


def ablations(solution) -> dict:
    """Order parameters without cross terms: set to zero, and a diagonal that is fitted without them."""
    diagonal, gradient = _diagonal_saddle_point(solution.problem, solution.order_parameters)
    assert gradient < 1e-6
    return {**uncrossed(solution), DIAGONAL: diagonal}


@quick_jit()
def _diagonal_saddle_point(problem, start):
    """Minimum of the action over diagonal U, by Newton steps on logarithms, and its gradient."""

    def action(logs):
        u = jnp.exp(logs)
        return sma.theory.action(problem, (jnp.diag(u[:2]), u[2:3, None], u[3]))

    def step(state):
        logs, gradient, count = state
        values, vectors = jnp.linalg.eigh(jax.hessian(action)(logs))
        move = -vectors @ ((vectors.T @ gradient) / jnp.maximum(jnp.abs(values), 1e-3))
        logs = logs + move / jnp.maximum(1, jnp.linalg.norm(move))
        return logs, jax.grad(action)(logs), count + 1

    def going(state):
        return (jnp.abs(state[1]).max() > 1e-9) & (state[2] < 30)

    start = jnp.log(jnp.concatenate([jnp.diagonal(start[0]), start[1].ravel(), start[2].ravel()]))
    logs, gradient, _ = jax.lax.while_loop(going, step, (start, jax.grad(action)(start), 0))
    return jnp.diag(jnp.exp(logs[:2])), jnp.abs(gradient).max()


def over_temperatures(trials, width: float, temperatures) -> dict:
    """Comparisons of the networks over temperature, by name."""
    options = {"width": width, "temperatures": temperatures}
    return {
        name: compare([keep(one, heads) for one in trials], **options, others=uncrossed if name == "all" else _nothing)
        for name, heads in NETWORKS.items()
    }


def _nothing(solution) -> dict:
    return {}


def keep_comparison(compared, as_written: bool) -> None:
    """Glue gains of networks each at its own temperature; claims 1 to 4."""
    gains = {name: one.gain() for name, one in compared.items()}
    across = difference(compared["all"].at_best(), compared["good + denoising"].at_best(LIMIT))
    cross = compared["all"].gain(CROSS)
    cool, warm = np.searchsorted(compared["all"].temperatures, [0.0099, 0.099])  # T = 0.01 and 0.1
    warmer = difference(*compared["all"].accuracy["theory"].mean(axis=1)[:, [warm, cool]].T)
    for name, place in (("cool", cool), ("warm", warm)):
        pages.glue(f"hmc_{name}", f"{compared['all'].temperatures[place]:g}")
    for name, one in (("best_across_gain", across), ("uncrossed", cross), ("warmer", warmer)):
        pages.glue(f"hmc_{name}", str(one))
    pages.glue_mean("hmc_best_all", compared["all"].at_best())
    pages.glue_mean("hmc_best_all_gp", compared["all"].at_best(LIMIT))
    noisy = compared["good"].at_best(LIMIT, "evidence").mean()
    pages.glue("hmc_good_by_evidence", float(noisy))
    pages.glue("hmc_good_heat", compared["good"].temperature(LIMIT, "evidence"))
    if as_written:
        assert gains["all"].mean > 0.1 + gains["all"].within and abs(across.mean) + across.within < 0.01
        assert gains["good + denoising"].mean > gains["good + denoising"].within
        assert abs(gains["good"].mean) + gains["good"].within < 0.01
        assert abs(cross.mean) + cross.within < 0.02
        assert noisy < 0.6 and compared["good"].temperature(LIMIT, "evidence") > 0.5
        assert 0 < warmer.mean < 0.02 and abs(compared["good"].gain("rescaled limit").mean) < 0.001


def correlations(U):
    """Correlations of the paths, `(..., paths, paths)`."""
    size = np.sqrt(np.einsum("...ii->...i", U))
    return U / (size[..., :, None] * size[..., None, :])


def order_parameters(widths, U):
    """Figure: diagonal of U `(draws, widths, paths, paths)` against width, and correlations at some widths."""
    chosen = np.unique(np.linspace(0, len(widths) - 1, min(3, len(widths))).round().astype(int))
    figure = plotting.new_figure(figsize=(6.2, 5.2))[0]
    figure.clear()
    top, bottom = figure.subfigures(2, 1, height_ratios=(1.25, 1))
    panel = top.subplots()
    for place, name in enumerate(("good", "adversarial 1", "denoising", "adversarial 2")):
        label = f"{name.split()[0]} {plotting.path_name(np.unravel_index(place, (2, 2)))}"
        plotting.against_width(widths, U[..., place, place], label=label, colour=name, axes=panel)
    panel.axhline(1, color=plotting.COLOURS["gp"], linewidth=1, label="GP limit")
    panel.set(yscale="log", ylabel=r"$U_{\pi\pi}$", yticks=[0.5, 1, 2, 5, 10], yticklabels=["0.5", "1", "2", "5", "10"])
    panel.minorticks_off()
    panel.legend()
    panels, mean = np.atleast_1d(bottom.subplots(1, len(chosen))), correlations(U).mean(axis=0)
    for one, place in zip(panels, chosen, strict=True):
        plotting.path_correlations(mean[place], layers=(2, 2), limit=0.6, axes=one, annotate=False)
        one.tick_params(axis="x", rotation=90)
        one.set_title(f"$N$ = {widths[place]}")
    bottom.colorbar(panels[0].images[0], ax=panels, label="correlation", shrink=0.85)


def keep_order_parameters(widths, U, as_written: bool) -> None:
    """Glue weights of the paths at the narrowest width, and their correlations."""
    narrow, wide = int(np.argmin(widths)), int(np.argmax(widths))
    narrowest, correlation = U[:, narrow], correlations(U[:, narrow])
    for name, place in {"good": 0, "denoising": 2, "12": 1, "22": 3}.items():
        pages.glue_mean(f"hmc_u_{name}", narrowest[:, place, place])
    together = pages.glue_mean("hmc_u_cross", correlation[:, 0, 2])
    pairs = [(row, column) for row, column in np.ndindex(4, 4) if row < column and (row, column) != (0, 2)]
    others = np.array([correlation[:, row, column] for row, column in pairs])  # pairs, draws
    spread = float(np.sqrt(np.mean(others**2)))
    pages.glue("hmc_u_rest", float(np.abs(others.mean(axis=1)).max()))
    pages.glue("hmc_u_rest_rms", spread)
    if as_written:
        assert together[0] < -0.4 and np.abs(others.mean(axis=1)).max() < 0.15 and spread < 0.2
        assert narrowest[:, [1, 3], [1, 3]].max() < 1 and (U[:, wide, 1, 1] > 1).all()


def kernel_facts(trials, U) -> dict:
    """Per kernel: overlaps and alignment with the labels, and the first component's overlap with a constant."""
    found: dict = {"renormalised": [], "GP limit": []}
    for trial, u in zip(trials, U, strict=True):
        ones = jnp.ones(len(trial.labels))
        for name, one in (("renormalised", u), ("GP limit", np.eye(len(u)))):
            kernel = sma.kernel(trial.train, trial.train, jnp.asarray(one))
            even = principal_overlaps(kernel, ones)[1][0]
            facts = principal_overlaps(kernel, trial.labels)[1], centred_alignment(kernel, trial.labels), even
            found[name].append(facts)
    return {name: tuple(np.array(values) for values in zip(*rows, strict=True)) for name, rows in found.items()}


def alignment(facts, width: float):
    """Figure: overlap of principal components with the labels."""
    figure, axes = plotting.new_figure(figsize=(6.2, 3.6))
    plotting.principal_overlaps(facts["renormalised"][0], label=f"renormalised, $N$ = {width}", axes=axes)
    plotting.principal_overlaps(facts["GP limit"][0], label="GP limit", colour="gp", axes=axes)
    chance = np.sqrt(2 / np.pi / facts["GP limit"][0].shape[1])
    axes.axhline(chance, linestyle=":", color="#777777", label="random direction")
    axes.legend()


def keep_kernels(facts, width: float, as_written: bool) -> None:
    """Glue alignment and leading components of both kernels."""
    chance = np.sqrt(2 / np.pi / facts["GP limit"][0].shape[1])
    share = {name: (one[0][:, :7] ** 2).sum(axis=1) for name, one in facts.items()}
    for short, (name, (_, aligned, _)) in zip(("", "_gp"), facts.items(), strict=True):
        pages.glue_mean(f"hmc_cka{short}", aligned)
        pages.glue(f"hmc_share{short}", share[name].mean())
    overlaps, _, even = facts["renormalised"]
    pages.glue("hmc_even", even.mean())
    pages.glue("hmc_peak", overlaps.mean(axis=0).max())
    pages.glue("hmc_peak_rank", int(overlaps.mean(axis=0).argmax()) + 1)
    pages.glue("hmc_width", width)
    if as_written:
        (one, aligned, _), (other, aligned_gp, _) = facts.values()
        assert max(one.mean(axis=0)[0], other.mean(axis=0)[0]) < chance
        assert (aligned > aligned_gp).all() and (share["renormalised"] > share["GP limit"]).all()
        assert one.mean(axis=0).max() > 1.5 * other.mean(axis=0).max()


def two_path_trials(task, keys, examples: int, test_examples: int) -> list:
    """Draws of a network without its adversarial head."""

    def one(key):
        heads = task.heads(jax.random.split(key, 3)[2])
        return task.trial(key, examples, test_examples, products=(heads[0], heads[1][:1]))

    return [one(key) for key in keys]


def accuracy_of(trial, order_parameter, temperature: float) -> float:
    """Test accuracy of the mean predictor with an order parameter."""
    problem = sma.Problem(trial.train, trial.labels, temperature=temperature)
    return float(
        sma.accuracy(sma.kernel_regression(problem, order_parameter).predict(trial.test).mean, trial.test_labels)
    )


def cross(widths, curves):
    """Figure: two paths under strong noise, with and without cross terms, and limits."""
    figure, axes = plotting.new_figure(figsize=(6.2, 3.8))
    plotting.reference_line(curves["limit"], label="GP limit, good + denoising", style=":", axes=axes)
    plotting.reference_line(curves["good"], label="GP limit, good", style="--", axes=axes)
    plotting.against_width(widths, curves["full"], label="theory, good + denoising", style="o:", axes=axes)
    plotting.against_width(widths, curves["zeroed"], label=CROSS, colour="neutral", style="s-", axes=axes)
    axes.set_ylabel("test accuracy")
    plotting.legend_above(axes)


def strong_table(strong):
    """Table of a comparison: every curve at its own temperature."""
    rows = [
        (name, f"{strong.at_best(name).mean():.3f}", f"{strong.temperature(name):.2g}", strong.gain(name))
        for name in (LIMIT, RESCALED, CROSS, DIAGONAL)
    ]
    head = "full $U$", f"{strong.at_best().mean():.3f}", f"{strong.temperature():.2g}", ""
    return tables.table(("", "accuracy", "at $T$", "full minus this"), [head, *rows])


def keep_cross(widths, curves, strong, as_written: bool) -> None:
    """Glue what cross terms are worth under strong noise; claim 5."""
    narrow = int(np.argmin(widths))
    full = curves["full"][:, narrow]
    gain = pages.glue_mean("hmc_cross_gain", full - curves["limit"])
    lost = plotting.mean_and_error(full - curves["zeroed"][:, narrow])
    best_gain = strong.gain()
    best_lost = difference(strong.at_best(), np.maximum(strong.at_best(CROSS), strong.at_best(DIAGONAL)))
    pages.glue("hmc_cross_best_gain", str(best_gain))
    pages.glue("hmc_cross_best_share", str(best_lost))
    if as_written:
        assert lost[0] > gain[0] / 2 and best_lost.mean > best_gain.mean / 2 and lost[0] > 5 * lost[1]
        assert all(strong.gain(name).mean > strong.gain(name).within for name in (CROSS, DIAGONAL))
