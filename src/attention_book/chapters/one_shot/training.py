"""Task and training."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import statmech_attention as sma
from attention_book import plotting, results, tasks
from attention_book.notebooks import pages, tables
from attention_book.tasks._sequences import normalised_patches
from attention_book.training.path_form import initial, outputs
from statmech_attention.layers import chain
from statmech_attention.plotting.style import MUTED

_SHADES = (MUTED["indigo"], MUTED["cyan"], MUTED["teal"], MUTED["rose"], MUTED["purple"], MUTED["green"])


def sequences(suite, key, columns: int = 2):
    """Figure: test sequences of every data set with their answers."""
    rows = len(suite.test_sets)
    figure, axes = plotting.new_figure(rows, columns, figsize=(6.2, 1.35 * rows))
    for row, (name, test_set), one in zip(axes, suite.test_sets.items(), jax.random.split(key, rows), strict=True):
        sample = suite.test(one, columns, name)
        for panel, drawings, first, label in zip(row, *sample.sequences, strict=True):
            plotting.one_shot_sequence(test_set.task.images.grey(drawings), first, axes=panel, answer=label)
        row[0].set_title(name, loc="left")


def token_error(suite, sample) -> float:
    """Largest difference between the inputs and the formula for a token."""
    count, compact = len(sample.labels), suite.task.compact
    grey = suite.task.images.grey(sample.sequences.drawings)
    patches = grey.reshape(count, 3, 4, 8, 4, 8).swapaxes(3, 4).reshape(count, 48, 64)
    patches = patches - patches.mean(axis=-1, keepdims=True)
    patches = patches / np.sqrt((patches**2).mean(axis=-1, keepdims=True) + suite.task.epsilon)
    signs = np.asarray(sample.sequences.first)[:, None, None] * np.asarray(compact.signs)[:, None]
    by_hand = np.repeat(patches, 3, axis=-1) + np.asarray(compact.constants) + signs * np.asarray(compact.difference)
    return float(np.abs(by_hand - sample.inputs).max())


def baselines(suite, key, examples: int, test_examples: int, draws: int) -> dict:
    """Accuracies of uniform attention and of the nearest image, `(draws,)` each, by test set."""

    def mean_token(inputs):
        return sma.AttentionedInputs(inputs.mean(axis=1)[:, None, :], layers=(1,))

    found: dict = {name: ([], []) for name in suite.test_sets}
    for one in jax.random.split(key, draws):
        train_key, test_key = jax.random.split(one)
        train = suite.train(train_key, examples)
        problem = sma.Problem(mean_token(train.inputs), train.labels, temperature=1.0)
        for name, test_set in suite.test_sets.items():
            test = suite.test(test_key, test_examples, name)
            mean = sma.predict(problem, mean_token(test.inputs), jnp.ones((1, 1))).mean
            found[name][0].append(float(sma.accuracy(mean, test.labels)))
            found[name][1].append(float(np.mean(_nearest(test_set.task, test.sequences) == test.labels)))
    return {name: tuple(map(np.array, rows)) for name, rows in found.items()}


def _nearest(task, sequences):
    """Sign of the labelled image that has the larger correlation with the third."""
    images = task.images.grey(sequences.drawings)
    images = (images - images.mean(axis=(2, 3), keepdims=True)).reshape(len(images), 3, -1)
    images /= np.linalg.norm(images, axis=-1, keepdims=True)
    return np.sign(np.sum((images[:, 0] - images[:, 1]) * images[:, 2], axis=-1)) * np.asarray(sequences.first)


def baselines_table(found):
    """Table of `baselines`."""
    rows = [
        (name, *("{:.1f} ± {:.1f}".format(*plotting.mean_and_error(100 * one)) for one in rows))
        for name, rows in found.items()
    ]
    return tables.table(("test set", "uniform attention, %", "nearest image, %"), rows)


def recorded_accuracies(networks, folder: str) -> dict:
    """Accuracies on test sequences of every data set from the records of pruning, by network."""
    paths = {name: Path(folder) / f"pruning-{name}.nc" for name in networks}
    return {name: results.load(path)[["accuracy", "accuracy_error"]] for name, path in paths.items() if path.exists()}


def keep_setting(facts, folder: str) -> None:
    """Glue how the first network was trained, and on how many sequences it is tested."""
    name, first = next(iter(facts.items()))
    asked = first["parameters"]
    rate = pages.in_powers(asked["learning_rate"], 1)
    tests = results.record(Path(folder) / f"pruning-{name}.nc")["parameters"]["test_examples"]
    shown = {"width": asked["width"], "epochs": asked["epochs"], "batch": asked["batch"], "rate": rate}
    for key, value in (shown | {"tests": f"{tests:,}"}).items():
        pages.glue(f"train_{key}", value)


def networks_table(networks, facts, recorded):
    """Table of the trained networks: weight decay, minutes, accuracies."""
    sets = [str(name) for name in next(iter(recorded.values()))["test_set"].values] if recorded else []
    rows = []
    for name in networks:
        made, cells = facts[name], [""] * len(sets)
        if name in recorded:
            pairs = zip(recorded[name]["accuracy"].values, recorded[name]["accuracy_error"].values, strict=True)
            cells = [f"{100 * value:.1f} ± {100 * error:.1f}" for value, error in pairs]
        decay = made["parameters"]["weight_decay"]
        rows.append((name, pages.in_powers(decay, 1) if decay else "0", f"{made['wall_seconds'] / 60:.0f}", *cells))
    return tables.table(("network", "decay", "minutes", *sets), rows)


def learning_curves(networks, facts):
    """Figure: validation accuracy against training step."""
    figure, axes = plotting.new_figure(figsize=(6.2, 3.8))
    for number, (name, network) in enumerate(networks.items()):
        decay, validation = facts[name]["parameters"]["weight_decay"], network.curve[:, 4]
        style = {"color": _SHADES[number % len(_SHADES)], "label": name + ("" if decay else ", no decay")}
        axes.plot(network.curve[:, 0], validation, "-" if decay else "--", **style)
        axes.plot(network.best_step, validation.max(), "x", color="black", zorder=3)
    axes.set(xlabel="step", ylabel="validation accuracy")
    plotting.legend_above(axes, columns=3)


class Forms:
    """The network's output in path form and layer by layer, on glyphs."""

    def __init__(self, seed: int):
        self.seed, self.task = seed, tasks.OneShot(tasks.glyphs(classes=40, drawings=8))

    def batch(self, count: int):
        """Labels, first signs and patches of drawn sequences, and their tokens."""
        keys = jax.random.key(self.seed + 1), jax.random.key(self.seed)
        classes = jax.random.randint(keys[0], (count, 2), 0, 20, dtype=jnp.int32)
        drawn = self.task.sequences(keys[1], classes * 2 + jnp.array([0, 1]))
        patches = normalised_patches(self.task.compact, drawn.drawings, jnp.float32)
        return drawn, patches, self.task.inputs(drawn).astype(jnp.float32)

    def losses(self, count: int) -> tuple:
        """Squared errors of both forms as functions of the trained arrays, by layers first."""
        drawn, patches, tokens = self.batch(count)

        def by_paths(parameters):
            heads = chain([len(values) for values in parameters.values])
            return outputs(parameters, self.task.compact, patches, drawn.first, heads)

        def by_layers(parameters):
            attention = sma.attention_from_queries_and_keys(parameters.queries, parameters.keys)
            return sma.forward(parameters.weights(), tokens, attention, readout="mean")

        return tuple(
            lambda parameters, form=form: jnp.mean((form(parameters) - drawn.labels) ** 2)
            for form in (by_layers, by_paths)
        )

    def gradient_error(self) -> float:
        """Largest relative difference of a gradient between the two forms."""
        parameters = initial(jax.random.key(self.seed), (4, 4), 64, 32, self.task.features)
        one, other = (jax.tree.leaves(jax.jit(jax.grad(loss))(parameters)) for loss in self.losses(16))
        norms = (jnp.linalg.norm(a - b) / jnp.linalg.norm(b) for a, b in zip(one, other, strict=True))
        return max(map(float, norms))

    def operations(self, heads, width: int, dimension: int) -> list[float]:
        """Floating-point operations per sequence for a gradient, layer by layer and in path form."""
        shapes = jax.eval_shape(lambda: initial(jax.random.key(0), heads, width, dimension, self.task.features))
        costs = [jax.jit(jax.grad(loss)).lower(shapes).cost_analysis() for loss in self.losses(16)]
        return [dict(cost or {})["flops"] / 16 for cost in costs]

    def pulls(self, heads, decay: float) -> float:
        """Gradient of the last layer's queries over the decay's pull on them, before training."""
        start = initial(jax.random.key(self.seed), heads, 512, 128, self.task.features)
        gradient = jax.jit(jax.grad(self.losses(128)[1]))(start)
        return root_mean_square(gradient.queries[-1]) / (decay * root_mean_square(start.queries[-1]))


