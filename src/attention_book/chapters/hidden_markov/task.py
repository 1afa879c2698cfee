"""The task and its paths."""

import jax
import jax.numpy as jnp
import numpy as np

import statmech_attention as sma
from attention_book import plotting
from attention_book.notebooks import pages, tables

NETWORKS = {  # heads that are kept in layer 1 and in layer 2, counted from 0
    "good (1,1)": ((0,), (0,)),
    "denoising (2,1)": ((1,), (0,)),
    "adversarial (1,2)": ((0,), (1,)),
    "adversarial (2,2)": ((1,), (1,)),
    "good + denoising": ((0, 1), (0,)),
    "all four": ((0, 1), (0, 1)),
}
_CONSTANTS = np.array([0.03, 0.06, 0.1, 31**-0.5, 0.3, 0.6, 1, 2, 3, 6, 10, 30])


def keep(trial, kept):
    """The trial as a network with only some of the heads sees it."""
    return trial._replace(train=trial.train.keep_heads(kept), test=trial.test.keep_heads(kept))


def chains(task, sample):
    """Figure: the two classes, hidden states of chains, tokens of one of them."""
    order = np.argsort(-np.asarray(sample.labels), kind="stable")
    figure, _ = plotting.new_figure(figsize=(6.4, 5.2))
    figure.clear()
    grid = figure.add_gridspec(3, 2, height_ratios=[1.3, 1.7, 1.8])
    for column, (probability, name) in enumerate([(task.slow, "slow, $y = +1$"), (task.fast, "fast, $y = -1$")]):
        plotting.switching(probability, axes=figure.add_subplot(grid[0, column]), title=name)
    names = [f"$y = {'+' if sample.labels[row] > 0 else '-'}1$" for row in order]
    plotting.hidden_chains(sample.hidden[order], labels=names, axes=figure.add_subplot(grid[1, :]))
    panel = plotting.noisy_tokens(sample.inputs[order[0], 1:, : task.token_size], axes=figure.add_subplot(grid[2, :]))
    figure.colorbar(panel.images[0], ax=panel, label="entry of the token", pad=0.01)


def heads(matrices, example: int):
    """Figure: attention of the four heads on one chain."""
    figure, axes = plotting.new_figure(2, 2, figsize=(5.2, 5.0), sharex=True, sharey=True)
    for panel, (layer, head) in zip(axes.T.flat, np.ndindex(2, 2), strict=True):
        title = f"head ({layer + 1},{head + 1}), {'random' if head else 'designed'}"
        plotting.attention_matrix(matrices[layer][example, head], axes=panel, title=title)
        panel.label_outer()
    figure.colorbar(axes[0, 0].images[0], ax=axes, label="attention", ticks=[0, 0.03, 0.1, 0.3, 1], shrink=0.6)


def keep_attention(task, sample, matrices) -> None:
    """Glue how many tokens heads look at, what bos gets at a switch, and what single tokens reveal."""
    projections = sample.inputs[:, 1:, : task.token_size] @ (task.states[0] - task.states[1])
    pages.glue("task_single", 100 * float(jnp.mean(jnp.sign(projections) == sample.hidden)))
    for layer in range(2):  # of the random heads; 1 for one token, 31 for all alike
        pages.glue(f"task_tokens_{layer + 1}2", float((1 / (matrices[layer][:, 1] ** 2).sum(axis=1)).mean()))
    switched = np.zeros((len(sample.hidden), task.tokens), bool)
    switched[:, 2:] = np.diff(sample.hidden, axis=1) != 0
    at_switch = np.asarray(matrices[0][:, 0, 0])[switched]
    pages.glue("task_bos_at_switch", float(at_switch.mean()))
    pages.glue("task_bos_least", float(at_switch.min()))


def alone(accuracies):
    """Figure: accuracies `(draws, networks)` of `NETWORKS`."""
    figure, axes = plotting.new_figure(figsize=(6.2, 3.6))
    colours = ["good", "denoising", "adversarial 1", "adversarial 2", "neutral", "neutral"]
    names = ["good\n(1,1)", "denoising\n(2,1)", "advers.\n(1,2)", "advers.\n(2,2)", "good +\ndenoising", "all four"]
    plotting.groups(accuracies, names, colours=colours, axes=axes)
    axes.axhline(0.5, linestyle="--", color="#777777", linewidth=1)
    axes.set_ylabel("test accuracy")


def keep_accuracies(accuracies, first, as_written: bool) -> None:
    """Glue accuracies `(draws, networks)`, and those of all four paths read from the first token."""
    for place, name in ((0, "good"), (2, "adversarial_12"), (5, "all")):
        pages.glue_mean(f"task_{name}", accuracies[:, place])
    gain = pages.glue_mean("task_gain", accuracies[:, 4] - accuracies[:, 0])
    loss = pages.glue_mean("task_loss", accuracies[:, 5] - accuracies[:, 0])
    moved = pages.glue_mean("task_first", first - accuracies[:, 5])
    if as_written:
        mean, error = plotting.mean_and_error(accuracies)
        assert mean[0] > 0.9 and np.abs(mean[[1, 3]] - 0.5).max() < 3 * error[[1, 3]].max()
        assert mean[2] - 0.5 > 5 * error[2] and gain[0] > 3 * gain[1] and loss[0] < -3 * loss[1]
        assert (accuracies[:, 4] > accuracies[:, 0]).all() and (accuracies[:, 5] < accuracies[:, 0]).all()
        assert abs(moved[0]) < 3 * moved[1]


