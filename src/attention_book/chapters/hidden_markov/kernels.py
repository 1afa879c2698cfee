"""Kernels of the paths."""

import jax
import jax.numpy as jnp
import numpy as np

import statmech_attention as sma
from attention_book import plotting
from attention_book.measures import centred_alignment, path_kernel
from attention_book.notebooks import pages, tables
from attention_book.temperatures import LIMIT, compare, difference
from statmech_attention.plotting.style import without_frame

KERNELS = {"good (1,1)": 0, "denoising (2,1)": 2, "adversarial (1,2)": 1, "adversarial (2,2)": 3}
_SIZES = np.geomspace(0.03, 30, 10)  # of a constant


def kernels_of(trial, order_parameter):
    """Training kernels of every path, of the limit and of U, each divided by the mean of its diagonal."""
    train = trial.train
    found = [path_kernel(train, train, path, path) for path in KERNELS.values()]
    found += [sma.kernel(train, train, u) for u in (jnp.eye(4), order_parameter)]
    return np.stack([kernel / jnp.mean(jnp.diagonal(kernel)) for kernel in found])


def kernel_matrix(kernel, labels, limits, axes):
    """Draw a training kernel as a matrix of colours, examples sorted by class."""
    order = np.argsort(-labels, kind="stable")
    axes.imshow(kernel[np.ix_(order, order)], cmap="Greys", vmin=limits[0], vmax=limits[1])
    border = np.sum(labels > 0) - 0.5
    for line in (axes.axhline, axes.axvline):
        line(border, color=plotting.COLOURS["gp"], linewidth=1.2)
    middles = [border / 2, (border + len(labels)) / 2]
    axes.set_xticks(middles, ["$+$", "$-$"])
    axes.set_yticks(middles, ["$+$", "$-$"])
    without_frame(axes)


def matrices(kernels, labels, width: float):
    """Figure: the kernels `(kernels, examples, examples)` of one draw."""
    figure, axes = plotting.new_figure(3, 2, figsize=(5.2, 6.6))
    limits = np.percentile(kernels[:, ~np.eye(len(labels), dtype=bool)], [0.5, 99.5])
    names = [*KERNELS, "GP limit", f"renormalised, $N$ = {width}"]
    for panel, name, kernel in zip(axes.flat, names, kernels, strict=True):
        kernel_matrix(kernel, labels, limits, panel)
        panel.set_title(name)
    image = axes[0, 0].images[0]
    figure.colorbar(image, ax=axes, label="kernel / mean of its diagonal", extend="both", shrink=0.7)


def statistics(trials, kernels):
    """Centred alignment with the labels, and unevenness of the entries, `(draws, kernels)`."""
    alignment = [[centred_alignment(k, t.labels) for k in row] for row, t in zip(kernels, trials, strict=True)]
    entries = kernels[:, :, ~np.eye(kernels.shape[-1], dtype=bool)]
    return np.array(alignment), entries.std(axis=2) / np.abs(entries.mean(axis=2))


def statistics_table(alignment, unevenness):
    """Table of both statistics, one row per kernel."""
    columns = [zip(*plotting.mean_and_error(values), strict=True) for values in (alignment, unevenness)]
    rows = zip([*KERNELS, "GP limit", "renormalised"], *columns, strict=True)
    head = "kernel", "centred alignment", "unevenness"
    return tables.table(head, [(name, *(tables.with_error(*one) for one in row)) for name, *row in rows])


def keep_statistics(alignment, unevenness, as_written: bool) -> None:
    """Glue the alignment of the kernels of many paths."""
    for place, key in ((4, "gp"), (5, "learned")):
        pages.glue(f"kernel_cka_{key}", alignment[:, place].mean())
    if as_written:
        good, _, one, other, limit, learned = alignment.T
        assert (good > learned).all() and (learned > limit).all() and one.mean() > other.mean()
        assert unevenness.mean(axis=0).argmin() == 1 and max(one.mean(), other.mean()) < 0.1


def three_heads(task, keys, examples: int, test_examples: int) -> list:
    """Draws of data along the paths through the designed, a random, and the uniform head of layer 1."""

    @jax.jit
    def one(key):
        data_key, head_key = jax.random.split(key)
        first = jnp.stack([task.step_head(0), task.random_head(head_key), task.uniform_head()])
        return task.trial(data_key, examples, test_examples, products=(first, task.uniform_head()[None]))

    return [one(key) for key in keys]