def root_mean_square(array) -> float:
    """Root of the mean of the squares."""
    return float(jnp.sqrt(jnp.mean(jnp.asarray(array) ** 2)))


def operations_table(forms: Forms):
    """Table of operations of both forms at the paper's sizes; glue the smallest ratio."""
    rows, ratios = [], []
    for heads, dimension in [((4, 4), 128), ((3, 3, 3), 128), ((8, 8), 64)]:
        counts = forms.operations(heads, 512, dimension)
        ratios.append(counts[0] / counts[1])
        numbers = (f"{count / 1e6:.0f} million" for count in counts)
        rows.append((f"$L$ = {len(heads)}, $H$ = {heads[0]}", *numbers, f"{ratios[-1]:.0f}"))
    pages.glue("train_ratio", min(ratios))
    assert min(ratios) > 20
    return tables.table(("network", "layer by layer", "in path form", "ratio"), rows)


def collapse(collapsed, free):
    """Figure: loss and validation accuracy of the first epoch with decay (solid) and without (dotted)."""
    figure, panels = plotting.new_figure(1, 2, figsize=(6.2, 2.8))
    last = max((network.curve[-1, 0] for network in collapsed.values()), default=5000)
    for panel, column, name in zip(panels, (1, 4), ("training loss", "validation accuracy"), strict=True):
        for network in collapsed.values():
            panel.plot(network.curve[:, 0], network.curve[:, column], color=MUTED["purple"])
        early = free.curve[free.curve[:, 0] <= last]
        panel.plot(early[:, 0], early[:, column], ":", color=MUTED["purple"])
        panel.set(xlabel="step", ylabel=name)