def parts_of(values, size: int) -> dict:
    """The good path's features by name: all of them, and parts; the first `size` are the token's."""
    tokens, positions = values[..., :size], values[..., size:]
    parts = {
        "all": [tokens, positions],
        "tokens and the position code's entry for bos": [tokens, positions[..., :1]],
        "tokens and all other positions": [tokens, positions[..., 1:]],
        "position code alone": [positions],
        "tokens alone": [tokens],
    }
    return {name: jnp.concatenate(part, axis=-1) for name, part in parts.items()}


def of_parts(trials, size: int, temperature: float):
    """Accuracies of the good path in the limit, `(draws, parts)`, and of tokens with constants, `(draws, sizes)`."""

    @jax.jit
    def one(train, test, labels, test_labels):
        def reached(values, values_test):
            # Zeros for features left out: (10) divides by their number.
            pad = [(0, 0), (0, 0), (0, train.values.shape[-1] + 1 - values.shape[-1])]
            seen, seen_test = (sma.AttentionedInputs(jnp.pad(v, pad), (1, 1)) for v in (values, values_test))
            problem = sma.Problem(seen, labels, temperature=temperature)
            return sma.accuracy(sma.kernel_regression(problem, jnp.ones((1, 1))).predict(seen_test).mean, test_labels)

        seen, seen_test = parts_of(train.values, size), parts_of(test.values, size)
        tokens = seen["tokens alone"], seen_test["tokens alone"]

        def with_constant(c):
            return reached(*(jnp.concatenate([v, jnp.full((*v.shape[:-1], 1), c)], axis=-1) for v in tokens))

        by_part = jnp.stack([reached(seen[name], seen_test[name]) for name in seen])
        return by_part, jax.lax.map(with_constant, jnp.asarray(_CONSTANTS))

    found = [one(*(lambda t: (t.train, t.test, t.labels, t.test_labels))(keep(t, ((0,), (0,))))) for t in trials]
    return tuple(np.array(values) for values in zip(*found, strict=True))


def bos_weights(trials, size: int):
    """Weights of bos along the good path, on test chains of the slow and of the fast class."""
    return [
        np.concatenate([np.asarray(t.test.values[:, 0, size])[np.asarray(t.test_labels) == sign] for t in trials])
        for sign in (1, -1)
    ]


def threshold(bos, with_constant):
    """Figure: the weight of bos in both classes, and accuracy against the size of a constant."""
    figure, (left, right) = plotting.new_figure(1, 2, figsize=(6.2, 3.0))
    for values, name, colour in zip(bos, ("slow", "fast"), (plotting.COLOURS["state +"], "0.7"), strict=True):
        options = dict(density=True, histtype="stepfilled", alpha=0.75, color=colour, label=name)
        left.hist(values, bins=np.linspace(0, 1, 41), **options)
    left.set(xlabel="weight $p_0$ of bos", ylabel="density", yticks=[])
    left.legend()
    value, uncertainty = plotting.mean_and_error(with_constant)
    style = dict(fmt="o-", color=plotting.COLOURS["good"], markersize=4, capsize=2)
    right.errorbar(_CONSTANTS, value, uncertainty, **style)
    right.axvline(_CONSTANTS[3], linestyle=":", color="#777777")
    right.axhline(0.5, linestyle="--", color="#777777", linewidth=1)
    right.set(xscale="log", xlabel="size of the constant", ylabel="test accuracy")


def parts_table(by_part, with_constant):
    """Table of accuracies from parts of the good path's features."""
    names = [*parts_of(jnp.zeros((1, 1, 3)), 1), "tokens and a constant of 0.18", "tokens and a constant of 30"]
    columns = np.concatenate([by_part, with_constant[:, [3, -1]]], axis=1)
    rows = zip(names, *plotting.mean_and_error(columns), strict=True)
    head = "features of the good path", "test accuracy"
    return tables.table(head, [(name, tables.with_error(*one)) for name, *one in rows])


def keep_parts(by_part, with_constant, bos, as_written: bool) -> None:
    """Glue what the good path uses."""
    for name, values in zip(("slow", "fast"), bos, strict=True):
        pages.glue(f"task_bos_{name}", values.mean())
    cuts = np.linspace(0, 1, 201)
    right = max(np.mean([np.mean(bos[0] < cut), np.mean(bos[1] > cut)]) for cut in cuts)
    pages.glue("task_bos_alone", float(right))
    if as_written:
        everything, entry, others, positions, tokens = by_part.mean(axis=0)
        assert abs(everything - entry) < 0.01 and tokens < 0.55 and others < 0.6 and positions < 0.8
        assert with_constant[:, 3].mean() < 0.6 and with_constant[:, -1].mean() > everything + 0.01