def uniform(widths, random_head, uniform_head):
    """Figure: accuracies `(draws, widths and limit)` with the random and with the uniform head."""
    figure, axes = plotting.new_figure(figsize=(6.2, 3.8))
    plotting.reference_line(uniform_head[:, -1], label="GP limit, uniform head", axes=axes)
    plotting.reference_line(random_head[:, -1], label="GP limit, random head", style=":", axes=axes)
    plotting.against_width(widths, uniform_head[:, :-1], label="theory, uniform head", style="s-", axes=axes)
    plotting.against_width(widths, random_head[:, :-1], label="theory, random head", style="o:", axes=axes)
    axes.set_ylabel("test accuracy")
    plotting.legend_above(axes)


def averaged_tokens(task, trials):
    """Number of tokens whose noise each head of layer 1 averages; cosine with the good path's, `(draws, heads)`."""
    size = task.token_size
    outside = jnp.eye(size) - task.states.T @ task.states / size  # out of the plane of v+ and v-

    def one(values):
        rest = values[:, :, :size] @ outside
        power = (rest**2).sum(axis=2)  # of a single token: size - 2 times the variance of the noise
        cosine = (rest[:, :1] * rest).sum(axis=2) / jnp.sqrt(power[:, :1] * power)
        return task.perpendicular_noise**2 * (size - 2) / power.mean(axis=0), cosine.mean(axis=0)

    return tuple(np.array(found) for found in zip(*(one(trial.test.values) for trial in trials), strict=True))


def averaged_table(averaged, cosine):
    """Table of `averaged_tokens`."""
    (tokens, error), (alike, _) = (plotting.mean_and_error(values) for values in (averaged, cosine))
    rows = zip(("designed", "random", "uniform"), tokens, error, alike, strict=True)
    head = "head of layer 1", "tokens averaged", "cosine of its noise with the good path's"
    return tables.table(head, [(kind, tables.with_error(one, e), f"{c:.2f}") for kind, one, e, c in rows])


def keep_uniform(widths, random_head, uniform_head, averaged, as_written: bool) -> None:
    """Glue gains of both networks and their difference."""
    narrow = int(np.argmin(widths))
    random = pages.glue_mean("kernel_random", random_head[:, narrow] - random_head[:, -1])
    uniform = pages.glue_mean("kernel_uniform", uniform_head[:, narrow] - uniform_head[:, -1])
    better = pages.glue_mean("kernel_difference", uniform_head[:, narrow] - random_head[:, narrow])
    pages.glue_mean("kernel_difference_gp", uniform_head[:, -1] - random_head[:, -1])
    pages.glue("kernel_narrowest", int(min(widths)))
    pages.glue("kernel_averaged", 100 * averaged[:, 1].mean() / averaged[:, 2].mean())
    if as_written:
        assert random[0] - uniform[0] > 3 * np.hypot(random[1], uniform[1]) and uniform[0] > 5 * uniform[1]
        assert better[0] > 3 * better[1] and (uniform_head.mean(axis=0) > random_head.mean(axis=0)).all()


def constant(second, second_train):
    """The second path's inputs replaced by their mean over the training chains."""
    return jnp.broadcast_to(second_train.mean(axis=0), second.shape)


def noise_of(task):
    """A change of the second path's inputs that leaves their perpendicular noise alone."""
    size = task.token_size
    outside = jnp.eye(size) - task.states.T @ task.states / size
    part = jax.scipy.linalg.block_diag(outside, jnp.zeros((task.features - size,) * 2))
    return lambda second, second_train: second @ part


def changed(trials, change) -> list:
    """Trials of good and denoising path, the latter changed in training and in test."""

    def inputs(xi, train):
        return sma.AttentionedInputs(xi.values.at[:, 1].set(change(xi.values[:, 1], train.values[:, 1])), xi.layers)

    return [one._replace(train=inputs(one.train, one.train), test=inputs(one.test, one.train)) for one in trials]