def keep_collapse(collapsed) -> None:
    """Glue how far the networks with decay have collapsed."""
    for path, lost in collapsed.items():
        made = results.record(path)["parameters"]
        start = initial(jax.random.key(made["seed"]), lost.layers, lost.width, made["dimension"], 192)
        left = root_mean_square(lost.queries[-1]) / root_mean_square(start.queries[-1])
        assert abs(lost.curve[-1, 1] - 1) < 0.01 and abs(lost.curve[-1, -1] - 0.5) < 0.02 and left < 0.1
    accuracies = [100 * lost.curve[-1, -1] for lost in collapsed.values()]
    pages.glue("train_decayed", len(collapsed))
    pages.glue("train_collapsed", " and ".join(f"{value:.1f}" for value in accuracies) or "(not recorded)")


def attended(network, suite, sample):
    """Figure: attention that each patch gets from all queries, in every head, for one sequence."""
    images, matrices = suite.task.images.grey(sample.sequences.drawings[0]), network.attention(sample.inputs)
    heads = [(layer, head) for layer, count in enumerate(network.layers) for head in range(count)]
    rows = -(-len(heads) // 2)
    figure, axes = plotting.new_figure(rows, 2, figsize=(6.2, 1.35 * rows))
    for panel, (layer, head) in zip(axes.flat, heads, strict=False):
        weights = matrices[layer][0, head].mean(axis=1)
        title = f"head ({layer + 1},{head + 1})"
        plotting.attended(images, weights, axes=panel, patch=suite.task.patch, title=title)