def good_with_constants(trials, temperature: float):
    """Limit's accuracies of the good path alone, then with one more feature, a constant of each size."""

    @jax.jit
    def every(trial):
        def one(c):
            # The last feature; the kernel divides by one more than N_0, which is a factor of 231/232.
            seen, seen_test = (
                sma.AttentionedInputs(jnp.concatenate([v[:, :1], jnp.full((len(v), 1, 1), c)], axis=-1), (1, 1))
                for v in (trial.train.values, trial.test.values)
            )
            problem = sma.Problem(seen, trial.labels, temperature=temperature)
            return sma.accuracy(
                sma.kernel_regression(problem, jnp.ones((1, 1))).predict(seen_test).mean, trial.test_labels
            )

        return jax.lax.map(one, jnp.asarray([0.0, *_SIZES]))

    return np.array([every(trial) for trial in trials])


def dissected(widths, curves, with_constant, marks):
    """Figure: the denoising path replaced by its constant or its noise; the good path with a constant."""
    figure, (top, bottom) = plotting.new_figure(2, 1, figsize=(5.6, 6.2), height_ratios=(1.5, 1))
    plotting.reference_line(with_constant[:, 0], label="good path, GP limit", style="--", axes=top)
    looks = {"whole": ("theory", "o:"), "constant only": ("denoising", "^-"), "noise only": ("neutral", "v-")}
    for name, (colour, style) in looks.items():
        label = f"second path: {name}"
        plotting.against_width(widths, curves[name][:, :-1], label=label, colour=colour, style=style, axes=top)
    top.set_ylabel("test accuracy")
    plotting.legend_above(top)
    value, uncertainty = plotting.mean_and_error(with_constant[:, 1:])
    bottom.errorbar(_SIZES, value, uncertainty, fmt="o-", color=plotting.COLOURS["gp"], markersize=4, capsize=2)
    for place in marks:
        bottom.axvline(place, linestyle=":", color="#777777")
    bottom.set(xscale="log", xlabel="size of the constant", ylabel="test accuracy")


def keep_dissected(widths, curves, with_constant, marks, as_written: bool) -> None:
    """Glue what the second path's constant and noise do."""
    narrow = int(np.argmin(widths))
    whole, only = curves["whole"], curves["constant only"]
    alone = pages.glue_mean("kernel_good", with_constant[:, 0])
    threshold = pages.glue_mean("kernel_constant", only[:, narrow])
    denoised = pages.glue_mean("kernel_denoised", whole[:, narrow] - only[:, narrow])
    in_limit = pages.glue_mean("kernel_denoised_gp", whole[:, -1] - only[:, -1])
    for name, mark in zip(("code", "natural"), marks, strict=True):
        pages.glue(f"kernel_{name}", mark)
    if as_written:
        assert threshold[0] - alone[0] > 0.2 and np.ptp(only.mean(axis=0)) < 0.01
        assert denoised[0] > 3 * denoised[1] and in_limit[0] < -3 * in_limit[1]


def over_temperatures(random, uniform, width: float, temperatures) -> dict:
    """Comparisons over temperature of both networks, and of both with the second path's constant only."""
    networks = {
        "random head": random,
        "its constant only": changed(random, constant),
        "uniform head": uniform,
        "constant of the uniform head": changed(uniform, constant),
    }
    return {name: compare(one, width=width, temperatures=temperatures) for name, one in networks.items()}


def keep_comparison(compared, as_written: bool) -> None:
    """Glue differences of networks each at its own temperature; the four claims."""
    real, threshold, uniform, uniform_threshold = compared.values()
    over_constant = difference(real.at_best(), threshold.at_best())
    limit_over_constant = difference(real.at_best(LIMIT), threshold.at_best(LIMIT))
    over_uniform = difference(uniform.at_best(), uniform_threshold.at_best())
    best_head = difference(uniform.at_best(), real.at_best())
    pages.glue("kernel_over_constant", str(over_constant))
    pages.glue("kernel_over_constant_gp", str(limit_over_constant))
    pages.glue("kernel_over_uniform", str(over_uniform))
    pages.glue("kernel_best_difference", str(best_head))
    if as_written:
        assert over_constant.mean + over_constant.within < 0.01
        assert limit_over_constant.mean < -limit_over_constant.within
        assert over_uniform.mean > over_uniform.within and best_head.mean > best_head.within
